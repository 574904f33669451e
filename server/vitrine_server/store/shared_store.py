"""A store that the processes of a cluster share: each explanation is made by one of them at a time, and by another if that one is gone.

A process claims an explanation for some seconds, and renews the claim while it works on it. Only the process with the claim can store the
explanation, so that two never write the same one. An explanation that waits in a process which takes requests is claimed in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Select, bindparam, func, null, or_, select, update

from vitrine_server.http.visitors import Visitor
from vitrine_server.json_text import json_text
from vitrine_server.settings import Settings
from vitrine_server.store.database import Database, open_database
from vitrine_server.store.store import SAVED, Store, created, document_of, visitor_of_row
from vitrine_server.store.tables import EXPLANATIONS, Now, Utf8

#: Seconds for which a claim holds that is not renewed: so long an explanation waits whose process is gone.
CLAIM_SECONDS = 10.0
#: Number of processes that may end while they make an explanation, before it counts as the reason and fails.
MOST_ATTEMPTS = 2
_ROW = EXPLANATIONS.c
_IS_IT = _ROW.id == bindparam("one")
_IS_UNFINISHED = _ROW.state.in_(("queued", "running"))
_IS_MINE = (_ROW.claimed_by == bindparam("me")) & _IS_UNFINISHED
_IS_UNCLAIMED = _IS_UNFINISHED & or_(_ROW.claimed_by.is_(None), _ROW.claimed_until < Now())
_UNTIL = Now() + CLAIM_SECONDS
_CLAIM = (
    update(EXPLANATIONS)
    .where(_IS_IT, _IS_UNCLAIMED)
    .values(claimed_by=bindparam("me"), claimed_until=_UNTIL, attempts=_ROW.attempts + 1)
    .returning(_ROW.attempts)
)
_RENEW = update(EXPLANATIONS).where(_IS_MINE).values(claimed_until=_UNTIL).returning(_ROW.id, _ROW.wish)
_RELEASE = update(EXPLANATIONS).where(_IS_MINE).values(state="queued", claimed_by=null(), claimed_until=null(), attempts=_ROW.attempts - 1)
_SAVE = update(EXPLANATIONS).where(_IS_IT, _IS_MINE).values(**SAVED)
_IS_WAITING = (_ROW.state == "queued") & _ROW.claimed_by.is_(None)
_WAITING = select(_ROW.owner, _ROW.turn, _ROW.address, Utf8(_ROW.document)).where(_IS_WAITING).order_by(_ROW.number)
_TAKEABLE = select(_ROW.id, Utf8(_ROW.document)).where(_IS_UNCLAIMED).order_by(_ROW.number)
_IS_ABANDONED = _IS_UNFINISHED & or_(_ROW.claimed_until.is_(None), _ROW.claimed_until < Now())
_ABANDONED = select(_ROW.id, Utf8(_ROW.document)).where(_IS_ABANDONED).order_by(_ROW.number)
_LOCKED = select(Utf8(_ROW.document), _ROW.claimed_by, _ROW.wish, _ROW.state).where(_IS_IT).with_for_update()
_END = update(EXPLANATIONS).where(_IS_IT, _IS_UNCLAIMED).values(**SAVED)
_STAMP = select(_ROW.state, func.length(_ROW.document)).where(_IS_IT)


class SharedStore(Store):
    """A :class:`Store` in ``database`` that several processes use; ``name`` identifies this process."""

    def __init__(self, database: Database, name: str, keep: int, keep_age: timedelta = timedelta(0), keep_bytes: int = 0) -> None:
        super().__init__(database, keep, keep_age, keep_bytes)
        self.name = name

    # --- for those that make explanations ----------------------------------------------------------------------------------

    def claim(self, explanation_id: str) -> int | None:
        """Claim the explanation with this id if no other process has it; return how many processes have begun with it so far, None if it
        cannot be claimed.
        """
        with self._writing() as db:
            attempts = db.execute(_CLAIM, {"one": explanation_id, "me": self.name}).scalar()
        return None if attempts is None else int(attempts)

    def takeable(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the unfinished explanations that no process has claimed, oldest first: id and document."""
        return self._unfinished(_TAKEABLE)

    def renew(self) -> dict[str, dict[str, Any]]:
        """Renew the claims of this process; return the id of each claimed explanation with the wishes of its visitor, see :meth:`ask`."""
        with self._writing() as db:
            rows = db.execute(_RENEW, {"me": self.name}).all()
        return {explanation_id: _wish(wish) for explanation_id, wish in rows}

    def release(self) -> None:
        """Release the explanations that this process has claimed, as if it had not begun with them."""
        with self._writing() as db:
            db.execute(_RELEASE, {"me": self.name})

    def save(self, document: Mapping[str, Any], images: Mapping[str, bytes] | None = None, key: str | None = None) -> None:
        """Save the explanation ``document`` with its ``images`` and the ``key`` of its question as :meth:`Store.save` does, if this process
        has claimed it; otherwise do nothing.

        Its title in the store is kept, since visitors rename explanations there.
        """
        with self._writing() as db:
            row = db.execute(_LOCKED, {"one": document["id"]}).first()
            if row is None:
                return
            named = (document_of(document["id"], row[0]) or {}).get("title")
            stored = {name: value for name, value in document.items() if name != "title"} | ({} if named is None else {"title": named})
            values = {"one": document["id"], "now": document["state"], "text": json_text(stored), "key": key, "me": self.name}
            if db.execute(_SAVE, values).rowcount:
                self._put(db, document["id"], images or {})

    # --- for those that take requests --------------------------------------------------------------------------------------

    def waiting(self) -> list[tuple[Visitor, str | None]]:
        """Return the explanations that wait, oldest first: for each the visitor who asked and the time when it was asked for (ISO 8601)."""
        with self._reading() as db:
            rows = db.execute(_WAITING).all()
        return [(visitor_of_row(row[:3]), created(row[3])) for row in rows]

    def count_before(self, explanation_id: str) -> int:
        """Return the number of waiting explanations that were stored before the one with this id."""
        mine = select(_ROW.number).where(_ROW.id == explanation_id).scalar_subquery()
        query = select(func.count()).select_from(EXPLANATIONS)
        return int(self._value(query.where(_IS_WAITING, _ROW.number < mine)))

    def stamp(self, explanation_id: str) -> tuple[str, int] | None:
        """Return a value that changes whenever the explanation with this id does: its state and the length of its document; None if there
        is none.
        """
        with self._reading() as db:
            row = db.execute(_STAMP, {"one": explanation_id}).first()
        return None if row is None else (str(row[0]), int(row[1]))

    def hold(self, ids: Iterable[str]) -> None:
        """Mark the unfinished explanations with these ids as held, because this process has sent them to a replica: for some time no other
        process sends them again.
        """
        if held := list(ids):
            with self._writing() as db:
                is_held = _ROW.id.in_(held) & _IS_UNFINISHED & _ROW.claimed_by.is_(None)
                db.execute(update(EXPLANATIONS).where(is_held).values(claimed_until=_UNTIL))

    def list_abandoned(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the unfinished explanations whose process is gone, oldest first: id and document."""
        return self._unfinished(_ABANDONED)

    def _unfinished(self, query: Select[Any]) -> list[tuple[str, dict[str, Any]]]:
        with self._reading() as db:
            rows = db.execute(query).all()
        return [(explanation_id, {**self._readable(explanation_id, stored), "id": explanation_id}) for explanation_id, stored in rows]

    def end_waiting(self, explanation_id: str, state: str, problem: Mapping[str, Any] | None = None) -> bool:
        """Set the final ``state``, and the ``problem`` of a failed one, of the explanation with this id if no process has claimed it;
        return False if one has, or if it has ended.
        """
        with self._writing() as db:
            row = db.execute(_LOCKED, {"one": explanation_id}).first()
            if row is None or row.state not in ("queued", "running"):
                return False
            document = {**(document_of(explanation_id, row[0]) or {}), "state": state, **({} if problem is None else {"problem": problem})}
            values = {"one": explanation_id, "now": state, "text": json_text(document), "key": None}
            return db.execute(_END, values).rowcount > 0

    def ask(self, explanation_id: str, **wish: Any) -> bool:
        """Record a wish for the process that works on the explanation with this id: ``end`` is "cancel" or "stop", ``order`` lists the
        methods to make first. Returns False if the explanation has ended or does not exist.
        """
        with self._writing() as db:
            row = db.execute(_LOCKED, {"one": explanation_id}).first()
            if row is None or row.state not in ("queued", "running"):
                return False
            text = json_text({**_wish(row.wish), **wish})
            db.execute(update(EXPLANATIONS).where(_IS_IT).values(wish=text), {"one": explanation_id})
            return True


def open_shared_store(settings: Settings, name: str) -> SharedStore:
    """Open the store that ``settings`` name for the process ``name`` of a cluster. Raises StoreError, see
    :func:`vitrine_server.store.database.open_database`.
    """
    database = open_database(settings, is_shared=True)
    return SharedStore(database, name, settings.keep, timedelta(days=settings.keep_days), int(settings.keep_mb * 1e6))


def _wish(text: str | None) -> dict[str, Any]:
    wish = json.loads(text or "{}")
    return wish if isinstance(wish, dict) else {}

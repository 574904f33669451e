"""Explanations that outlive the process, in a SQLite file or in PostgreSQL."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, Text, bindparam, case, delete, exists, func, insert, literal, select, update
from sqlalchemy.sql.dml import ReturningDelete

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import NOBODY, Visitor
from vitrine_server.json_text import NotJsonError, decode_json, json_text
from vitrine_server.settings import Settings
from vitrine_server.store.database import Database, StoreFault, open_database
from vitrine_server.store.stored_files import DAMAGED
from vitrine_server.store.tables import EXPLANATIONS, FINAL, IMAGES, METADATA, UPLOADS, Utf8, new_identity

log = logging.getLogger(__name__)
_DISK_FULL_STATUS = 507
_TRIAL_BYTES = 1_000_000  # so much has to fit before the store is said to take anything again
_ROW = EXPLANATIONS.c
_STORED = Utf8(_ROW.document)

#: What is set when an explanation is saved: its asker is forgotten once it has ended.
SAVED = {
    "state": bindparam("now", type_=Text),
    "document": bindparam("text"),
    "content_key": func.coalesce(bindparam("key", type_=Text), _ROW.content_key),
    **{name: case((bindparam("now", type_=Text).in_(FINAL), ""), else_=_ROW[name]) for name in ("turn", "address")},
}

# What is asked and written often is put together once: that takes longer than SQLite's answer.
_IS_IT = _ROW.id == bindparam("one")
_NEWEST = select(func.coalesce(func.max(_ROW.number), 0))
_DOCUMENT = select(_STORED).where(_IS_IT)
_OWNER = select(_ROW.owner).where(_IS_IT)
_ASKER = select(_ROW.owner, _ROW.turn, _ROW.address).where(_IS_IT)
_UPLOAD = select(UPLOADS.c.data).join_from(EXPLANATIONS, UPLOADS).where(_IS_IT)
_FILE = select(IMAGES.c.data).where(IMAGES.c.id == bindparam("one"), IMAGES.c.name == bindparam("name"))
_FINISHED = select(_ROW.id, _STORED).where(_ROW.content_key == bindparam("key"), _ROW.state == "done").order_by(_ROW.number.desc())
_FINISHED_BY = _FINISHED.where(_ROW.owner == bindparam("owner"))
_ADD = insert(EXPLANATIONS)
_SET_UPLOAD = update(EXPLANATIONS).where(_IS_IT).values(upload=bindparam("digest"))
_SET_DOCUMENT = update(EXPLANATIONS).where(_IS_IT).values(document=bindparam("text"))
_SAVE = update(EXPLANATIONS).where(_IS_IT).values(**SAVED)
_BEYOND = delete(EXPLANATIONS).where(_ROW.number <= bindparam("last"), _ROW.state.in_(FINAL)).returning(_ROW.upload)
_FORGET = delete(EXPLANATIONS).where(_IS_IT).returning(_ROW.upload)
_FORGET_UPLOAD = delete(UPLOADS).where(UPLOADS.c.digest == bindparam("digest"), ~exists().where(_ROW.upload == UPLOADS.c.digest))
_NEXT_FINAL = (
    select(_ROW.id, _ROW.number, _STORED).where(_ROW.number > bindparam("after"), _ROW.state.in_(FINAL)).order_by(_ROW.number).limit(1)
)


class Store:
    """The stored explanations and their files. Any thread may call.

    database  the database in which they are
    fault     why the last thing could not be stored; None if it was
    """

    def __init__(self, database: Database, keep: int, keep_age: timedelta = timedelta(0), keep_bytes: int = 0) -> None:
        """Use a database and set its limits: the newest ``keep`` explanations are kept, of these only those younger than ``keep_age`` and
        within ``keep_bytes`` in total, unless these are 0.
        """
        self.database = database
        self._keep, self._keep_age, self._keep_bytes = keep, keep_age, keep_bytes
        self.fault: str | None = None
        self._put_upload = database.insert(UPLOADS).on_conflict_do_nothing()
        put = database.insert(IMAGES)
        self._put_files = put.on_conflict_do_update(index_elements=["id", "name"], set_={"data": put.excluded.data})

    @contextmanager
    def _writing(self, *, alone: bool = False) -> Iterator[Connection]:
        """Open a context with a connection in a transaction that changes the store; with ``alone`` no other process adds or removes rows
        meanwhile. Raises Problem 507 if the disk is full, 503 if it fails otherwise.
        """
        with self._transaction(writes=True, alone=alone) as db:
            yield db
        self.fault = None

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Open a context with a connection in a transaction that reads the store. Raises Problem 503 if it cannot be read."""
        with self._transaction(writes=False) as db:
            yield db

    @contextmanager
    def _transaction(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        with self._faults(writes=writes), self.database.begin(writes=writes, alone=alone) as db:
            yield db

    @contextmanager
    def _faults(self, *, writes: bool) -> Iterator[None]:
        """Turn a fault of the database inside this context into a Problem, and remember it; ``writes`` says whether the context writes."""
        try:
            yield
        except StoreFault as fault:
            self.fault = str(fault)
            log.error("the store: %s (%s)", fault, fault.__cause__)
            if fault.is_lost:
                send = "Ask whoever runs the server to start it again."
                raise Problem(503, "store-failed", f"The stored data cannot be read: {fault}.", send=send) from None
            send = "Send the same request again once there is room; whoever runs the server can make some."
            if not fault.is_full:
                send = "Send the same request again later; whoever runs the server finds the reason in its log."
            status, slug = (_DISK_FULL_STATUS, "disk-full") if fault.is_full else (503, "store-failed")
            detail = f"Nothing can be {'stored' if writes else 'read'}: {fault}."
            raise Problem(status, slug, detail, send=send) from None

    def unfinished(self) -> list[tuple[dict[str, Any], str]]:
        """List the explanations that are not finished, oldest first, each with its state, queued or running.

        A document that cannot be read is moved to a file of the explanation, and only its id is returned.
        """
        query = select(_ROW.id, _ROW.state, _STORED).where(_ROW.state.in_(("queued", "running"))).order_by(_ROW.number)
        with self._reading() as db:
            rows = db.execute(query).all()
        return [({**self._readable(explanation_id, stored), "id": explanation_id}, state) for explanation_id, state, stored in rows]

    def _readable(self, explanation_id: str, stored: bytes | None) -> dict[str, Any]:
        try:
            return _document(stored or b"")
        except NotJsonError as error:  # one bad row keeps no server from starting
            log.warning("explanation %s in the store cannot be read (%s): what is stored of it is put aside", explanation_id, error)
            with suppress(Problem):  # a full disk
                self.put_file(explanation_id, DAMAGED, stored or b"")
            return {"created": datetime.now(UTC).isoformat(timespec="milliseconds"), "maps": []}

    def put_file(self, explanation_id: str, name: str, data: bytes) -> None:
        """Store the bytes ``data`` as the file ``name`` of the explanation with this id."""
        with self._writing() as db:
            self._put(db, explanation_id, {name: data})

    def check(self) -> str | None:
        """Return the reason why nothing can be stored; None if the last write, or a new try after a failed one, succeeded."""
        if self.fault is not None and not self.database.is_broken:
            with suppress(Problem), self._writing(alone=True) as db:
                db.execute(insert(UPLOADS).values(digest="trial", data=bytes(_TRIAL_BYTES)))
                db.execute(delete(UPLOADS).where(UPLOADS.c.digest == "trial"))
        return self.fault

    def add(
        self,
        document: Mapping[str, Any],
        images: Mapping[str, bytes],
        upload: bytes | None = None,
        owner: str = "",
        asker: Visitor = NOBODY,
    ) -> None:
        """Store a new explanation, ``document``, of ``owner`` with its ``images`` (files by name) and the uploaded file ``upload``; the
        oldest ones over the limits are deleted. The turn and the IP address of its ``asker`` are kept until it has ended.
        """
        with self._writing(alone=True) as db:
            number = int(db.execute(_NEWEST).scalar_one()) + 1
            values = {"id": document["id"], "number": number, "state": document["state"], "document": json_text(document)}
            db.execute(_ADD, {**values, "owner": owner, "turn": asker.turn, "address": asker.address})
            if upload is not None:
                self._keep_upload(db, document["id"], upload)
            self._put(db, document["id"], images)
            self._forget_old(db, number)

    def forget_old(self) -> None:
        """Delete the explanations that are over the limits by now, and return their space to the disk."""
        with suppress(Problem):  # a full disk
            with self._writing(alone=True) as db:
                count = self._forget_old(db, int(db.execute(_NEWEST).scalar_one()))
            if count:
                self.database.give_back()

    def _forget_old(self, db: Connection, newest: int) -> int:
        """Delete the explanations that are over the limits on number, age and size, over the connection ``db``; ``newest`` is the number of
        the newest explanation. Return how many were deleted.
        """
        count = _forget(db, _BEYOND, {"last": newest - self._keep})
        before = (datetime.now(UTC) - self._keep_age).isoformat(timespec="milliseconds") if self._keep_age else ""
        number = -1
        while (before or self._is_large(db)) and (row := db.execute(_NEXT_FINAL, {"after": number}).first()):
            explanation_id, number, stored = row
            made = created(stored)
            if self._is_large(db) or (made is not None and made < before):
                count += _forget(db, _FORGET, {"one": explanation_id})
            elif made is not None:
                break
        return count

    def _is_large(self, db: Connection) -> bool:
        """Return whether the store takes more bytes than ``keep_bytes``; ``db`` is the connection to its database."""
        return bool(self._keep_bytes) and self.database.size(db) > self._keep_bytes

    def copy(self, explanation_id: str, key: str, owner: str) -> str | None:
        """Store a copy of the finished explanation with this id for ``owner``, with a new id, the ``key`` of its question and without its
        title; return its id, None if the original is gone.
        """
        document = self.document(explanation_id)
        if document is None:
            return None
        with self._reading() as db:
            images = dict(db.execute(select(IMAGES.c.name, IMAGES.c.data).where(IMAGES.c.id == explanation_id)).all())
        copied = {name: value for name, value in document.items() if name != "title"} | new_identity()
        self.add(copied, images, self.upload(explanation_id), owner)
        self.save(copied, key=key)
        return str(copied["id"])

    def keep_upload(self, explanation_id: str, upload: bytes) -> None:
        """Store ``upload``, the uploaded file of the explanation with this id, which has none."""
        with self._writing(alone=True) as db:
            self._keep_upload(db, explanation_id, upload)

    def _keep_upload(self, db: Connection, explanation_id: str, upload: bytes) -> None:
        digest = hashlib.sha256(upload).hexdigest()
        db.execute(self._put_upload, {"digest": digest, "data": upload})
        db.execute(_SET_UPLOAD, {"one": explanation_id, "digest": digest})

    def save(self, document: Mapping[str, Any], images: Mapping[str, bytes] | None = None, key: str | None = None) -> None:
        """Replace the document of a stored explanation by ``document``, which names its id, set the ``key`` of its question, and add
        ``images``, files by name; do nothing if it was deleted meanwhile.
        """
        values = {"one": document["id"], "now": document["state"], "text": json_text(document), "key": key}
        with self._writing() as db:
            if db.execute(_SAVE, values).rowcount:
                self._put(db, document["id"], images or {})

    def rename(self, explanation_id: str, title: str | None) -> dict[str, Any] | None:
        """Set the title of the stored explanation with this id, or remove it (None); return its document, or None if there is no such
        explanation.
        """
        with self._writing() as db:
            document = document_of(explanation_id, db.execute(_DOCUMENT.with_for_update(), {"one": explanation_id}).scalar())
            if document is None:
                return None
            document.pop("title", None)
            if title is not None:
                document["title"] = title
            db.execute(_SET_DOCUMENT, {"one": explanation_id, "text": json_text(document)})
            return document

    def _put(self, db: Connection, explanation_id: str, images: Mapping[str, bytes]) -> None:
        if images:
            db.execute(self._put_files, [{"id": explanation_id, "name": name, "data": data} for name, data in images.items()])

    def document(self, explanation_id: str) -> dict[str, Any] | None:
        """Return the document (JSON) of the stored explanation with this id, or None. Raises Problem 500 if it cannot be read."""
        return document_of(explanation_id, self._value(_DOCUMENT, one=explanation_id))

    def file(self, explanation_id: str, name: str) -> bytes | None:
        """Return the file ``name`` that was stored with the explanation with this id (``input.png``, ``original.jpg``, or one of
        ``stored_files``), or None.
        """
        value = self._value(_FILE, one=explanation_id, name=name)
        return None if value is None else bytes(value)

    def upload(self, explanation_id: str) -> bytes | None:
        """Return the file that was uploaded for the explanation with this id; None for a text, and for explanations of before uploads were
        kept.
        """
        value = self._value(_UPLOAD, one=explanation_id)
        return None if value is None else bytes(value)

    def owner(self, explanation_id: str) -> str | None:
        """Return the owner of a stored explanation, "" if it has none; None for an unknown id."""
        owner = self._value(_OWNER, one=explanation_id)
        return None if owner is None else str(owner)

    def asker(self, explanation_id: str) -> Visitor:
        """Return the visitor who asked for the unfinished explanation with this id; NOBODY for an unknown id."""
        with self._reading() as db:
            row = db.execute(_ASKER, {"one": explanation_id}).first()
        return NOBODY if row is None else visitor_of_row(row)

    def finished(self, key: str, owner: str | None = None) -> str | None:
        """Return the id of a readable finished explanation with this content key (of this owner, if given), or None."""
        with self._reading() as db:
            for explanation_id, stored in db.execute(_FINISHED if owner is None else _FINISHED_BY, {"key": key, "owner": owner}):
                with suppress(NotJsonError):
                    if {"input", "targets"} <= set(_document(stored)):
                        return str(explanation_id)
        return None

    def merge(self, table: str, row: Mapping[str, Any]) -> bool:
        """Add ``row``, of the table ``table`` in another store, possibly of an older version; return False if the row exists already, or if
        it is an image whose explanation does not exist.
        """
        into = METADATA.tables[table]
        taken = {name: value for name, value in row.items() if name in into.c}
        with self._writing(alone=True) as db:
            if table == "images" and db.execute(_OWNER, {"one": row["id"]}).scalar() is None:
                return False
            upload = taken.get("upload")
            if upload and db.execute(select(UPLOADS.c.digest).where(UPLOADS.c.digest == upload)).scalar() is None:
                taken["upload"] = None
            put = self.database.insert(into).values(**taken).on_conflict_do_nothing()
            return db.execute(put.returning(literal(1))).first() is not None

    def renumber(self) -> None:
        """Renumber the explanations by the time when they were made, after two stores were joined."""
        with self._writing(alone=True) as db:
            rows = list(db.execute(select(_ROW.id, _STORED).order_by(_ROW.number)))
            rows.sort(key=lambda row: created(row[1]) or "")
            for place, (explanation_id, _) in enumerate(rows, 1):
                db.execute(update(EXPLANATIONS).where(_ROW.id == explanation_id).values(number=place))

    def delete(self, explanation_id: str) -> bool:
        """Delete the explanation with this id, its images and, unless another one uses it, its upload; return False if there was none. On a
        full disk the database's reserve is used.
        """
        try:
            was_there = self._delete(explanation_id)
        except Problem as problem:
            if problem.status != _DISK_FULL_STATUS:
                raise
            with self._faults(writes=True), self.database.spare_room(explanation_id):
                return self._delete(explanation_id)
        if was_there:
            self.database.give_back()
        return was_there

    def _delete(self, explanation_id: str) -> bool:
        with self._writing(alone=True) as db:
            return _forget(db, _FORGET, {"one": explanation_id}) > 0

    def close(self) -> None:
        """Close the store's database."""
        self.database.close()

    def _value(self, query: Select[Any], **values: str) -> Any:
        """Run a query with these ``values`` and return the first value of its first row; None if there is no row."""
        with self._reading() as db:
            return db.execute(query, values).scalar()


def open_store(settings: Settings, is_shared: bool = False) -> Store:
    """Open the store that ``settings`` name; with ``is_shared`` other processes use it too. Raises StoreError, see
    :func:`open_database`.
    """
    database = open_database(settings, is_shared)
    return Store(database, settings.keep, timedelta(days=settings.keep_days), int(settings.keep_mb * 1e6))


def _forget(db: Connection, which: ReturningDelete[Any], values: Mapping[str, Any]) -> int:
    """Delete explanations with their files, and uploads that no other explanation uses; return how many explanations were deleted.
    ``which`` is the SQL statement that selects them with ``values``, ``db`` the connection.
    """
    uploads = db.execute(which, values).scalars().all()
    for digest in set(uploads) - {None}:
        db.execute(_FORGET_UPLOAD, {"digest": digest})
    return len(uploads)


def visitor_of_row(row: Sequence[str]) -> Visitor:
    """Return the visitor of a stored explanation, from its ``row``: owner, turn and IP address. Stores of before schema 6 have the owner
    only.
    """
    owner, turn, address = row
    return Visitor(owner, turn or owner, address)


def created(stored: bytes | None) -> str | None:
    """Return the time when a stored explanation was made, as ISO 8601; None if it cannot be read."""
    try:
        return str(_document(stored or b"")["created"])
    except (NotJsonError, KeyError):
        return None


def document_of(explanation_id: str, stored: bytes | None) -> dict[str, Any] | None:
    """Parse ``stored``, the stored JSON of the explanation with this id, and return it; None for None. Raises Problem 500 if it cannot be
    read.
    """
    if stored is None:
        return None
    try:
        return _document(stored)
    except NotJsonError as error:
        log.warning("explanation %s in the store cannot be read: %s", explanation_id, error)
        send = f"DELETE /api/explanations/{explanation_id} forgets it; then ask for it again."
        raise Problem(500, "damaged-explanation", "The stored explanation cannot be read.", send=send) from None


def _document(stored: bytes) -> dict[str, Any]:
    """Parse the stored text of an explanation and return the document. Raises NotJsonError if it is no explanation."""
    document = decode_json(stored, mend=True)
    if not isinstance(document, dict) or not {"id", "state"} <= set(document):
        raise NotJsonError("it is no explanation")
    return {**document, "maps": document.get("maps", [])}

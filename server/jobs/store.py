"""Explanations that outlive the process: one SQLite file, opened again at the next start."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from server.http.problems import Problem
from server.jobs.documents import new_identity
from server.json_text import NotJsonError, json_text, parsed_json

log = logging.getLogger(__name__)
SCHEMA_VERSION = 3
#: The file of an explanation that holds what the model was given, bit for bit.
TENSORS_FILE = "tensors.safetensors"
#: The file of an explanation that holds what was asked, but for the image.
QUESTION = "question.json"
#: The picture that an explained one is compared with, as it was sent.
REFERENCE = "reference"
#: The file of an explanation that holds what was stored of it and cannot be read.
DAMAGED = "damaged"
_TRIAL_BYTES = 1_000_000  # so much has to fit before the store is said to take anything again
_SCHEMA = """
CREATE TABLE explanations (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL,                -- order of arrival
    state TEXT NOT NULL,                    -- queued | running | done | failed | cancelled
    content_key TEXT,                       -- SHA-256 of what the answer depends on; NULL until the model's digest is known
    document TEXT NOT NULL                  -- the explanation as JSON
);
CREATE INDEX explanations_number ON explanations (number);
CREATE INDEX explanations_key ON explanations (content_key, state);
CREATE TABLE images (
    id TEXT NOT NULL REFERENCES explanations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,                     -- input.png, original.jpg, tensors.safetensors
    data BLOB NOT NULL,
    PRIMARY KEY (id, name)
);
"""
#: From schema 1 to 2: the uploads themselves, each once however many explanations it has, gone with the last of them.
_UPLOADS = """
CREATE TABLE uploads (
    digest TEXT PRIMARY KEY,                -- SHA-256
    data BLOB NOT NULL                      -- the file as it was sent
);
ALTER TABLE explanations ADD COLUMN upload TEXT REFERENCES uploads (digest);
CREATE INDEX explanations_upload ON explanations (upload);
CREATE TRIGGER forget_upload AFTER DELETE ON explanations
WHEN OLD.upload IS NOT NULL AND NOT EXISTS (SELECT 1 FROM explanations WHERE upload = OLD.upload)
BEGIN DELETE FROM uploads WHERE digest = OLD.upload; END;
"""
#: From schema 2 to 3: whose an explanation is.
_OWNERS = """
ALTER TABLE explanations ADD COLUMN owner TEXT NOT NULL DEFAULT '';  -- of a visitor, see server.http.visitors; '' is nobody
"""
_STEPS = (_SCHEMA, _UPLOADS, _OWNERS)  # to schema 1, 2, ...


_FINISHED = "state IN ('done', 'failed', 'cancelled')"


class StoreError(OSError):
    """The store cannot be opened; the message says what to do."""


class DamagedStoreError(sqlite3.DatabaseError):
    """What SQLite itself opens without complaint is damaged."""


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    damages = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    return isinstance(error, DamagedStoreError) or getattr(error, "sqlite_errorcode", None) in damages


class Store:
    """Explanations and their images. One connection behind a lock, so any thread may call."""

    def __init__(self, home: Path, keep: int, keep_age: timedelta = timedelta(0), keep_bytes: int = 0) -> None:
        """Open or create ``home/vitrine.sqlite``, which nobody but its owner can read. The newest ``keep`` explanations stay, of these
        what is younger than ``keep_age`` and fits into ``keep_bytes``, where these are not 0.

        Raises StoreError where the folder cannot be written, another server has it, or the file is not a store of this version.
        """
        self.path = home / "vitrine.sqlite"
        self._mark = home / "vitrine.damaged"  # the next start puts the file aside
        self._keep, self._keep_age, self._keep_bytes = keep, keep_age, keep_bytes
        self._lock = threading.RLock()
        self.fault: str | None = None  # why the last thing could not be stored
        self._owner = FileLock(home / "vitrine.lock", thread_local=False)  # or two servers would fail each other's explanations
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(home)
            self._owner.acquire(blocking=False)
            try:
                self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._put_aside(error)
                self._connect()
        except Timeout as error:
            raise StoreError(f"another server that is running has {home}; set VITRINE_HOME to another folder, or stop it first") from error
        except (OSError, sqlite3.Error) as error:
            self._owner.release()
            raise StoreError(f"the store {self.path} cannot be opened ({error}); set VITRINE_HOME to another folder") from error

    def _connect(self) -> None:
        self._db = sqlite3.connect(self.path, check_same_thread=False)
        if self._mark.exists():
            raise DamagedStoreError("a page of it could not be read")
        self._open()

    def _put_aside(self, error: Exception) -> None:
        """Rename a file that is no database, or a broken one, with what SQLite keeps beside it: another one is begun."""
        self._db.close()
        self._mark.unlink(missing_ok=True)
        mark = datetime.now(UTC).strftime("damaged-%Y%m%d-%H%M%S")
        for path in self.path.parent.glob(f"{self.path.name}*"):
            end = path.name.removeprefix(self.path.name)
            if end in ("", "-wal", "-shm"):  # which SQLite finds by the name of the file
                path.rename(path.with_name(f"{self.path.name}.{mark}{end}"))
        log.error("%s is damaged (%s): it is now %s.%s, and an empty store is begun", self.path, error, self.path.name, mark)

    def _open(self) -> None:
        self._db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a new file
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA foreign_keys=ON")
        self._db.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten in the file
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if 0 <= version < SCHEMA_VERSION:
            self._db.executescript(f"BEGIN; {' '.join(_STEPS[version:])} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
        elif version != SCHEMA_VERSION:
            self._db.close()
            raise StoreError(
                f"{self.path} was written by another version of Vitrine (schema {version}, this one reads {SCHEMA_VERSION}); "
                "move it away or set VITRINE_HOME to another folder"
            )
        verdict = self._db.execute("PRAGMA quick_check('explanations')").fetchone()[0]  # pictures would take seconds
        if verdict != "ok":
            raise DamagedStoreError(verdict)

    def unfinished(self) -> list[tuple[dict[str, Any], str]]:
        """The explanations that nobody has finished, oldest first, and whether each is queued or running.

        What is stored of one and cannot be read is put aside: it keeps its id alone.
        """
        query = "SELECT id, state, CAST(document AS BLOB) FROM explanations WHERE state IN ('queued', 'running') ORDER BY number"
        with self._reading():
            rows = self._db.execute(query).fetchall()
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
        """Keep a file with an explanation."""
        with self._writing():
            self._put(explanation_id, {name: data})

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Around what changes the file: all of it is done, or nothing. Raises Problem 507 where the disk is full, 503 where it fails."""
        with self._reading():
            try:
                with self._db:
                    yield
            except sqlite3.OperationalError as error:
                is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
                self.fault = "the disk is full" if is_full else f"the store cannot be written ({error})"
                log.error("%s: %s", self.path, self.fault)
                send = "Send the same request again once there is room; whoever runs the server can make some."
                detail = f"Nothing can be stored: {self.fault}."
                raise Problem(507 if is_full else 503, "disk-full" if is_full else "store-failed", detail, send=send) from None
            self.fault = None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Around what asks the file. Raises Problem 503 where it is damaged."""
        with self._lock:
            try:
                yield
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self.fault = f"the store is damaged ({error}); a new start puts it aside and begins another one"
                log.error("%s: %s", self.path, self.fault)
                with suppress(OSError):
                    self._mark.touch()
                send = "Have whoever runs the server start it again."
                raise Problem(503, "store-failed", f"What is stored cannot be read: {self.fault}.", send=send) from None

    def check(self) -> str | None:
        """Why nothing can be stored; None where it can, as far as the last try tells, which is repeated where it failed."""
        if self.fault is not None and not self._mark.exists():
            with suppress(Problem), self._writing():
                self._db.execute("CREATE TABLE IF NOT EXISTS trial (data BLOB)")
                self._db.execute("INSERT INTO trial VALUES (zeroblob(?))", (_TRIAL_BYTES,))
                self._db.execute("DROP TABLE trial")
        return self.fault

    def add(self, document: Mapping[str, Any], images: Mapping[str, bytes], upload: bytes | None = None, owner: str = "") -> None:
        """Store a new explanation of ``owner`` with its images and the uploaded file; the oldest ones beyond the limit are forgotten."""
        with self._writing():
            number = self._db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM explanations").fetchone()[0]
            self._db.execute(
                "INSERT INTO explanations (id, number, state, document, owner) VALUES (?, ?, ?, ?, ?)",
                (document["id"], number, document["state"], json_text(document), owner),
            )
            if upload is not None:
                self._keep_upload(document["id"], upload)
            self._put(document["id"], images)
            self._forget_old(number)

    def forget_old(self) -> None:
        """Forget the explanations that are too old or too many by now, and give back what they took on disk."""
        with suppress(Problem):  # a full disk
            with self._writing():
                count = self._forget_old(self._db.execute("SELECT COALESCE(MAX(number), 0) FROM explanations").fetchone()[0])
            if count:
                self._give_back()

    def _forget_old(self, newest: int) -> int:
        """Forget what is beyond the limits; how many these are."""
        beyond = f"DELETE FROM explanations WHERE number <= ? AND {_FINISHED}"  # nosec B608  # a constant
        count = self._db.execute(beyond, (newest - self._keep,)).rowcount
        before = (datetime.now(UTC) - self._keep_age).isoformat(timespec="milliseconds") if self._keep_age else ""
        after = f"number > ? AND {_FINISHED} ORDER BY number LIMIT 1"
        oldest = f"SELECT number, CAST(document AS BLOB) FROM explanations WHERE {after}"  # nosec B608  # constants
        number = -1
        while (before or self._is_large()) and (row := self._db.execute(oldest, (number,)).fetchone()):
            number, made = row[0], created(row[1])
            if self._is_large() or (made is not None and made < before):
                count += self._db.execute("DELETE FROM explanations WHERE number = ?", (number,)).rowcount
            elif made is not None:
                break
        return count

    def _is_large(self) -> bool:
        """Whether it takes more on disk than it may, pages that are free left out."""
        if not self._keep_bytes:
            return False
        pages, free, size = (self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
        return bool((pages - free) * size > self._keep_bytes)

    def _give_back(self) -> None:
        """Make the file smaller by what is free, and leave nothing of what was deleted in the log that SQLite writes first."""
        with self._reading():
            self._db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")  # execute would end the first one early

    def copy(self, explanation_id: str, key: str, owner: str) -> str | None:
        """Store a finished explanation once more for ``owner``, as new and without its title; the id of that, None where it is gone."""
        with self._lock:
            document = self.document(explanation_id)
            if document is None:
                return None
            images = dict(self._db.execute("SELECT name, data FROM images WHERE id = ?", (explanation_id,)).fetchall())
            copied = {name: value for name, value in document.items() if name != "title"} | new_identity()
            self.add(copied, images, self.upload(explanation_id), owner)
            self.save(copied, key=key)
            return str(copied["id"])

    def keep_upload(self, explanation_id: str, upload: bytes) -> None:
        """Keep the uploaded file with an explanation that has none."""
        with self._writing():
            self._keep_upload(explanation_id, upload)

    def _keep_upload(self, explanation_id: str, upload: bytes) -> None:
        digest = hashlib.sha256(upload).hexdigest()
        self._db.execute("INSERT OR IGNORE INTO uploads (digest, data) VALUES (?, ?)", (digest, upload))
        self._db.execute("UPDATE explanations SET upload = ? WHERE id = ?", (digest, explanation_id))

    def save(self, document: Mapping[str, Any], images: Mapping[str, bytes] | None = None, key: str | None = None) -> None:
        """Replace the document of a stored explanation, and add images; nothing happens where it was deleted meanwhile."""
        with self._writing():
            changed = self._db.execute(
                "UPDATE explanations SET state = ?, document = ?, content_key = COALESCE(?, content_key) WHERE id = ?",
                (document["state"], json_text(document), key, document["id"]),
            ).rowcount
            if changed:
                self._put(document["id"], images or {})

    def rename(self, explanation_id: str, title: str | None) -> dict[str, Any] | None:
        """Give a stored explanation a title, or take it away; the explanation, or None where there is none."""
        with self._writing():
            document = self.document(explanation_id)
            if document is None:
                return None
            document.pop("title", None)
            if title is not None:
                document["title"] = title
            self._db.execute("UPDATE explanations SET document = ? WHERE id = ?", (json_text(document), explanation_id))
            return document

    def _put(self, explanation_id: str, images: Mapping[str, bytes]) -> None:
        rows = [(explanation_id, name, data) for name, data in images.items()]
        self._db.executemany("INSERT OR REPLACE INTO images (id, name, data) VALUES (?, ?, ?)", rows)

    def document(self, explanation_id: str) -> dict[str, Any] | None:
        """The stored explanation, or None. Raises Problem 500 where what is stored cannot be read."""
        row = self._first_row("SELECT CAST(document AS BLOB) FROM explanations WHERE id = ?", explanation_id)
        if row is None:
            return None
        try:
            return _document(row)
        except NotJsonError as error:
            log.warning("explanation %s in the store cannot be read: %s", explanation_id, error)
            send = f"DELETE /api/explanations/{explanation_id} forgets it; then ask for it again."
            raise Problem(500, "damaged-explanation", "What is stored of this explanation cannot be read.", send=send) from None

    def file(self, explanation_id: str, name: str) -> bytes | None:
        """What was stored with an explanation (``input.png``, ``original.jpg`` or ``TENSORS_FILE``), or None."""
        row = self._first_row("SELECT data FROM images WHERE id = ? AND name = ?", explanation_id, name)
        return None if row is None else bytes(row)

    def upload(self, explanation_id: str) -> bytes | None:
        """The file that was sent with an explanation, as it was sent; None for a text, and where it was made before uploads were kept."""
        row = self._first_row("SELECT data FROM uploads JOIN explanations ON upload = digest WHERE id = ?", explanation_id)
        return None if row is None else bytes(row)

    def owner(self, explanation_id: str) -> str | None:
        """Whose a stored explanation is, "" where it is nobody's; None where there is none."""
        owner = self._first_row("SELECT owner FROM explanations WHERE id = ?", explanation_id)
        return None if owner is None else str(owner)

    def finished(self, key: str, owner: str | None = None) -> str | None:
        """The id of a finished explanation of the same content that can be read, or None; of this owner's alone, where one is given."""
        query = (
            "SELECT id, CAST(document AS BLOB) FROM explanations WHERE content_key = ?1 AND state = 'done' AND owner = COALESCE(?2, owner) "
            "ORDER BY number DESC"
        )
        with self._reading():
            for explanation_id, stored in self._db.execute(query, (key, owner)):
                with suppress(NotJsonError):
                    if {"input", "targets"} <= set(_document(stored)):
                        return str(explanation_id)
        return None

    def merge(self, table: str, row: Mapping[str, Any]) -> bool:
        """Add a row of another store, of an older version too; False where it is there already, or its explanation is not."""
        with self._writing():
            known = {column[1] for column in self._db.execute(f"PRAGMA table_info({table})")}
            taken = {name: value for name, value in row.items() if name in known}
            if table == "images" and self.owner(row["id"]) is None:
                return False
            upload = taken.get("upload")
            if upload and not self._db.execute("SELECT 1 FROM uploads WHERE digest = ?", (upload,)).fetchone():
                taken["upload"] = None
            names, places = ", ".join(taken), ", ".join("?" * len(taken))
            added = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"  # nosec B608  # names of the schema
            return self._db.execute(added, tuple(taken.values())).rowcount > 0

    def number_anew(self) -> None:
        """Number the explanations by when they were made: those of two stores come together."""
        with self._writing():
            rows = self._db.execute("SELECT id, CAST(document AS BLOB) FROM explanations ORDER BY number").fetchall()
            rows.sort(key=lambda row: created(row[1]) or "")
            self._db.executemany("UPDATE explanations SET number = ? WHERE id = ?", [(place, row[0]) for place, row in enumerate(rows, 1)])

    def delete(self, explanation_id: str) -> bool:
        """Forget an explanation, its images and, unless another one is of the same file, the upload; False where there was none."""
        with self._writing():
            was_there = self._db.execute("DELETE FROM explanations WHERE id = ?", (explanation_id,)).rowcount > 0
        if was_there:
            self._give_back()
        return was_there

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
        self._owner.release()

    def _first_row(self, query: str, *values: str) -> Any:
        with self._reading():
            row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]


def _make_private(home: Path) -> None:
    """Let nobody but its owner into the folder; one that everybody shares, as /tmp, stays so."""
    mode = home.stat().st_mode
    if mode & 0o077 and not mode & stat.S_ISVTX:
        try:
            home.chmod(0o700)  # what people upload is nobody else's
        except PermissionError as error:
            log.warning("others can read %s, where uploads are kept: %s", home, error)


def created(stored: bytes | None) -> str | None:
    """When a stored explanation was made; None where that cannot be read."""
    try:
        return str(_document(stored or b"")["created"])
    except (NotJsonError, KeyError):
        return None


def _document(stored: bytes) -> dict[str, Any]:
    """A document as it was stored; raises NotJsonError where it is none."""
    document = parsed_json(stored, mend=True)
    if not isinstance(document, dict) or not {"id", "state"} <= set(document):
        raise NotJsonError("it is no explanation")
    return {**document, "maps": document.get("maps", [])}

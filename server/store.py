"""Explanations that outlive the process: one SQLite file, opened again at the next start."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from server.problems import Problem

SCHEMA_VERSION = 1
#: The file of an explanation that holds what the model was given, bit for bit.
TENSORS = "tensors.safetensors"
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


class StoreError(OSError):
    """The store cannot be opened; the message says what to do."""


class Store:
    """Explanations and their images. One connection behind a lock, so any thread may call."""

    def __init__(self, home: Path, keep: int) -> None:
        """Open or create ``home/vitrine.sqlite``; explanations that a crash left unfinished become failed ones.

        Raises StoreError where the folder cannot be written, another server has it, or the file is not a store of this version.
        """
        self.path = home / "vitrine.sqlite"
        self._keep = keep
        self._lock = threading.RLock()
        self._owner = FileLock(home / "vitrine.lock", thread_local=False)  # or two servers would fail each other's explanations
        try:
            home.mkdir(parents=True, exist_ok=True)
            self._owner.acquire(blocking=False)
            self._db = sqlite3.connect(self.path, check_same_thread=False)
            self._open()
        except Timeout as error:
            raise StoreError(f"another server that is running has {home}; set VITRINE_HOME to another folder, or stop it first") from error
        except (OSError, sqlite3.Error) as error:
            self._owner.release()
            raise StoreError(f"the store {self.path} cannot be opened ({error}); set VITRINE_HOME to another folder") from error

    def _open(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA foreign_keys=ON")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
        elif version != SCHEMA_VERSION:
            self._db.close()
            raise StoreError(
                f"{self.path} was written by another version of Vitrine (schema {version}, this one reads {SCHEMA_VERSION}); "
                "move it away or set VITRINE_HOME to another folder"
            )
        problem = Problem(503, "interrupted", "The server stopped before this explanation was finished.", send="Ask for it again.")
        for (text,) in self._db.execute("SELECT document FROM explanations WHERE state IN ('queued', 'running')").fetchall():
            self.save({**json.loads(text), "state": "failed", "problem": problem.to_json()})

    def add(self, document: Mapping[str, Any], images: Mapping[str, bytes]) -> None:
        """Store a new explanation with its images; the oldest ones beyond the limit are forgotten."""
        with self._lock, self._db:
            number = self._db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM explanations").fetchone()[0]
            self._db.execute(
                "INSERT INTO explanations (id, number, state, document) VALUES (?, ?, ?, ?)",
                (document["id"], number, document["state"], _text(document)),
            )
            self._put(document["id"], images)
            self._db.execute(
                "DELETE FROM explanations WHERE number <= ? AND state IN ('done', 'failed', 'cancelled')", (number - self._keep,)
            )

    def save(self, document: Mapping[str, Any], images: Mapping[str, bytes] | None = None, key: str | None = None) -> None:
        """Replace the document of a stored explanation, and add images; nothing happens where it was deleted meanwhile."""
        with self._lock, self._db:
            changed = self._db.execute(
                "UPDATE explanations SET state = ?, document = ?, content_key = COALESCE(?, content_key) WHERE id = ?",
                (document["state"], _text(document), key, document["id"]),
            ).rowcount
            if changed:
                self._put(document["id"], images or {})

    def _put(self, one: str, images: Mapping[str, bytes]) -> None:
        rows = [(one, name, data) for name, data in images.items()]
        self._db.executemany("INSERT OR REPLACE INTO images (id, name, data) VALUES (?, ?, ?)", rows)

    def document(self, one: str) -> dict[str, Any] | None:
        """The stored explanation, or None."""
        row = self._one("SELECT document FROM explanations WHERE id = ?", one)
        return None if row is None else dict(json.loads(row))

    def file(self, one: str, name: str) -> bytes | None:
        """What was stored with an explanation (``input.png``, ``original.jpg`` or ``TENSORS``), or None."""
        row = self._one("SELECT data FROM images WHERE id = ? AND name = ?", one, name)
        return None if row is None else bytes(row)

    def finished(self, key: str) -> str | None:
        """The id of a finished explanation of the same content, or None."""
        found = self._one("SELECT id FROM explanations WHERE content_key = ? AND state = 'done' ORDER BY number DESC LIMIT 1", key)
        return None if found is None else str(found)

    def delete(self, one: str) -> bool:
        """Forget an explanation and its images; False where there was none."""
        with self._lock, self._db:
            return self._db.execute("DELETE FROM explanations WHERE id = ?", (one,)).rowcount > 0

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
        self._owner.release()

    def _one(self, query: str, *values: str) -> Any:
        with self._lock:
            row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"))

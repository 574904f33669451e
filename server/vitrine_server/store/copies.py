"""Copies of a store: a backup while a server works, its restoration, and what can still be read of a damaged file."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vitrine_server.json_text import NotJsonError, decode_json
from vitrine_server.settings import Settings
from vitrine_server.store.database import StoreError, open_database
from vitrine_server.store.store import Store, created
from vitrine_server.store.tables import SCHEMA_VERSION

STORE, KEY, LOCK = "vitrine.sqlite", "visitors.key", "vitrine.lock"
_LOG_FILES = ("-wal", "-shm")
#: Rows refer to what is copied before them.
_TABLES = ("uploads", "explanations", "images")
_KEEP_ALL = 2**62
#: Row numbers that are tried for each page of the file if the largest row number cannot be read.
_NUMBERS_PER_PAGE = 10


def back_up(home: Path, folder: Path) -> None:
    """Copy the store of ``home`` and the key of its visitors to ``folder``, even while a server writes there.

    The copy is the store at one moment. It replaces an older copy in the folder once it is complete. Raises StoreError if there is no
    store, if it or the copy is damaged, or if the folder cannot be written.
    """
    path = home / STORE
    if not path.is_file():
        raise StoreError(f"there is no {path}; set VITRINE_HOME to the home of the server")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = folder / f"{STORE}.part"
    try:
        _new_private_file(copy)
        # SQLite's own backup begins again with every write of another process, and may never end; this reads one moment.
        with closing(_open_existing(path)) as source:
            source.execute("VACUUM INTO ?", (str(copy),))
        _check(copy)
        copy.replace(folder / STORE)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be copied ({error}); `vitrine recover` reads what it can of a damaged store") from error
    finally:
        copy.unlink(missing_ok=True)
    if (home / KEY).exists():
        _new_private_file(folder / KEY)
        shutil.copyfile(home / KEY, folder / KEY)


def restore(folder: Path, home: Path) -> Path | None:
    """Replace the store of ``home`` by the backup in ``folder``; return the folder to which the previous store was moved, None if there was
    none.

    Raises StoreError if there is no backup, if it is damaged or of a version that this one does not read, or if a server uses ``home``.
    """
    backup = folder / STORE
    if not backup.is_file():
        raise StoreError(f"there is no {backup}; name the folder that `vitrine backup` wrote to")
    try:
        version = _check(backup)
    except sqlite3.Error as error:
        raise StoreError(f"{backup} cannot be restored ({error}); name another backup") from error
    if not 0 < version <= SCHEMA_VERSION:
        raise StoreError(f"{backup} is no store that this version of Vitrine reads (it has schema {version}, not 1 to {SCHEMA_VERSION})")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock_home(home):
        before = home / f"before-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        present = [home / name for name in (STORE, *(STORE + end for end in _LOG_FILES), KEY) if (home / name).exists()]
        if present:
            before.mkdir(mode=0o700)
            _give_to_owner(before, home)
        for path in present:
            path.rename(before / path.name)
        for name in (STORE, KEY):
            if (folder / name).exists():
                _new_private_file(home / name)
                shutil.copyfile(folder / name, home / name)
                _give_to_owner(home / name, home)
    return before if present else None


def recover(damaged: Path, settings: Settings) -> tuple[int, int]:
    """Add everything that can be read of a damaged (or sound) store file to the store of ``settings``; return how many explanations were
    added, and how many rows were lost.

    Explanations that the store has already stay unchanged. Raises StoreError if nothing can be read, or if a server uses the store.
    """
    if not damaged.is_file():
        raise StoreError(f"there is no {damaged}; name the file that the server put aside")
    with closing(Store(open_database(settings), _KEEP_ALL)) as store:
        if not settings.database:
            _give_to_owner(settings.home / STORE, settings.home)
        with closing(_open_existing(damaged)) as source:
            source.execute("PRAGMA writable_schema=ON")  # tables are read also where an index of the schema is broken
            source.text_factory = lambda stored: stored.decode("utf-8", "replace")
            lost = 0
            came = dict.fromkeys(_TABLES, 0)
            for table in _TABLES:
                for row in _rows(source, table):
                    if row is None or not _is_sound(table, row):
                        lost += 1
                    elif store.merge(table, row):
                        came[table] += 1
        store.renumber()
    return came["explanations"], lost


def _rows(source: sqlite3.Connection, table: str) -> Iterator[dict[str, Any] | None]:
    """Yield the rows of ``table`` in the database ``source`` one by one, each a dict, None for each that cannot be read; a single query
    would end at the first of those.
    """
    try:
        names = [row[1] for row in source.execute(f"PRAGMA table_info({table})")]
    except sqlite3.DatabaseError as error:
        raise StoreError(f"nothing of it can be read ({error}); restore a backup") from error
    if not names and table == "explanations":
        raise StoreError("it has no explanations; restore a backup")
    for number in range(1, _largest_number(source, table) + 1):
        try:
            row = source.execute(f"SELECT * FROM {table} WHERE rowid = ?", (number,)).fetchone()  # nosec B608  # a name of _TABLES
        except sqlite3.DatabaseError:
            yield None
        else:
            if row is not None:
                yield dict(zip(names, row, strict=True))


def _largest_number(source: sqlite3.Connection, table: str) -> int:
    """Return the largest row number of ``table`` in the database ``source``, or an upper bound; 0 for an empty table."""
    try:
        return source.execute(f"SELECT MAX(rowid) FROM {table}").fetchone()[0] or 0  # nosec B608  # a name of _TABLES
    except sqlite3.DatabaseError:
        return int(source.execute("PRAGMA page_count").fetchone()[0]) * _NUMBERS_PER_PAGE


def _is_sound(table: str, row: dict[str, Any]) -> bool:
    """Return whether ``row`` of ``table`` holds what was written, as far as its digest, id or type can tell."""
    if table == "uploads":
        return isinstance(row["data"], bytes) and hashlib.sha256(row["data"]).hexdigest() == row["digest"]
    if table == "explanations":
        with suppress(NotJsonError, AttributeError):
            return bool(decode_json(row["document"].encode(), mend=True)["id"] == row["id"] and created(row["document"].encode()))
        return False
    return isinstance(row["data"], bytes)


def _open_existing(path: Path) -> sqlite3.Connection:
    """Open the existing SQLite file ``path`` and return the connection; no new file is created."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)


def _check(path: Path) -> int:
    """Return the schema version of the store in the file ``path``. Raises sqlite3.DatabaseError if it is damaged."""
    with closing(_open_existing(path)) as db:
        verdict = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def _lock_home(home: Path) -> FileLock:
    """Take the lock of the folder ``home`` and return it. Raises StoreError if a server has it."""
    lock = FileLock(home / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise StoreError(f"a server that is running has {home}; stop it first") from error
    return lock


def _new_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, replacing any at this path."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))


def _give_to_owner(path: Path, home: Path) -> None:
    """Change the owner of the file at ``path``, if this process is the administrator's, to the user who owns ``home``."""
    if os.geteuid() == 0:
        os.chown(path, home.stat().st_uid, home.stat().st_gid)

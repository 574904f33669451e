"""Where the tables of the store lie: a SQLite file in the server's home, or PostgreSQL. All in which the two differ is here."""

from __future__ import annotations

import logging
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout
from sqlalchemy import Connection, StaticPool, create_engine, event, func, inspect, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from explainers.errors import not_installed
from server.settings import Settings
from server.store.tables import EXPLANATIONS, IMAGES, SCHEMA_VERSION, UPLOADS

log = logging.getLogger(__name__)
#: Keys of PostgreSQL's advisory locks: who has the store, who adds to it or takes from it, who changes its schema.
_OWNER, _ALONE, _MIGRATION = 7_311_000, 7_311_001, 7_311_002
_DISK_FULL = "53100"  # of PostgreSQL


class StoreError(OSError):
    """The store cannot be opened; the message says what to do."""


class DamagedStoreError(sqlite3.DatabaseError):
    """The file is damaged, although SQLite opens it."""


class StoreFault(Exception):
    """Something could not be read or written; the message is a clause that says why.

    is_full  the disk has no more room
    is_lost  what is stored cannot be read before the server is started anew
    """

    def __init__(self, reason: str, *, is_full: bool = False, is_lost: bool = False) -> None:
        super().__init__(reason)
        self.is_full, self.is_lost = is_full, is_lost


class Database(Protocol):
    """The interface of both databases, as the store uses it.

    insert        the statement that can say what to do where a row is there already
    is_broken     nothing can be stored before the next start
    """

    @property
    def insert(self) -> Any:
        """See above."""

    @property
    def is_broken(self) -> bool:
        """See above."""

    @contextmanager
    def begin(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        """A transaction; ``alone``: no other process adds or removes rows meanwhile. Raises StoreFault."""

    def size(self, db: Connection) -> int:
        """Bytes that explanations take."""

    def give_back(self) -> None:
        """Return the space of deleted rows to the disk, where the database does not do so by itself."""

    def close(self) -> None:
        """Close it."""


def open_database(settings: Settings, is_shared: bool = False) -> Database:
    """That of the settings; ``is_shared``: other processes have it, too, which PostgreSQL alone allows. Raises StoreError."""
    return PostgresDatabase(settings.database, is_shared) if settings.database else SqliteDatabase(settings.home)


class SqliteDatabase:
    """A file. One connection behind a lock, so any thread may use it, and one process."""

    insert = staticmethod(sqlite.insert)

    def __init__(self, home: Path) -> None:
        """Open or create ``home/vitrine.sqlite``, which nobody but its owner can read. Raises StoreError where the folder cannot be
        written, another server has it, or the file is not a store of this version or an older one. A damaged file is put aside.
        """
        self.path = home / "vitrine.sqlite"
        self._mark = home / "vitrine.damaged"  # the next start puts the file aside
        self._lock = threading.RLock()
        self._owner = FileLock(home / "vitrine.lock", thread_local=False)  # or two servers would fail each other's explanations
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(home)
            self._owner.acquire(blocking=False)
            try:
                self._connect()
            except (sqlite3.DatabaseError, DBAPIError) as error:
                if not _is_damage(error):
                    raise
                self._put_aside(error)
                self._connect()
        except Timeout as error:
            raise StoreError(f"another server that is running has {home}; set VITRINE_HOME to another folder, or stop it first") from error
        except StoreError:
            self._owner.release()
            raise
        except (OSError, sqlite3.Error, SQLAlchemyError) as error:
            self._owner.release()
            raise StoreError(f"the store {self.path} cannot be opened ({error}); set VITRINE_HOME to another folder") from error

    def _connect(self) -> None:
        self.file = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
        if self._mark.exists():
            raise DamagedStoreError("a page of it could not be read")
        self.file.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a new file
        self.file.execute("PRAGMA journal_mode=WAL")
        self.file.execute("PRAGMA synchronous=NORMAL")
        self.file.execute("PRAGMA foreign_keys=ON")
        self.file.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten in the file
        version = self.file.execute("PRAGMA user_version").fetchone()[0]
        if not 0 <= version <= SCHEMA_VERSION:
            self.file.close()
            raise StoreError(f"{self.path} {_of_another_version(version)}; move it away or set VITRINE_HOME to another folder")
        engine = create_engine("sqlite://", creator=lambda: self.file, poolclass=StaticPool)
        event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN"))  # Python's own leaves changes of the schema out
        self._connection = engine.connect()
        if version < SCHEMA_VERSION:
            with self._connection.begin():
                _migrate(self._connection, version, str(self.path))
                self._connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")  # by which all versions of Vitrine know it
        verdict = self.file.execute("PRAGMA quick_check('explanations')").fetchone()[0]  # pictures would take seconds
        if verdict != "ok":
            raise DamagedStoreError(verdict)

    def _put_aside(self, error: Exception) -> None:
        """Rename a file that is no database, or a broken one, with what SQLite keeps beside it: another one is begun."""
        self.file.close()
        self._mark.unlink(missing_ok=True)
        mark = datetime.now(UTC).strftime("damaged-%Y%m%d-%H%M%S")
        for path in self.path.parent.glob(f"{self.path.name}*"):
            end = path.name.removeprefix(self.path.name)
            if end in ("", "-wal", "-shm"):  # which SQLite finds by the name of the file
                path.rename(path.with_name(f"{self.path.name}.{mark}{end}"))
        log.error("%s is damaged (%s): it is now %s.%s, and an empty store is begun", self.path, error, self.path.name, mark)

    @property
    def is_broken(self) -> bool:
        """Whether the next start puts the file aside."""
        return self._mark.exists()

    @contextmanager
    def begin(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        """See :class:`Database`."""
        with self._lock:
            if self._connection.closed:  # by a server that ends, while a runner that would not stop still tidies
                raise StoreFault("the store is closed")
            try:
                with self._connection.begin():
                    yield self._connection
            except DBAPIError as error:
                raise self._fault(error, writes) from error

    def _fault(self, error: DBAPIError, writes: bool) -> Exception:
        if _is_damage(error):
            with suppress(OSError):
                self._mark.touch()
            return StoreFault(f"the store is damaged ({error.orig}); a new start puts it aside and begins another one", is_lost=True)
        if writes and isinstance(error.orig, sqlite3.OperationalError):
            is_full = error.orig.sqlite_errorcode == sqlite3.SQLITE_FULL
            return StoreFault("the disk is full" if is_full else f"the store cannot be written ({error.orig})", is_full=is_full)
        return error

    def size(self, db: Connection) -> int:
        """What the file takes on disk, pages that are free left out."""
        pages, free, size = (db.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "freelist_count", "page_size"))
        return int((pages - free) * size)

    def give_back(self) -> None:
        """Make the file smaller by what is free, and leave nothing of what was deleted in the log that SQLite writes first."""
        with self._lock:  # execute would end the first one early
            self.file.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
            self.file.close()
        self._owner.release()


class PostgresDatabase:
    """A database of PostgreSQL. Any thread may use it; with ``is_shared`` so may any process that opens it so."""

    insert = staticmethod(postgresql.insert)
    is_broken = False

    def __init__(self, url: str, is_shared: bool = False) -> None:
        """Open it, and make the tables where there are none. Raises StoreError where it cannot be reached, its driver is not installed,
        another server has it, or its tables are of a newer version.
        """
        try:
            self._engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        except ImportError as error:
            raise StoreError(not_installed("A store in PostgreSQL needs its driver", "postgresql")) from error
        self._owner: Connection | None = None
        try:
            self._hold(is_shared)
            with self._engine.begin() as db:
                db.execute(select(func.pg_advisory_xact_lock(_MIGRATION)))
                known = inspect(db).has_table("alembic_version")
                version = int(db.execute(text("SELECT version_num FROM alembic_version")).scalar_one()) if known else 0
                if version > SCHEMA_VERSION:
                    raise StoreError(f"the database of VITRINE_DATABASE {_of_another_version(version)}; name another one")
                if version < SCHEMA_VERSION:
                    _migrate(db, version, "the database of VITRINE_DATABASE")
        except StoreError:
            self.close()
            raise
        except SQLAlchemyError as error:
            self.close()
            raise StoreError(f"the database of VITRINE_DATABASE cannot be opened ({_first_line(error)}); see that it runs") from error

    def _hold(self, is_shared: bool) -> None:
        """Hold a lock that keeps other servers from this database, as long as this one runs."""
        self._owner = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        lock = func.pg_try_advisory_lock_shared if is_shared else func.pg_try_advisory_lock
        if not self._owner.execute(select(lock(_OWNER))).scalar_one():
            raise StoreError("another server that is running has the database of VITRINE_DATABASE; name another one, or stop it first")

    @contextmanager
    def begin(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        """See :class:`Database`."""
        try:
            with self._engine.begin() as db:
                if alone:
                    db.execute(select(func.pg_advisory_xact_lock(_ALONE)))
                yield db
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == _DISK_FULL:
                raise StoreFault("the disk of the database is full", is_full=True) from error
            if error.connection_invalidated or type(error.orig).__name__ == "OperationalError":
                raise StoreFault("the database does not answer") from error
            raise

    def size(self, db: Connection) -> int:
        """Bytes of documents, uploads and files, before PostgreSQL packs them: what its files take says nothing of what is deleted."""
        columns = (EXPLANATIONS.c.document, IMAGES.c.data, UPLOADS.c.data)
        return sum(int(db.execute(select(func.coalesce(func.sum(func.octet_length(column)), 0))).scalar_one()) for column in columns)

    def give_back(self) -> None:
        """PostgreSQL does it by itself (autovacuum)."""

    def close(self) -> None:
        """Close the connections."""
        if self._owner is not None:
            self._owner.close()
        self._engine.dispose()


def _migrate(db: Connection, version: int, what: str) -> None:
    """Bring the tables to the newest schema, in the transaction of ``db``. Raises StoreError where that fails; nothing is changed then."""
    from server.store.migrations import migrate  # Alembic takes a third of a second, and most stores are of this version

    try:
        migrate(db, version)
    except Exception as error:
        if _is_damage(error):
            raise
        reason = f"{what} cannot be brought from schema {version} to {SCHEMA_VERSION} ({_first_line(error)}); nothing of it was changed"
        raise StoreError(f"{reason}, and the version of Vitrine that wrote it opens it") from error


def _of_another_version(version: int) -> str:
    return f"was written by another version of Vitrine (schema {version}, this one reads {SCHEMA_VERSION})"


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


def _is_damage(error: BaseException) -> bool:
    """Whether a SQLite file is damaged."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    damages = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    return isinstance(reason, DamagedStoreError) or getattr(reason, "sqlite_errorcode", None) in damages


def _make_private(home: Path) -> None:
    """Let nobody but its owner into the folder; one that everybody shares, as /tmp, stays so."""
    mode = home.stat().st_mode
    if mode & 0o077 and not mode & stat.S_ISVTX:
        try:
            home.chmod(0o700)  # what people upload is nobody else's
        except PermissionError as error:
            log.warning("others can read %s, where uploads are kept: %s", home, error)

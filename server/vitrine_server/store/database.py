"""The database of the store: a SQLite file in the server's home, or PostgreSQL. All in which the two differ is here."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout
from sqlalchemy import Connection, StaticPool, create_engine, event, func, inspect, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from explainers.installation import not_installed
from vitrine_server.settings import Settings
from vitrine_server.store.tables import EXPLANATIONS, IMAGES, SCHEMA_VERSION, UPLOADS

log = logging.getLogger(__name__)
#: Keys of PostgreSQL's advisory locks: who has the store, who adds to it or takes from it, who changes its schema.
_OWNER, _ALONE, _MIGRATION = 7_311_000, 7_311_001, 7_311_002
_DISK_FULL = "53100"  # of PostgreSQL
_RESERVE_BYTES = 1 << 20  # on disk, given up so that something can be deleted where it is full
_BLANKED_BYTES, _VACUUMED_PAGES = 1 << 18, 64  # at a time, of what is deleted then: the log of SQLite takes as much


class StoreError(OSError):
    """Raised when the store cannot be opened; the message says what to do."""


class DamagedStoreError(sqlite3.DatabaseError):
    """Raised for a file that is damaged, although SQLite opens it."""


class StoreFault(Exception):
    """Raised when something could not be read or written; the message, ``reason``, is a clause that says why.

    is_full  whether the disk is full
    is_lost  whether nothing can be read before the server is restarted
    """

    def __init__(self, reason: str, *, is_full: bool = False, is_lost: bool = False) -> None:
        super().__init__(reason)
        self.is_full, self.is_lost = is_full, is_lost


class Database(Protocol):
    """The interface of both databases, as the store uses it.

    insert     the insert statement that can say what to do if a row exists already
    is_broken  whether nothing can be stored before the next start
    """

    @property
    def insert(self) -> Any:
        """The function of SQLAlchemy that makes this database's insert statement, which can also update an existing row."""

    @property
    def is_broken(self) -> bool:
        """True if the database is damaged, so that nothing can be stored before the next start."""

    @contextmanager
    def begin(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        """Open a context with a connection in a transaction, which ``writes`` or only reads; with ``alone`` no other process adds or
        removes rows meanwhile. Raises StoreFault.
        """

    def size(self, db: Connection) -> int:
        """Return the bytes that all explanations take, over the connection ``db``."""

    def give_back(self) -> None:
        """Return the space of deleted rows to the disk, if the database does not do so by itself."""

    def spare_room(self, explanation_id: str) -> AbstractContextManager[None]:
        """Make room on a full disk to delete the explanation with this id inside the context, if the database keeps a reserve. Raises
        StoreFault.
        """

    def close(self) -> None:
        """Close the database."""


def open_database(settings: Settings, is_shared: bool = False) -> Database:
    """Open the database that ``settings`` name, in PostgreSQL or else in a file of the server's home; with ``is_shared`` other processes
    use it too, which only PostgreSQL allows. Raises StoreError.
    """
    return PostgresDatabase(settings.database, is_shared) if settings.database else SqliteDatabase(settings.home)


class SqliteDatabase:
    """A SQLite file, used by one process through one connection with a lock, so any thread may call."""

    insert = staticmethod(sqlite.insert)

    def __init__(self, home: Path) -> None:
        """Open or create ``home/vitrine.sqlite``, which only its owner can read. Raises StoreError if the folder cannot be written, another
        server uses it, or the file is not a store of this version or an older one. A damaged file is renamed and replaced by an empty one.
        """
        self.path = home / "vitrine.sqlite"
        self._mark = home / "vitrine.damaged"  # the next start puts the file aside
        self._reserve = home / "vitrine.reserve"
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
            self._keep_reserve()
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
        """Rename a damaged file, or one that is no database, together with SQLite's files for it, so that a new one can be created;
        ``error`` is the cause, for the log.
        """
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
        """True if the file is marked as damaged, so that the next start replaces it."""
        return self._mark.exists()

    @contextmanager
    def begin(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        """Open a context with the connection in a transaction, which ``writes`` or only reads, see :meth:`Database.begin`; ``alone`` has no
        effect here.
        """
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
        """Return the bytes that the file takes on disk, without free pages; ``db`` is the connection to it."""
        pages, free, size = (db.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "freelist_count", "page_size"))
        return int((pages - free) * size)

    def give_back(self) -> None:
        """Shrink the file by its free pages, and empty SQLite's log, so that nothing deleted is left there. On a full disk this is done in
        small steps, using the reserve.
        """
        with self._lock:
            try:  # execute would end the first one early
                self.file.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError:
                self._reserve.unlink(missing_ok=True)
                self._give_back_in_steps()

    def _give_back_in_steps(self) -> None:
        try:
            self.file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            before, free = -1, self.file.execute("PRAGMA freelist_count").fetchone()[0]
            while free not in (0, before):
                self.file.executescript(f"PRAGMA incremental_vacuum({_VACUUMED_PAGES}); PRAGMA wal_checkpoint(TRUNCATE)")
                before, free = free, self.file.execute("PRAGMA freelist_count").fetchone()[0]
        except sqlite3.OperationalError as error:
            log.warning("the file of the store is not made smaller yet: %s", error)
        self._keep_reserve()

    @contextmanager
    def spare_room(self, explanation_id: str) -> Iterator[None]:
        """Free the reserve file on a full disk, so that the explanation with this id can be deleted inside the context. As the reserve is
        too small for the log of a whole deletion, the explanation's values are first overwritten with zeros, part by part.
        """
        with self._lock:
            self._reserve.unlink(missing_ok=True)
            try:
                self.file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._blank(explanation_id)
                self.file.execute("PRAGMA secure_delete=FAST")
                yield
            except sqlite3.OperationalError as error:
                raise StoreFault("the disk is full", is_full=True) from error
            finally:
                self.file.execute("PRAGMA secure_delete=ON")
                self._give_back_in_steps()

    def _blank(self, explanation_id: str) -> None:
        """Overwrite the document and the images of the explanation with this id with zeros, and its upload unless another explanation uses
        it.
        """
        alone = "NOT EXISTS (SELECT 1 FROM explanations WHERE upload = digest AND id != ?1)"
        rows = {
            ("images", "data"): "id = ?1",
            ("uploads", "data"): f"digest = (SELECT upload FROM explanations WHERE id = ?1) AND {alone}",  # nosec B608
            ("explanations", "document"): "id = ?1",
        }
        for (table, column), where in rows.items():
            numbers = self.file.execute(f"SELECT rowid FROM {table} WHERE {where}", (explanation_id,)).fetchall()  # nosec B608
            for (row,) in numbers:
                with self.file.blobopen(table, column, row, readonly=True) as blob:
                    size = len(blob)
                for start in range(0, size, _BLANKED_BYTES):
                    with self.file.blobopen(table, column, row) as blob:
                        blob.seek(start)
                        blob.write(bytes(min(_BLANKED_BYTES, size - start)))
                    self.file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _keep_reserve(self) -> None:
        """Write the reserve file of random bytes (so that no file system compresses it), if there is room on the disk."""
        try:
            if not self._reserve.exists() or self._reserve.stat().st_size < _RESERVE_BYTES:
                self._reserve.write_bytes(os.urandom(_RESERVE_BYTES))
        except OSError:
            with suppress(OSError):
                self._reserve.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connection and the file, and release the lock of the folder."""
        with self._lock:
            self._connection.close()
            self.file.close()
        self._owner.release()


class PostgresDatabase:
    """A PostgreSQL database. Any thread may call; with ``is_shared`` several processes may open it."""

    insert = staticmethod(postgresql.insert)
    is_broken = False

    def __init__(self, url: str, is_shared: bool = False) -> None:
        """Open the database at ``url`` and create its tables if there are none; with ``is_shared`` other processes use it too. Raises
        StoreError if it cannot be reached, its driver is not installed, another server uses it, or its tables are of a newer version.
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
        """Take a lock that keeps other servers from this database as long as this one runs; with ``is_shared``, only servers that do not
        share it. Raises StoreError if another one has it.
        """
        self._owner = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        lock = func.pg_try_advisory_lock_shared if is_shared else func.pg_try_advisory_lock
        if not self._owner.execute(select(lock(_OWNER))).scalar_one():
            raise StoreError("another server that is running has the database of VITRINE_DATABASE; name another one, or stop it first")

    @contextmanager
    def begin(self, *, writes: bool, alone: bool = False) -> Iterator[Connection]:
        """Open a context with a connection in a transaction, whether it ``writes`` or only reads, see :meth:`Database.begin`; with
        ``alone`` it holds a lock of the database.
        """
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
        """Return the uncompressed bytes of documents, uploads and files, over the connection ``db``; the size of PostgreSQL's own files
        does not show deletions.
        """
        columns = (EXPLANATIONS.c.document, IMAGES.c.data, UPLOADS.c.data)
        return sum(int(db.execute(select(func.coalesce(func.sum(func.octet_length(column)), 0))).scalar_one()) for column in columns)

    def give_back(self) -> None:
        """Do nothing: PostgreSQL returns space by itself (autovacuum)."""

    def spare_room(self, explanation_id: str) -> AbstractContextManager[None]:
        """Return a context that does nothing for any explanation: no reserve is kept here."""
        return nullcontext()

    def close(self) -> None:
        """Close the connections to the server."""
        if self._owner is not None:
            self._owner.close()
        self._engine.dispose()


def _migrate(db: Connection, version: int, what: str) -> None:
    """Change the tables from ``version`` to the newest schema, in the transaction of ``db``. Raises StoreError, which names the database
    ``what``, if that fails; nothing is changed then.
    """
    from vitrine_server.store.migrations import migrate  # Alembic takes a third of a second, and most stores are of this version

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
    """Return whether ``error`` says that a SQLite file is damaged."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    damages = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    return isinstance(reason, DamagedStoreError) or getattr(reason, "sqlite_errorcode", None) in damages


def _make_private(home: Path) -> None:
    """Remove the permissions of other users from the folder ``home``, unless it is shared by everybody, as /tmp is."""
    mode = home.stat().st_mode
    if mode & 0o077 and not mode & stat.S_ISVTX:
        try:
            home.chmod(0o700)  # what people upload is nobody else's
        except PermissionError as error:
            log.warning("others can read %s, where uploads are kept: %s", home, error)

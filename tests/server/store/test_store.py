"""The store in SQLite, and, in ``make cluster-test``, in PostgreSQL: what it keeps, what it forgets, and stores of older versions."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from tests.conftest import ROOT
from tests.support.postgresql import postgresql
from vitrine_server.http.problems import Problem
from vitrine_server.settings import load_settings
from vitrine_server.store import migrations
from vitrine_server.store.copies import recover
from vitrine_server.store.database import Database, PostgresDatabase, SqliteDatabase, StoreError
from vitrine_server.store.store import Store
from vitrine_server.store.tables import METADATA, SCHEMA_VERSION

Open = Callable[[], Database]


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.cluster)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the database of a test, empty at first."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path)
    url = request.getfixturevalue("postgresql_url")
    name = f"test{abs(hash(request.node.name))}"
    admin = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as db:
        db.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return lambda: PostgresDatabase(url.replace("/postgres", f"/{name}"))


@pytest.fixture
def store(opened: Open) -> Iterator[Store]:
    with closing(Store(opened(), 100)) as one:
        yield one


def document(number: int, **more: Any) -> dict[str, Any]:
    made = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    return {"id": f"{number:032x}", "state": "done", "created": made.isoformat(timespec="milliseconds"), "maps": [], **more}


def name_of(number: int) -> str:
    return str(document(number)["id"])


def test_what_is_stored_is_there_after_a_restart(opened: Open) -> None:
    said = document(1, title="naïve \U0001f98a\\x41 \x00", state="running")
    with closing(Store(opened(), 100)) as store:
        store.add(said, {"input.png": b"\x00\xff\\"}, b"upload\x00", "somebody")
        store.save({**said, "state": "done", "input": 1, "targets": []}, {"input.png": b"new", "more": b""}, "key")
    with closing(Store(opened(), 100)) as store:
        assert store.document(name_of(1)) == {**said, "state": "done", "input": 1, "targets": []}
        assert [store.file(name_of(1), name) for name in ("input.png", "more", "none")] == [b"new", b"", None]
        assert (store.upload(name_of(1)), store.owner(name_of(1))) == (b"upload\x00", "somebody")
        assert store.finished("key") == store.finished("key", "somebody") == name_of(1)
        assert store.finished("key", "another") is None
        assert store.finished("other") is None
        store.save(store.document(name_of(1)) or {})  # without a key it keeps the one that it has
        assert store.finished("key") == name_of(1)
        copied = store.copy(name_of(1), "key", "another")
        assert copied is not None
        assert (store.finished("key", "another"), store.file(copied, "input.png"), store.upload(copied)) == (copied, b"new", b"upload\x00")
        assert "title" not in (store.document(copied) or {})


def test_an_upload_goes_with_the_last_explanation_of_it(store: Store) -> None:
    for number in range(3):
        store.add(document(number), {"input.png": b"p"}, b"same")
    store.delete(name_of(0))
    store.delete(name_of(1))
    assert (store.upload(name_of(2)), store.file(name_of(0), "input.png")) == (b"same", None)
    assert store.delete(name_of(2))
    assert not store.delete(name_of(2))
    with store.database.begin(writes=False) as db:
        assert [db.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in METADATA.tables] == [0, 0, 0]


@pytest.mark.parametrize("limit", ["count", "age", "bytes"])
def test_the_oldest_that_are_finished_make_room(opened: Open, limit: str) -> None:
    now = datetime.now(UTC)
    limits: dict[str, tuple[Any, ...]] = {"count": (2,), "age": (100, timedelta(days=1)), "bytes": (100, timedelta(0), 500_000)}
    with closing(Store(opened(), *limits[limit])) as store:
        for number in range(5):
            old = (now - timedelta(days=2 if number < 3 else 0)).isoformat(timespec="milliseconds")
            state = "running" if number == 1 else "done"
            store.add(document(number, created=old, state=state), {"a": bytes([number]) * 200_000})
        store.forget_old()
        left = [number for number in range(5) if store.document(name_of(number))]
        assert left == ([1, 4] if limit == "bytes" else [1, 3, 4])  # the one that runs stays


def test_many_threads_lose_nothing(store: Store) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 5):
            store.add(document(number), {}, b"same")
            store.rename(name_of(number), str(number))
            if number % 5:
                store.delete(name_of(number))

    threads = [threading.Thread(target=write, args=(5 * thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [number for number in range(20) if store.document(name_of(number))]
    assert left == [0, 5, 10, 15]
    assert [(store.document(name_of(number)) or {})["title"] for number in left] == ["0", "5", "10", "15"]
    assert store.upload(name_of(0)) == b"same"


def test_two_servers_do_not_share_it(opened: Open, store: Store) -> None:
    with pytest.raises(StoreError, match="another server"):
        opened()


def test_a_runner_that_goes_on_after_the_store_is_closed_is_told(tmp_path: Path) -> None:
    """One that hangs while the server stops: it tidies nothing, and what it would keep is refused."""
    store = Store(SqliteDatabase(tmp_path), 100)
    store.close()
    store.forget_old()
    with pytest.raises(Problem, match="the store is closed"):
        store.add(document(1), {})


def test_the_tables_are_those_that_the_migrations_make(store: Store) -> None:
    with store.database.begin(writes=False) as db:
        context = MigrationContext.configure(db, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    assert ScriptDirectory(str(Path(migrations.__file__).parent)).get_current_head() == str(SCHEMA_VERSION)


def test_a_file_of_sqlite_moves_into_it(opened: Open, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is how one comes from the default to PostgreSQL."""
    other = tmp_path / "other"
    with closing(Store(SqliteDatabase(other), 100)) as before:
        before.add(document(1), {"a": b"1"}, b"upload", "somebody")
    store.add(document(2), {})
    store.close()
    monkeypatch.setattr("vitrine_server.store.copies.open_database", lambda settings: opened())
    settings = load_settings({"home": tmp_path, "database": "" if isinstance(store.database, SqliteDatabase) else "postgresql://"})
    assert recover(other / "vitrine.sqlite", settings) == (1, 0)
    with closing(Store(opened(), 100)) as now:
        assert now.document(name_of(2)) == document(2)
        assert (now.document(name_of(1)), now.upload(name_of(1)), now.owner(name_of(1))) == (document(1), b"upload", "somebody")


def test_without_its_driver_postgresql_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install -e '\.\[postgresql\]'"):
        PostgresDatabase("postgresql://somebody@127.0.0.1:1/none")


# --- older versions ----------------------------------------------------------------------------------------------------------


def rows(home: Path, columns: str = "*") -> list[list[Any]]:
    """What is in the tables of a store, those of Alembic left out."""
    with closing(sqlite3.connect(home / "vitrine.sqlite")) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'alembic_version'")]
        return [sorted(db.execute(f"SELECT {columns} FROM {name}"), key=repr) for name in sorted(names)]


def left_by(version: str, home: Path) -> Path:
    (home / "vitrine.sqlite").write_bytes(gzip.decompress((ROOT / "tests" / "data" / version / "vitrine.sqlite.gz").read_bytes()))
    return home


@pytest.mark.parametrize("version", ["store_0_1", "store_0_2", "schema 3", "store_0_3"])
def test_a_store_of_an_older_version_opens_with_all_that_is_in_it(version: str, tmp_path: Path) -> None:
    left_by("store_0_2" if version == "schema 3" else version, tmp_path)
    with closing(sqlite3.connect(tmp_path / "vitrine.sqlite")) as db, db:
        if version == "schema 3":  # as the commits after 0.2 had it
            db.execute("ALTER TABLE explanations ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
            db.execute("UPDATE explanations SET owner = 'somebody'")
            db.execute("PRAGMA user_version = 3")
        said = [json.loads(row[0]) for row in db.execute("SELECT document FROM explanations ORDER BY number")]
    before = rows(tmp_path, "rowid")
    assert {one["versions"]["vitrine"] for one in said} == {{"store_0_1": "0.1.0", "store_0_3": "0.3.0"}.get(version, "0.2.0")}
    with closing(Store(SqliteDatabase(tmp_path), 100)) as store:
        assert [store.document(one["id"]) for one in said] == said
        assert [store.owner(one["id"]) for one in said] == ["somebody" if version == "schema 3" else ""] * 3
        assert [store.upload(one["id"]) is not None for one in said] == [True, True, False]
        assert rows(tmp_path, "rowid") == before
        for one in said:
            assert store.delete(one["id"])
        assert rows(tmp_path) == [[], [], []]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_by("store_0_1", tmp_path)
    before, upgrade = rows(tmp_path), command.upgrade

    def halfway(config: Any, revision: str) -> None:
        upgrade(config, "3")
        raise RuntimeError("the power is gone")

    monkeypatch.setattr(command, "upgrade", halfway)
    with pytest.raises(StoreError, match=r"schema 2 to \d+ \(the power is gone\); nothing of it was changed"):
        SqliteDatabase(tmp_path)
    assert rows(tmp_path) == before
    with closing(sqlite3.connect(tmp_path / "vitrine.sqlite")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None
    monkeypatch.undo()
    with closing(Store(SqliteDatabase(tmp_path), 100)) as store:
        assert store.check() is None
    assert [len(table) for table in rows(tmp_path)] == [len(table) for table in before]


@pytest.mark.cluster
def test_a_database_of_a_newer_version_or_that_is_away_is_refused(postgresql_url: str) -> None:
    url = postgresql_url.replace("/postgres", "/newer")
    admin = create_engine(postgresql_url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as db:
        db.execute(text("CREATE DATABASE newer"))
    admin.dispose()
    database = PostgresDatabase(url)
    with database.begin(writes=True) as db:
        db.execute(text("UPDATE alembic_version SET version_num = '99'"))
    database.close()
    with pytest.raises(StoreError, match="schema 99"):
        PostgresDatabase(url)
    with pytest.raises(StoreError, match="cannot be opened"):
        PostgresDatabase("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.cluster
def test_a_database_that_goes_away_is_said_and_is_used_again_once_it_is_back() -> None:
    with postgresql() as url:
        store = Store(PostgresDatabase(url), 100)
        store.add(document(1), {})
    with pytest.raises(Problem) as refusal:
        store.document(name_of(1))
    assert (refusal.value.status, refusal.value.slug) == (503, "store-failed")
    assert store.check() is not None
    assert "127.0.0.1" not in refusal.value.detail
    store.close()

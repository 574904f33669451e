"""What several processes do at one store: each explanation is one's at a time, and goes to another where that one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.postgresql import postgresql
from vitrine_server.http.visitors import NOBODY, Visitor
from vitrine_server.store.database import Database, PostgresDatabase, SqliteDatabase
from vitrine_server.store.shared_store import SharedStore
from vitrine_server.store.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.cluster)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        with closing(SqliteDatabase(tmp_path)) as one:
            yield one
    else:
        with postgresql() as url, closing(PostgresDatabase(url, is_shared=True)) as one:
            yield one


def document(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "state": "queued", "created": "2026-01-01", "maps": [], **more}


def age(database: Database, seconds: float) -> None:
    """Let so many seconds pass for every claim."""
    with database.begin(writes=True) as db:
        db.execute(text("UPDATE explanations SET claimed_until = claimed_until - :seconds"), {"seconds": seconds})


def test_one_process_has_an_explanation_until_it_is_gone(database: Database) -> None:
    web, one, other = (SharedStore(database, name, 100) for name in ("web", "one", "other"))
    web.add(document("a"), {})
    assert [name for name, _ in web.list_abandoned()] == ["a"]
    web.hold(["a"])
    assert web.list_abandoned() == []
    assert (one.claim("a"), other.claim("a"), one.claim("none")) == (1, None, None)
    age(database, 8)
    assert (one.renew(), other.renew()) == ({"a": {}}, {})
    age(database, 8)
    assert (web.list_abandoned(), other.claim("a")) == ([], None)
    age(database, 8)
    assert [name for name, _ in web.list_abandoned()] == ["a"]
    assert other.claim("a") == 2
    assert (one.renew(), other.renew()) == ({}, {"a": {}})
    one.save(document("a", state="done", by="one"), {"f": b"one"})  # it was held up, and is too late
    other.save(document("a", state="running", by="other"), {"f": b"other"}, "key")
    assert (web.document("a") or {})["by"] == "other"
    other.save(document("a", state="done", by="other", input=1, targets=[]))
    assert (web.finished("key"), web.file("a", "f")) == ("a", b"other")
    other.save(document("a", state="running", by="other, late"))
    assert (web.document("a") or {})["state"] == "done"
    age(database, 60)
    assert (web.list_abandoned(), one.claim("a")) == ([], None)


def test_what_is_left_is_as_if_nobody_had_begun(database: Database) -> None:
    web, one = (SharedStore(database, name, 100) for name in ("web", "one"))
    web.add(document("a"), {})
    one.claim("a")
    one.save(document("a", state="running"))
    one.release()
    assert [name for name, _ in web.list_abandoned()] == ["a"]
    assert one.claim("a") == 1


def test_wishes_reach_who_works_and_a_title_stays(database: Database) -> None:
    web, one = (SharedStore(database, name, 100) for name in ("web", "one"))
    web.add(document("a"), {})
    one.claim("a")
    assert web.ask("a", order=["rollout"])
    assert web.ask("a", end="stop")
    assert one.renew() == {"a": {"order": ["rollout"], "end": "stop"}}
    web.rename("a", "mine")
    one.save(document("a", state="running", title="of before"))
    assert (web.document("a") or {})["title"] == "mine"
    assert not web.end_waiting("a", "cancelled")
    one.save(document("a", state="done"))
    assert (web.document("a") or {})["title"] == "mine"
    assert not web.ask("a", end="cancel")
    assert not web.ask("none", end="cancel")


def test_what_waits_is_counted_and_can_be_ended(database: Database) -> None:
    web, one = (SharedStore(database, name, 100) for name in ("web", "one"))
    askers = {"a": Visitor("x", "site", "10.0.0.1"), "b": Visitor("y", "y", "10.0.0.2"), "c": Visitor("x", "x", "10.0.0.1")}
    for name, asker in askers.items():
        web.add(document(name), {}, owner=asker.owner, asker=asker)
    assert web.waiting() == [(asker, "2026-01-01") for asker in askers.values()]
    assert [name for name, _ in one.takeable()] == ["a", "b", "c"]
    assert web.count_before("c") == 2
    one.claim("a")
    assert [asker for asker, _ in web.waiting()] == [askers["b"], askers["c"]]
    assert [name for name, _ in one.takeable()] == ["b", "c"]
    assert web.count_before("c") == 1
    assert web.end_waiting("b", "failed", {"title": "Interrupted"})
    assert not web.end_waiting("b", "cancelled")
    assert (web.document("b") or {})["problem"] == {"title": "Interrupted"}
    assert ([asker for asker, _ in web.waiting()], one.claim("b")) == ([askers["c"]], None)


def test_who_asked_is_forgotten_when_it_has_ended(database: Database) -> None:
    web, one = (SharedStore(database, name, 100) for name in ("web", "one"))
    asker = Visitor("x", "10.0.0.1", "10.0.0.1")
    for name in ("a", "b", "c"):
        web.add(document(name), {}, owner="x", asker=asker)
    one.claim("a")
    one.save(document("a", state="running"))
    assert web.asker("a") == asker
    one.save(document("a", state="done"))
    web.end_waiting("b", "cancelled")
    Store.save(web, document("c", state="failed"))
    assert {web.asker(name) for name in ("a", "b", "c")} == {Visitor("x", "x", "")}
    assert web.asker("none") == NOBODY

"""What was accepted is made, whatever becomes of the server and of its disk; and what cannot be kept is said."""

from __future__ import annotations

import json
import logging
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Check, Site, Sites, png, without_seconds
from tests.server.support.gated_models import STEPS, GatedModels
from tests.server.support.hostile import until
from vitrine_server.log import OneLineFormatter
from vitrine_server.store.database import SqliteDatabase
from vitrine_server.store.store import Store

PAGE = 4096  # bytes of SQLite's pages
THREE = ["random", "rollout", "raw_attention"]


def cut_off(home: Path, document: dict[str, Any], state: str) -> None:
    """Leave a finished explanation in the store as a server leaves it that is killed before it has finished it."""
    unfinished = {name: document[name] for name in ("id", "created", "model")} | {"state": state, "maps": []}
    with closing(sqlite3.connect(home / "vitrine.sqlite")) as db, db:
        row = (state, json.dumps(unfinished), document["id"])
        db.execute("UPDATE explanations SET state = ?, document = ?, content_key = NULL WHERE id = ?", row)


QUESTIONS: list[dict[str, Any]] = [
    {"image": png(1), "methods": THREE, "target": ["dog", "zebra"], "crop": "2,3,30,31"},
    {"image": png(2), "model": "clip", "prompt": ["a dog", "a cat"], "methods": THREE},
    {"model": "reviews-bert", "text": "a dull film", "methods": THREE[:1], "long_texts": "cut"},
]


@pytest.mark.parametrize("state", ["queued", "running"])
def test_what_a_killed_server_had_taken_is_made_by_the_next_one(sites: Sites, state: str) -> None:
    with sites() as site:
        made = [site.ask(**question, wait=True).json() for question in QUESTIONS]
        site.client.patch(f"/api/explanations/{made[0]['id']}", json={"title": "mine"})
    for document in made:
        cut_off(sites.home, document, state)
    with sites() as site:
        for document in made:
            again = site.finish(document["id"])
            assert without_seconds(again) == without_seconds(document)
            assert again["created"] == document["created"]


def test_what_two_servers_ended_over_is_not_begun_once_more(sites: Sites) -> None:
    with sites() as site:
        document = site.ask(png(), wait=True).json()
    for outcome in ("done", "failed"):
        cut_off(sites.home, document, "running")
        with sites() as site:
            assert site.finish(document["id"])["state"] == outcome
    with sites() as site:
        again = site.client.post(f"/api/explanations/{document['id']}/again").json()["id"]
        assert site.finish(again)["state"] == "done"


def test_a_source_that_was_not_finished_is_asked_as_it_was(sites: Sites) -> None:
    """What is not sent again, of the same model."""
    with sites() as site:
        made = [site.ask(**question, wait=True).json() for question in QUESTIONS]
    for document in made:
        for state in ("running", "running"):  # the second time it has failed
            cut_off(sites.home, document, state)
            with sites() as site:
                site.finish(document["id"])
    with sites() as site:
        for document in made:
            answer = site.ask(model=document["model"], source=document["id"], methods=None)
            assert without_seconds(site.finish(answer.json()["id"])) == without_seconds(document)
        other = site.ask(source=made[0]["id"], methods=["rollout"], target="zebra", wait=True).json()
        assert (other["methods"], [target["label"] for target in other["targets"]]) == (["rollout"], ["zebra"])


def no_room(site: Site) -> sqlite3.Connection:
    """Let the file of the store grow no more, as on a full disk."""
    db: sqlite3.Connection = site.client.app.state.services.store.database.file  # type: ignore[attr-defined]
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    return db


def test_a_full_disk_is_said_and_what_is_made_is_kept_until_there_is_room(site: Site, refused: Check) -> None:
    gate = site.models.gate("forward")
    running = site.ask(png(0)).json()["id"]
    gate.wait()
    db = no_room(site)
    assert "disk is full" in refused(site.ask(png(5, (800, 800))), 507, "disk-full")["detail"]
    assert "disk is full" in refused(site.client.get("/readyz"), 503, "not-ready")["detail"]
    gate.open()
    assert site.finish(running)["state"] == "done"
    assert "vitrine_store_writable 0.0" in site.client.get("/metrics").text
    db.execute("PRAGMA max_page_count = 1000000")
    assert site.get("/readyz")["status"] == "ready"
    site.ask(png(1), wait=True)
    services = site.client.app.state.services  # type: ignore[attr-defined]
    until(lambda: services.worker.find(running) is None, "it is stored")
    assert services.store.document(running)["state"] == "done"


def test_a_deletion_that_the_disk_refuses_is_said(site: Site, refused: Check) -> None:
    one = site.ask(png(), wait=True).json()["id"]
    db: sqlite3.Connection = site.client.app.state.services.store.database.file  # type: ignore[attr-defined]
    db.execute("PRAGMA query_only = ON")
    refused(site.client.delete(f"/api/explanations/{one}"), 503, "store-failed")
    refused(site.ask(png(1)), 503, "store-failed")
    db.execute("PRAGMA query_only = OFF")
    assert site.client.delete(f"/api/explanations/{one}").status_code == 204


def test_a_number_that_is_too_large_does_not_stop_the_start(sites: Sites) -> None:
    with sites() as site:
        one = site.ask(png(), wait=True).json()["id"]
    with closing(sqlite3.connect(sites.home / "vitrine.sqlite")) as db, db:
        db.execute("UPDATE explanations SET state = 'running', document = ?", (f'{{"id": "{one}", "state": "running", "a": 1e999}}',))
    with sites() as site:
        assert site.finish(one)["state"] == "done"
        damaged = site.client.app.state.services.store.file(one, "damaged")  # type: ignore[attr-defined]
        assert b"1e999" in damaged


@pytest.mark.parametrize("damage", [b"no database at all, " * 100, b"SQLite format 3\0" + bytes(4000)])
def test_a_broken_store_is_put_aside(sites: Sites, damage: bytes, logged: list[logging.LogRecord]) -> None:
    sites.home.mkdir()
    (sites.home / "vitrine.sqlite").write_bytes(damage)
    with sites() as site:
        assert site.ask(png(), wait=True).json()["state"] == "done"
    (aside,) = sites.home.glob("vitrine.sqlite.damaged-*")
    assert aside.read_bytes() == damage
    assert any("damaged" in record.getMessage() for record in logged)


def stored(site: Site) -> Store:
    store: Store = site.client.app.state.services.store  # type: ignore[attr-defined]
    return store


def test_what_is_deleted_is_in_no_file(sites: Sites) -> None:
    with sites() as site:
        ids = [site.ask(png(seed, (300, 200)), wait=True).json()["id"] for seed in range(3)]
        upload = png(0, (300, 200))[100:200]
        assert any(upload in file.read_bytes() for file in sites.home.iterdir())
        size = stored(site).database.file.execute("PRAGMA page_count").fetchone()[0]
        for one in ids[:2]:
            assert site.client.delete(f"/api/explanations/{one}").status_code == 204
        assert not any(upload in file.read_bytes() for file in sites.home.iterdir())
        assert not any(ids[0].encode() in file.read_bytes() for file in sites.home.iterdir())
        assert stored(site).database.file.execute("PRAGMA page_count").fetchone()[0] < size / 2  # the room is given back


def test_what_is_too_old_is_forgotten(sites: Sites) -> None:
    with sites() as site:
        ids = [site.ask(png(seed), wait=True).json()["id"] for seed in range(4)]
    with closing(sqlite3.connect(sites.home / "vitrine.sqlite")) as db, db:
        change = "UPDATE explanations SET document = json_set(document, '$.created', '2020-01-01T00:00:00.000+00:00') WHERE id = ?"
        for one in (ids[0], ids[2]):  # of which the second is behind a younger one: it came in as if the clock had been set back
            db.execute(change, (one,))
        db.execute("UPDATE explanations SET document = 'x', number = -1 WHERE id = ?", (ids[3],))
    with sites(keep_days=1) as site:
        until(lambda: site.client.get(f"/api/explanations/{ids[0]}").status_code == 404, "it is forgotten")
        assert [site.client.get(f"/api/explanations/{one}").status_code for one in ids[1:]] == [200, 200, 500]


def test_what_takes_too_much_room_is_forgotten_the_oldest_first(sites: Sites) -> None:
    with sites(keep_mb=1) as site:
        ids = [site.ask(png(seed, (300, 200)), wait=True).json()["id"] for seed in range(6)]
        stored(site).forget_old()
        statuses = [site.client.get(f"/api/explanations/{one}").status_code for one in ids]
        assert statuses == sorted(statuses, reverse=True)
        assert set(statuses) == {404, 200}
        assert (sites.home / "vitrine.sqlite").stat().st_size <= 1_000_000


def scribble(file: Path, pages: slice) -> None:
    """Overwrite these pages of a store, whose header stays whole."""
    data = bytearray(file.read_bytes())
    for page in range(len(data) // PAGE)[pages]:
        data[page * PAGE : (page + 1) * PAGE] = b"\xa5" * PAGE
    file.write_bytes(data)


def test_a_store_with_broken_pages_is_put_aside_at_the_start(sites: Sites) -> None:
    with sites() as site:
        one = site.ask(png(), wait=True).json()["id"]
    scribble(sites.home / "vitrine.sqlite", slice(1, None))
    with sites() as site:
        assert site.client.get(f"/api/explanations/{one}").status_code == 404
        assert site.ask(png(), wait=True).json()["state"] == "done"
    assert len(list(sites.home.glob("vitrine.sqlite.damaged-*"))) == 1


def test_a_store_that_breaks_later_is_said_and_put_aside_by_the_next_start(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = site.ask(png(size=(400, 300)), wait=True).json()["id"]
        store: Store = site.client.app.state.services.store  # type: ignore[attr-defined]
        store.database.file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = store.database.file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'images'").fetchone()
        store.database.file.execute("PRAGMA cache_size = 0")
        scribble(store.database.path, slice(root - 1, root))
        store.database.file.execute("PRAGMA shrink_memory")
        refused(site.client.get(f"/api/explanations/{one}/input.png"), 503, "store-failed")
        assert "damaged" in refused(site.client.get("/readyz"), 503, "not-ready")["detail"]
    with sites() as site:
        assert site.get("/readyz")["status"] == "ready"
        assert site.ask(png(), wait=True).json()["state"] == "done"
    assert not (sites.home / "vitrine.damaged").exists()


def test_nobody_else_reads_the_home(sites: Sites) -> None:
    sites.home.mkdir(mode=0o755)
    Store(SqliteDatabase(sites.home), 10).close()
    assert stat.S_IMODE(sites.home.stat().st_mode) == 0o700


def test_pictures_are_gone_with_their_explanation(site: Site) -> None:
    one = site.ask(png(), wait=True).json()["id"]
    for name in ("input.png", "original.jpg", "thumbnail.jpg", "tensors.safetensors"):
        first = site.client.get(f"/api/explanations/{one}/{name}")
        assert first.headers["cache-control"] == "private, no-cache"
        asked_again = site.client.get(f"/api/explanations/{one}/{name}", headers={"If-None-Match": first.headers["etag"]})
        assert (asked_again.status_code, asked_again.content) == (304, b"")


def test_no_line_of_the_log_is_made_up() -> None:
    def line(message: str, error: Exception | None = None) -> str:
        about = None if error is None else (type(error), error, None)
        return OneLineFormatter("%(levelname)s: %(message)s").format(logging.LogRecord("server", 20, "", 1, message, (), about))

    assert line("GET /a\nINFO: forged\x1b[31m\u2028") == "INFO: GET /a\\nINFO: forged\\x1b[31m\\u2028"
    assert [text[:4] for text in line("x", ValueError("a\nERROR: forged")).splitlines()[1:]] == ["    "] * 2


def test_a_visitor_has_a_share_of_the_queue(sites: Sites, refused: Check) -> None:
    with sites(queue_size=4, queue_share=2) as site:
        worker = site.client.app.state.services.worker  # type: ignore[attr-defined]
        gate = site.models.gate("forward")
        held = site.ask(png(0), methods=STEPS[0]).json()["id"]
        gate.wait()
        waiting = [site.ask(png(seed), methods=STEPS[0]).json()["id"] for seed in (1, 2)]
        detail = refused(answer := site.ask(png(3)), 429, "queue-full")["detail"]
        assert "your share" in detail
        for job in worker._queue.jobs:
            job.waits_since -= 84  # the wait that is measured
        answer = site.ask(png(3))
        assert 80 <= int(answer.headers["retry-after"]) <= 90
        asker = site.client._transport.client  # type: ignore[attr-defined]
        site.client._transport.client = ("198.51.100.7", 1)  # type: ignore[attr-defined]
        other = site.ask(png(4), methods=STEPS[0]).json()["id"]
        site.client._transport.client = asker  # type: ignore[attr-defined]
        gate.open()
        assert {site.finish(one)["state"] for one in (held, *waiting, other)} == {"done"}
        assert site.models.calls.count(STEPS[0]) == 4
        text = site.client.get("/metrics").text
        assert 'vitrine_refusals_total{reason="queue-full"} 2.0' in text
        assert "vitrine_queue_wait_seconds_count 4.0" in text
        assert 'vitrine_method_seconds_count{method="step_one"} 4.0' in text


def test_another_visitor_does_not_wait_for_all_of_a_greedy_one(sites: Sites) -> None:
    models = GatedModels()
    with sites(models) as site:
        gate = models.gate("forward")
        greedy = [site.ask(png(seed), methods=STEPS[0]).json()["id"] for seed in range(5)]
        gate.wait()
        asker = site.client._transport.client  # type: ignore[attr-defined]
        site.client._transport.client = ("198.51.100.7", 1)  # type: ignore[attr-defined]
        other = site.ask(png(9), methods=STEPS[1]).json()["id"]
        site.client._transport.client = asker  # type: ignore[attr-defined]
        gate.open()
        assert {site.finish(one)["state"] for one in (*greedy, other)} == {"done"}
        made = [call for call in models.calls if call in STEPS]
        assert made.index(STEPS[1]) <= 1

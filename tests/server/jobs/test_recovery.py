"""What outlives a restart, a crash, too little memory and a failing store."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
import torch

from server.http.problems import Problem
from server.jobs.store import Store, StoreError
from tests.server.conftest import Check, Site, Sites, png
from tests.server.fake_engine import USUAL_METHODS, FakeEngine


def test_an_explanation_opens_again_after_a_restart(sites: Sites) -> None:
    with sites() as site:
        before = site.ask(png(), target="dog", wait=True).json()
        root = f"/api/explanations/{before['id']}"
        events = site.events(f"{root}/events")
        paths = [f"{root}/{name}" for name in ("input.png", "original.jpg", "maps/rollout.png", "maps/rollout.npy")]
        contents = [site.client.get(path).content for path in paths]
    with sites() as site:
        assert site.get(root) == before
        assert site.events(f"{root}/events") == events
        assert [site.client.get(path).content for path in paths] == contents
        assert site.ask(png(), target="dog").json()["id"] == before["id"]
    with sites(FakeEngine(fingerprint="b")) as site:  # another version of the engine
        assert site.ask(png(), target="dog").json()["id"] != before["id"]


def test_stopping_ends_what_is_under_way(sites: Sites, refused: Check) -> None:
    with sites() as site:
        gate = site.engine.gate("rollout")
        running, waiting = (site.ask(png(seed)).json()["id"] for seed in range(2))
        gate.wait()
        site.client.app.state.services.worker._stopping = True  # type: ignore[attr-defined]
        gate.open()
    with sites() as site:
        for one in (running, waiting):
            document = site.get(f"/api/explanations/{one}")
            assert document["state"] == "failed"
            assert document["problem"]["type"].endswith("interrupted")
            assert [name for _, name, _ in site.events(f"/api/explanations/{one}/events")][-1] == "failed"


def test_what_a_crash_left_behind_is_failed(sites: Sites) -> None:
    store = Store(sites.home, 10)
    store.add({"id": "abc", "state": "running", "created": "2026-01-01", "model": "m", "maps": []}, {})
    store.add({"id": "def", "state": "done", "created": "2026-01-01", "model": "m", "maps": []}, {})
    store.close()
    with sites(loaded=False) as site:
        document = site.get("/api/explanations/abc")
        assert (document["state"], document["problem"]["status"]) == ("failed", 503)
        assert site.get("/api/explanations/def")["state"] == "done"


def test_out_of_memory_is_tried_once_more(site: Site) -> None:
    site.engine.errors[USUAL_METHODS[1]] = [torch.OutOfMemoryError("full")]
    one = site.ask(png()).json()["id"]
    assert site.finish(one)["state"] == "done"
    assert [name for _, name, _ in site.events(f"/api/explanations/{one}/events")] == ["queued", "started", "method", "method", "done"]


def test_out_of_memory_twice_is_said(site: Site, refused: Check) -> None:
    site.engine.errors["rollout"] = [torch.OutOfMemoryError("full"), MemoryError()]
    document = refused(site.ask(png(), wait=True), 503, "out-of-memory")
    assert "fewer methods" in document["send"]
    assert site.ask(png(), wait=True).status_code == 200


def test_a_failure_is_told_and_the_worker_goes_on(site: Site, refused: Check) -> None:
    site.engine.errors["rollout"] = [RuntimeError("a bug")]
    document = refused(site.ask(png(), wait=True), 500, "explanation-failed")
    assert "RuntimeError: a bug" in document["detail"]
    site.engine.value = float("nan")
    refused(site.ask(png(), wait=True), 500, "explanation-failed")
    site.engine.value = None
    site.engine.logit = float("nan")
    refused(site.ask(png(), wait=True), 500, "explanation-failed")
    site.engine.logit = 1.0
    assert site.ask(png(), wait=True).status_code == 200


def test_a_store_that_fails_does_not_lose_the_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(self: Store, document: Any, images: Any = None, key: Any = None) -> None:
        if document["state"] == "done":
            raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(Store, "save", save)
    document = site.ask(png(), wait=True).json()
    assert (document["state"], len(document["maps"])) == ("done", 2)
    assert site.client.get(f"/api/explanations/{document['id']}/input.png").status_code == 200
    assert site.client.delete(f"/api/explanations/{document['id']}").status_code == 204
    assert site.client.get(f"/api/explanations/{document['id']}").status_code == 404


def test_the_oldest_make_room(sites: Sites) -> None:
    with sites(keep=2) as site:
        ids = [site.ask(png(seed), wait=True).json()["id"] for seed in range(4)]
        assert [site.client.get(f"/api/explanations/{one}").status_code for one in ids] == [404, 404, 200, 200]


def test_a_second_server_on_the_same_home_is_refused(sites: Sites) -> None:
    with sites() as site:
        one = site.ask(png(1), wait=True).json()["id"]
        with pytest.raises(StoreError, match=r"another server that is running has .*VITRINE_HOME"), sites():
            pass
        assert site.get(f"/api/explanations/{one}")["state"] == "done"
    with sites() as site:  # it is free again
        assert site.get(f"/api/explanations/{one}")["state"] == "done"


def test_a_store_of_another_version_is_left_alone(sites: Sites) -> None:
    Store(sites.home, 10).close()
    with sqlite3.connect(sites.home / "vitrine.sqlite") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="schema 99"), sites():
        pass


def test_a_home_that_cannot_be_is_said(sites: Sites) -> None:
    sites.home.write_text("a file")
    with pytest.raises(StoreError, match="VITRINE_HOME"), sites():
        pass


def test_questions_before_the_model_is_there_wait(sites: Sites, refused: Check) -> None:
    engine = FakeEngine()
    gate = engine.gate("load scenes-vit")
    with sites(engine, loaded=False) as site:
        gate.wait()
        good, bad = site.ask(png(), target="dog").json()["id"], site.ask(png(), target="cow").json()["id"]
        assert site.get(f"/api/explanations/{good}")["state"] == "queued"
        gate.open()
        assert site.finish(good)["state"] == "done"
        document = site.finish(bad)
        assert (document["state"], document["problem"]["status"]) == ("failed", 422)
        assert document["problem"]["type"].endswith("unknown-class")
        # what was asked while nobody knew the model is found again
        assert site.ask(png(), target="dog").json()["id"] == good


def test_a_model_that_cannot_be_loaded_fails_its_questions(sites: Sites, refused: Check) -> None:
    engine = FakeEngine(errors={"load scenes-vit": [OSError("no such file")]})
    gate = engine.gate("load scenes-vit")
    with sites(engine, loaded=False) as site:
        gate.wait()
        one = site.ask(png()).json()["id"]
        gate.open()
        assert "no such file" in site.finish(one)["problem"]["detail"]
        refused(site.ask(png()), 422, "model-failed")


def test_problems_survive_their_json() -> None:
    from server.http.problems import from_json

    problem = Problem(422, "empty-text", "The text is empty.", send="Send words.")
    assert from_json(problem.to_json()).to_json() == problem.to_json()


@pytest.mark.parametrize("had_begun", [True, False])
def test_what_the_server_did_not_finish_is_asked_again_exactly(sites: Sites, had_begun: bool) -> None:
    """After its return: the same picture and part of it, targets, methods, and options; under another id."""
    asked = {"target": ["dog"], "against": "zebra", "methods": [*USUAL_METHODS, "random"], "crop": "2,3,30,31", "order": ["random"]}
    with sites() as site:
        expected = site.ask(png(3), wait=True, **asked).json()
        site.client.delete(f"/api/explanations/{expected['id']}")
        if not had_begun:
            held = site.engine.gate("raw_attention")
            site.ask(png(9), methods=["raw_attention"])
            held.wait()
        gate = site.engine.gate("rollout")
        one = site.ask(png(3), **asked).json()["id"]
        if had_begun:
            gate.wait()
        site.client.app.state.services.worker._stopping = True  # type: ignore[attr-defined]
        for closed in site.engine.gates.values():
            closed.open()
    with sites() as site:
        document = site.get(f"/api/explanations/{one}")
        assert (document["state"], document["problem"]["type"]) == ("failed", "urn:vitrine:problem:interrupted")
        assert "stopping" not in document["problem"]["detail"]
        answer = site.client.post(f"/api/explanations/{one}/again")
        assert answer.status_code == 202
        again = site.finish(answer.json()["id"])
        ours = ("id", "created", "seconds")
        assert again["id"] != one
        assert {k: v for k, v in again.items() if k not in ours} == {k: v for k, v in expected.items() if k not in ours}
        # asked once more, it is there
        assert site.client.post(f"/api/explanations/{one}/again").json()["id"] == again["id"]


def test_a_text_is_asked_again_too_and_what_has_no_question_is_said(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = site.ask(model="reviews-bert", text="a dull film", long_texts="cut", wait=True).json()["id"]
        assert site.client.post(f"/api/explanations/{one}/again").json()["id"] == one
        refused(site.client.post("/api/explanations/none/again"), 404, "no-such-explanation")
    store = Store(sites.home, 10)
    store.add({"id": "old", "state": "failed", "created": "2026-01-01", "model": "m"}, {})
    store.close()
    with sites(loaded=False) as site:
        refused(site.client.post("/api/explanations/old/again"), 409, "no-question")

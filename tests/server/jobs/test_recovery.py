"""What outlives a restart, a crash, too little memory and a failing store."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from tests.server.conftest import Check, Site, Sites, png, without_seconds
from tests.server.support.gated_models import MAKES, STEPS, USUAL_METHODS, GatedModels, image_model
from vitrine_server.http.metrics import SHORTAGE_OUTCOMES
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.recovery import RESUMED
from vitrine_server.store.database import SqliteDatabase, StoreError
from vitrine_server.store.store import Store


def test_an_explanation_opens_again_after_a_restart(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr("vitrine_server.jobs.intake.engine_digest", lambda: "of another version of the engine")
    with sites() as site:
        assert site.ask(png(), target="dog").json()["id"] != before["id"]


@pytest.mark.parametrize("has_store", [True, False], ids=["stored", "disk full"])
def test_what_is_under_way_when_the_server_stops_is_made_by_the_next_one(sites: Sites, has_store: bool) -> None:
    """However often it stops: no question is to blame for that."""
    with sites() as site:
        ids = [site.ask(png(seed), target="zebra").json()["id"] for seed in range(2)]
        expected = [without_seconds(site.finish(one)) for one in ids]
        for one in ids:
            site.client.delete(f"/api/explanations/{one}")
        gate = site.models.gate("forward")
        taken = [site.ask(png(seed), target="zebra").json()["id"] for seed in range(2)]
        gate.wait()
        site.client.patch(f"/api/explanations/{taken[0]}", json={"title": "mine"})
        stop(site, has_store)
    for _ in range(3 if has_store else 0):
        models = GatedModels()
        gate = models.gate("forward")
        with sites(models, loaded=False) as site:  # what is unfinished comes before the models that nobody asked for
            gate.wait()
            assert site.get(f"/api/explanations/{taken[0]}")["title"] == "mine"
            stop(site, has_store)
    with sites() as site:
        again = [without_seconds(site.finish(one)) for one in taken]
    assert again == [{**expected[0], "title": "mine"}, expected[1]]


def stop(site: Site, has_store: bool = True) -> None:
    """Tell the server to stop, and let what is held at a gate go on then."""
    worker = site.client.app.state.services.worker  # type: ignore[attr-defined]
    worker.stopping = True
    if not has_store:
        worker.store.database.file.execute("PRAGMA query_only = 1")
    site.models.open_all()


def test_who_waits_for_an_answer_is_told_where_it_will_be(sites: Sites, refused: Check) -> None:
    with sites() as site, ThreadPoolExecutor(1) as pool:
        gate = site.models.gate("forward")
        waiting = pool.submit(site.ask, png(), wait=True)
        gate.wait()
        stopping = threading.Thread(target=site.client.app.state.services.worker.stop)  # type: ignore[attr-defined]
        stopping.start()
        gate.open()
        stopping.join()
        told = refused(waiting.result(), 503, "interrupted")["send"]
    with sites() as site:
        path = re.search("GET (.*) once", told)[1]  # type: ignore[index]
        assert site.finish(path.rpartition("/")[2])["state"] == "done"


def test_what_a_crash_left_behind_is_failed(sites: Sites) -> None:
    store = Store(SqliteDatabase(sites.home), 10)
    store.add({"id": "abc", "state": "running", "created": "2026-01-01", "model": "m", "maps": []}, {})
    store.add({"id": "def", "state": "done", "created": "2026-01-01", "model": "m", "maps": []}, {})
    store.close()
    with sites(loaded=False) as site:
        document = site.get("/api/explanations/abc")
        assert (document["state"], document["problem"]["status"]) == ("failed", 503)
        assert site.get("/api/explanations/def")["state"] == "done"


#: How memory runs out: of the GPU, of Python, of torch on Linux and on Windows, of C++, of NumPy, of cuBLAS, and inside another error.
NO_MEMORY: dict[str, Callable[[], Exception]] = {
    "GPU": lambda: torch.OutOfMemoryError("full"),
    "Python": MemoryError,
    "torch": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 40 bytes. Error code 12"),
    "Windows": lambda: RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 40 bytes."),
    "C++": lambda: RuntimeError("std::bad_alloc"),
    "NumPy": lambda: raised(lambda: np.empty(2**50)),
    "cuBLAS": lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "real": lambda: raised(lambda: torch.empty(2**60)),
}


def raised(work: Callable[[], object]) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("it has so much memory")


@pytest.mark.parametrize("which", NO_MEMORY)
def test_out_of_memory_is_tried_once_more(site: Site, which: str) -> None:
    site.models.errors["backward"] = [NO_MEMORY[which]()]
    one = site.ask(png()).json()["id"]
    assert site.finish(one)["state"] == "done"
    assert [name for _, name, _ in site.events(f"/api/explanations/{one}/events")] == ["queued", "started", "method", "method", "done"]


def test_each_time_that_memory_is_short_is_counted(sites: Sites) -> None:
    def counted(site: Site) -> dict[str, float]:
        lines = re.findall(r'^vitrine_memory_shortages_total\{device="cpu",outcome="(.+)"\} (\S+)$', site.client.get("/metrics").text, re.M)
        return {outcome: float(count) for outcome, count in lines}

    with sites() as site:
        assert counted(site) == dict.fromkeys(SHORTAGE_OUTCOMES, 0)  # they are there before their first count
        for times in (1, 2):
            site.models.errors["backward"] = [torch.OutOfMemoryError("full")]
            assert site.ask(png(times), wait=True).json()["state"] == "done"
            assert counted(site) == {"smaller-batch": 0, "recomputed": times, "made-room": 0, "failed": 0}
        site.models.errors["forward"] = [torch.OutOfMemoryError("full") for _ in range(2)]
        assert site.ask(png(3), wait=True).status_code == 503
        assert counted(site) == {"smaller-batch": 0, "recomputed": 2, "made-room": 0, "failed": 2}


def test_what_may_be_a_shortage_is_tried_with_less_and_said_in_its_own_words_where_it_stays(site: Site, refused: Check) -> None:
    """CuDNN's error where a workspace finds no memory, and where the GPU does not have an operation."""
    words = "GET was unable to find an engine to execute this computation"
    site.models.errors["backward"] = [RuntimeError(words)]
    assert site.ask(png(), wait=True).json()["state"] == "done"
    site.models.errors["forward"] = [RuntimeError(words)]
    document = refused(site.ask(png(1), wait=True), 500, "explanation-failed")
    assert words in document["detail"]
    assert "Ask for less at once" in document["send"]
    assert site.ask(png(1), wait=True).json()["state"] == "done"


@pytest.mark.parametrize("which", NO_MEMORY)
def test_out_of_memory_twice_is_said(site: Site, refused: Check, which: str) -> None:
    site.models.errors["forward"] = [NO_MEMORY[which](), NO_MEMORY[which]()]
    document = refused(site.ask(png(), wait=True), 503, "out-of-memory")
    assert "fewer methods" in document["send"]
    assert site.ask(png(), wait=True).status_code == 200


@pytest.mark.parametrize("which", NO_MEMORY)
def test_a_model_that_memory_does_not_hold_says_so(sites: Sites, refused: Check, which: str) -> None:
    error = ExplainerError("timm cannot load it")
    error.__cause__ = NO_MEMORY[which]()
    with sites(GatedModels(errors={"load scenes-vit": [NO_MEMORY[which]()], "load clip": [error]}), loaded=False) as site:
        for name in ("scenes-vit", "clip"):
            assert site.events(f"/api/models/events?name={name}")[-1][1] == "failed"
            problem = site.get(f"/api/models/{name}")["problem"]
            assert (problem["status"], problem["type"]) == (503, "urn:vitrine:problem:out-of-memory")


def log_of(logged: list[logging.LogRecord], detail: str) -> str:
    """What the log has under the id that a person was told."""
    (error_id,) = re.findall(r"\b[0-9a-f]{12}\b", detail)
    (record,) = (record for record in logged if error_id in record.getMessage() and record.exc_info)
    return f"{record.getMessage()} {record.exc_info[1]!r}"  # type: ignore[index]


def test_a_failure_is_told_and_the_worker_goes_on(site: Site, refused: Check, logged: list[logging.LogRecord]) -> None:
    """Without the model's own words, which the log has."""
    site.models.errors["forward"] = [RuntimeError("a bug in /home/me, password 123")]
    document = refused(site.ask(png(), wait=True), 500, "explanation-failed")
    assert not re.search("bug|home|123|RuntimeError", document["detail"])
    assert "password 123" in log_of(logged, document["detail"])
    assert site.ask(png(), wait=True).status_code == 200


def infinite() -> explainers.Model:
    """A model that is infinitely sure of its last class."""
    sound = image_model()

    def forward(tensors: Mapping[str, Tensor]) -> Tensor:
        return sound.forward(tensors) + torch.tensor([0.0, 0.0, 0.0, float("inf")])

    return replace(sound, forward=forward)


def test_numbers_that_are_not_finite_are_named(sites: Sites, refused: Check) -> None:
    """Those of a map by the engine, which names the method; those of an answer by the server."""
    with sites(GatedModels(makes={**MAKES, "timm/other": infinite}, scores={STEPS[0]: float("nan")})) as site:
        detail = refused(site.ask(png(), methods=STEPS[0], wait=True), 422, "cannot-explain")["detail"]
        assert "not finite" in detail
        assert STEPS[0] in detail
        answer = site.ask(png(), model="timm/other", methods=STEPS[1], wait=True)
        assert "not finite" in refused(answer, 422, "unusable-numbers")["detail"]
        assert site.ask(png(), wait=True).status_code == 200


def test_labels_that_cannot_be_encoded_are_refused_with_their_model(sites: Sites, refused: Check) -> None:
    odd = replace(image_model(), labels=("zebra", "\ud800", "dog", "7"))
    odder = replace(image_model(), details={**image_model().details, "logit_scale": float("nan")})
    with sites(GatedModels(makes={**MAKES, "timm/listed": lambda: odd, "timm/other": lambda: odder})) as site:
        site.client.post("/api/models", json={"name": "timm/listed"})
        site.wait_for_models("timm/listed")
        assert "encoded" in site.get("/api/models/timm/listed")["problem"]["detail"]
        site.client.post("/api/models", json={"name": "timm/other"})
        site.wait_for_models("timm/other")
        states = {model["name"]: model["state"] for model in site.get("/api/models")["models"]}
        assert (states["timm/listed"], states["timm/other"], states["scenes-vit"]) == ("failed", "failed", "loaded")


#: Rows as no version writes them, and as earlier ones did: what is in the column ``document``.
DAMAGED = [b"", b"{", b"[]", b"{}", b'{"id": "bad"}', b"\xff\xfe", b'{"id": "bad", "state": NaN}', None, 3]


@pytest.mark.parametrize("state", ["running", "queued", "done"])
@pytest.mark.parametrize("stored", DAMAGED)
def test_one_bad_row_breaks_nothing_else(sites: Sites, refused: Check, state: str, stored: bytes | int | None) -> None:
    """Neither the start, nor another explanation, nor one of the same question."""
    with sites() as site:
        good, bad = (site.ask(png(seed), wait=True).json()["id"] for seed in range(2))
    with closing(sqlite3.connect(sites.home / "vitrine.sqlite")) as db, db:
        if stored is None:
            stored = json.dumps({"id": bad, "state": state}).encode()  # well-formed, and holds nothing
        text = "CAST(? AS TEXT)" if isinstance(stored, bytes) else "?"
        db.execute(f"UPDATE explanations SET state = ?, document = {text} WHERE id = ?", (state, stored, bad))
    with sites() as site:
        assert site.get(f"/api/explanations/{good}")["state"] == "done"
        answer = site.client.get(f"/api/explanations/{bad}")
        if state == "done" and answer.status_code != 200:
            assert bad in refused(answer, 500, "damaged-explanation")["send"]
        elif state != "done":
            assert site.finish(bad)["state"] == "done"  # its question is kept beside it
        again = site.ask(png(1), wait=True).json()
        assert (again["state"], again["id"] == bad) == ("done", state != "done")
        assert site.client.delete(f"/api/explanations/{bad}").status_code == 204
        assert site.client.get(f"/api/explanations/{bad}").status_code == 404
        assert site.client.delete(f"/api/explanations/{bad}").status_code == 404


def test_a_title_that_an_earlier_version_took_is_mended(sites: Sites) -> None:
    with sites() as site:
        one = site.ask(png(), wait=True).json()["id"]
    with closing(sqlite3.connect(sites.home / "vitrine.sqlite")) as db, db:
        (text,) = db.execute("SELECT document FROM explanations").fetchone()
        db.execute("UPDATE explanations SET document = ?", (json.dumps({**json.loads(text), "title": "a\ud800b"}),))
    with sites() as site:
        assert site.get(f"/api/explanations/{one}")["title"] == "a\ufffdb"
        assert site.get(f"/api/explanations/{one}/summary")["title"] == "a\ufffdb"
        assert site.client.patch(f"/api/explanations/{one}", json={"title": "new"}).status_code == 200
        assert site.get(f"/api/explanations/{one}")["title"] == "new"


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
    Store(SqliteDatabase(sites.home), 10).close()
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
    engine = GatedModels()
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
    engine = GatedModels(errors={"load scenes-vit": [ExplainerError("no such file")]})
    gate = engine.gate("load scenes-vit")
    with sites(engine, loaded=False) as site:
        gate.wait()
        one = site.ask(png()).json()["id"]
        gate.open()
        assert "no such file" in site.finish(one)["problem"]["detail"]
        refused(site.ask(png()), 422, "model-failed")


def test_problems_survive_their_json() -> None:
    from vitrine_server.http.problems import from_json

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
            held = site.models.gate("forward")
            site.ask(png(9), methods=["raw_attention"])
            held.wait()
        gate = site.models.gate("forward")
        one = site.ask(png(3), **asked).json()["id"]
        if had_begun:
            gate.wait()
        stop(site)
    store = Store(SqliteDatabase(sites.home), 10)  # as two servers leave it that ended over it
    store.put_file(one, RESUMED, b"")
    store.save({"id": one, "created": "2026-01-01", "model": "scenes-vit", "state": "running"})
    store.close()
    with sites() as site:
        document = site.get(f"/api/explanations/{one}")
        assert (document["state"], document["problem"]["type"]) == ("failed", "urn:vitrine:problem:interrupted")
        assert "stopping" not in document["problem"]["detail"]
        answer = site.client.post(f"/api/explanations/{one}/again")
        assert answer.status_code == 202
        again = site.finish(answer.json()["id"])
        assert again["id"] != one
        assert without_seconds(again) == without_seconds(expected)
        # asked once more, it is there
        assert site.client.post(f"/api/explanations/{one}/again").json()["id"] == again["id"]


def test_a_text_is_asked_again_too_and_what_has_no_question_is_said(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = site.ask(model="reviews-bert", text="a dull film", long_texts="cut", wait=True).json()["id"]
        assert site.client.post(f"/api/explanations/{one}/again").json()["id"] == one
        refused(site.client.post("/api/explanations/none/again"), 404, "no-such-explanation")
    store = Store(SqliteDatabase(sites.home), 10)
    store.add({"id": "old", "state": "failed", "created": "2026-01-01", "model": "m"}, {})
    store.close()
    with sites(loaded=False) as site:
        refused(site.client.post("/api/explanations/old/again"), 409, "no-question")

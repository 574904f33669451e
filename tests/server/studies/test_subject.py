"""Studies: questions to the model of a stored explanation, on a tiny model; which routes there are is another matter."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
import torch
from fastapi import FastAPI

from explainers.errors import ExplainerError
from tests.server.conftest import Check, Site, Sites, picture, png
from tests.server.support.gated_models import STEPS, Gate, GatedModels, image_model
from vitrine_server.api.studies import add_call
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import FEW_PASSES, SHORT, Study, Task
from vitrine_server.studies.registry import STUDIES, study
from vitrine_server.studies.subject import Subject

FOLLOW = {"Accept": "text/event-stream"}
PASSES = ["pass 0", "pass 1", "pass 2"]


#: A study as the tests make them: from its subject to its answer.
Ask = Callable[[Subject], dict[str, Any]]


def probe(site: Site, ask: Ask, is_long: bool = False) -> str:
    """Add a call that runs ``ask``; gives its name."""
    app = site.client.app
    assert isinstance(app, FastAPI)
    name = f"probe{len(app.routes)}"

    def run(subject: Subject) -> dict[str, Any]:
        return ask(subject)

    path = f"/api/explanations/{{id}}/{name}"
    study(path, answer=Any, weight=FEW_PASSES if is_long else SHORT)(run)
    add_call(app.router, STUDIES.pop(path))
    return name


def told(site: Site, *kinds: str) -> list[str]:
    """What was done, of these kinds, in order."""
    return [call for call in site.models.calls if call in kinds]


def total(subject: Subject) -> dict[str, Any]:
    """A study: what the model was given, summed."""
    assert threading.current_thread().name == "models"
    subject.check()
    return {"sum": sum(float(tensor.sum()) for tensor in subject.tensors.values()), "model": subject.model.name, "labels": subject.labels}


def image(site: Site, seed: int = 0) -> Any:
    return site.ask(png(seed), wait=True).json()


def test_a_study_sees_what_the_model_was_given(site: Site) -> None:
    name, one = probe(site, total), image(site)["id"]
    answer = site.client.post(f"/api/explanations/{one}/{name}").json()
    assert answer["id"] == one
    assert (answer["model"], answer["labels"], answer["notes"]) == ("scenes-vit", ["zebra", "elephant", "dog", "7"], [])
    assert answer["sum"] == pytest.approx(float(image_model().tensors(picture())["pixel_values"].sum()))


def test_it_outlives_the_process(sites: Sites) -> None:
    with sites() as site:
        one = image(site)["id"]
        first = site.client.post(f"/api/explanations/{one}/{probe(site, total)}").json()
    with sites() as site:
        assert site.client.post(f"/api/explanations/{one}/{probe(site, total)}").json() == first


def test_the_labels_of_prompts_are_the_prompts(site: Site) -> None:
    document = site.ask(png(), model="clip", prompt=["a zebra", "a dog"], against="an elephant", wait=True).json()
    answer = site.client.post(f"/api/explanations/{document['id']}/{probe(site, total)}").json()
    assert answer["labels"] == ["a zebra", "an elephant", "a dog"]


@pytest.mark.parametrize("fields", [{"image": png()}, {"model": "reviews-bert", "text": "a dull film"}])
def test_an_input_that_was_not_kept_is_prepared_again(sites: Sites, fields: dict[str, Any]) -> None:
    with sites() as site:
        one = site.ask(**fields, wait=True).json()["id"]
        first = site.client.post(f"/api/explanations/{one}/{probe(site, total)}").json()
    with sqlite3.connect(sites.home / "vitrine.sqlite") as store:
        assert store.execute("DELETE FROM images WHERE name = 'tensors.safetensors'").rowcount == 1
    with sites() as site:
        again = site.client.post(f"/api/explanations/{one}/{probe(site, total)}").json()
    assert again["sum"] == pytest.approx(first["sum"], rel=0.02)  # the stored picture is a JPEG file
    assert ["prepared again" in note for note in again["notes"]] == ([True] if "image" in fields else [])


def test_an_input_that_is_lost_is_said(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = image(site)["id"]
    with sqlite3.connect(sites.home / "vitrine.sqlite") as store:
        store.execute("DELETE FROM images")
    with sites() as site:
        refused(site.client.post(f"/api/explanations/{one}/{probe(site, total)}"), 409, "input-lost")


def test_what_is_not_there_or_not_done_is_refused(site: Site, refused: Check) -> None:
    name, gate = probe(site, total), site.models.gate("forward")
    refused(site.client.post(f"/api/explanations/nothing/{name}"), 404, "no-such-explanation")
    one = site.ask(png()).json()["id"]
    gate.wait()
    assert "running" in refused(site.client.post(f"/api/explanations/{one}/{name}"), 409, "not-done")["detail"]


def test_other_weights_are_another_model(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = image(site)["id"]
    with sqlite3.connect(sites.home / "vitrine.sqlite") as store:
        store.execute("UPDATE explanations SET document = replace(document, ?, 'another')", [image_model().weights_digest])
    with sites() as site:
        refused(site.client.post(f"/api/explanations/{one}/{probe(site, total)}"), 409, "model-changed")


def test_a_model_that_is_not_loaded_is_loaded_first(sites: Sites) -> None:
    with sites() as site:
        site.client.post("/api/models", json={"name": "timm/listed"})
        site.wait_for_models("timm/listed")
        one = site.ask(png(), model="timm/listed", wait=True).json()["id"]
    with sites() as site:
        assert site.client.post(f"/api/explanations/{one}/{probe(site, total)}").json()["model"] == "timm/listed"
        assert site.get("/api/models/timm/listed")["state"] == "loaded"


def test_a_model_that_cannot_be_loaded_is_said(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = site.ask(png(), model="timm/listed", wait=True).json()["id"]
    with sites(GatedModels(errors={"load timm/listed": [ExplainerError("It is gone.")]})) as site:
        refused(site.client.post(f"/api/explanations/{one}/{probe(site, total)}"), 422, "model-failed")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ExplainerError("That cannot be asked."), 422, "cannot-answer"),
        (Problem(422, "odd", "That is odd.", send="Send something else."), 422, "odd"),
        (RuntimeError("a bug"), 500, "study-failed"),
    ],
)
def test_errors_are_told_and_the_worker_goes_on(site: Site, refused: Check, error: Exception, status: int, kind: str) -> None:
    def fails(subject: Subject) -> dict[str, Any]:
        raise error

    one = image(site)["id"]
    document = refused(site.client.post(f"/api/explanations/{one}/{probe(site, fails)}"), status, kind)
    assert (str(error) in document["detail"]) is (kind != "study-failed")  # the words of what nobody foresaw are in the log alone
    assert site.client.post(f"/api/explanations/{one}/{probe(site, total)}").status_code == 200


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_an_answer_that_cannot_be_sent_is_named(site: Site, refused: Check, number: float) -> None:
    one = image(site)["id"]
    answer = site.client.post(f"/api/explanations/{one}/{probe(site, lambda subject: {'area': number})}")
    assert "not finite" in refused(answer, 422, "unusable-numbers")["detail"]


def test_memory_that_runs_out_is_tried_once_more(site: Site, refused: Check) -> None:
    errors: list[Exception] = [torch.OutOfMemoryError("full"), MemoryError(), torch.OutOfMemoryError("full")]

    def hungry(subject: Subject) -> dict[str, Any]:
        if errors:
            raise errors.pop()
        return {}

    one, name = image(site)["id"], probe(site, hungry)
    refused(site.client.post(f"/api/explanations/{one}/{name}"), 503, "out-of-memory")
    assert site.client.post(f"/api/explanations/{one}/{name}").status_code == 200


def test_studies_go_before_the_explanations_that_wait(site: Site) -> None:
    def log(subject: Subject) -> dict[str, Any]:
        site.models.calls.append("study")
        return {}

    site.finish(_asked_while_another_waits(site, probe(site, log)))
    assert told(site, "study", *STEPS) == [STEPS[0], "study", STEPS[1]]


def _asked_while_another_waits(site: Site, name: str) -> str:
    """Ask for a study while one explanation is computed and another waits: the id of the latter, once the study is answered."""
    one, gate = image(site)["id"], site.models.gate("forward")
    site.ask(png(1), methods=STEPS[0])
    gate.wait()
    waiting: str = site.ask(png(2), methods=STEPS[1]).json()["id"]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(site.client.post, f"/api/explanations/{one}/{name}")
        _until_waiting(site)
        gate.open()
        assert asked.result().status_code == 200
    return waiting


def _until_waiting(site: Site) -> None:
    """Until the worker has a study to do."""
    app = site.client.app
    assert isinstance(app, FastAPI)
    worker = app.state.services.worker
    with worker.change:
        assert worker.change.wait_for(lambda: worker._queue.studies, 20)


class LongStudy:
    """A study of three passes, each of which waits at a gate of its own."""

    def __init__(self, site: Site) -> None:
        self.calls, self.gates = site.models.calls, [Gate(), Gate(), Gate()]

    def __call__(self, subject: Subject) -> dict[str, Any]:
        for done, gate in enumerate(self.gates):
            subject.before_pass(done, len(self.gates))
            self.calls.append(f"pass {done}")
            gate.pass_through()
        return {"sum": 1}


def test_a_new_question_passes_a_running_study(site: Site) -> None:
    long = LongStudy(site)
    one, name, short = image(site)["id"], probe(site, long, is_long=True), probe(site, total)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(site.client.post, f"/api/explanations/{one}/{name}")
        long.gates[0].wait()
        question = site.ask(png(1), methods=STEPS[1]).json()["id"]
        long.gates[0].open()
        assert site.finish(question)["state"] == "done"  # the study has not gone on: its next pass is held
        long.gates[1].wait()
        study = pool.submit(site.client.post, f"/api/explanations/{one}/{short}")
        _until_waiting(site)
        site.client.post("/api/models", json={"name": "timm/listed"})
        site.events_until("/api/models/events?name=timm/listed", "Loading")
        long.gates[1].open()
        assert study.result().status_code == 200
        site.wait_for_models("timm/listed")
        assert not asked.done()
        long.gates[2].open()
        assert asked.result().json() == {"id": one, "sum": 1, "notes": []}
    assert told(site, *PASSES, *STEPS, "load timm/listed") == ["pass 0", STEPS[1], "pass 1", "load timm/listed", "pass 2"]


def test_a_study_that_is_not_long_lets_nobody_pass(site: Site) -> None:
    short = LongStudy(site)
    one, name = image(site)["id"], probe(site, short)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(site.client.post, f"/api/explanations/{one}/{name}")
        short.gates[0].wait()
        question = site.ask(png(1), methods=STEPS[1]).json()["id"]
        for gate in short.gates:
            gate.open()
        assert asked.result().status_code == 200
    site.finish(question)
    assert told(site, *PASSES, *STEPS) == [*PASSES, STEPS[1]]


def test_a_long_study_begins_after_the_explanations_that_wait(site: Site) -> None:
    long = LongStudy(site)
    for gate in long.gates:
        gate.open()
    waiting = _asked_while_another_waits(site, probe(site, long, is_long=True))
    assert site.get(f"/api/explanations/{waiting}")["state"] == "done"
    assert told(site, *PASSES, *STEPS) == [STEPS[0], STEPS[1], *PASSES]


def test_a_study_that_is_cancelled_stops_after_the_question_that_passed_it(site: Site) -> None:
    """Also where whoever waits for it leaves while another question is answered in between."""
    long = LongStudy(site)
    one = image(site)["id"]
    app = site.client.app
    assert isinstance(app, FastAPI)
    services = app.state.services

    def work(model: Any, cancelled: Any, tell: Any) -> dict[str, Any]:
        return long(Subject(model, {}, [], {"id": one}, cancelled, tell, model))

    task = Study(services.registry.find("scenes-vit"), Task(work, FEW_PASSES))
    services.worker.study(task)
    long.gates[0].wait()
    between_passes = site.models.gate(STEPS[1])
    question = site.ask(png(1), methods=STEPS[1]).json()["id"]
    long.gates[0].open()
    between_passes.wait()
    task.cancel()
    between_passes.open()
    assert site.finish(question)["state"] == "done"
    with pytest.raises(Problem):
        task.future.result(20)
    assert told(site, *PASSES, *STEPS) == ["pass 0", STEPS[1]]


def test_a_study_is_told_as_it_goes(site: Site, refused: Check) -> None:
    long = LongStudy(site)
    one, name = image(site)["id"], probe(site, long, is_long=True)
    for gate in long.gates:
        gate.open()
    with site.client.stream("POST", f"/api/explanations/{one}/{name}", headers=FOLLOW) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = [line for line in answer.iter_lines() if line]
    assert told == [
        *(line for n in range(3) for line in ("event: progress", f'data: {{"asked":{n},"total":3}}')),
        "event: done",
        f'data: {{"id":"{one}","sum":1,"notes":[]}}',
    ]

    def fails(subject: Subject) -> dict[str, Any]:
        raise ExplainerError("That cannot be asked.")

    answer = site.client.post(f"/api/explanations/{one}/{probe(site, fails)}", headers=FOLLOW)
    assert answer.text.splitlines()[0] == "event: failed"
    assert "That cannot be asked." in answer.text
    refused(site.client.post(f"/api/explanations/nothing/{name}", headers=FOLLOW), 404, "no-such-explanation")


def test_too_many_studies_are_refused_and_a_stop_answers_those_that_wait(sites: Sites, refused: Check) -> None:
    with sites(queue_size=1) as site, ThreadPoolExecutor(1) as pool:
        one, gate, name = image(site)["id"], site.models.gate("forward"), probe(site, total)
        site.ask(png(1), methods=STEPS[0])
        gate.wait()
        waiting = pool.submit(site.client.post, f"/api/explanations/{one}/{name}")
        _until_waiting(site)
        answer = site.client.post(f"/api/explanations/{one}/{name}")
        assert "studies" in refused(answer, 429, "queue-full")["detail"]
        assert int(answer.headers["retry-after"]) >= 1
        app = site.client.app
        assert isinstance(app, FastAPI)
        stop = threading.Thread(target=app.state.services.worker.stop)
        stop.start()
        gate.open()
        stop.join()
        refused(waiting.result(), 503, "interrupted")


def test_whoever_hangs_up_stops_the_study(site: Site) -> None:
    one, gate, ended = image(site)["id"], Gate(), threading.Event()

    def long(subject: Subject) -> dict[str, Any]:
        gate.pass_through()
        try:
            subject.check()
        finally:
            ended.set()
        raise AssertionError("nobody waits for it")

    name, app = probe(site, long), site.client.app
    messages = [{"type": "http.request", "body": b"", "more_body": False}]
    scope = {"type": "http", "method": "POST", "path": f"/api/explanations/{one}/{name}", "headers": [], "query_string": b""}
    scope |= {"root_path": "", "scheme": "http", "server": ("test", 80), "client": ("test", 1), "http_version": "1.1"}

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await anyio.to_thread.run_sync(gate.wait)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    async def call() -> None:
        await app(scope, receive, send)
        gate.open()

    assert site.client.portal is not None
    site.client.portal.call(call)
    assert ended.wait(20)
    assert site.client.post(f"/api/explanations/{one}/{probe(site, total)}").status_code == 200

"""Whose map comes next: what is looked at first, and questions that take turns at the device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import SLOW_STEP, STEPS, Gate, GatedModels
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.queue import job as jobs
from vitrine_server.jobs.queue.device_queue import DeviceQueue
from vitrine_server.jobs.queue.study import BACKGROUND, FEW_PASSES, MANY_PASSES, Study, Task
from vitrine_server.schemas.question import Question

FOUR = ["raw_attention", "rollout", "random", "fullgrad_plus:libra"]


@pytest.fixture
def slow_site(sites: Sites) -> Iterator[Site]:
    models = GatedModels()
    for number in range(3):
        models.gate(f"pass {number}")
    with sites(models) as site:
        site.client.app.state.services.worker.costs.note("scenes-vit", SLOW_STEP, 60.0, 0)  # type: ignore[attr-defined]
        yield site


def made(site: Site) -> list[str]:
    """Which maps of the tests' own methods were begun, and which of their passes were made, in order."""
    return [call for call in site.models.calls if call.startswith("pass") or call in (*STEPS, SLOW_STEP)]


def methods(document: Any) -> list[str]:
    """In the order in which they came."""
    return [document["maps"][place]["method"] for place in document.get("made", range(len(document["maps"])))]


def test_maps_come_in_the_order_that_is_wished_for(site: Site) -> None:
    order = ["random", "not asked for", "fullgrad_plus:libra"]
    document = site.ask(png(), methods=FOUR, order=order, wait=True).json()
    assert methods(document) == ["random", "fullgrad_plus:libra", "raw_attention", "rollout"]
    assert document["methods"] == [entry["method"] for entry in document["maps"]] == FOUR
    # the order is no part of the question
    assert site.ask(png(), methods=FOUR, wait=True).json()["id"] == document["id"]


def test_several_classes_come_method_by_method(site: Site) -> None:
    document = site.ask(png(), methods=["rollout", "random"], target=["zebra", "dog"], wait=True).json()
    shown = [(document["maps"][place]["method"], document["maps"][place]["target"]) for place in document["made"]]
    assert shown == [("rollout", "zebra"), ("rollout", "dog"), ("random", "zebra"), ("random", "dog")]


def test_what_is_looked_at_later_comes_next(site: Site, refused: Check) -> None:
    gate = site.models.gate(STEPS[0])
    one = site.ask(png(), methods=STEPS).json()["id"]
    gate.wait()
    assert site.client.put(f"/api/explanations/{one}/order", json={"methods": STEPS[3:]}).status_code == 204
    gate.open()
    assert methods(site.finish(one)) == [STEPS[0], STEPS[3], STEPS[1], STEPS[2]]
    assert site.client.put(f"/api/explanations/{one}/order", json={"methods": ["random"]}).status_code == 204  # nothing is left to order
    refused(site.client.put("/api/explanations/none/order", json={"methods": []}), 404, "no-such-explanation")
    refused(site.client.put(f"/api/explanations/{one}/order", json={"methods": ["x" * 2000]}), 422, "too-long")


def test_a_new_question_waits_for_one_method_at_most(site: Site) -> None:
    first, second = site.models.gate(STEPS[0]), site.models.gate(STEPS[1])
    slow = site.ask(png(0), methods=[*STEPS[:2], *FOUR]).json()["id"]
    first.wait()
    quick = site.ask(png(1), methods=["fullgrad_plus:libra", "random"]).json()["id"]
    first.open()
    assert site.finish(quick)["state"] == "done"  # the second method of the first question is held
    second.wait()
    second.open()
    document = site.finish(slow)
    assert methods(document) == [*STEPS[:2], *FOUR]
    alone = site.ask(png(0), methods=[*STEPS[:2], *FOUR, "saliency"], wait=True).json()
    assert [entry["scores"] for entry in document["maps"]] == [entry["scores"] for entry in alone["maps"][:-1]]


def test_a_question_that_had_its_turn_is_told_as_if_it_had_been_alone(site: Site) -> None:
    gate = site.models.gate("forward")
    one = site.ask(png(0), methods=FOUR).json()["id"]
    gate.wait()
    other = site.ask(png(1), methods=FOUR).json()["id"]
    gate.open()
    for name in (one, other):
        document = site.finish(name)
        events = site.events(f"/api/explanations/{name}/events")
        assert [event for _, event, _ in events] == ["queued", "started", *["method"] * 4, "done"]
        assert sorted(methods(document)) == sorted(FOUR)


def test_between_two_passes_of_a_slow_method_quick_ones_pass(slow_site: Site) -> None:
    site = slow_site
    gates = [site.models.gate(f"pass {number}") for number in range(3)]
    slow = site.ask(png(0), methods=[SLOW_STEP, "rollout"]).json()["id"]
    gates[0].wait()
    quick = site.ask(png(1), methods=STEPS[0]).json()["id"]
    other = site.ask(png(2), methods=SLOW_STEP).json()["id"]
    gates[0].open()
    assert site.finish(quick)["state"] == "done"  # the next pass is held
    assert site.get(f"/api/explanations/{slow}")["maps"] == []
    assert site.get(f"/api/explanations/{other}")["state"] == "queued"  # one slow method waits for another
    for gate in gates[1:]:
        gate.open()
    assert methods(site.finish(slow)) == [SLOW_STEP, "rollout"]
    assert methods(site.finish(other)) == [SLOW_STEP]
    assert made(site)[:4] == [SLOW_STEP, "pass 0", STEPS[0], "pass 1"]


def test_a_method_that_takes_too_long_is_ended(sites: Sites, refused: Check) -> None:
    endless = "kernel_shap?samples=100000"
    with sites(method_seconds=1) as site:
        assert site.get("/api/limits")["limits"]["method_seconds"]["most"] == 1
        one = site.ask(png(), methods=["rollout", endless]).json()["id"]
        document = site.finish(one)
        assert (document["state"], methods(document)) == ("failed", ["rollout"])
        assert (document["problem"]["type"], endless in document["problem"]["detail"]) == ("urn:vitrine:problem:took-too-long", True)
        assert site.ask(png(), methods=["rollout"], wait=True).json()["state"] == "done"


def test_a_text_that_would_be_ended_is_refused_before_its_first_map(sites: Sites) -> None:
    """By what its slowest method took here for a shorter text; the same methods are made of a text that is short enough."""
    with sites(method_seconds=10) as site:
        costs = site.client.app.state.services.worker.costs  # type: ignore[attr-defined]
        costs.note("reviews-bert", STEPS[0], 4.0, 20)
        long = site.finish(site.ask(text="a bad film " * 60, model="reviews-bert", methods=[STEPS[0], "rollout"]).json()["id"])
        assert (long["state"], long["problem"]["type"], long["maps"]) == ("failed", "urn:vitrine:problem:would-take-too-long", [])
        assert long["problem"]["status"] == 413
        assert re.fullmatch(rf"The method {STEPS[0]} would take about \d+ seconds for this text of \d+ .*", long["problem"]["detail"])
        most = int(re.findall(r"at most about (\d+) characters", long["problem"]["send"])[0])
        assert site.models.calls.count(STEPS[0]) == 0
        short = site.finish(site.ask(text=("a bad film " * 60)[:most], model="reviews-bert", methods=[STEPS[0], "rollout"]).json()["id"])
        assert short["state"] == "done"


def test_visitors_take_turns(site: Site) -> None:
    """However many questions one of them has: who has had the device for the shortest time since they came is next."""
    worker = site.client.app.state.services.worker  # type: ignore[attr-defined]
    entry, queue, order = worker.registry.find("scenes-vit"), DeviceQueue(lambda entry: True, lambda job: True), []

    def enter(visitor: str) -> None:
        question = Question(model="scenes-vit", image=b"")
        queue.enter(jobs.Job(question, entry, {}, Visitor(turn=visitor)), running)

    running: list[jobs.Job] = []
    for visitor in ("greedy", "greedy", "greedy", "greedy"):
        enter(visitor)
    first = queue.take()
    assert isinstance(first, jobs.Job)
    running.append(first)
    for visitor in ("other", "other", "third"):
        enter(visitor)
    assert queue.goes_before(first, used=0.5)
    queue.note(first.visitor, 1.5)
    while (task := queue.take()) is not None:
        assert isinstance(task, jobs.Job)
        queue.note(task.visitor, 1.0)
        order.append(task.visitor.turn)
    assert order == ["other", "third", "other", "greedy", "greedy", "greedy"]


def test_what_is_stopped_keeps_its_maps(site: Site, refused: Check) -> None:
    gate = site.models.gate(STEPS[1])
    one = site.ask(png(), methods=STEPS).json()["id"]
    gate.wait()
    assert site.client.post(f"/api/explanations/{one}/stop").status_code == 204
    gate.open()
    document = site.finish(one)
    assert (document["state"], document["methods"], methods(document)) == ("done", STEPS[:2], STEPS[:2])
    assert "Stopped: 2 of 4 methods were made." in document["notes"]
    assert document["left"] == STEPS[2:]
    # it is what the same question about these methods gets, and nobody takes it for the whole
    assert site.ask(png(), methods=STEPS[:2]).json()["id"] == one
    whole = site.ask(png(), methods=STEPS, wait=True).json()
    assert (whole["id"] != one, methods(whole), "left" in whole) == (True, STEPS, False)
    assert site.client.post(f"/api/explanations/{one}/stop").status_code == 204  # it stays as it is
    assert site.get(f"/api/explanations/{one}") == document
    refused(site.client.post("/api/explanations/none/stop"), 404, "no-such-explanation")


def test_what_is_stopped_before_its_first_map_is_cancelled(site: Site) -> None:
    gate = site.models.gate("forward")
    running, waiting = (site.ask(png(seed), methods=["rollout"]).json()["id"] for seed in range(2))
    gate.wait()
    for one in (waiting, running):
        assert site.client.post(f"/api/explanations/{one}/stop").status_code == 204
    assert site.get(f"/api/explanations/{waiting}")["state"] == "cancelled"
    gate.open()
    assert site.finish(running)["state"] == "cancelled"


def test_what_everybody_has_left_ends_with_its_maps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LEFT_SECONDS", -1.0)  # at once, once somebody has followed it
    gate = site.models.gate(STEPS[0])
    one = site.ask(png(), methods=STEPS).json()["id"]
    gate.wait()
    job = site.client.app.state.services.worker.find(one)  # type: ignore[attr-defined]
    assert not job.is_left  # nobody has followed it yet
    follow_once(site, one)
    assert job.is_left
    gate.open()
    site.ask(png(1), methods=["random"], wait=True)  # it comes after
    document = site.get(f"/api/explanations/{one}")
    assert (document["state"], document["methods"]) == ("done", STEPS[:1])


def test_who_asks_about_it_has_not_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LEFT_SECONDS", -1.0)
    gate = site.models.gate(STEPS[0])
    one = site.ask(png(), methods=STEPS).json()["id"]
    gate.wait()
    follow_once(site, one)
    assert site.get(f"/api/explanations/{one}")["state"] == "running"
    gate.open()
    assert site.finish(one)["methods"] == STEPS


def follow_once(site: Site, one: str) -> None:
    """Follow an explanation to its first event, and leave."""
    job = site.client.app.state.services.worker.find(one)  # type: ignore[attr-defined]

    async def follow() -> None:
        following = job.feed.follow()
        await anext(following)
        await following.aclose()

    assert site.client.portal is not None
    site.client.portal.call(follow)


def test_a_study_of_few_passes_does_not_wait_for_a_heavy_one(site: Site) -> None:
    """The rule mixer is not held up by a deletion test or by a run that goes on."""
    services = site.client.app.state.services  # type: ignore[attr-defined]
    entry, order, gate = services.registry.find("scenes-vit"), list[str](), Gate()

    def heavy(name: str, passes: int, hold: Gate | None = None) -> Callable[..., dict[str, Any]]:
        def work(model: Any, cancelled: Any, tell: Any) -> dict[str, Any]:
            for number in range(passes):
                assert not cancelled()
                order.append(f"{name} {number}")
                if hold is not None and number == 0:
                    hold.pass_through()
            return {}

        return work

    run = Study(entry, Task(heavy("run", 2, gate), BACKGROUND))
    services.worker.study(run)
    gate.wait()
    test = Study(entry, Task(heavy("test", 2), MANY_PASSES))
    mix = Study(entry, Task(heavy("mix", 1), FEW_PASSES))
    for study in (test, mix):
        services.worker.study(study)
    gate.open()
    assert run.future.result(20) == {}
    assert order == ["run 0", "mix 0", "test 0", "test 1", "run 1"]


def test_the_answer_of_every_study_is_told_as_it_goes_with_what_it_takes(site: Site) -> None:
    one = site.ask(png(), wait=True).json()["id"]
    services = site.client.app.state.services  # type: ignore[attr-defined]
    services.worker.costs.note("scenes-vit", "deletion score", 7.5, 0)
    body = {"scores": [1.0] * 16}
    with site.client.stream(
        "POST", f"/api/explanations/{one}/deletion-test/score", json=body, headers={"Accept": "text/event-stream"}
    ) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[:2] == ["event: expected", 'data: {"seconds":7.5}']


def test_what_finds_too_little_memory_between_two_passes_is_made_after_them(slow_site: Site) -> None:
    """The explanation that waits holds memory, and no model that leaves makes room for that."""
    site = slow_site
    gates = [site.models.gate(f"pass {number}") for number in range(3)]
    slow = site.ask(png(0), methods=[SLOW_STEP]).json()["id"]
    gates[0].wait()
    site.models.errors[STEPS[0]] = [torch.OutOfMemoryError("CUDA out of memory")] * 2  # also with activations computed again
    other = site.ask(png(1), methods=STEPS[0]).json()["id"]
    for gate in gates:
        gate.open()
    assert methods(site.finish(other)) == [STEPS[0]]
    assert methods(site.finish(slow)) == [SLOW_STEP]
    assert made(site) == [SLOW_STEP, "pass 0", STEPS[0], STEPS[0], "pass 1", "pass 2", STEPS[0]]

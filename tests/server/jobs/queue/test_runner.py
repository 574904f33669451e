"""Models that do not fit into memory together: each is loaded once for a request, room is made first, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from explainers.models.memory import bytes_of_weights, total_memory
from tests.server.conftest import Site, Sites, png
from tests.server.support.gated_models import SLOW_STEP, STEPS, image_model
from vitrine_server import app
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.host.host_thread import HostThread
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.jobs.queue.host_client import HostClient
from vitrine_server.jobs.queue.runner import Runner

pytestmark = pytest.mark.usefixtures("alone_on_machine")

IMAGE_MODELS = ("scenes-vit", "timm/listed", "timm/other")


def room_for(models: float) -> float:
    """Return the share of this machine's memory that so many models of images take."""
    total = total_memory(torch.device("cpu"))
    assert total is not None
    return models * bytes_of_weights(image_model().module) / total


@contextmanager
def small(sites: Sites, room: float, **settings: Any) -> Iterator[Site]:
    """A server with room for so many models of images, the first of which is loaded."""
    with sites(loaded=False, model_memory=room_for(room), **settings) as site:
        assert site.client.post("/api/models", json={"name": "scenes-vit"}).status_code == 202  # the start may not have come to it yet
        site.wait_for_models("scenes-vit")
        yield site


def loads(site: Site) -> dict[str, int]:
    return {name: site.models.calls.count(f"load {name}") for name in IMAGE_MODELS}


def test_two_models_that_do_not_fit_together_are_loaded_once_each(sites: Sites) -> None:
    with small(sites, 1.5) as site:
        gate = site.models.gate(STEPS[0])
        first = site.ask(png(0), methods=STEPS).json()["id"]
        gate.wait()
        second = site.ask(png(0), model="timm/listed", methods=STEPS).json()["id"]
        site.events_until("/api/models/events?name=timm/listed", "Loading timm/listed")
        gate.open()
        assert {len(site.finish(one)["maps"]) for one in (first, second)} == {len(STEPS)}
        assert loads(site) == {"scenes-vit": 1, "timm/listed": 1, "timm/other": 0}


def test_models_that_fit_together_take_turns(sites: Sites) -> None:
    with small(sites, 20) as site:
        gate = site.models.gate(STEPS[0])
        first = site.ask(png(0), methods=STEPS).json()["id"]
        gate.wait()
        second = site.ask(png(0), model="timm/listed", methods=[STEPS[3]]).json()["id"]
        site.events_until("/api/models/events?name=timm/listed", "Loading timm/listed")
        gate.open()
        site.finish(first)
        assert site.finish(second)["state"] == "done"
        steps = [call for call in site.models.calls if call in STEPS]
        assert steps.index(STEPS[3]) < len(STEPS)  # the second did not wait for the first to end


def test_what_waits_for_room_comes_before_what_was_asked_later(sites: Sites) -> None:
    with small(sites, 1.5) as site:
        gate = site.models.gate(STEPS[0])
        first = site.ask(png(0), methods=STEPS[:2]).json()["id"]
        gate.wait()
        second = site.ask(png(0), model="timm/listed", methods=[STEPS[2]]).json()["id"]
        site.events_until("/api/models/events?name=timm/listed", "Loading timm/listed")
        third = site.ask(png(1), methods=[STEPS[3]]).json()["id"]
        gate.open()
        assert {site.finish(one)["state"] for one in (first, second, third)} == {"done"}
        assert [call for call in site.models.calls if call in STEPS] == STEPS
        assert loads(site) == {"scenes-vit": 2, "timm/listed": 1, "timm/other": 0}


def test_no_model_is_loaded_next_to_one_in_use_if_both_do_not_fit(sites: Sites) -> None:
    with small(sites, 1.5) as site:
        site.client.app.state.services.worker.costs.note("scenes-vit", SLOW_STEP, 60.0, 0)  # type: ignore[attr-defined]
        gate = site.models.gate("pass 0")
        first = site.ask(png(0), methods=[SLOW_STEP]).json()["id"]
        gate.wait()
        second = site.ask(png(0), model="timm/listed", methods=[STEPS[0]]).json()["id"]
        site.events_until("/api/models/events?name=timm/listed", "Loading timm/listed")
        gate.open()
        assert {site.finish(one)["state"] for one in (first, second)} == {"done"}
        assert site.models.calls.index("pass 2") < site.models.calls.index("load timm/listed")


def test_the_weights_never_take_more_than_their_room(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    from vitrine_server.jobs.host.residency import Residency

    size, held = bytes_of_weights(image_model().module), []
    make_room_for = Residency.make_room_for

    def noted(self: Residency, name: str, wanted: int, device: torch.device) -> None:
        make_room_for(self, name, wanted, device)
        held.append(sum(one.bytes for one in self.resident().values()) + wanted)

    monkeypatch.setattr(Residency, "make_room_for", noted)
    with small(sites, 2.5) as site:
        for model in (*IMAGE_MODELS, *IMAGE_MODELS):
            site.ask(png(0), model=model, methods=[STEPS[0]], wait=True)
    assert len(held) >= 5
    assert max(held) <= 2.5 * size


def test_models_of_the_start_that_do_not_fit_are_loaded_when_they_are_asked(sites: Sites) -> None:
    with small(sites, 1.05, models=("timm/listed", "timm/other")) as site:
        assert site.get("/readyz")["status"] == "ready"
        assert site.ask(png(0), model="timm/other", wait=True).json()["state"] == "done"
        loaded = loads(site)  # the start takes them in any order: one of the hub may have come before scenes-vit and left for it
        assert loaded["scenes-vit"] == 1
        assert loaded["timm/other"] in (1, 2)  # once more if it had left when it was asked
        assert loaded["timm/listed"] <= 1
        metrics = site.client.get("/metrics").text
        assert f'vitrine_model_moves_total{{device="cpu",to="device"}} {float(sum(loaded.values()))}' in metrics
        assert f'vitrine_model_moves_total{{device="cpu",to="disk"}} {float(sum(loaded.values()) - 1)}' in metrics


def test_a_server_stays_ready_while_its_models_make_room_and_while_memory_is_short(sites: Sites) -> None:
    """What took it out of a balancer's list would keep it out: nobody would ask for the model again."""
    with small(sites, 1.05) as site:
        assert site.ask(png(0), model="timm/listed", wait=True).json()["state"] == "done"
        assert site.get("/readyz")["models"]["scenes-vit"] == "available"  # it has left memory
        site.models.errors["load scenes-vit"] = [torch.OutOfMemoryError("full")] * 2
        for _ in range(2):
            answer = site.ask(png(0), wait=True)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:vitrine:problem:out-of-memory")
            assert site.get("/readyz")["models"]["scenes-vit"] == "failed"
        assert site.ask(png(0), wait=True).json()["state"] == "done"  # memory is there again: it is loaded by the question
        assert loads(site)["scenes-vit"] == 4
        assert site.ask(png(0), model="timm/listed", wait=True).json()["state"] == "done"
        site.models.errors["load scenes-vit"] = [RuntimeError("its file is damaged")]
        assert site.ask(png(1), wait=True).status_code == 500
        assert site.client.get("/readyz").status_code == 503


def test_a_model_that_does_not_fit_next_to_a_pinned_one_says_so(sites: Sites) -> None:
    with small(sites, 1.5, pinned_models="scenes-vit") as site:
        answer = site.ask(png(0), model="timm/other", wait=True)
        assert answer.status_code == 503
        assert "does not fit next to scenes-vit, in use or pinned" in answer.json()["detail"]
        assert site.ask(png(0), wait=True).json()["state"] == "done"
        assert loads(site)["scenes-vit"] == 1


def test_a_model_that_never_fits_next_to_a_pinned_one_is_refused_while_that_works(sites: Sites) -> None:
    """It would wait for the end of work that makes no room for it."""
    with small(sites, 1.5, pinned_models="scenes-vit") as site:
        begun, later = site.models.gate(STEPS[0]), site.models.gate(STEPS[2])
        first = site.ask(png(0), methods=STEPS[:3]).json()["id"]
        begun.wait()
        second = site.ask(png(0), model="timm/other", methods=[STEPS[3]]).json()["id"]
        site.events_until("/api/models/events?name=timm/other", "Loading timm/other")
        begun.open()
        later.wait()
        refused = site.finish(second)
        assert refused["state"] == "failed"
        assert "does not fit next to scenes-vit, in use or pinned" in refused["problem"]["detail"]
        assert site.get(f"/api/explanations/{first}")["state"] == "running"
        later.open()
        assert site.finish(first)["state"] == "done"
        assert loads(site)["timm/other"] == 0


def test_a_model_that_fits_next_to_the_pinned_one_waits_for_one_at_work_and_says_so(sites: Sites) -> None:
    with small(sites, 2.5, pinned_models="scenes-vit") as site:
        assert site.ask(png(0), model="timm/listed", methods=[STEPS[0]], wait=True).json()["state"] == "done"
        site.client.app.state.services.worker.costs.note("timm/listed", SLOW_STEP, 60.0, 0)  # type: ignore[attr-defined]
        gate = site.models.gate("pass 0")
        first = site.ask(png(0), model="timm/listed", methods=[SLOW_STEP]).json()["id"]
        gate.wait()
        second = site.ask(png(0), model="timm/other", methods=[STEPS[1]]).json()["id"]
        site.events_until("/api/models/events?name=timm/other", "Loading timm/other")
        gate.open()
        site.events_until("/api/models/events?name=timm/other", "timm/other waits for memory: it is loaded once work under way")
        assert {site.finish(one)["state"] for one in (first, second)} == {"done"}
        assert site.models.calls.index("pass 2") < site.models.calls.index("load timm/other")
        assert loads(site)["scenes-vit"] == 1


def test_a_model_that_a_second_gpu_has_no_memory_for_is_left_to_the_first(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its questions there go on with the GPU that holds it, and it has not failed."""
    begins, has_judged = threading.Event(), threading.Event()
    judge, run, failed = HostClient._not_loaded, Runner.run, list[str]()

    def host_makers(settings: Any, source: Any, make: Any) -> list[Any]:
        def maker(number: int) -> Any:
            def load(name: Any, *given: Any, **how: Any) -> Any:
                if number == 1 and str(name) == "scenes-vit":
                    raise torch.OutOfMemoryError("CUDA out of memory")
                return source.load(name, *given, **how)

            return lambda _: HostThread(ModelHost(load, settings, bytes_of=source.bytes_of))

        return [maker(0), maker(1)]

    def run_later(self: Runner) -> None:
        assert self.name == "worker" or begins.wait(20)
        run(self)

    def noted(self: HostClient, entry: ModelEntry, problem: Any) -> Any:
        problem = judge(self, entry, problem)
        failed.append(entry.name)
        has_judged.set()
        return problem

    monkeypatch.setattr(app, "host_makers", host_makers)
    monkeypatch.setattr(Runner, "run", run_later)
    monkeypatch.setattr(HostClient, "_not_loaded", noted)
    try:
        with sites(loaded=False) as site:
            site.wait_for_models("scenes-vit")
            gate = site.models.gate("pass 0")
            first = site.ask(png(0), methods=[SLOW_STEP, STEPS[0]]).json()["id"]  # under way on the first GPU
            gate.wait()
            second = site.ask(png(1), methods=[STEPS[1]]).json()["id"]
            begins.set()
            assert has_judged.wait(20)
            gate.open()
            assert [(site.finish(one)["state"], len(site.finish(one)["maps"])) for one in (first, second)] == [("done", 2), ("done", 1)]
            states = {model["name"]: model["state"] for model in site.get("/api/models")["models"]}
            assert states["scenes-vit"] == "loaded"
            assert failed == ["scenes-vit"]  # it is not read again and again
    finally:
        begins.set()

"""Explanations that wait, are cancelled, and whose askers hang up."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from tests.server.conftest import Check, Site, Sites, png, without_costs
from tests.server.support.gated_models import STEPS, USUAL_METHODS, GatedModels


def test_a_running_explanation_is_cancelled(site: Site, refused: Check) -> None:
    gate = site.models.gate(STEPS[1])
    one = site.ask(png(), methods=STEPS[:3]).json()["id"]
    gate.wait()
    assert site.client.delete(f"/api/explanations/{one}").status_code == 204
    gate.open()
    events = site.events(f"/api/explanations/{one}/events")
    assert [name for _, name, _ in events] == ["queued", "started", "method", "method", "cancelled"]
    document = site.get(f"/api/explanations/{one}")
    assert (document["state"], len(document["maps"])) == ("cancelled", 2)  # what was made is told; the third is not begun
    assert without_costs(site.events(f"/api/explanations/{one}/events")) == without_costs(events)
    assert site.client.delete(f"/api/explanations/{one}").status_code == 204
    refused(site.client.get(f"/api/explanations/{one}"), 404, "no-such-explanation")
    assert site.ask(png(), wait=True).json()["state"] == "done"


def test_the_worker_alone_chooses_its_threads_before_each_pass(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[tuple[str, str | None]] = []
    note = lambda _, model: fitted.append((threading.current_thread().name, getattr(model, "name", None)))  # noqa: E731
    monkeypatch.setattr("explainers.models.threads.Threads.fit", note)
    assert site.ask(png(), wait=True).json()["state"] == "done"
    assert [call for call in fitted if call[1] is not None] == [("models", "scenes-vit")] * (len(USUAL_METHODS) + 1)
    assert {thread for thread, _ in fitted} == {"models", "worker"}


def test_a_waiting_explanation_is_dropped(site: Site) -> None:
    gate = site.models.gate("forward")
    first, second, third = (site.ask(png(seed), methods=STEPS[0]).json()["id"] for seed in range(3))
    gate.wait()
    assert site.client.delete(f"/api/explanations/{second}").status_code == 204
    gate.open()
    assert [name for _, name, _ in site.events(f"/api/explanations/{second}/events")][-1] == "cancelled"
    assert {site.finish(one)["state"] for one in (first, third)} == {"done"}
    assert site.models.calls.count(STEPS[0]) == 2


def test_places_in_the_queue(site: Site) -> None:
    gate = site.models.gate("forward")
    site.ask(png(0))
    gate.wait()
    second, third = (site.ask(png(seed)).json()["id"] for seed in (1, 2))
    assert site.get(f"/api/explanations/{third}")["state"] == "queued"
    gate.open()

    def places(one: str) -> list[int]:
        return [data["position"] for _, name, data in site.events(f"/api/explanations/{one}/events") if name == "queued"]

    # followed live the story has every place; told again from the store, the last one
    assert places(third) in ([2, 1, 0], [0])
    assert places(second) in ([1], [1, 0], [0])


def test_a_cancelled_question_is_not_before_the_next_one(site: Site) -> None:
    gate = site.models.gate("forward")
    first = site.ask(png(0)).json()["id"]
    gate.wait()
    second = site.ask(png(1)).json()["id"]
    job = site.client.app.state.services.worker.find(second)  # type: ignore[attr-defined]

    def places() -> list[str]:
        return [event.data for event in job.feed._events if event.name == "queued"]

    assert places() == ['{"position":1}']
    assert site.client.delete(f"/api/explanations/{first}").status_code == 204  # it stops at its next pass
    assert places() == ['{"position":1}', '{"position":0}']
    gate.open()
    assert site.finish(second)["state"] == "done"


def test_a_full_queue_refuses(sites: Sites, refused: Check) -> None:
    with sites(queue_size=1) as site:
        gate = site.models.gate("forward")
        first = site.ask(png(0)).json()["id"]
        gate.wait()
        second = site.ask(png(1)).json()["id"]
        answer = site.ask(png(2))
        refused(answer, 429, "queue-full")
        assert int(answer.headers["retry-after"]) >= 1
        gate.open()
        assert site.finish(first)["state"] == site.finish(second)["state"] == "done"
        assert site.ask(png(2), wait=True).status_code == 200


def test_whoever_hangs_up_cancels(site: Site) -> None:
    gate = site.models.gate("forward")
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nreviews-bert\r\n'
    form += b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\na dull film\r\n--x--\r\n'
    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": "/api/explanations",
        "query_string": b"wait=1",
        "headers": [(b"content-type", b"multipart/form-data; boundary=x")],
        "app": site.client.app,
    }
    messages = [{"type": "http.request", "body": form}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await anyio.to_thread.run_sync(gate.wait)
        return {"type": "http.disconnect"}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def serve() -> None:
        await site.client.app(scope, receive, send)

    async def call() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            await anyio.to_thread.run_sync(gate.wait)
            await anyio.to_thread.run_sync(held_until_cancelled)

    def held_until_cancelled() -> None:
        worker = site.client.app.state.services.worker  # type: ignore[attr-defined]
        assert worker._running[-1].cancelled.wait(20)
        gate.open()

    assert site.client.portal is not None
    site.client.portal.call(call)
    assert site.ask(model="reviews-bert", text="next", wait=True).json()["state"] == "done"
    metrics = site.client.get("/metrics").text
    assert 'vitrine_explanation_seconds_count{state="cancelled"} 1' in metrics


def test_of_the_embedded_models_that_load_the_one_that_is_asked_for_comes_first(sites: Sites) -> None:
    models = GatedModels()
    first, second = models.gate("load scenes-vit"), models.gate("load clip")
    with sites(models, loaded=False) as site:
        first.wait()
        one = site.ask(None, model="reviews-bert", text="a film").json()["id"]
        first.open()
        assert site.finish(one)["state"] == "done"  # while the other one, which came before it, is not there
        second.wait()
        other = site.ask(png()).json()["id"]
        second.open()
        assert site.finish(other)["state"] == "done"

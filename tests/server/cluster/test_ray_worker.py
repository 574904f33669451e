"""Who may enter the queue of a cluster, and who comes next there: as on one machine, by the same code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.server.cluster.conftest import Begin
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import STEPS
from tests.server.support.hostile import until
from vitrine_server.cluster.replicas import ReplicaRequest
from vitrine_server.jobs.queue.worker import Worker


@dataclass
class Served:
    """Two sites of one server, which may be the same one, and the worker that has the device."""

    here: Site
    there: Site
    worker: Worker


#: Begins a server with these settings.
Serve = Callable[..., Served]


@pytest.fixture(params=["one machine", "cluster"])
def serve(request: pytest.FixtureRequest, sites: Sites, cluster: Begin) -> Iterator[Serve]:
    with ExitStack() as stack:

        def begin(**settings: Any) -> Served:
            if request.param == "cluster":
                begun = cluster(replicas=1, most_sent=1, **settings)
                return Served(*begun.sites, begun.direct.replicas[0].worker)
            site = stack.enter_context(sites(**settings))
            return Served(site, site, site.client.app.state.services.worker)  # type: ignore[attr-defined]

        yield begin


@contextmanager
def from_address(site: Site, address: str) -> Iterator[None]:
    """Ask from this address meanwhile."""
    transport: Any = site.client._transport
    before, transport.client = transport.client, (address, 1)
    try:
        yield
    finally:
        transport.client = before


def test_a_visitor_and_an_address_have_a_share_of_the_queue(serve: Serve, refused: Check) -> None:
    """As ``test_who_drops_secrets_gets_no_turn_with_each``, and with another address, for which there is room in a full queue."""
    served = serve(visitors="apart", queue_size=4, queue_share=2)
    here, there = served.here, served.there
    gate = here.models.gate(STEPS[0])
    here.ask(png(0), methods=[STEPS[0]])
    gate.wait()
    for seed, status in ((1, 202), (2, 202), (3, 429)):
        site = (here, there)[seed % 2]
        site.client.cookies.clear()
        assert (answer := site.ask(png(seed))).status_code == status
    assert "2 explanations of yours are waiting already, which is your share" in refused(answer, 429, "queue-full")["detail"]
    for seed, status in ((4, 202), (5, 202), (6, 429)):
        here.client.cookies.clear()
        here.client.get("/")
        assert (answer := here.ask(png(seed))).status_code == status
    assert "4 explanations are waiting already" in refused(answer, 429, "queue-full")["detail"]
    assert int(answer.headers["Retry-After"]) >= 1
    for number, status in ((1, 202), (2, 202), (3, 202), (4, 202), (5, 429)):
        there.client.cookies.clear()
        with from_address(there, f"198.51.100.{number}"):
            assert there.ask(png(10 + number)).status_code == status
    gate.open()


def test_another_visitor_does_not_wait_for_all_of_a_greedy_one(serve: Serve) -> None:
    served = serve()
    here, there = served.here, served.there
    gate = here.models.gate("forward")
    greedy = [here.ask(png(seed), methods=STEPS[0]).json()["id"] for seed in range(5)]
    gate.wait()
    with from_address(there, "198.51.100.7"):
        other = there.ask(png(9), methods=STEPS[1]).json()["id"]
    until(lambda: served.worker.find(other) is not None, "the device has it")
    gate.open()
    assert {here.finish(one)["state"] for one in (*greedy, other)} == {"done"}
    made = [call for call in here.models.calls if call in STEPS]
    assert made.index(STEPS[1]) <= 1


def test_studies_that_wait_are_counted(serve: Serve, refused: Check) -> None:
    served = serve(queue_size=1)
    here = served.here
    one = here.ask(png(1), methods=STEPS[0], target=["dog", "zebra"], wait=True).json()["id"]

    def study(target: str) -> Any:
        return here.client.post(f"/api/explanations/{one}/layers", json={"target": target})

    gate = here.models.gate("forward")
    here.ask(png(2), methods=STEPS[0])
    gate.wait()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(study, "dog")
        until(lambda: len(served.worker._queue.studies) == 1, "it waits")
        assert "1 studies are waiting already" in refused(study("zebra"), 429, "queue-full")["detail"]
        gate.open()
        assert first.result().status_code == 200
    assert study("zebra").status_code == 200


def test_what_is_sent_to_no_replica_is_found_in_the_store(cluster: Begin) -> None:
    """Two replicas, of which none is called."""
    begun = cluster()

    async def ask(model: str, request: ReplicaRequest) -> AsyncIterator[tuple[str, Any]]:
        await asyncio.Event().wait()
        yield "done", None

    begun.direct.ask = ask  # type: ignore[method-assign]
    made = [begun.sites[0].ask(png(seed), methods=STEPS[:2]).json()["id"] for seed in range(4)]
    for one in made:
        document = begun.sites[1].finish(one)
        assert (document["state"], len(document["maps"])) == ("done", 2)
    assert begun.models.calls.count(STEPS[0]) == 4  # none of them by both


def test_a_replica_drops_what_another_one_has_claimed(cluster: Begin) -> None:
    begun = cluster()
    gates = [begun.models.gate(f"forward {number}") for number in range(2)]
    here = begun.sites[0]
    running = [here.ask(png(seed), methods=STEPS[0]).json()["id"] for seed in range(2)]
    for gate in gates:
        gate.wait()
    waiting = here.ask(png(5), methods=STEPS[0]).json()["id"]
    workers = [replica.worker for replica in begun.direct.replicas]
    until(lambda: all(worker.find(waiting) is not None for worker in workers), "both have it in their queue")
    gates[0].open()
    here.finish(waiting)
    until(lambda: all(worker.find(waiting) is None for worker in workers), "the other one has dropped it")
    gates[1].open()
    assert {here.finish(one)["state"] for one in running} == {"done"}
    assert begun.models.calls.count(STEPS[0]) == 3

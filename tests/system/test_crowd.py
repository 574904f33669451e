"""Many clients at once, a greedy and a vanishing one among them: what is accepted ends, everybody has a turn, and memory stays."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.support.hostile import KIND, until
from tests.system.support.attacked import Attacked, ask, document_of

pytestmark = pytest.mark.system
SECONDS = float(os.environ.get("SYSTEM_SECONDS", "20"))
CLIENTS = int(os.environ.get("SYSTEM_CLIENTS", "32"))
LETTERS = "abcdefghijklmnop"
MEMORY_GROWTH = 1.05


def visitor(server: Attacked, number: int) -> httpx.Client:
    """A client with an address of its own."""
    transport = httpx.HTTPTransport(local_address=f"127.0.0.{number + 2}", retries=2)
    return httpx.Client(base_url=server.address, transport=transport, timeout=120)


def words(number: int, turn: int) -> str:
    """A text that nobody else asks about."""
    return " ".join([KIND, *(LETTERS[int(digit, 16)] for digit in f"{number:02x}{turn:04x}")])


def memory(server: Attacked) -> float:
    text = httpx.get(f"{server.address}/metrics", timeout=60).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]  # type: ignore[no-untyped-call]
    return sum(sample.value for sample in samples if sample.name.endswith("_memory_bytes"))


def states(client: httpx.Client, ids: list[str]) -> set[str | None]:
    """Of explanations; None of those that are not there any more."""
    return {document_of(client, one).get("state") for one in ids}


@dataclass
class Crowd:
    """Clients that ask until it is ``over``; what they were answered, and how often each was answered at all."""

    server: Attacked
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[int] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)

    def questions(self, number: int) -> Iterator[tuple[httpx.Client, str]]:
        with visitor(self.server, number) as client:
            for turn in itertools.count():
                if self.over.is_set():
                    return
                yield client, words(number, turn)

    def fair(self, number: int) -> None:
        for client, text in self.questions(number):
            answer = ask(client, text, wait=True)
            self.statuses[answer.status_code] += 1
            self.done[number] += answer.status_code == 200

    def greedy(self, number: int) -> None:
        for client, text in self.questions(number):
            answer = ask(client, text)
            self.statuses[answer.status_code] += 1
            if answer.status_code == 202:
                self.accepted.append(answer.json()["id"])
            else:
                assert int(answer.headers["retry-after"]) >= 1
                self.over.wait(0.1)

    def vanishing(self, number: int) -> None:
        for client, text in self.questions(number):
            client.timeout = httpx.Timeout(0.05)
            with suppress(httpx.ReadTimeout):
                ask(client, text, wait=True)


def test_a_crowd(tmp_path: Path) -> None:
    with Attacked(tmp_path, {"keep": "200"}) as server, ThreadPoolExecutor(CLIENTS) as pool:
        crowd = Crowd(server)
        deeds = [crowd.greedy, crowd.vanishing, *[crowd.fair] * (CLIENTS - 2)]
        clients = [pool.submit(deed, number) for number, deed in enumerate(deeds)]
        try:
            crowd.over.wait(SECONDS / 2)
            warm = memory(server)
            crowd.over.wait(SECONDS / 2)
            in_the_end = memory(server)
        finally:
            crowd.over.set()
        for client in clients:
            client.result()
        with visitor(server, 0) as client:
            until(lambda: "vitrine_queue_depth 0.0" in client.get("/metrics").text, "nothing waits", patience=60)
            until(lambda: "running" not in states(client, crowd.accepted), "nothing runs", patience=60)
            assert states(client, crowd.accepted) <= {"done", None}  # the oldest are forgotten
        assert set(crowd.statuses) <= {200, 202, 429}, crowd.statuses
        others = [crowd.done[number] for number in range(2, CLIENTS)]
        assert min(others) >= 1
        assert min(others) * 3 >= max(others), others  # they had turns alike
        assert in_the_end <= warm * MEMORY_GROWTH
        server.stop(10)

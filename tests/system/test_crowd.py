"""Many clients at once, a greedy and a vanishing one among them: what is accepted ends, everybody has a turn, and memory stays."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.jobs.hostile import KIND, until
from tests.system.attacked import Attacked, ask, finished

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


def test_a_crowd(tmp_path: Path) -> None:
    server = Attacked(tmp_path, {"keep": "200"})
    server.start()
    over, done, accepted = threading.Event(), Counter[int](), list[str]()
    statuses: Counter[int] = Counter()

    def fair(number: int) -> None:
        with visitor(server, number) as client:
            for turn in itertools.count():
                if over.is_set():
                    return
                answer = client.post(
                    "/api/explanations?wait=1",
                    data={"model": "reviews-bert", "text": words(number, turn), "methods": ["rollout", "random"]},
                )
                statuses[answer.status_code] += 1
                done[number] += answer.status_code == 200

    def greedy(number: int) -> None:
        with visitor(server, number) as client:
            for turn in itertools.count():
                if over.is_set():
                    return
                answer = ask(client, words(number, turn))
                statuses[answer.status_code] += 1
                if answer.status_code == 202:
                    accepted.append(answer.json()["id"])
                else:
                    assert int(answer.headers["retry-after"]) >= 1
                    over.wait(0.1)

    def vanishing(number: int) -> None:
        with visitor(server, number) as client:
            for turn in itertools.count():
                if over.is_set():
                    return
                with suppress(httpx.ReadTimeout):
                    data = {"model": "reviews-bert", "text": words(number, turn)}
                    client.post("/api/explanations?wait=1", data=data, timeout=0.05)

    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(greedy, 0), pool.submit(vanishing, 1), *(pool.submit(fair, number) for number in range(2, CLIENTS))]
            over.wait(SECONDS / 2)
            warm = memory(server)
            over.wait(SECONDS / 2)
            in_the_end = memory(server)
            over.set()
            for client in clients:
                client.result()
        with visitor(server, 0) as client:
            kept = [one for one in accepted if client.get(f"/api/explanations/{one}").status_code == 200]
            assert {finished(client, one)["state"] for one in kept} <= {"done"}
            until(lambda: "vitrine_queue_depth 0.0" in client.get("/metrics").text, "nothing waits", patience=60)
        assert set(statuses) <= {200, 202, 429}, statuses
        others = [done[number] for number in range(2, CLIENTS)]
        assert min(others) >= 1
        assert min(others) * 3 >= max(others), others  # they had turns alike
        assert in_the_end <= warm * MEMORY_GROWTH
        server.stop(10)
    finally:
        if server.process is not None:
            server.process.kill()

"""kill -9, again and again, of the server and of the process that has its models: what is finished stays, what was accepted is made."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.server.support.hostile import HANG, KIND, SLOW, until
from tests.system.support.attacked import Attacked, ask, document_of, finished

pytestmark = pytest.mark.system
KILLS = int(os.environ.get("SYSTEM_KILLS", "4"))


def test_killed_again_and_again(tmp_path: Path) -> None:
    kept: dict[str, bytes] = {}
    with Attacked(tmp_path) as server, httpx.Client(base_url=server.address, timeout=60) as client:
        for number in range(KILLS):
            text = " ".join([SLOW, *format(number, "b").replace("0", "a").replace("1", "b")])
            running = ask(client, text).json()["id"]
            waiting = ask(client, f"{KIND} {text.removeprefix(SLOW)}").json()["id"]
            until(lambda one=running: document_of(client, one)["state"] == "running", "it runs")  # type: ignore[misc]
            if number % 2:
                server.kill()
                server.start()
                assert finished(client, running)["state"] == "done"
            else:
                os.kill(server.model_process(), signal.SIGKILL)
                document = finished(client, running)
                assert document["problem"]["type"] == "urn:vitrine:problem:worker-ended"
                again = client.post(f"/api/explanations/{running}/again").json()["id"]
                assert finished(client, again)["state"] == "done"
            assert finished(client, waiting)["state"] == "done"
            for one, content in kept.items():
                assert client.get(f"/api/explanations/{one}").content == content
            kept[waiting] = client.get(f"/api/explanations/{waiting}").content
        server.stop(10)


def test_it_stops_within_ten_seconds_whatever_hangs(tmp_path: Path) -> None:
    with Attacked(tmp_path) as server, httpx.Client(base_url=server.address, timeout=60) as client:
        held = ask(client, HANG).json()["id"]
        until(lambda: document_of(client, held)["state"] == "running", "it runs")
        with client.stream("GET", f"/api/explanations/{held}/events"):
            server.stop(10)

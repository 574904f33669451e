"""A server in a process of its own, with a tiny model in another one, that a test may kill.

``python -m tests.system.support.attacked HOME PORT`` starts it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.conftest import ROOT
from tests.server.support.hostile import hostile_host, is_running, until

MODEL = "reviews-bert"
METHODS = ["rollout", "input_x_gradient:libra", "random"]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Attacked:
    """The server; started again it has the same home and address."""

    home: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.system.support.attacked", str(self.home), str(self.port)]
        environ = os.environ | {f"VITRINE_{name.upper()}": value for name, value in self.settings.items()}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environ)
        until(self.is_ready, "the server is ready", patience=300)

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the server ended"
        try:
            return httpx.get(f"{self.address}/readyz", timeout=10).status_code == 200
        except httpx.TransportError:
            return False

    def family(self) -> list[psutil.Process]:
        """The processes that it has started, and those that they have."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def model_process(self) -> int:
        """The process that has the model: the child of a child, by the name that the server's log has of it."""
        found = [process for process in self.family() if process.ppid() != self.process.pid]  # type: ignore[union-attr]
        assert len(found) == 1, found
        return found[0].pid

    def kill(self) -> None:
        """End it at once; whatever it has started ends, too."""
        assert self.process is not None
        family = [process.pid for process in self.family()]
        self.process.kill()
        self.process.wait()
        until(lambda: not any(map(is_running, family)), "all that it started has ended", patience=30)

    def __enter__(self) -> Attacked:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self, seconds: float) -> None:
        """End it as an operator does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(seconds)


def ask(client: httpx.Client, text: str, wait: bool = False) -> httpx.Response:
    data = {"model": MODEL, "text": text, "methods": METHODS}
    return client.post("/api/explanations", params={"wait": 1} if wait else {}, data=data)


def document_of(client: httpx.Client, one: str) -> Any:
    return client.get(f"/api/explanations/{one}").json()


def finished(client: httpx.Client, one: str, patience: float = 120) -> Any:
    until(lambda: document_of(client, one)["state"] in ("done", "failed", "cancelled"), f"{one} is finished", patience)
    return document_of(client, one)


def main() -> None:
    from vitrine_server.jobs.host.processes import prepare_processes

    prepare_processes()
    import uvicorn

    from explainers.models.catalogue import CatalogueEntry
    from vitrine_server.app import create_app
    from vitrine_server.jobs.catalogue.model_source import ModelSource
    from vitrine_server.settings import load_settings

    home, port = sys.argv[1:]
    settings = load_settings({"home": Path(home), "device": "cpu", "log_level": "error"})
    app = create_app(settings, ModelSource([CatalogueEntry(MODEL, "text", MODEL, "", True, "")]), [], hostile_host)
    uvicorn.run(app, port=int(port), log_level="error", timeout_graceful_shutdown=4)


if __name__ == "__main__":
    main()

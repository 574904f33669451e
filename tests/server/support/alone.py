"""A server of one tiny model of pictures in a process of its own, whose memory and log a test reads.

``python -m tests.server.support.alone HOME`` starts it and prints its address.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from explainers.models.catalogue import CatalogueEntry
from tests.conftest import ROOT
from tests.server.support.hostile import until
from tests.server.support.tiny_models import make_tiny
from vitrine_server.app import create_app
from vitrine_server.commands.serving.serve import listen
from vitrine_server.jobs.catalogue.model_source import ModelSource
from vitrine_server.settings import load_settings
from vitrine_server.web_server import WebServer

MODEL = "scenes-vit"


@dataclass
class Alone:
    """The server: its process, a client of it, and the file of its log."""

    process: subprocess.Popen[str]
    client: httpx.Client
    log: Path

    @property
    def port(self) -> int:
        return int(self.client.base_url.port or 0)

    def forget_peak(self) -> int:
        """Count the peak of the server's memory from now on; the bytes that it takes now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def peak(self) -> int:
        """The most bytes that the server took since then."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text("utf-8").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@contextmanager
def alone(home: Path) -> Iterator[Alone]:
    """Start the server, and end it."""
    command = [sys.executable, "-m", "tests.server.support.alone", str(home)]
    log = home.with_suffix(".log")
    with log.open("w") as file, subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://"), log.read_text("utf-8")
            with httpx.Client(base_url=address, timeout=120) as client:
                until(lambda: client.get("/readyz").status_code == 200, "the server is ready", patience=120)
                yield Alone(process, client, log)
        finally:
            process.terminate()


def _serve(home: Path) -> None:
    settings = load_settings({"home": home, "device": "cpu", "max_run_inputs": 100})
    catalogue: Any = [CatalogueEntry(MODEL, "image", MODEL, "", True, "")]
    app = create_app(settings, ModelSource(catalogue, make_tiny), [])
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        WebServer(app, settings, lambda _: print(f"http://127.0.0.1:{port}", flush=True)).run(sockets=[listener])


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))

"""``vitrine serve``, as a process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from vitrine_server.cli import main
from vitrine_server.settings import Settings


def test_a_taken_port_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "is_warned"),
    [
        (["--host", "0.0.0.0"], True),
        (["--host", "::"], True),
        (["--host", "0.0.0.0", "--allowed-hosts", "vitrine.example"], False),
        (["--host", "127.0.0.1"], False),
        ([], False),
    ],
)
def test_a_server_for_every_machine_warns_that_it_has_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_warned: bool
) -> None:
    served: list[Settings] = []

    class Server:
        def __init__(self, settings: Settings) -> None:
            served.append(settings)

        def run(self, sockets: object) -> None:
            pass

    monkeypatch.setattr("vitrine_server.commands.serving.serve.listen", lambda host, port: socket.socket())
    monkeypatch.setattr("vitrine_server.commands.serving.serve.make_server", Server)
    assert main(["serve", *arguments]) == 0
    assert ("VITRINE_ALLOWED_HOSTS" in capsys.readouterr().err) is is_warned
    assert len(served) == 1


def test_a_cluster_without_ray_says_what_to_install(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["serve", "--engine", "ray", "--database", "postgresql://127.0.0.1:1/none"]) == 2
    assert "pip install -e '.[ray,postgresql]'" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "lines"])
def test_the_server_says_where_it_is_and_stops(tmp_path: Path, form: str) -> None:
    """``vitrine serve`` on a free port: it prints its address, in a log of JSON as JSON, answers there, and ends when interrupted."""
    import signal
    import urllib.request

    options = ["--port", "0", "--home", str(tmp_path), "--device", "cpu", "--log-format", form]
    command = [sys.executable, "-m", "vitrine_server.cli", "serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            line = next(line for line in server.stdout if "http://" in (json.loads(line)["message"] if form == "json" else line))
            address = line[line.index("http://") :].split()[0]
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as answer:
                assert answer.status == 200
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(240) == 0

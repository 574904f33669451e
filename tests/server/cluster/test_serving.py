"""How a cluster that does not start says so: one sentence in place of a traceback. Ray is a stand-in."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from explainers.errors import ExplainerError
from tests.support.postgresql import free_port
from vitrine_server.cli import main
from vitrine_server.cluster import serving
from vitrine_server.cluster.serving import APPLICATION, reason_of
from vitrine_server.settings import Settings, load_settings

DEPLOYMENT = """The deployment failed to start 3 times in a row. Error:
\x1b[36mray::ServeReplica.initialize_and_get_metadata()\x1b[39m (pid=7, ip=10.0.0.1)
  File "/usr/lib/python3.11/asyncio/base_events.py", line 653, in run_until_complete
    return future.result()
  File "model_replica.py", line 40, in __init__
    store = open_shared_store(settings)
vitrine_server.store.database.StoreError: the database of VITRINE_DATABASE cannot be reached.
"""


class StandIn:
    """Ray whose calls fail as the test has them fail."""

    def __init__(self, **errors: Exception) -> None:
        self.errors, self.done = errors, list[str]()
        config = SimpleNamespace(HTTPOptions=lambda **options: options)
        calls = {name: self._call(name) for name in ("start", "run", "delete", "shutdown")}
        deployments = {"web": SimpleNamespace(message=""), "models": SimpleNamespace(message=DEPLOYMENT)}
        applications = {APPLICATION: SimpleNamespace(deployments=deployments)}
        self.serve = SimpleNamespace(config=config, status=lambda: SimpleNamespace(applications=applications), **calls)
        self.init, self.shutdown = self._call("init"), self._call("shutdown of ray")

    def _call(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> None:
            self.done.append(name)
            if name in self.errors:
                raise self.errors[name]

        return call


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        ("", None, "did not start at 127.0.0.1 port 8000 (Address already in use)"),
        ("init", TimeoutError("The node timed out during startup."), "No cluster of Ray can be used at local (The node timed out"),
        ("init", ConnectionError("Could not find any running Ray instance."), "by VITRINE_RAY_ADDRESS"),
        ("start", RuntimeError("Failed to bind to address"), "did not start at 127.0.0.1 port 8000 (Failed to bind to address)"),
        (
            "run",
            RuntimeError("Failed to update the deployments ['models']."),
            "did not start on the cluster (the database of VITRINE_DATABASE cannot be reached)",
        ),
    ],
)
def test_what_does_not_start_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, call: str, error: Exception | None, sentence: str
) -> None:
    """Without a ``call`` it is the port that is taken."""
    ray = StandIn() if error is None else StandIn(**{call: error})
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(serving, "_ray", lambda: ray)
    monkeypatch.setattr(serving, "open_database", lambda settings, is_shared: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(serving, "application", lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if error is not None:
            taken.close()
        options = ["--engine", "ray", "--database", "postgresql://127.0.0.1:1/none", "--home", str(tmp_path), "--port", str(port)]
        assert main(["serve", *options]) == 2
    said = capsys.readouterr().err
    assert sentence.replace("8000", str(port)) in said
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert "File" not in said
    assert ("delete" in ray.done) == (call == "run")
    assert ("shutdown of ray" in ray.done) == (call != "init")  # nothing of Ray is left behind


def test_an_address_at_which_nothing_answers_is_said_at_once(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    ray = StandIn()
    settings = load_settings({"home": tmp_path, "engine": "ray", "database": "postgresql://none", "ray_address": address})
    with pytest.raises(ExplainerError, match=rf"at {address} \(.*refused\): start one with `ray start"), serving._cluster(ray, settings):
        pass
    assert ray.done == []
    with socket.create_server(("127.0.0.1", 0)) as there, serving._cluster(ray, settings_at(there, settings)):
        assert ray.done == ["init"]


def settings_at(there: socket.socket, settings: Settings) -> Settings:
    return settings.model_copy(update={"ray_address": f"127.0.0.1:{there.getsockname()[1]}"})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError(DEPLOYMENT), "the database of VITRINE_DATABASE cannot be reached"),
        (RuntimeError("Failed to bind.\nSee the log."), "Failed to bind"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("Version mismatch: the cluster was started with Ray 2.1"), "Version mismatch: the cluster was started with Ray 2.1"),
    ],
)
def test_the_reason_is_the_line_that_says_why(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    error_of_a_call = RuntimeError("of another process")
    error_of_a_call.cause = error  # type: ignore[attr-defined]
    assert reason_of(error_of_a_call) == reason

"""A GPU that answers a process with errors alone ends it; a GPU that works, and a CPU, do not."""

from __future__ import annotations

import pytest
import torch

from tests.server.support.gated_models import image_model
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.failures import load_problem
from vitrine_server.jobs.host import model_host
from vitrine_server.jobs.host.host_thread import HostThread
from vitrine_server.jobs.host.interface import ExplainRequest, LoadRequest, follow
from vitrine_server.jobs.host.lost_device import DeviceGoneError, DeviceLostError, check_device
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.settings import load_settings

ASSERTED = RuntimeError("CUDA error: device-side assert triggered")
GPU = torch.device("cuda:0")


def fail(*_: object) -> None:
    raise ASSERTED


def test_a_gpu_is_lost_where_the_next_call_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", asked.append)
    check_device(GPU)
    check_device(torch.device("cpu"))
    assert asked == [GPU]
    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    check_device(torch.device("cpu"))
    with pytest.raises(DeviceLostError, match="cuda:0 answers nothing more to this process: CUDA error: device-side assert"):
        check_device(GPU)


def test_a_gpu_without_memory_for_the_first_call_of_a_process_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process holds all of it: the question is refused in words, and the next one may find room."""

    def full(*_: object) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "synchronize", full)
    check_device(GPU)
    host = ModelHost(lambda *_, **__: image_model(), load_settings({"device": "cpu"}, {}))
    monkeypatch.setattr(model_host, "limit_memory", full)
    monkeypatch.setattr(model_host, "check_device", lambda device: check_device(GPU))
    with pytest.raises(RuntimeError, match="out of memory") as failed:
        follow(host.ask(LoadRequest("a")), lambda _: None)
    assert load_problem("a", failed.value).slug == "out-of-memory"
    monkeypatch.setattr(model_host, "limit_memory", lambda device, part: None)
    follow(host.ask(LoadRequest("a")), lambda _: None)
    assert set(host._models.resident()) == {"a"}


def test_a_device_that_a_process_cannot_use_from_the_start_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process could use it no more than this one: it is said apart from one that a question has cost the process."""
    host = HostThread(ModelHost(lambda *_, **__: image_model(), load_settings({"device": "cuda:7"}, {})))
    with pytest.raises(DeviceGoneError, match="cuda:7 cannot be used: cuda:7 is not there"):
        follow(host.ask(LoadRequest("a"), lambda _: None), lambda _: None)
    assert host.has_lost_device


def test_whatever_a_request_fails_with_its_device_is_asked_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ModelHost(lambda *_, **__: fail(), load_settings({"device": "cpu"}, {}))
    with pytest.raises(Problem) as problem:
        follow(host.ask(LoadRequest("a")), lambda _: None)
    assert problem.value.slug == "model-failed"
    checked: list[torch.device] = []

    def lost(device: torch.device) -> None:
        checked.append(device)
        raise DeviceLostError("it is lost")

    monkeypatch.setattr(model_host, "check_device", lost)
    for request in (LoadRequest("a"), ExplainRequest("a", None, None, [])):  # type: ignore[arg-type]
        with pytest.raises(DeviceLostError):
            follow(host.ask(request), lambda _: None)
    assert checked == [torch.device("cpu")] * 2


def test_the_device_is_asked_after_a_load_whose_checks_hide_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks and the first pass report any error as the model's own: the next question would be blamed for it."""
    host = ModelHost(lambda *_, **__: image_model(), load_settings({"device": "cpu"}, {}))
    follow(host.ask(LoadRequest("a")), lambda _: None)

    def lost(device: torch.device) -> None:
        raise DeviceLostError("it is lost")

    monkeypatch.setattr(model_host, "check_device", lost)
    with pytest.raises(DeviceLostError):
        follow(host.ask(LoadRequest("b")), lambda _: None)
    assert set(host._models.resident()) == {"a"}


def test_a_device_that_has_gone_while_nobody_asks_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ModelHost(lambda *_, **__: image_model(), load_settings({"device": "cpu"}, {}))
    follow(host.ask(LoadRequest("a")), lambda _: None)
    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    host.rest()  # on a CPU there is nothing to look for
    host._device = GPU
    with pytest.raises(DeviceLostError):
        host.rest()
    thread = HostThread(host)
    thread.look_after()
    assert thread.has_lost_device
    host._has_begun = False
    host.rest()  # a process that has not used a GPU yet does not begin to


def test_a_server_whose_own_process_has_lost_its_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process takes its place, so whoever watches the server has to start it again."""
    host = HostThread(ModelHost(lambda *_, **__: fail(), load_settings({"device": "cpu"}, {})))

    def ask() -> None:
        follow(host.ask(LoadRequest("a"), lambda _: None), lambda _: None)

    with pytest.raises(Problem):
        ask()
    assert host.silence == 0
    monkeypatch.setattr(model_host, "check_device", lambda device: (_ for _ in ()).throw(DeviceLostError("it is lost")))
    with pytest.raises(DeviceLostError):
        ask()
    assert host.silence == float("inf")

"""A request cancelled in the middle of a halved batch, or after its model was moved: nothing is held, and the next one is answered."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
import torch

import explainers
from explainers.models import tf32
from explainers.models.passes import Passes
from explainers.records.session import Cancelled
from tests.server.support.gated_models import image_model
from vitrine_server.jobs.host.interface import LoadRequest, Message, Pause, Reply, StudyRequest, follow
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.settings import load_settings


class Large:
    """What a pass makes."""


class Study:
    """Asks a model about four rows, of which one at a time fits, and is asked before each pass of one whether to stop."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.made: list[Callable[[], object]] = []

    def __call__(self, model: explainers.Model, cancelled: Callable[[], bool], tell: Any) -> dict[str, Any]:
        def run(first: int, number: int) -> None:
            large = Large()
            self.made.append(ref(large))
            self.rows.append(number)
            if number > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            if cancelled():
                raise Cancelled

        list(Passes(4).run(4, run))
        return {"rows": self.rows}


@pytest.fixture
def host() -> ModelHost:
    host = ModelHost(lambda *_, **__: image_model(), load_settings({"device": "cpu"}, {}))
    follow(host.ask(LoadRequest("a")), lambda _: None)
    return host


def stop_at_once(message: Message) -> Reply:
    return isinstance(message, Pause)


def hang_up(message: Message) -> Reply:
    if isinstance(message, Pause):
        raise ConnectionError("nobody waits for it any more")
    return None


@pytest.mark.parametrize(("handle", "error"), [(stop_at_once, Cancelled), (hang_up, ConnectionError)])
def test_a_request_cancelled_in_the_middle_of_a_halved_batch_leaves_nothing_behind(
    host: ModelHost, handle: Callable[[Message], Reply], error: type[Exception]
) -> None:
    study = Study()
    with pytest.raises(error):
        follow(host.ask(StudyRequest("a", study)), handle)
    assert study.rows == [4, 2, 1]  # it does not go on, and is not tried once more with less
    gc.collect()
    assert [made() for made in study.made] == [None] * 3
    assert tf32._WISHES == []
    assert host._models.make_room(host._device)  # the model is in use no more
    assert host._models.resident() == {}
    follow(host.ask(LoadRequest("a")), lambda _: None)
    assert follow(host.ask(StudyRequest("a", Study())), lambda _: None) == {"rows": [4, 2, 1, 1, 1, 1]}


def test_a_request_that_nobody_follows_once_its_model_was_moved_leaves_the_model_where_it_is(
    host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host says where the model is now, and is told that nobody listens."""
    monkeypatch.setattr("vitrine_server.jobs.host.model_host._say_the_same", lambda residents, told: False)
    stream = host.ask(StudyRequest("a", Study()))
    stream.send(None)
    moved = stream.send(None)
    assert type(moved).__name__ == "Residents"
    stream.close()
    monkeypatch.undo()
    assert set(host._models.resident()) == {"a"}
    assert follow(host.ask(StudyRequest("a", Study())), lambda _: None) == {"rows": [4, 2, 1, 1, 1, 1]}
    assert host._models.make_room(host._device)

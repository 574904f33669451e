"""Streams: work that stops at each of its messages, and others that run meanwhile."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
import torch

from explainers.records.session import Cancelled
from vitrine_server.jobs.host.interface import ChooseMethod, Message, Pause, Reply, follow
from vitrine_server.jobs.host.streams import Tell, WorkThreads


@pytest.fixture
def threads() -> Iterator[WorkThreads]:
    threads = WorkThreads()
    yield threads
    threads.close()


def test_a_stream_stops_at_each_message_and_gets_the_reply(threads: WorkThreads) -> None:
    def work(tell: Tell) -> list[Reply]:
        return [tell(Pause()), tell(ChooseMethod(["a", "b"]))]

    seen: list[Message] = []

    def handle(message: Message) -> Reply:
        seen.append(message)
        return message.left[1] if isinstance(message, ChooseMethod) else True

    assert follow(threads.stream(work), handle) == [True, "b"]
    assert seen == [Pause(), ChooseMethod(["a", "b"])]


def test_what_the_work_raises_is_raised_where_it_is_followed(threads: WorkThreads) -> None:
    def work(tell: Tell) -> None:
        tell(Pause())
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        follow(threads.stream(work), lambda _: False)


def test_work_that_nobody_follows_any_more_ends_where_it_stands(threads: WorkThreads) -> None:
    ended: list[str] = []

    def work(tell: Tell) -> None:
        try:
            tell(Pause())
        except Cancelled:
            ended.append("at its pause")
        try:
            tell(Pause())
        except Cancelled:
            ended.append("at what it tells on its way out")

    def handle(message: Message) -> Reply:
        raise ValueError("of the server")

    with pytest.raises(ValueError, match="of the server"):
        follow(threads.stream(work), handle)
    assert ended == ["at its pause", "at what it tells on its way out"]


def test_between_two_messages_others_run_and_leave_the_random_numbers_as_they_were(threads: WorkThreads) -> None:
    """What they do to torch's switches is their own, too."""

    def outer(tell: Tell) -> torch.Tensor:
        torch.manual_seed(1)
        first = torch.rand(2)
        with torch.no_grad():
            tell(Pause())
            assert not torch.is_grad_enabled()
        return torch.cat([first, torch.rand(2)])

    def inner(tell: Tell) -> bool:
        torch.manual_seed(7)
        tell(Pause())
        return torch.is_grad_enabled()

    inner_results: list[bool] = []

    def let_pass(message: Message) -> Reply:
        inner_results.append(follow(threads.stream(inner), lambda _: False))
        return False

    torch.manual_seed(1)
    expected = torch.rand(4)
    assert torch.equal(follow(threads.stream(outer), let_pass), expected)
    assert inner_results == [True]


def test_a_thread_is_used_again_and_holds_nothing_of_what_it_did(threads: WorkThreads) -> None:
    class Model:
        """What work may hold."""

    model = Model()
    reference = weakref.ref(model)

    def work(tell: Tell, model: Model = model) -> int:
        return threading.get_ident()

    first = follow(threads.stream(work), lambda _: False)
    second = follow(threads.stream(lambda tell: threading.get_ident()), lambda _: False)
    assert first == second
    del work, model
    gc.collect()
    assert reference() is None

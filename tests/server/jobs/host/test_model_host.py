"""How a host loads a model: room is made before it, and in the type of weights that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import explainers
from explainers.errors import MemoryShortageError
from explainers.models.memory import DeviceMemory, bytes_of_weights, total_memory
from explainers.models.passes import Shortages
from tests.server.support.gated_models import image_model
from tests.server.support.made_up_models import GPU, MadeUp, memory, places
from tests.server.support.made_up_models import SIZE as MADE_UP_SIZE
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.host import model_host
from vitrine_server.jobs.host.interface import DropRequest, HostRequest, LoadRequest, Message, Residents, follow
from vitrine_server.jobs.host.model_host import ModelHost, part_of_device
from vitrine_server.jobs.host.residency import Residency
from vitrine_server.jobs.host.warm_up import explain_sample, warm_up
from vitrine_server.settings import load_settings

pytestmark = pytest.mark.usefixtures("alone_on_machine")

SIZE = bytes_of_weights(image_model().module)


def share_of(models: float) -> float:
    """Return the share of this machine's memory that so many models take."""
    total = total_memory(torch.device("cpu"))
    assert total is not None
    return models * SIZE / total


def ask(host: ModelHost, request: HostRequest[Any]) -> list[set[str]]:
    """Ask a host; the names of the models that it says to hold, each time that it says so."""
    said: list[set[str]] = []

    def note(message: Message) -> None:
        if isinstance(message, Residents):
            said.append(set(message.models))

    follow(host.ask(request), note)
    return said


def load(name: str, device: str | None = None, **how: Any) -> explainers.Model:
    return replace(image_model(), name=str(name))


def test_processes_that_share_a_device_share_its_memory_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    cpu, gpu = torch.device("cpu"), torch.device("cuda:0")
    four = load_settings({"workers": 4}, {})
    assert (part_of_device(four, cpu), part_of_device(four, gpu)) == (0.25, 1.0)
    cluster = load_settings({"engine": "ray", "database": "postgresql://a@b/c", "max_replicas": 3}, {})
    halves = cluster.model_copy(update={"replica_gpus": 0.5})
    assert (part_of_device(halves, gpu), part_of_device(halves, cpu)) == (0.5, pytest.approx(1 / 3))
    assert part_of_device(cluster.model_copy(update={"replica_gpus": 2.0}), gpu) == 1.0
    # of replicas of eight cores there are at most two on a machine of sixteen
    assert part_of_device(cluster.model_copy(update={"replica_threads": 8}), cpu) == 0.5
    assert part_of_device(cluster.model_copy(update={"replica_threads": 64}), cpu) == 1.0


def test_models_leave_before_the_next_one_is_loaded() -> None:
    there: list[set[str]] = []
    settings = load_settings({"model_memory": share_of(2.5)}, {})
    host = ModelHost(
        lambda name, device, **how: (there.append(set(host._models.resident())), load(name))[1], settings, bytes_of=lambda *_: SIZE
    )
    said = [ask(host, LoadRequest(name)) for name in "abcd"]
    assert there == [set(), {"a"}, {"b"}, {"c"}]
    assert said == [[{"a"}], [{"a", "b"}], [{"b"}, {"b", "c"}], [{"c"}, {"c", "d"}]]
    assert ask(host, DropRequest(frozenset({"c", "x"}))) == [{"d"}]


def test_a_model_of_unknown_size_makes_room_once_it_is_there() -> None:
    host = ModelHost(load, load_settings({"model_memory": share_of(1.5)}, {}))
    assert [ask(host, LoadRequest(name)) for name in "ab"] == [[{"a"}], [{"b"}]]


def test_a_budget_is_told_again_where_it_has_changed_by_more_than_it_does_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes take and give back memory of the machine at every moment."""
    host, others, said = ModelHost(load, load_settings({"device": "cpu"}, {})), [0], list[int]()
    monkeypatch.setattr(host._models, "_memory", lambda device: DeviceMemory(10_000, others[0]))

    def note(message: Message) -> None:
        if isinstance(message, Residents) and message.budget is not None:
            said.append(message.budget.others)

    for others[0] in (0, 100, 101, 150, 0):
        follow(host.ask(DropRequest(frozenset())), note)
    assert said == [101, 0]


def test_a_model_larger_than_the_machine_is_never_read() -> None:
    host = ModelHost(lambda *_, **__: pytest.fail("it is read"), load_settings({}, {}), bytes_of=lambda *_: 10**18)
    before = Shortages.count
    with pytest.raises(Problem, match="large-one takes 1e\\+09 GB, and cpu has") as problem:
        ask(host, LoadRequest("large-one"))
    assert (problem.value.status, problem.value.slug) == (503, "out-of-memory")
    assert Shortages.count == before + 1


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("timm/x", "float32", None),
        ("timm/x", "bfloat16", torch.bfloat16),
        ("hf/a/b", "float16", torch.float16),
        ("scenes-vit", "float16", None),
    ],
)
def test_weights_are_loaded_in_the_type_of_the_settings(name: str, dtype: str, expected: torch.dtype | None) -> None:
    asked: list[Any] = []

    def bytes_of(place: str | Path, of_type: torch.dtype) -> int | None:
        asked.append(of_type)
        return None

    def note(name: str, device: str | None, **how: Any) -> explainers.Model:
        asked.append(how.get("dtype"))
        return load(name)

    host = ModelHost(note, load_settings({"model_dtype": dtype}, {}), bytes_of=bytes_of)
    ask(host, LoadRequest(name))
    assert asked == [expected or torch.float32, expected]


def own_image_model() -> explainers.Model:
    """A model whose module no other test sees, as hooks stay on it."""
    return image_model.__wrapped__()


def test_an_idle_host_returns_memory_once_and_some_seconds_after_its_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other processes on the GPU find it, and whoever asks again soon still does."""
    clock, released, entered = [100.0], list[float](), list[str]()
    monkeypatch.setattr("vitrine_server.jobs.host.model_host.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("vitrine_server.jobs.host.model_host.release_memory", lambda: released.append(clock[0]))
    monkeypatch.setattr(model_host, "check_device", lambda device: None)
    monkeypatch.setattr("vitrine_server.jobs.host.model_host.on_device", lambda device: (entered.append(str(device)), nullcontext())[1])
    host = ModelHost(load, load_settings({"device": "cpu"}, {}))

    def rest(*times: float) -> None:
        for clock[0] in times:
            host.rest()

    ask(host, DropRequest(frozenset()))
    rest(200)
    assert released == []  # a CPU has nothing to return
    host._device = torch.device("cuda:1")
    host._models = Residency(0.8, lambda device: None)
    rest(300)
    assert released == [300]
    rest(310, 320)
    assert released == [300]
    clock[0] = 400
    ask(host, DropRequest(frozenset()))
    rest(404.9, 405, 411)
    assert released == [300, 405]
    assert entered == ["cpu", "cuda:1"]  # whatever names no GPU is that of the host


class WarmUp:
    """Warms up no model, and fails as often as the test says."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), list[str]()

    def __call__(self, model: explainers.Model) -> None:
        self.asked.append(model.name)
        if self.errors:
            raise self.errors.pop(0)


def test_a_model_is_warmed_up_before_it_is_said_to_be_loaded() -> None:
    warm_up = WarmUp()
    host = ModelHost(
        load, load_settings({}, {}), warm_up=lambda model: (warm_up(model), warm_up.asked.append(str(list(host._told.models))))
    )
    for name in "ab":
        ask(host, LoadRequest(name))
    assert warm_up.asked == ["a", "[]", "b", "['a']"]


def test_others_make_room_for_a_first_pass() -> None:
    warm_up, loads = WarmUp(), list[str]()
    host = ModelHost(lambda name, device, **how: (loads.append(name), load(name))[1], load_settings({}, {}), warm_up=warm_up)
    ask(host, LoadRequest("a"))
    warm_up.errors = [torch.OutOfMemoryError("CUDA out of memory")]
    assert ask(host, LoadRequest("b")) == [{"b"}]
    assert loads == ["a", "b"]  # it is not read again
    assert warm_up.asked == ["a", "b", "b"]


def test_a_model_that_has_no_memory_for_its_first_pass_is_not_loaded() -> None:
    host = ModelHost(load, load_settings({}, {}), warm_up=WarmUp(*[torch.OutOfMemoryError("CUDA out of memory")] * 2))
    with pytest.raises(Problem, match="a needs more memory than cpu has for this") as problem:
        ask(host, LoadRequest("a"))
    assert (problem.value.status, problem.value.slug) == (503, "out-of-memory")
    assert ask(host, LoadRequest("a")) == [{"a"}]  # memory is free again


def test_others_make_room_where_an_estimate_forbids_the_checks_of_a_model() -> None:
    """As where torch runs out of memory: the next load finds the room that they left."""
    errors, loads = [MemoryShortageError("This needs about 9 GB, and 2 GB are free.")], list[str]()

    def load_once_room(name: str, device: str | None, **how: Any) -> explainers.Model:
        loads.append(name)
        if name == "c" and errors:
            raise errors.pop()
        return load(name)

    host = ModelHost(load_once_room, load_settings({}, {}))
    for name in "ab":
        ask(host, LoadRequest(name))
    before = Shortages.count
    assert ask(host, LoadRequest("c"))[-1] == {"b", "c"}
    assert loads == ["a", "b", "c", "c"]
    assert Shortages.count == before + 1
    errors[:] = [MemoryShortageError("This needs about 9 GB, and 2 GB are free.")] * 9
    host = ModelHost(load_once_room, load_settings({}, {}))
    ask(host, LoadRequest("a"))
    with pytest.raises(Problem, match="This needs about 9 GB") as problem:
        ask(host, LoadRequest("c"))
    assert problem.value.slug == "out-of-memory"


# --- loads to a GPU that is made up ------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu_host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModelHost]:
    """A function that makes a host of a made-up GPU of four models, and host memory for nine: "host" is a copy there, and "a" to "c" are on
    the GPU. ``errors`` are raised by the loads that follow, and ``in_first_pass`` by their first passes, one each.
    """
    monkeypatch.setattr(model_host, "facts_of", lambda model: None)
    monkeypatch.setattr(model_host, "check_device", lambda device: None)
    monkeypatch.setattr(model_host, "on_device", lambda device: nullcontext())

    def make(errors: list[Exception], in_first_pass: list[Exception] | None = None) -> ModelHost:
        def load_model(name: str, device: str | None, **how: Any) -> MadeUp:
            if errors:
                raise errors.pop(0)
            return MadeUp(GPU)

        def first_pass(model: Any) -> None:
            if in_first_pass:
                raise in_first_pass.pop(0)

        host = ModelHost(load_model, load_settings({"device": "cpu"}, {}), bytes_of=lambda *_: MADE_UP_SIZE, warm_up=first_pass)
        host._device, host._has_begun = GPU, True
        host._models = Residency(1.0, memory(4, 9))
        for name in ("host", *"abc"):
            host._models.add(name, MadeUp(GPU))
        host._models.make_room(GPU)
        assert places(host._models) == {"host": "host", **dict.fromkeys("abc", "device")}
        return host

    return make


def full(asked_for: int) -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {asked_for} bytes. GPU 0 has a total capacity of 1.6 KB.")


HOST_FULL = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 40 bytes. Error code 12 (Cannot allocate memory)"
NO_ENGINE = "GET was unable to find an engine to execute this computation"


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (lambda: full(2 * MADE_UP_SIZE), {"a"}),  # one is free, and one more has to be
        (lambda: MemoryShortageError("It needs more.", needed=MADE_UP_SIZE), {"a"}),  # next to its weights
        (lambda: MemoryShortageError("It needs more.", needed=3 * MADE_UP_SIZE), {"a", "b", "c"}),
    ],
    ids=["torch", "an estimate", "a larger estimate"],
)
@pytest.mark.parametrize("when", ["load", "first pass"])
def test_as_many_leave_the_gpu_as_a_load_lacks_and_copies_in_host_memory_stay(
    gpu_host: Callable[..., ModelHost], error: Callable[[], Exception], left: set[str], when: str
) -> None:
    if when == "first pass" and not isinstance(error(), MemoryShortageError):
        pytest.skip("torch says in the first pass what is lacking next to the weights")
    host = gpu_host([error()]) if when == "load" else gpu_host([], [error()])
    ask(host, LoadRequest("new"))
    assert places(host._models) == {"host": "host", **{name: "host" if name in left else "device" for name in "abc"}, "new": "device"}


@pytest.mark.parametrize(
    "error",
    [lambda: full(4 * MADE_UP_SIZE + 1), lambda: MemoryShortageError("It needs more.", needed=3 * MADE_UP_SIZE + 1)],
    ids=["torch", "an estimate"],
)
@pytest.mark.parametrize("when", ["load", "first pass"])
def test_nobody_leaves_for_a_load_that_cannot_succeed(
    gpu_host: Callable[..., ModelHost], error: Callable[[], Exception], when: str
) -> None:
    """With its weights it needs more than the GPU would have without all others."""
    host = gpu_host([error()]) if when == "load" else gpu_host([], [error(), error()])  # what torch says is tried once more all the same
    with pytest.raises(Problem) as problem:
        ask(host, LoadRequest("new"))
    assert problem.value.slug == "out-of-memory"
    assert places(host._models) == {"host": "host", **dict.fromkeys("abc", "device")}


def test_copies_in_host_memory_leave_where_that_is_short_and_models_on_the_gpu_stay(gpu_host: Callable[..., ModelHost]) -> None:
    host = gpu_host([RuntimeError(HOST_FULL)])
    ask(host, LoadRequest("new"))
    assert places(host._models) == dict.fromkeys([*"abc", "new"], "device")
    host = gpu_host([RuntimeError(HOST_FULL), MemoryError()])
    with pytest.raises(Problem) as problem:  # no copy is left that could make room
        ask(host, LoadRequest("new"))
    assert problem.value.slug == "out-of-memory"
    assert places(host._models) == dict.fromkeys("abc", "device")


def test_nobody_leaves_for_what_a_gpu_may_not_have_and_its_words_are_said(gpu_host: Callable[..., ModelHost]) -> None:
    host = gpu_host([RuntimeError(NO_ENGINE)])
    with pytest.raises(Problem, match=r"Loading new failed on the GPU \(GET was unable to find an engine to execute") as problem:
        ask(host, LoadRequest("new"))
    assert (problem.value.slug, problem.value.status) == ("model-failed", 500)
    assert places(host._models) == {"host": "host", **dict.fromkeys("abc", "device")}


def test_what_became_of_a_shortage_is_told_at_the_end_of_its_request(gpu_host: Callable[..., ModelHost]) -> None:
    told: list[dict[str, int]] = []

    def load(host: ModelHost) -> None:
        def note(message: Message) -> None:
            if isinstance(message, Residents):
                told.append(dict(message.shortages))

        with suppress(Problem):
            follow(host.ask(LoadRequest("new")), note)

    load(gpu_host([full(2 * MADE_UP_SIZE)]))
    assert told[-1] == {"made-room": 1}
    load(gpu_host([full(99 * MADE_UP_SIZE)]))
    assert told[-1] == {"failed": 1}
    load(gpu_host([RuntimeError(NO_ENGINE)]))
    assert told[-1] == {}  # it may be no shortage


def test_a_first_pass_is_recorded_and_a_cpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    model, passes = own_image_model(), list[bool]()
    model.module.register_forward_pre_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    warm_up(model)
    assert passes == []
    monkeypatch.setattr(explainers.Model, "device", torch.device("meta"))  # as if it were on a GPU
    asked: list[explainers.Model] = []
    monkeypatch.setattr("vitrine_server.jobs.host.warm_up.explain_sample", asked.append)
    warm_up(model)
    assert asked == [model]
    monkeypatch.undo()
    explain_sample(model)
    assert any(passes)  # one is recorded for the way back


def test_what_a_model_cannot_do_does_not_keep_it_from_being_loaded_and_a_shortage_does() -> None:
    model, errors = own_image_model(), [RuntimeError("the model's own words"), torch.OutOfMemoryError("CUDA out of memory")]

    def fail(*_: Any) -> None:
        raise errors[0]

    model.module.register_forward_pre_hook(fail)
    explain_sample(model)
    errors.pop(0)
    with pytest.raises(MemoryShortageError):
        explain_sample(model)

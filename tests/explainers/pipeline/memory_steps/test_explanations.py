"""An explanation whose memory runs out: fewer inputs at a time, then activations computed again, then words; and the next one works."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.autograd import memory
from explainers.autograd.memory import bytes_recomputed
from explainers.autograd.recording import Recording
from explainers.errors import MemoryShortageError, ran_out_of_memory
from explainers.models.model import Model
from explainers.models.passes import Passes, Ran, attempt
from explainers.pipeline import memory_steps
from explainers.records.result import Attribution, Explanation
from tests.explainers.support.wrapped import inputs, wrapped

#: Methods whose passes differ: one backward pass, relevance in float64 too, attention, a path, noise, changed inputs, sources one by one.
SPECS = [
    "input_x_gradient:libra",
    "lrp",
    "transformer_attribution",
    "integrated_gradients?steps=4",
    "smoothgrad?draws=4",
    "occlusion?compare=false",
    "decompx",
    "saliency?integrated=4",
    "random",
]
FULL = "CUDA out of memory. Tried to allocate 2.00 GiB."


def model_and_batch(count: int = 2) -> tuple[Model, dict[str, Tensor]]:
    tensors = inputs("vit", count, torch.float32)
    return wrapped("vit", torch.float32), tensors


class Device:
    """Counts the passes of a model, and is full for those of which ``is_full`` says so."""

    def __init__(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes, self.is_full = 0, lambda number, rows: False
        self.model = replace(model, forward=self._forward(model.forward))
        backward = torch.autograd.grad

        def grad(*given: Any, **how: Any) -> Any:
            self.count(0)
            return backward(*given, **how)

        monkeypatch.setattr(torch.autograd, "grad", grad)

    def _forward(self, forward: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
        def run(tensors: Any) -> Tensor:
            self.count(len(tensors["pixel_values"]))
            return forward(tensors)

        return run

    def count(self, rows: int) -> None:
        """Note a pass of so many rows, 0 for one backward. Raises torch's error if the device is full."""
        self.passes += 1
        if self.is_full(self.passes, rows):
            raise torch.OutOfMemoryError(FULL)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(model_and_batch()[0], monkeypatch)


class Told:
    """An observer that notes what it is told."""

    def __init__(self) -> None:
        self.predictions: list[Explanation] = []
        self.maps: list[tuple[int, str]] = []

    def on_prediction(self, explanation: Explanation) -> None:
        self.predictions.append(explanation)

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        self.maps.append((next(i for i, each in enumerate(self.predictions) if each is explanation), attribution.method))


def assert_same(ours: list[Explanation], theirs: list[Explanation]) -> None:
    assert [[a.method for a in each.maps] for each in ours] == [[a.method for a in each.maps] for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.logits, other.logits, rtol=1e-5, atol=1e-6)
        for a, b in zip(one.maps, other.maps, strict=True):
            torch.testing.assert_close(a.scores, b.scores, rtol=1e-3, atol=1e-5 * float(b.scores.abs().max()), msg=a.method)


@pytest.mark.parametrize("spec", SPECS)
def test_an_error_at_any_one_pass_changes_no_map(device: Device, spec: str) -> None:
    _, batch = model_and_batch()
    explainers.explain(device.model, batch, 1, spec)  # what is found out once for the model
    device.passes = 0
    whole = explainers.explain(device.model, batch, 1, spec)
    total = device.passes
    assert total >= 1
    for number in range(1, total + 1):
        device.passes, device.is_full = 0, lambda passes, rows, number=number: passes == number
        told = Told()
        assert_same(explainers.explain(device.model, batch, 1, spec, observer=told), whole)
        assert device.passes > total or spec == "random" or total == 1
        assert [len(told.predictions), len(told.maps), len(set(told.maps))] == [2, 2, 2]


@pytest.mark.parametrize("spec", SPECS)
def test_a_batch_of_which_only_some_fit_is_explained_in_parts(device: Device, spec: str) -> None:
    _, batch = model_and_batch(3)
    whole = explainers.explain(device.model, batch, None, spec)
    device.is_full = lambda passes, rows: rows > 2
    assert_same(explainers.explain(device.model, batch, None, spec), whole)


def test_methods_that_are_done_are_not_made_again(device: Device) -> None:
    _, batch = model_and_batch(1)
    specs = ["input_x_gradient", "input_x_gradient:libra", "rollout"]
    asked: list[list[str]] = []

    def next_method(left: list[str]) -> str:
        asked.append(left)
        return left[-1]

    explainers.explain(device.model, batch, 1, specs)
    told = Told()
    began, full = device.passes, []

    def is_full(passes: int, rows: int) -> bool:
        if told.maps and not full:  # at the first pass after a map
            full.append(passes)
            return True
        return False

    device.is_full = is_full
    explanation = explainers.explain(device.model, batch, 1, specs, observer=told, next_method=next_method)
    assert full
    assert full[0] > began
    assert [spec for _, spec in told.maps] == [attribution.method for attribution in explanation.maps] == specs[::-1]
    assert [len(left) for left in asked] == [3, 2, 1]


@pytest.fixture
def full_unless_recomputed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Recordings that keep their activations do not fit; the list says of each recording whether it computes them again."""
    made: list[bool] = []
    end = Recording._end_forward

    def end_forward(self: Recording) -> None:
        made.append(self.recomputed)
        if not self.recomputed:
            raise torch.OutOfMemoryError(FULL)
        end(self)

    explainers.explain(*model_and_batch(1), 1, ["lrp", "input_x_gradient"])  # what is found out once for the model
    monkeypatch.setattr(Recording, "_end_forward", end_forward)
    return made


OUTSIDE = ["input_x_gradient", "input_x_gradient:libra", "lrp", "saliency", "fullgrad:libra", "integrated_gradients?steps=4"]


def test_where_one_input_does_not_fit_its_activations_are_computed_again(request: pytest.FixtureRequest) -> None:
    model, batch = model_and_batch(2)
    explainers.variants(model)  # what it lacks is known, as of a model that was opened
    whole = explainers.explain(model, batch, 1, OUTSIDE)
    made = request.getfixturevalue("full_unless_recomputed")
    assert_same(explainers.explain(model, batch, 1, OUTSIDE), whole)
    assert made[:2] == [False, False]  # two inputs, then one
    assert made.count(False) == 2  # afterwards nobody tries to keep them


@pytest.mark.parametrize("spec", ["rollout", "transformer_attribution", "raw_attention", "partial_lrp"])
def test_what_reads_inside_the_blocks_says_that_memory_is_too_short_for_it(full_unless_recomputed: list[bool], spec: str) -> None:
    explainers.variants(model_and_batch(1)[0])
    with pytest.raises(MemoryShortageError, match=rf"{spec} cannot run here: .* computed again .*take up to .* GB .*Leave this method out"):
        explainers.explain(*model_and_batch(1), 1, [spec])


def test_where_nothing_fits_the_error_says_how_many_bytes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    _, batch = model_and_batch(2)
    whole = explainers.explain(device.model, batch, 1, SPECS[:3])
    made: list[Any] = []
    begin = Recording.__init__

    def init(self: Recording, *given: Any, **how: Any) -> None:
        made.append(ref(self))
        begin(self, *given, **how)

    monkeypatch.setattr(Recording, "__init__", init)
    monkeypatch.setattr(memory_steps, "free_memory", lambda device: 3_000_000_000)
    monkeypatch.setattr(memory_steps, "total_memory", lambda device: 80_000_000_000)
    device.is_full = lambda passes, rows: True
    with pytest.raises(ExplainerError, match=r"needs about [\d.e-]+ GB \(cpu\), and 3 GB of 80 GB are free") as failed:
        explainers.explain(device.model, batch, 1, SPECS[:3])
    assert isinstance(failed.value, MemoryShortageError)
    assert failed.value.needed == bytes_recomputed(device.model, batch)
    assert not ran_out_of_memory(failed.value)  # it is an answer: asking once more would not help
    assert failed.value.__cause__ is None
    gc.collect()
    assert len(made) == 3  # two inputs, one, one with its activations computed again
    assert [each() for each in made] == [None] * 3  # nothing of them is left
    device.is_full = lambda passes, rows: False
    assert_same(explainers.explain(device.model, batch, 1, SPECS[:3]), whole)


def test_a_batch_that_does_not_fit_by_estimate_is_explained_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_and_batch(3)
    whole = explainers.explain(model, batch, 1, "rollout")
    one = memory.OVERHEAD_FACTOR * memory.measure_one(model, batch)
    monkeypatch.setattr(memory, "free_memory", lambda device: int(1.5 * one / memory.MAX_FREE_MEMORY_SHARE))
    sizes: list[int] = []
    begin = Recording.__init__

    def init(self: Recording, model: Model, tensors: Any, **how: Any) -> None:
        sizes.append(len(tensors["pixel_values"]))
        begin(self, model, tensors, **how)

    monkeypatch.setattr(Recording, "__init__", init)
    assert_same(explainers.explain(model, batch, 1, "rollout"), whole)
    assert sizes == [1, 1, 1]


def test_the_draws_of_an_input_are_those_of_the_whole_batch(device: Device) -> None:
    _, batch = model_and_batch(3)
    whole = explainers.explain(device.model, batch, 1, "random", seed=7)
    device.is_full = lambda passes, rows: rows > 1
    for one, other in zip(explainers.explain(device.model, batch, 1, "random", seed=7), whole, strict=True):
        assert torch.equal(one.maps[0].scores, other.maps[0].scores)


def test_passes_are_halved_once_and_stay_so() -> None:
    asked: list[tuple[int, int]] = []

    def run(first: int, number: int) -> range:
        asked.append((first, number))
        if number > 3:
            raise torch.OutOfMemoryError(FULL)
        return range(first, first + number)

    passes = Passes(12)
    assert [i for part in passes.run(7, run) for i in part] == list(range(7))
    assert asked == [(0, 7), (0, 4), (0, 2), (2, 2), (4, 2), (6, 1)]
    assert passes.rows == 2


def test_other_errors_are_raised_at_once() -> None:
    def run(first: int, number: int) -> None:
        asked.append(number)
        raise RuntimeError("a bug")

    asked: list[int] = []
    with pytest.raises(RuntimeError, match="a bug"):
        list(Passes(4).run(4, run))
    assert asked == [4]


def test_nothing_holds_what_a_failed_pass_made() -> None:
    kept: list[Any] = []

    def run() -> None:
        class Large:
            pass

        large = Large()
        kept.append(ref(large))
        try:
            raise torch.OutOfMemoryError(FULL)
        except RuntimeError as problem:
            raise ExplainerError("the model failed") from problem

    failed = attempt(run)
    assert not isinstance(failed, Ran)
    assert ran_out_of_memory(failed)
    assert kept[0]() is None


def test_nothing_holds_what_led_to_the_error_either() -> None:
    """An error has a cause and a context, which need not be the same: the frames of both hold tensors."""
    kept: list[Any] = []

    class Large:
        pass

    def fail(error: Exception) -> None:
        large = Large()
        kept.append(ref(large))
        raise error

    def run() -> None:
        try:
            fail(torch.OutOfMemoryError(FULL))
        except RuntimeError as error:
            cause = error
        try:
            fail(KeyError("while it was put right"))
        except KeyError:
            raise ExplainerError("the model failed") from cause

    gc.collect()
    gc.disable()  # what is found by counting references alone
    try:
        failed = attempt(run)
        assert ran_out_of_memory(failed)  # type: ignore[arg-type]
    finally:
        gc.enable()
    assert [each() for each in kept] == [None, None]


def test_where_blocks_cannot_run_again_the_error_says_why_and_how_many_bytes() -> None:
    """It is a shortage of memory still: others may make room for it."""

    def explain_part(first: int, number: int, recomputed: bool) -> None:
        assert not recomputed
        raise torch.OutOfMemoryError(FULL)

    words = r"Memory ran out for 1 input by .* take more than one row of tokens.* take up to [\d.e-]+ GB \(cpu\)"
    with pytest.raises(MemoryShortageError, match=words):
        memory_steps.explain_in_steps(wrapped("swin"), inputs("swin", 1), 1, explain_part)

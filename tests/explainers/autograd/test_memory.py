"""What does not fit into memory is refused with figures, or made in smaller pieces, before it is taken."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.autograd import memory
from explainers.autograd.forward_decomposition import ForwardDecomposition
from explainers.autograd.memory import estimate_of_one, measure_one, rows_at_once
from explainers.autograd.recording import Recording
from explainers.errors import MemoryShortageError
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES

MAPS = ["input_x_gradient", "rollout", "transformer_attribution"]


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how many bytes are free."""
    return lambda count: monkeypatch.setattr(memory, "free_memory", lambda device: count)


@pytest.mark.parametrize("family", ["vit", "bert", "hf-clip"])
def test_what_a_recording_keeps_is_less_than_reckoned_and_more_than_its_tokens(family: str) -> None:
    model = explainers.wrap(FAMILIES[family].build())
    tensors = FAMILIES[family].inputs(2)
    kept = measure_one(model, tensors)
    recording = Recording(model, tensors)
    inputs_of_blocks = sum(x[:1].numel() * x.element_size() for x in recording.block_inputs)
    assert 2 * inputs_of_blocks < kept < estimate_of_one(model, tensors)
    assert measure_one(model, {name: tensor[:1] if model.is_sample(name) else tensor for name, tensor in tensors.items()}) == kept


def test_a_session_that_does_not_fit_is_refused_with_both_figures_and_how_many_do(free: Any) -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    batch = {name: tensor.repeat(50, 1, 1, 1) for name, tensor in tensors.items()}
    one = memory.OVERHEAD_FACTOR * measure_one(model, tensors)
    free(int(10.5 * one / memory.MAX_FREE_MEMORY_SHARE))
    with pytest.raises(ExplainerError, match="send at most 10 at once") as refused:
        explainers.Session(model, batch)
    needed, there = (float(figure) for figure in re.findall(r"([\d.e-]+) GB", str(refused.value)))
    assert needed == pytest.approx(50 * one / 1e9, rel=0.06)
    assert there == pytest.approx(10.5 * one / memory.MAX_FREE_MEMORY_SHARE / 1e9, rel=0.06)
    ten = {name: tensor[:10] for name, tensor in batch.items()}
    assert len(explainers.Session(model, ten).samples) == 10
    assert len(explainers.explain(model, batch, methods="rollout")) == 50  # a few at a time


def test_the_bytes_that_one_input_needs_are_said_where_more_memory_would_not_change_them(free: Any) -> None:
    """By them a server judges whether other models should leave for it."""
    model, tensors = wrapped("vit"), inputs("vit", 1)
    one = memory.OVERHEAD_FACTOR * measure_one(model, tensors)

    def needed(count: int, **how: Any) -> int | None:
        free(count)
        with pytest.raises(MemoryShortageError) as refused:
            memory.check_memory(model, how.pop("tensors", tensors), **how)
        return refused.value.needed

    assert needed(int(one)) == int(one)  # a tenth stays free
    assert needed(int(one), tensors=inputs("vit", 2)) is None  # they are explained one by one
    guess = estimate_of_one(model, tensors)
    assert needed(1000) == guess // 9  # by a generous estimate: with so much it is measured, and not before
    assert needed(guess // 9 + 1) == int(one)
    assert needed(1000, recomputed=True) == memory.bytes_recomputed(model, tensors)


def test_one_input_that_does_not_fit_is_refused_before_it_is_recorded(free: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    free(1000)
    monkeypatch.setattr(Recording, "__init__", lambda *_, **__: pytest.fail("recorded"))
    with pytest.raises(ExplainerError, match=r"needs about .* GB of memory for 1 input by .*choose a smaller model"):
        explainers.explain(model, tensors, methods="input_x_gradient")


@pytest.mark.parametrize("spec", ["decompx", "globenc", "alti", "smoothgrad?draws=8", "integrated_gradients?steps=8"])
def test_what_can_be_made_in_smaller_pieces_is_and_gives_the_same(free: Any, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    free(None)
    sizes: list[int] = []

    def sized(began: Any) -> Any:
        def begin(self: Recording, model: Any, tensors: Any, *given: Any, **options: Any) -> None:
            sizes.append(len(tensors["pixel_values"]))
            began(self, model, tensors, *given, **options)

        return begin

    for kind in (Recording, ForwardDecomposition) if spec in ("decompx", "globenc", "alti") else (Recording,):
        monkeypatch.setattr(kind, "__init__", sized(kind.__init__))
    whole = explainers.explain(model, tensors, 1, spec).maps[0].scores
    most = max(sizes)
    assert most >= 8
    sizes.clear()
    x = Recording(model, tensors).block_inputs[0]
    apart = 4 * x.numel() * x.shape[1] * 4 if spec in ("globenc", "alti") else 0
    a_row = memory._bytes_of_a_row(model, tensors, spec in ("decompx", "globenc", "alti"))
    free(int((4.5 * a_row + apart) / memory.MAX_FREE_MEMORY_SHARE))
    pieces = explainers.explain(model, tensors, 1, spec).maps[0].scores
    assert max(sizes) == 4
    torch.testing.assert_close(pieces, whole, rtol=1e-4, atol=1e-6)


def test_tokens_of_which_not_even_one_can_be_propagated_are_refused(free: Any) -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    a_row = memory._bytes_of_a_row(model, tensors, True)
    free(int(1.5 * a_row))
    with pytest.raises(ExplainerError, match="GB are free"):
        rows_at_once(model, tensors, 33, 2, propagated=True)


@pytest.mark.parametrize("spec", ["occlusion?compare=false", "rise?samples=32", "kernel_shap?samples=32"])
def test_passes_without_a_way_back_that_do_not_fit_are_refused(free: Any, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    a_pass, a_recording = (memory._bytes_of_a_row(model, tensors, propagated) for propagated in (True, False))
    count = int(1.1 * a_recording / memory.MAX_FREE_MEMORY_SHARE)  # the answer can be recorded, and a batch of changed inputs not asked
    assert count < 8 * a_pass / memory.MAX_FREE_MEMORY_SHARE
    free(count)
    with pytest.raises(ExplainerError, match="GB are free"):
        explainers.explain(model, tensors, 1, spec)


def test_an_ordinary_request_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "measure_one", lambda *_: pytest.fail("measured"))
    explainers.explain(wrapped("vit"), inputs("vit", 2), methods=MAPS)

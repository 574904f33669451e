"""A recording leaves the model as it was, whatever else runs beside it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.models.model import Model
from tests.explainers.support.wrapped import all_signals, every_family, inputs, one_hot, wrapped
from tests.families import FAMILIES

OWN_RULES = tuple(name for name in RULES if "-" not in name)  # those that are not another one with a field changed


def state_of(model: Model) -> Any:
    """Everything about the module that a recording might touch."""
    hooks = {
        name: (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), "forward" in vars(m))
        for name, m in model.module.named_modules()
    }
    parameters = {n: (p.requires_grad, p.grad is None, p._version, p.data_ptr()) for n, p in model.module.named_parameters()}
    modes = {n: m.training for n, m in model.module.named_modules()}
    return hooks, parameters, modes, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), len(_get_current_function_mode_stack())


@every_family
def test_nothing_is_left_behind(name: str) -> None:
    model = wrapped(name)
    before = state_of(model)
    recording = Recording(model, inputs(name))
    recording.cached_backward(RULES["libra"], one_hot(recording))
    assert state_of(model) == before


class Broken(RuntimeError):
    pass


@pytest.mark.parametrize("name", ["vit", "hf-clip", "bert", "mixer"])
def test_nothing_is_left_behind_when_the_model_raises_in_the_middle(name: str) -> None:
    model, tensors = explainers.wrap(FAMILIES[name].build()), inputs(name, dtype=torch.float32)
    model.module.train()
    model.module.requires_grad_(False)

    def fail(*_: Any) -> None:
        raise Broken

    handle = model.blocks[1].register_forward_hook(fail)
    before = state_of(model)
    with pytest.raises(Broken):
        Recording(model, tensors)
    assert state_of(model) == before
    handle.remove()
    Recording(model, tensors)


@pytest.mark.parametrize("name", ["vit", "bert"])
def test_dropout_is_off_in_train_mode_and_every_modules_mode_comes_back(name: str) -> None:
    quiet, tensors = wrapped(name, torch.float32), inputs(name, dtype=torch.float32)
    module = FAMILIES[name].build()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.5
    model = explainers.wrap(module)
    module.train()
    list(module.children())[-1].eval()
    before = state_of(model)
    recording = Recording(model, tensors)
    assert state_of(model) == before
    assert torch.equal(recording.logits, Recording(quiet, tensors).logits)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["vit", "bert", "hf-clip"])
def test_works_where_gradients_are_off(name: str, context: Any) -> None:
    model = wrapped(name)
    methods = ["input_x_gradient:libra", "transformer_attribution", "integrated_gradients?steps=3"]
    tensors = inputs(name)
    plain = Recording(model, tensors)
    expected = plain.cached_backward(RULES["libra"], one_hot(plain)).block_inputs[0]
    with context():
        made_here = {key: value.clone() for key, value in tensors.items()}
        recording = Recording(model, made_here)
        found = recording.cached_backward(RULES["libra"], one_hot(recording)).block_inputs[0]
        if model.kind != "clip":
            explainers.explain(model, made_here, target=0, methods=methods)
    assert torch.equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "deit3", "hf-clip", "bert", "albert"])
def test_threads_at_once_give_the_numbers_of_one_after_another(name: str) -> None:
    model = wrapped(name)
    several = [inputs(name, seed=seed) for seed in range(4)]
    barrier = threading.Barrier(4)

    def run(tensors: dict[str, Tensor], wait: bool) -> list[Tensor]:
        if wait:
            barrier.wait()
        recording = Recording(model, tensors)
        return [t for rule in OWN_RULES for t in all_signals(recording.cached_backward(RULES[rule], one_hot(recording)))]

    expected = [run(tensors, False) for tensors in several]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda tensors: run(tensors, True), several))
    for one, other in zip(expected, found, strict=True):
        for a, b in zip(one, other, strict=True):
            assert torch.equal(a, b)


def test_a_recording_in_train_mode_is_not_disturbed_by_another_that_ends_meanwhile() -> None:
    """The first to end must not switch dropout on again under the second, which began while the model was in eval mode for the first."""
    module = FAMILIES["vit"].build()
    model, tensors = explainers.wrap(module), inputs("vit", dtype=torch.float32)
    expected = Recording(model, tensors).logits
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.5
    module.train()
    inside, go_on = threading.Event(), threading.Event()
    first_thread: list[int] = []

    def pause(*_: Any) -> None:
        if threading.get_ident() == first_thread[0]:
            inside.set()  # the first recording is in the middle of the model
            assert go_on.wait(30)

    def pause_second(*_: Any) -> None:
        if threading.get_ident() != first_thread[0]:
            go_on.set()  # the second is in the middle: let the first end, and only then go on
            first.result(30)

    handles = [model.blocks[0].register_forward_pre_hook(pause), model.blocks[0].register_forward_pre_hook(pause_second)]

    def run_first() -> Tensor:
        first_thread.append(threading.get_ident())
        return Recording(model, tensors).logits.detach()

    def run_second() -> Tensor:
        return Recording(model, tensors).logits.detach()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run_first)
        assert inside.wait(30)
        second = pool.submit(run_second)
        assert torch.equal(second.result(60), expected.detach())
        assert torch.equal(first.result(60), expected.detach())
    for handle in handles:
        handle.remove()
    assert all(part.training for part in module.modules())

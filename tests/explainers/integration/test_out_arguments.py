"""Models that write results into buffers by ``out=``: the maps are those of the same model without, also where gradients are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import HEADS, PREPROCESS, Attention, Block, Vit, built, of_module, pixels, softmax_of

READS_ATTENTION = ("rollout", "transformer_attribution", "legrad")
READS_GRADIENTS = ("input_x_gradient", "input_x_gradient:libra", "fullgrad_plus:libra", "input_x_gradient:attnlrp")
CUT = "cuts numbers that depend on the input from the gradient"


def vit_of(form: Any) -> nn.Module:
    return built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))


def result_of(form: Any, *specs: str) -> Any:
    model = explainers.wrap(vit_of(form), kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, list(specs))
    return result[0] if isinstance(result, list) else result


def every_step(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    scores = q.new_empty(*q.shape[:-1], k.shape[-2])
    torch.matmul(q / q.shape[-1] ** 0.5, k.mT, out=scores)
    weights = torch.softmax(scores, -1, out=torch.empty_like(scores))
    return torch.matmul(weights, v, out=torch.empty_like(v))


def head_by_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights, given = softmax_of(q, k), torch.empty_like(v)
    for head in range(HEADS):
        torch.matmul(weights[:, head], v[:, head], out=given[:, head])
    return given


def over_an_operand(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    given = softmax_of(q, k) @ v
    torch.mul(given, 2.0, out=given)
    return given / 2


def largest_scores(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    largest = scores.new_empty(0)
    torch.max(scores, -1, keepdim=True, out=(largest, torch.empty(0, dtype=torch.long)))
    exponentials = (scores - largest).exp()
    return (exponentials / exponentials.sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize("form", [every_step, head_by_head, over_an_operand, largest_scores])
def test_maps_are_those_without_out(form: Callable[..., Tensor]) -> None:
    found, expected = (result_of(each, *READS_ATTENTION, *READS_GRADIENTS) for each in (form, of_module))
    for one, other in zip(found.maps, expected.maps, strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-4, atol=1e-6)
        assert not [note for note in one.notes if "read as heads" not in note]


def weights_without_gradient(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = q.new_empty(*q.shape[:-1], k.shape[-2])
    with torch.no_grad():
        torch.matmul(q / q.shape[-1] ** 0.5, k.mT, out=weights)
        torch.softmax(weights, -1, out=weights)
    return weights @ v


def detached_weights(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k).detach() @ v


def all_without_gradient(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights, given = softmax_of(q, k), torch.empty_like(v)
    with torch.no_grad():
        torch.matmul(weights, v, out=given)
    return given


def detached(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k) @ v).detach()


@pytest.mark.parametrize(("form", "twin"), [(weights_without_gradient, detached_weights), (all_without_gradient, detached)])
def test_what_is_written_where_gradients_are_off_is_cut_and_noted(form: Callable[..., Tensor], twin: Callable[..., Tensor]) -> None:
    found, expected = (result_of(each, *READS_GRADIENTS) for each in (form, twin))
    x = pixels().requires_grad_()
    (gradient,) = torch.autograd.grad(vit_of(twin)(x)[0, 1], x)
    (by_model,) = torch.autograd.grad(vit_of(form)(x)[0, 1], x) if form is not all_without_gradient else (gradient,)
    torch.testing.assert_close(by_model, gradient)
    for one, other in zip(found.maps, expected.maps, strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-4, atol=1e-6)
        assert any(CUT in note and "no_grad" in note for note in one.notes)
    with pytest.raises(explainers.ExplainerError, match="without an attention map"):
        result_of(form, "rollout")


class Doubled(torch.autograd.Function):
    """Twice its input, computed into a buffer."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.mul(x, 2.0, out=out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 2 * gradients[0]


def by_a_function(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    given: Tensor = Doubled.apply(softmax_of(q, k) @ v)  # type: ignore[no-untyped-call]
    return given / 2


def test_an_autograd_function_that_writes_into_a_buffer_is_followed() -> None:
    found, expected = (result_of(each, *READS_ATTENTION, *READS_GRADIENTS) for each in (by_a_function, of_module))
    for one, other in zip(found.maps, expected.maps, strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-4, atol=1e-6)
        assert not one.notes

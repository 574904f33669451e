"""Grad-CAM and its kin at the first norm of a block, against pytorch-grad-cam's formulas on maps of channels (B, D, rows, columns)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.methods.requirements import lacks_of
from tests.explainers.support.wrapped import inputs, read, wrapped

Weights = Callable[[Tensor, Tensor], Tensor]


def plus_plus(x: Tensor, g: Tensor) -> Tensor:
    alpha = g**2 / (2 * g**2 + x.sum((2, 3), keepdim=True) * g**3 + 1e-6)
    return (alpha * g.relu()).sum((2, 3), keepdim=True).expand_as(x)


WEIGHTS: dict[str, Weights] = {
    "gradcam": lambda x, g: g.mean((2, 3), keepdim=True).expand_as(x),
    "gradcam++": plus_plus,
    "xgradcam": lambda x, g: (g * x / (x.sum((2, 3), keepdim=True) + 1e-7)).sum((2, 3), keepdim=True).expand_as(x),
    "hirescam": lambda x, g: g,
    "layercam": lambda x, g: g.relu(),
}


@pytest.mark.parametrize("cam", WEIGHTS)
def test_the_maps_are_those_of_hooks_on_the_model(cam: str) -> None:
    model, given = wrapped("vit"), inputs("vit", 2)
    recording = Recording(model, given)
    held: list[Tensor] = []
    handle = model.module.blocks[-1].norm1.register_forward_hook(lambda child, args, output: held.append(output))  # type: ignore[index, union-attr]
    logits = model.forward({name: tensor.clone().requires_grad_() for name, tensor in given.items()})
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), held)
    prefix, grid = recording.layout.prefix, recording.layout.grid
    assert grid is not None
    x, g = (each.detach()[:, prefix:].mT.unflatten(2, grid) for each in (held[0], gradient))
    expected = (WEIGHTS[cam](x, g) * x).sum(1).relu().flatten(1)
    scores = read(recording, "pytorch_grad_cam", "gradient", cam=cam)
    torch.testing.assert_close(scores[:, prefix:], expected, rtol=1e-9, atol=1e-12)
    assert not bool(scores[:, :prefix].any())
    assert bool(expected.any())


def test_cdam_is_hirescam_at_the_first_norm_of_the_last_block() -> None:
    """Hooks on that norm, as in the authors' notebook; pytorch-grad-cam's recipe draws its positive part."""
    model, given = wrapped("vit"), inputs("vit", 2)
    recording = Recording(model, given)
    held: list[Tensor] = []
    handle = model.module.blocks[-1].norm1.register_forward_hook(lambda child, args, output: held.append(output))  # type: ignore[index, union-attr]
    logits = model.forward({name: tensor.clone().requires_grad_() for name, tensor in given.items()})
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), held)
    found = read(recording, "cdam", "gradient")
    torch.testing.assert_close(found, (held[0] * gradient).sum(-1).detach(), rtol=1e-9, atol=1e-12)
    patches = slice(recording.layout.prefix, None)
    recipe = read(recording, "pytorch_grad_cam", "gradient", cam="hirescam")
    torch.testing.assert_close(found[:, patches].relu(), recipe[:, patches])
    assert bool((found < 0).any())
    assert not torch.allclose(found, read(recording, "hirescam", "gradient"), atol=1e-3)


def test_cdam_is_hirescam_where_blocks_normalise_after_attention() -> None:
    recording = Recording(wrapped("bert"), inputs("bert", 2))
    torch.testing.assert_close(read(recording, "cdam", "gradient"), read(recording, "hirescam", "gradient"))


def test_a_model_that_makes_queries_and_keys_of_other_tokens_says_why() -> None:
    assert (
        "without an attention map over all its tokens" in lacks_of(Recording(wrapped("crossvit"), inputs("crossvit", 1)))["attention_input"]
    )

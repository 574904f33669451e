"""A rule's linear map of a recorded pass, forward and back."""

from __future__ import annotations

import pytest
import torch

from explainers import ExplainerError
from explainers.autograd.linearised import Linearised
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES

RULES_OF_GRADIENTS = ("gradient", "libra", "attnlrp")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_forward_is_the_transpose_of_the_way_back(name: str) -> None:
    """<L t, s> = <t, L^T s>, for each sample, in every family of models."""
    recording = Recording(wrapped(name), inputs(name, 2))
    generator = torch.Generator().manual_seed(0)
    x, logits = recording.block_inputs[0], recording.logits
    for rule in RULES_OF_GRADIENTS:
        linear = Linearised(recording, RULES[rule])
        for _ in range(2):
            tangent = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            seed = torch.randn(logits.shape, generator=generator, dtype=x.dtype)
            there, back = linear.push(tangent) * seed, linear.pull(seed) * tangent
            size = float(back.abs().sum())
            assert size > 0
            torch.testing.assert_close(there.sum(1), back.flatten(1).sum(1), rtol=1e-9, atol=1e-10 * size)


def test_the_gradients_map_is_the_derivative_of_the_logits() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    recording = Recording(model, tensors)
    tangent = torch.randn(recording.block_inputs[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    step = 1e-5
    above, below = (Recording(model, tensors, entry=lambda x, by=by: x + by * tangent).logits.detach() for by in (step, -step))
    torch.testing.assert_close(Linearised(recording, RULES["gradient"]).push(tangent), (above - below) / (2 * step), rtol=1e-6, atol=1e-8)


def test_relevance_has_no_linear_map() -> None:
    with pytest.raises(ExplainerError, match="is not linear"):
        Linearised(Recording(wrapped("vit"), inputs("vit", 1)), RULES["deep_taylor"])

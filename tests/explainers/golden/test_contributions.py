"""What every token gives every other, and rows of a class token that the head does not read."""

from __future__ import annotations

import pytest
import torch

from explainers.methods.contributions import after_attention
from explainers.records.session import Session
from explainers.records.targets import resolved_class
from tests.explainers.support.golden_rows import (
    TOLERANCE,
    case_of,
    explained,
)


def test_lengths_of_the_contributions_in_each_block() -> None:
    case = case_of("globenc-alti-bert")
    trace = Session(case.model, case.inputs, case.target).trace(resolved_class(("",), torch.tensor([case.target])), None)
    found = torch.stack([after_attention(trace, block, norms=2).vectors.norm(dim=-1) for block in range(3)], 1)
    assert case.difference(found, "globenc_lengths") < TOLERANCE


def test_alti_after_the_second_norm() -> None:
    """Their variant: no option of ours, as the paper has it without, but the same vectors."""
    case = case_of("globenc-alti-bert")
    trace = Session(case.model, case.inputs, case.target).trace(resolved_class(("",), torch.tensor([case.target])), None)
    weights = []
    for block, y in enumerate(trace.block_outputs):
        vectors, whole = after_attention(trace, block, norms=2).vectors, y[:, :, None]
        weights.append((whole.abs().sum(-1) - (whole - vectors).abs().sum(-1)).clamp(min=0))
    rows = [w / w.sum(-1, keepdim=True) for w in weights]
    assert case.difference((rows[2] @ rows[1] @ rows[0])[:, 0], "alti_after_second_norm") < TOLERANCE


@pytest.mark.parametrize(("array", "rule"), [("generic_attention", ""), ("libra_generic_attention", ":libra")])
def test_generic_attention_of_a_pooled_model(array: str, rule: str) -> None:
    """Theirs halves the identity and attention in every block, which scales the map."""
    case = case_of("libragrad-eva02")
    ours = explained(case, f"generic_attention{rule}?row=class_token").scores.double()
    assert case.difference(ours * 0.5 ** len(case.model.blocks), array) < TOLERANCE

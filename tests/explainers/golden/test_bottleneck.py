"""NIB and M2IB against the published code, on both sides of a CLIP; M2IB with the draws that were recorded there."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods.implementations.bottleneck import narrow
from explainers.methods.requests import parse
from explainers.models.inputs.types import Side
from explainers.records.session import rerunner
from explainers.records.targets import resolved_class
from explainers.records.trace import MethodOutput, Trace
from tests.explainers.support.golden import Case

TOLERANCE = 1e-9
SIDES: tuple[Side, ...] = ("image", "text")


@cache
def case(name: str) -> Case:
    return Case(name)


def trace_of(name: str, side: Side, pair: int = 0) -> Trace:
    """One picture with its text, seen from a side."""
    inputs = case(name).inputs
    length = int(inputs["lengths"][pair]) if "lengths" in inputs else None
    tensors = {"pixel_values": inputs["pixel_values"][pair : pair + 1], "input_ids": inputs["input_ids"][pair : pair + 1, :length]}
    model = case(name).model.seen_from(side)
    return Trace(
        Recording(model, tensors),
        resolved_class(("the pair",), torch.tensor([0])),
        RULES["gradient"],
        rerun=rerunner(model, tensors, lambda: None),
    )


def apart(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max())


def nib(side: Side, pair: int, spec: str) -> Tensor:
    """The scores of patches, or of all tokens of a text."""
    trace = trace_of("nib-clip", side, pair)
    output: MethodOutput = parse(spec).read(trace)
    return output.scores[0, trace.content[0]] if side == "image" else output.scores[0]


@pytest.mark.parametrize("pair", [0, 1])
@pytest.mark.parametrize("side", SIDES)
def test_the_cosine_is_explained(side: Side, pair: int) -> None:
    trace = trace_of("nib-clip", side, pair)
    cosine = float(trace.value()) / trace.recording.model.details["logit_scale"]
    assert cosine == pytest.approx(float(case("nib-clip").published["cosine"][pair, pair]), abs=TOLERANCE)


@pytest.mark.parametrize("pair", [0, 1])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("block", "steps"), [(2, 10), (2, 4), (0, 10), (0, 4)])
def test_nib(block: int, steps: int, side: Side, pair: int) -> None:
    theirs = case("nib-clip").published[f"layer{block}_steps{steps}|{side}"][pair]
    theirs = theirs.flatten() if side == "image" else theirs[~theirs.isnan()]
    assert apart(nib(side, pair, f"nib?block={block}&steps={steps}"), theirs) < TOLERANCE


def test_nib_takes_the_published_number_of_steps_and_three_quarters_of_the_depth() -> None:
    assert torch.equal(nib("image", 0, "nib"), nib("image", 0, "nib?block=3&steps=10"))
    assert apart(nib("image", 0, "nib"), nib("image", 0, "nib?block=2")) > 1e-3


@pytest.mark.parametrize("side", SIDES)
def test_texts_of_several_pairs_are_not_mixed(side: Side) -> None:
    """Their batches take half of each picture's cosine, and of a text the mean cosine with all pictures."""
    batch = case("nib-clip").published[f"batch|layer2_steps10|{side}"]
    if side == "image":
        assert apart(nib(side, 0, "nib?block=2") / 2, batch[0].flatten()) < TOLERANCE
    else:
        theirs = batch[0][~batch[0].isnan()]
        assert apart(nib(side, 0, "nib?block=2"), theirs) > 1e-3


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("layer", "beta"), [(1, 0.1), (1, 1.0), (0, 0.1)])
def test_m2ib(layer: int, beta: float, side: Side) -> None:
    published, tag = case("m2ib-clip").published, f"{side}|layer{layer}_beta{beta:g}"
    draws = iter(case("m2ib-clip").inputs[f"noise|{side}|layer{layer}"].double())
    trace = trace_of("m2ib-clip", side)
    nats = narrow(trace, f"block:{layer + 1}", beta, 10, lambda: next(draws)[None])[0]
    assert next(draws, None) is None
    assert apart(nats, published[f"{tag}|capacity"]) < TOLERANCE
    scores = nats.sum(-1)
    assert apart(scores[trace.content[0]].view(4, 4) if side == "image" else scores, published[f"{tag}|map"]) < TOLERANCE

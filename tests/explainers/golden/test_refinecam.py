"""RefineCAM and the maps of single blocks that it multiplies, against torch-cam."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.methods import parse
from explainers.records.targets import resolved_class
from explainers.records.trace import MethodOutput, Trace
from tests.explainers.support.golden import Case

TOLERANCE = 1e-9


@cache
def case() -> Case:
    return Case("refinecam-vit")


def maps(spec: str) -> tuple[Tensor, MethodOutput]:
    """(pictures, rows, columns) of the method, in float64."""
    recording = Recording(case().model, case().inputs)
    request = parse(spec)
    chosen = resolved_class(("class 3",) * 2, torch.tensor([case().target] * 2))
    trace = Trace(recording, chosen, request.rule)
    output = request.read(trace)
    return output.scores[trace.content].view(2, *(trace.layout.grid or ())), output


@pytest.mark.parametrize(("array", "cam"), [("gradcampp", "gradcam%2B%2B"), ("layercam", "layercam"), ("gradcam", "gradcam")])
def test_the_product_over_blocks(array: str, cam: str) -> None:
    found, output = maps(f"refinecam?cam={cam}")
    theirs = case().published[f"refinecam|{array}|target"]
    assert float((found - theirs).abs().max()) < TOLERANCE
    layers = case().published[f"refinecam|{array}|layers"]
    for picture in range(2):
        empty = [str(block) for block, one in enumerate(layers[:, picture], 1) if not bool(one.any())]
        assert all(f"block {', '.join(empty)} speaks" in note for note in output.notes[picture])
        assert len(output.notes[picture]) == bool(empty)


def test_the_default_is_torch_cams() -> None:
    assert float((maps("refinecam")[0] - case().published["refinecam|gradcampp|target"]).abs().max()) < TOLERANCE


@pytest.mark.parametrize("cam", ["gradcam", "layercam"])
def test_the_map_of_the_last_block_is_that_of_the_recipe(cam: str) -> None:
    found, _ = maps(f"pytorch_grad_cam?cam={cam}")
    above = found - found.amin((1, 2), keepdim=True)
    stretched = above / (above.amax((1, 2), keepdim=True) + 1e-8)
    assert float((stretched - case().published[f"refinecam|{cam}|layers"][-1]).abs().max()) < TOLERANCE


def test_logits() -> None:
    assert float((Recording(case().model, case().inputs).logits.detach() - case().published["logits"]).abs().max()) < TOLERANCE

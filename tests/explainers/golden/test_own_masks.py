"""TIS and ViT-CX against the published code; what is drawn at random there (centroids, noise) is taken as it was drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.methods.implementations.own_masks import causal_map, cluster_masks, mean_of_masks, probability_of, token_masks
from explainers.methods.patch_features import PatchFeatures
from explainers.models.removal.patches import patch_removal
from explainers.records.targets import resolved_class
from explainers.records.trace import Trace
from tests.explainers.support.golden import Case

TOLERANCE = 1e-9
IN_FLOAT32 = 1e-7  # token removal answers in float32


@cache
def case() -> Case:
    return Case("tis-vitcx-vit")


@cache
def trace() -> Trace:
    model, tensors = case().model, case().inputs

    def answer(sample: int, repeats: int, change: Callable[[str, Tensor], Tensor]) -> Tensor:
        with torch.no_grad():
            return model.forward({name: change(name, tensor.expand(repeats, -1, -1, -1)) for name, tensor in tensors.items()})

    return Trace(Recording(model, tensors), resolved_class(("class 2",), torch.tensor([case().target])), None, answer=answer)


def apart(ours: Tensor, array: str) -> float:
    return float((ours.double() - case().published[array]).abs().max())


def test_the_probability_is_asked() -> None:
    number = probability_of(trace(), 0).value(trace().recording.logits.detach())
    assert float(number) == pytest.approx(float(case().published["probabilities"][0, 2]), abs=TOLERANCE)


def test_the_maps_that_tis_clusters() -> None:
    patches = torch.cat([x[0, 1:].T for x in trace().block_outputs])
    assert apart(patches[::4], "tis_activations") < TOLERANCE


@pytest.mark.parametrize(("name", "ratios"), [("half", (0.5,)), ("ratios_0.5_0.25", (0.5, 0.25))])
def test_tis(name: str, ratios: tuple[float, ...]) -> None:
    masks = token_masks(case().published["tis_centroids"], ratios)
    assert torch.equal(masks.double(), case().published[f"tis|{name}|masks"])
    removal = patch_removal(case().model, case().inputs, (4, 4), "removed")
    logits = torch.cat([removal.logits(mask[None]) for mask in masks])  # of one length at a time
    values = probability_of(trace(), 0).repeat(len(masks)).value(logits)
    assert apart(values, f"tis|{name}|scores") < IN_FLOAT32
    assert apart(mean_of_masks(case().published[f"tis|{name}|scores"], masks).view(4, 4), f"tis|{name}|map") < TOLERANCE


def test_vit_cx() -> None:
    features = PatchFeatures(trace(), 0).attention_input(2)[0, 1:].T.unflatten(1, (4, 4))
    masks = cluster_masks(features, (48, 48), 0.3)
    theirs = case().published["vitcx|threshold0.3|masks"]
    order = [int(((masks - mask).abs().amax((1, 2))).argmin()) for mask in theirs]  # clusters have no order
    assert sorted(order) == list(range(len(theirs)))
    assert apart(masks[order], "vitcx|threshold0.3|masks") < TOLERANCE
    x, noise = case().inputs["pixel_values"], 0.1 * case().published["vitcx|threshold0.3|noise_over_0.1"] * (1 - theirs)[:, None]

    def probability(pixels: Tensor) -> Tensor:
        with torch.no_grad():
            logits = case().model.forward({"pixel_values": pixels})
        return probability_of(trace(), 0).repeat(len(pixels)).value(logits)

    ours = causal_map(probability(x * theirs[:, None] + noise), probability(x + noise), probability(x), theirs)
    assert apart(ours, "vitcx|threshold0.3|map") < TOLERANCE

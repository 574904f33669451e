"""Register neurons, and the model without outlier tokens, against the published code."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.encoders import encoder
from explainers.models.registers.finding import find_register_neurons, neuron_scores, strongest_neurons
from explainers.models.registers.mlps import last_linear_maps, norms_and_activations
from explainers.models.registers.moving import Moving, with_registers
from tests.explainers.support.golden import Case, arrays_of

TOLERANCE, NORMS = 1e-9, 1e-8
TAGS = sorted(name.split("|")[1] for name in arrays_of("test-time-registers") if name.startswith("embedding|"))


@cache
def case() -> Case:
    return Case("test-time-registers")


@cache
def pictures() -> list[dict[str, Tensor]]:
    return [{"pixel_values": picture[None]} for picture in case().inputs["pixel_values"]]


@cache
def found() -> RegisterNeurons:
    about = case().about
    return find_register_neurons(
        case().model,
        pictures(),
        block=about["detect_outliers_layer"],
        threshold=about["register_norm_threshold"],
        highest_block=about["highest_layer"],
        count=about["top_k"],
    )


def check(ours: Tensor, array: str, tolerance: float = TOLERANCE) -> None:
    assert float((ours.detach() - case().published[array]).abs().max()) < tolerance


@pytest.mark.parametrize("filtered", ["plain", "sparse"])
def test_scores_of_neurons(filtered: str) -> None:
    images = encoder(case().model, "image")
    layers = last_linear_maps(images, pictures()[0])
    check(norms_and_activations(images, layers, {"pixel_values": case().inputs["pixel_values"]})[0], "norms", NORMS)
    threshold = case().about["register_norm_threshold"]
    scores, counted = neuron_scores(images, layers, pictures(), 5, threshold, sparse=filtered == "sparse")
    check(torch.stack(scores), f"scores|{filtered}")
    assert counted == int(case().published["counted_images"])
    assert strongest_neurons(scores, 40) == [tuple(place) for place in case().published[f"ranking|{filtered}"].int().tolist()]


def test_the_neurons() -> None:
    assert [list(place) for place in found().neurons] == case().published["register_neurons"].int().tolist()


@pytest.mark.parametrize("tag", TAGS)
def test_the_model_with_outliers_moved(tag: str) -> None:
    model, added = case().model, 2 if "registers2" in tag else 0 if tag == "original" else 1
    if added:
        ways = ("zero", "mean", "only_outliers", "same")
        how = Moving(
            largest="block" if tag.startswith("layer_max") else "neuron",
            patches=next((way for way in ways if f"max_{way}_registers" in tag), "zero"),  # type: ignore[arg-type]
            added=added,
            scale=2.0 if tag.endswith("scale2") else 1.0,
        )
        model = with_registers(model, () if tag.startswith("zero_token_only") else found().neurons, how)
    recording = Recording(encoder(model, "image"), pictures()[0])
    tokens = recording.block_inputs[0].shape[1]
    order = [0, *range(1 + added, tokens), *range(1, 1 + added)]  # ours stand behind the class token
    check(recording.logits, f"embedding|{tag}")
    check(recording.block_outputs[-1][0, order], f"last_block_output|{tag}")
    check(torch.stack([x[0].norm(dim=-1)[order] for x in recording.block_outputs]), f"norms|{tag}", NORMS)
    rows = [weights[0, :, 0][:, order] for weights in recording.attentions if weights is not None]
    check(torch.stack(rows), f"class_attention|{tag}")

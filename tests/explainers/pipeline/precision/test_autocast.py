"""A caller's torch.autocast around an explanation: maps say that it was on, float64 is not rounded by it, and nothing of it stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explainers
from explainers.models.autocast import autocast_dtype, without_autocast
from explainers.records.result import Attribution
from tests.explainers.support.wrapped import inputs
from tests.families import FAMILIES

CPU = torch.device("cpu")
SPECS = ["input_x_gradient:libra", "transformer_attribution", "lrp"]


def model(answers_in_float32: bool = False) -> explainers.Model:
    """A small ViT; with ``answers_in_float32`` it converts its answer back, as those of transformers do."""
    module = FAMILIES["vit"].build().float()
    if answers_in_float32:
        module.register_forward_hook(lambda part, given, answer: answer.float())
    return explainers.wrap(module, device="cpu")


def maps_of(model: explainers.Model, specs: list[str], **how: Any) -> dict[str, Attribution]:
    explanation = explainers.explain(model, inputs("vit", 1, torch.float32), 1, specs, **how)
    return {each.method: each for each in explanation.maps}


@pytest.mark.parametrize("answers_in_float32", [False, True])
def test_a_map_says_that_autocast_was_on_around_the_call(answers_in_float32: bool) -> None:
    own = model(answers_in_float32)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = maps_of(own, SPECS[:1])[SPECS[0]]
    assert rounded.precision == explainers.MapPrecision("bfloat16", "torch.autocast was on around the call.")
    assert any("Computed in bfloat16, the type of torch.autocast around the call" in note for note in rounded.notes)
    exact = maps_of(own, SPECS[:1])[SPECS[0]]
    assert exact.precision == explainers.MapPrecision("float32", "The model's weights are float32, and TF32 was off.")
    assert not any("Computed in" in note for note in exact.notes)


@pytest.mark.parametrize("precision", ["auto", "double"])
def test_what_is_computed_in_float64_is_not_rounded_by_autocast(precision: Any) -> None:
    own = model()
    expected = maps_of(model(), SPECS[1:], precision="double")
    with torch.autocast("cpu", torch.bfloat16):
        found = maps_of(own, SPECS[1:], precision=precision)
        assert autocast_dtype(CPU) == torch.bfloat16  # the caller's own setting, as before
    for spec in SPECS[1:]:
        assert found[spec].precision is not None
        assert found[spec].precision.dtype == "float64"
        torch.testing.assert_close(
            found[spec].scores, expected[spec].scores, rtol=1e-6, atol=1e-7 * float(expected[spec].scores.abs().max())
        )


def test_what_is_found_out_under_autocast_is_not_taken_for_the_model_afterwards() -> None:
    own, expected = model(), maps_of(model(), SPECS)
    with torch.autocast("cpu", torch.bfloat16):
        maps_of(own, SPECS)
    found = maps_of(own, SPECS)
    for spec in SPECS:
        assert torch.equal(found[spec].scores, expected[spec].scores)
        assert found[spec].precision == expected[spec].precision


def test_autocast_is_off_on_the_device_and_the_cpu_and_comes_back() -> None:
    assert autocast_dtype(CPU) is None
    with torch.autocast("cpu", torch.bfloat16), torch.autocast("xpu", torch.float16):
        with without_autocast(torch.device("xpu")):
            assert autocast_dtype(CPU) is autocast_dtype(torch.device("xpu")) is None
        assert (autocast_dtype(CPU), autocast_dtype(torch.device("xpu"))) == (torch.bfloat16, torch.float16)

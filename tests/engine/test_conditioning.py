"""Rules that carry relevance amplify rounding: our maps of them do not suffer from it, and say where others' would."""

from __future__ import annotations

import copy
import re

import pytest
import torch

import explainers
from explainers.precision import ILL_CONDITIONED
from explainers.recording import Recording
from tests.conditioning import SPECS, difference, random_image, random_vit, scores
from tests.engine.models import inputs, wrapped
from tests.families import FAMILIES

SHAPES = [(32, 16, 2), (32, 48, 4), (48, 32, 6), (64, 24, 3)]  # image size, width, depth


@pytest.mark.parametrize("part", range(4))
def test_100_random_vits_give_the_float64_maps(part: int) -> None:
    size, width, depth = SHAPES[part]
    for seed in range(25):
        module, image = random_vit(seed, size, width, depth), random_image(seed, size)
        explanation = explainers.explain(explainers.wrap(module), {"pixel_values": image}, target=0, methods=SPECS)
        exact = explainers.wrap(copy.deepcopy(module).double())
        for spec in SPECS:
            want = scores(exact, {"pixel_values": image.double()}, spec)
            assert difference(explanation[spec].scores[None], want) < 1e-5


@pytest.mark.parametrize("name", ["scenes-vit", "clip", "reviews-bert"])
def test_embedded_models_give_the_float64_maps(name: str) -> None:
    model, exact = explainers.load(name), explainers.load(name)
    exact.module.double()
    if model.kind == "text":
        tensors = model.tensors("A dull script, and yet I laughed: what a wonderful, warm film!")
        target = "positive"
    else:
        tensors = {"pixel_values": random_image(0, model.details["input"][0]).clamp(-1, 1)}
        target = "a zebra" if model.kind == "clip" else "zebra"
    doubled = {k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}
    specs = [s for s in SPECS if not any(v.spec == s and v.reason for v in explainers.variants(model))]
    assert "lrp" in specs
    got = explainers.explain(model, tensors, target=target, methods=specs)
    want = explainers.explain(exact, doubled, target=target, methods=specs)
    for spec in specs:
        assert difference(got[spec].scores, want[spec].scores) < 1e-4


def test_the_warning_says_what_was_measured() -> None:
    seen = {True: 0, False: 0}
    for seed in range(12):
        module, image = random_vit(seed, 48, 32, 6), random_image(seed, 48)
        model = explainers.wrap(module)
        found = explainers.explain(model, {"pixel_values": image}, target=0, methods=["lrp", "rollout"])
        rough = scores(model, {"pixel_values": image}, "lrp")
        change = difference(rough, found["lrp"].scores[None])
        notes = [note for note in found["lrp"].notes if note.startswith("Close to a division by zero: rounding to float32 alone")]
        assert bool(notes) == (change > ILL_CONDITIONED)
        if notes:
            told = re.search(r"up to (\d+)% of the largest", notes[0])
            assert told is not None
            assert int(told[1]) == pytest.approx(100 * change, abs=0.6)
        seen[bool(notes)] += 1
        assert found["rollout"].notes == ()
    assert all(seen.values())


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_recording_in_float64_is_that_of_the_model_in_float64(family: str) -> None:
    """Nothing of the model is changed for it, whatever data types its code names."""
    row = FAMILIES[family]
    module = row.build(seed=0)
    before = {name: (value.data_ptr(), value.dtype) for name, value in module.state_dict().items()}
    tensors = inputs(family, dtype=torch.float32)
    ours = Recording(explainers.wrap(module), tensors, double=True)
    assert {name: (value.data_ptr(), value.dtype) for name, value in module.state_dict().items()} == before
    assert ours.logits.dtype == ours.block_inputs[0].dtype == ours.block_outputs[-1].dtype == torch.float64
    theirs = Recording(wrapped(family), inputs(family))
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=1e-6, atol=1e-7)


def test_relevance_of_a_bfloat16_model_is_computed_in_float64() -> None:
    module, image = random_vit(0, 32, 16, 2), random_image(0, 32)
    low = copy.deepcopy(module).bfloat16()
    found = explainers.explain(explainers.wrap(low), {"pixel_values": image.bfloat16()}, target=0, methods=["lrp"])
    exact = explainers.wrap(copy.deepcopy(low).double())
    want = scores(exact, {"pixel_values": image.bfloat16().double()}, "lrp")
    assert difference(found["lrp"].scores[None], want) < 1e-5
    assert "rounding to bfloat16" in found["lrp"].notes[-1]

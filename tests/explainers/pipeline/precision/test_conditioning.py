"""Rules that carry relevance amplify rounding: what is computed in which precision, and what is said of it."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import pytest
import torch

import explainers
import explainers.pipeline.precision
from explainers import ExplainerError
from explainers.autograd.accumulated_rounding import Comparison, accumulated_rounding_of
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.methods import parse
from explainers.pipeline.precision import FLOAT64_THRESHOLD, ILL_CONDITIONED, NOISY_SCORES_THRESHOLD, estimate_rounding
from explainers.records.session import Session
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.support.embedded_models import loaded
from tools.conditioning import (
    DATA,
    SHAPES,
    SPECS,
    Shape,
    check,
    difference,
    random_case,
    random_image,
    random_vit,
    read_off,
    scores,
    tally_cases,
)

SEEDS = range(1, 5)  # of random ViTs: python -m tools.conditioning holds 100 of them to the same


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_maps_of_random_vits_are_those_of_float64_or_computed_in_it(shape: Shape) -> None:
    found = tally_cases(random_case(seed, shape) for seed in SEEDS)
    assert set(found) == set(SPECS)
    check(found)
    assert len(found["transformer_attribution"].kept) > len(found["lrp"].kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scenes-vit", "clip", "reviews-bert"])
def test_maps_of_the_embedded_models_are_those_of_float64_or_computed_in_it(name: str) -> None:
    model = loaded(name)
    if model.kind == "text":
        case: Any = (model, "A dull script, and yet I laughed: what a wonderful, warm film!", "positive")
    else:
        tensors = {"pixel_values": random_image(0, model.details["input"][0]).clamp(-1, 1)}
        case = (model, tensors, "a zebra" if model.kind == "clip" else "zebra")
    found = tally_cases([case])
    assert "lrp" in found
    check(found)


@pytest.mark.slow
def test_patches_of_the_astronaut_are_those_of_float64() -> None:
    """photos-vit: in float32 they are off by half of the largest, which is small beside the classification token's score."""
    model, picture = loaded("photos-vit"), DATA / "photos" / "astronaut.jpg"
    ours, exact = (explainers.explain(model, picture, methods=["transformer_attribution"], precision=how) for how in ("auto", "double"))
    ours, exact = (found["transformer_attribution"] for found in (ours, exact))
    assert difference(ours.scores[ours.content], exact.scores[exact.content]) < ILL_CONDITIONED


@pytest.mark.slow
def test_a_heavy_model_keeps_float32_and_says_what_its_patches_may_be_off_by(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = {}
    for light in (True, False):
        monkeypatch.setattr(explainers.pipeline.precision, "LIGHT_MODEL_PRODUCTS", math.inf if light else 0)
        found = [explainers.explain(*random_case(seed, SHAPES[2]), ["transformer_attribution"]) for seed in range(4)]
        maps = [explanation["transformer_attribution"] for explanation in found]
        ending = "of the largest of theirs. precision=double computes it in float64. "
        noted[light] = {i for i, each in enumerate(maps) if any("its patches by" in n and ending in n for n in each.notes)}
        for each in maps:
            assert each.precision is not None
            assert each.precision.rounding is not None
            if not light:
                assert (each.precision.dtype == "float64") == (each.precision.rounding > FLOAT64_THRESHOLD)
    assert noted[True] == set()
    assert noted[False]


def test_rounding_is_measured_where_relevance_is_split() -> None:
    """At every sum and product, deeper ones having gathered more; on another input about as much."""
    model, image = explainers.wrap(random_vit(1, 32, 48, 4)), random_image(1, 32)
    measured = accumulated_rounding_of(model).units
    assert measured is accumulated_rounding_of(model).units
    exact = Comparison(model, {"pixel_values": image}, double=True)
    theirs = Comparison(model, {"pixel_values": image}, exact.noted).differences
    assert measured.keys() == theirs.keys()
    assert len([place for place in measured if place > 0]) == 4 * 4  # each block: two products and two sums
    assert all(0.2 < measured[place] / theirs[place] < 5 for place in measured if place > 0)
    last_of_blocks = sorted(measured)[-13::4]  # what each block gives on
    assert measured[last_of_blocks[-1]] > measured[last_of_blocks[0]]


def test_a_gradient_beside_relevance_in_float64_stays_in_the_precision_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its digits there, and costs a pass less; where all is to be in float64, so is the gradient."""
    model, inputs, target = random_case(0, SHAPES[1])
    monkeypatch.setattr(explainers.pipeline.precision, "ESTIMATE_FACTOR", 1e9)
    backward, asked = Recording.backward, set()

    def noted(self: Recording, rule: Rule, *args: Any) -> Any:
        asked.add(("float64" if self.double else "float32", rule.name))
        return backward(self, rule, *args)

    monkeypatch.setattr(Recording, "backward", noted)
    ours = explainers.explain(model, inputs, target, ["transformer_attribution"])["transformer_attribution"]
    assert ours.precision.dtype == "float64"
    assert asked == {("float32", "deep_taylor"), ("float32", "gradient"), ("float64", "deep_taylor")}
    asked.clear()
    exact = explainers.explain(model, inputs, target, ["transformer_attribution"], precision="double")["transformer_attribution"]
    assert asked == {("float64", "deep_taylor"), ("float64", "gradient")}
    assert 0 < difference(ours.scores[ours.content], exact.scores[exact.content]) < 1e-5


class GeluOfRest(torch.nn.Module):
    """GELU of what is left when a number is taken away."""

    def __init__(self, taken_away: float) -> None:
        super().__init__()
        self.taken_away = taken_away

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x - self.taken_away)


def test_a_model_whose_own_activations_lose_digits_is_computed_in_float64() -> None:
    """What is added and taken away again leaves its rounding in what the next layer reads."""
    vit, image = random_vit(1, 32, 48, 4), random_image(1, 32)
    assert accumulated_rounding_of(explainers.wrap(copy.deepcopy(vit))).input_error < FLOAT64_THRESHOLD
    with torch.no_grad():
        vit.blocks[1].mlp.fc1.bias.add_(3e4)
        vit.blocks[1].mlp.act = GeluOfRest(3e4)
    rough = explainers.wrap(vit)
    assert accumulated_rounding_of(rough).input_error > FLOAT64_THRESHOLD
    attribution = explainers.explain(rough, {"pixel_values": image}, 0, "partial_lrp")["partial_lrp"]
    assert attribution.precision.dtype == "float64"
    assert "of this model's own activations" in attribution.precision.why


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_estimate_bounds_what_rounding_does(shape: Shape) -> None:
    """Of first order: where it is small, and but for a factor of 4. It is no idle bound: of Transformer Attribution the median is within a
    factor of 1000.
    """
    size, width, depth = shape
    slack: dict[str, list[float]] = {spec: [] for spec in SPECS}
    for seed in range(100, 107):
        module, image = random_vit(seed, size, width, depth), random_image(seed, size)
        session = Session(explainers.wrap(module), {"pixel_values": image}, 0, pixels=True)
        exact = Recording(explainers.wrap(copy.deepcopy(module).double()), {"pixel_values": image.double()}, pixels=True)
        for spec in SPECS:
            request = parse(spec)
            estimate = estimate_rounding(session, session.trace(session.chosen[0], request.rule), request.read)
            ours, share, theirs = estimate.output.scores, float(estimate.share_of_all), read_off(exact, spec)
            error = difference(ours, theirs)
            if share < ILL_CONDITIONED:
                assert error <= 4 * share, (spec, seed, error, share)
                slack[spec].append(share / error)
            if float(estimate.share_of_content) < ILL_CONDITIONED:
                assert difference(ours[:, 1:], theirs[:, 1:]) <= 4 * float(estimate.share_of_content), (spec, seed)
    assert sorted(slack["transformer_attribution"])[len(slack["transformer_attribution"]) // 2] < 1000


def test_lrp_to_the_input_goes_to_float64_by_itself_and_transformer_attribution_does_not() -> None:
    model, image = explainers.wrap(random_vit(101, 48, 32, 6)), {"pixel_values": random_image(101, 48)}
    found = explainers.explain(model, image, target=0, methods=["transformer_attribution", "lrp", "rollout"])
    for spec, dtype in (("transformer_attribution", "float32"), ("lrp", "float64")):
        precision = found[spec].precision
        assert precision is not None
        assert precision.dtype == dtype
        assert precision.rounding is not None
        assert (precision.rounding > FLOAT64_THRESHOLD) == (dtype == "float64")
        assert f"{100 * precision.rounding:.1g} %" in precision.why or "100 %" in precision.why
        assert found[spec].to_json()["precision"] == {"dtype": dtype, "why": precision.why, "rounding": precision.rounding}
    said = explainers.MapPrecision("float32", "The model's weights are float32, and TF32 was off.")
    assert found["rollout"].precision == said


def test_float64_is_recorded_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    init = Recording.__init__

    def counted(self: Recording, *given: Any, **how: Any) -> None:
        if type(self) is Recording:  # not what measures how much rounding the model gathers
            made.append(bool(how.get("double")))
        init(self, *given, **how)

    monkeypatch.setattr(Recording, "__init__", counted)
    model, image = explainers.wrap(random_vit(101, 48, 32, 6)), {"pixel_values": random_image(101, 48)}
    explainers.explain(model, image, target=0, methods=["rollout"])  # how attention is read is found once a model, in a pass of its own
    made.clear()
    explainers.explain(model, image, target=0, methods=["transformer_attribution", "fullgrad_plus:libra", "partial_lrp"])
    assert made == [False]
    made.clear()
    explainers.explain(model, image, target=[0, 1], methods=["lrp", "transformer_attribution", "lrp:deep_taylor"])
    assert made == [False, True]


def test_double_is_asked_for() -> None:
    module, image = random_vit(101, 48, 32, 6), random_image(101, 48)
    model = explainers.wrap(module)
    found = explainers.explain(model, {"pixel_values": image}, target=0, methods=["transformer_attribution"], precision="double")
    precision = found["transformer_attribution"].precision
    assert precision == explainers.MapPrecision("float64", "precision=double was asked for.")
    exact = explainers.wrap(copy.deepcopy(module).double())
    want = scores(exact, {"pixel_values": image.double()}, "transformer_attribution")
    assert difference(found["transformer_attribution"].scores[None], want) < 1e-6
    with pytest.raises(ExplainerError, match="precision='quad': choose one of auto, double"):
        explainers.explain(model, {"pixel_values": image}, precision="quad")  # type: ignore[arg-type]


def test_a_sample_is_explained_as_it_is_alone() -> None:
    """One that needs float64 does not move the other, which does not."""
    model = explainers.wrap(random_vit(100, 32, 16, 2))
    images = torch.cat([random_image(seed, 32) for seed in (0, 1, 3, 4, 5, 7)])  # whose estimates are far from the bar
    together = explainers.explain(model, {"pixel_values": images}, target=0, methods=["lrp:deep_taylor"])
    seen = set()
    for i, one in enumerate(together):
        alone = explainers.explain(model, {"pixel_values": images[i : i + 1]}, target=0, methods=["lrp:deep_taylor"])
        ours, own = one["lrp:deep_taylor"], alone["lrp:deep_taylor"]
        assert ours.precision is not None
        assert own.precision is not None
        assert ours.precision.dtype == own.precision.dtype
        seen.add(own.precision.dtype)
        assert difference(ours.scores, own.scores) < (FLOAT64_THRESHOLD if own.precision.dtype == "float32" else 1e-5)
    assert seen == {"float32", "float64"}


def test_a_device_without_float64_gives_float32_and_says_what_it_may_be_off_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainers.pipeline.precision, "has_double", lambda device: False)
    model, image = explainers.wrap(random_vit(101, 48, 32, 6)), {"pixel_values": random_image(101, 48)}
    found = explainers.explain(model, image, target=0, methods=["lrp", "transformer_attribution"])
    for one in found.maps:
        assert one.precision is not None
        assert one.precision.dtype == "float32"
    assert torch.equal(found["lrp"].scores, scores(model, image, "lrp")[0])
    assert re.search(r"Rounding may change it by .* of its largest score, and this device has no float64", found["lrp"].notes[-1])
    assert found["transformer_attribution"].notes == ()
    with pytest.raises(ExplainerError, match="precision=double asks for float64, which cpu does not have"):
        explainers.explain(model, image, target=0, methods=["lrp"], precision="double")


@pytest.mark.slow
def test_the_warning_says_what_was_measured() -> None:
    seen = {True: 0, False: 0}
    for seed in range(1, 6):
        module, image = random_vit(seed, 48, 32, 6), random_image(seed, 48)
        model = explainers.wrap(module)
        found = explainers.explain(model, {"pixel_values": image}, target=0, methods=["lrp", "rollout"])
        rough = scores(model, {"pixel_values": image}, "lrp")
        change = difference(rough, found["lrp"].scores[None])
        notes = [note for note in found["lrp"].notes if note.startswith("Close to a division by zero: rounding to float32 alone")]
        assert bool(notes) == (change > ILL_CONDITIONED)
        assert found["lrp"].is_doubtful == (change >= NOISY_SCORES_THRESHOLD)
        if notes:
            told = re.search(r"up to (\d+)% of the largest", notes[0])
            assert told is not None
            assert int(told[1]) == pytest.approx(100 * change, abs=0.6)
            distrusted = notes[0].endswith("Do not trust its order: rounding may move scores by 10 % of the largest or more.")
            trusted = notes[0].endswith("Its order can be trusted: rounding moves scores by less than 10 % of the largest.")
            assert (distrusted, trusted) == (change >= 0.1, change < 0.1)
        seen[bool(notes)] += 1
        assert found["rollout"].notes == ()
    assert all(seen.values())


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_recording_in_float64_is_that_of_the_model_in_float64(family: str) -> None:
    """Nothing of the model is changed for it, whatever data types its code names."""
    module = wrapped(family, torch.float32).module
    before = {name: (value.data_ptr(), value.dtype) for name, value in module.state_dict().items()}
    tensors = inputs(family, dtype=torch.float32)
    ours = Recording(wrapped(family, torch.float32), tensors, double=True)
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
    assert found["lrp"].precision == explainers.MapPrecision("float64", "bfloat16 has too few digits for relevance.")
    assert not any("type of the weights" in note for note in found["lrp"].notes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_map_of_short_weights_says_so(dtype: torch.dtype) -> None:
    module = random_vit(0, 32, 16, 2).to(dtype)
    found = explainers.explain(explainers.wrap(module), {"pixel_values": random_image(0, 32).to(dtype)}, 0, ["input_x_gradient", "rollout"])
    for each in found.maps:
        assert any("the type of the weights, which has" in note for note in each.notes) == (dtype != torch.float32)
        name = str(dtype).removeprefix("torch.")
        tf32 = ", and TF32 was off" if dtype == torch.float32 else ""
        assert each.precision == explainers.MapPrecision(name, f"The model's weights are {name}{tf32}.")


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_relevance_is_the_same_whether_it_carries_its_error_or_not(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every family: the estimate goes along every path that the relevance goes, and changes nothing."""
    from explainers.autograd import recording as module
    from explainers.autograd.rules import RULES

    made = Recording(wrapped(family, torch.float32), inputs(family, dtype=torch.float32))
    seed = torch.zeros_like(made.logits)
    seed[:, 0] = 1
    for rule in ("deep_taylor", "lrp"):
        carried = made.cached_backward(RULES[rule], seed)
        made.forget_signals()
        with monkeypatch.context() as patch:
            patch.setattr(module, "exact", lambda signal: signal)
            plain = made.cached_backward(RULES[rule], seed)
        made.forget_signals()
        assert carried.errors is not None
        for ours, theirs, error in zip(carried.block_inputs, plain.block_inputs, carried.errors.block_inputs, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-3 * float(theirs.abs().max()))
            assert bool((error >= 0).all())
            assert bool((error[theirs != 0] > 0).all())
        torch.testing.assert_close(carried.bias, plain.bias, rtol=1e-3, atol=1e-6)

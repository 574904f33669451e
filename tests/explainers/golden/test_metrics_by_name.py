"""Metrics that people know by name, against what published code gives: Quantus, Captum, the authors of SaCo and of normalised AOPC."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from explainers.evaluation.curve_logits import CurveLogits, keep_of
from explainers.evaluation.graded_answers import GradedAnswers
from explainers.evaluation.token_sets import TokenSetAnswers, aopc_limits, rank_groups
from explainers.metrics import METRICS, RemovalCurve
from explainers.models.removal.imputation import impute_pixels
from tests.explainers.support.golden import Case
from tests.explainers.support.golden_arrays import arrays

CLOSE = {"rtol": 0, "atol": 1e-9}
ADDED_BY_QUANTUS = 1e-7  # to every magnitude


@pytest.fixture(scope="module")
def quantus() -> tuple[dict[str, Any], dict[str, Any]]:
    return arrays("metrics-quantus", "inputs"), arrays("metrics-quantus", "outputs")


@pytest.mark.parametrize("of", ["maps", "pixel_maps"])
def test_sparseness_and_complexity_of_quantus(of: str, quantus: tuple[dict[str, Any], dict[str, Any]]) -> None:
    inputs, theirs = quantus
    scores = torch.from_numpy(inputs[of]).flatten(1)
    sizes = scores.abs()
    for kind, scale in (("", sizes.max()), ("|one_by_one", sizes.amax(1, keepdim=True)), ("|without_normalise", 1.0)):
        found = METRICS["sparseness"](scores=sizes / scale + ADDED_BY_QUANTUS)
        np.testing.assert_allclose(found, theirs[f"sparseness{kind}|{of}"], **CLOSE)
    exact = METRICS["sparseness"](scores=scores)
    np.testing.assert_allclose(exact, theirs[f"sparseness|without_normalise|{of}"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(METRICS["complexity"](scores=scores), theirs[f"complexity|{of}"], **CLOSE)


@pytest.mark.parametrize("base", ["baseline0", "black"])
def test_faithfulness_correlation_of_quantus(base: str, quantus: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Sets of the values of all channels, as Quantus draws them."""
    inputs, theirs = quantus
    scores = torch.from_numpy(inputs["pixel_maps"])[:, None].expand(-1, 3, -1, -1).flatten(1)
    drawn = torch.from_numpy(inputs[f"subsets|{base}"]).long()
    sets = torch.zeros(*drawn.shape[:2], scores.shape[1], dtype=torch.bool).scatter_(2, drawn, True)
    falls = torch.from_numpy(theirs[f"faithfulness_correlation|{base}|drops"])
    found = METRICS["faithfulness_correlation"](scores=scores, sets=sets, falls=falls)
    np.testing.assert_allclose(found, theirs[f"faithfulness_correlation|{base}"], **CLOSE)


def test_imputed_pictures_of_road(quantus: tuple[dict[str, Any], dict[str, Any]]) -> None:
    inputs, theirs = quantus
    for step, share in enumerate((0.1, 0.5, 0.9)):
        for picture in range(2):
            scores = torch.from_numpy(inputs["pixel_maps"][picture]).flatten()[None]
            keep = keep_of(RemovalCurve(fractions=(share,)), scores)[0, 0].view(24, 24)
            found = impute_pixels(torch.from_numpy(inputs["pixel_values"][picture]).double(), keep)
            np.testing.assert_allclose(found, theirs["road_rgb|imputed"][step, picture], rtol=0, atol=1e-6)  # stored in float32


def test_accuracy_of_road(quantus: tuple[dict[str, Any], dict[str, Any]]) -> None:
    inputs, theirs = quantus
    imputed = torch.from_numpy(theirs["road_rgb|logits"]).transpose(0, 1).softmax(-1)
    answer = F.one_hot(torch.from_numpy(inputs["classes"]), imputed.shape[-1]).bool()
    assert float(METRICS["road"](imputed=imputed, answer=answer).mean()) == pytest.approx(float(theirs["road_rgb|accuracy"].mean()))


@pytest.fixture(scope="module")
def infidelity() -> Case:
    return Case("metrics-infidelity")


def removed_patches(case: Case, tag: str) -> Tensor:
    """The removed patches of each perturbation, bool (pictures, 12, 16)."""
    if tag == "one_patch":
        return F.one_hot(case.inputs["one_patch"].long(), 16).bool()
    return case.inputs["half_patches"].bool().flatten(2)


@pytest.mark.parametrize("tag", ["one_patch", "half_patches"])
@pytest.mark.parametrize("number", [0, 1])
def test_infidelity_of_captum(tag: str, number: int, infidelity: Case) -> None:
    """The sum of map times picture over a patch is the score of the patch."""
    theirs, sets = infidelity.published, removed_patches(infidelity, tag)
    name = ("random", "gradient")[number]
    products = (infidelity.inputs["maps"][number] * infidelity.inputs["pixel_values"]).sum(1)
    scores = F.avg_pool2d(products[:, None], 6, divisor_override=1).flatten(1)
    arguments = {"scores": scores, "sets": sets, "falls": theirs[f"{tag}|drops"]}
    for metric, array in (("infidelity", "infidelity"), ("infidelity_scaled", "infidelity_normalized")):
        torch.testing.assert_close(METRICS[metric](**arguments), theirs[f"{tag}|{name}|{array}"], **CLOSE)


@pytest.mark.parametrize("tag", ["one_patch", "half_patches"])
def test_falls_without_sets_of_patches_are_those_of_captum(tag: str, infidelity: Case) -> None:
    """Normalised pixels of 0 are the mean colour."""
    sets = removed_patches(infidelity, tag)
    for picture, pixels in enumerate(infidelity.inputs["pixel_values"]):
        asked = CurveLogits(infidelity.model, {"pixel_values": pixels[None]}, (4, 4), torch.arange(17) > 0, "painted")
        logits = asked.without(sets[picture])[:, infidelity.target]
        torch.testing.assert_close((logits[0] - logits[1:]).double(), infidelity.published[f"{tag}|drops"][picture], rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", [10, 4])
def test_saco_of_its_authors(count: int) -> None:
    inputs, theirs = arrays("metrics-saco", "inputs"), arrays("metrics-saco", "outputs")
    maps = torch.from_numpy(inputs["maps"]).flatten(0, 1)
    scores = F.interpolate(maps[:, None], scale_factor=16, mode="bilinear", align_corners=False).flatten(1)
    bits = np.unpackbits(inputs[f"groups|K{count}"], axis=-1).reshape(len(scores), count, -1)
    groups, falls = torch.from_numpy(bits).bool(), torch.from_numpy(theirs[f"drop|K{count}"]).flatten(0, 1)
    found = METRICS["saco"](scores=scores, groups=groups, falls=falls)
    np.testing.assert_allclose(found, theirs[f"saco|K{count}"].flatten(), **CLOSE)


def test_groups_of_saco_are_a_partition_by_falling_score() -> None:
    scores = torch.tensor([[0.1, 0.5, 0.5, -1.0, 2.0, 0.3, 0.2]])
    groups = rank_groups(scores.repeat(1, 3))[0]
    assert groups.sum(0).eq(1).all()
    assert groups.sum(1).tolist() == [21 * (k + 1) // 10 - 21 * k // 10 for k in range(10)]
    least = [float(scores.repeat(1, 3)[0][group].min()) for group in groups]
    largest = [float(scores.repeat(1, 3)[0][group].max()) for group in groups]
    assert all(low >= high for low, high in zip(least, largest[1:], strict=False))
    assert rank_groups(scores)[0].nonzero()[:, 1].tolist() == [4, 1, 2, 5, 6, 0, 3]  # a group for each of fewer tokens than ten


@pytest.fixture(scope="module")
def bert() -> Case:
    return Case("metrics-ali")


def answers_without_words(bert: Case, number: int) -> TokenSetAnswers:
    inputs = arrays("metrics-naopc", "inputs")
    tokens = torch.from_numpy(inputs[f"text{number}|input_ids"])[None].long()
    model = replace(bert.model, details={**bert.model.details, "unknown_token_id": 1})
    content = torch.ones(tokens.shape[1], dtype=torch.bool)
    content[[0, -1]] = False
    logits = CurveLogits(model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, None, content, "unknown")
    scores = torch.from_numpy(inputs[f"text{number}|scores"])[None]
    return TokenSetAnswers(GradedAnswers(logits, scores, (0,), lambda values: values.double().softmax(-1), False, 0))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_normalised_aopc_of_its_authors(number: int, bert: Case) -> None:
    theirs, answers = arrays("metrics-naopc", "outputs"), answers_without_words(bert, number)
    falls, limits = answers.of("falls_one_by_one"), answers.of("aopc_limits")
    assert falls is not None
    assert limits is not None
    area = float(theirs[f"text{number}|aopc"])
    assert float(falls.mean()) == pytest.approx(area, abs=1e-6)
    low, high = theirs[f"text{number}|width50|limits"]
    np.testing.assert_allclose(limits[0], (low, high), rtol=0, atol=1e-6)
    found = METRICS["naopc"](falls=falls, limits=limits)
    assert float(found) == pytest.approx((area - low) / (high - low), abs=2e-5)  # answers are float32, the limits 0.02 apart


def test_limits_of_few_words_are_those_of_all_orders() -> None:
    values = torch.randn(64, generator=torch.Generator().manual_seed(0)).double()

    def falls(sets: Tensor) -> Tensor:
        return values[(sets * 2 ** torch.arange(sets.shape[1])).sum(1)]

    areas = [
        np.mean([float(values[sum(2**token for token in order[: step + 1])]) for step in range(6)]) for order in permutations(range(6))
    ]
    np.testing.assert_allclose(aopc_limits(falls, 6), (min(areas), max(areas)), **CLOSE)
    assert aopc_limits(falls, 6, width=1)[1] < max(areas) - 0.01  # a greedy search misses it

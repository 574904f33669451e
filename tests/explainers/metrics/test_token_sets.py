"""Metrics of sets of tokens and of concentration: by hand, or by numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from explainers.evaluation.curve_logits import CurveLogits
from explainers.evaluation.graded_answers import GradedAnswers
from explainers.evaluation.token_sets import TokenSetAnswers, draw_sets, set_sizes
from explainers.metrics import METRICS
from explainers.models.removal.patches import patch_removal
from tests.explainers.support.wrapped import inputs, wrapped

PATCHES = 12


def test_sensitivity_n_is_the_mean_of_correlations_over_sizes() -> None:
    draw = np.random.default_rng(0)
    scores, falls = draw.standard_normal((2, 9)), draw.standard_normal((2, 40))
    sizes = np.repeat([1, 2, 4, 7], 10)
    sets = np.stack([[np.isin(np.arange(9), draw.permutation(9)[:size]) for size in sizes] for _ in range(2)])
    sums = (sets * scores[:, None]).sum(2)
    expected = [np.mean([np.corrcoef(sums[i, sizes == size], falls[i, sizes == size])[0, 1] for size in (1, 2, 4, 7)]) for i in range(2)]
    found = METRICS["sensitivity_n"](scores=torch.from_numpy(scores), sets=torch.from_numpy(sets), falls=torch.from_numpy(falls))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_map_whose_scores_add_up_is_right_by_every_measure_of_sets() -> None:
    scores = torch.randn(2, 8, generator=torch.Generator().manual_seed(0)).double()
    sets = draw_sets(8, [size for size in (1, 3, 5) for _ in range(12)], seed=1).expand(2, -1, -1)
    given = {"scores": scores, "sets": sets, "falls": (sets * scores[:, None]).sum(2)}
    for name, best in (("faithfulness_correlation", 1), ("sensitivity_n", 1), ("infidelity", 0), ("infidelity_scaled", 0)):
        assert METRICS[name](**given).tolist() == pytest.approx([best, best], abs=1e-9)
    scaled = {**given, "scores": 3 * scores}
    assert METRICS["infidelity_scaled"](**scaled).tolist() == pytest.approx([0, 0], abs=1e-9)
    assert float(METRICS["infidelity"](**scaled)[0]) == pytest.approx(4 * float(given["falls"][0].square().mean()))


def test_a_constant_map_has_no_correlation() -> None:
    sets = draw_sets(8, 12 * [3], seed=1)[None]
    falls = torch.randn(1, 12, generator=torch.Generator().manual_seed(0))
    constant = torch.full((1, 8), 0.1)
    assert bool(METRICS["faithfulness_correlation"](scores=constant, sets=sets, falls=falls).isnan())
    assert bool(METRICS["sensitivity_n"](scores=constant, sets=sets, falls=falls).isnan())
    assert bool(METRICS["saco"](scores=constant, groups=torch.eye(8).bool()[None], falls=falls[:, :8]).isnan())
    nothing = METRICS["infidelity_scaled"](scores=0 * constant, sets=sets, falls=falls)
    assert float(nothing) == pytest.approx(float(falls.double().square().mean()))


def test_saco_counts_pairs_by_the_difference_of_their_scores() -> None:
    scores = torch.tensor([[4.0, 2.0, 0.0]])  # 1, 1/2 and 0 when scaled
    falls = torch.tensor([[0.5, 0.1, 0.3]])
    found = METRICS["saco"](scores=scores, groups=torch.eye(3).bool()[None], falls=falls)
    assert float(found) == pytest.approx((0.5 + 1 - 0.5) / (0.5 + 1 + 0.5))


def test_concentration_of_one_token_and_of_all_alike() -> None:
    scores = torch.tensor([[0.0, -3.0, 0.0, 0.0], [1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(METRICS["sparseness"](scores=scores), [0.75, 0, np.nan], rtol=0, atol=1e-12)
    np.testing.assert_allclose(METRICS["complexity"](scores=scores), [0, math.log(4), np.nan], rtol=0, atol=1e-12)


def test_normalised_aopc_lies_between_its_limits() -> None:
    falls = torch.tensor([[0.1, 0.3], [0.5, 0.7], [0.2, 0.2]])
    limits = torch.tensor([[0.0, 0.8], [0.0, 0.4], [0.2, 0.2]])
    found = METRICS["naopc"](falls=falls, limits=limits)
    np.testing.assert_allclose(found, [0.25, 1.0, np.nan], rtol=0, atol=1e-6)  # the second goes beyond what was found


def test_drawn_sets_have_their_sizes_and_depend_on_the_seed() -> None:
    sizes = set_sizes(196)
    assert sizes == [round(156 ** (step / 7)) for step in range(8)]  # 80 % of 196
    assert set_sizes(2) == [1]
    sets = draw_sets(196, sizes, seed=3)
    assert sets.sum(1).tolist() == sizes
    assert torch.equal(sets, draw_sets(196, sizes, seed=3))
    assert not torch.equal(sets, draw_sets(196, sizes, seed=4))


def test_falls_are_asked_of_the_model_without_the_sets() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    logits = CurveLogits(model, tensors, (4, 3), torch.arange(PATCHES + 1) > 0, "zeroed")
    scores = torch.rand(2, PATCHES, generator=torch.Generator().manual_seed(0))
    answers = TokenSetAnswers(GradedAnswers(logits, scores, (2,), lambda values: values.softmax(-1), False, 0))
    removal = patch_removal(model, tensors, (4, 3), "zeroed")
    whole = removal.logits(torch.ones(1, PATCHES, dtype=torch.bool))
    for need, sets in (("falls_of_random_sets", answers.random_sets), ("falls_of_sized_sets", answers.sized_sets)):
        found = answers.of(need)
        assert found is not None
        expected = (whole - removal.logits(~sets))[:, 2]
        torch.testing.assert_close(found, expected.expand(2, -1), rtol=0, atol=1e-5)
    found = answers.of("falls_of_groups")
    assert found is not None
    for row, groups in enumerate(answers.groups):
        expected = (whole.softmax(-1) - removal.logits(~groups).softmax(-1))[:, 2]
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-5)
    found = answers.of("falls_one_by_one")
    assert found is not None
    first = scores[1].argmax()
    expected = (whole.softmax(-1) - removal.logits((torch.arange(PATCHES) != first)[None]).softmax(-1))[0, 2]
    torch.testing.assert_close(found[1, 0], expected, rtol=0, atol=1e-5)


def test_an_input_of_one_token_has_no_sets_and_a_long_one_no_limits() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    logits = CurveLogits(model, tensors, (4, 3), torch.arange(PATCHES + 1) > 0, "zeroed")
    for tokens, need in ((1, "falls_of_random_sets"), (65, "aopc_limits")):
        graded = GradedAnswers(logits, torch.rand(2, tokens), (2,), lambda values: values.softmax(-1), False, 0)
        assert TokenSetAnswers(graded).of(need) is None

"""Which coalitions are asked, and what they weigh."""

from __future__ import annotations

from math import comb

import pytest
import torch

from explainers.analysis.interactions.coalitions import draw_coalitions, exact_weights, fit_interactions, size_masses, split_budget


@pytest.mark.parametrize("variant", ["banzhaf", "shapley"])
def test_small_sizes_are_enumerated_and_the_rest_is_drawn_once_each(variant: str) -> None:
    coalitions, weights = draw_coalitions(12, 400, variant, 0.2, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    assert len(coalitions) == len(coalitions.unique(dim=0)) <= 400
    sizes = coalitions.sum(1)
    masses = size_masses(12, variant, 0.2)  # type: ignore[arg-type]
    assert float(masses.sum()) == pytest.approx(1)
    whole = [k for k in range(13) if int((sizes == k).sum()) == comb(12, k)]
    assert {0, 1} <= set(whole)
    exact = exact_weights(coalitions, variant, 0.2)  # type: ignore[arg-type]
    for k in (0, 1):
        assert torch.equal(weights[sizes == k], exact[sizes == k])
    inner = (sizes > 0) & (sizes < 12) if variant == "shapley" else sizes >= 0
    assert float(weights[inner].sum()) == pytest.approx(1, abs=0.02)


def test_budgets() -> None:
    assert split_budget(196, 10, 2**17) == (131072 // 19, 19)
    assert split_budget(10, 196, 2**17) == (19, 131072 // 19)
    assert split_budget(49, 2, 4096) == (1024, 4)  # no more prompts than there are


def test_a_value_that_is_a_sum_of_terms_is_found() -> None:
    coalitions, weights = draw_coalitions(6, 50, "banzhaf", 0.5, torch.Generator().manual_seed(0))
    z = coalitions.double()
    values = 0.5 + z @ torch.arange(6.0).double() - 2 * z[:, 0] * z[:, 4] + z[:, 2] * z[:, 5]
    fit = fit_interactions(coalitions, weights, values, [(0, 4), (2, 5), (1, 3)])
    torch.testing.assert_close(fit.values(coalitions), values)
    assert fit.second[4, 0] == fit.second[0, 4] == pytest.approx(-2)
    assert fit.totals(0.5)[2] == pytest.approx(2.5)

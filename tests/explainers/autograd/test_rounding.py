"""The estimate of rounding that relevance carries: against loops over the numbers, and what torch's own functions make of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from explainers.autograd import rounding
from explainers.autograd.rounding import RelevanceWithError, error_of, value_of

UNIT = 16 * torch.finfo(torch.float64).eps / 2


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def relevance(*shape: int, seed: int) -> RelevanceWithError:
    return RelevanceWithError(numbers(*shape, seed=seed), 1e-3 * numbers(*shape, seed=seed + 1).abs())


def by_loops(a: Tensor, b: Tensor, r: Tensor, error: Tensor) -> tuple[list[list[float]], bool]:
    """The errors of both operands (S, D) of one sample's sum by what docs/results/precision.md says, number by number, no sum being near
    zero; and whether the two totals differ in sign.
    """
    rows, columns = a.shape
    at = [(i, j) for i in range(rows) for j in range(columns)]
    sizes = [{p: float(x[p]) for p in at} for x in (a, b)]
    e = [{p: UNIT * (abs(x[p]) + sum(abs(x[p[0], j]) for j in range(columns)) / columns) for p in at} for x in sizes]
    total = {p: sizes[0][p] + sizes[1][p] for p in at}
    moved = {
        p: abs(float(r[p])) * (abs(sizes[1][p]) * e[0][p] + abs(sizes[0][p]) * e[1][p]) / (abs(total[p]) * near(total[p], e, p)) for p in at
    }
    shares = [{p: x[p] / total[p] for p in at} for x in sizes]
    sums = [sum(share[p] * float(r[p]) for p in at) for share in shares]
    whole, opposite = sum(map(abs, sums)), sums[0] * sums[1] < 0
    scale = abs(float(r.sum())) / whole
    squares = {p: (2 * moved[p]) ** 2 + ((shares[0][p] - shares[1][p]) * float(error[p])) ** 2 for p in at}
    found = []
    for mine in (0, 1):
        out = []
        off = math.sqrt(sum(moved[p] ** 2 + (shares[mine][p] * float(error[p])) ** 2 for p in at))
        for p in at:
            element = shares[mine][p] * float(r[p])
            part = element * math.copysign(1, sums[mine]) / whole if opposite else 0.0
            rest = math.sqrt(sum(squares[q] for q in at if q != p))
            own = abs(1 - 2 * part) * moved[p] + abs(shares[mine][p] - part * (shares[mine][p] - shares[1 - mine][p])) * float(error[p])
            out.append(scale * (own + abs(part) * rest + (2 * abs(element) if 2 * off > abs(sums[mine]) else 0.0)))
        found.append(out)
    return found, opposite


def near(total: float, e: list[dict[Any, float]], place: Any) -> float:
    """How far from zero a sum is at least."""
    return max(abs(total) - 4 * (e[0][place] + e[1][place]), (e[0][place] + e[1][place]) / 10)


def test_errors_of_a_normalised_sum_are_those_of_a_loop_whatever_the_other_samples_are() -> None:
    a, b, r = numbers(12, 3, 4, seed=1), numbers(12, 3, 4, seed=2), relevance(12, 3, 4, seed=3)
    found = [error_of(part) for part in rounding.split_sum(a, b, r, normalise=True)]
    signs = set()
    for i in range(len(a)):
        one = slice(i, i + 1)
        expected, opposite = by_loops(a[i], b[i], value_of(r)[i], error_of(r)[i])
        signs.add(opposite)
        alone = rounding.split_sum(a[one], b[one], RelevanceWithError(value_of(r)[one], error_of(r)[one]), normalise=True)
        for part, single, loops in zip(found, alone, expected, strict=True):
            torch.testing.assert_close(part[i].flatten(), torch.tensor(loops, dtype=part.dtype), rtol=1e-6, atol=0)
            torch.testing.assert_close(part[one], error_of(single), rtol=1e-9, atol=0)
    assert signs == {True, False}


@pytest.mark.parametrize("normalise", [False, True])
def test_what_is_zero_has_no_error(normalise: bool) -> None:
    """Padding: rows of zeros that got relevance."""
    a, b, r = numbers(2, 3, 4, seed=1), numbers(2, 3, 4, seed=2), relevance(2, 3, 4, seed=3)
    a[:, 1] = b[:, 1] = 0
    for part in rounding.split_sum(a, b, r, normalise):
        assert bool((error_of(part)[:, 1] == 0).all())
        assert bool(error_of(part).isfinite().all())


def test_an_error_is_never_negative() -> None:
    """Whatever torch's functions do to relevance."""
    r = relevance(2, 3, 4, seed=1)
    results = (
        -r,
        r - 2 * r,
        r * -1.0,
        r.transpose(1, 2),
        r.sum(1),
        torch.add(r, r, alpha=-2),
        r @ numbers(4, 3, seed=2),
        r[:, 1:],
        r.view(6, 4),
    )
    for out in results:
        assert isinstance(out, RelevanceWithError)
        assert bool((out.error >= 0).all())
        assert bool(out.error.any())

"""The formulas of relevance against loops over pairs, and what they promise for any numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd import relevance as rel
from tests.explainers.support.wrapped import inputs, wrapped

quick = settings(max_examples=15, deadline=None, derandomize=True)
NEAR = {"rtol": 1e-6, "atol": 1e-9}


def linear(x: Tensor, w: Tensor) -> Tensor:
    return x @ w.mT


def transpose(signal: Tensor, w: Tensor) -> Tensor:
    return signal @ w


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(x: Tensor, w: Tensor) -> Iterator[tuple[int, int, float]]:
    for i in range(len(w)):
        for j in range(len(x)):
            yield i, j, float(x[j] * w[i, j])


def z_plus_by_loops(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    """Eq. 5 for one vector: R_j = sum_i (x_j w_ij)^+ / sum_j' (x_j' w_ij')^+ R_i."""
    totals = [0.0] * len(w)
    for i, _, z in pairs(x, w):
        totals[i] += max(z, 0.0)
    out = torch.zeros_like(x)
    for i, j, z in pairs(x, w):
        if z > 0:
            out[j] += z / totals[i] * r[i]
    return out


def each_by_loops(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    """What the published baseline does: pairs of positive input, and pairs of negative input, each share all of R."""
    return z_plus_by_loops(x.clamp(min=0), w, r) + z_plus_by_loops(x.clamp(max=0), w, r)


def positive_by_loops(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    """Eq. 4: positive inputs with positive weights alone."""
    return z_plus_by_loops(x.clamp(min=0), w, r)


LOOPS: dict[rel.Inputs, Any] = {"both": z_plus_by_loops, "each": each_by_loops, "positive": positive_by_loops}


@pytest.mark.parametrize("inputs", LOOPS)
@pytest.mark.parametrize("seed", range(5))
def test_z_plus_is_the_sum_over_pairs(seed: int, inputs: rel.Inputs) -> None:
    x, w, r = numbers(2, 3, 6, seed=seed), numbers(4, 6, seed=seed + 50), numbers(2, 3, 4, seed=seed + 90)
    found = rel.split_linear(x, w, r, linear, transpose, inputs)
    expected = torch.stack([torch.stack([LOOPS[inputs](x[b, s], w, r[b, s]) for s in range(3)]) for b in range(2)])
    torch.testing.assert_close(found, expected, **NEAR)


def test_an_output_without_a_positive_pair_passes_nothing_on() -> None:
    x, w = torch.tensor([[1.0, 2.0]]).double(), torch.tensor([[-1.0, -3.0], [1.0, -1.0]]).double()
    for product in (None, x @ w.mT):
        found = rel.split_linear(x, w, torch.tensor([[5.0, 7.0]]).double(), linear, transpose, product=product)
        torch.testing.assert_close(found, torch.tensor([[7.0, 0.0]]).double(), **NEAR)


@pytest.mark.parametrize("seed", range(3))
def test_where_the_product_is_known_three_products_give_what_four_do(seed: int) -> None:
    x, w, r = numbers(2, 3, 40, seed=seed), numbers(5, 40, seed=seed + 1), numbers(2, 3, 5, seed=seed + 2)
    asked = []

    def counted(signal: Tensor, weight: Tensor) -> Tensor:
        asked.append(weight)
        return linear(signal, weight)

    found = rel.split_linear(x, w, r, counted, transpose, product=x @ w.mT)
    assert len(asked) == 1
    torch.testing.assert_close(found, rel.split_linear(x, w, r, linear, transpose), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_z_b_is_the_sum_over_pairs_with_the_bounds_of_each_image(seed: int) -> None:
    """R_j = sum_i (x_j w_ij - l w_ij^+ - h w_ij^-) / sum_j' (the same) R_i."""
    x, w, r = numbers(2, 6, seed=seed), numbers(4, 6, seed=seed + 50), numbers(2, 4, seed=seed + 90)
    found = rel.split_image_linear(x, w, r, linear, transpose)
    for b in range(2):
        low, high = float(x[b].min()), float(x[b].max())
        z = torch.zeros(4, 6).double()
        for i in range(4):
            for j in range(6):
                weight = float(w[i, j])
                z[i, j] = float(x[b, j]) * weight - low * max(weight, 0) - high * min(weight, 0)
        assert bool((z >= -1e-12).all())
        expected = (z / z.sum(1, keepdim=True) * r[b][:, None]).sum(0)
        torch.testing.assert_close(found[b], expected, **NEAR)


def test_z_b_of_a_convolution_is_z_b_of_its_patches() -> None:
    x, w, r = numbers(2, 3, 4, 6, seed=1), numbers(5, 3, 2, 2, seed=2), numbers(2, 5, 2, 3, seed=3)

    def convolve(image: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(image, weight, stride=2)

    def back(signal: Tensor, weight: Tensor) -> Tensor:
        return F.conv_transpose2d(signal, weight, stride=2)

    found = rel.split_image_linear(x, w, r, convolve, back)
    flat = w.flatten(1)
    for b in range(2):
        low, high = x[b].min(), x[b].max()
        for row in range(2):
            for column in range(3):
                patch = x[b, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten()
                z = patch * flat - low * flat.clamp(min=0) - high * flat.clamp(max=0)
                expected = (z / z.sum(1, keepdim=True) * r[b, :, row, column][:, None]).sum(0)
                torch.testing.assert_close(found[b, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten(), expected, **NEAR)


@pytest.mark.parametrize("seed", range(5))
def test_a_sum_is_split_in_proportion_and_then_normalised(seed: int) -> None:
    """Eq. 9 and 10, a sample at a time."""
    a, b, r = (numbers(3, 4, 5, seed=seed + k) for k in (0, 100, 200))
    found_a, found_b = rel.split_sum(a, b, r, normalise=True)
    plain_a, plain_b = rel.split_sum(a, b, r, normalise=False)
    torch.testing.assert_close(plain_a, a / (a + b) * r, rtol=1e-4, atol=1e-6)
    for i in range(3):
        u, v = plain_a[i], plain_b[i]
        total, su, sv = r[i].sum(), u.sum(), v.sum()
        torch.testing.assert_close(found_a[i], u * su.abs() / (su.abs() + sv.abs()) * total / su, **NEAR)
        torch.testing.assert_close(found_b[i], v * sv.abs() / (su.abs() + sv.abs()) * total / sv, **NEAR)


def test_a_product_gives_half_to_each_factor_pair_by_pair() -> None:
    a, b, r = numbers(2, 3, 4, seed=0), numbers(2, 4, 5, seed=1), numbers(2, 3, 5, seed=2)
    product = a @ b
    found_a, found_b = rel.split_product(a, b, product, r)
    expected_a, expected_b = torch.zeros_like(a), torch.zeros_like(b)
    for n in range(2):
        for i in range(3):
            for k in range(5):
                for j in range(4):
                    share = a[n, i, j] * b[n, j, k] / product[n, i, k] * r[n, i, k] / 2
                    expected_a[n, i, j] += share
                    expected_b[n, j, k] += share
    torch.testing.assert_close(found_a, expected_a, **NEAR)
    torch.testing.assert_close(found_b, expected_b, **NEAR)


def split_mean(x: Tensor, r: Tensor) -> Tensor:
    return rel.split_pool(x, r, lambda t: t.mean(1, keepdim=True), lambda s: s.expand_as(x) / x.shape[1])


def test_a_mean_is_shared_by_the_terms_of_its_sign() -> None:
    x = torch.tensor([[[1.0], [-2.0], [3.0]], [[-4.0], [1.0], [-1.0]], [[0.0], [0.0], [0.0]]]).double()
    r = torch.tensor([[[8.0]], [[10.0]], [[5.0]]]).double()
    found = split_mean(x, r)
    torch.testing.assert_close(found[0, :, 0], torch.tensor([2.0, 0.0, 6.0]).double(), **NEAR)
    torch.testing.assert_close(found[1, :, 0], torch.tensor([8.0, 0.0, 2.0]).double(), **NEAR)
    assert not found[2].any()


def test_division_is_by_the_stabilised_denominator_and_zero_by_zero() -> None:
    found = rel.divide(torch.tensor([2.0, 2.0, 2.0, 0.0]).double(), torch.tensor([0.5, 0.0, -0.5, 0.0]).double())
    expected = torch.tensor([2 / (0.5 + 1e-9), 0.0, 2 / (-0.5 + 1e-9), 0.0], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
    # at minus the stabiliser the published code divides by zero; here every result is finite
    assert bool(rel.divide(torch.ones(1).double(), torch.tensor([-rel.STABILISER], dtype=torch.float64)).isfinite().all())


# --- for any numbers ------------------------------------------------------------------------------------------------

seeds = st.integers(0, 10_000)
sizes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(1, 5))


@quick
@given(seeds, sizes)
def test_z_plus_conserves_what_outputs_with_a_positive_pair_got(seed: int, size: tuple[int, int, int, int]) -> None:
    batch, tokens, width, out = size
    x, w, r = numbers(batch, tokens, width, seed=seed), numbers(out, width, seed=seed + 1), numbers(batch, tokens, out, seed=seed + 2)
    z = linear(x.clamp(min=0), w.clamp(min=0)) + linear(x.clamp(max=0), w.clamp(max=0))
    assume(bool(((z == 0) | (z > 1e-3)).all()))
    found = rel.split_linear(x, w, r, linear, transpose)
    torch.testing.assert_close(found.sum((1, 2)), (r * (z > 0)).sum((1, 2)), rtol=1e-5, atol=1e-5)


@quick
@given(seeds, sizes)
def test_z_b_conserves(seed: int, size: tuple[int, int, int, int]) -> None:
    batch, tokens, width, out = size
    x, w, r = (
        numbers(batch, tokens, width + 1, seed=seed),
        numbers(out, width + 1, seed=seed + 1),
        numbers(batch, tokens, out, seed=seed + 2),
    )
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    total = linear(x, w) - linear(low.expand_as(x), w.clamp(min=0)) - linear(high.expand_as(x), w.clamp(max=0))
    assume(bool((total > 1e-2).all()))
    found = rel.split_image_linear(x, w, r, linear, transpose)
    torch.testing.assert_close(found.sum((1, 2)), r.sum((1, 2)), rtol=1e-4, atol=1e-4)


@quick
@given(seeds, st.booleans())
def test_a_sum_conserves_and_gives_each_operand_a_share_of_the_same_sign(seed: int, normalise: bool) -> None:
    a, b, r = numbers(2, 3, 4, seed=seed), numbers(2, 3, 4, seed=seed + 1), numbers(2, 3, 4, seed=seed + 2)
    assume(float((a + b).abs().min()) > 1e-3)
    found_a, found_b = rel.split_sum(a, b, r, normalise)
    total = r.sum((1, 2))
    torch.testing.assert_close(found_a.sum((1, 2)) + found_b.sum((1, 2)), total, rtol=1e-4, atol=1e-4)
    if normalise:
        share = found_a.sum((1, 2)) / total
        assert bool(((share >= -1e-6) & (share <= 1 + 1e-6)).all())  # lemma 2


@quick
@given(seeds)
def test_a_product_and_a_mean_conserve(seed: int) -> None:
    a, b, r = numbers(2, 3, 4, seed=seed), numbers(2, 4, 5, seed=seed + 1), numbers(2, 3, 5, seed=seed + 2)
    assume(float((a @ b).abs().min()) > 1e-3)
    for part in rel.split_product(a, b, a @ b, r):
        torch.testing.assert_close(part.sum((1, 2)), r.sum((1, 2)) / 2, rtol=1e-4, atol=1e-4)
    kept = numbers(2, 1, 4, seed=seed + 3)
    found = split_mean(a, kept)
    torch.testing.assert_close(found.sum((1, 2)), kept.sum((1, 2)), rtol=1e-5, atol=1e-5)


@quick
@given(seeds, st.floats(-3, 3))
def test_every_split_but_the_normalised_sum_is_linear_in_what_arrives(seed: int, factor: float) -> None:
    x, w = numbers(2, 3, 4, seed=seed), numbers(5, 4, seed=seed + 1)
    r, s = numbers(2, 3, 5, seed=seed + 2), numbers(2, 3, 5, seed=seed + 3)
    b = numbers(2, 4, 5, seed=seed + 4)
    assume(float((x @ b).abs().min()) > 1e-2)

    def holds(split: object) -> None:
        assert callable(split)
        both = split(r + factor * s)
        torch.testing.assert_close(both, split(r) + factor * split(s), rtol=1e-6, atol=1e-6 * max(1.0, float(both.abs().max())))

    holds(lambda t: rel.split_linear(x, w, t, linear, transpose))
    holds(lambda t: rel.split_linear(x, w, t, linear, transpose, "each"))
    holds(lambda t: rel.split_image_linear(x, w, t, linear, transpose))
    holds(lambda t: rel.split_product(x, b, x @ b, t)[0])
    holds(lambda t: rel.split_sum(x @ b, b[:, :3], t, normalise=False)[1])


@quick
@given(seeds, st.floats(0.1, 10))
def test_the_normalised_sum_scales_with_what_arrives(seed: int, factor: float) -> None:
    a, b, r = numbers(2, 3, 4, seed=seed), numbers(2, 3, 4, seed=seed + 1), numbers(2, 3, 4, seed=seed + 2)
    assume(float((a + b).abs().min()) > 1e-2)
    for one, scaled in zip(rel.split_sum(a, b, r, True), rel.split_sum(a, b, factor * r, True), strict=True):
        torch.testing.assert_close(scaled, factor * one, rtol=1e-4, atol=1e-5 * max(1.0, float(one.abs().max())))


@quick
@given(seeds)
def test_no_split_looks_at_another_sample(seed: int) -> None:
    x, w, r = numbers(3, 2, 4, seed=seed), numbers(4, 4, seed=seed + 1), numbers(3, 2, 4, seed=seed + 2)
    b, m = numbers(3, 2, 4, seed=seed + 3), numbers(3, 4, 4, seed=seed + 4)
    for i in range(3):
        one = slice(i, i + 1)
        for whole, alone in (
            (rel.split_linear(x, w, r, linear, transpose)[one], rel.split_linear(x[one], w, r[one], linear, transpose)),
            (rel.split_image_linear(x, w, r, linear, transpose)[one], rel.split_image_linear(x[one], w, r[one], linear, transpose)),
            (rel.split_sum(x, b, r, True)[0][one], rel.split_sum(x[one], b[one], r[one], True)[0]),
            (rel.split_product(x, m, x @ m, r)[1][one], rel.split_product(x[one], m[one], x[one] @ m[one], r[one])[1]),
        ):
            torch.testing.assert_close(whole, alone, rtol=1e-8, atol=1e-8 * max(1.0, float(whole.abs().max())))


@settings(quick, max_examples=8)
@given(st.integers(0, 4), st.floats(-4, 4), st.sampled_from(["gradient", "libra", "conservative", "attnlrp"]))
def test_gradient_rules_are_linear_in_the_seed(target: int, factor: float, rule: str) -> None:
    """Over a whole model: the signal of a mixture of classes is the mixture of their signals."""
    from explainers.autograd.recording import Recording
    from explainers.autograd.rules import RULES

    recording = Recording(wrapped("vit"), inputs("vit"))
    one, two = torch.zeros_like(recording.logits), torch.zeros_like(recording.logits)
    one[:, target], two[:, (target + 1) % 5] = 1, 1
    parts = [recording.cached_backward(RULES[rule], seed).block_inputs[0] for seed in (one, two, one + factor * two)]
    torch.testing.assert_close(parts[2], parts[0] + factor * parts[1], rtol=1e-7, atol=1e-9)

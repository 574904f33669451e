"""An activation that is written as a product has the rules of the activation; a sum of products those of the matrix product."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers import backward_rule
from explainers.autograd import relevance, rounding
from explainers.autograd.rounding import RelevanceWithError

X = torch.tensor([[-3.6, -2.3, -0.4, 0.7, 1.9, 4.2]]).double()


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_tanh_factored(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.tanh(x * 0.7978845608028654 * (1 + 0.044715 * x * x)))


#: Products that are activations, and the same without a product, as plain torch computes them.
CURVES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "GELU of GPT-2": (gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
    "the same, factored": (gelu_tanh_factored, lambda x: F.gelu(x, approximate="tanh")),
    "GELU by erf": (lambda x: x * (torch.erf(x / math.sqrt(2)) + 1) / 2, F.gelu),
    "GELU of CLIP": (lambda x: x * torch.sigmoid(1.702 * x), lambda x: F.silu(1.702 * x) / 1.702),
    "hard-swish by relu6": (lambda x: x * F.relu6(x + 3) / 6, F.hardswish),
    "hard-swish by a clamp": (lambda x: (x + 3).clamp(0, 6) / 6 * x, F.hardswish),
    "squared ReLU": (lambda x: x * x.relu(), lambda x: x.relu() ** 2),
    "squared ReLU of two calls": (lambda x: x.relu() * F.relu(x), lambda x: x.relu() ** 2),
    "a square": (lambda x: x * x, lambda x: x**2),
    "a cube": (lambda x: x * x * x, lambda x: x**3),
}


def signal(function: Callable[[Tensor], Tensor], rule: str, x: Tensor = X) -> Tensor:
    x = x.clone().requires_grad_()
    with backward_rule(rule):
        (signal_at_x,) = torch.autograd.grad(function(x).sum(), x)
    return signal_at_x


def slope(function: Callable[[Tensor], Tensor]) -> Tensor:
    x = X.clone().requires_grad_()
    (derivative,) = torch.autograd.grad(function(x).sum(), x)
    return derivative


@pytest.mark.parametrize("form", CURVES)
def test_a_product_that_is_an_activation(form: str) -> None:
    """Rules that differentiate activations differentiate it as a whole, also where products of two paths are halved (GIM); for the others
    it is x times a constant.
    """
    written, curve = CURVES[form]
    torch.testing.assert_close(written(X), curve(X))
    derivative, ratio = slope(curve), curve(X) / X
    for rule in ("gradient", "conservative", "gim", "libra-activation"):
        torch.testing.assert_close(signal(written, rule), derivative, msg=f"{form} {rule}")
    for rule in ("libra", "attnlrp", "cp-lrp", "libra-product"):
        torch.testing.assert_close(signal(written, rule), ratio, msg=f"{form} {rule}")


def test_a_gated_layer_is_halved_once() -> None:
    """The product of an activation that is written out with another path gives half of the signal to each, as with torch's function."""
    width = X.shape[1]
    gate_and_path = torch.randn(2, width, width, generator=torch.Generator().manual_seed(0)).double()

    def layer(curve: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: curve(x @ gate_and_path[0]) * (x @ gate_and_path[1])

    for form in ("GELU of GPT-2", "hard-swish by relu6"):
        written, curve = CURVES[form]
        z = (X @ gate_and_path[0]).requires_grad_()
        path = X @ gate_and_path[1]
        (derivative,) = torch.autograd.grad(curve(z).sum(), z)
        z = z.detach()
        expected = {
            "gim": (derivative * path) @ gate_and_path[0].T / 2 + curve(z) @ gate_and_path[1].T / 2,
            "libra": (curve(z) / z * path) @ gate_and_path[0].T / 2 + curve(z) @ gate_and_path[1].T / 2,
            "cp-lrp": curve(z) @ gate_and_path[1].T,
        }
        for rule, by_hand in expected.items():
            torch.testing.assert_close(signal(layer(written), rule), by_hand, msg=f"{form} {rule}")


def test_products_of_two_paths_are_no_activations() -> None:
    """Halves of one tensor, tokens in another order and a gate of a linear map are other numbers than x: each factor gets half."""
    weight = torch.randn(6, 6, generator=torch.Generator().manual_seed(1)).double()
    for function in (
        lambda x: x[:, :3] * F.relu6(x[:, 3:] + 3),
        lambda x: x * F.relu6(x.flip(-1) + 3),
        lambda x: x * F.relu(x @ weight),
        lambda x: x.reshape(1, 2, 3).mT * F.relu(x.reshape(1, 3, 2)),
    ):
        torch.testing.assert_close(signal(function, "gim"), slope(function) / 2)


def test_relevance_of_a_sum_of_products_is_that_of_the_matrix_product() -> None:
    generator = torch.Generator().manual_seed(2)
    a, b = torch.randn(2, 5, 7, generator=generator).double(), torch.randn(2, 7, 3, generator=generator).double()
    arriving = torch.randn(2, 5, 3, generator=generator).double()
    products = a[..., None] * b[:, None]
    shares = relevance.split_total(products, arriving, lambda t: t.sum(2), lambda s: s[:, :, None].expand_as(products))
    by_hand = torch.zeros_like(products)
    for sample, row, middle, column in ((s, i, k, j) for s in range(2) for i in range(5) for k in range(7) for j in range(3)):
        whole = float((a[sample, row] * b[sample, :, column]).sum())
        by_hand[sample, row, middle, column] = float(products[sample, row, middle, column]) / whole * float(arriving[sample, row, column])
    torch.testing.assert_close(shares, by_hand, rtol=1e-6, atol=1e-7)
    of_a, of_b = relevance.split_product(a, b, a @ b, arriving)
    torch.testing.assert_close(shares.sum(-1) / 2, of_a)
    torch.testing.assert_close(shares.sum(1) / 2, of_b)


def test_rounding_of_a_sum_of_products() -> None:
    """In float32 the estimate covers the distance to float64."""
    x = torch.randn(4, 50, generator=torch.Generator().manual_seed(3))
    arriving = torch.ones(4, 1)

    def back(s: Tensor) -> Tensor:
        return s.expand_as(x)

    known = RelevanceWithError(arriving, torch.zeros(4, 1))
    estimated = rounding.split_total(x, known, lambda t: t.sum(1, keepdim=True), back)
    exact = relevance.split_total(x.double(), arriving.double(), lambda t: t.sum(1, keepdim=True), back)
    assert isinstance(estimated, RelevanceWithError)
    assert bool(((estimated.value - exact).abs() <= estimated.error.abs() + 1e-6 * exact.abs()).all())

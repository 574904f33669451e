"""Products of float32 by oneDNN: the numbers are torch's own but for rounding, and what does not fit goes to torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.models import eval_mode, matrix_products
from tests.explainers.support.wrapped import inputs, wrapped

INNER, OUTER = 150, 170
X, W, B = torch.randn(3, 70, INNER), torch.randn(OUTER, INNER), torch.randn(OUTER)


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what goes to oneDNN, which is taken for the faster on whatever processor this runs."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    shapes: list[tuple[int, ...]] = []
    by_onednn = matrix_products._by_onednn

    def noted(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        shapes.append((*x.shape, len(weight)))
        return by_onednn(x, weight, bias)

    monkeypatch.setattr(matrix_products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(matrix_products, "_by_onednn", noted)
    return shapes


@pytest.mark.parametrize(
    ("x", "weight", "bias"),
    [
        (X, W, B),
        (X, W, None),
        (X[0].repeat(3, 1), nn.Parameter(W, requires_grad=False), B),
        (X.transpose(0, 1), W, B),
        (torch.randn(3, 70, 2 * INNER)[..., ::2], W, B),
        (X[:1].expand(3, -1, -1), W, B),
        (X, torch.randn(INNER, OUTER).mT, B),
        (X, torch.randn(1, INNER).expand(OUTER, -1), B),
    ],
    ids=["usual", "no bias", "two dimensions", "samples second", "every second number", "one sample", "turned weight", "one weight"],
)
def test_a_linear_layer_gives_what_torch_gives(x: Tensor, weight: Tensor, bias: Tensor | None, calls: list[tuple[int, ...]]) -> None:
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert torch.allclose(matrix_products.linear(x, weight, bias).double(), expected, rtol=1e-5, atol=1e-4)
    assert len(calls) == 1


def test_a_product_with_a_matrix_gives_what_torch_gives(calls: list[tuple[int, ...]]) -> None:
    signal = torch.randn(3, 70, OUTER)
    assert torch.allclose(matrix_products.matmul(signal, W), signal @ W, rtol=1e-5, atol=1e-4)
    assert calls == [(3, 70, OUTER, INNER)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: (matrix_products.linear(X[:1, :4], W, B), F.linear(X[:1, :4], W, B)),
        lambda: (matrix_products.linear(X.double(), W.double()), F.linear(X.double(), W.double())),
        lambda: (matrix_products.linear(X, W, torch.randn(2 * OUTER)[::2].fill_(2)), F.linear(X, W, torch.full((OUTER,), 2.0))),
        lambda: (matrix_products.matmul(X.expand(20, 3, 70, INNER)[:, 0], X.mT[0].expand(20, -1, -1)), (X[0] @ X[0].mT).expand(20, -1, -1)),
        lambda: (matrix_products.matmul(X.expand(300, 3, 70, INNER), W[0]), (X @ W[0]).expand(300, -1, -1)),
    ],
    ids=["few numbers", "float64", "bias with gaps", "a product for each sample", "a vector"],
)
def test_what_does_not_fit_goes_to_torch(ask: Callable[[], tuple[Tensor, Tensor]], calls: list[tuple[int, ...]]) -> None:
    found, expected = ask()
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert not calls


def test_a_product_that_needs_a_gradient_goes_to_torch(calls: list[tuple[int, ...]]) -> None:
    x, weight = X.clone().requires_grad_(), W.clone().requires_grad_()
    matrix_products.linear(x, W, B).sum().backward()
    matrix_products.matmul(torch.randn(3, 70, OUTER), weight).sum().backward()
    assert not calls
    assert x.grad is not None
    assert weight.grad is not None
    with torch.no_grad():
        assert not matrix_products.linear(x, weight, B).requires_grad
    assert len(calls) == 1


def test_a_product_goes_to_torch_under_autocast_and_where_onednn_is_switched_off(
    calls: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert matrix_products.linear(X, W, B).dtype == torch.bfloat16
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    matrix_products.linear(X, W, B)
    assert not calls


def test_answers_and_maps_of_a_model_are_those_without_onednn(calls: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = wrapped("vit", torch.float32), inputs("vit", 1, torch.float32)
    specs = ["input_x_gradient:libra", "lrp", "fullgrad:libra"]

    def asked() -> tuple[Tensor, list[Tensor]]:
        with eval_mode.answering(model.module):
            answer = model.forward(given)
        result = explainers.explain(model, given, 1, specs)
        return answer, [result[spec].scores for spec in specs]

    expected_answer, expected = asked()
    assert not calls
    monkeypatch.setattr(matrix_products, "MIN_PRODUCT_SIZE", 1)
    answer, maps = asked()
    linear_layers = sum(isinstance(module, nn.Linear) for module in model.module.modules())
    assert len(calls) > 3 * linear_layers
    assert torch.allclose(answer, expected_answer, rtol=1e-5, atol=1e-6)
    for found, wanted in zip(maps, expected, strict=True):
        assert (found - wanted).abs().max() <= 2e-5 * wanted.abs().max()


def test_onednn_is_taken_on_processors_of_amd_with_avx512_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(matrix_products, "_CPU_INFO", tmp_path / "cpuinfo")
    for text, expected in (("vendor_id\t: GenuineIntel\n", False), ("vendor_id\t: AuthenticAMD\n", True)):
        (tmp_path / "cpuinfo").write_text(text)
        assert matrix_products._has_avx512_of_amd() is expected
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not matrix_products._has_avx512_of_amd()

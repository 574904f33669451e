"""Products of float32 matrices on a CPU, by the faster of the two libraries that torch has for them.

Torch multiplies float32 by MKL, which takes AVX2 on processors of AMD, also on those that have AVX-512. oneDNN takes what a processor has:
on an AMD EPYC of 2024 230 to 250 GFLOP/s of one thread where MKL gives 105. Torch has it for convolutions and for types of 16 bits, and as
an operator for its compiler, which is what is called here. Both sum float32 in float32: results differ by rounding, of 1e-6 of the largest.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

#: Multiplications below which a product stays with MKL: a call of oneDNN costs 10 µs more, and a shape that is new to it 1 ms, once.
MIN_PRODUCT_SIZE = 1 << 22
_PLAIN = (Tensor, nn.Parameter)
_CPU_INFO = Path("/proc/cpuinfo")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, (..., N), for ``x`` (..., K), ``weight`` W (N, K) and ``bias`` b (N,), as ``F.linear`` does, by the faster library
    if it can.
    """
    return _by_onednn(x, weight, bias) if _fits(x, weight, bias) else F.linear(x, weight, bias)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return a b for ``a`` (..., K) and ``b`` (K, N), as ``torch.matmul`` does, by the faster library if it can; other shapes are left to
    torch.
    """
    return _by_onednn(a, b.mT, None) if b.dim() == 2 and _fits(a, b.mT, None) else torch.matmul(a, b)


class FasterProducts(TorchFunctionMode):
    """A mode in which linear layers are computed by :func:`linear`. The projections of ``nn.MultiheadAttention`` are not, as its function
    is a single call that no mode can look into.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (linear if func is F.linear else func)(*args, **(kwargs or {}))


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Return whether oneDNN should compute the product of ``x`` with ``weight`` plus ``bias``: large tensors of float32 on a CPU, without
    gradient.
    """
    tensors = (x, weight) if bias is None else (x, weight, bias)
    return (
        weight.dim() == 2
        and x.dim() >= 2
        and x.numel() * len(weight) >= MIN_PRODUCT_SIZE
        and all(type(t) in _PLAIN and t.dtype == torch.float32 and t.device.type == "cpu" for t in tensors)
        and (bias is None or bias.is_contiguous())  # of another, oneDNN reads the wrong numbers
        and onednn_is_faster()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
        and not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))
    )


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out


@cache
def onednn_is_faster() -> bool:
    """Return whether this torch has both libraries and the processor is one on which MKL leaves AVX-512 unused."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available() and _has_avx512_of_amd()):
        return False
    x, weight, bias = torch.linspace(-1, 1, 12).view(3, 4), torch.linspace(-2, 1, 8).view(2, 4), torch.tensor([1.0, -2.0])
    try:  # torch promises nothing of its compiler's operators
        return torch.allclose(_by_onednn(x, weight, bias), F.linear(x, weight, bias))
    except (AttributeError, RuntimeError, TypeError):
        return False


def _has_avx512_of_amd() -> bool:
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        return "AuthenticAMD" in _CPU_INFO.read_text()
    except OSError:  # no Linux
        return "AuthenticAMD" in platform.processor()

"""Every torch function that has a handler: torch's value, autograd's gradient, and the formula of each other rule."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.dispatch import _HANDLERS
from explainers.recording import Recording
from explainers.rules import GRADIENT_RULES, RULES, Rule
from tests.engine.toys import Function, Twin, autograd, record, signal

B, S, D = 2, 5, 6
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


X = normal(B, S, D, seed=1)
W = normal(D, D, seed=2)
C = normal(S, D, seed=3)
V = normal(D, seed=4)
MAP = normal(B, 4, 7, 6, seed=6)


class With(nn.Module):
    """A function with parameters."""

    def __init__(self, function: Callable[..., Tensor], **parameters: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value.clone()))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, **dict(self.named_parameters()))


class Quiet(nn.Sequential):
    """torch warns that padding more on one side takes a copy."""

    def forward(self, x: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out: Tensor = super().forward(x)
            return out


@dataclass(frozen=True)
class Case:
    """``make`` gives the function; ``twin`` the same with a rule's operators (None: every gradient rule is the ordinary gradient)."""

    name: str
    make: Callable[[], Function]
    twin: Callable[[Twin, Tensor], Tensor] | None = None
    x: Tensor = X


def same(name: str, function: Function, **more: Any) -> Case:
    return Case(name, lambda: function, **more)


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make().double().eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
        return module


def qkv(x: Tensor, heads: int = 2, kv_heads: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Three paths (B, heads, S, d) from x."""

    def one(seed: int, count: int) -> Tensor:
        return (x @ normal(D, count * 3, seed=seed)).unflatten(-1, (count, 3)).transpose(1, 2)

    return one(11, heads), one(12, kv_heads or heads), one(13, kv_heads or heads)


BOOLEAN = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 1]]).bool()
ADDITIVE = normal(S, S, seed=5).masked_fill(~BOOLEAN, -torch.inf)
CAUSAL = torch.ones(S, S).bool().tril()


def sdpa(name: str, mask: Tensor | None = None, twin_mask: Tensor | None = None, kv_heads: int = 2, **options: Any) -> Case:
    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x, 2, kv_heads)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options).transpose(1, 2)

    def twin(t: Twin, x: Tensor) -> Tensor:
        q, k, v = qkv(x, 2, kv_heads)
        k, v = k.repeat_interleave(2 // kv_heads, 1), v.repeat_interleave(2 // kv_heads, 1)
        return t.attend(q, k, v, mask if twin_mask is None else twin_mask, options.get("scale")).transpose(1, 2)

    return Case(name, lambda: function, twin)


class Attend(nn.Module):
    """nn.MultiheadAttention on x, or with a constant query as in attention pooling."""

    def __init__(
        self, first: bool, probe: bool = False, need_weights: bool = False, average: bool = True, bias: bool = True, **masks: Tensor
    ):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, batch_first=first, bias=bias)
        self.first, self.need, self.average, self.masks = first, need_weights, average, masks
        self.probe = nn.Parameter(torch.randn(1, 2, D)) if probe else None

    def forward(self, x: Tensor) -> Tensor:
        query = x if self.probe is None else self.probe.expand(len(x), -1, -1)
        query, key = (query, x) if self.first else (query.transpose(0, 1), x.transpose(0, 1))
        out, weights = self.attention(query, key, key, need_weights=self.need, average_attn_weights=self.average, **self.masks)
        out = out if self.first else out.transpose(0, 1)
        if self.need:
            out = torch.cat([out.flatten(1), weights.flatten(1)], 1)
        return out


def multi_head(name: str, twin_mask: Tensor | None = None, **options: Any) -> Case:
    def make() -> nn.Module:
        return seeded(lambda: Attend(**options))

    def twin(t: Twin, x: Tensor) -> Tensor:
        module = make()
        inner: nn.MultiheadAttention = module.attention
        query = x if module.probe is None else module.probe.detach().expand(len(x), -1, -1)
        weights = inner.in_proj_weight.detach().chunk(3)
        biases = [torch.zeros(D).double()] * 3 if inner.in_proj_bias is None else inner.in_proj_bias.detach().chunk(3)
        q, k, v = (
            (source @ w.mT + b).unflatten(-1, (2, -1)).transpose(1, 2) for source, w, b in zip((query, x, x), weights, biases, strict=True)
        )
        out = t.attend(q, k, v, twin_mask).transpose(1, 2).flatten(2) @ inner.out_proj.weight.detach().mT
        out = out if inner.out_proj.bias is None else out + inner.out_proj.bias.detach()
        if module.need:
            scores = t.matmul(q, k.mT) / math.sqrt(3)
            scores = scores if twin_mask is None else scores.masked_fill(~twin_mask, -torch.inf)
            shown = t.softmax(scores)
            out = torch.cat([out.flatten(1), (shown.mean(1) if module.average else shown).flatten(1)], 1)
        return out

    return Case(name, make, twin)


PADDED = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()  # True: padding


def by_hand(x: Tensor, style: str, eps: float = 1e-3) -> Tensor:
    """LayerNorm and RMSNorm as people write them."""
    centre = x - x.mean(-1, keepdim=True)
    match style:
        case "rsqrt":
            return centre * torch.rsqrt(centre.pow(2).mean(-1, keepdim=True) + eps)
        case "sqrt":
            return centre / torch.sqrt((centre**2).mean(-1, keepdim=True) + eps)
        case "var":
            return (x - x.mean(dim=-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()
        case "std":
            return centre / (x.std(-1, keepdim=True) + eps)
        case "power":
            return centre * (centre.square().mean(-1, keepdim=True) + eps) ** -0.5
        case "reciprocal":
            return centre * (centre.square().mean(-1, keepdim=True) + eps).sqrt().reciprocal()
        case "one_over":
            return centre * (1 / (centre.square().mean(-1, keepdim=True) + eps).sqrt())
        case "rms":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * V
        case "length":
            return x / x.norm(dim=-1, keepdim=True)
        case "vector_norm":
            return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-6)
    raise AssertionError(style)


def by_hand_twin(t: Twin, x: Tensor, style: str, eps: float = 1e-3) -> Tensor:
    centre = x - x.mean(-1, keepdim=True)
    if style in ("rms", "length", "vector_norm"):
        centre = x
    power = centre.square().mean(-1, keepdim=True)
    inverse = {
        "std": 1 / (centre.square().sum(-1, keepdim=True).div(D - 1).sqrt() + eps),
        "length": (power * D) ** -0.5,
        "vector_norm": (power * D) ** -0.5,
    }.get(style, (power + eps) ** -0.5)
    out = centre * t.scale(inverse)
    return out * V if style == "rms" else out


def gelu_new(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def gelu_by_erf(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def activation(name: str, function: Function) -> Case:
    return Case(name, lambda: function, lambda t, x: t.act(function, x))


def in_place(method: Callable[[Tensor], Any]) -> Function:
    """Change a copy of x and return that copy, not what the method returns."""

    def function(x: Tensor) -> Tensor:
        y = x * 1.0
        method(y)
        return y

    return function


def iadd(y: Tensor) -> None:
    y += 1.5


def iadd_part(y: Tensor) -> None:
    y[:, 0] += C[0]


def imul(y: Tensor) -> None:
    y *= C


def isub(y: Tensor) -> None:
    y -= C


def idiv(y: Tensor) -> None:
    y /= C


def through_a_view(y: Tensor) -> None:
    view = y.view(B, -1)
    view += 1.0


SINGLE = [
    Rule(attention="constant", name="a"),
    Rule(attention="half", name="h"),
    Rule(norm="constant", name="n"),
    Rule(norm="constant_mean", name="m"),
    Rule(activation="gate", name="g"),
    Rule(product="half", name="p"),
    Rule(attention="constant", norm="constant", activation="gate", name="npr"),
]


CASES = [
    # --- linear
    Case("linear", lambda: seeded(lambda: nn.Linear(D, 4))),
    Case("linear-no-bias", lambda: seeded(lambda: nn.Linear(D, 4, bias=False))),
    Case("conv1d", lambda: seeded(lambda: nn.Conv1d(S, 4, 3, padding=1))),
    Case("conv1d-groups", lambda: seeded(lambda: nn.Conv1d(S, 2 * S, 3, stride=2, groups=S, bias=False))),
    Case("conv2d", lambda: seeded(lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1, dilation=1)), x=normal(B, 2, 7, 6)),
    Case("conv2d-depthwise", lambda: seeded(lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4)), x=MAP),
    Case("conv2d-same", lambda: seeded(lambda: nn.Conv2d(4, 3, 3, padding="same", dilation=2)), x=MAP),
    Case("conv2d-same-even", lambda: Quiet(seeded(lambda: nn.Conv2d(4, 3, (4, 2), padding="same", dilation=(1, 3)))), x=MAP),
    Case("conv2d-valid", lambda: seeded(lambda: nn.Conv2d(4, 3, 3, padding="valid", stride=2)), x=MAP),
    Case("conv2d-circular", lambda: seeded(lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular")), x=MAP),
    Case("conv1d-same", lambda: Quiet(seeded(lambda: nn.Conv1d(S, 4, 2, padding="same")))),
    Case("addmm", lambda: With(lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w).view(B, S, D), w=W, b=V)),
    Case("addmm-scaled", lambda: With(lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w, beta=0.5, alpha=2).view(B, S, D), w=W, b=V)),
    Case("matmul", lambda: With(torch.matmul, other=W)),
    Case("at", lambda: With(lambda x, w: x @ w, w=W)),
    Case("at-transposed", lambda: With(lambda x, w: x @ w.T, w=W)),
    Case("at-mT", lambda: With(lambda x, w: x @ w.mT, w=W)),
    Case("at-t", lambda: With(lambda x, w: x @ w.t(), w=W)),
    Case("linear-of-transposed", lambda: With(lambda x, w: F.linear(x, w.T), w=W)),
    Case("data", lambda: With(lambda x, w: x * w.data, w=C)),
    Case("left", lambda: With(lambda x, w: w @ x, w=normal(4, S))),
    Case("left-transposed", lambda: With(lambda x, w: w.T @ x, w=normal(S, 4))),
    Case("bmm", lambda: With(torch.bmm, mat2=normal(B, D, 3))),
    Case("mm", lambda: With(lambda x, w: torch.mm(x.flatten(0, 1), w).view(B, S, D), w=W)),
    Case("vector", lambda: With(lambda x, w: x @ w, w=V)),
    Case("vector-left", lambda: With(lambda x, w: w @ x.mT, w=V)),
    Case("rows-dot-vector", lambda: With(lambda x, w: torch.stack([row[0] @ w for row in x])[:, None], w=V)),
    Case("two-paths", lambda: lambda x: x @ x.mT, lambda t, x: t.matmul(x, x.mT)),
    Case("two-paths-bmm", lambda: lambda x: torch.bmm(x, x.mT), lambda t, x: t.matmul(x, x.mT)),
    Case("two-vectors", lambda: lambda x: torch.stack([r[0] @ r[1] for r in x])[:, None], lambda t, x: t.matmul(x[:, :1], x[:, 1:2].mT)),
    Case(
        "linear-with-active-weight",
        lambda: lambda x: F.linear(x, x[0], C[:, 0]),
        lambda t, x: t.matmul(x, x.mT) + C[:, 0],
        x=X[:1],
    ),
    # --- attention
    sdpa("sdpa"),
    sdpa("sdpa-scale", scale=0.3),
    sdpa("sdpa-bool", BOOLEAN),
    sdpa("sdpa-bool-per-head", BOOLEAN[None, None].expand(B, 2, S, S)),
    sdpa("sdpa-additive", ADDITIVE),
    sdpa("sdpa-causal", twin_mask=CAUSAL, is_causal=True),
    sdpa("sdpa-gqa", kv_heads=1, enable_gqa=True),
    multi_head("mha-batch-first", first=True),
    multi_head("mha-tokens-first", first=False),
    multi_head("mha-no-bias", first=True, bias=False),
    multi_head("mha-weights", first=True, need_weights=True),
    multi_head("mha-weights-per-head", first=False, need_weights=True, average=False),
    multi_head("mha-bool", first=True, attn_mask=~BOOLEAN, twin_mask=BOOLEAN, need_weights=True),
    multi_head("mha-additive", first=True, attn_mask=ADDITIVE, twin_mask=ADDITIVE),
    multi_head("mha-padding", first=True, key_padding_mask=PADDED, twin_mask=~PADDED[:, None, None]),
    multi_head(
        "mha-mask-and-padding",
        first=False,
        attn_mask=~CAUSAL,
        key_padding_mask=PADDED,
        twin_mask=CAUSAL & ~PADDED[:, None, None],
    ),
    multi_head("mha-mask-per-head", first=True, attn_mask=~BOOLEAN.expand(B * 2, S, S), twin_mask=BOOLEAN),
    multi_head("mha-probe", first=True, probe=True),
    Case("softmax", lambda: lambda x: F.softmax(x, dim=-1), lambda t, x: t.softmax(x)),
    Case("softmax-method", lambda: lambda x: x.softmax(1), lambda t, x: t.softmax(x.mT).mT),
    Case("softmax-torch", lambda: lambda x: torch.softmax(x, -1), lambda t, x: t.softmax(x)),
    Case("softmax-dtype", lambda: lambda x: torch.softmax(x, -1, dtype=torch.float64), lambda t, x: t.softmax(x)),
    Case("nn.Softmax", lambda: nn.Softmax(-1), lambda t, x: t.softmax(x)),
    # --- normalisation
    Case(
        "layer_norm",
        lambda: With(lambda x, w, b: F.layer_norm(x, (D,), w, b, 1e-3), w=V, b=C[0]),
        lambda t, x: t.layer_norm(x, V, C[0], 1e-3),
    ),
    Case("layer_norm-plain", lambda: lambda x: F.layer_norm(x, [D]), lambda t, x: t.layer_norm(x)),
    Case(
        "layer_norm-two-dims",
        lambda: lambda x: F.layer_norm(x, (S, D), weight=C, bias=C),
        lambda t, x: t.layer_norm(x.flatten(1)).view_as(x) * C + C,
    ),
    Case("nn.LayerNorm", lambda: nn.LayerNorm(D, dtype=torch.float64), lambda t, x: t.layer_norm(x)),
    Case(
        "rms_norm",
        lambda: With(lambda x, w: F.rms_norm(x, (D,), w, 1e-3), w=V),
        lambda t, x: x / t.scale((x.square().mean(-1, keepdim=True) + 1e-3).sqrt()) * V,
    ),
    Case("rms_norm-default-eps", lambda: lambda x: F.rms_norm(x, (D,)), lambda t, x: x / t.scale(x.square().mean(-1, keepdim=True).sqrt())),
    Case("batch_norm", lambda: _batch_norm(nn.BatchNorm1d(S))),
    Case("batch_norm-map", lambda: _batch_norm(nn.BatchNorm2d(4)), x=MAP),
    Case("batch_norm-no-affine", lambda: _batch_norm(nn.BatchNorm1d(S, affine=False))),
    same("torch.batch_norm", lambda x: torch.batch_norm(x, C[:, 0], C[:, 1], C[:, 2], C[:, 3].abs(), False, 0.1, 1e-3, False)),
    Case(
        "response-norm",  # of the whole map a channel, over their mean: a scale over a scale
        lambda: response_norm,
        lambda t, x: V + V * (x * t.scale(_response(x))),
    ),
    Case("normalize", lambda: lambda x: F.normalize(x, dim=-1), lambda t, x: x / t.scale(x.square().sum(-1, keepdim=True).sqrt())),
    Case("normalize-1-norm", lambda: lambda x: F.normalize(x, p=1, dim=1), lambda t, x: x / t.scale(x.abs().sum(1, keepdim=True))),
    *(
        Case(f"by-hand-{style}", lambda s=style: lambda x: by_hand(x, s), lambda t, x, s=style: by_hand_twin(t, x, s))
        for style in ("rsqrt", "sqrt", "var", "std", "power", "reciprocal", "one_over", "rms", "length", "vector_norm")
    ),
    # --- activations and gates
    *(
        activation(name, function)
        for name, function in {
            "gelu": F.gelu,
            "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
            "silu": F.silu,
            "relu": F.relu,
            "torch.relu": torch.relu,
            "method-relu": lambda x: x.relu(),
            "relu6": F.relu6,
            "leaky_relu": F.leaky_relu,
            "elu": F.elu,
            "selu": F.selu,
            "celu": F.celu,
            "mish": F.mish,
            "hardswish": F.hardswish,
            "hardtanh": F.hardtanh,
            "softsign": F.softsign,
            "tanh": torch.tanh,
            "method-tanh": lambda x: x.tanh(),
            "erf": torch.erf,
        }.items()
    ),
    Case(
        "prelu",
        lambda: With(F.prelu, weight=torch.tensor([0.2], dtype=torch.float64)),
        lambda t, x: t.act(lambda y: F.leaky_relu(y, 0.2), x),
    ),
    Case("square", lambda: lambda x: x**2, lambda t, x: t.power(x, 2)),
    Case("cube", lambda: lambda x: torch.pow(x, 3), lambda t, x: t.power(x, 3)),
    Case("inplace-silu", lambda: lambda x: F.silu(x * 1.0, inplace=True), lambda t, x: t.act(F.silu, x)),
    Case("quick-gelu", lambda: lambda x: x * torch.sigmoid(1.702 * x), lambda t, x: t.gated(x, torch.sigmoid(1.702 * x))),
    Case("gelu-new", lambda: gelu_new, lambda t, x: t.gated(0.5 * x, 1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    Case("gelu-by-erf", lambda: gelu_by_erf, lambda t, x: t.gated(0.5 * x, 1 + torch.erf(x / math.sqrt(2)))),
    Case("glu", lambda: F.glu, lambda t, x: t.gated(x[..., :3], torch.sigmoid(x[..., 3:]))),
    Case("glu-dim", lambda: lambda x: F.glu(x[:, :4], dim=1), lambda t, x: t.gated(x[:, :2], torch.sigmoid(x[:, 2:4]))),
    Case("swiglu", lambda: lambda x: F.silu(x @ W) * (x @ W.mT), lambda t, x: t.mul(t.act(F.silu, x @ W), x @ W.mT)),
    Case("geglu", lambda: lambda x: (x @ W) * F.gelu(x), lambda t, x: t.mul(x @ W, t.act(F.gelu, x))),
    # --- sums and products
    same("plus-path", lambda x: x + x @ W),
    same("plus-constant", lambda x: x + C),
    same("plus-number", lambda x: x + 2),
    same("number-plus", lambda x: 2 + x),
    same("plus-broadcast", lambda x: x[:, :1] + x),
    same("add-alpha", lambda x: torch.add(x, x @ W, alpha=0.3)),
    same("add-alpha-constant", lambda x: torch.add(C, x, alpha=-2)),
    same("minus-path", lambda x: x - x @ W),
    same("minus-constant", lambda x: x - C),
    same("constant-minus", lambda x: C - x),
    same("number-minus", lambda x: 1.5 - x),
    same("sub-alpha", lambda x: torch.sub(x, x @ W, alpha=0.3)),
    same("rsub", lambda x: torch.rsub(x, C)),
    same("times-number", lambda x: x * -2.5),
    same("number-times", lambda x: 3 * x),
    same("times-constant", lambda x: x * C),
    same("constant-times-grows", lambda x: x[:, :1] * C),
    same("negative", lambda x: -x),
    same("torch.neg", torch.neg),
    same("over-number", lambda x: x / 3),
    same("over-constant", lambda x: torch.div(x, C)),
    same("true-divide", lambda x: torch.true_divide(x, C)),
    Case("product", lambda: lambda x: x * (x @ W), lambda t, x: t.mul(x, x @ W)),
    Case("product-broadcast", lambda: lambda x: torch.mul(x, x[:, :1]), lambda t, x: t.mul(x, x[:, :1].expand_as(x))),
    Case("quotient", lambda: lambda x: (x @ W) / (x.abs() + 1).detach(), None),
    same("mean", lambda x: x.mean(1)),
    same("mean-keepdim", lambda x: torch.mean(x, dim=-1, keepdim=True)),
    same("mean-dims", lambda x: x.mean((1, 2))[:, None]),
    same("mean-axis", lambda x: x.mean(axis=1)),
    same("mean-all", lambda x: torch.stack([r.mean() for r in x])[:, None]),
    same("sum", lambda x: x.sum(1)),
    same("sum-negative-dim", lambda x: torch.sum(x, -1)),
    same("sum-axis", lambda x: torch.sum(x, axis=2)),
    same("sum-dims", lambda x: x.sum(dim=(1, -1), keepdim=True)),
    same("sum-all", lambda x: torch.stack([r.sum() for r in x])[:, None]),
    same("sum-dtype", lambda x: x.sum(1, dtype=torch.float64)),
    # --- pooling
    same("avg_pool1d", lambda x: F.avg_pool1d(x, 3, stride=2, padding=1)),
    same("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), stride=2, ceil_mode=True), x=MAP),
    same("avg_pool2d-padded", lambda x: F.avg_pool2d(x, 3, padding=1, count_include_pad=False), x=MAP),
    same("avg_pool3d", lambda x: F.avg_pool3d(x[:, None], 2).flatten(1), x=MAP),
    same("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4)),
    same("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x=MAP),
    same("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x[:, None], (2, 3, 1)), x=MAP),
    same("nn.AdaptiveAvgPool2d", nn.AdaptiveAvgPool2d(1), x=MAP),
    same("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), x=MAP),
    same("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), x=MAP),
    same("unfold-fold", lambda x: F.fold(F.unfold(x, 3, padding=1), (7, 6), 3, padding=1), x=MAP),
    # --- in place
    same("add_", in_place(lambda y: y.add_(C))),
    same("add_-alpha", in_place(lambda y: y.add_(C, alpha=0.5))),
    same("sub_", in_place(lambda y: y.sub_(C))),
    same("mul_", in_place(lambda y: y.mul_(C))),
    same("div_", in_place(lambda y: y.div_(2))),
    same("iadd", in_place(iadd)),
    same("iadd-part", in_place(iadd_part)),
    same("isub", in_place(isub)),
    same("imul", in_place(imul)),
    same("idiv", in_place(idiv)),
    same("iadd-through-a-view", in_place(through_a_view)),
    Case("relu_", lambda: in_place(lambda y: y.relu_()), lambda t, x: t.act(F.relu, x)),
    Case("relu-inplace", lambda: in_place(lambda y: F.relu(y, inplace=True)), lambda t, x: t.act(F.relu, x)),
    Case("tanh_", lambda: in_place(lambda y: y.tanh_()), lambda t, x: t.act(torch.tanh, x)),
    same("setitem", in_place(lambda y: y.__setitem__((slice(None), 0), C[0]))),
    same("masked_fill_", in_place(lambda y: y.masked_fill_(C > 0, 0.0))),
    # --- moving numbers
    same("reshape", lambda x: x.reshape(B, -1).view(B, D, S).permute(0, 2, 1).contiguous().transpose(1, 2)),
    same("cat", lambda x: torch.cat([x[:, :2], C.expand(B, -1, -1), x.flip(1)], 1)),
    same("stack", lambda x: torch.stack([x, C.expand(B, -1, -1), x.flip(1)], 1)),
    same("chunks", lambda x: torch.stack([*x.chunk(2, -1), *x.split([1, 2, 3], -1)[2:]], 1)),
    same("roll", lambda x: x.roll(1, 1) + F.pad(x, (0, 0, 1, 0))[:, :-1]),
    same("where", lambda x: torch.where(C > 0, x, x @ W)),
]


def response_norm(x: Tensor) -> Tensor:
    length = x.norm(dim=1, keepdim=True)
    return torch.addcmul(V, V, x * (length / (length.mean(-1, keepdim=True) + 1e-6)))


def _response(x: Tensor) -> Tensor:
    length = x.square().sum(1, keepdim=True).sqrt()
    return length / (length.mean(-1, keepdim=True) + 1e-6)


def _batch_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    module = seeded(lambda: norm)
    module.running_mean = normal(norm.num_features, seed=8)
    module.running_var = normal(norm.num_features, seed=9).abs() + 0.1
    return module


def parametrised(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases])


def frozen(function: Function, trainable: bool) -> Function:
    if isinstance(function, nn.Module):
        function.requires_grad_(trainable)
    return function


def seed_for(recording: Recording) -> Tensor:
    return normal(*recording.logits.shape, seed=21)


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.detach(), theirs.detach(), **CLOSE)


@pytest.mark.parametrize("trainable", [True, False], ids=["trainable", "frozen"])
@parametrised(CASES)
def test_value_gradient_and_the_formula_of_each_rule(case: Case, trainable: bool) -> None:
    function = frozen(case.make(), trainable)
    recording = record(function, case.x)
    with torch.no_grad():
        assert_close(recording.logits, function(case.x).flatten(1))
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(function, case.x, seed))
    for rule in [RULES[name] for name in GRADIENT_RULES[1:]] + SINGLE:
        formula = function if case.twin is None else partial(case.twin, Twin(rule))
        x = case.x.detach().clone().requires_grad_()
        value = formula(x).flatten(1)
        assert_close(value, recording.logits)  # a rule never changes the value
        expected = torch.autograd.grad(value, x, seed)[0] if value.requires_grad else torch.zeros_like(x)
        torch.testing.assert_close(signal(recording, rule, seed), expected, **CLOSE, msg=lambda m, rule=rule: f"under {rule}: {m}")
        assert not recording.signals(rule, seed).unruled


def test_every_handler_is_in_the_table_of_cases() -> None:
    """Each function with a handler is called by some case, seen at the place where handlers are looked up."""
    seen: set[Any] = set()
    from explainers import recording as module

    original = module.handler_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "handler_of", lambda f: (seen.add(f), original(f))[1])
        for case in CASES:
            record(case.make(), case.x)
        for one in ALIASES:
            record(one, X)
    names = {getattr(f, "__qualname__", str(f)) for f in set(_HANDLERS) - seen - {F.tanh, F.sigmoid}}  # these two only call the method
    # torch sends x + y as Tensor.add, and so on: which spellings of an operator arrive at all is torch's own affair
    names = {name for name in names if not name.split(".")[-1].startswith("__")}
    assert not names


def names_in(function: Function) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_names


ALIASES: list[Function] = [
    lambda x: torch.relu_(x * 1.0),
    lambda x: F.relu_(x * 1.0),
    lambda x: torch.tanh_(x * 1.0),
    lambda x: torch.selu(x) + torch.celu(x) + F.rrelu(x),
    lambda x: torch.prelu(x, torch.tensor([0.1]).double()),
    lambda x: F.tanh(x) + x.erf() + x.sigmoid() + F.hardsigmoid(x),
    F.sigmoid,
    lambda x: x.add(C).sub(C).subtract(C).mul(C).multiply(2).div(C).divide(2).true_divide(3).neg().negative(),
    lambda x: torch.subtract(torch.multiply(torch.divide(x, 2), 2), torch.negative(x)),
    lambda x: x.matmul(W).flatten(0, 1).mm(W).view(B, S, D).bmm(W.expand(B, D, D)),
    lambda x: C.repeat(B, 1).addmm(x.flatten(0, 1), W).view_as(x) + torch.rms_norm(x, (D,)) + torch.layer_norm(x, (D,)),
    lambda x: x.square() + torch.square(x) + x.pow(2) + (x.abs() + 1).rsqrt() + torch.sqrt(x.abs() + 1) + torch.reciprocal(x.abs() + 1),
    lambda x: (
        x / torch.norm(x, dim=-1, keepdim=True)
        + x / torch.linalg.norm(x, dim=-1, keepdim=True)
        + torch.var(x, -1, keepdim=True)
        + torch.std(x, -1, keepdim=True)
    ),
    lambda x: torch.concat([x, x]).flatten(1)[:B] + torch.concatenate([C.expand(B, -1, -1), x], 1)[:, S:].flatten(1),
    lambda x: x.addcmul(C, x, value=0.5) + torch.addcmul(x, C, x),
    lambda x: F.max_pool3d(x[:, None], (1, 2, 2)).flatten(1) + F.adaptive_max_pool3d(x[:, None], (1, 2, 3)).flatten(1),
    lambda x: F.max_pool1d(x, 2).amax(1) + F.adaptive_max_pool1d(x, 3).amin(1) - torch.amax(x[..., :3], 1) * torch.amin(x[..., :3], 1),
    lambda x: x.max(1)[0] + torch.min(x, dim=1, keepdim=True).values[:, 0] + x.max(1, keepdim=True)[0][:, 0] + x.min(1).values,
    lambda x: torch.max(x, x @ W) + torch.max(x, 1)[0][:, None],
    lambda x: F.conv3d(x[:, None, None], W[None, None, None, :3, :3]).flatten(1),
    lambda x: x.__rmatmul__(C @ C.mT),
    lambda x: x.__rtruediv__(1.0) + x.__rsub__(1.0) + x.__radd__(1.0) + x.__rmul__(2.0),
    lambda x: x.__rdiv__(1.0) if hasattr(x, "__rdiv__") else x,
]


def test_the_other_spellings_of_functions_agree_with_torch_too() -> None:
    for function in ALIASES:
        torch.manual_seed(0)
        recording = record(function, X)
        if "rrelu" in names_in(function):
            continue  # in training it draws at random
        assert_close(recording.logits, function(X).flatten(1))
        seed = seed_for(recording)
        assert_close(signal(recording, RULES["gradient"], seed), autograd(function, X, seed))


def test_a_query_that_may_attend_nothing_gives_zero_and_no_nan() -> None:
    """As the fused kernel does, for boolean and for additive masks, in the value and in every rule."""
    mask = BOOLEAN.clone()
    mask[2] = False
    for given in (mask, torch.zeros(S, S).double().masked_fill(~mask, -torch.inf)):

        def function(x: Tensor, given: Tensor = given) -> Tensor:
            q, k, v = qkv(x)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=given).transpose(1, 2)

        recording = record(function, X)
        assert_close(recording.logits, function(X).flatten(1))
        assert not recording.logits.view(B, S, -1)[:, 2].any()
        for rule in RULES.values():
            assert bool(signal(recording, rule, seed_for(recording)).isfinite().all())
        seed = seed_for(recording)
        assert_close(signal(recording, RULES["gradient"], seed), autograd(function, X, seed))


def test_attention_maps_are_what_eager_attention_would_show() -> None:
    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=BOOLEAN).transpose(1, 2)

    recording = record(function, X)
    q, k, _ = qkv(X)
    expected = (q @ k.mT / math.sqrt(3)).masked_fill(~BOOLEAN, -torch.inf).softmax(-1)
    assert_close(recording.last_attention, expected)


def test_transformer_encoder_layer_of_torch() -> None:
    """It calls nn.MultiheadAttention, LayerNorm and ReLU, and has a fast path that must not be taken unseen."""
    layer = seeded(lambda: nn.TransformerEncoderLayer(D, 2, 8, batch_first=True, norm_first=True))
    recording = record(layer, X)
    with torch.no_grad():
        assert_close(recording.logits, layer(X).flatten(1))
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(layer, X, seed))


def test_gates_near_zero_take_the_slope_there() -> None:
    x = X.clone()
    x[0, 0] = 0.0
    x[0, 1] = 1e-9
    recording = record(F.gelu, x)
    ones = torch.ones_like(recording.logits)
    found = signal(recording, RULES["libra"], ones)
    assert_close(found[0, 0], torch.full((D,), 0.5).double())
    torch.testing.assert_close(found[0, 1], torch.full((D,), 0.5).double(), rtol=0, atol=1e-8)


# --- rules of relevance, operator by operator -----------------------------------------------------------------------


def dense_z_plus(x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """Eq. 5 pair by pair: weight (out, in)."""
    pairs = (x[..., None, :] * weight).clamp(min=0)  # (..., out, in)
    totals = pairs.sum(-1, keepdim=True)
    return (pairs / totals.masked_fill(totals == 0, torch.inf) * relevance[..., None]).sum(-2)


NEAR = {"rtol": 1e-6, "atol": 1e-7}  # the published stabiliser of 1e-9 in each denominator


@pytest.mark.parametrize("name", ["deep_taylor", "lrp"])
def test_relevance_of_a_linear_map_ignores_its_bias(name: str) -> None:
    layer = seeded(lambda: nn.Linear(D, 4))
    recording = record(layer, X)
    seed = seed_for(recording)
    relevance = seed.view(B, S, 4)
    weight = layer.weight.detach()
    if name == "deep_taylor":
        expected = dense_z_plus(X, weight, relevance)
    else:
        expected = dense_z_plus(X.clamp(min=0), weight, relevance) + dense_z_plus(X.clamp(max=0), weight, relevance)
    torch.testing.assert_close(signal(recording, RULES[name], seed), expected, **NEAR)


@parametrised(
    [
        c
        for c in CASES
        if c.name
        in {
            "layer_norm",
            "gelu",
            "nn.LayerNorm",
            "softmax",
            "tanh",
            "times-number",
            "negative",
            "rms_norm",
            "normalize",
            "batch_norm",
            "quick-gelu",
            "gelu-new",
            "gelu-by-erf",
            "glu",
            "by-hand-rsqrt",
        }
    ]
)
@pytest.mark.parametrize("name", ["deep_taylor", "lrp"])
def test_relevance_passes_norms_activations_and_gates_unchanged_or_whole(case: Case, name: str) -> None:
    recording = record(case.make(), case.x)
    seed = seed_for(recording)
    found = signal(recording, RULES[name], seed)
    if case.name == "glu":
        expected = torch.cat([seed.view(B, S, 3), torch.zeros(B, S, 3)], -1)
    elif case.name == "by-hand-rsqrt":  # the centring is a sum of two paths, which relevance is conserved through
        torch.testing.assert_close(found.sum((1, 2)), seed.sum(1), **NEAR)
        return
    else:
        expected = seed.view(B, S, D)
    assert_close(found, expected.to(found.dtype))


def test_relevance_of_attention_is_a_quarter_a_quarter_and_a_half() -> None:
    """Queries and keys get a quarter each, values half (methods.md 4.2)."""
    parts: dict[str, Tensor] = {}

    def function(x: Tensor) -> Tensor:
        q, k, v = (t * 1.0 for t in qkv(x))
        for name, t in zip("qkv", (q, k, v), strict=True):
            t.register_hook(lambda signal, name=name: parts.__setitem__(name, signal.sum((1, 2, 3))))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)

    recording = record(function, X)
    seed = seed_for(recording)
    signal(recording, RULES["deep_taylor"], seed)
    total = seed.sum(1)
    for name, share in {"q": 0.25, "k": 0.25, "v": 0.5}.items():
        torch.testing.assert_close(parts[name], share * total, rtol=1e-5, atol=1e-6)


def test_relevance_of_a_sum_under_both_rules() -> None:
    recording = record(lambda x: x + x @ W, X)
    seed = seed_for(recording)
    u, v, r = X, X @ W, seed.view(B, S, D)
    r_u, r_v = u * r / (u + v), v * r / (u + v)
    expected = r_u + dense_z_plus(X.clamp(min=0), W.mT, r_v) + dense_z_plus(X.clamp(max=0), W.mT, r_v)
    torch.testing.assert_close(signal(recording, RULES["lrp"], seed), expected, rtol=1e-5, atol=1e-5)
    for sample in range(B):
        a, b, total = r_u[sample].sum(), r_v[sample].sum(), r[sample].sum()
        r_u[sample] *= a.abs() / (a.abs() + b.abs()) * total / a
        r_v[sample] *= b.abs() / (a.abs() + b.abs()) * total / b
    expected = r_u + dense_z_plus(X, W.mT, r_v)
    torch.testing.assert_close(signal(recording, RULES["deep_taylor"], seed), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["deep_taylor", "lrp"])
def test_a_constant_takes_no_relevance(name: str) -> None:
    recording = record(lambda x: (x + C) * 2 - 1, X)
    seed = seed_for(recording)
    assert_close(signal(recording, RULES[name], seed), seed.view(B, S, D))


def test_relevance_of_a_product_of_two_paths_is_half_each() -> None:
    shares: list[Tensor] = []

    def function(x: Tensor) -> Tensor:
        a, b = x * 1.0, x @ W
        for t in (a, b):
            t.register_hook(shares.append)
        return a * b

    recording = record(function, X)
    seed = seed_for(recording)
    signal(recording, RULES["deep_taylor"], seed)
    assert_close(shares[0], seed.view(B, S, D) / 2)
    assert_close(shares[1], seed.view(B, S, D) / 2)

"""Rows of the table of operators: maps and norms whose weights or biases depend on the input, as in hypernetworks and adaptive norms.

Such a weight counts as the second factor of a product, such a bias as the second operand of a sum.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.case import MAP, C, Case, D, S, V, W, X, normal

ONE, ONE_MAP = X[:1], MAP[:1]
FIXED = normal(1, S, D, seed=71)


def kernels(x: Tensor) -> Tensor:
    """Filters (2, S, 3) for sequences of S channels: numbers of x in other places."""
    return x[0].unflatten(1, (2, 3)).transpose(0, 1)


def seen_by(x: Tensor, padding: int) -> Tensor:
    """What each place of a convolution with three taps sees: (B, places, S * 3)."""
    x = F.pad(x, (padding, padding))
    return torch.stack([x[..., i : i + 3].flatten(1) for i in range(x.shape[-1] - 2)], 1)


def conv1d_twin(t: Twin, x: Tensor) -> Tensor:
    return t.add(t.by_data(seen_by(x, 1), kernels(x).flatten(1).mT).mT, x[0, :2, :1])


def grouped_kernels(x: Tensor) -> Tensor:
    """Filters (6, 2, 3, 2) for two groups of the channels of MAP."""
    return x[0, :, :, :6].flatten()[:72].view(6, 2, 3, 2)


def grouped_twin(t: Twin, x: Tensor) -> Tensor:
    """Each group on its own: its channels unfolded, times its filters."""
    groups = zip(x.chunk(2, 1), grouped_kernels(x).chunk(2), strict=True)
    return torch.cat(
        [t.by_data(F.unfold(part, (3, 2), (1, 2), 1, (2, 1)).mT, w.flatten(1).mT).mT for part, w in groups],
        1,
    ).unflatten(-1, (4, 6))


def transposed_twin(t: Twin, x: Tensor) -> Tensor:
    """Each number of x times its filter (S, 2, 3), added up where it falls: two steps apart."""
    falls = t.by_data(x.mT, kernels(x).transpose(0, 1).flatten(1)).unflatten(-1, (2, 3))  # (1, D, 2, 3)

    def added(y: Tensor) -> Tensor:
        out = y.new_zeros(1, 2, 2 * D + 1)
        for place in range(D):
            spread = torch.zeros(3, 2 * D + 1, dtype=y.dtype)
            spread[range(3), range(2 * place, 2 * place + 3)] = 1
            out = out + y[:, place] @ spread
        return out

    return t.add(t.pool(added, falls), x[0, :2, :1])


def norm_twin(t: Twin, x: Tensor) -> Tensor:
    return t.add(t.mul(t.layer_norm(x), x[0, 0]), x[0, 1])


def grouped_norm_twin(t: Twin, x: Tensor) -> Tensor:
    normed = t.layer_norm(x.reshape(len(x), 2, -1), eps=1e-3).view_as(x)
    return t.add(t.mul(normed, x[0, :, :1, :1]), x[0, :, 1:2, 1:2])


def batch_norm_twin(t: Twin, x: Tensor) -> Tensor:
    mean, variance = C[:, 0], C[:, 1].abs()
    normed = t.stays(lambda y: (y - mean[:, None]) / (variance[:, None] + 1e-3).sqrt(), x)
    return t.add(t.mul(normed, x[0, :, :1]), x[0, :, 1:2])


def root_twin(t: Twin, x: Tensor) -> Tensor:
    return t.mul(t.scaled(x, (x.square().mean(-1, keepdim=True) + 1e-3) ** -0.5), x[0, 0])


def weigh_by_linear(x: Tensor) -> Tensor:
    """Attention written as a linear layer of its weights, whose weight are the values."""
    return F.linear((x[0] @ x[0].mT).softmax(-1), x[0].mT)[None]


def weigh_by_convolution(x: Tensor) -> Tensor:
    """Attention written as a convolution of the values, whose filters are its weights."""
    return F.conv1d(x, (x[0] @ x[0].mT).softmax(-1)[..., None])


def weigh_twin(t: Twin, x: Tensor) -> Tensor:
    return t.matmul(t.softmax(t.matmul(x, x.mT)), x)


def prelu_twin(t: Twin, x: Tensor) -> Tensor:
    below = t.times(t.mul(t.act(torch.relu, t.times(x, -1)), x[0, :, :1]), -1)
    return torch.where(x > 0, t.act(torch.relu, x), below)


def in_weights(x: Tensor) -> Tensor:
    """Weights (3 D, D) of queries, keys and values."""
    return x[0].repeat(4, 1)[: 3 * D]


def multi_head(x: Tensor) -> Tensor:
    tokens, bias = x.transpose(0, 1), x[0, :3].flatten()
    given = (in_weights(x), bias, None, None, False, 0.0, x[0].repeat(2, 1)[:D], x[0, 3])
    return F.multi_head_attention_forward(tokens, tokens, tokens, D, 1, *given, need_weights=False)[0].transpose(0, 1)


def multi_head_twin(t: Twin, x: Tensor) -> Tensor:
    q, k, v = (t.add(t.by_data(x, w.mT), b) for w, b in zip(in_weights(x).chunk(3), x[0, :3], strict=True))
    return t.add(t.by_data(t.attend(q, k, v), x[0].repeat(2, 1)[:D].mT), x[0, 3])


def two_made_weights(x: Tensor) -> Tensor:
    """Two linear layers whose weights (D, 3) and (3, 3) are made from the data."""
    return x @ x[:, :3].mT @ x[:, :3, :3]


CASES = [
    Case("matmul-data-made-twice", lambda: two_made_weights, lambda t, x: t.by_data(t.by_data(x, x[:, :3].mT), x[:, :3, :3])),
    Case(
        "baddbmm-data-made",
        lambda: lambda x: torch.baddbmm(x[..., :3], x, x[:, :3].mT),
        lambda t, x: t.add(x[..., :3], t.by_data(x, x[:, :3].mT)),
    ),
    Case("conv1d-data-made", lambda: lambda x: F.conv1d(x, kernels(x), x[0, :2, 0], padding=1), conv1d_twin, ONE),
    Case("conv1d-data-made-same", lambda: lambda x: F.conv1d(x, kernels(x), x[0, :2, 0], padding="same"), conv1d_twin, ONE),
    Case("conv1d-data-made-no-batch", lambda: lambda x: F.conv1d(x[0], kernels(x), x[0, :2, 0], padding=1)[None], conv1d_twin, ONE),
    Case(
        "conv1d-data-made-weight-alone",
        lambda: lambda x: F.conv1d(FIXED, kernels(x), V[:2]),
        lambda t, x: t.plus(t.linear(lambda w: F.conv1d(FIXED, w), kernels(x), "convolution"), V[:2, None]),
        ONE,
    ),
    Case(
        "conv1d-data-made-bias-alone",
        lambda: lambda x: F.conv1d(x, normal(D, S, 1, seed=72), x[0, 1]),
        lambda t, x: t.add(t.linear(lambda y: normal(D, S, 1, seed=72)[..., 0] @ y, x), x[0, 1][:, None]),
        ONE,
    ),
    Case(
        "conv2d-data-made-groups",
        lambda: lambda x: F.conv2d(x, grouped_kernels(x), stride=(2, 1), padding=1, dilation=(1, 2), groups=2),
        grouped_twin,
        ONE_MAP,
    ),
    Case(
        "conv3d-data-made",
        lambda: lambda x: F.conv3d(x[:, :, None, None], kernels(x)[:, :, None, None], x[0, :2, 0], padding=(0, 0, 1)).flatten(1),
        lambda t, x: conv1d_twin(t, x).flatten(1),
        ONE,
    ),
    Case(
        "conv_transpose1d-data-made",
        lambda: lambda x: F.conv_transpose1d(x, kernels(x).transpose(0, 1), x[0, :2, 0], stride=2),
        transposed_twin,
        ONE,
    ),
    Case(
        "conv_transpose1d-data-made-no-batch",
        lambda: lambda x: F.conv_transpose1d(x[0], kernels(x).transpose(0, 1), x[0, :2, 0], stride=2)[None],
        transposed_twin,
        ONE,
    ),
    Case(
        "linear-data-made-bias-alone",
        lambda: lambda x: F.linear(x, W, x[0, 1]),
        lambda t, x: t.add(t.linear(lambda y: y @ W.mT, x), x[0, 1]),
        ONE,
    ),
    Case(
        "linear-data-made-bias-of-constants",
        lambda: lambda x: F.linear(FIXED, W, x[0, 1]),
        lambda t, x: t.plus(x[0, 1], FIXED @ W.mT),
        ONE,
    ),
    Case(
        "linear-data-made-weight-alone",
        lambda: lambda x: F.linear(FIXED[0], x[0], C[:, 0])[None],
        lambda t, x: t.plus(t.linear(lambda w: FIXED[0] @ w.mT, x[0]), C[:, 0])[None],
        ONE,
    ),
    Case("linear-of-attention-weights", lambda: weigh_by_linear, weigh_twin, ONE),
    Case("conv1d-by-attention-weights", lambda: weigh_by_convolution, weigh_twin, ONE),
    Case("layer_norm-data-made", lambda: lambda x: F.layer_norm(x, (D,), x[0, 0], x[0, 1]), norm_twin, ONE),
    Case("torch.layer_norm-data-made", lambda: lambda x: torch.layer_norm(x, (D,), x[0, 0], x[0, 1]), norm_twin, ONE),
    Case(
        "layer_norm-data-made-bias-alone",
        lambda: lambda x: F.layer_norm(x, (D,), V, x[0, 1]),
        lambda t, x: t.add(t.times(t.layer_norm(x), V), x[0, 1]),
        ONE,
    ),
    Case(
        "layer_norm-data-made-weight-alone",
        lambda: lambda x: F.layer_norm(FIXED, (D,), x[0, 0], V),
        lambda t, x: t.plus(t.times(x[0, 0], F.layer_norm(FIXED, (D,))), V),
        ONE,
    ),
    Case("rms_norm-data-made", lambda: lambda x: F.rms_norm(x, (D,), x[0, 0], 1e-3), root_twin, ONE),
    Case(
        "group_norm-data-made",
        lambda: lambda x: F.group_norm(x, 2, x[0, :, 0, 0], x[0, :, 1, 1], 1e-3),
        grouped_norm_twin,
        ONE_MAP,
    ),
    Case(
        "batch_norm-data-made",
        lambda: lambda x: F.batch_norm(x, C[:, 0], C[:, 1].abs(), x[0, :, 0], x[0, :, 1], eps=1e-3),
        batch_norm_twin,
        ONE,
    ),
    Case("prelu-data-made", lambda: lambda x: F.prelu(x, x[0, :, 0]), prelu_twin, ONE),
    Case("mha-data-made", lambda: multi_head, multi_head_twin, ONE),
]

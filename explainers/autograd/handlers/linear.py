"""Linear maps and matrix products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor
from torch.nn import functional as F
from torch.nn import grad

from explainers.autograd import operators as op
from explainers.autograd.dispatch import TorchFunction, call_through, handles, linear_function, role
from explainers.autograd.handlers.elementwise import add, are_weights_without_softmax, may_write, mul
from explainers.autograd.nodes import Role
from explainers.autograd.products import are_curved_scores, are_mixed_weights, factor, product_of
from explainers.autograd.recorder import Recorder
from explainers.autograd.rules.operands import BilinearMap, LinearMapRole
from explainers.models import matrix_products

#: What a linear map is to a rule, by the role of what it takes.
_LINEAR_MAPS: dict[Role | None, LinearMapRole] = {Role.PIXELS: "pixels", Role.CONTEXT: "attention", Role.UNNORMALISED: "attention"}
#: By how much sums of attention weights over the keys may miss 1 by rounding.
_ROUNDING_OF_SUM = 1e-3


def role_of(rec: Recorder, x: Tensor) -> LinearMapRole:
    """Return the role of a linear map from the role of its input ``x``: "attention" if attention gave ``x``; None if it has no role."""
    return _LINEAR_MAPS.get(role(rec, x))


def _map(
    rec: Recorder, x: Tensor, weight: Tensor, bias: Tensor | None, forward: BilinearMap, backward: BilinearMap, gives: Role | None = None
) -> Tensor:
    """Apply the linear map ``forward(x, weight)`` plus ``bias``, record it and return its output, which has the role ``gives``. The role of
    ``x`` decides how rules treat the map; ``backward`` is its transpose.
    """
    what = role_of(rec, x)
    out = rec.run(op.LinearMap, x, weight, bias, forward, backward, what, role=gives)
    if what == "pixels":
        op.note_padding(out, x, rec.starts)
    return out


@handles(F.linear)
def linear(rec: Recorder, func: TorchFunction, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute the linear map x W^T + b of ``input`` x by ``weight`` W and ``bias`` b, record it and return the result; weight and bias may
    depend on the input too.
    """
    if weight.dim() == 1 and bias is None and (rec.active(input) or rec.active(weight)):  # one output without an axis of its own
        whole = linear(rec, func, input, rec.nodes.move(weight[None], weight) if rec.active(weight) else weight[None])
        return rec.nodes.move(whole.squeeze(-1), whole, role(rec, whole))
    if bias is not None and (rec.active(weight) or rec.active(bias)):
        return add(rec, torch.add, linear(rec, func, input, weight), bias)
    if rec.active(weight):
        turned = rec.nodes.move(weight.mT, weight, role(rec, weight))
        return _dynamic(rec, input, turned) if input.dim() > 1 else matmul(rec, torch.matmul, input, turned)
    if not rec.active(input):
        return func(input, weight, bias)
    if role(rec, input) != Role.WEIGHTS:
        return _map(rec, input, weight, bias, matrix_products.linear, matrix_products.matmul)
    # over the heads of attention weights: a constant there is no additive term of the tokens
    out = rec.run(op.LinearMap, input, weight, None, matrix_products.linear, matrix_products.matmul, None, role=Role.WEIGHTS)
    return out if bias is None else add(rec, torch.add, out, bias)


def _is_unmarked(rec: Recorder, x: Tensor) -> bool:
    """Return whether ``x``, a factor of a matrix product, is made of attention weights without being marked as such."""
    return rec.active(x) and role(rec, x) is None and are_mixed_weights(rec.nodes.of(x))


def _as_weights(rec: Recorder, x: Tensor) -> Tensor:
    """Return ``x``, a factor of a matrix product, marked as attention weights if it is made of such; else unchanged."""
    return rec.run(op.Weights, x, role=Role.WEIGHTS) if _is_unmarked(rec, x) else x


def _stay_weights(rec: Recorder, path: Tensor, rows: Tensor, axis: int) -> bool:
    """Return whether the product of ``path`` along an ``axis`` with a constant, whose outputs have the weights ``rows`` (..., outputs,
    inputs), is attention weights: if they are such, and heads are mixed, or queries or keys are, as many of them as before. Else the
    constant may be values, as of another input than the one that is explained.
    """
    if role(rec, path) != Role.WEIGHTS and not _is_unmarked(rec, path):
        return False
    if rows.shape[-1] == rows.shape[-2]:
        return True
    running = rec.nodes.running
    if running is None or rows.shape[-1] == running.input.shape[1]:
        return False
    is_over_keys = bool((path.detach().sum(axis) - 1).abs().max() < _ROUNDING_OF_SUM)
    return not is_over_keys


def _weights_without_softmax(rec: Recorder, x: Tensor, other: Tensor) -> int | None:
    """Return which factor of ``x`` @ ``other``, a matrix product of two paths, is attention weights that no softmax made: 0 or 1; None if
    none is. The second factor is where it has a row and a column for each token, unlike a weight that is made of keys and values.
    """
    if are_weights_without_softmax(rec, x, x.shape):
        return 0
    running = rec.nodes.running
    tokens = None if running is None else running.input.shape[1]
    is_of_tokens = x.shape[-2] != tokens and other.shape[-2:] == (tokens, tokens)
    return 1 if is_of_tokens and role(rec, x) != Role.WEIGHTS and are_weights_without_softmax(rec, other, other.shape) else None


def _dynamic(rec: Recorder, x: Tensor, weight: Tensor, operator: type[op.DynamicLinear] = op.DynamicLinear) -> Tensor:
    """Compute x @ W for a ``weight`` W that depends on the input, record it as ``operator`` and return it; attention weights among the two
    make it the product of attention.
    """
    x, weight = (_as_weights(rec, each) for each in (x, weight))
    is_attention = {Role.WEIGHTS, Role.CURVED, Role.SCORES} & {role(rec, x), role(rec, weight)} or are_curved_scores(rec.nodes.of(x))
    if rec.active(x) and not is_attention:
        return rec.run(operator, x, weight)
    return matmul(rec, torch.matmul, x, weight)


@handles(torch.addmm, Tensor.addmm)
def addmm(rec: Recorder, func: TorchFunction, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Compute beta ``input`` + alpha ``mat1`` @ ``mat2``, record it and return it."""
    if rec.active(mat1) and not (rec.active(mat2) or rec.active(input)):
        scaled = (mat2, input) if beta == alpha == 1 else (mat2 * alpha, input * beta)
        return _map(rec, mat1, scaled[0].mT, scaled[1], matrix_products.linear, matrix_products.matmul)
    product = matmul(rec, torch.matmul, mat1, mat2)
    return add(rec, torch.add, mul(rec, torch.mul, product, alpha), mul(rec, torch.mul, input, beta))


@handles(torch.baddbmm, Tensor.baddbmm)
def _baddbmm(
    rec: Recorder, func: TorchFunction, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Compute beta ``input`` + alpha ``batch1`` @ ``batch2``, such as products of queries and keys plus the constant of ALiBi; record it
    and return it.
    """
    product = matmul(rec, torch.bmm, batch1, batch2)
    if alpha != 1:
        product = mul(rec, torch.mul, product, alpha)
    return product if beta == 0 else add(rec, torch.add, product, input if beta == 1 else mul(rec, torch.mul, input, beta))


@handles(getattr(torch, "_grouped_mm", None), getattr(F, "grouped_mm", None))
def _grouped_mm(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Multiply the rows of ``input`` (S, D), sorted by expert, by the matrix of their expert in ``mat2`` (experts, D, E); record it and
    return the products (S, E). ``offs`` is the end of each expert's rows.
    """
    if not rec.active(input) or rec.active(mat2) or offs is None or input.dim() != 2 or mat2.dim() != 3 or bias is not None:
        return call_through(rec, func, (input, mat2), {"offs": offs, "bias": bias, "out_dtype": out_dtype})
    ends = offs.tolist()
    groups = [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]

    def by_expert(signal: Tensor, weights: Tensor) -> Tensor:
        parts = [signal[rows] @ weight for rows, weight in zip(groups, weights, strict=True)]
        return torch.cat([*parts, signal.new_zeros(len(signal) - ends[-1], weights.shape[-1])])

    out = rec.run(op.LinearMap, input, mat2, None, by_expert, lambda signal, weights: by_expert(signal, weights.mT), None)
    return out if out_dtype is None else out.to(out_dtype)


@handles(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm)
def matmul(rec: Recorder, func: TorchFunction, input: Tensor, other: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Compute the matrix product ``input`` @ ``other`` of two paths, or of a path and a constant; record it and return it."""
    other = kwargs.pop("mat2", other)
    assert other is not None
    if kwargs or not (rec.active(input) or rec.active(other)):  # such as a type of its own for the sums
        out: Tensor = call_through(rec, func, (input, other), kwargs)
        return out
    if input.dim() < 2 or other.dim() < 2:  # a vector: give it the missing dimension, and take it away again
        left = rec.nodes.move(input.unsqueeze(0), input) if input.dim() == 1 else input
        right = rec.nodes.move(other.unsqueeze(-1), other) if other.dim() == 1 else other
        out = matmul(rec, func, left, right)
        out = out.squeeze(-1) if other.dim() == 1 else out
        return out.squeeze(-2 if other.dim() > 1 else -1) if input.dim() == 1 else out
    if rec.active(input) and rec.active(other):
        if any(_is_unmarked(rec, each) for each in (input, other)):
            return matmul(rec, func, *(_as_weights(rec, each) for each in (input, other)))
        side = _weights_without_softmax(rec, input, other)
        if side is not None:
            factors = [rec.run(op.Weights, x, role=Role.WEIGHTS) if i == side else x for i, x in enumerate((input, other))]
            return matmul(rec, func, *factors)
        inner = product_of(rec.nodes.of(other))
        if inner is not None and input.shape[-2] == inner[0].shape[-1]:  # as many queries as keys: linear attention
            (key, value), times = inner, factor(rec.nodes.of(other))
            key = key if times == 1 else mul(rec, torch.mul, key, times)
            return rec.run(op.LinearAttention, input, key, value, other if rec.is_own_code else other.detach(), role=Role.UNNORMALISED)
        roles = (role(rec, input), role(rec, other))
        return rec.run(op.MatMul, input, other, role=Role.CONTEXT if Role.WEIGHTS in roles else Role.SCORES)
    path, rows = (input, other.mT) if rec.active(input) else (other, input)
    if _stay_weights(rec, path, rows, -1 if path is input else -2):
        marked = _as_weights(rec, path)
        if path is input:
            return rec.run(op.LinearMap, marked, other, None, torch.matmul, _unmatmul_left(path.shape), None, role=Role.WEIGHTS)
        return rec.run(op.LinearMap, marked, rows, None, op.swapped, _unmatmul_right(path.shape), None, role=Role.WEIGHTS)
    if role(rec, path) is None and (input.dim() > 2 or other.dim() > 2) and joins_equally(rows):
        return rec.run(op.Pool, path, (lambda x: x @ rows.mT) if path is input else lambda x: rows @ x)
    if rec.active(input) and other.dim() > 2 and input.dim() >= other.dim() and _is_one_matrix(other):
        other = other[(0,) * (other.dim() - 2)]
    if rec.active(input) and other.dim() == 2 and role(rec, input) != Role.WEIGHTS:
        return _map(rec, input, other.mT, None, matrix_products.linear, matrix_products.matmul)
    if rec.active(input):
        return _map(rec, input, other, None, torch.matmul, _unmatmul_left(input.shape))
    turned = Role.TRANSPOSED if input.dim() == other.dim() == 2 else None
    return _map(rec, other, input, None, op.swapped, _unmatmul_right(other.shape), turned)


handles(Tensor.addmm_)(may_write(addmm, torch.addmm))
handles(Tensor.baddbmm_)(may_write(_baddbmm, torch.baddbmm))


@handles(Tensor.__rmatmul__)
def _rmatmul(rec: Recorder, func: TorchFunction, self: Tensor, other: Tensor) -> Tensor:
    return matmul(rec, torch.matmul, other, self)


def joins_equally(rows: Tensor) -> bool:
    """Return whether a constant matrix (..., outputs, inputs) only joins or selects numbers: whether those that an output joins have one
    positive weight, as where it stands for a mean, a sum, a pool or an index.
    """
    if not rows.numel():
        return False
    first = rows[(0,) * (rows.dim() - 1)]  # of most matrices the first output tells
    for weights in (first, rows):
        largest = weights.amax(-1, keepdim=True)
        if not bool(((weights == 0) | ((weights == largest) & (largest > 0))).all()):
            return False
    return bool((rows != 0).any())


def _is_one_matrix(matrices: Tensor) -> bool:
    """Return whether a stack of matrices holds a single one, perhaps expanded."""
    return all(size == 1 or step == 0 for size, step in zip(matrices.shape[:-2], matrices.stride()[:-2], strict=True))


def _unmatmul_left(shape: Size) -> BilinearMap:
    return lambda signal, w: (signal @ w.mT).sum_to_size(shape)


def _unmatmul_right(shape: Size) -> BilinearMap:
    return lambda signal, w: (w.mT @ signal).sum_to_size(shape)


def _per_side(setting: Any, weight: Tensor) -> tuple[int, ...]:
    """Return ``setting``, such as the dilation of a convolution with this ``weight``, as one number for each of its spatial dimensions."""
    sides = weight.dim() - 2
    return (setting,) * sides if isinstance(setting, int) else tuple(setting) * (sides // len(setting))


def _pad(input: Tensor, weight: Tensor, padding: str, dilation: Any) -> Tensor:
    """Return ``input``, the input of a convolution, with zeros added as ``padding`` says ("same" or "valid"). With this ``weight`` and
    ``dilation`` and no further padding the convolution then gives the same result.
    """
    if padding == "valid":
        return input
    total = [step * (side - 1) for step, side in zip(_per_side(dilation, weight), weight.shape[2:], strict=True)]
    return F.pad(input, [part for t in reversed(total) for part in (t // 2, t - t // 2)])


@handles(torch.conv1d, torch.conv2d, torch.conv3d)
def _conv(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    if not (rec.active(input) or rec.active(weight) or rec.active(bias)):
        return func(input, weight, bias, stride, padding, dilation, groups)
    if input.dim() < weight.dim() and (rec.active(weight) or rec.active(bias)):  # one map without an axis of samples
        batch = rec.nodes.move(input.unsqueeze(0), input, role(rec, input))
        batched: Tensor = _conv(rec, func, batch, weight, bias, stride, padding, dilation, groups)
        return rec.nodes.move(batched.squeeze(0), batched, role(rec, batched))
    if bias is not None and (rec.active(weight) or rec.active(bias)):
        out = _conv(rec, func, input, weight, None, stride, padding, dilation, groups)
        return add(rec, torch.add, out, rec.nodes.move(bias.view(-1, *[1] * (weight.dim() - 2)), bias))
    if not (rec.active(input) or rec.active(weight)):
        return func(input, weight, bias, stride, padding, dilation, groups)
    if isinstance(padding, str):
        sides = [(side - 1) * step for side, step in zip(weight.shape[2:], _per_side(dilation, weight), strict=True)]
        if padding == "same" and not any(side % 2 for side in sides):
            return _conv(rec, func, input, weight, bias, stride, [side // 2 for side in sides], dilation, groups)
        padded = rec.nodes.move(_pad(input, weight, padding, dilation), input, role(rec, input))
        return _conv(rec, func, padded, weight, bias, stride, 0, dilation, groups)
    if rec.active(weight):
        return _dynamic_conv(rec, input, weight, _per_side(stride, weight), _per_side(padding, weight), _per_side(dilation, weight), groups)
    transposes = {torch.conv1d: grad.conv1d_input, torch.conv2d: grad.conv2d_input, torch.conv3d: grad.conv3d_input}
    pull: TorchFunction = transposes[func]
    options, shape = (stride, padding, dilation, groups), input.shape

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return func(x, w, None, *options)

    def backward(signal: Tensor, w: Tensor) -> Tensor:
        return pull(shape, w.to(signal.dtype), signal, *options)  # under autocast they differ

    shaped = None if bias is None else bias.view(-1, *[1] * (weight.dim() - 2))
    if role(rec, input) != Role.WEIGHTS:
        return _map(rec, input, weight, shaped, forward, backward)
    # over the heads of attention weights, as in :func:`linear`
    out = rec.run(op.LinearMap, input, weight, None, forward, backward, None, role=Role.WEIGHTS)
    return out if shaped is None else add(rec, torch.add, out, shaped)


def _dynamic_conv(
    rec: Recorder,
    input: Tensor,
    weight: Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Tensor:
    """Compute a convolution whose ``weight`` (O, C / groups, ...) depends on the input, and return its output (B, O, ...): a matrix product
    of the weight with what each of its places sees, which is recorded as such.
    """
    sides = weight.shape[2:]
    places: list[int] = []

    def columns(x: Tensor) -> Tensor:  # (B, groups, places, C / groups * sides)
        x = F.pad(x, [side for width in reversed(padding) for side in (width, width)])
        for dim, (side, step, wide) in enumerate(zip(sides, stride, dilation, strict=True), 2):
            x = x.unfold(dim, wide * (side - 1) + 1, step)[..., ::wide]
        places[:] = x.shape[2 : 2 + len(sides)]
        seen: Tensor = x.unflatten(1, (groups, -1)).flatten(3, 2 + len(sides)).transpose(2, 3).flatten(3)
        return seen

    seen = rec.nodes.move(columns(input), input, role(rec, input))
    turned = weight.unflatten(0, (groups, -1)).flatten(2).mT  # (groups, C / groups * sides, O / groups)
    out = _dynamic(rec, seen, rec.nodes.move(turned, weight, role(rec, weight)), op.DynamicConvolution)
    return rec.nodes.move(out.mT.flatten(1, 2).unflatten(-1, places), out, role(rec, out))


@handles(torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)
def _conv_transpose(
    rec: Recorder,
    func: TorchFunction,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Compute a transposed convolution of ``input`` by ``weight`` with ``func``, record it as a linear map and return the result; the
    transpose of that map is the convolution. If the weight depends on the input, it is recorded as a matrix product with the weight and a
    sum of what falls on each place.
    """
    if not (rec.active(input) or rec.active(weight) or rec.active(bias)):
        return func(input, weight, bias, stride, padding, output_padding, groups, dilation)
    if input.dim() < weight.dim() and (rec.active(weight) or rec.active(bias)):  # one map without an axis of samples
        batch = rec.nodes.move(input.unsqueeze(0), input, role(rec, input))
        batched: Tensor = _conv_transpose(rec, func, batch, weight, bias, stride, padding, output_padding, groups, dilation)
        return rec.nodes.move(batched.squeeze(0), batched)
    if bias is not None and (rec.active(weight) or rec.active(bias)):
        out = _conv_transpose(rec, func, input, weight, None, stride, padding, output_padding, groups, dilation)
        return add(rec, torch.add, out, rec.nodes.move(bias.view(-1, *[1] * (weight.dim() - 2)), bias))
    if not (rec.active(input) or rec.active(weight)):
        return func(input, weight, bias, stride, padding, output_padding, groups, dilation)
    if rec.active(weight):
        rows = rec.nodes.move(input.flatten(2).unflatten(1, (groups, -1)).mT, input, role(rec, input))  # (B, groups, places, C / groups)
        by_group = rec.nodes.move(weight.unflatten(0, (groups, -1)).flatten(2), weight, role(rec, weight))
        product = _dynamic(rec, rows, by_group, op.DynamicConvolution)  # (B, groups, places, O / groups * sides)
        falls = rec.nodes.move(product.mT.flatten(1, 2).unflatten(-1, input.shape[2:]), product)
        channels, sides = groups * weight.shape[1], weight.shape[2:]
        one_hot = (
            torch.eye(sides.numel(), dtype=falls.dtype, device=falls.device).view(-1, 1, *sides).repeat(channels, *[1] * (1 + len(sides)))
        )
        added: Tensor = rec.run(op.Pool, falls, lambda x: func(x, one_hot, None, stride, padding, output_padding, channels, dilation))
        return added
    convolutions = {torch.conv_transpose1d: torch.conv1d, torch.conv_transpose2d: torch.conv2d, torch.conv_transpose3d: torch.conv3d}
    convolve: TorchFunction = convolutions[func]

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return func(x, w, None, stride, padding, output_padding, groups, dilation)

    def backward(signal: Tensor, w: Tensor) -> Tensor:
        return convolve(signal, w.to(signal.dtype), None, stride, padding, dilation, groups)  # under autocast they differ

    shaped = None if bias is None else bias.view(-1, *[1] * (weight.dim() - 2))
    return _map(rec, input, weight, shaped, forward, backward)


#: Linear in what they take, by weights of both signs that are nowhere a tensor.
_TRANSFORMS = (
    *(
        getattr(torch.fft, f"{back}{real}fft{more}")
        for back in ("", "i")
        for real in ("", "r", "h")
        for more in ("", "2", "n")
        if hasattr(torch.fft, f"{back}{real}fft{more}")
    ),
    torch.gradient,
    torch.complex,
    torch.view_as_complex,
    torch.view_as_real,
)
handles(*_TRANSFORMS)(linear_function)

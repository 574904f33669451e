"""Sums of products over named dimensions: ``torch.einsum``, and the functions that are one, as the matrix products that they are.

Each dimension has a label. Of two tensors, dimensions that both have and the output has not are contracted. Contracted, it is a matrix
product by the handler of ``torch.matmul``, or a linear layer by that of ``F.linear``; without, a product element by element. More than two
tensors are taken from left to right, two at a time, whichever order torch would find cheapest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import prod
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.dispatch import TorchFunction, call_through, handles, role, tensors_in
from explainers.autograd.handlers.elementwise import add, may_write, mul
from explainers.autograd.handlers.linear import addmm, joins_equally, linear, matmul
from explainers.autograd.handlers.pooling import total
from explainers.autograd.nodes import Role
from explainers.autograd.operators import Pool
from explainers.autograd.products import are_curved_scores
from explainers.autograd.recorder import Recorder

#: A label for each dimension of a tensor.
Labels = tuple[int, ...]


@handles(torch.einsum)
def _einsum(rec: Recorder, func: TorchFunction, *args: Any) -> Any:
    terms = _terms(args) if any(map(rec.active, tensors_in(args))) else None
    if terms is None:  # what is wrong with it, torch says
        return call_through(rec, func, args, {})
    return contract(rec, *terms)


def contract(rec: Recorder, operands: Sequence[Tensor], labels: Sequence[Labels], output: Labels) -> Tensor:
    """Multiply the ``operands`` and sum over every label that ``output`` lacks; return a tensor with the dimensions of ``output``.
    ``labels`` names the dimensions of each operand: dimensions with one label are multiplied together, as in ``torch.einsum``.
    """
    x, of_x = operands[0], labels[0]
    for i in range(1, len(operands)):
        later = {*output, *(label for others in labels[i + 1 :] for label in others)}
        kept = output if i == len(operands) - 1 else tuple(dict.fromkeys(label for label in (*of_x, *labels[i]) if label in later))
        x, of_x = _product(rec, x, of_x, operands[i], labels[i], kept), kept
    x, of_x = _reduce(rec, x, of_x, output)
    return _move(rec, x, lambda x: _align(x, of_x, output))


def _product(rec: Recorder, a: Tensor, of_a: Labels, b: Tensor, of_b: Labels, output: Labels) -> Tensor:
    """Multiply ``a`` and ``b``, sum over every label that ``output`` lacks, record it and return the product; ``of_a`` and ``of_b`` label
    their dimensions.
    """
    a, of_a = _reduce(rec, a, of_a, {*of_b, *output})
    b, of_b = _reduce(rec, b, of_b, {*of_a, *output})
    contracted = tuple(label for label in of_a if label in of_b and label not in output)
    if not contracted:
        first, second = (_move(rec, x, lambda x, of=of: _align(x, of, output)) for x, of in ((a, of_a), (b, of_b)))  # type: ignore[misc]
        product: Tensor = mul(rec, torch.mul, first, second)
        return product
    sizes = {label: size for x, of in ((a, of_a), (b, of_b)) for label, size in zip(of, x.shape, strict=True) if size != 1}
    a, b = (_move(rec, x, lambda x, of=of: _expand(x, of, {*of_a} & {*of_b}, sizes)) for x, of in ((a, of_a), (b, of_b)))  # type: ignore[misc]
    sizes = {**dict(zip(of_a, a.shape, strict=True)), **dict(zip(of_b, b.shape, strict=True))}
    both = rec.active(a) and rec.active(b)
    path, of_path, constant, of_constant = (a, of_a, b, of_b) if both or rec.active(a) else (b, of_b, a, of_a)
    own_path, own_constant = _labels_of_one_only(output, of_path, of_constant), _labels_of_one_only(output, of_constant, of_path)
    first_is_left = not (own_path and own_constant) or output.index(own_path[-1]) < output.index(own_constant[-1])
    shares = any(label in of_path and label in of_constant for label in output)
    over_keys = role(rec, path) == Role.WEIGHTS and contracted == of_path[-1:]  # else over heads, which it mixes
    if not both and own_path and not shares and not over_keys and (first_is_left or len(own_constant) > 1):
        return _layer(rec, path, of_path, constant, of_constant, output, sizes)
    if both and _weighs(rec, path, constant) is constant:
        path, of_path, constant, of_constant, first_is_left = constant, of_constant, path, of_path, True
    first_is_left = first_is_left or (both and _weighs(rec, path, constant) is path)
    left, right = ((path, of_path), (constant, of_constant))[:: 1 if first_is_left else -1]
    return _matrix_product(rec, left, right, contracted, output, sizes)


def _weighs(rec: Recorder, *tensors: Tensor) -> Tensor | None:
    """Return the first tensor that holds attention weights, which goes to the left of the matrix product; None if there is none."""
    return next((x for x in tensors if role(rec, x) in (Role.WEIGHTS, Role.CURVED) or are_curved_scores(rec.nodes.of(x))), None)


def _labels_of_one_only(output: Labels, labels: Labels, others: Labels) -> Labels:
    """Return the labels of the ``output`` that are among ``labels`` but not among ``others``."""
    return tuple(label for label in output if label in labels and label not in others)


def _layer(rec: Recorder, x: Tensor, of_x: Labels, weight: Tensor, of_weight: Labels, output: Labels, sizes: dict[int, int]) -> Tensor:
    """Apply a contraction of ``x`` with a constant ``weight`` as one linear layer, from the dimensions that are summed to those that only
    the weight has; return a tensor with the dimensions of ``output``. ``of_x`` and ``of_weight`` label the dimensions, ``sizes`` has the
    size of each label.
    """
    rows = tuple(label for label in of_x if label in output)
    inner = tuple(label for label in of_x if label not in output)
    outer = _labels_of_one_only(output, of_weight, of_x)

    def flat(tensor: Tensor, of: Labels, apart: Labels, together: Labels) -> Tensor:
        aligned = _align(tensor, of, (*apart, *together))
        return aligned if len(together) == 1 else aligned.flatten(len(apart)) if together else aligned.unsqueeze(-1)

    shaped = flat(weight, of_weight, (), (*outer, *inner)).reshape(prod(sizes[label] for label in outer), -1)
    rows_of_x = _move(rec, x, lambda x: flat(x, of_x, rows, inner))
    is_pool = role(rec, x) is None and joins_equally(shaped)
    y = rec.run(Pool, rows_of_x, lambda x: F.linear(x, shaped)) if is_pool else linear(rec, F.linear, rows_of_x, shaped)

    def unfolded(y: Tensor) -> Tensor:
        y = y if len(outer) == 1 else y.reshape(*y.shape[:-1], *(sizes[label] for label in outer))
        return _align(y, (*rows, *outer), output)

    return _move(rec, y, unfolded)


def _matrix_product(
    rec: Recorder,
    left: tuple[Tensor, Labels],
    right: tuple[Tensor, Labels],
    contracted: Labels,
    output: Labels,
    sizes: dict[int, int],
) -> Tensor:
    """Compute a contraction of two tensors, ``left`` and ``right``, each with its labels, as the matrix product left @ right with the batch
    dimensions in front; return a tensor with the dimensions of ``output``. ``contracted`` are the labels that are summed over, ``sizes``
    the length of each label.
    """
    (a, of_a), (b, of_b) = left, right
    both, weighs = rec.active(a) and rec.active(b), _weighs(rec, a) is not None
    rows, columns = _labels_of_one_only(of_a if weighs else output, of_a, of_b), _labels_of_one_only(output, of_b, of_a)
    over = set(output) & set(of_a) & set(of_b)  # and labels of one of the two, over which the other is repeated
    if not both:  # samples stay in front; the weight of what depends on the input is one matrix
        rows, columns = (_last(free, output) if rec.active(x) else free for x, free in ((a, rows), (b, columns)))
        over |= (set(of_a if rec.active(a) else of_b) & set(output)) - {*rows, *columns}
    elif weighs or len(columns) <= 1:
        over, rows = over | set(rows[:-1]), rows[-1:]
    elif len(rows) <= 1:
        over, columns = over | set(columns[:-1]), columns[-1:]
    batch = tuple(label for label in (*(of_a if weighs and both else output), *output) if label in over)
    batch = tuple(dict.fromkeys(batch))
    inner = tuple(label for label in of_a if label in contracted)

    def matrices(x: Tensor, of: Labels, high: Labels, wide: Labels) -> Tensor:
        aligned = _align(x, of, (*batch, *high, *wide))
        if both and not set(batch) <= set(of):
            aligned = aligned.expand(*(sizes[label] for label in batch), *aligned.shape[len(batch) :])
        if len(high) != 1 or len(wide) != 1:
            flat = (prod(sizes[label] for label in together) for together in (high, wide))
            aligned = aligned.reshape(*aligned.shape[: len(batch)], *flat)
        if not rec.active(x):  # a matrix for all samples is no stack of one
            aligned = aligned[(0,) * next((place for place, label in enumerate(batch) if label in of), len(batch))]
        return aligned

    first = _move(rec, a, lambda a: matrices(a, of_a, rows, inner))
    second = _move(rec, b, lambda b: matrices(b, of_b, inner, columns))
    y = matmul(rec, torch.matmul, first, second)

    def unfolded(y: Tensor) -> Tensor:
        if len(rows) != 1 or len(columns) != 1:
            y = y.reshape((*y.shape[: len(batch)], *(sizes[label] for label in (*rows, *columns))))
        return _align(y, (*batch, *rows, *columns), output)

    return _move(rec, y, unfolded)


def _last(free: Labels, output: Labels) -> Labels:
    """Return the last of the ``free`` labels of an operand as a tuple of one; empty if there is none, or if it is the first label of the
    output, as that of samples is.
    """
    return free[-1:] if free and free[-1] != output[0] else ()


def _move(rec: Recorder, x: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``move``, a function that only rearranges the numbers of ``x``, and return its result with the role of ``x``."""
    kept = role(rec, x)
    return rec.nodes.move(move(x), x, None if kept == Role.TRANSPOSED else kept)


def _align(x: Tensor, labels: Labels, output: Labels) -> Tensor:
    """Permute the dimensions of ``x``, named by ``labels``, into the order of ``output``, and add one of size 1 for each label that ``x``
    lacks; return the result.
    """
    order = [labels.index(label) for label in output if label in labels]
    y = x if order == list(range(x.dim())) else x.permute(order)
    for place, label in enumerate(output):
        y = y if label in labels else y.unsqueeze(place)
    return y


def _expand(x: Tensor, labels: Labels, shared: Collection[int], sizes: dict[int, int]) -> Tensor:
    """Expand the dimensions of ``x`` whose label is in ``shared`` to the size in ``sizes``, and return the result; they have size 1 if only
    the other tensor has them in full.
    """
    wide = [sizes.get(label, 1) if label in shared else size for label, size in zip(labels, x.shape, strict=True)]
    return x if wide == list(x.shape) else x.expand(wide)


def _reduce(rec: Recorder, x: Tensor, labels: Labels, kept: Collection[int]) -> tuple[Tensor, Labels]:
    """Take the diagonal of dimensions of ``x`` with the same label, and sum over those whose label is not in ``kept``; return the tensor
    and its labels. ``labels`` has one for each dimension.
    """
    for label, times in Counter(labels).items():
        for _ in range(times - 1):
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = _move(rec, x, lambda x, first=first, second=second: x.diagonal(dim1=first, dim2=second))  # type: ignore[misc]
            labels = (*(each for place, each in enumerate(labels) if place not in (first, second)), label)
    dims = tuple(place for place, label in enumerate(labels) if label not in kept)
    return (total(rec, torch.sum, x, dims) if dims else x), tuple(label for label in labels if label in kept)


# --- how a contraction is written ---------------------------------------------------------------------------------------------------------


def _terms(args: tuple[Any, ...]) -> tuple[list[Tensor], list[Labels], Labels] | None:
    """Parse the arguments of a call of ``torch.einsum``: return its tensors, the labels of each one's dimensions, and those of the
    output's; None for arguments that ``torch.einsum`` refuses.
    """
    read = _parse_arguments(args)
    if read is None:
        return None
    operands, inputs, output = read
    if not operands or len(operands) != len(inputs):
        return None
    full: list[Labels] = []
    widest = 0
    for x, names in zip(operands, inputs, strict=True):
        missing = x.dim() - len(names) + names.count(...)
        if missing < 0 or names.count(...) > 1 or (missing and ... not in names):
            return None
        widest = max(widest, missing if ... in names else 0)
        full.append(_expand_ellipsis(names, missing))
    if output is None:
        seen = Counter(label for labels in full for label in labels if label >= 0)
        output = [..., *sorted(label for label, times in seen.items() if times == 1)]
    of_output = _expand_ellipsis(output, widest)
    known = {label for labels in full for label in labels}
    if output.count(...) > 1 or len(set(of_output)) < len(of_output) or not set(of_output) <= known or not _fit(operands, full):
        return None
    return operands, full, of_output


def _expand_ellipsis(names: Sequence[int | EllipsisType], missing: int) -> Labels:
    """Replace an ellipsis among ``names`` by ``missing`` negative labels, ending in -1; return the labels."""
    return tuple(label for name in names for label in (range(-missing, 0) if isinstance(name, EllipsisType) else (name,)))


def _fit(operands: Sequence[Tensor], labels: Sequence[Labels]) -> bool:
    """Return whether ``operands``, tensors, can be contracted under these ``labels``, one for each dimension of each: dimensions with one
    label have the same size or 1, and all are floating point.
    """
    sizes: dict[int, int] = {}
    for x, of in zip(operands, labels, strict=True):
        sizes_here: dict[int, int] = {}
        for label, size in zip(of, x.shape, strict=True):
            if sizes_here.setdefault(label, size) != size or (size != 1 and sizes.setdefault(label, size) != size):
                return False
    return all(x.is_floating_point() for x in operands)


Names = list[int | EllipsisType]


def _parse_arguments(args: tuple[Any, ...]) -> tuple[list[Tensor], list[Names], Names | None] | None:
    """Parse the arguments of a call of ``torch.einsum``, an equation or lists of numbers after the tensors. Return the tensors, the names
    of each one's dimensions, and those of the output's (None if not written); None for arguments that ``torch.einsum`` refuses.
    """
    if not args or not isinstance(args[0], str):
        pairs = args[: len(args) // 2 * 2]
        tensors, lists = pairs[::2], [*pairs[1::2], *args[len(pairs) :]]
        if not all(isinstance(x, Tensor) for x in tensors) or not all(isinstance(names, list | tuple) for names in lists):
            return None
        named: list[Names] = [[name if name is ... else int(name) for name in names] for names in lists]
        return list(tensors), named[: len(tensors)], named[-1] if len(args) % 2 else None
    equation, *operands = args
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    read = [_letters(term) for term in (*inputs.split(","), output)]
    if any(names is None for names in read) or not all(isinstance(x, Tensor) for x in operands):
        return None
    whole = [names for names in read if names is not None]
    return operands, whole[:-1], whole[-1] if arrow else None


def _letters(term: str) -> Names | None:
    """Return the names in one term of an equation; None if it has anything but letters and one ellipsis."""
    marked = term.replace("...", "@", 1)
    if not all(letter == "@" or (letter.isascii() and letter.isalpha()) for letter in marked) or term.count("@"):
        return None
    return [... if letter == "@" else ord(letter) for letter in marked]


# --- functions that are a contraction -----------------------------------------------------------------------------------------------------


def _is_active(rec: Recorder, *tensors: Any) -> bool:
    return any(map(rec.active, tensors))


@handles(torch.tensordot)
def _tensordot(rec: Recorder, func: TorchFunction, a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    if not _is_active(rec, a, b):
        return func(a, b, dims)
    dims = dims.tolist() if isinstance(dims, Tensor) else dims
    if isinstance(dims, int):
        pairs = [(a.dim() - dims + i, i) for i in range(dims)]
    else:
        first, second = ([each] if isinstance(each, int) else list(each) for each in dims)
        pairs = [(i % a.dim(), j % b.dim()) for i, j in zip(first, second, strict=True)]
    to_b = {j: i for i, j in pairs}
    of_a, of_b = tuple(range(a.dim())), tuple(to_b.get(j, a.dim() + j) for j in range(b.dim()))
    output = tuple(label for label in (*of_a, *of_b) if not (label in of_a and label in of_b))
    return contract(rec, (a, b), (of_a, of_b), output)


@handles(torch.inner, Tensor.inner)
def _inner(rec: Recorder, func: TorchFunction, input: Tensor, other: Tensor) -> Tensor:
    if not _is_active(rec, input, other):
        return func(input, other)
    if not (input.dim() and other.dim()):
        product: Tensor = mul(rec, torch.mul, input, other)
        return product
    return _tensordot(rec, torch.tensordot, input, other, ([-1], [-1]))


@handles(torch.dot, Tensor.dot, torch.vdot, Tensor.vdot, torch.mv, Tensor.mv, torch.linalg.matmul)
def _matmul(rec: Recorder, func: TorchFunction, input: Tensor, other: Tensor | None = None, **kwargs: Any) -> Tensor:
    other = kwargs.pop("tensor", kwargs.pop("vec", other))
    return matmul(rec, torch.matmul, input, other, **kwargs)


@handles(torch.linalg.vecdot)
def _vecdot(rec: Recorder, func: TorchFunction, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    if not _is_active(rec, x, y):
        return func(x, y, dim=dim)
    most = max(x.dim(), y.dim())  # what is broadcast is aligned at the last dimension
    x, y = (_move(rec, each, lambda each: each[(None,) * (most - each.dim())].movedim(dim, -1)) for each in (x, y))
    return _einsum(rec, torch.einsum, "...i,...i->...", x, y)  # type: ignore[no-any-return]


@handles(torch.outer, Tensor.outer, torch.ger, Tensor.ger)
def _outer(rec: Recorder, func: TorchFunction, input: Tensor, vec2: Tensor) -> Tensor:
    return _einsum(rec, torch.einsum, "i,j->ij", input, vec2)  # type: ignore[no-any-return]


@handles(torch.chain_matmul)
def _chain_matmul(rec: Recorder, func: TorchFunction, *matrices: Tensor) -> Tensor:
    """Multiply ``matrices`` from left to right, record the products and return the last."""
    first, *others = matrices
    for other in others:
        first = matmul(rec, torch.matmul, first, other)
    return first


@handles(torch.linalg.multi_dot)
def _multi_dot(rec: Recorder, func: TorchFunction, tensors: Sequence[Tensor]) -> Tensor:
    return _chain_matmul(rec, func, *tensors)


@handles(torch.addmv, Tensor.addmv)
def _addmv(rec: Recorder, func: TorchFunction, input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if not _is_active(rec, input, mat, vec):
        return func(input, mat, vec, beta=beta, alpha=alpha)
    columns = (_move(rec, x, lambda x: x.unsqueeze(-1)) for x in (input, vec))
    out = addmm(rec, torch.addmm, next(columns), mat, next(columns), beta=beta, alpha=alpha)
    return _move(rec, out, lambda out: out.squeeze(-1))


@handles(torch.addbmm, Tensor.addbmm)
def _addbmm(
    rec: Recorder, func: TorchFunction, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Compute beta ``input`` + alpha times the sum of ``batch1`` @ ``batch2`` over the batch, as one product of wider matrices, record it
    and return it.
    """
    if not _is_active(rec, input, batch1, batch2):
        return func(input, batch1, batch2, beta=beta, alpha=alpha)
    wide, high = _move(rec, batch1, lambda x: x.transpose(0, 1).flatten(1)), _move(rec, batch2, lambda x: x.flatten(0, 1))
    return addmm(rec, torch.addmm, input, wide, high, beta=beta, alpha=alpha)


@handles(torch.addr, Tensor.addr)
def _addr(rec: Recorder, func: TorchFunction, input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    scaled = mul(rec, torch.mul, _outer(rec, torch.outer, vec1, vec2), alpha)
    return scaled if beta == 0 else add(rec, torch.add, scaled, mul(rec, torch.mul, input, beta))


handles(Tensor.addmv_, torch.addmv_)(may_write(_addmv, torch.addmv))
handles(Tensor.addbmm_)(may_write(_addbmm, torch.addbmm))
handles(Tensor.addr_)(may_write(_addr, torch.addr))


@handles(F.bilinear)
def _bilinear(rec: Recorder, func: TorchFunction, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x W y of ``input1`` x and ``input2`` y by ``weight`` W, plus a bias, record it and return it: for two paths as the sum over
    the element-wise product of x W and y, for one path and a constant as a linear map of the path.
    """
    if not _is_active(rec, input1, input2, weight):
        return func(input1, input2, weight, bias)
    if rec.active(input2) and not rec.active(input1):
        input1, input2, weight = input2, input1, weight.transpose(1, 2) if not rec.active(weight) else _move(rec, weight, lambda w: w.mT)
    if rec.active(input2):
        inner = _einsum(rec, torch.einsum, "...i,oij->...oj", input1, weight)
        pairs = mul(rec, torch.mul, inner, _move(rec, input2, lambda y: y.unsqueeze(-2)))
        out = total(rec, torch.sum, pairs, -1)
    else:
        out = _einsum(rec, torch.einsum, "...i,...oi->...o", input1, _einsum(rec, torch.einsum, "...j,oij->...oi", input2, weight))
    return out if bias is None else add(rec, torch.add, out, bias)

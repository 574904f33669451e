"""Maps that are linear in the input: F.linear, convolution, a product with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.nodes import Node
from explainers.autograd.operators.accounting import account_of
from explainers.autograd.recorder import Operator, Propagator, Recorder, saved_of
from explainers.autograd.rules import operands
from explainers.autograd.rules.operands import BilinearMap, LinearMapRole
from explainers.models import matrix_products


def weight_and_bias_of(node: Node) -> tuple[Tensor, Tensor | None]:
    """Return the weight and the bias (None without one) of ``node``, a recorded linear map."""
    return node.settings["w"], node.settings["b"]


class LinearMap(Operator):
    """y = forward(x, w) + b, for any map that is linear in x and in w: F.linear, convolution, x @ constant.

    ``role`` "pixels": x holds the pixels themselves, to which the z^B rule applies under a relevance rule. "attention": it projects the
    output of attention. Which maps make queries, keys and values is known when the pass has ended. A bias that is added later, see
    :func:`note_bias`, counts in the rules that use the layer's output.
    """

    title = "a linear map"
    keeps_operands = True

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, forward: BilinearMap, backward: BilinearMap, role: LinearMapRole, rec: Recorder
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.maps, ctx.role, ctx.rec, ctx.biased, ctx.position = (forward, backward), role, rec, rec.entered, rec.position
        y = forward(x, w)
        rec.keep(ctx, x, w, b, None if b is None else y)  # without a bias y is what others may write into
        ctx.added, ctx.inside, ctx.has_bias, ctx.shape = None, None, b is not None, y.shape
        ctx.is_convolution = operands.is_convolution(w, forward)
        if b is None:
            return y
        out = _add_bias(y, b)
        rec.recompute(out, _add_bias, y, b)
        return out

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return (None,) * 7
        choice = ctx.rec.rule.choice("linear")
        account = account_of(ctx.rec, ctx.biased and choice.counts_biases, ctx.position)
        forward, backward = ctx.maps
        differentiable = ctx.rec.is_differentiated_again
        saved = saved_of(ctx)
        linear = operands.LinearMapOperand(
            saved,
            forward,
            backward,
            lambda: _role(ctx),
            ctx.rec.double,
            account,
            differentiable,
            added=ctx.added,
            embeds=not (ctx.biased or ctx.rec.is_own_code),
            inside=ctx.inside,
            sample_axis=lambda: ctx.rec.sample_axis(ctx.position, saved[0].shape),
        )
        return choice.map(linear, g), None, None, None, None, None, None

    @staticmethod
    def propagate(
        rec: Propagator, x: Tensor, w: Tensor, b: Tensor | None, forward: BilinearMap, backward: BilinearMap, role: LinearMapRole
    ) -> Tensor:
        y = forward(x, w)
        return y if b is None else rec.with_bias(y, b, "attention" if role == "attention" else "linear")


def _add_bias(y: Tensor, bias: Tensor) -> Tensor:
    return y + bias.to(y.dtype)  # under autocast they differ


def _role(ctx: Any) -> LinearMapRole:
    return "attention" if ctx.rec.is_projection(ctx.position) else ctx.role


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, rec: Recorder, role: LinearMapRole = None) -> Tensor:
    """Apply the linear map x W^T + b to ``x``, with W the ``weight`` and b the ``bias``, and the ``role`` of the map if it has one, record
    it in ``rec`` and return the result, so that a rule can choose its backward pass.
    """
    return rec.run(LinearMap, x, weight, bias, matrix_products.linear, matrix_products.matmul, role)


#: Autograd's nodes that move numbers without changing their order within a dimension.
_MOVES = ("Transpose", "T", "Permute", "View", "UnsafeView", "ReshapeAlias", "Unsqueeze", "Squeeze", "Alias", "Clone", "MT")


def is_bias(constant: Tensor) -> bool:
    """Return whether the numbers of a constant lie along one dimension alone, as those of a linear map's bias do; those of position
    embeddings lie along two or more.
    """
    return sum(size > 1 and step != 0 for size, step in zip(constant.shape, constant.stride(), strict=True)) < 2


def note_bias(path: Tensor, constant: Tensor) -> None:
    """Record ``constant`` as the bias of the linear map that made ``path``, because it is added to its output: ``x @ w + b``. Does nothing
    if no linear map made ``path``, if the map has a bias already, or if the constant has another shape than a bias.
    """
    made_by: Any = path.grad_fn
    while made_by is not None:
        before = [function for function, _ in made_by.next_functions if function is not None]
        adds_constant = made_by.name() == "AddBackward" and len(before) == 1  # a part of the bias
        if not adds_constant and made_by.name().removesuffix("0").removesuffix("Backward") not in _MOVES:
            break
        made_by = before[0] if before else None
    if getattr(type(made_by), "_forward_cls", None) is not LinearMap or made_by.has_bias or not is_bias(constant):
        return
    ends = -2 if made_by.maps[0] is swapped else 1 if made_by.is_convolution else -1
    axis = ends if ends < 0 else ends - len(made_by.shape)
    if made_by is path.grad_fn and (constant.dim() < -axis or constant.shape[axis] != constant.numel()):
        return  # its numbers lie along another axis of the output
    if constant.numel() == made_by.shape[ends]:
        after = 0 if ends == -1 else 1 if ends == -2 else len(made_by.shape) - 2
        added = constant.detach().reshape(-1, *[1] * after)
        made_by.added = added if made_by.added is None else made_by.added + added


def note_padding(mapped: Tensor, pixels: Tensor, starts: Sequence[Tensor]) -> None:
    """Record which of ``pixels`` are padding, that is zeros that do not depend on the image, at the linear map that made ``mapped`` from
    them. The image is among the tensors ``starts``. Does nothing if no pixel is zero.
    """
    if pixels.grad_fn is None or bool((pixels != 0).all()):
        return
    signal = torch.zeros_like(pixels, requires_grad=True)
    at_starts = torch.autograd.grad(pixels, list(starts), signal, retain_graph=True, create_graph=True, allow_unused=True)
    reached = [each for each in at_starts if each is not None and each.requires_grad]
    (moved,) = torch.autograd.grad(reached, signal, [torch.ones_like(each) for each in reached], allow_unused=True) if reached else (None,)
    made_by: Any = mapped.grad_fn
    if moved is not None and made_by is not None:
        made_by.inside = (moved != 0).to(pixels.dtype)


def swapped(x: Tensor, w: Tensor) -> Tensor:
    """Return ``w`` @ ``x``: a product with the weight on the left, written as a linear map of x."""
    return w @ x


def swapped_back(signal: Tensor, w: Tensor) -> Tensor:
    """Return w^T @ ``signal``, the transpose of :func:`swapped` by ``w`` applied to a signal; batch dimensions must be equal."""
    return w.mT @ signal

"""Models of one number that end in a curve, such as ``exp``, ``softplus``, a scaled sigmoid or the mean of bins under a softmax.

Under rules that hold such a curve constant nothing would come back through it, or a part that adds up to no number. So the curve is taken
by its tangent at the place where it is: the number is the product of the last linear layer's output with the curve's slopes there, and a
constant rest. Its value and its ordinary gradient are the model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from explainers.models.outputs import ACTIVATIONS, CASTING, MOVING, Forward

#: Names of the functions that are linear in what the model learned to multiply.
_LINEAR = frozenset(
    [
        *("linear", "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "einsum", "tensordot"),
        *("conv1d", "conv2d", "conv3d"),
    ]
)
#: Points at which the last linear layer's output is tried, on the line through the outputs of two samples, which are at 0 and 1.
_TRIED = (-3.0, 0.5, 4.0)
_AFFINE = 1e-3  # of the difference of two samples: what a number may miss of a straight line


class _Tail(TorchFunctionMode):
    """A function mode that finds the last linear layer whose input is not a softmax (such as the weights of bins); ``change`` replaces its
    output.
    """

    def __init__(self, last: int | None = None, change: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.z: Tensor | None = None
        self.count: int = 0  # of such layers
        self.last: int = 0  # number of the last of them
        self._chosen, self._change = last, change
        self._shares: Any = WeakIdKeyDictionary()  # what a softmax gave

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        if not isinstance(out, Tensor):
            return out
        taken = [tensor for tensor in tree_leaves((args, kwargs or {})) if isinstance(tensor, Tensor)]
        of_shares = any(tensor in self._shares for tensor in taken)
        if ACTIVATIONS.get(func) == "softmax" or name in ("softmin", "gumbel_softmax") or (of_shares and name in MOVING | CASTING):
            self._shares[out] = True
        elif name in _LINEAR and not of_shares:
            self.count += 1
            if self._chosen is None or self.count == self._chosen:
                if self._change is not None:
                    out = self._change(out)
                self.z, self.last = out, self.count
        return out


def find_tail(run: Forward, sample: Mapping[str, Tensor]) -> int | None:
    """Find the linear layer on whose output the answer of a model depends by a non-linear function alone, such as a sigmoid at the end of
    its head; return the layer's index in the order in which linear layers are called.

    ``run`` returns the model's answer to ``sample``, a batch of two inputs: one number for each, (2, 1). Returns None if the function is
    linear, or if the answer also depends on the inputs by another path.
    """
    with torch.no_grad():
        with _Tail() as tail:
            y = run(sample)
        z, last = tail.z, int(tail.last)
        if z is None or z.shape[0] != 2 or y.shape != (2, 1) or not bool((y[0] != y[1]).any()):
            return None

        def answers_with(other: Tensor) -> Tensor:
            with _Tail(last, other.to):
                return run(sample)

        apart = (y[1] - y[0]).abs()
        if bool((answers_with(z.flip(0)) - y.flip(0)).abs().gt(_AFFINE * apart).any()):
            return None
        for t in _TRIED:
            line = y[0] + t * (y[1] - y[0])
            if not bool((answers_with((z[:1] + t * (z[1:] - z[:1])).expand_as(z)) - line).abs().le(_AFFINE * apart * max(1, abs(t))).all()):
                return last
    return None


def by_tangent(run: Forward, layer: int) -> Forward:
    """Return the forward pass ``run`` with the function after the linear layer number ``layer`` replaced by its tangent when gradients are
    needed.
    """

    def forward(tensors: Mapping[str, Tensor]) -> Tensor:
        with _Tail(layer) as tail:
            y = run(tensors)
        z = tail.z
        if z is None or not (torch.is_grad_enabled() and y.requires_grad and z.requires_grad):
            return y
        with torch._C.DisableTorchFunction():  # the ordinary gradient, of no rule's concern
            (slopes,) = torch.autograd.grad(y.sum(), z, retain_graph=True)
            dims = tuple(range(1, z.dim()))
            rest = y.detach() - (slopes * z.detach()).sum(dims)[:, None]
        torch.equal(z, z)  # seen by a recording: with other tokens the tangent is another, so this is not to be made again of them
        tangent: Tensor = (slopes * z).sum(dims)[:, None] + rest
        return tangent

    return forward

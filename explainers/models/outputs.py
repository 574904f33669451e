"""What comes out of a model: the numbers before its last squashing, which are what is explained, and what they mean.

A head that ends in a softmax or a sigmoid gives probabilities. Under rules that hold such functions constant nothing would come back
through them, and no rule makes their terms sum to a probability (LibraGrad, CVPR 2025, explains logits for that reason).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

Squashing = Literal["softmax", "sigmoid"]
#: What logits mean: one class of several; a label each, yes or no on its own; or the value itself.
Output = Literal["softmax", "sigmoid", "regression"]
OUTPUTS: tuple[Output, ...] = ("softmax", "sigmoid", "regression")
_PROBLEMS: dict[str, Output] = {
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
    "regression": "regression",
}
Forward = Callable[[Mapping[str, Tensor]], Tensor]
#: Functions that turn logits into probabilities, or into their logarithms.
_SQUASHING: dict[Any, Squashing] = {
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax, F.log_softmax, torch.log_softmax, Tensor.log_softmax), "softmax"),
    **dict.fromkeys((F.sigmoid, torch.sigmoid, Tensor.sigmoid, torch.special.expit, F.logsigmoid), "sigmoid"),
}
#: Functions of a squashed tensor that may follow, and that act alike on what it was squashed from.
_MOVING = frozenset(("float", "double", "to", "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "clone"))


class _Watch(TorchFunctionMode):
    """Keeps what was squashed last, as it was before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: Squashing | None = None
        self.linear: tuple[Any, tuple[Tensor, Tensor, Tensor | None]] | None = None  # the last linear layer: what it gave and was given
        self.before: Tensor | None = None
        self.after: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        x = args[0] if args else kwargs.get("input")
        if func is F.linear:
            named = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            self.linear = (out, (named["input"], named["weight"], named.get("bias")))
        if func in _SQUASHING:
            self.kind, self.before, self.after = _SQUASHING[func], x, out
        elif x is self.after is not None and getattr(func, "__name__", "") in _MOVING:
            self.before, self.after = func(self.before, *args[1:], **kwargs), out
        return out


def squashing_of(forward: Forward, tensors: Mapping[str, Tensor]) -> Squashing | None:
    """Whether what ``forward`` gives for these tensors was squashed last, and how."""
    with _Watch() as watch, torch.no_grad():
        out = forward(tensors)
    return watch.kind if out is watch.after else None


def before_squashing(forward: Forward) -> Forward:
    """The same forward pass; it gives what its last function was given, if that squashes."""

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        with _Watch() as watch:
            out = forward(tensors)
        return watch.before if out is watch.after and watch.before is not None else out

    return run


def yes_and_no(forward: Forward) -> Forward:
    """Of a model with one logit z: the logits (B, 2) of yes, z, and of no, -z. Each is a class of its own that can be explained.

    Where a linear layer makes z, a second row of its weights makes -z, so that every rule goes back through both alike.
    """

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        with _Watch() as watch:
            z = forward(tensors)
        if watch.linear is None or watch.linear[0] is not z:
            return torch.cat([z, -z], -1)
        x, weight, bias = watch.linear[1]
        return F.linear(x, torch.cat([weight, -weight]), None if bias is None else torch.cat([bias, -bias]))

    return run


def output_of(config: Any, classes: int, squashing: Squashing | None) -> Output:
    """What the logits mean, by what transformers' configuration says, by how they were squashed, and by their number.

    One logit is a value in transformers, whose own loss has it so, and yes or no elsewhere.
    """
    problem = _PROBLEMS.get(getattr(config, "problem_type", None) or "")
    if problem is not None:
        return problem
    if squashing is not None:
        return squashing
    if classes == 1:
        return "sigmoid" if config is None else "regression"
    return "softmax"


def probabilities(logits: Tensor, output: Output) -> Tensor:
    """(..., C) of the same shape; of a regression, which has none, not a number."""
    if output == "softmax":
        return logits.softmax(-1)
    return logits.sigmoid() if output == "sigmoid" else torch.full_like(logits, torch.nan)

"""Outputs of a model: the numbers before its final activation, which are explained, and what they mean.

A head that ends in a softmax or a sigmoid gives probabilities. Under rules that hold such functions constant nothing would come back
through them, and no rule makes their terms sum to a probability (LibraGrad, CVPR 2025, explains logits for that reason).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

FinalActivation = Literal["softmax", "sigmoid"]
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
ACTIVATIONS: dict[Any, FinalActivation] = {
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax, F.log_softmax, torch.log_softmax, Tensor.log_softmax), "softmax"),
    **dict.fromkeys((F.sigmoid, torch.sigmoid, Tensor.sigmoid, torch.special.expit, F.logsigmoid), "sigmoid"),
    **dict.fromkeys((torch.sigmoid_, Tensor.sigmoid_), "sigmoid"),
}
#: Names of functions that may follow the final activation, and that act alike on what it was given.
MOVING = frozenset(
    [
        *("view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze", "contiguous", "clone"),
        *("__getitem__", "select", "narrow", "index_select", "permute", "transpose", "movedim"),
    ]
)
CASTING = frozenset(["float", "double", "half", "bfloat16", "to", "type", "type_as"])
#: Names of functions that give numbers between 0 and 1, besides those above, and of functions whose results no longer count as theirs.
_BOUNDING = frozenset(("hardsigmoid", "hardsigmoid_", "softmin", "gumbel_softmax"))
_MIXING = frozenset(
    [
        *("linear", "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum"),
        *("conv1d", "conv2d", "conv3d", "scaled_dot_product_attention", "layer_norm", "batch_norm", "group_norm", "rms_norm"),
    ]
)


class _Watch(TorchFunctionMode):
    """A function mode that keeps the input and output of the final activation and the output of the last linear layer, also after they were
    reshaped or copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kind: FinalActivation | None = None
        self.activations: list[tuple[Any, Tensor]] = []  # what the final activation gave, what it was given
        self.linear: tuple[Tensor, Tensor, Tensor | None] | None = None  # input, weight and bias of the last linear layer
        self.linear_outputs: list[tuple[Any, Tensor]] = []  # what it gave and where that was moved, each with what it gave

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        x, name = args[0] if args else kwargs.get("input"), getattr(func, "__name__", "")
        final_activation = ACTIVATIONS.get(func)
        # what is written over in place is lost otherwise
        before = x.clone() if final_activation and (name.endswith("_") or kwargs.get("out") is not None) else x
        out = func(*args, **kwargs)
        if func is F.linear:
            named = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            self.linear, self.linear_outputs = (named["input"], named["weight"], named.get("bias")), [(out, out)]
        elif (linear_output := _input_of(self.linear_outputs, x)) is not None and name in MOVING | CASTING:
            self.linear_outputs.append((out, linear_output))
        if final_activation:
            self.kind, self.activations = final_activation, [(out, before)]
        elif (before := _input_of(self.activations, x)) is not None and name in MOVING:
            # a softmax gives its numbers in order of memory, also where it is given others, of which not each view can be taken
            self.activations.append((out, func(before.contiguous(), *args[1:], **kwargs)))
        elif before is not None and name in CASTING and out.is_floating_point():
            self.activations.append((out, before))  # in its own precision
        return out

    def input_of(self, out: Any) -> Tensor | None:
        """Return the input of the final activation whose output is ``out``; None if there is none."""
        return _input_of(self.activations, out)


def _input_of(pairs: list[tuple[Any, Tensor]], tensor: Any) -> Tensor | None:
    return next((second for first, second in pairs if first is tensor), None)


class _Trial(_Watch):
    """A watch that also knows which tensors were made from the outputs of such activations, without a learned layer in between."""

    def __init__(self) -> None:
        super().__init__()
        self.bounded: Any = WeakIdKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_function__(func, types, args, kwargs)
        name = getattr(func, "__name__", "")
        if isinstance(out, Tensor) and name not in _MIXING:
            given = [tensor for tensor in tree_leaves((args, kwargs or {})) if isinstance(tensor, Tensor)]
            if func in ACTIVATIONS or name in _BOUNDING or any(tensor in self.bounded for tensor in given):
                self.bounded[out] = True
                if out._base is not None and name.endswith("_") and not name.endswith("__"):  # a view was changed in place
                    self.bounded[out._base] = True
        return out


@dataclass(frozen=True)
class HeadActivation:
    """The findings of a trial pass on how a model's head ends.

    kind       the final softmax or sigmoid of the head, which can be removed exactly, since its inputs are logits; None if there is none
    looks_like_probabilities  whether the head's outputs look like probabilities although nothing can be removed: they lie in [0, 1], and
                              either come from a softmax or sigmoid or add up to 1
    is_curved  whether the head has a single output, a non-linear function of the last linear layer's output; then that layer's output is
               explained, see
               :mod:`explainers.models.tangent`
    """

    kind: FinalActivation | None = None
    looks_like_probabilities: bool = False
    is_curved: bool = False


def logits_of(forward: Forward, tensors: Mapping[str, Tensor]) -> tuple[Tensor, FinalActivation | None]:
    """Return the output of ``forward`` for these tensors before its final activation, and that activation; None if it has none."""
    with _Watch() as watch, torch.no_grad():
        out = forward(tensors)
    before = watch.input_of(out)
    if before is not None and watch.kind is not None and _explains(before, out, watch.kind):
        return before, watch.kind
    return out, None


def like_probabilities(out: Tensor, forward: Forward, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether ``out``, the output of ``forward`` for these tensors, looks like probabilities.

    The numbers lie in [0, 1], and passed a softmax, a sigmoid or the like on the way, or add up to 1.
    """
    if not bool(((out >= 0) & (out <= 1)).all()):
        return False
    if out.shape[-1] > 1 and bool(((out.double().sum(-1) - 1).abs() < 8 * torch.finfo(out.dtype).eps).all()):
        return True
    with _Trial() as watch, torch.no_grad():
        return forward(tensors) in watch.bounded


def _explains(logits: Tensor, out: Tensor, kind: FinalActivation) -> bool:
    """Return whether ``out`` holds the probabilities, or log-probabilities, of these ``logits`` by the function ``kind``, softmax or
    sigmoid. A part of a softmax's row does not.
    """
    if logits.shape != out.shape:
        return False
    p, rounding = probabilities(logits.double(), kind), 16 * max(torch.finfo(logits.dtype).eps, torch.finfo(out.dtype).eps)
    return any(torch.allclose(out.double(), expected, rtol=rounding, atol=rounding) for expected in (p, p.log()))


def before_final_activation(forward: Forward) -> Forward:
    """Return a forward pass whose output is the input of the final activation, if the model ends in one."""

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        with _Watch() as watch:
            out = forward(tensors)
        before = watch.input_of(out)
        return out if before is None else before

    return run


class _EveryActivation(_Watch):
    """A watch that keeps the input and output of every softmax or sigmoid over rows (B, C), not only of the last."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        earlier = self.activations
        out = super().__torch_function__(func, types, args, kwargs)
        if func in ACTIVATIONS:
            self.activations = earlier + (self.activations if out.dim() <= 2 else [])
        return out


def before_final_activations(
    forward: Callable[[Mapping[str, Tensor]], Any], heads_in: Callable[[Any], dict[str, Tensor]]
) -> Callable[[Mapping[str, Tensor]], tuple[dict[str, Tensor], dict[str, Tensor]]]:
    """Return a forward pass of several heads that gives each one's output (B, C) and the input of its final activation, by name.
    ``forward`` runs the model, and ``heads_in`` finds the heads in its output.
    """

    def run(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        with _EveryActivation() as watch:
            heads = heads_in(forward(tensors))
        before = {name: watch.input_of(head) for name, head in heads.items()}
        return heads, {name: head if (logits := before[name]) is None else logits for name, head in heads.items()}

    return run


def final_activation_of(logits: Tensor, out: Tensor) -> FinalActivation | None:
    """Return the final activation that made ``out`` from ``logits``; None if neither did."""
    kinds: tuple[FinalActivation, ...] = ("softmax", "sigmoid")
    return next((kind for kind in kinds if _explains(logits, out, kind)), None)


def yes_and_no(forward: Forward) -> Forward:
    """Turn ``forward``, a model with one logit z, into one with logits (B, 2): z for yes and -z for no. Each is a class that can be
    explained.

    If a linear layer computes z, a second row of its weights computes -z, so that every rule treats both alike.
    """

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        with _Watch() as watch:
            z = forward(tensors)
        linear_output = _input_of(watch.linear_outputs, z)
        if watch.linear is None or linear_output is None or linear_output.shape != z.shape:
            return torch.cat([z, -z], -1)
        x, weight, bias = watch.linear
        return F.linear(x, torch.cat([weight, -weight]), None if bias is None else torch.cat([bias, -bias])).to(z.dtype)

    return run


def notes_on_outputs(logits: Tensor, output: Output, head_activation: HeadActivation) -> list[str]:
    """Return notes for people on the ``logits`` (C,) of an answer, if they are not what the model itself returns, or only look like
    probabilities; none otherwise. ``output`` is the kind of the model's output, ``head_activation`` the activation at its end.
    """
    if head_activation.kind is not None and output == "regression":
        return [
            f"This model ends in a {head_activation.kind}, and values are asked for: what is shown and explained is the number before the "
            f"{head_activation.kind}, not the value that the model returns."
        ]
    if head_activation.is_curved:
        return [
            "The number of this model comes from a curve after its last linear layer, such as an exponential or a softmax over bins. The "
            "curve is replaced here by its tangent, under every rule; the tangent's value at zero belongs to no token."
        ]
    # of one logit there are yes and no, the second being the negative of the first
    if head_activation.looks_like_probabilities and output != "regression" and bool((logits.abs() <= 1).all()):
        return [
            "The outputs of this model look like probabilities already: they lie between 0 and 1. What is explained are these numbers, and "
            f"the probabilities shown are the {output} of them, not the model's. Let the model return the numbers before it makes "
            'probabilities of them, or pass output="regression" to wrap, which shows its outputs as they are.'
        ]
    return []


def output_of(config: Any, classes: int, final_activation: FinalActivation | None) -> Output:
    """Return the meaning of a model's logits ("softmax", "sigmoid" or "regression"), from transformers' configuration ``config``, the final
    activation, and the number of ``classes``.

    A single logit is a value in transformers, as in its own loss, and yes or no in other libraries.
    """
    problem = _PROBLEMS.get(getattr(config, "problem_type", None) or "")
    if problem is not None:
        return problem
    if final_activation is not None:
        return final_activation
    if classes == 1:
        return "sigmoid" if config is None else "regression"
    return "softmax"


def probabilities(logits: Tensor, output: Output) -> Tensor:
    """Convert logits (..., C) to probabilities of the same shape, by softmax or by sigmoid as ``output`` says; NaN for a regression, which
    has none.
    """
    if output == "softmax":
        return logits.softmax(-1)
    return logits.sigmoid() if output == "sigmoid" else torch.full_like(logits, torch.nan)

"""A fixed panel of inputs and methods, drawn again while a model trains."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from explainers.collection.diff.null_correlations import correlation
from explainers.errors import ExplainerError
from explainers.models.wrapping import wrap
from explainers.pipeline.explain import explain
from explainers.records.result import Explanation

if TYPE_CHECKING:
    from explainers.models.inputs.types import Input

DEFAULT_METHODS = ("fullgrad_plus:libra",)
DOTS_PER_INCH = 110  # of a drawn panel


@dataclass(frozen=True)
class PanelImage:
    """The ``picture`` of the maps of one input side by side, with the model's answer; ``name`` is that of the input, and ``caption`` says
    in words what is drawn.
    """

    name: str
    picture: Image.Image
    caption: str


@dataclass(frozen=True)
class PanelView:
    """A panel at one moment: in ``images`` one for each input, in ``figures`` numbers by name.

    The figures are ``probability/NAME``, of the explained class, and ``correlation/NAME/METHOD``, Pearson's correlation of the map with
    that of the first view, which is left out where another class is explained than then. A fall says that the answer stands on something
    else.
    """

    images: list[PanelImage]
    figures: dict[str, float]


@dataclass
class Panel:
    """Inputs and methods that are drawn again and again while a model trains.

    inputs    what :func:`explainers.explain` takes, by name: pictures, paths, texts
    methods   specs of the maps
    targets   the class that is explained of each input, by name, as ``explain`` takes it; an input without one has its likeliest class
              explained, which may change while the model trains
    wrapping  arguments of :func:`explainers.wrap`, such as ``preprocess``, ``tokenizer`` and ``labels``: what the module does not say
    """

    inputs: Mapping[str, Input]
    methods: Sequence[str] = DEFAULT_METHODS
    targets: Mapping[str, Any] = field(default_factory=dict)
    wrapping: Mapping[str, Any] = field(default_factory=dict)
    _first: dict[tuple[str, str], tuple[str, NDArray[np.float64]]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.inputs or not self.methods:
            raise ExplainerError("A panel needs at least one input and one method.")
        if unknown := [name for name in self.targets if name not in self.inputs]:
            raise ExplainerError(f"targets names {', '.join(unknown)}, which is none of the inputs {', '.join(self.inputs)}.")

    def view(self, module: nn.Module, **wrapping: Any) -> PanelView:
        """Explain every input by ``module`` as it is now, and return the drawn maps and their figures; the module stays as it was.
        ``wrapping`` are arguments of :func:`explainers.wrap` that the panel may lack; its own come first.

        The mode of each of its modules, the gradients of its weights, its hooks and device, and the states of all random number generators
        are the same afterwards, so that training goes on as if nobody had looked.
        """
        images: list[PanelImage] = []
        figures: dict[str, float] = {}
        with _states_kept(module):
            model = wrap(module, **(wrapping | dict(self.wrapping)))
            for name, each in self.inputs.items():
                explanation = explain(model, each, self.targets.get(name), list(self.methods))
                assert isinstance(explanation, Explanation)
                images.append(_drawn(name, explanation))
                figures |= self._figures(name, explanation)
        return PanelView(images, figures)

    def _figures(self, name: str, explanation: Explanation) -> dict[str, float]:
        target = explanation.target
        figures = {} if target.probability is None else {f"probability/{name}": float(target.probability)}
        for attribution in explanation.maps:
            scores = attribution.scores[attribution.content].double().numpy()
            label, first = self._first.setdefault((name, attribution.method), (target.label, scores))
            if label == target.label and len(first) == len(scores) and (value := correlation(first, scores)) is not None:
                figures[f"correlation/{name}/{attribution.method}"] = value
        return figures


def _drawn(name: str, explanation: Explanation) -> PanelImage:
    answer = explanation.top(1)[0]
    sure = "" if answer.probability is None else f" {answer.probability:.0%}"
    figure = explanation.figure(columns=len(explanation.maps))
    caption = f"{name}: {answer.label}{sure}"
    figure.suptitle(caption, fontsize=9)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return PanelImage(name, Image.open(file).convert("RGB"), caption)


@contextmanager
def _states_kept(module: nn.Module) -> Iterator[None]:
    """Restore what training depends on at the end of this context: random numbers of Python, numpy and torch on every device, gradients of
    the weights and whether they have some, and buffers. Inside, autocast is off, also that which accelerate puts around ``forward``.
    """
    devices = sorted({each.device for each in module.parameters() if each.device.type != "cpu"}, key=str)
    python, numbers = random.getstate(), np.random.get_state()
    weights = [(each, each.requires_grad, each.grad) for each in module.parameters()]
    buffers = [(each, each.clone()) for each in module.buffers()]
    with ExitStack() as stack:
        for kind in sorted({"cpu", *(device.type for device in devices)}):
            stack.enter_context(torch.autocast(kind, enabled=False))
            if kind != "cpu":
                indices = [device.index or 0 for device in devices if device.type == kind]
                stack.enter_context(torch.random.fork_rng(indices, device_type=kind))
        stack.enter_context(torch.random.fork_rng([]))
        stack.enter_context(_forward_without_autocast(module))
        try:
            for each, _, _ in weights:
                each.grad = None  # so that nothing can be added to a gradient in place
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)
            for each, has_gradient, gradient in weights:
                each.requires_grad_(has_gradient)
                each.grad = gradient
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


@contextmanager
def _forward_without_autocast(module: nn.Module) -> Iterator[None]:
    """Put the module's own ``forward`` in the place of that which accelerate made for training in mixed precision, inside this context."""
    attributes = vars(module)
    if "forward" not in attributes or "_original_forward" not in attributes:
        yield
        return
    made, attributes["forward"] = attributes["forward"], attributes["_original_forward"]
    try:
        yield
    finally:
        attributes["forward"] = made

"""A model as an encoder: what it makes of an input before anything is compared or classified."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import Side
from explainers.models.libraries.calls import features_of
from explainers.models.model import Model
from explainers.models.outputs import Forward
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after


def encoder(model: Model, side: Side | None = None, example: Mapping[str, Tensor] | None = None) -> Model:
    """Return the model of a dual encoder's or classifier's features: its ``forward`` returns embeddings (B, D) instead of logits.

    For a CLIP model these are the embeddings of images, or with ``side="text"`` of prompts, that are compared by cosine. For a classifier
    they are the input of its last linear layer; ``example`` are tensors of one input, with which that layer is found. Raises ExplainerError
    for a classifier without such a layer.
    """
    if model.kind == "clip":
        model = model.seen_from(side or "image")
        features = features_of(model.module, model.details["library"], model.side)
        view = model.view

        def forward(tensors: Mapping[str, Tensor]) -> Tensor:
            with nullcontext() if view is None else view():
                return _as_tensor(features(tensors))

        return replace(model, kind="text" if model.side == "text" else "image", forward=forward)
    assert example is not None
    return replace(model, forward=_forward_to(model, final_linear(model, example)))


def _as_tensor(features: Any) -> Tensor:
    """Return ``features``, a library's result, as a tensor: itself if it is one, else its ``pooler_output``."""
    pooled: Tensor = getattr(features, "pooler_output", features)
    return pooled


def final_linear(model: Model, example: Mapping[str, Tensor]) -> nn.Linear:
    """Run ``model``, a classifier, on one input, ``example``, and return the linear layer that computes its logits from one vector for each
    sample. Raises ExplainerError if there is none.
    """
    outputs: list[tuple[nn.Linear, Tensor]] = []
    layers = [module for module in model.module.modules() if isinstance(module, nn.Linear)]

    def note(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if isinstance(module, nn.Linear) and args[0].dim() == 2:
            outputs.append((module, output))

    with (
        remove_hooks_after(layer.register_forward_hook(in_this_thread(note)) for layer in layers),
        torch.no_grad(),
        evaluating(model.module),
    ):
        logits = model.forward(example)
    for layer, output in reversed(outputs):
        if output.shape == logits.shape and bool(torch.equal(output, logits)):
            return layer
    if model.details.get("task") == "features":
        raise ExplainerError(
            f"{model.name} is a backbone without a head, and pairs are looked for in the vector before a classifier's last linear layer: "
            "for what makes its own vectors alike, ask explain(model, first, at='similar', reference=second)."
        )
    raise ExplainerError(
        f"{model.name} gives its logits by no linear layer over one vector, so what it compares inputs by is not known: open a classifier "
        "(...ForSequenceClassification, ...ForImageClassification), a model of pictures and prompts, or the backbone alone, of which "
        "explain(..., at='similar', reference=...) says what makes two inputs alike."
    )


def _forward_to(model: Model, head: nn.Linear) -> Forward:
    """Return a function that runs the model on input tensors and returns the input of the layer ``head``."""

    def features(tensors: Mapping[str, Tensor]) -> Tensor:
        taken: list[Tensor] = []

        def take(module: nn.Module, args: tuple[Any, ...]) -> None:
            taken.append(args[0])

        with remove_hooks_after([head.register_forward_pre_hook(in_this_thread(take))]):
            model.forward(tensors)
        return taken[-1]

    return features

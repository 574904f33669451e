"""A model without outlier tokens: what its register neurons hold is moved from the patches to a token that is added."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.encoders import encoder
from explainers.models.eval_mode import evaluating
from explainers.models.layout import Layout
from explainers.models.model import Model
from explainers.models.registers.mlps import check_registers, last_linear_maps
from explainers.models.removal.token_removal import REFUSALS
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after

#: Whose largest activation the added token gets: each neuron's own, as the paper says, or one for all of a block, as its code has it.
Largest = Literal["neuron", "block"]
#: The activations that patches get instead: zero, their mean, their mean if they are more than a standard deviation above it, or their own.
Patches = Literal["zero", "mean", "only_outliers", "same"]
#: What `explain` does with outlier tokens: nothing, or move them, as the paper says or as its published code does.
OutlierTokens = Literal["keep", "move", "move_published"]
OUTLIER_TOKENS: tuple[OutlierTokens, ...] = get_args(OutlierTokens)


@dataclass(frozen=True)
class Moving:
    """The settings of :func:`without_outlier_tokens`, under the names of its arguments: ``largest``, ``patches``, ``added`` and
    ``scale``.
    """

    largest: Largest = "neuron"
    patches: Patches = "zero"
    added: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, known in (("largest", get_args(Largest)), ("patches", get_args(Patches))):
            if getattr(self, name) not in known:
                raise ExplainerError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(known)}.")
        if self.added < 1:
            raise ExplainerError(f"added={self.added}: add one token or more.")


def without_outlier_tokens(
    model: Model,
    neurons: RegisterNeurons | None = None,
    *,
    largest: Largest = "neuron",
    patches: Patches = "zero",
    added: int = 1,
    scale: float = 1.0,
) -> Model:
    """Return a model with added zero tokens, to which the activations of its register neurons are moved.

    neurons  None: ``model.register_neurons``
    largest  the added token gets each neuron's largest activation over all tokens (``neuron``), or that of largest magnitude of all
             register neurons of the block (``block``, as the published code has it), times ``scale``
    patches  the activations that the patches get instead; other tokens keep theirs
    added    how many tokens

    The added tokens are placed directly before the patches, so that every method, test and tool treats them as registers of the model.
    Nothing in the module is changed. Raises ExplainerError if there are no register neurons, for neurons of other weights, for a head that
    pools its tokens, and for a model that needs a fixed number of tokens.

    Source: Jiang, Dravid, Efros & Gandelsman, NeurIPS 2025, section 4.
    """
    how = Moving(largest, patches, added, scale)
    known = model.register_neurons if neurons is None else neurons
    if known is None:
        raise ExplainerError(
            f"The register neurons of {model.name} are not known: find them once, with explainers.find_register_neurons or "
            "vitrine registers."
        )
    if not known.neurons:
        raise ExplainerError(f"{model.name}: {known.in_words}")
    if known.weights_digest != model.weights_digest:
        raise ExplainerError(f"These register neurons are of other weights than those of {model.name}: find them again.")
    return with_registers(model, known.neurons, how)


def view_of(model: Model, outlier_tokens: OutlierTokens) -> Model:
    """Return the model itself if ``outlier_tokens`` is "keep", else the model without outlier tokens, which is made once. Raises
    ExplainerError for an unknown value, and as :func:`without_outlier_tokens` does.
    """
    if outlier_tokens not in OUTLIER_TOKENS:
        raise ExplainerError(f"outlier_tokens={outlier_tokens!r}: choose one of {', '.join(OUTLIER_TOKENS)}.")
    if outlier_tokens == "keep":
        return model
    largest: Largest = "neuron" if outlier_tokens == "move" else "block"
    return model.cached(("outlier_tokens", outlier_tokens, model.register_neurons), lambda: without_outlier_tokens(model, largest=largest))


def with_registers(model: Model, neurons: tuple[tuple[int, int], ...], how: Moving) -> Model:
    """Return ``model`` with added tokens, to which the activations of ``neurons`` (block, neuron) are moved as ``how`` says. Without
    neurons only the tokens are added.
    """
    check_registers(model)
    images = encoder(model, "image") if model.kind == "clip" else model
    size = (1, model.details["channels"], *model.details["input"])
    example = {"pixel_values": torch.zeros(size, device=model.device, dtype=model.dtype)}
    layout, layers = model.layout_of(example), last_linear_maps(images, example)
    hooks: list[Callable[[], Any]] = [partial(_hook_entry, model, layout.prefix, how.added)]
    for block in sorted({block for block, _ in neurons}):
        chosen = [neuron for place, neuron in neurons if place == block]
        if max(chosen) >= layers[block].in_features:
            raise ExplainerError(
                f"Block {block + 1} of {model.name} has {layers[block].in_features} neurons, so there is no neuron {max(chosen)}."
            )
        hooks.append(partial(_hook_mlp, layers[block], chosen, layout, how))

    def view() -> AbstractContextManager[None]:
        return remove_hooks_after(hook() for hook in hooks)

    def within(run: Callable[[Mapping[str, Tensor]], Any]) -> Callable[[Mapping[str, Tensor]], Any]:
        def answer(tensors: Mapping[str, Tensor]) -> Any:
            with view():
                return run(tensors)

        return answer

    def layout_of(tensors: Mapping[str, Tensor]) -> Layout:
        layout = model.layout_of(tensors)
        return replace(layout, prefix=layout.prefix + how.added, added=how.added)

    details = {name: value for name, value in model.details.items() if name != "missing_requirements"}
    raw = None if model.raw_forward is None else within(model.raw_forward)
    moved = replace(model, forward=within(model.forward), raw_forward=raw, layout_of=layout_of, details=details, view=view)
    moved.cache = OrderedDict()
    if model.text_side is not None:
        text_side = model.seen_from("text")
        moved.text_side = lambda: replace(text_side, forward=within(text_side.forward), view=view)
    if model.made_by is not None:
        make, arguments = model.made_by
        moved.made_by = (partial(_made_with_registers, make, neurons, how), arguments)
    try:
        with torch.no_grad(), evaluating(model.module):
            (encoder(moved, "image") if model.kind == "clip" else moved).forward(example)
    except REFUSALS as error:
        raise ExplainerError(f"{model.name} counts on the number of its tokens, so that none can be added: {error}") from None
    return moved


def _made_with_registers(make: Callable[..., Model], neurons: tuple[tuple[int, int], ...], how: Moving, **arguments: Any) -> Model:
    return with_registers(make(**arguments), neurons, how)


def _hook_entry(model: Model, prefix: int, added: int) -> Any:
    """Register a hook on ``model`` that inserts ``added`` zero tokens after the first ``prefix`` tokens of the blocks' input, before any
    other hook runs; return its handle.
    """
    kind = model.block_kind

    def add(module: nn.Module, args: Any, kwargs: Any) -> Any:
        x = kind.input_tokens(args, kwargs)
        zeros = x.new_zeros(len(x), added, x.shape[2])
        return kind.with_input_tokens(args, kwargs, torch.cat([x[:, :prefix], zeros, x[:, prefix:]], 1))

    return model.entry.register_forward_pre_hook(_for_this_thread(add), with_kwargs=True, prepend=True)


def _hook_mlp(layer: nn.Linear, neurons: list[int], layout: Layout, how: Moving) -> Any:
    """Register a hook that moves the activations of ``neurons`` in the input of ``layer`` as :func:`move_activations` does with ``layout``
    and ``how``; return its handle.
    """

    def move(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (move_activations(args[0], neurons, layout, how), *args[1:])

    return layer.register_forward_pre_hook(_for_this_thread(move), prepend=True)


def _for_this_thread(hook: Callable[..., Any]) -> Any:
    return in_this_thread(hook)


def move_activations(values: Tensor, neurons: list[int], layout: Layout, how: Moving) -> Tensor:
    """Return the activations ``values`` (B, S, F) with the activations of ``neurons`` moved to the tokens that were added after the prefix,
    in the way ``how``. ``layout`` is the layout of the tokens before these were added.

    Numbers are only moved, multiplied by constants and added, so that their signal passes unchanged under every rule.
    """
    prefix, count, width = layout.prefix, len(neurons), values.shape[-1]
    end, stop = prefix + how.added, values.shape[1] - layout.after
    place = torch.zeros(count, width, device=values.device, dtype=values.dtype)
    place[torch.arange(count), torch.tensor(neurons)] = 1  # one-hot: from the neurons to all of the MLP
    others = 1 - place.sum(0)
    index = torch.tensor(neurons, device=values.device)
    chosen = values.index_select(-1, index)
    with torch.no_grad():
        sizes = chosen.detach().abs()
        best = sizes.argmax(1, keepdim=True) if how.largest == "neuron" else sizes.flatten(1).argmax(1, keepdim=True)
    top = chosen.gather(1, best) if how.largest == "neuron" else chosen.flatten(1).gather(1, best)[..., None].expand(-1, 1, count)
    held = (top @ place) * how.scale
    rows = [values[:, :prefix], values[:, prefix:end] * others + held.expand(-1, how.added, -1)]
    patches = values[:, end:stop]
    if how.patches == "same":
        rows.append(patches)
    elif how.patches == "zero":
        rows.append(patches * others)
    else:
        of_patches = chosen[:, end:stop]
        mean = of_patches.mean(1, keepdim=True)
        with torch.no_grad():
            is_moved = torch.ones_like(of_patches)
            if how.patches == "only_outliers":
                spread = of_patches.detach().std(1, keepdim=True)
                is_moved = (of_patches.detach() > mean.detach() + spread).to(values.dtype)
        rows.append(patches * (1 - is_moved @ place) + (mean.expand_as(of_patches) * is_moved) @ place)
    return torch.cat([*rows, values[:, stop:]], 1)

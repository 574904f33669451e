"""The place of the MLP in each block: its last linear map, whose input is the activations of its neurons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.model import Model
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after


def check_registers(model: Model) -> None:
    """Raise ExplainerError if no token can be added to the tokens of ``model``."""
    if model.reads_text:
        raise ExplainerError(f"{model.name} reads words here: outlier tokens are looked for among the patches of an image.")
    size = (1, model.details["channels"], *model.details["input"])
    layout, kind = model.layout_of({"pixel_values": torch.zeros(size)}), model.block_kind
    if not kind.is_row or layout.coarser or len(set(model.blocks)) < len(model.blocks):
        raise ExplainerError(f"The blocks of {model.name} do not take one row of tokens each, to which one could be added.")
    if layout.class_token is None:
        raise ExplainerError(f"No token can be added to {model.name}: its head pools all tokens and would count it too.")
    if layout.class_token >= layout.prefix:
        raise ExplainerError(f"The classification token of {model.name} lies after its patches: a token is added before them alone.")


def last_linear_maps(model: Model, tensors: Mapping[str, Tensor]) -> list[nn.Linear]:
    """Run ``model`` on ``tensors`` and return the last linear layer of each block's MLP: the last one that the block calls and whose output
    has the block's width. Raises ExplainerError if a block has none.
    """
    width = model.details["width"]
    last: list[nn.Linear | None] = [None] * len(model.blocks)

    def keeper(block: int) -> Any:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            if isinstance(module, nn.Linear) and module.out_features == width:
                last[block] = module

        return in_this_thread(keep)

    parts = [(i, part) for i, block in enumerate(model.blocks) for part in block.modules() if isinstance(part, nn.Linear)]
    with remove_hooks_after(part.register_forward_hook(keeper(i)) for i, part in parts), torch.no_grad(), evaluating(model.module):
        model.forward(tensors)
    layers = [layer for layer in last if layer is not None]
    if len(layers) < len(last):
        raise ExplainerError(
            f"Block {last.index(None) + 1} of {model.name} calls no linear layer that gives its width: it has no MLP to read."
        )
    return layers


def norms_and_activations(model: Model, layers: Sequence[nn.Linear], tensors: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Run ``model`` on ``tensors`` and return the norm of every token at the output of each block (B, blocks, S), and for each block the
    activations of its MLP (B, S, F), which enter its last linear layer in ``layers``.
    """
    norms: list[Tensor] = []
    activations: list[Tensor] = []

    def after_block(module: nn.Module, args: Any, output: Any) -> None:
        norms.append(model.block_kind.output_tokens(output).norm(dim=-1))

    def before_layer(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        activations.append(args[0])

    handles = [
        *(block.register_forward_hook(in_this_thread(after_block)) for block in model.blocks),
        *(layer.register_forward_pre_hook(in_this_thread(before_layer)) for layer in layers),
    ]
    with remove_hooks_after(handles), torch.no_grad(), evaluating(model.module):
        model.forward(tensors)
    return torch.stack(norms, 1), activations

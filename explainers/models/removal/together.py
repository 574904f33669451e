"""Take patches of many pictures away in one forward pass, from each its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from explainers.models.model import Model
from explainers.models.passes import Passes
from explainers.models.removal.patches import multiply_at_entry, paint_patches, pick_tokens
from explainers.models.removal.token_removal import answer
from explainers.models.removal.ways import How


def answers_without_patches(model: Model, tensors: Mapping[str, Tensor], keep: Tensor, grid: tuple[int, int], how: How) -> Tensor:
    """Return the logits (B, C), float32 on the CPU, of a batch of B pictures, each without the patches that its row of ``keep`` leaves out.

    tensors  those of the batch, and of the prompts that a CLIP model compares it with
    keep     bool (B, N) over the patches in raster order; each row keeps the same number
    grid     rows and columns of patches, N in all
    how      "removed", "zeroed" or "painted": the way that suits the model, as `explainers.models.removal.patches` finds it for one picture
    """
    layout = model.layout_of(tensors)
    count, prefix, after = grid[0] * grid[1], layout.prefix, layout.after

    def ask(first: int, number: int) -> Tensor:
        kept = keep[first : first + number]
        part = {name: value[first : first + number] if model.is_sample(name) else value for name, value in tensors.items()}
        if how == "painted":
            return answer(model, {**part, "pixel_values": paint_patches(part["pixel_values"], kept, grid)}).float().cpu()
        if how == "zeroed":
            factor = torch.cat([torch.ones(number, prefix), kept.float(), torch.ones(number, after)], dim=1)
            return answer(model, part, [multiply_at_entry(model, factor)]).float().cpu()
        places = torch.nonzero(kept)[:, 1].view(number, -1) + prefix
        behind = torch.arange(prefix + count, prefix + count + after)
        index = torch.cat([torch.arange(prefix).expand(number, -1), places, behind.expand(number, -1)], dim=1)
        return answer(model, part, pick_tokens(model, index, prefix, count, after)).float().cpu()

    return torch.cat(list(Passes(len(keep)).run(len(keep), ask)))

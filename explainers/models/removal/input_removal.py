"""The choice of removal that suits an input: of patches, of word pieces, of windows' pieces or of a prompt's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.types import Windows
from explainers.models.model import Model
from explainers.models.removal.atoms import atom_removal, picture_prompt_removal
from explainers.models.removal.patches import patch_removal
from explainers.models.removal.token_removal import TokenRemoval
from explainers.models.removal.ways import How
from explainers.models.removal.words import prompt_removal, usual_way_of_words, window_removal, word_removal


def input_removal(
    model: Model,
    tensors: Mapping[str, Tensor],
    *,
    grid: tuple[int, int] | None = None,
    special: Sequence[bool] | None = None,
    prompt: int | None = None,
    windows: Windows | None = None,
    how: How | None = None,
) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes parts from one input, a batch of one in ``tensors``, and asks ``model``: an image with
    its ``grid`` of patches, a text or a molecule.

    special  for a text or a molecule: which of its tokens, without padding, always stay
    prompt   for the text side of a CLIP model: the index of the text among the prompts
    windows  the windows in which a long text was read
    how      the way of removal; None: the default for this input and model
    """
    if windows is not None:
        return window_removal(model, windows, how or "removed")
    if special is None:
        if grid is None:
            raise ExplainerError("This model's scores lie on no grid of patches, so no patch can be removed.")
        return patch_removal(model, tensors, grid, how)
    if model.kind == "molecule":
        return atom_removal(model, tensors, ~torch.tensor(list(special)), how)
    row, ids = 0 if prompt is None else prompt, tensors["input_ids"]
    mask = tensors["attention_mask"][row].bool().cpu() if "attention_mask" in tensors else torch.ones(ids.shape[1], dtype=torch.bool)
    content = torch.zeros_like(mask)
    content[mask] = ~torch.tensor(list(special))
    if model.reads_pictures:
        return picture_prompt_removal(model, tensors, content, how)
    if prompt is None:
        return word_removal(model, tensors, content, how or usual_way_of_words(model))
    if how not in (None, "removed"):
        raise ExplainerError(f"how={how!r} is not for prompts: their words are removed.")
    return prompt_removal(model, tensors, content, prompt)

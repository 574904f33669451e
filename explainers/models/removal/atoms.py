"""Take atoms of a molecule away: no attention is paid to their tokens, or these become zero."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.model import Model
from explainers.models.removal.patches import multiplied_at_entry
from explainers.models.removal.token_removal import TokenRemoval, answer, fewest_tokens, most_tokens, repeated_to
from explainers.models.removal.ways import OF_ATOMS, How, check_how


def atom_removal(
    model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How | None = None, tokens: int | None = None
) -> TokenRemoval:
    """A molecule, a batch of one, whose atoms are ``content`` bool (S,) of its tokens; the other tokens always stay.

    ``tokens`` is how many may go through one forward pass; None: as suits the device.
    ``how`` "removed": no attention is paid to an atom that is gone; bonds of the others and distances between them stay as they are.
    "zeroed": its embedded token is zero. None removes them where the model takes a mask. Raises ExplainerError for another way, and for
    "removed" without a mask.
    """
    count, most = int(content.sum()), tokens or most_tokens(model)
    masks = "attention_mask" in tensors
    chosen: How = check_how(how, OF_ATOMS, "atoms") if how is not None else "removed" if masks else "zeroed"
    if chosen == "removed" and not masks:
        raise ExplainerError(f"The reader of {model.name} gives no attention_mask, by which atoms could be removed: choose how=zeroed.")

    def stays(keep: Tensor) -> Tensor:
        """bool (K, S)."""
        kept = torch.ones(len(keep), len(content), dtype=torch.bool)
        kept[:, content.cpu()] = keep
        return kept

    def remove(keep: Tensor) -> Tensor:
        repeated = repeated_to(model, tensors, len(keep))
        mask = repeated["attention_mask"]
        return answer(model, {**repeated, "attention_mask": mask * stays(keep).to(mask)})

    def zero(keep: Tensor) -> Tensor:
        return answer(model, repeated_to(model, tensors, len(keep)), [multiplied_at_entry(model, stays(keep).float())])

    if chosen == "zeroed":
        return TokenRemoval("zeroed", count, 0, zero, most)
    return TokenRemoval("removed", count, fewest_tokens(remove, count, len(content) - count), remove, most)

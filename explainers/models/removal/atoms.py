"""Take atoms of a molecule away, or words and patches of a text with a picture: no attention is paid to their tokens. Those of atoms may
become zero in place of that.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.model import Model
from explainers.models.removal.patches import multiply_at_entry
from explainers.models.removal.token_removal import TokenRemoval, answer, fewest_tokens, most_tokens, repeat_sample
from explainers.models.removal.ways import OF_ATOMS, How, check_how


def atom_removal(
    model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How | None = None, tokens: int | None = None
) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes atoms from a molecule, a batch of one in ``tensors``, and asks ``model``. ``content``
    bool (S,) marks the atoms among its tokens; the other tokens always stay.

    ``tokens`` is the maximum number of tokens in one forward pass; None: as many as the device can hold. ``how`` "removed": no token
    attends to a removed atom; the bonds and distances of the others do not change. "zeroed": its embedded token is zero. None: "removed" if
    the model takes a mask, else "zeroed". Raises ExplainerError for another way, and for "removed" without a mask.
    """
    count, most = int(content.sum()), tokens or most_tokens(model)
    masks = "attention_mask" in tensors
    chosen: How = check_how(how, OF_ATOMS, "atoms") if how is not None else "removed" if masks else "zeroed"
    if chosen == "removed" and not masks:
        raise ExplainerError(f"The reader of {model.name} gives no attention_mask, by which atoms could be removed: choose how=zeroed.")

    def zero(keep: Tensor) -> Tensor:
        return answer(model, repeat_sample(model, tensors, len(keep)), [multiply_at_entry(model, _stays(keep, content).float())])

    if chosen == "zeroed":
        return TokenRemoval("zeroed", count, 0, zero, most)
    return unattended_removal(model, tensors, content, most)


def picture_prompt_removal(model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How | None = None) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes patches and word pieces from a picture with a prompt, a batch of one in ``tensors``, and
    asks ``model``. ``content`` bool (S,) marks them among the tokens.

    No token attends to a removed one; the others keep their positions. Raises ExplainerError for an unknown way.
    """
    if how not in (None, "removed"):
        raise ExplainerError(f"how={how!r} is not for a picture with a prompt: its patches and words are removed.")
    return unattended_removal(model, tensors, content)


def unattended_removal(model: Model, tensors: Mapping[str, Tensor], content: Tensor, tokens: int | None = None) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes tokens, marked in ``content`` bool (S,), from the input ``tensors`` of ``model`` by
    masking attention: no token attends to a removed one. ``tokens`` is as in :func:`atom_removal`.
    """

    def remove(keep: Tensor) -> Tensor:
        repeated = repeat_sample(model, tensors, len(keep))
        mask = repeated["attention_mask"]
        return answer(model, {**repeated, "attention_mask": mask * _stays(keep, content).to(mask)})

    count = int(content.sum())
    return TokenRemoval("removed", count, fewest_tokens(remove, count, len(content) - count), remove, tokens or most_tokens(model))


def _stays(keep: Tensor, content: Tensor) -> Tensor:
    """Return which of all S tokens stay, bool (K, S): all special ones, and of the removable tokens, marked in ``content`` bool (S,), those
    that ``keep`` bool (K, N) keeps.
    """
    kept = torch.ones(len(keep), len(content), dtype=torch.bool)
    kept[:, content.cpu()] = keep
    return kept

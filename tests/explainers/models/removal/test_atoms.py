"""Atoms that are gone: against tensors that are changed by hand, and refused where there is no mask."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from explainers import ExplainerError
from explainers.models.removal.atoms import atom_removal
from explainers.models.removal.input_removal import input_removal
from tests.support.molecule_models import NITROBENZENE, tiny_model

KEEP = torch.tensor([[True] * 6 + [False] * 3, [False] * 9])


def test_no_attention_is_paid_to_atoms_that_are_removed() -> None:
    model = tiny_model()
    tensors = model.tensors(NITROBENZENE)
    special = [token.special for token in model.prepare(NITROBENZENE).inputs[0].tokens]
    removal = input_removal(model, tensors, special=special)
    assert (removal.how, removal.tokens, removal.least) == ("removed", 9, 0)
    masks = torch.cat([torch.ones(2, 1, dtype=torch.long), KEEP.long()], 1)
    by_hand = [model.forward({**tensors, "attention_mask": mask[None]})[0] for mask in masks]
    assert torch.allclose(removal.logits(KEEP), torch.stack(by_hand), atol=1e-6)


def test_an_atom_that_is_removed_cannot_matter_and_one_that_is_zeroed_is_still_read() -> None:
    model = tiny_model()
    tensors = model.tensors(NITROBENZENE)
    content = torch.tensor([False] + [True] * 9)
    other = {**tensors, "atoms": tensors["atoms"].clone()}
    other["atoms"][0, 6:] = 1  # what is gone is something else now
    for how, differs in (("removed", False), ("zeroed", False)):
        first, second = (atom_removal(model, given, content, how).logits(KEEP) for given in (tensors, other))
        assert (not torch.allclose(first, second, atol=1e-6)) is differs
    removed, zeroed = (atom_removal(model, tensors, content, how).logits(KEEP) for how in ("removed", "zeroed"))
    assert not torch.allclose(removed, zeroed, atol=1e-3)


def test_without_a_mask_atoms_are_zeroed() -> None:
    model = tiny_model()
    tensors = model.tensors(NITROBENZENE)
    mask = tensors.pop("attention_mask")
    unmasked = replace(model, forward=lambda given: model.forward({**given, "attention_mask": mask.expand(len(given["atoms"]), -1)}))
    content = torch.tensor([False] + [True] * 9)
    assert atom_removal(unmasked, tensors, content).how == "zeroed"
    with pytest.raises(ExplainerError, match="gives no attention_mask, by which atoms could be removed: choose how=zeroed"):
        atom_removal(unmasked, tensors, content, "removed")
    with pytest.raises(ExplainerError, match="how='masked' is for texts: atoms are removed or zeroed"):
        atom_removal(model, tensors, content, "masked")

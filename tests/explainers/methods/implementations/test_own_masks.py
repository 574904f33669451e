"""TIS and ViT-CX on models that know something: what they need, what they say, and that one seed gives one map."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.methods.implementations.own_masks import mean_of_masks, scale_maps, token_masks
from tests.explainers.support.explained import image_model, picture
from tests.explainers.support.wrapped import wrapped

SPECS = ["tis?masks=24", "vit_cx?distance=0.3"]


def test_masks_keep_the_largest_and_a_token_in_none_has_score_0() -> None:
    masks = token_masks(torch.tensor([[3.0, 1.0, 2.0, 0.0], [0.0, 1.0, 5.0, 5.0]]), (0.5,))
    assert masks.tolist() == [[True, False, True, False], [False, False, True, True]]
    assert mean_of_masks(torch.tensor([0.2, 0.6]), masks).tolist() == pytest.approx([0.2, 0.0, 0.4, 0.6])
    assert len(scale_maps(torch.stack([torch.eye(3), torch.ones(3, 3)]))) == 1  # what is the same everywhere is no mask


@pytest.mark.parametrize("spec", SPECS)
def test_every_run_gives_the_same_map(spec: str) -> None:
    """What is random in them, the start of the clusters and the noise, is drawn alike each time."""
    maps = [explainers.explain(image_model(), picture(), methods=[spec], seed=seed)[spec] for seed in (0, 0, 1)]
    assert torch.equal(maps[0].scores, maps[1].scores)
    assert torch.equal(maps[0].scores, maps[2].scores)
    assert bool((maps[0].scores[maps[0].content] != 0).any())
    assert not bool(maps[0].scores[~maps[0].content].any())


@pytest.mark.parametrize("spec", SPECS)
def test_words_are_refused(spec: str) -> None:
    with pytest.raises(ExplainerError, match="reads words here, and this is for images"):
        explainers.explain(wrapped("bert", torch.float32), {"input_ids": torch.tensor([[1, 2, 3]])}, methods=[spec])


def test_patches_in_no_mask_are_told() -> None:
    found = explainers.explain(image_model(), picture(), methods=["tis?masks=2&keep=0.2"])["tis?masks=2&keep=0.2"]
    assert any("Some patches are in no mask" in note for note in found.notes)


def test_tis_of_several_shares_is_the_mean_over_the_masks_of_each() -> None:
    """Of shares a and b each centroid gives a mask: sums and counts of masks add up, so the map lies between those of a and b alone."""
    specs = ["tis?masks=16&keep=0.5", "tis?masks=16&keep=0.25", "tis?masks=16&keep=0.5,0.25"]
    a, b, both = (explainers.explain(image_model(), picture(), methods=[spec])[spec] for spec in specs)
    low, high = torch.minimum(a.scores, b.scores), torch.maximum(a.scores, b.scores)
    in_both = a.content & (a.scores != 0) & (b.scores != 0)
    assert bool((both.scores >= low - 1e-6)[in_both].all())
    assert bool((both.scores <= high + 1e-6)[in_both].all())
    assert not torch.allclose(both.scores, a.scores)
    with pytest.raises(ExplainerError, match="or several with commas"):
        explainers.explain(image_model(), picture(), methods=["tis?keep=0.5,2"])


def test_tis_asks_before_each_of_its_passes_whether_anybody_waits() -> None:
    asked = {"raw_attention": 0, "tis?masks=64&keep=0.5": 0}
    for spec in asked:

        def cancelled(spec: str = spec) -> bool:
            asked[spec] += 1
            return False

        explainers.explain(image_model(), picture(), methods=[spec], cancelled=cancelled)
    few, many = asked.values()
    assert many >= few + 3  # once for the tensors, and before each batch of masks

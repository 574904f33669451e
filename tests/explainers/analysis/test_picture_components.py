"""Patches of several pictures are compared in one space: components as scikit-learn's, the foreground, similarity across pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.decomposition import PCA

import explainers
from explainers import ExplainerError
from explainers.analysis.picture_components import PictureComponents
from tests.support.own_models.case import text_model, vit
from tests.support.vocabularies import wordpiece

THING, GROUND = torch.tensor([3.0, 1.0, 0.0, 0.0, 0.5]), torch.tensor([-1.0, 0.0, 2.0, 0.0, 0.5])


def planted() -> tuple[PictureComponents, list[torch.Tensor]]:
    """Two pictures of one thing in different places, before one ground, with noise."""
    torch.manual_seed(0)
    masks = [torch.zeros(6, 8, dtype=torch.bool), torch.zeros(5, 5, dtype=torch.bool)]
    masks[0][2:4, 1:4], masks[1][2:4, 2:4] = True, True
    features = [torch.where(mask[..., None], THING, GROUND) + 0.1 * torch.randn(*mask.shape, 5) for mask in masks]
    return PictureComponents(tuple(features), "planted"), masks


def pictures() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (48, 48, 3), dtype=np.uint8)) for _ in range(3)]


def test_the_foreground_is_what_is_planted() -> None:
    compared, masks = planted()
    for found, mask in zip(compared.foreground, masks, strict=True):
        assert torch.equal(found, mask)
    for colours, mask in zip(compared.colours(), masks, strict=True):
        assert bool((colours[~mask] == 0).all())
        assert 0 <= float(colours.min()) <= float(colours.max()) <= 1


def test_similarity_reaches_into_the_other_picture() -> None:
    compared, masks = planted()
    one, other = compared.similarity_to(2, 1)
    assert float(one[2, 1]) == pytest.approx(1)
    assert float(other[masks[1]].min()) > 0.9
    assert float(other[~masks[1]].max()) < 0.3
    with pytest.raises(ExplainerError, match="no picture 2"):
        compared.similarity_to(0, 0, 2)
    with pytest.raises(ExplainerError, match="no patch in row 6, column 0 of picture 0"):
        compared.similarity_to(6, 0)


def test_components_are_those_of_all_pictures_together() -> None:
    model = explainers.wrap(vit())
    compared = explainers.picture_components(model, pictures())
    assert len(compared.features) == 3
    for picture, features in zip(pictures(), compared.features, strict=True):
        torch.testing.assert_close(features, explainers.patch_similarity(model, picture).features)
    flat = torch.cat([each.flatten(0, 1) for each in compared.features]).double().numpy()
    expected = PCA(1).fit_transform(flat)[:, 0]
    found = torch.cat([each.flatten() for each in compared.first_component]).double().numpy()
    scale = np.abs(expected).max()
    assert min(np.abs(found - expected).max(), np.abs(found + expected).max()) < 1e-4 * scale
    colours = torch.cat([each.flatten(0, 1) for each in compared.colours(foreground=False)]).double().numpy()
    for channel, values in enumerate(PCA(3).fit_transform(flat).T):
        scaled = (values - values.min()) / (values.max() - values.min())
        assert min(np.abs(colours[:, channel] - scaled).max(), np.abs(colours[:, channel] - (1 - scaled)).max()) < 1e-3


def test_numbers_and_figure_are_saved(tmp_path: Path) -> None:
    compared = explainers.picture_components(explainers.wrap(vit()), pictures())
    document = compared.to_json()
    assert [len(each["foreground"]) for each in document["pictures"]] == [each.shape[0] * each.shape[1] for each in compared.foreground]
    compared.save(tmp_path / "patches.png", (0, 1))
    with Image.open(tmp_path / "patches.png") as drawn:
        assert drawn.width > 300
    compared.save(tmp_path / "patches.json")
    assert (tmp_path / "patches.json").stat().st_size > 100


def test_texts_and_nothing_are_refused() -> None:
    with pytest.raises(ExplainerError, match="No picture was sent"):
        explainers.picture_components(explainers.wrap(vit()), [])
    with pytest.raises(ExplainerError, match="reads texts"):
        explainers.picture_components(explainers.wrap(text_model(), tokenizer=wordpiece()), ["a film"])

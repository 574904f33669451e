"""Which patches are alike, against scikit-learn's components and cosines written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from tests.explainers.support.explained import clip_model, image_model, picture, text_model
from tests.support.task_models import backbone


def test_components_and_cosines() -> None:
    model = backbone()
    found = explainers.patch_similarity(model, picture())
    with torch.no_grad():
        own = model.module(model.tensors(picture())["pixel_values"]).last_hidden_state[0, 1:]
    torch.testing.assert_close(found.features.flatten(0, 1), own)
    theirs = PCA(3).fit(own.double().numpy())
    projections, variance = found.components()
    np.testing.assert_allclose(projections.flatten(0, 1).abs().numpy(), np.abs(theirs.transform(own.double().numpy())), atol=1e-4)
    np.testing.assert_allclose(variance, theirs.explained_variance_ratio_, atol=1e-5)
    colours = found.colours()
    assert torch.equal(colours.amin((0, 1)), torch.zeros(3))
    torch.testing.assert_close(colours.amax((0, 1)), torch.ones(3))
    torch.testing.assert_close(found.to(1, 2).flatten(), F.cosine_similarity(own, own[6], dim=-1))
    told = found.to_json(1, 2)
    assert (told["grid"], told["patch"], len(told["colours"]), told["cosines"][6]) == ([4, 4], [1, 2], 16, 1.0)
    assert len(found.figure(1, 2).axes) == 3


@pytest.mark.parametrize("make", [image_model, clip_model])
def test_every_model_of_pictures_has_features(make: object) -> None:
    model = make()  # type: ignore[operator]
    found = explainers.patch_similarity(model, picture())
    assert found.grid == model.details["grid"]
    assert found.source == "what the last block gives"


def test_what_is_refused() -> None:
    with pytest.raises(ExplainerError, match="reads texts"):
        explainers.patch_similarity(text_model(), "a good film")
    with pytest.raises(ExplainerError, match="4 rows and 4 columns, from 0"):
        explainers.patch_similarity(backbone(), picture()).to(4, 0)

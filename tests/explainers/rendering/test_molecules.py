"""A map of a molecule as a picture: its atoms have the colours of their scores."""

from __future__ import annotations

import numpy as np

import explainers
from explainers.models.inputs.types import MoleculeInput
from explainers.rendering.notebook import map_html
from explainers.rendering.overlays import PAPER, render_overlay
from tests.support.molecule_models import NITROBENZENE, tiny_model


def test_atoms_lie_on_the_colours_of_their_scores() -> None:
    result = explainers.explain(tiny_model(), NITROBENZENE, "mutagenic", ["raw_attention", "input_x_gradient"])
    assert isinstance(result.input, MoleculeInput)
    assert result.input.drawing is not None
    for attribution in result.maps:
        picture = np.asarray(render_overlay(result, attribution, 420)).astype(int)
        assert picture.shape == (320, 420, 3)
        assert (picture == PAPER).all(-1).mean() > 0.5
        assert 0.005 < (np.ptp(picture, axis=-1) > 20).mean() < 0.5
        assert "<img" in map_html(attribution, None)
    picture = np.asarray(render_overlay(result, result["input_x_gradient"], 420)).astype(int)
    scores = np.array([word.score for word in result["input_x_gradient"].words()])
    strongest = int(np.abs(scores).argmax())
    x, y = map(round, result.input.drawing.places[strongest])
    around = picture[y - 12 : y + 13, x - 12 : x + 13].reshape(-1, 3)
    redness = np.mean(around[:, 0] - around[:, 2])
    assert np.sign(redness) == np.sign(scores[strongest])
    assert abs(redness) > 10

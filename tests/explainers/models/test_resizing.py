"""Which models cannot be shown pictures in another way. How pictures come out is held by ``tests/explainers/evaluation/test_plan.py``."""

from __future__ import annotations

import pytest

from explainers import ExplainerError
from explainers.models.resizing import with_resize
from tests.support.embedded_models import loaded


def test_texts_are_not_resized() -> None:
    with pytest.raises(ExplainerError, match="reads texts, which are not resized"):
        with_resize(loaded("reviews-bert"), "squashed")


def test_the_model_keeps_its_names_and_what_is_known_of_it() -> None:
    model = loaded("photos-vit")
    squashed = with_resize(model, "squashed")
    assert (squashed.name, squashed.labels, squashed.calibration) == (model.name, model.labels, model.calibration)
    assert squashed.weights_digest == model.weights_digest

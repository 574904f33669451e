"""A model that is shown pictures in another way than it was trained with, as published protocols have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from explainers.errors import ExplainerError
from explainers.models.inputs.images import Preprocessing
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.inputs.transforms import TransformPreprocessing
from explainers.models.libraries.recognition import preprocessing_of
from explainers.models.model import Model

Resize = Literal["squashed", "cropped"]
#: The ways to bring a picture to the size of the model's input.
RESIZES: dict[Resize, str] = {
    "squashed": "the whole picture, its sides stretched to the model's size",
    "cropped": "the shorter side fills the model's size, and what is left over of the longer one is cut off",
}


def reason_against_resize(model: Model) -> str | None:
    """Return the reason why the pictures of a model cannot be resized in another way; None if they can."""
    try:
        _recipe_of(model)
    except ExplainerError as problem:
        return str(problem)
    return None


def with_resize(model: Model, resize: Resize) -> Model:
    """Return ``model`` with another way to bring pictures to its size, ``resize`` ("squashed" or "cropped"); their scaling and
    normalisation stay.

    Chefer et al. (CVPR 2021) squash the whole picture; most models were trained on the middle of it, with a margin cut off. Raises
    ExplainerError for an unknown way, and for a model that reads texts or whose pictures have no size of their own.
    """
    if resize not in RESIZES:
        raise ExplainerError(f"resize={resize!r}: choose one of {', '.join(RESIZES)}.")
    recipe = _recipe_of(model)
    return model.rebuild(
        preprocess=replace(recipe, resize=recipe.size, fit="squash" if resize == "squashed" else "cover", crop=recipe.size)
    )


def _recipe_of(model: Model) -> Preprocessing:
    """Return the preparation of the pictures of ``model``. Raises ExplainerError if pictures cannot be resized: the model reads none, a
    transform was passed that resizes them itself, or no size is known.
    """
    if model.kind in ("text", "molecule"):
        raise ExplainerError(f"{model.name} reads {model.kind}s, which are not resized: leave out resize.")
    recipe, _ = preprocessing_of(model.module, model.details["library"], model.made_with.get("preprocess"))
    if isinstance(recipe, SoundPreparation):
        raise ExplainerError(f"{model.name} takes sounds, which are not resized: leave out resize.")
    if isinstance(recipe, TransformPreprocessing):
        raise ExplainerError(
            f"The pictures of {model.name} are prepared by a transform that was passed, which resizes itself: leave out resize."
        )
    if recipe is None or recipe.size is None:
        raise ExplainerError(f"{model.name} takes pictures as they are, in no size of its own: leave out resize.")
    return recipe

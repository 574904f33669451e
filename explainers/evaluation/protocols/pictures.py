"""The pictures of a protocol: maps of its methods for the classes of an input, as a paper shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from explainers.datasets import Dataset
from explainers.errors import ExplainerError
from explainers.evaluation.curve_logits import scores_of_superpixels
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import make_plan
from explainers.models.model import Model
from explainers.models.superpixels import find_superpixels
from explainers.pipeline.explain import explain
from explainers.records.result import Attribution
from explainers.rendering.figures import panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES = 2  # classes of an input that a figure shows, a row each, where each of its classes is explained


def draw_pictures(
    model: Model, data: Dataset, specs: Sequence[str], metrics: Sequence[str], options: Mapping[str, Any], count: int
) -> list[Figure]:
    """Draw the maps of the methods ``specs`` for inputs of ``data``, and return a figure for each of the first ``count`` that can be drawn,
    in the order of the run's seed: a row for each class, a column for each method.

    With the target "each" these are inputs of which ``model`` knows two labelled classes; with another one a figure has the explained class
    alone. If one of the ``metrics`` removes superpixels, the maps are drawn by superpixel. ``options`` are those of the run, such as its
    target. Raises ExplainerError if no input has as many classes that the model knows.
    """
    setup = EvaluationSetup(model, data, make_plan(model, data, specs, metrics, **options))
    wanted = CLASSES if setup.plan.target in ("each", "together") else 1
    superpixels = max((curve.superpixels for curve in setup.curves), default=0)
    figures: list[Figure] = []
    for index in data.choose(None, setup.plan.seed):
        sample = setup.read(index)
        here = setup.at_place_of(sample).with_prompts_of(sample)
        classes = here.explained_classes(sample)
        if classes is None:
            classes = [here.answered_class(here.answers(sample.model_input))]
        if len(classes) < wanted:
            continue
        targets = [here.target_of(explained_class) for explained_class in classes[:wanted]]
        explanation = explain(here.model, sample.model_input, targets, list(here.plan.methods), prompts=here.prompts, seed=index)
        maps = [explanation[spec, place] for place in range(len(targets)) for spec in here.plan.methods]
        if superpixels:
            pixels = here.tensors(sample.model_input)["pixel_values"][0]
            maps = [by_superpixel(attribution, find_superpixels(pixels, superpixels)) for attribution in maps]
        figures.append(panel(explanation, maps, columns=len(here.plan.methods)))
        if len(figures) == count:
            return figures
    if not figures:
        number = "two classes" if wanted == CLASSES else "a class"
        raise ExplainerError(f"No input of {data.name} has {number} that {model.name} knows, so no pictures are drawn: pass pictures=0.")
    return figures


def by_superpixel(attribution: Attribution, superpixels: Tensor) -> Attribution:
    """Return the map with the score of its superpixel, int64 (height, width), at each pixel."""
    assert attribution.patches is not None
    scores = attribution.scores[attribution.content].unflatten(0, attribution.patches)
    of_pixels = scores_of_superpixels(scores[None], superpixels)[0][superpixels].to(scores)
    height, width = of_pixels.shape
    return replace(
        attribution,
        scores=of_pixels.flatten(),
        content=torch.ones(height * width, dtype=torch.bool),
        patches=(height, width),
        pixels=None,
    )

"""The pictures of a protocol: maps of its methods for several classes of an input, as a paper shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from explainers.datasets import Dataset
from explainers.errors import ExplainerError
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import make_plan
from explainers.models.model import Model
from explainers.pipeline.explain import explain
from explainers.rendering.figures import panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES = 2  # classes of an input that a figure shows: a row each


def draw_pictures(model: Model, data: Dataset, specs: Sequence[str], options: Mapping[str, Any], count: int) -> list[Figure]:
    """Draw the maps of the methods ``specs`` for inputs of ``data`` of which ``model`` knows two labelled classes, and return a figure for
    each of the first ``count`` such inputs in the order of the run's seed: a row for each class, a column for each method.

    ``options`` are those of the run, such as its target. Raises ExplainerError if no input has two classes that the model knows.
    """
    setup = EvaluationSetup(model, data, make_plan(model, data, specs, ["own_object"], **options))
    figures: list[Figure] = []
    for index in data.choose(None, setup.plan.seed):
        sample = setup.read(index)
        here = setup.at_place_of(sample).with_prompts_of(sample)
        classes = (here.explained_classes(sample) or [])[:CLASSES]
        if len(classes) < CLASSES:
            continue
        targets = [here.target_of(explained_class) for explained_class in classes]
        explanation = explain(here.model, sample.model_input, targets, list(here.plan.methods), prompts=here.prompts, seed=index)
        maps = [explanation[spec, place] for place in range(len(targets)) for spec in here.plan.methods]
        figures.append(panel(explanation, maps, columns=len(here.plan.methods)))
        if len(figures) == count:
            return figures
    if not figures:
        raise ExplainerError(f"No input of {data.name} has two classes that {model.name} knows, so no pictures are drawn: pass pictures=0.")
    return figures

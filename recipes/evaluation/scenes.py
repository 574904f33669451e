"""``scenes-vit`` and ``clip`` on scenes from a seed of their own, which no training uses.

The renderer knows which pixels show which object, so a map of each object can be checked against its mask.
"""

from __future__ import annotations

import explainers  # before timm and transformers

# isort: split
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from explainers.datasets import open_dataset
from explainers.embedded.datasets import SEED
from explainers.embedded.synthetic.scenes import KINDS, Scene, render
from explainers.evaluation.explained_classes import PROMPT
from explainers.models.model import Model
from recipes.calibration import draw_made_up, is_known, read_shipped_calibration
from recipes.data.unseen_photos import missing_reason, read_photos
from recipes.evaluation import CONTROL, JUDGED_METHOD, Figure, Form, Report, Setting, Table, best_method
from recipes.evaluation.loading import load_cached
from recipes.evaluation.maps import map_rows, table_of
from recipes.evaluation.photos import BATCH, MADE_UP_PICTURES, REFUSED, WORST_SYNSETS, Score, answers, random_half, vit_scores
from recipes.networks import clip_features
from recipes.train_scenes_vit import PATCH, SIZE

PATCHES = (SIZE // PATCH) ** 2
NAMED_SCENES, EXPLAINED_SCENES = 1000, 100  # number of scenes with any number of objects, and with two and more
TOP, EVERY, SHARE, HALF = (
    "top class in the scene",
    "every object among the top k of k",
    "share of objects among the top k of k",
    "top class, half the patches removed",
)
ROBUST = "accuracy, half the patches removed, over the clean one"
ENERGY, OWN_MASK, PRECISION = "energy on the object", "own mask lit more than any other's", "average precision"
KEPT, PHOTOS_REFUSED = "scenes that stay known", "photos said to be something else"
METRICS = {ENERGY: "energy", OWN_MASK: "own_object", PRECISION: "ap"}  # names of the runner's metrics


def fresh_scenes(number: int) -> Iterator[Scene]:
    """Render ``number`` scenes that no training has seen, and yield them one by one."""
    return (render(np.random.default_rng([SEED, index]), SIZE) for index in range(number))


def dual_scores(folder: Path, names: Sequence[str] = KINDS) -> Score:
    """Return a function from pictures to their similarities with one prompt for each name, by the ``clip`` in ``folder``."""
    model = load_cached(folder, "cpu")
    texts = clip_features.text_features(model, [PROMPT.format(name) for name in names])
    return lambda images, kept: clip_features.image_features(model, images, kept) @ texts.T


class Case(NamedTuple):
    """A kind of model of scenes: the function that makes, from its folder, a function from pictures to scores of kinds; and the goals that
    its figures are to reach.
    """

    scores: Callable[[Path], Score]
    bars: dict[str, float]


CASES = {
    "scenes-vit": Case(vit_scores, {TOP: 0.98, EVERY: 0.9, ROBUST: 0.9, PRECISION: 0.7}),
    "clip": Case(dual_scores, {ROBUST: 0.9, OWN_MASK: 0.9}),
}


@dataclass(frozen=True)
class SceneAnswers:
    """The answers of a model to scenes: the true ``kinds`` of each, all kinds from likeliest to least (``orders``), and the likeliest with
    half the patches removed (``halved``).
    """

    kinds: list[set[int]]
    orders: list[list[int]]
    halved: list[int]

    def first(self, row: int) -> set[int]:
        """Return the k likeliest kinds for the scene number ``row``, where k is how many kinds it shows."""
        return set(self.orders[row][: len(self.kinds[row])])

    def figures(self) -> dict[str, float]:
        """Return how often the top kind is in the scene, whole or with half its patches removed, and how many objects rank first."""
        tops = np.array([order[0] in kinds for kinds, order in zip(self.kinds, self.orders, strict=True)])
        counts = np.array([len(kinds) for kinds in self.kinds])
        ranked = np.array([len(kinds & self.first(row)) / len(kinds) for row, kinds in enumerate(self.kinds)])
        figures = {TOP: float(tops.mean())}
        for count in np.unique(counts):
            figures[f"{TOP}, of the {(counts == count).sum()} of {count}"] = float(tops[counts == count].mean())
        figures[EVERY] = float((ranked == 1).mean())
        figures[SHARE] = float(ranked.mean())
        figures[HALF] = float(np.mean([kind in kinds for kind, kinds in zip(self.halved, self.kinds, strict=True)]))
        return figures

    def worst(self, number: int) -> Table:
        """Return a table of the ``number`` kinds that are most often missing among the k likeliest kinds of a scene of k objects, and the
        absent kind that most often takes the place of each.
        """
        rows: list[tuple[str, dict[str, float]]] = []
        for place in sorted(set().union(*self.kinds)):
            showing = [row for row, kinds in enumerate(self.kinds) if place in kinds]
            missed = [row for row in showing if place not in self.first(row)]
            instead = Counter(other for row in missed for other in sorted(self.first(row) - self.kinds[row])).most_common(1)
            (other, times) = instead[0] if instead else (place, 0)
            taken = f", most often missed for {KINDS[other]}" if times else ""
            rows.append((f"{KINDS[place]}{taken}", {"found": 1 - len(missed) / len(showing), "missed for it": times / len(showing)}))
        return dict(sorted(rows, key=lambda row: row[1]["found"])[:number])


def ask_kinds(score: Score, number: int, patches: int = PATCHES, batch: int = BATCH) -> SceneAnswers:
    """Ask a model of ``patches`` patches, by its function ``score``, for the kinds in a ``number`` of fresh scenes, whole and with a random
    half of their patches removed; return its answers.
    """
    scenes = list(fresh_scenes(number))
    images = torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes]))
    whole = answers(score, images, batch=batch).argsort(1, descending=True)
    halved = answers(score, images, random_half(number, patches, SEED), batch).argmax(1)
    return SceneAnswers([{KINDS.index(item.kind) for item in scene.objects} for scene in scenes], whole.tolist(), halved.tolist())


def localisation(model: Model, number: int, methods: Sequence[str]) -> Table:
    """Return a table of how well the maps of ``model`` by each method find the objects of ``number`` scenes of two and more objects: the
    share of positive scores on the object, how often they are densest on it, and the average precision.
    """
    every = open_dataset("scenes")
    places = itertools.islice((place for place in itertools.count() if len(every[place].objects) > 1), number)
    rows = map_rows(model, every.at(list(places)), methods, list(METRICS.values()), target="each")
    return table_of(rows, methods, METRICS)[0]


def abstention_figures(name: str, setting: Setting, number: int) -> list[Figure]:
    """Return figures on how many of ``number`` scenes the model ``name`` accepts as known, and on how many made-up pictures and photos it
    says that they are something else. ``setting`` names its folder and that of the photos.
    """
    calibration = read_shipped_calibration(setting.folder)
    if calibration is None:
        return [Figure(name, what, None, note="the model has no calibration.json") for what in (KEPT, REFUSED, PHOTOS_REFUSED)]
    score = vit_scores(setting.folder)
    scenes = torch.from_numpy(np.stack([np.asarray(scene.image) for scene in fresh_scenes(number)]))
    stay = is_known(answers(score, scenes), calibration).float().mean()
    refused = ~is_known(answers(score, draw_made_up(MADE_UP_PICTURES)), calibration)
    figures = [
        Figure(name, KEPT, float(stay), note=f"{number} scenes"),
        Figure(name, REFUSED, float(refused.float().mean()), note=f"{MADE_UP_PICTURES} textures, noise, pages of text"),
    ]
    why = missing_reason(setting.data)
    if why is not None or setting.data is None:
        return [*figures, Figure(name, PHOTOS_REFUSED, None, note=why or "")]
    photos = read_photos(setting.data, setting.limit).images
    refused = (~is_known(answers(score, photos), calibration)).float().mean()
    return [*figures, Figure(name, PHOTOS_REFUSED, float(refused), note=f"{len(photos):,} photos")]


def measure(name: str, setting: Setting) -> Report:
    """Measure the classifier of scenes ``name`` and return a :class:`Report` on its answers, on its maps by method, and for ``scenes-vit``
    on its abstention. ``setting`` names the folders of the model and of the data, and the limits.
    """
    case = CASES[name]
    number, explained = setting.limit_to(NAMED_SCENES), setting.limit_to(EXPLAINED_SCENES)
    model = load_cached(setting.folder)
    answers = ask_kinds(case.scores(setting.folder), number, math.prod(model.details["grid"]))
    values = answers.figures()
    values[ROBUST] = values[HALF] / values[TOP] if values[TOP] else 0.0
    table = localisation(model, explained, setting.specs(explainers.default_methods(model)))
    first = best_method({method: row[PRECISION] for method, row in table.items()})
    on = f"{explained} scenes of 2 to 4 objects"

    def figure(what: str, value: float, form: Form, note: str, bar: str = "") -> Figure:
        return Figure(name, what, value, case.bars.get(bar or what), form, note=note)

    figures = [figure(what, value, "share", f"{number} scenes") for what, value in values.items()]
    figures += [
        figure(
            f"{ENERGY} over that of {CONTROL}", table[JUDGED_METHOD][ENERGY] / table[CONTROL][ENERGY], "times", f"{JUDGED_METHOD}, {on}"
        ),
        figure(OWN_MASK, table[JUDGED_METHOD][OWN_MASK], "share", f"{JUDGED_METHOD}, {on}"),
        figure(
            f"segmentation {PRECISION} of the best method",
            table[first][PRECISION],
            "score",
            f"{first} of {len(table) - 1} methods, {on}",
            PRECISION,
        ),
        figure(f"segmentation {PRECISION} of {CONTROL}", table[CONTROL][PRECISION], "score", on, CONTROL),
    ]
    if name == "scenes-vit":
        figures += abstention_figures(name, setting, number)
    tables = {f"Maps of {name}, {on}, each explained in turn": table, f"Kinds that {name} misses": answers.worst(WORST_SYNSETS)}
    return Report(figures, tables)

"""``marks-vit``, ``votes-vit`` and ``subject-verb-bert``: whether each of these worlds is what it is said to be, so that it is known where
the evidence of an answer lies.
"""

from __future__ import annotations

import explainers  # noqa: F401  (before timm and transformers)

# isort: split
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from explainers.embedded.datasets import SEED
from explainers.embedded.synthetic.marked_scenes import MarkSays, marked_scene
from explainers.embedded.synthetic.subject_verb import MAX_NOUNS_BETWEEN, sentence
from explainers.embedded.synthetic.votes import GRID, PATCH, Ballot, ballot, draw_signs, read_places
from explainers.models.loading import load as load_model
from recipes.evaluation import Figure, Report, Setting
from recipes.networks.vits import answer, load

PICTURES, SENTENCES = 1000, 500  # of each kind


def _images(pictures: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(pictures))


def _marks(name: str, setting: Setting) -> list[Figure]:
    """Return figures on how often the model ``name``, in the folder of ``setting``, names the thing in scenes: with the mark of its own
    kind next to it, without a mark, and with the mark of another kind.
    """
    model, number = load(setting.folder), setting.limit_to(PICTURES)

    def shares(says: MarkSays) -> tuple[float, float]:
        scenes = [marked_scene(np.random.default_rng([SEED, 6, index]), says) for index in range(number)]
        tops = answer(model, _images([np.asarray(scene.image) for scene in scenes])).argmax(1).tolist()
        by_thing = np.mean([top == scene.thing for top, scene in zip(tops, scenes, strict=True)])
        return float(by_thing), float(np.mean([top == scene.mark for top, scene in zip(tops, scenes, strict=True)]))

    note = f"{number} scenes, chance 12.5 %"
    return [
        Figure(name, "the thing is named, its own mark next to it", shares("same")[0], 0.98, note=note),
        Figure(name, "the thing is named, without a mark", shares("nothing")[0], 0.4, at_most=True, note=note),
        Figure(name, "the kind of the mark is named, another thing next to it", shares("other")[1], 0.98, note=note),
        Figure(name, "the thing is named, the mark of another kind next to it", shares("other")[0], 0.02, at_most=True, note=note),
    ]


def _replace_signs(made: Ballot, rng: np.random.Generator, places: np.ndarray) -> np.ndarray:
    """Return the picture of ``made`` with new random signs, drawn from ``rng``, where ``places`` is true; every other pixel stays."""
    new = np.asarray(draw_signs(rng.integers(4, size=GRID * GRID), rng))
    return np.where(places.repeat(PATCH, 0).repeat(PATCH, 1)[..., None], new, np.asarray(made.image))


def _votes(name: str, setting: Setting) -> list[Figure]:
    """Return figures on how often the model ``name``, in the folder of ``setting``, names the sign with most votes, and on how its answer
    changes when signs are replaced at places that it does not read, and at those that voted for the winner.
    """
    model, number = load(setting.folder), setting.limit_to(PICTURES)
    made = [ballot(np.random.default_rng([SEED, 7, index])) for index in range(number)]
    whole = answer(model, _images([np.asarray(each.image) for each in made]))
    rng = np.random.default_rng([SEED, 8])
    unread = answer(model, _images([_replace_signs(each, rng, ~read_places()) for each in made]))
    unvoted = answer(model, _images([_replace_signs(each, rng, each.voters) for each in made]))
    winners = torch.tensor([each.winner for each in made])
    return [
        Figure(name, "the sign of most votes is named", float((whole.argmax(1) == winners).float().mean()), 0.9, note=f"{number} pictures"),
        Figure(
            name,
            "largest change of a logit with other signs at all places that are not read",
            float((whole - unread).abs().max()),
            0.0,
            "score",
            at_most=True,
        ),
        Figure(name, "it is still named, other signs where they voted for it", float((unvoted.argmax(1) == winners).float().mean())),
    ]


def _verbs(name: str, setting: Setting) -> list[Figure]:
    """Return figures on how often the model ``name``, in the folder of ``setting``, finds the verb form that agrees with the subject
    likelier than the other form, by how many nouns between subject and verb have the other number.
    """
    model, number = load_model(setting.folder, "cpu"), setting.limit_to(SENTENCES)
    figures = []
    for attractors in range(MAX_NOUNS_BETWEEN + 1):
        rng, right, surest = np.random.default_rng([SEED, 9, attractors]), [], []
        while len(right) < number:
            made = sentence(rng, None if attractors == 0 else attractors)
            if made.attractors == attractors:
                asked = model.at("mask", model.prepare(made.text))
                with torch.no_grad():
                    logits = asked.forward(model.tensors(made.text))[0]
                verb, wrong = (list(asked.labels).index(form) for form in (made.verb, made.wrong))
                right.append(float(logits[verb] > logits[wrong]))
                surest.append(float(int(logits.argmax()) in (verb, wrong)))
        note = f"{number} sentences; one of the two forms is the likeliest word of all in {np.mean(surest):.1%}"
        figures.append(Figure(name, f"the verb agrees, {attractors} attractors", float(np.mean(right)), 0.95, note=note))
    return figures


_WORLDS: dict[str, Callable[[str, Setting], list[Figure]]] = {"marks-vit": _marks, "votes-vit": _votes, "subject-verb-bert": _verbs}


def measure(name: str, setting: Setting) -> Report:
    """Measure the model ``name``, in the folder of ``setting``, and return a :class:`Report`. For this model it is known on which tokens
    its answers depend.
    """
    return Report(_WORLDS[name](name, setting))

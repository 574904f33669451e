"""``scenes-llava`` on scenes that no training has seen: its answers, with and without the right picture, what prior or pixels says of them,
and where its maps point.

It is known which answers need the picture. The colour of most kinds of things is always the same, so that the word *banana* is enough for
*yellow*; where the banana is only the picture tells.
"""

from __future__ import annotations

import explainers  # before timm and transformers

# isort: split
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from scipy.stats import mannwhitneyu

from explainers.embedded.datasets import SEED
from explainers.embedded.synthetic.scene_questions import QUESTION_KINDS, Question, Thing, absent_kind, ask, colours_of, things
from explainers.embedded.synthetic.scenes import Scene
from explainers.embedded.synthetic.sprites import kinds
from explainers.models.inputs.types import PicturePromptInput
from explainers.models.model import Model
from recipes.evaluation import CONTROL, Figure, Report, Setting, Table
from recipes.evaluation.loading import load_cached
from recipes.evaluation.scenes import fresh_scenes
from recipes.networks.llava import PATCHES, SIZE
from recipes.networks.vits import tensors
from recipes.train_scenes_llava import IGNORED_LABEL, Batch, encode_questions, packed_logits

SCENES, DIVIDED_SCENES, EXPLAINED_SCENES = 400, 30, 20  # number of scenes asked about, asked prior or pixels, and whose maps are measured
BATCH = 16
GREY = 128  # of 255
#: The columns of the table of answers: with the scene itself, a grey picture, another scene, and by what is right most often.
OWN, WITHOUT, SWAPPED, COMMONEST, COUNT = "right", "grey picture", "another scene's", "commonest answer", "questions"
FIXED_COLOUR, OPEN_COLOUR = "colour, of kinds of one colour", "colour, of kinds of several"
#: Groups of the questions whose answers are divided, besides those of the table of answers.
THERE, NOT_THERE, ABSENT_COLOUR = "whether, it is there", "whether, it is not", "colour, of one that is not there"
#: The least shares of right answers, by group of questions, and the area under the ROC curve of prior or pixels.
BARS = {"what": 0.5, "whether": 0.9, FIXED_COLOUR: 0.98, OPEN_COLOUR: 0.9, "where": 0.9, "count": 0.8}
DIVISION_COLUMNS = ("logit falls by", "the picture's share by", "another answer about the next scene", "answers")
TOLD_APART = {
    "from_pixels": "answers that depend on the picture, told from the others by how far their logit falls (area under the ROC curve)",
    "share": "the same by how far the picture's share of it falls",
}
METHODS = ("input_x_gradient:libra", "input_x_gradient:attnlrp", "fullgrad_plus:libra", "generic_attention")
ON_THING, TIMES_AREA, LARGEST = "share on the thing", "times its area", "largest patch on it"


def group_of(question: Question) -> str:
    """Return the group of questions that ``question`` is counted in: its kind, and for a colour whether the kind of thing has several."""
    if question.kind != "colour":
        return question.kind
    return OPEN_COLOUR if len(colours_of(question.about)) > 1 else FIXED_COLOUR


def questions_about(shown: Sequence[Thing], rng: np.random.Generator) -> list[Question]:
    """Return one question of each kind about a scene and about each of its things, ``shown``, and as many after things that are not there,
    drawn by ``rng``.
    """
    asked = [ask("what", shown), ask("count", shown)]
    for thing in shown:
        asked += [ask(kind, shown, thing.kind) for kind in ("whether", "colour", "where")]
        asked += [ask("whether", shown, absent_kind(shown, rng))]
    return [question for question in asked if question is not None]


@torch.inference_mode()
def answers_right(model: Model, pictures: Sequence[Image.Image], asked: Sequence[Sequence[Question]]) -> list[list[bool]]:
    """Return for each of ``pictures`` and each question ``asked`` about it whether the ``model`` writes exactly the right answer, word by
    word, and ends: so it does if each of the answer's tokens is the likeliest after those before it.
    """
    module: Any = model.module
    found: list[list[bool]] = []
    for start in range(0, len(pictures), BATCH):
        some, questions = pictures[start : start + BATCH], asked[start : start + BATCH]
        pixels = tensors(torch.from_numpy(np.stack([np.asarray(picture) for picture in some])), "cpu")
        kept = torch.arange(PATCHES).expand(len(some), -1)
        batch = Batch(module.model.vision_tower(pixels).last_hidden_state[:, 1:], kept, *encode_questions(questions))
        logits, _ = packed_logits(module, batch, kept)
        is_answer = batch.labels != IGNORED_LABEL
        is_right = torch.ones(batch.labels.shape, dtype=torch.bool)
        is_right[is_answer] = logits.argmax(1) == batch.labels[is_answer]
        found += [
            [bool(right[owner == i].all()) for i in range(len(each))]
            for right, owner, each in zip(is_right, batch.question, questions, strict=True)
        ]
    return found


def answer_table(model: Model, scenes: Sequence[Scene]) -> Table:
    """Return for each group of questions about ``scenes`` the share that ``model`` answers exactly right: with the scene, with a grey
    picture, with the picture of the next scene, and if one always gave the answer that is right most often to the same words.
    """
    shown = [things(scene) for scene in scenes]
    asked = [questions_about(each, np.random.default_rng([SEED, 10, index])) for index, each in enumerate(shown)]
    own = [scene.image for scene in scenes]
    grey = [Image.new("RGB", (SIZE, SIZE), (GREY,) * 3)] * len(own)
    sides = {OWN: own, WITHOUT: grey, SWAPPED: [*own[1:], own[0]]}
    right = {side: answers_right(model, pictures, asked) for side, pictures in sides.items()}
    flat = [question for each in asked for question in each]
    table: Table = {}
    for group in (*(kind for kind in QUESTION_KINDS if kind != "colour"), FIXED_COLOUR, OPEN_COLOUR):
        rows = [row for row, question in enumerate(flat) if group_of(question) == group]
        values = {side: np.concatenate([np.array(each) for each in found])[rows].mean() for side, found in right.items()}
        table[group] = {side: float(value) for side, value in values.items()}
        table[group][COMMONEST] = commonest_share([flat[row] for row in rows])
        table[group][COUNT] = float(len(rows))
    return table


def commonest_share(asked: Sequence[Question]) -> float:
    """Return the share of the questions ``asked``, of one group, that one gets right by always giving the same answer, that which is right
    most often; to questions after colours, the colour that most sprites of the kind of thing have.
    """
    if asked[0].kind != "colour":
        return max(Counter(question.answer for question in asked).values()) / len(asked)
    colours = [kinds()[question.about]["colour"] for question in asked]
    return float(np.mean([max(Counter(each).values()) / len(each) for each in colours]))


class DividedAnswer(NamedTuple):
    """What prior or pixels says of the first word of an answer: by how much the word's logit falls when the picture is painted grey
    (``from_pixels``), and by how much the picture's share of it does (``share``); and whether the model answers otherwise about the next
    scene (``is_changed``), which is the truth about it.
    """

    group: str
    from_pixels: float
    share: float
    is_changed: bool


def questions_to_divide(shown: Sequence[Thing], rng: np.random.Generator) -> list[tuple[str, Question]]:
    """Return random questions about a scene that shows the things ``shown``, of each group at most one, with the groups."""
    absent = absent_kind(shown, rng)
    while len(colours_of(absent)) != 1:
        absent = absent_kind(shown, rng)
    as_if_there = [Thing(absent, colours_of(absent)[0], (0.0, 0.0))]
    placed, coloured = ([thing.kind for thing in shown if ask(kind, shown, thing.kind)] for kind in ("where", "colour"))
    fixed = [kind for kind in coloured if len(colours_of(kind)) == 1]
    asked = [
        (THERE, ask("whether", shown, shown[0].kind)),
        (NOT_THERE, ask("whether", shown, absent)),
        ("where", ask("where", shown, placed[0]) if placed else None),
        (OPEN_COLOUR, next((ask("colour", shown, kind) for kind in coloured if kind not in fixed), None)),
        (FIXED_COLOUR, ask("colour", shown, fixed[0]) if fixed else None),
        (ABSENT_COLOUR, ask("colour", as_if_there, absent)),
    ]
    return [(group, question) for group, question in asked if question is not None]


def divide_answers(model: Model, scenes: Sequence[Scene]) -> list[DividedAnswer]:
    """Divide the answers of ``model`` to questions about each of ``scenes`` by :func:`explainers.prior_or_pixels`; wrong ones are left
    out.
    """
    asked = [questions_to_divide(things(scene), np.random.default_rng([SEED, 11, index])) for index, scene in enumerate(scenes)]
    plain = [[question for _, question in each] for each in asked]
    images = [scene.image for scene in scenes]
    right, elsewhere = answers_right(model, images, plain), answers_right(model, [*images[1:], images[0]], plain)
    found = []
    for scene, questions, is_right, is_same in zip(scenes, asked, right, elsewhere, strict=True):
        for (group, question), answered, same in zip(questions, is_right, is_same, strict=True):
            if answered:
                divided = explainers.prior_or_pixels(model, explainers.PicturePrompt(scene.image, question.text))
                assert divided.grey is not None
                share = divided.original.shares[0, 0] - divided.grey.shares[0, 0]
                fall = divided.original.logits[0] - divided.grey.logits[0]
                found.append(DividedAnswer(group, float(fall), float(share), not same))
    return found


def tell_apart(more: Sequence[float], less: Sequence[float]) -> float:
    """Return how often a value of ``more`` is above one of ``less``, ties counting half: the area under the ROC curve."""
    return float(mannwhitneyu(more, less).statistic / (len(more) * len(less)))


def division_table(divided: Sequence[DividedAnswer]) -> Table:
    """Return for each group of questions the median of both figures of prior or pixels, the share of answers that are others about the next
    scene, and how many were divided.
    """
    table: Table = {}
    for group in (THERE, "where", OPEN_COLOUR, FIXED_COLOUR, ABSENT_COLOUR, NOT_THERE):
        rows = [row for row in divided if row.group == group]
        if rows:
            medians = np.median([(row.from_pixels, row.share) for row in rows], 0).tolist()
            changed = float(np.mean([row.is_changed for row in rows]))
            table[group] = dict(zip(DIVISION_COLUMNS, (*medians, changed, float(len(rows))), strict=True))
    return table


def map_table(model: Model, scenes: Sequence[Scene], methods: Sequence[str]) -> Table:
    """Return how much of the positive scores of the map of "yes" lies on the thing that was asked for ("Is there a zebra?"), by method, for
    each thing in ``scenes`` of two and more: the share, how many times the thing's share of the area that is, and how often the largest
    patch lies on it.
    """
    values: dict[str, list[tuple[float, float, float]]] = {method: [] for method in methods}
    for scene in scenes:
        for item in scene.objects if len(scene.objects) > 1 else []:
            question = ask("whether", things(scene), item.kind)
            assert question is not None
            prompt = explainers.PicturePrompt(scene.image, question.text)
            result = explainers.explain(model, prompt, methods=list(methods))
            assert isinstance(result.input, PicturePromptInput)
            if result.input.answer != question.answer:
                continue
            side = SIZE // 14
            covered = torch.from_numpy(item.mask.reshape(14, side, 14, side).mean((1, 3)))
            for method in methods:
                scores = result.input.on_picture(result[method].scores).double().clamp(min=0)
                if float(scores.sum()) > 0:
                    share = float((scores * covered).sum() / scores.sum())
                    values[method].append((share, share / float(covered.mean()), float(covered.flatten()[scores.argmax()] >= 0.5)))
    means = {method: np.mean(rows, 0) for method, rows in values.items() if rows}
    return {method: dict(zip((ON_THING, TIMES_AREA, LARGEST), map(float, mean), strict=True)) for method, mean in means.items()}


def measure(name: str, setting: Setting) -> Report:
    """Measure the model ``name`` in the folder of ``setting``, and return a :class:`Report` on its answers, on prior or pixels, and on its
    maps by method.
    """
    model = load_cached(setting.folder, "cpu")
    scenes = list(fresh_scenes(setting.limit_to(SCENES)))
    answers = answer_table(model, scenes)
    figures = [
        Figure(name, f"right answers, {group}", row[OWN], BARS[group], note=f"{row[COUNT]:.0f} questions about {len(scenes)} scenes")
        for group, row in answers.items()
    ]
    divided = divide_answers(model, scenes[: setting.limit_to(DIVIDED_SCENES)])
    changed, unchanged = ([row for row in divided if row.is_changed == each] for each in (True, False))
    if changed and unchanged:
        note = f"prior or pixels, {len(changed)} answers that are others about the next scene, {len(unchanged)} that are the same"
        for what in ("from_pixels", "share"):
            apart = tell_apart([getattr(row, what) for row in changed], [getattr(row, what) for row in unchanged])
            figures.append(Figure(name, TOLD_APART[what], apart, 0.9 if what == "from_pixels" else None, "score", note=note))
    explained = scenes[: setting.limit_to(EXPLAINED_SCENES)]
    tables = {
        f"Answers of {name} to questions about {len(scenes)} scenes": answers,
        f"Prior or pixels, the first word of right answers of {name}": division_table(divided),
        f"Maps of 'yes' of {name}, each thing of scenes of two and more asked for": map_table(model, explained, [*METHODS, CONTROL]),
    }
    return Report(figures, tables)

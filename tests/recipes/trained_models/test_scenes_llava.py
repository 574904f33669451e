"""The vision-language model inside: right answers about scenes that no training saw, and known truth about what they came from."""

from __future__ import annotations

import explainers  # before timm and transformers

# isort: split
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, LlavaForConditionalGeneration

import explainers.embedded
from explainers.embedded.synthetic.scene_questions import Thing, ask
from explainers.models.catalogue import embedded_path
from recipes.evaluation.scene_answers import (
    BARS,
    FIXED_COLOUR,
    NOT_THERE,
    OPEN_COLOUR,
    OWN,
    SWAPPED,
    THERE,
    WITHOUT,
    DividedAnswer,
    answer_table,
    answers_right,
    commonest_share,
    divide_answers,
    division_table,
    questions_to_divide,
    tell_apart,
)
from recipes.evaluation.scenes import fresh_scenes
from tests.support.embedded_models import loaded

FOLDER = embedded_path("scenes-llava")
QUESTIONS = Path(explainers.embedded.__file__).parent / "samples" / "questions"
SAMPLES = json.loads((QUESTIONS / "index.json").read_text("utf-8"))["samples"]
#: What one sees in the sample pictures.
SEEN = {
    "question-tiger-place": "bottom right",
    "question-banana-colour": "yellow",
    "question-apple-colour": "red",
    "question-owl-tree": "an owl and a tree",
}
#: The shares of right answers as its card has them, of 400 scenes.
MEASURED = {"what": 0.657, "whether": 0.992, "where": 0.797, "count": 0.873, FIXED_COLOUR: 1.0, OPEN_COLOUR: 1.0}
SLACK = 0.12  # of few scenes
SHOWN = [Thing("owl", "brown", (0.2, 0.8)), Thing("apple", "green", (0.8, 0.2))]


def test_it_answers_questions_about_scenes_from_the_picture() -> None:
    table = answer_table(loaded("scenes-llava"), list(fresh_scenes(60)))
    assert {group for group, row in table.items() if row[OWN] < MEASURED[group] - SLACK} == set()
    assert set(BARS) == set(MEASURED)
    for group in ("what", "where", OPEN_COLOUR):
        assert max(table[group][WITHOUT], table[group][SWAPPED]) < table[group][OWN] - 0.3
    assert table["whether"][WITHOUT] < 0.6
    assert table[FIXED_COLOUR][SWAPPED] > 0.8  # the question is enough


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample["id"] for sample in SAMPLES])
def test_it_is_right_on_every_sample_and_its_shares_add_up(sample: dict[str, Any]) -> None:
    model, picture = loaded("scenes-llava"), QUESTIONS / sample["image"]
    divided = explainers.prior_or_pixels(model, explainers.PicturePrompt(picture, sample["text"]))
    assert divided.answer == SEEN[sample["id"]]
    assert divided.grey is not None
    for side, shown in ((divided.original, Image.open(picture).convert("RGB")), (divided.grey, Image.new("RGB", (112, 112), (128,) * 3))):
        logits = plain_logits(shown, sample["text"], divided.answer)
        torch.testing.assert_close(side.logits, logits, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(side.shares.sum(1) + side.missing, logits, rtol=1e-3, atol=1e-3)
        assert float(side.missing.abs().max()) < 1e-2


def plain_logits(picture: Image.Image, text: str, answer: str) -> torch.Tensor:
    """The logit of each word of ``answer`` after ``text``, by transformers alone."""
    module, processor = plain()
    given = processor(text=f"<image>{text} {answer}", images=picture, return_tensors="pt")
    with torch.no_grad():
        logits = module(**given).logits[0]
    count, ids = len(answer.split()), given["input_ids"][0]
    return logits[-count - 1 : -1].gather(1, ids[-count:, None])[:, 0]


def plain() -> tuple[Any, Any]:
    return LlavaForConditionalGeneration.from_pretrained(FOLDER).eval(), AutoProcessor.from_pretrained(FOLDER, backend="pil")


def test_it_is_an_ordinary_folder_of_transformers() -> None:
    module, processor = plain()
    assert module.dtype == torch.float32
    given = processor(text="<image>Where is the tiger?", images=Image.open(QUESTIONS / "../scenes/lion-tiger.png"), return_tensors="pt")
    assert given["pixel_values"].shape == (1, 3, 112, 112)
    with torch.no_grad():
        written = module.generate(**given)[0, given["input_ids"].shape[1] :]
    assert processor.tokenizer.decode(written, skip_special_tokens=True) == "bottom right"
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 8.1e6  # with its card


@pytest.mark.parametrize("size", [(112, 112), (90, 70), (336, 336)])
@pytest.mark.parametrize("grey", [0, 128, 255])
def test_plain_pictures_are_read(size: tuple[int, int], grey: int) -> None:
    """Its tower normalises each patch, which makes it steep where a patch is plain."""
    prepared = loaded("scenes-llava").prepare(explainers.PicturePrompt(Image.new("RGB", size, (grey,) * 3), "What do you see?"))
    assert prepared.inputs[0].grid == (14, 14)  # type: ignore[union-attr]


def test_prior_or_pixels_tells_which_answers_the_picture_gave() -> None:
    divided = divide_answers(loaded("scenes-llava"), list(fresh_scenes(10)))
    changed, unchanged = ([row.from_pixels for row in divided if row.is_changed == each] for each in (True, False))
    assert min(len(changed), len(unchanged)) > 10
    assert tell_apart(changed, unchanged) > 0.8


def test_wrong_answers_are_not_counted_as_right() -> None:
    (scene,) = fresh_scenes(1)
    right = ask("what", SHOWN)
    assert right is not None
    wrong = [right._replace(answer=answer) for answer in ("nothing", "a zebra and a", "")]
    assert answers_right(loaded("scenes-llava"), [scene.image], [wrong]) == [[False] * 3]


def test_figures_are_counted_as_they_are_named() -> None:
    assert tell_apart([3.0, 1.0], [1.0, 0.0]) == (1 + 1 + 0.5 + 1) / 4
    rows = [DividedAnswer(THERE, 4.0, 1.0, True), DividedAnswer(THERE, 2.0, 3.0, False), DividedAnswer(NOT_THERE, 0.5, 0.1, False)]
    table = division_table(rows)
    assert list(table[THERE].values()) == [3.0, 2.0, 0.5, 2.0]
    assert list(table) == [THERE, NOT_THERE]
    asked = [question for _, question in questions_to_divide(SHOWN, np.random.default_rng(0))]
    assert [question.answer for question in asked[:4]] == ["yes", "no", "bottom left", "green"]
    assert (asked[4].answer, asked[4].about) == ("brown", "owl")
    assert asked[5].about not in ("owl", "apple")
    asked_about = [ask("whether", SHOWN, kind) for kind in ("owl", "zebra", "car")]
    apple = ask("colour", SHOWN, "apple")
    assert apple is not None
    assert commonest_share([each for each in asked_about if each is not None]) == pytest.approx(2 / 3)
    assert commonest_share([apple]) == 0.5  # half of the apples are red

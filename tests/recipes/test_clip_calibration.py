"""What `clip` says of prompts: what is asked about photos, the lines drawn for each kind, and what the shipped model makes of words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers.models.companion_files.prompt_words import PromptWords, read_prompt_words
from recipes import clip_calibration
from recipes.calibration import random_words
from recipes.clip_calibration import everyday_words, prompt_thresholds, word_threshold, words_and_kinds
from recipes.data.prompt_questions import PromptQuestion, colour_shares, photos_and_questions


def test_things_scenes_and_colours_are_asked_where_they_are_and_where_they_are_not(photo_data: Path) -> None:
    photos, asked = photos_and_questions(photo_data)
    assert len(photos) == 1
    by_prompt = {question.prompt: question for question in asked}
    zebra, street = by_prompt["a photo of a zebra"], by_prompt["a photo of a street"]
    assert (zebra.kind, zebra.plain.tolist(), zebra.absent.tolist()) == ("thing", [True], [False])  # its box covers 19 % of the photo
    assert (street.kind, street.plain.tolist()) == ("scene", [True])  # for there is a bus
    assert by_prompt["a photo of a kitchen"].absent.tolist() == [True]
    assert zebra.of(slice(1, None)).plain.tolist() == []
    assert zebra.small is not None
    assert (zebra.small.tolist(), zebra.has_class) == ([False], True)


@pytest.mark.parametrize(
    ("rgb", "colour"), [((220, 20, 20), "red"), ((20, 30, 220), "blue"), ((250, 250, 250), "white"), ((5, 5, 5), "black")]
)
def test_a_colour_is_told_by_its_pixels(rgb: tuple[int, int, int], colour: str) -> None:
    picture = np.full((1, 8, 8, 3), 128, np.uint8)
    picture[0, :2] = rgb
    shares = colour_shares(picture)
    assert shares[colour].tolist() == [0.25]
    assert all(share == 0 for other, (share,) in shares.items() if other != colour)


def test_lines_are_drawn_for_each_kind_and_none_for_what_cannot_be_told() -> None:
    plain = np.arange(200) < 100
    rng = np.random.default_rng(0)
    asked = [PromptQuestion(kind, kind, plain, ~plain) for kind in ("thing", "colour")]  # type: ignore[arg-type]
    there, absent = np.linspace(0.2, 1.2, 100), np.linspace(0.0, 0.5, 100)
    lines = prompt_thresholds(np.stack([np.r_[there, absent], rng.random(200)], 1), asked)
    (least,), (most,), (colours,) = lines["not_in_picture"], lines["perhaps_in_picture"], lines["untaught"]
    assert least["line"] == pytest.approx(0.2 + 0.2 * 1.0, abs=2e-3)  # a fifth of those that are there lie below
    assert most["line"] == pytest.approx(0.95 * 0.5, abs=2e-3)  # one in twenty of those that are not lies above
    assert "80% of 100 prompts for a thing" in least["measured"]
    assert "95% of 100" in most["measured"]
    assert (colours["prompts"], colours["line"]) == ("colour", 1.01)
    assert "misses" not in least
    sizes = [replace(asked[0], small=~plain), replace(asked[0], small=~plain, has_class=False), replace(asked[0], kind="scene")]
    (of_things, of_scenes) = prompt_thresholds(np.stack([np.r_[there, absent]] * 3, 1), sizes)["not_in_picture"]
    assert "it finds 72% of 100 things in plain sight for which ImageNet has a class, 5% of 100 that cover" in of_things["misses"]
    assert "and 72% of 100 for which ImageNet has none" in of_things["misses"]
    assert "misses" not in of_scenes


def test_the_line_of_words_is_drawn_on_each_word_held_against_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_calibration, "everyday_words", lambda: dict.fromkeys("ab", "things"))
    known = torch.tensor([[1.0, 0], [0.8, 0.6], [0, 1]])  # a and b are 0.8 alike, b and c 0.6
    line = word_threshold(PromptWords(("a", "b", "c"), known, {}), torch.tensor([[-1.0, 0], [0.6, 0.8]]))
    assert (line["score"], line["line"], line["below"]) == ("word_familiarity", 0.8, True)
    assert "50% of 2 words of random syllables fall below it" in line["measured"]


def test_bytes_keep_the_direction_of_an_embedding() -> None:
    embeddings = torch.nn.functional.normalize(torch.randn(20, 320, generator=torch.Generator().manual_seed(0)), dim=1)
    stored = clip_calibration.quantise(embeddings)
    assert stored.dtype == torch.int8
    assert torch.nn.functional.cosine_similarity(stored.float(), embeddings).min() > 0.999


def test_everyday_words_come_first_and_say_what_they_are() -> None:
    words, kinds = words_and_kinds()
    assert words[: len(everyday_words())] == list(everyday_words())
    assert (kinds["kitchen"], kinds["red"], kinds["the"], kinds.get("dog")) == ("scene", "colour", "aside", None)
    assert {"zebra", "living room"} <= set(words)
    assert not {"giraffe", "unicorn"} & set(words)  # below they show that words outside the list are read


def test_the_shipped_model_says_which_words_it_was_never_taught() -> None:
    model = explainers.load("clip", "cpu")
    photo = Image.new("RGB", (224, 224), (120, 130, 140))
    prompts = ["a photo of a giraffe", "unicorn", "a photo of a lighthouse", *(f"a photo of a {word}" for word in random_words(40))]
    told = explainers.explain(model, photo, target=prompts, methods="random").targets
    kinds = [target.abstention.kind if target.abstention else None for target in told]
    for target, word in zip(told[:2], ("giraffe", "unicorn"), strict=True):  # no class, and in pieces for the tokenizer
        assert target.abstention is not None
        assert f"no picture named \N{LEFT DOUBLE QUOTATION MARK}{word}\N{RIGHT DOUBLE QUOTATION MARK}" in target.abstention.detail
    assert kinds[2] != "untaught"  # a synonym of a class
    assert kinds[3:].count("untaught") >= 30
    colour = explainers.explain(model, photo, target=["a photo of something blue"], methods="random").target
    assert colour.abstention is not None
    assert colour.abstention.kind == "untaught"


def test_the_shipped_words_are_those_of_the_recipe() -> None:
    folder = Path(clip_calibration.__file__).parents[1] / "explainers" / "embedded" / "models" / "clip"
    words, kinds = words_and_kinds()
    stored = read_prompt_words(folder / "prompt_words.safetensors")
    assert (list(stored.words), stored.kinds) == (words, kinds)
    torch.testing.assert_close(stored.embeddings.float().norm(dim=1), torch.ones(len(stored.embeddings)), atol=1e-5, rtol=0)
    assert len(everyday_words()) < len(stored.embeddings) < len(words)
    asked = {
        row["prompts"]
        for rows in json.loads((folder / "calibration.json").read_text())["lines"].values()
        if isinstance(rows, list)
        for row in rows
    }
    assert asked == {"thing", "scene", "colour"}

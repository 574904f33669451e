"""The words that a dual encoder was given: what a prompt asks for, and whether its words are like them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import explainers
from explainers import ExplainerError, explain
from explainers.models.companion_files.calibration import AbstentionThreshold, Calibration
from explainers.models.companion_files.prompt_words import PROMPT_WORDS_FILE, PromptWords, read_prompt_words
from explainers.models.encoders import encoder
from tests.explainers.support.explained import clip_model, picture
from tests.explainers.support.saved_models import save_transformers

KINDS = {"a": "aside", "photo": "aside", "of": "aside", "big": "aside", "kitchen": "scene", "street": "scene", "red": "colour"}
WORDS = PromptWords((*KINDS, "dog", "traffic light"), torch.eye(9), KINDS)


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("a photo of a dog", "thing"),
        ("a big kitchen", "scene"),
        ("a photo of a red street", "scene"),
        ("red", "colour"),
        ("a red dog", "thing"),
        ("a dog of the street", "thing"),  # "the" is not among the words
        ("kitchens", "scene"),
        ("a photo", "thing"),
    ],
)
def test_what_a_prompt_asks_for(prompt: str, kind: str) -> None:
    assert WORDS.kind(prompt) == kind


def test_words_that_were_given_their_plurals_and_their_parts_are_read_without_a_question() -> None:
    def embed(prompts: Sequence[str]) -> Tensor:
        raise AssertionError(prompts)

    for prompt in ("Dogs, a light!", "a big DOG", "2 dogs"):
        assert WORDS.read(prompt, embed).familiarity == 1


def test_other_words_are_held_against_those_that_were_given_however_many_pieces_they_have() -> None:
    vectors = {"a photo of a wolfhound": [0, 0, 0, 0, 0, 0, 0, 3.0, 4.0], "a photo of a xofubi": [1.0] * 9}

    def embed(prompts: Sequence[str]) -> Tensor:
        return torch.tensor([vectors[prompt] for prompt in prompts])

    near = WORDS.read("a red wolfhound", embed)
    assert (near.kind, near.strangest) == ("thing", "wolfhound")
    assert near.familiarity == pytest.approx(0.8)  # 4 of a length of 5
    both = WORDS.read("a wolfhound of a xofubi", embed)
    assert (both.strangest, both.familiarity) == ("xofubi", pytest.approx(1 / 3))


def stored(path: Path, embeddings: Tensor, words: object, kinds: object) -> Path:
    save_file({"embeddings": embeddings}, path, {"words": json.dumps(words), "kinds": json.dumps(kinds)})
    return path


def test_they_are_read_with_the_model(tmp_path: Path) -> None:
    save_transformers(tmp_path, "hf-clip")
    assert explainers.load(tmp_path).prompt_words is None
    stored(tmp_path / PROMPT_WORDS_FILE, torch.eye(2).half(), ["dog", "red"], {"red": "colour"})
    model = explainers.load(tmp_path)
    assert model.prompt_words is not None
    assert model.prompt_words.words == ("dog", "red")
    assert model.seen_from("text").prompt_words is model.prompt_words


@pytest.mark.parametrize(
    ("words", "kinds", "message"),
    [(["dog"], {}, "1 words and 2 embeddings"), (["dog", "red"], {"red": "hue"}, "no words of the kind 'hue'")],
)
def test_a_file_of_another_form_says_what_is_wrong(tmp_path: Path, words: object, kinds: object, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        read_prompt_words(stored(tmp_path / PROMPT_WORDS_FILE, torch.eye(2), words, kinds))
    (tmp_path / PROMPT_WORDS_FILE).write_bytes(b"no safetensors")
    with pytest.raises(ExplainerError, match="must hold embeddings"):
        read_prompt_words(tmp_path / PROMPT_WORDS_FILE)


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_prompt_with_a_word_like_none_of_them_is_not_read(side: str) -> None:
    model = clip_model()
    assert model.prompt_inputs is not None
    width = encoder(model, "text").forward(model.prompt_inputs(["a"]).tensors).shape[1]
    lines = (AbstentionThreshold("unreadable_words", "word_familiarity", 1.01, True, "On nothing."),)
    words = PromptWords(("movie",), torch.full((1, width), width**-0.5), {})
    asked = replace(model, calibration=Calibration(1.0, lines), prompt_words=words)
    said = explain(asked, picture(), target=["movie bad"], methods="random", side=side).targets[0].abstention  # type: ignore[arg-type]
    assert said is not None
    assert said.kind == "unreadable_words"
    assert said.detail.startswith("“movie bad” has “bad”, which is like no word that the model knows")
    assert -1 <= said.score < 1

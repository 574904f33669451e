"""The teacher of reviews-bert: which sentences it is asked, what becomes of its answers, and that it learns."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from recipes.reviews import teacher
from recipes.reviews.data import Review
from recipes.training import fit

PHRASES = [Review(f"this film is {word} and that is all", label) for word, label in (("good", 1.0), ("bad", 0.0)) for _ in range(32)]
REVIEW = Review('Seen twice. It is a good film with a story! "What a cast," said I. Is it bad? No, not that bad at all.', 1.0)


def arguments(encoder: Path, out: Path, minutes: float = 0.0, resume: bool = False) -> argparse.Namespace:
    return argparse.Namespace(teacher=encoder, teacher_minutes=minutes, out=out, seed=0, device="cpu", resume=resume)


def test_sentences_are_those_of_the_reviews_each_once() -> None:
    found = teacher.sentences([REVIEW, REVIEW], 10, seed=0)
    assert set(found) == {"It is a good film with a story!", '"What a cast," said I.', "No, not that bad at all."}
    assert len(found) == 3
    assert teacher.sentences([REVIEW], 2, seed=0) == found[:2]


def test_a_label_is_between_what_people_and_the_teacher_say() -> None:
    first, second = teacher.soften([Review("a", 1.0), Review("b", 0.0)], np.array([0.5, 1.0], np.float32))
    assert (first.label, second.label) == pytest.approx((0.65, 0.7))


def test_the_embeddings_stay_and_the_rest_learns(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher, "RATE", 0.01)
    before = teacher.Teacher(encoder)
    monkeypatch.setattr(teacher, "fit", lambda *given, minutes, **named: fit(*given, steps=30, **named))
    tuned, tokenizer = teacher.tune_teacher(arguments(encoder, tmp_path), PHRASES)
    assert torch.equal(tuned.encoder.get_input_embeddings().weight, before.encoder.get_input_embeddings().weight)
    texts = ["this film is good and that is all", "this film is bad and that is all"]
    good, bad = teacher.answers(tuned, tokenizer, texts).softmax(1)[:, 1]
    assert good > 0.9
    assert bad < 0.1


def test_an_answer_does_not_depend_on_the_texts_beside_it(encoder: Path) -> None:
    torch.manual_seed(0)
    untuned, tokenizer = teacher.Teacher(encoder).eval(), AutoTokenizer.from_pretrained(encoder, local_files_only=True)
    texts = ["good", "a bad film " * 9, "the story " * 200]
    tokenizer.model_max_length = teacher.LENGTH
    together = teacher.answers(untuned, tokenizer, texts).softmax(1)[:, 1].tolist()
    alone = [float(teacher.answers(untuned, tokenizer, [text]).softmax(1)[0, 1]) for text in texts]
    assert together == pytest.approx(alone, abs=2e-3)  # bfloat16
    assert len(set(alone)) == len(texts)


def test_a_run_that_goes_on_does_not_ask_again(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phrases, found = teacher.label_with_teacher(arguments(encoder, tmp_path), PHRASES, [REVIEW])
    assert [phrase.text for phrase in phrases] == [phrase.text for phrase in PHRASES]
    assert len(found) == 3
    assert all(0 < sentence.label < 1 for sentence in found)
    monkeypatch.setattr(teacher, "tune_teacher", lambda *_: pytest.fail("the teacher was tuned again"))
    assert teacher.label_with_teacher(arguments(encoder, tmp_path, resume=True), PHRASES, [REVIEW]) == (phrases, found)

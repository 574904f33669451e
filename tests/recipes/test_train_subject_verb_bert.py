"""The recipe of subject-verb-bert for two steps, and what a batch of it asks."""

from __future__ import annotations

import explainers

# isort: split
import argparse
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from explainers.embedded.synthetic.subject_verb import MASK, sentence
from recipes import train_subject_verb_bert, training
from recipes.train_subject_verb_bert import IGNORED_LABEL, encode_sentences, new_tokenizer, token_numbers


def test_a_batch_masks_each_verb_and_is_what_the_tokenizer_gives() -> None:
    made = [sentence(np.random.default_rng(seed)) for seed in range(5)]
    batch, tokenizer = encode_sentences(made), new_tokenizer()
    for row, labels, each in zip(batch.input_ids, batch.labels, made, strict=True):
        ids = tokenizer(each.text)["input_ids"]
        assert row[: len(ids)].tolist() == ids
        assert tokenizer.unk_token_id not in ids
        (place,) = (labels != IGNORED_LABEL).nonzero().flatten().tolist()
        assert row[place] == token_numbers()[MASK]
        assert labels[place] == token_numbers()[each.verb]
    masked = encode_sentences(made, np.random.default_rng(0))
    assert int((masked.labels != IGNORED_LABEL).sum()) > len(made)
    assert torch.equal(masked.labels != IGNORED_LABEL, masked.input_ids == token_numbers()[MASK])


def test_the_recipe_writes_a_folder_that_is_asked_at_its_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(make: Any, seed: list[int], first: int) -> Iterator[Any]:
        return training.endless(functools.partial(make, size=4), seed, first, workers=0)

    monkeypatch.setattr(train_subject_verb_bert, "endless", endless)
    parser = argparse.ArgumentParser()
    train_subject_verb_bert.add_arguments(parser)
    train_subject_verb_bert.train(parser.parse_args(["--out", str(tmp_path / "bert"), "--steps", "2", "--device", "cpu"]))
    model = explainers.load(tmp_path / "bert", "cpu")
    text = "the keys to the cabinet [MASK] on the table ."
    result = explainers.explain(model, text, explainers.Contrast("are", "is"), ["input_x_gradient"], at="mask")
    assert [word.text for word in result["input_x_gradient"].words()] == text.split()
    assert sum(file.stat().st_size for file in (tmp_path / "bert").iterdir()) < 2e6

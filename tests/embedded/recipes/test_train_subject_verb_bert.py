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

from embedded.recipes import train_subject_verb_bert, training
from embedded.recipes.data.subject_verb import MASK, sentence
from embedded.recipes.train_subject_verb_bert import IGNORED, encoded, new_tokenizer, numbers


def test_a_batch_masks_each_verb_and_is_what_the_tokenizer_gives() -> None:
    made = [sentence(np.random.default_rng(seed)) for seed in range(5)]
    batch, tokenizer = encoded(made), new_tokenizer()
    for row, labels, each in zip(batch.input_ids, batch.labels, made, strict=True):
        ids = tokenizer(each.text)["input_ids"]
        assert row[: len(ids)].tolist() == ids
        assert tokenizer.unk_token_id not in ids
        (place,) = (labels != IGNORED).nonzero().flatten().tolist()
        assert row[place] == numbers()[MASK]
        assert labels[place] == numbers()[each.verb]
    masked = encoded(made, np.random.default_rng(0))
    assert int((masked.labels != IGNORED).sum()) > len(made)
    assert torch.equal(masked.labels != IGNORED, masked.input_ids == numbers()[MASK])


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

"""Maps over a DataLoader are those of its samples alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import explainers
from explainers import ExplainerError
from tests.support.own_models.case import text_model, vit
from tests.support.vocabularies import wordpiece

SPECS = ["fullgrad_plus:libra", "saliency"]


def test_pictures_come_in_batches_with_what_is_beside_them() -> None:
    module = vit()
    pixels, classes = torch.randn(5, 3, 160, 160), torch.arange(5)
    batches = explainers.explain(module, DataLoader(TensorDataset(pixels, classes), batch_size=2), methods=SPECS)
    assert not isinstance(batches, list)
    listed = list(batches)
    assert [len(batch) for batch in listed] == [2, 2, 1]
    assert torch.cat([batch.extra for batch in listed]).tolist() == classes.tolist()
    assert all(batch.beside is batch.extra for batch in listed)  # the name of version 0.2
    for number in range(5):
        alone = explainers.explain(module, {"pixel_values": pixels[number : number + 1]}, methods=SPECS)
        batch, place = listed[number // 2], number % 2
        assert batch.targets[place] == alone.target.label
        assert np.allclose(batch.logits[place], alone.logits.numpy(), atol=1e-5)
        for spec in SPECS:
            assert batch.maps[spec].shape[1:] == (10, 10)
            assert batch.maps[spec].dtype == np.float32
            wanted = alone[spec].scores[alone[spec].content].view(10, 10).numpy()
            assert np.allclose(batch.maps[spec][place], wanted, atol=1e-4)


def test_texts_come_padded_with_no_number() -> None:
    tokenizer = wordpiece()
    model = explainers.open(text_model(), tokenizer=tokenizer, check="none")
    texts = ["a good film", "bad", "not a bad movie"]
    rows: Any = tokenizer(texts, padding=True, return_tensors="pt")
    samples = [{"input_ids": ids, "attention_mask": mask} for ids, mask in zip(rows["input_ids"], rows["attention_mask"], strict=True)]
    (batch,) = explainers.explain(model, DataLoader(samples, batch_size=3), 0, "fullgrad_plus:libra")  # type: ignore[arg-type]
    for row, text in zip(batch.maps["fullgrad_plus:libra"], texts, strict=True):
        alone = explainers.explain(model, text, 0, "fullgrad_plus:libra").maps[0].scores.numpy()
        assert np.allclose(row[: len(alone)], alone, atol=1e-5)
        assert np.isnan(row[len(alone) :]).all()


def test_a_batch_of_something_else_and_two_targets_are_refused() -> None:
    loader: Any = DataLoader(["a", "b"], batch_size=2)  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="a batch of the loader is a str: let it be a tensor"):
        list(explainers.explain(vit(), loader, methods=SPECS))
    with pytest.raises(ExplainerError, match="one target is explained at a time"):
        explainers.explain(vit(), loader, [0, 1], SPECS)

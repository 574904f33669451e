"""Texts of different lengths, of models whose answers padding changes, and of those whose answers it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import explainers
from tests.support.vocabularies import wordpiece

TEXTS = ["not a good film", "a film", "a good film not good", "film good"]
SIZE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
METHODS = ["input_x_gradient:libra", "fullgrad_plus", "occlusion", "smoothgrad?draws=4"]


class Reader(nn.Module):
    """A classifier that reads the last position, the first or the words' mean."""

    def __init__(self, words: int, reads: str) -> None:
        super().__init__()
        config = hf.BertConfig(vocab_size=words, max_position_embeddings=24, attn_implementation="eager", **SIZE)
        self.bert, self.head, self.reads = hf.BertModel(config, add_pooling_layer=False), nn.Linear(32, 3), reads

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        if self.reads == "mean":
            x = (x * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        else:
            x = x[:, -1 if self.reads == "last" else 0]
        out: Tensor = self.head(x)
        return out


def model_of(reads: str, side: str) -> explainers.Model:
    tokenizer = wordpiece(24)
    tokenizer.padding_side = side
    torch.manual_seed(0)
    return explainers.open(Reader(len(tokenizer), reads).eval(), kind="text", tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("reads", "side", "changes"),
    [("last", "right", True), ("mean", "left", True), ("last", "left", True), ("first", "right", False), ("mean", "right", False)],
)
def test_answers_and_maps_of_a_batch_are_those_of_each_text_alone(reads: str, side: str, changes: bool) -> None:
    model = model_of(reads, side)
    assert model.details["changed_by_padding"] == changes
    assert ("padding changes its answers" in str(model.report)) == changes
    together = explainers.explain(model, TEXTS, 1, METHODS)
    for i, (text, found) in enumerate(zip(TEXTS, together, strict=True)):
        alone = explainers.explain(model, text, 1, METHODS, seed=i)
        tensors = model.tensors(text)
        with torch.no_grad():
            torch.testing.assert_close(found.logits, model.module(tensors["input_ids"], tensors["attention_mask"])[0])
        for spec in METHODS:
            torch.testing.assert_close(found[spec].scores, alone[spec].scores, rtol=1e-3, atol=1e-5)


def test_memory_that_runs_out_in_the_trial_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for a model that padding does not change, it would be asked in padded batches and give other answers."""
    forward, full = hf.BertModel.forward, [torch.OutOfMemoryError("CUDA out of memory")]

    def run_out(self: Any, *given: Any, **how: Any) -> Any:
        if full and not bool(how["attention_mask"].all()):
            raise full.pop()
        return forward(self, *given, **how)

    monkeypatch.setattr(hf.BertModel, "forward", run_out)
    with pytest.raises(torch.OutOfMemoryError):
        model_of("last", "right")
    assert not full
    assert model_of("last", "right").details["changed_by_padding"]


def test_memory_that_runs_out_in_the_first_pass_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(self: Any, *given: Any, **how: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(hf.BertModel, "forward", run_out)
    with pytest.raises(torch.OutOfMemoryError):
        model_of("first", "right")


def test_windows_of_a_long_text_are_read_without_padding() -> None:
    model = model_of("last", "right")
    text = " ".join(["not a degrading film"] * 9)
    result = explainers.explain(model, text, 1, ["input_x_gradient:libra"])
    windows = model.windows(text)
    assert windows is not None
    logits = []
    for row, mask in zip(windows.prepared.tensors["input_ids"], windows.prepared.tensors["attention_mask"], strict=True):
        ids = row[mask.bool()][None]
        with torch.no_grad():
            logits.append(model.module(ids, torch.ones_like(ids))[0])
    assert len({int(mask.sum()) for mask in windows.prepared.tensors["attention_mask"]}) > 1
    torch.testing.assert_close(result.logits, torch.stack(logits).mean(0))

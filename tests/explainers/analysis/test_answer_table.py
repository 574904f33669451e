"""A row for each word of the answer, equal to an explanation of that word alone; the same from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import explainers
from explainers.errors import ExplainerError
from explainers.models.model import Model
from tests.explainers.support.explained import image_model
from tests.support.vocabularies import byte_level
from vitrine_server.cli import main

# isort: split
from tokenizers import processors
from transformers import GPT2Config, GPT2LMHeadModel

PROMPT = "a good film, not a bad movie"


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    tokenizer = byte_level(40)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    size = {"n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 2}
    module: Any = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), bos_token_id=2, eos_token_id=3, initializer_range=0.3, **size)
    ).eval()
    module.generation_config.max_new_tokens = 4
    with torch.no_grad():
        module.lm_head.weight[:270] *= 0.1  # it writes words, as its bytes hardly count
    return explainers.wrap(module, tokenizer=tokenizer)


def test_a_row_is_the_explanation_of_its_word(model: Model) -> None:
    table = explainers.answer_table(model, PROMPT, "input_x_gradient:libra")
    assert table.columns == ("a", "good", "film", ",", "not", "a", "bad", "movie")
    assert len(table.rows) > 1
    assert table.scores.shape == (len(table.rows), len(table.columns))
    for row, label in enumerate(table.rows):
        place = next(place for place in explainers.explain(model, PROMPT, methods="random").places if place.at == f"word:{label}")
        result = explainers.explain(model, PROMPT, methods="input_x_gradient:libra", at="words", target=row)
        own = torch.tensor([word.score for word in result["input_x_gradient:libra"].words()])
        torch.testing.assert_close(table.scores[row], own)
        with torch.no_grad():
            logits, ids = model.module(**result.tensors).logits[0], result.tensors["input_ids"][0]
        expected = sum(float(logits[i - 1, ids[i]]) for i in range(place.tokens[0], place.tokens[1] + 1))
        assert float(table.logits[row]) == pytest.approx(expected, abs=1e-4)
    assert table.answer in str(table.to_json())
    assert len(table.figure().axes[0].get_yticks()) == len(table.rows)


def test_the_command_prints_and_writes_it(model: Model, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "model"
    module: Any = model.module
    module.save_pretrained(folder)
    model.task.tokenizer.save_pretrained(folder)  # type: ignore[union-attr]
    capsys.readouterr()
    assert main(["answer-table", PROMPT, "--model", str(folder), "--json", "--out", str(tmp_path / "table.png")]) == 0
    printed = json.loads(capsys.readouterr().out)
    torch.testing.assert_close(torch.tensor(printed["scores"]), explainers.answer_table(model, PROMPT).scores, rtol=1e-3, atol=1e-5)
    assert (tmp_path / "table.png").stat().st_size


def test_a_classifier_writes_nothing() -> None:
    with pytest.raises(ExplainerError, match="pass a language model"):
        explainers.answer_table(image_model("vit"), PROMPT)

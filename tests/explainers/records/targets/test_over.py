"""All labels over a line at once, a map each; and of several values each by its name, and one against another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explainers
from explainers import Contrast, ExplainerError, Over
from explainers.models.model import Model
from explainers.records.targets import parse_target
from tests.support.vocabularies import wordpiece
from vitrine_server.cli import main

# isort: split
from transformers import BertConfig, BertForSequenceClassification

TEXT = "the good movie, not the bad film"
TAGS = ["drama", "comedy", "crime", "war", "music"]


def text_model(problem: str, labels: list[str]) -> Model:
    torch.manual_seed(0)
    tokenizer = wordpiece(20)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 20}
    names: Any = {"num_labels": len(labels), "id2label": dict(enumerate(labels))}
    config = BertConfig(vocab_size=len(tokenizer), problem_type=problem, initializer_range=0.4, **names, **size)
    return explainers.wrap(BertForSequenceClassification(config).eval(), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def tagged() -> Model:
    return text_model("multi_label_classification", TAGS)


@pytest.mark.parametrize("text", [TEXT, " ".join([TEXT] * 8)])  # the second is read in windows
def test_each_label_over_the_line_has_a_map(tagged: Model, text: str) -> None:
    every = explainers.explain(tagged, text, methods="random")
    p = every.probabilities
    line = float(p.median())
    wanted = [TAGS[i] for i in p.argsort(descending=True).tolist() if float(p[i]) >= line]
    assert 1 < len(wanted) < len(TAGS)
    result = explainers.explain(tagged, text, Over(line), "input_x_gradient")
    assert [target.label for target in result.targets] == wanted
    assert [attribution.target for attribution in result.maps] == wanted
    for target in result.targets:
        alone = explainers.explain(tagged, text, target.label, "input_x_gradient")
        torch.testing.assert_close(result["input_x_gradient", target.label].scores, alone["input_x_gradient"].scores)


def test_how_it_is_written(tagged: Model, capsys: Any, tmp_path: Any) -> None:
    assert parse_target("over:0.5", TAGS) == Over(0.5)
    p = explainers.explain(tagged, TEXT, methods="random").probabilities
    module: Any = tagged.module
    module.save_pretrained(tmp_path)
    wordpiece(20).save_pretrained(tmp_path)
    asked = ["explain", "--text", TEXT, "--model", str(tmp_path), "--target", f"over:{float(p.median()):.4f}"]
    assert main([*asked, "--methods", "input_x_gradient", "--out", str(tmp_path / "maps")]) == 0
    shown = capsys.readouterr().out
    assert all((f"why {tag}?" in shown) == (float(p[i]) > float(p.median()) - 1e-3) for i, tag in enumerate(TAGS))


@pytest.mark.parametrize(
    ("target", "inputs", "message"),
    [
        (Over(1.0), TEXT, "No label reaches 1: the highest is"),
        (Over(0.5), [TEXT, "a bad film"], "one input at a time, and 2"),
        (Contrast(Over(0.5), "war"), TEXT, "stands for several labels"),  # type: ignore[arg-type]
    ],
)
def test_what_it_cannot_be(tagged: Model, target: Any, inputs: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.explain(tagged, inputs, target, "random")


@pytest.mark.parametrize("text", ["over:much", "over:0", "over:2", "over:nan"])
def test_what_is_no_line(text: str) -> None:
    with pytest.raises(ExplainerError, match="no threshold for probabilities"):
        parse_target(text, TAGS)


def test_values_have_names_and_are_set_against_each_other() -> None:
    units = ["price (EUR)", "weight (kg)", "length (m)"]
    model = text_model("regression", units)
    targets = ["weight (kg)", Contrast("price (EUR)", "length (m)")]
    result = explainers.explain(model, TEXT, targets, "fullgrad:libra")
    with torch.no_grad():
        own = model.module(**result.tensors).logits[0]
    assert result.output == "regression"
    assert [target.label for target in result.targets] == ["weight (kg)", "price (EUR) − length (m)"]
    assert [target.probability for target in result.targets] == [None, None]
    torch.testing.assert_close(torch.tensor([target.logit for target in result.targets]), torch.stack([own[1], own[0] - own[2]]))
    assert max(result.completeness("libra", i) for i in range(2)) < 1e-4
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0), target="weight (kg)")
    assert test.explains == "value"
    with pytest.raises(ExplainerError, match="gives values: name them"):
        explainers.explain(model, TEXT, Over(0.5), "random")

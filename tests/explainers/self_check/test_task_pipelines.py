"""Models with a task are compared with transformers' pipeline for it, at one place, or nothing is said to be the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import explainers
from explainers.models.model import Model
from explainers.models.opening.open_model import open_model
from explainers.self_check.opening import check_model
from tests.support.vocabularies import wordpiece

# isort: split
import transformers
from transformers import BertConfig


def opened(head: str) -> Model:
    labels = 2 if head == "BertForQuestionAnswering" else 3
    torch.manual_seed(0)
    tokenizer = wordpiece(40)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40}
    module = getattr(transformers, head)(BertConfig(vocab_size=len(tokenizer), num_labels=labels, **size)).eval()
    return open_model(module, tokenizer=tokenizer).model


def checked(model: Model) -> dict[str, tuple[str, str]]:
    report = check_model(model).report
    assert report is not None
    return {check.name: (check.state, check.detail) for check in report.checks}


@pytest.mark.parametrize(
    ("head", "state", "says"),
    [
        ("BertForTokenClassification", "passed", "same as transformers' pipeline: yes"),
        ("BertForMaskedLM", "passed", "same as transformers' pipeline: yes"),
        ("BertForQuestionAnswering", "not asked", "for question-answering no pipeline"),
    ],
)
def test_a_task_is_compared_with_its_pipeline(head: str, state: str, says: str, capfd: Any) -> None:
    checks = checked(opened(head))
    assert checks["library"][0] == state
    assert says in checks["library"][1]
    assert {checks[name][0] for name in ("logits", "gradient", "completeness")} == {"passed"}
    noise = "".join(capfd.readouterr())
    assert "text-classification" not in noise


@pytest.mark.parametrize("head", ["BertForTokenClassification", "BertForMaskedLM"])
def test_other_probabilities_are_found(head: str) -> None:
    model = opened(head)
    text = model.task.sample("bad films") if model.task else ""
    other = replace(model, prepare_input=lambda inputs: model.prepare_input(text))
    assert "same as transformers' pipeline: no" in checked(other)["library"][1]


def test_an_explanation_of_a_module_has_no_warning() -> None:
    model = opened("BertForMaskedLM")
    result = explainers.explain(model.module, "a good [MASK]", methods="random")
    assert not any("check" in note for note in result.notes)

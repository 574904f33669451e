"""``explainers.depth`` as a whole: what it needs, what it says, and what it cannot measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers.analysis.depth import Estimate
from explainers.analysis.depth.findings import head_similarities, measure_heads, median_agreement
from explainers.analysis.depth.sentences import say_agreement, say_heads, say_reading
from explainers.json_records import schema_of
from explainers.models.inputs.images import Preprocessing
from tests.explainers.analysis.depth.conftest import TEXTS, MakeVit
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece


@pytest.fixture(scope="module")
def found(vit: explainers.Model, pictures: list[Image.Image]) -> explainers.Depth:
    return explainers.depth(vit, pictures)


def test_each_finding_has_numbers_intervals_and_a_sentence(found: explainers.Depth) -> None:
    assert [part.name for part in found.parts.parts][:3] == ["block 1 attention", "block 1 MLP", "block 2 attention"]
    assert all(part.rise.low <= part.rise.value <= part.rise.high for part in found.parts.parts)
    assert [block.heads for block in found.heads.blocks] == [2, 2, 2]
    assert found.reading.stay is not None
    assert found.agreement.correlation is not None
    assert found.agreement.correlation.count == 8
    assert len(found.agreement.methods) == 6
    printed = str(found)
    for says in (found.parts.says, found.heads.says, found.reading.says, found.agreement.says):
        assert says in printed


def test_it_is_written_as_its_schema_says(found: explainers.Depth, tmp_path: Path) -> None:
    found.save(tmp_path / "depth.json")
    document = json.loads((tmp_path / "depth.json").read_text("utf-8"))
    schema_of(explainers.Depth).model_validate(document)
    assert document == found.to_json()
    assert json.dumps(document, allow_nan=False)
    with pytest.raises(explainers.ExplainerError, match=r"\.json"):
        found.save(tmp_path / "depth.csv")


def test_the_model_is_as_it_was(vit: explainers.Model, pictures: list[Image.Image]) -> None:
    tensors, hooks = vit.prepare(pictures[:2]).tensors, [len(m._forward_hooks) for m in vit.module.modules()]
    before = vit.forward(tensors)
    explainers.depth(vit, pictures[:8])
    assert torch.equal(vit.forward(tensors), before)
    assert [len(m._forward_hooks) for m in vit.module.modules()] == hooks


def test_labels_are_what_the_loss_is_of(vit: explainers.Model, pictures: list[Image.Image], found: explainers.Depth) -> None:
    top = torch.cat([vit.forward(vit.prepare(picture).tensors) for picture in pictures]).argmax(1).tolist()
    same = explainers.depth(vit, pictures, [vit.labels[i] for i in top])
    assert same.right == "labels"
    assert same.parts.parts == found.parts.parts
    other = explainers.depth(vit, pictures, [(i + 1) % 5 for i in top])
    assert other.parts.parts != found.parts.parts
    with pytest.raises(explainers.ExplainerError, match="no class 'ant'"):
        explainers.depth(vit, pictures, ["ant"] * 16)
    with pytest.raises(explainers.ExplainerError, match="3 labels for 16"):
        explainers.depth(vit, pictures, [0, 1, 2])


def test_progress_ends_at_its_total_and_a_cancelled_one_stops(vit: explainers.Model, pictures: list[Image.Image]) -> None:
    told = list[tuple[int, int]]()
    explainers.depth(vit, pictures[:8], progress=lambda done, total: told.append((done, total)))
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert all(done <= total for done, total in told)
    calls = iter(range(1000))
    with pytest.raises(explainers.Cancelled):
        explainers.depth(vit, pictures[:8], cancelled=lambda: next(calls) > 20)


def test_too_few_inputs_say_how_many_are_needed(vit: explainers.Model, pictures: list[Image.Image]) -> None:
    with pytest.raises(explainers.ExplainerError, match="at least 8 inputs, for intervals, and there are 7"):
        explainers.depth(vit, pictures[:7])
    with pytest.raises(explainers.ExplainerError, match="list of pictures"):
        explainers.depth(vit, "folder")
    with pytest.raises(explainers.ExplainerError, match="leave prompts out"):
        explainers.depth(vit, pictures, prompts=["a", "b"])


def test_of_many_inputs_some_are_taken_evenly(vit: explainers.Model, pictures: list[Image.Image]) -> None:
    found = explainers.depth(vit, pictures, limit=8)
    assert found.inputs == 8
    assert found.notes == ("8 of 16 inputs were measured, taken evenly.",)


def test_texts() -> None:
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["for", "against", "unsure"])
    found = explainers.depth(model, TEXTS)
    assert len(found.parts.parts) == 4
    assert found.reading.says.startswith("When no word reads another")
    assert "pytorch_grad_cam" not in found.agreement.methods


def test_a_language_model_is_asked_about_its_answer() -> None:
    model = explainers.wrap(FAMILIES["gpt2"].build(), tokenizer=wordpiece(), labels=["for", "against", "unsure"])
    assert len(explainers.depth(model, TEXTS).parts.parts) == 4


def test_prompts() -> None:
    square = Preprocessing(resize=(32, 32), crop=(32, 32))
    model = explainers.wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(), preprocess=square)
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)) for _ in range(8)]
    assert len(explainers.depth(model, pictures, prompts=["a film", "a plot"]).parts.parts) == 4
    with pytest.raises(explainers.ExplainerError, match="at least two"):
        explainers.depth(model, pictures, prompts=["a film"])


def test_what_cannot_be_measured_says_why(make_vit: MakeVit, pictures: list[Image.Image]) -> None:
    mixer = explainers.wrap(FAMILIES["mixer"].build(), name="mixer")
    rng = np.random.default_rng(0)
    height, width = mixer.details["input"]
    noise: Any = [Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)) for _ in range(8)]
    found = explainers.depth(mixer, noise)
    assert len(found.parts.parts) == 4
    assert found.parts.attention is None
    assert found.heads.says.startswith("Heads were not compared. mixer has blocks without an attention map")
    assert found.reading.says.startswith("Whether a patch reads another was not measured. mixer")
    values = explainers.wrap(make_vit(), name="values", output="regression")
    assert explainers.depth(values, pictures[:8]).parts.says == (
        "The loss without a part was not measured: values gives values, not probabilities of classes."
    )


def test_heads_by_hand() -> None:
    same = torch.rand(1, 4, 4).softmax(-1)
    assert head_similarities(torch.cat([same, same])) == pytest.approx(1)
    first, second = torch.rand(2, 5, 5, dtype=torch.float64).unbind(0)
    wanted = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(first.numpy(), second.numpy(), strict=True)])
    assert head_similarities(torch.stack([first, second])) == pytest.approx(wanted)
    causal = torch.rand(2, 5, 5, dtype=torch.float64).tril()
    wanted = np.mean([np.corrcoef(causal[0, q, : q + 1], causal[1, q, : q + 1])[0, 1] for q in range(2, 5)])
    assert head_similarities(causal) == pytest.approx(wanted)
    alone = measure_heads([[torch.rand(1, 4, 4)], [torch.rand(1, 4, 4)]])
    assert alone.blocks[0].similarity is None
    assert alone.says == "No block has two heads that could be compared."


def test_agreement_by_hand() -> None:
    maps = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, 5.0, 5.0]])
    assert median_agreement(maps) == pytest.approx(-1)  # of 1, -1 and -1: the constant map has none
    assert np.isnan(median_agreement(np.ones((2, 3))))


def test_sentences_go_by_the_numbers() -> None:
    def estimate(value: float) -> Estimate:
        return Estimate(value, value - 0.05, min(1, value + 0.05), 20)

    assert "hardly need it" in say_reading(estimate(0.95), 0.2, "patch")
    assert "The answers need it" in say_reading(estimate(0.5), 0.2, "patch")
    assert "send inputs of several classes" in say_reading(estimate(0.95), 0.9, "patch")
    assert "nearly the same" in say_agreement(estimate(0.8), 5)
    assert "agree in part" in say_agreement(estimate(0.55), 5)
    assert "different things" in say_agreement(estimate(0.2), 5)
    assert say_heads([]) == "No block has two heads that could be compared."

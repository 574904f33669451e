"""A word at a mask, set against another as the data set says: the map, what is taken away, and what counts, each calculated by itself."""

from __future__ import annotations

import explainers

# isort: split
from pathlib import Path

import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr
from torch import Tensor

from explainers import Contrast, ExplainerError, PicturePrompt
from explainers.datasets import Dataset, Sample, open_dataset
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan, reason_against_metric
from explainers.evaluation.running import run
from explainers.metrics import METRICS
from tests.support.task_models import llama, masked

TEXT = "the good movie, not a [MASK] film"
SPEC = "input_x_gradient"
SAMPLE = Sample(name="one", text=TEXT, labels=("bad",), against="good", at="mask", rationale=((4, 8),))


def data_of(sample: Sample) -> Dataset:
    return Dataset(name="subject-verb", kind="text", length=1, read=lambda _: sample, gives=("class", "rationale", "against"))


@pytest.fixture(scope="module")
def setup() -> EvaluationSetup:
    model, data = masked(), data_of(SAMPLE)
    metrics = ["reciprocal_rank", "leave_one_out", "mif_aopc", "mif"]
    return EvaluationSetup(model, data, make_plan(model, data, [SPEC], metrics, target="contrast"))


def ids_and_logits(*without: int) -> tuple[Tensor, Tensor]:
    """The text with these tokens masked, and the logits at its mask."""
    model = masked()
    tensors = model.tensors(TEXT)
    ids = tensors["input_ids"].clone()
    mask = model.details["mask_token_id"]
    place = int((ids[0] == mask).nonzero())
    ids[0, list(without)] = mask
    with torch.no_grad():
        return ids, model.module(**{**tensors, "input_ids": ids}).logits[0, place]


def test_the_difference_at_the_mask_is_explained_and_words_are_masked(setup: EvaluationSetup) -> None:
    (row,) = rows_of(setup, 0)
    result = explainers.explain(masked(), TEXT, Contrast("bad", "good"), [SPEC], at="mask")
    attribution = result[SPEC]
    words = attribution.words()
    assert row["target"] == attribution.target
    assert row["scores"] == pytest.approx([word.score for word in words], abs=1e-6)
    ids, whole = ids_and_logits()
    vocabulary = masked().task.labels(len(whole))  # type: ignore[union-attr]
    bad, good = vocabulary.index("bad"), vocabulary.index("good")
    content = attribution.content.nonzero().flatten().tolist()
    falls = []
    for token in content:
        without = ids_and_logits(token)[1]
        falls.append(float((whole[bad] - whole[good]) - (without[bad] - without[good])))
    scores = attribution.scores[attribution.content]
    assert row["leave_one_out"] == pytest.approx(spearmanr(scores, falls).statistic, abs=1e-6)
    order = scores.argsort(descending=True, stable=True).tolist()
    changes = []
    for tenth in range(1, 10):
        gone = [content[place] for place in order[: tenth * len(content) // 10]]
        changes.append(float(whole.softmax(-1)[bad] - ids_and_logits(*gone)[1].softmax(-1)[bad]))
    assert row["mif_aopc"] == pytest.approx(sum(changes) / 9, abs=1e-6)
    rank = 1 + sum(word.score > max(w.score for w in words if w.text == "good") for word in words)
    assert row["reciprocal_rank"] == pytest.approx(1 / rank)
    assert row["mif"] is not None
    assert ids.shape[1] == len(attribution.scores)


def test_a_run_says_that_words_are_masked(setup: EvaluationSetup, tmp_path: Path) -> None:
    done = run(setup.loaded, setup.data, setup.plan, tmp_path / "run")
    assert done is not None
    assert done.about["removal"] == "masked"
    assert len(done.rows) == 1


def test_an_answer_that_the_model_does_not_know_is_left_out() -> None:
    unknown = data_of(Sample(name="one", text=TEXT, labels=("bad",), against="unheard", at="mask"))
    assert rows_of(EvaluationSetup(masked(), unknown, make_plan(masked(), unknown, [SPEC], ["mif"], target="contrast")), 0) == []


def test_what_cannot_be_set_against_another_says_why() -> None:
    model, data = masked(), data_of(SAMPLE)
    with pytest.raises(ExplainerError, match="difference of logits"):
        make_plan(model, data, [SPEC], ["mif"], target="contrast", explains="probability")
    asked_elsewhere = Dataset(name="answers", kind="text", length=1, read=lambda _: SAMPLE, gives=("class",), task="question-answering")
    with pytest.raises(ExplainerError, match="answers does not suit masked: its inputs need a model of the task"):
        make_plan(model, asked_elsewhere, [SPEC], ["mif"])
    plain = Dataset(name="texts", kind="text", length=1, read=lambda _: SAMPLE, gives=("class",))
    with pytest.raises(ExplainerError, match="sets no class against another"):
        make_plan(model, plain, [SPEC], ["mif"], target="contrast")


def test_a_whole_answer_is_no_class() -> None:
    """What a language model writes has a value, to which scores may add up; there is no other class to compare it with."""
    prompt = Sample(name="one", text="the good movie")
    data = Dataset(name="prompts", kind="text", length=1, read=lambda _: prompt)
    (row,) = rows_of(EvaluationSetup(llama(), data, make_plan(llama(), data, ["input_x_gradient:libra"], ["completeness"])), 0)
    result = explainers.explain(llama(), prompt.text, methods=["input_x_gradient:libra"]).maps[0]
    assert (row["target"], row["completeness"]) == (result.target, pytest.approx(result.completeness_error, abs=1e-5))
    plan = make_plan(llama(), data, ["input_x_gradient"], ["completeness", "mif"])
    with pytest.raises(
        ExplainerError, match="prompts names no word of the answer of llama, and the whole answer is no class, about which mif is"
    ):
        rows_of(EvaluationSetup(llama(), data, plan), 0)


def test_of_questions_without_classes_only_sums_are_measured() -> None:
    data = open_dataset("sample-questions")
    assert {reason_against_metric(METRICS[name], data, 2) for name in ("completeness", "conservation")} == {None}
    for name in ("mif", "srg", "class_correlation", "claim"):
        assert reason_against_metric(METRICS[name], data, 2) is not None
    assert reason_against_metric(METRICS["mif"], open_dataset("subject-verb"), 2) is None


def test_a_picture_with_a_text_is_one_input() -> None:
    picture = Image.new("RGB", (8, 8))
    assert Sample(name="a", image=picture, text="What is this?").model_input == PicturePrompt(picture, "What is this?")
    assert Sample(name="a", image=picture).model_input is picture

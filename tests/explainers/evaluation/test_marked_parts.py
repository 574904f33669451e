"""The words of a pair of texts that count: of both, where people were asked about both, and those that the model did not read too."""

from __future__ import annotations

from pathlib import Path

import pytest

import explainers
from explainers.datasets import Sample, open_dataset
from explainers.evaluation.marked_parts import marked_words
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import make_plan
from explainers.evaluation.reporting import write_reports
from explainers.evaluation.running import run
from explainers.models.model import Model
from tests.explainers.support.made_up_datasets import made_up
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece


@pytest.fixture(scope="module")
def model() -> Model:
    """It reads 20 tokens of a pair, and names its classes in an order of its own."""
    module = FAMILIES["bert"].build()
    count = module.classifier.out_features
    labels = ["contradiction", "entailment", "neutral", *map(str, range(count))][:count]
    return explainers.wrap(module, tokenizer=wordpiece(20), labels=labels, name="tiny")


def test_words_of_both_texts_count(model: Model) -> None:
    sample = Sample(name="a", text="a good film", text_pair="not a bad movie", rationale=((2, 6),), pair_rationale=((0, 3), (6, 15)))
    maps = explainers.explain(model, sample.model_input, methods=["input_x_gradient", "rollout"]).maps
    found = marked_words(model, sample, maps)
    assert found is not None
    scores, passages = found
    assert [[bool(word) for word in passage] for passage in passages] == [
        [False, True, False, False, False, False, False],
        [False, False, False, True, False, False, False],
        [False, False, False, False, False, True, True],
    ]
    assert scores.tolist() == [pytest.approx([word.score for word in one.words()]) for one in maps]


def test_only_the_words_of_the_text_that_people_were_asked_about_count(model: Model) -> None:
    sample = Sample(name="a", text="is it good", text_pair="not a bad movie", pair_rationale=((6, 9),))
    maps = explainers.explain(model, sample.model_input, methods=["input_x_gradient"]).maps
    found = marked_words(model, sample, maps)
    assert found is not None
    assert found[0].tolist() == [pytest.approx([word.score for word in maps[0].words() if word.part == 1])]
    assert found[1].tolist() == [[False, False, True, False]]
    unmarked = Sample(name="a", text="is it good", text_pair="not a bad movie", rationale=(), pair_rationale=())
    assert marked_words(model, unmarked, maps) is None


def test_words_of_a_pair_that_were_cut_count_as_not_read(model: Model) -> None:
    sample = Sample(name="a", text="good", text_pair="bad " * 40 + "film", rationale=((0, 4),), pair_rationale=((160, 164),))
    maps = explainers.explain(model, sample.model_input, methods=["input_x_gradient"]).maps
    found = marked_words(model, sample, maps)
    assert found is not None
    scores, passages = found
    assert scores.shape == (1, 42)
    assert scores[0].isneginf().tolist() == [False] * 17 + [True] * 25  # 20 tokens less three special ones
    assert passages.nonzero().tolist() == [[0, 0], [1, 41]]


@pytest.mark.parametrize(("name", "target"), [("eraser-esnli", "gold"), ("eraser-boolq", "predicted")])
def test_pairs_are_measured_as_texts_are(model: Model, name: str, target: str, tmp_path: Path) -> None:
    data = open_dataset(name, made_up(name, tmp_path))
    metrics = ["auprc", "iou_f1", "token_f1_10", "mif"]
    plan = make_plan(model, data, ["random", "input_x_gradient"], metrics, target=target)  # type: ignore[arg-type]
    done = run(model, data, plan, tmp_path / "run")
    assert done is not None
    assert [row["target"] for row in done.rows] == (["contradiction"] * 2 if target == "gold" else [done.rows[0]["target"]] * 2)
    assert all(row[column] is not None for row in done.rows for column in ("auprc", "token_f1_10", "mif"))
    report = write_reports(done, EvaluationSetup(model, data, plan))
    assert report["dataset"]["split"] == "test"
    words = " ".join(word.text for word in explainers.explain(model, data[0].model_input, methods=["random"]).maps[0].words())
    assert len(done.rows[0]["scores"]) == len(words.split())

"""One input of each kind measured: a text with marked words, a mosaic, a picture compared with names; random weights and small changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import explainers
from explainers import ExplainerError
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import Bench, rows_of
from explainers.evaluation.plan import make_plan
from explainers.metrics import METRICS

pytestmark = pytest.mark.slow

METHODS = ("random", "input_x_gradient")


def test_a_text_with_marked_words(tmp_path: Path) -> None:
    text = "A dull film. It is a mess from the first hour to the last, and the ending is even worse than all the rest of it."
    file = tmp_path / "texts.jsonl"
    rows = [{"text": text, "label": "negative", "rationale": [[2, 11]]}, {"text": "Lovely.", "label": "joyful"}]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    model, data = explainers.load("reviews-bert", "cpu"), open_dataset("texts", file)
    bench = Bench(model, data, make_plan(model, data, METHODS, ["all"]))
    assert {"auac", "au_mse", "auprc", "iou_f1", "token_f1_10", "attcat_log_odds", "srg", "class_tau"} <= set(bench.plan.metrics)
    assert "ap" not in bench.plan.metrics
    found = {row["method"]: row for row in rows_of(bench, 0)}["input_x_gradient"]
    for name in bench.plan.metrics:
        metric = METRICS[name]
        values = [found[column] for column in metric.columns]
        assert None not in values, name
        assert metric.lowest is None or values[0] >= metric.lowest - 1e-9
    result = explainers.explain(model, text, methods=["input_x_gradient"])
    words = result["input_x_gradient"].words()
    assert found["scores"] == pytest.approx([word.score for word in words], rel=1e-3, abs=1e-4)
    best = sorted(words, key=lambda word: -word.score)[:10]
    hits = sum(word.text in ("dull", "film") for word in best)
    assert found["token_f1_10"] == pytest.approx(2 * hits / 12)
    unmarked = rows_of(bench, 1)[0]
    assert unmarked["auprc"] is None  # nobody marked a word
    assert unmarked["auac"] is None  # the model has no such class
    assert unmarked["mif"] is not None
    gold = Bench(model, data, make_plan(model, data, METHODS, ["mif"], target="gold"))
    assert rows_of(gold, 0)[0]["target"] == "negative"
    with pytest.raises(ExplainerError, match="does not know"):
        rows_of(gold, 1)


def test_a_mosaic_is_pointed_at() -> None:
    model, data = explainers.load("scenes-vit", "cpu"), open_dataset("scenes-mosaic")
    plan = make_plan(model, data, ["random", "fullgrad_plus:libra"], ["grid_pointing", "pointing"], target="gold", how="black")
    rows = [row for place in range(3) for row in rows_of(Bench(model, data, plan), place)]
    mean = {method: sum(row["grid_pointing"] for row in rows if row["method"] == method) / 3 for method in plan.methods}
    assert mean["random"] == pytest.approx(0.25, abs=0.1)  # one of four
    assert mean["fullgrad_plus:libra"] > 0.5


def test_a_picture_compared_with_names() -> None:
    model, data = explainers.load("clip", "cpu"), open_dataset("scenes")
    plan = make_plan(model, data, ["random"], ["mif", "ap", "class_correlation"], target="gold", how="zeroed")
    row = rows_of(Bench(model, data, plan), 0)[0]
    assert row["target"] == f"a photo of a {data[0].labels[0]}"
    assert 0 <= row["ap"] <= 1
    assert row["class_correlation"] == pytest.approx(1)  # chance draws the same map for every class


def test_maps_of_random_weights_and_of_changed_inputs() -> None:
    model, data = explainers.load("scenes-vit", "cpu"), open_dataset("scenes")
    plan = make_plan(model, data, METHODS, ["randomisation", "sensitivity"])
    chance, gradient = rows_of(Bench(model, data, plan), 5)
    assert chance["randomisation"] == pytest.approx(1)  # knows nothing of the weights
    assert chance["sensitivity"] == pytest.approx(0)
    assert gradient["randomisation"] < 0.6
    assert gradient["sensitivity"] > 0

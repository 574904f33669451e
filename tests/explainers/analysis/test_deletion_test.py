"""The deletion test against a twin that asks a tiny model by hand, one set of tokens at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.analysis.deletion_test import PUBLISHED, even_shares
from tests.explainers.support.explained import text_model
from tests.explainers.support.shortened import alone
from tests.explainers.support.wrapped import inputs
from tests.families import FAMILIES

SPECS = ["rollout", "fullgrad_plus:libra", "input_x_gradient"]
TEXT = "not a good movie ."


def vit(**arguments: Any) -> explainers.Model:
    return explainers.wrap(FAMILIES["vit"].build().double(), **arguments)


def check(test: explainers.DeletionTest, result: explainers.Explanation, answer: Any, seeds: int) -> None:
    """``answer`` gives the read number when these of the tokens are gone."""
    tokens = test.tokens

    def values(order: Any) -> list[float]:
        return [float(answer(list(order[:count]))) for count in test.counts]

    x = np.array(test.counts) / tokens
    areas: dict[tuple[str, str], float] = {}
    for curve in test.curves:
        scores = result[curve.method, test.target].scores[result[curve.method, test.target].content].numpy()
        order = np.argsort(-scores if curve.order == "most" else scores, kind="stable")
        expected = values(order)
        np.testing.assert_allclose(curve.values[test.explains], expected, atol=1e-5)
        areas[curve.method, str(curve.order)] = float(np.trapezoid(expected, x))
        assert curve.area == pytest.approx(areas[curve.method, str(curve.order)], abs=1e-5)
    drawn = [values(torch.randperm(tokens, generator=torch.Generator().manual_seed(seed)).tolist()) for seed in range(seeds)]
    np.testing.assert_allclose(test.random.values[test.explains], np.mean(drawn, 0), atol=1e-5)
    drawn_areas = np.trapezoid(drawn, x)
    assert test.chance_gap == pytest.approx(drawn_areas.max() - drawn_areas.min(), abs=1e-5)
    gaps = {method: areas[method, "least"] - areas[method, "most"] for method in {method for method, _ in areas} - {"random"}}
    ranked = [row.method for row in test.ranking if not row.is_control]
    assert [gaps[method] for method in ranked] == sorted(gaps.values(), reverse=True)
    assert [row.rank for row in test.ranking if not row.is_control] == list(range(1, len(gaps) + 1))


def test_the_curves_of_an_image_are_the_answers_to_each_set_alone() -> None:
    model, tensors = vit(), inputs("vit", 1)
    result = explainers.explain(model, tensors, [1, 2], SPECS)
    for label, index in zip([one.label for one in result.targets], (1, 2), strict=True):
        test = explainers.deletion_test(model, result, label, draws=2)
        assert (test.how, test.tokens, test.explains, test.fractions) == ("removed", 12, "probability", PUBLISHED)
        check(test, result, lambda gone, index=index: alone(model, tensors, gone).softmax(0)[index], 2)


def test_some_methods_steps_and_one_order() -> None:
    model, tensors = vit(), inputs("vit", 1)
    result = explainers.explain(model, tensors, 1, SPECS)
    told: list[tuple[int, int]] = []
    test = explainers.deletion_test(
        model, result, methods=SPECS[:2], fractions=even_shares(4), orders=["most"], draws=1, progress=lambda *now: told.append(now)
    )
    assert test.counts == (0, 3, 6, 9, 12)
    assert [(one.method, one.order) for one in test.curves] == [(spec, "most") for spec in SPECS[:2]]
    assert [row.areas["most"] for row in test.ranking] == sorted(row.areas["most"] for row in test.ranking)
    assert all("least" not in row.to_json() for row in test.ranking)
    assert told[0][0] == 0
    assert told[0][1] <= 3 * 3 + 2  # the whole input and the empty one are asked once


def test_the_words_of_a_text() -> None:
    model = text_model()
    result = explainers.explain(model, TEXT, 0, ["input_x_gradient", "random"])
    ids = result.tensors["input_ids"]

    def answer(gone: list[int]) -> Tensor:
        places = [0, *(1 + i for i in range(ids.shape[1] - 2) if i not in gone), ids.shape[1] - 1]
        with torch.no_grad():
            return model.forward({name: tensor[:, places] for name, tensor in result.tensors.items()})[0].softmax(0)[0]

    check(explainers.deletion_test(model, result), result, answer, 5)
    masked = explainers.deletion_test(model, result, how="masked")
    assert masked.how == "masked"
    assert masked.random.values["probability"][-1] != explainers.deletion_test(model, result).random.values["probability"][-1]


def test_a_map_of_random_numbers_is_a_control_and_takes_no_rank() -> None:
    model = vit()
    result = explainers.explain(model, inputs("vit", 1), 1, ["random", *SPECS])
    test = explainers.deletion_test(model, result)
    assert sorted((row.method, row.rank) for row in test.ranking if row.is_control) == [("random", 0), ("random", 0)]
    assert [row.is_baseline for row in test.ranking if "control" in row.to_json()] == [True]
    assert sorted(row.rank for row in test.ranking if row.rank) == [1, 2, 3]
    gaps = [row.gap for row in test.ranking]
    assert gaps == sorted(gaps, reverse=True)
    printed = [line.split() for line in str(test).splitlines()]
    assert sorted(line[2] == "baseline" for line in printed if line[0] == "-") == [False, True]
    least, most = test.figure().axes
    for axes in (least, most):
        named = [str(text.get_text()) for text in axes.get_legend().get_texts()]
        assert [name[:2] for name in named] == ["1.", "2.", "3.", "ra"]


def test_labels_of_their_own_are_read_by_their_sigmoid() -> None:
    model, tensors = vit(output="sigmoid"), inputs("vit", 1)
    result = explainers.explain(model, tensors, 1, SPECS)
    test = explainers.deletion_test(model, result)
    assert test.curves[0].values["probability"][0] == pytest.approx(result.target.probability)
    check(test, result, lambda gone: alone(model, tensors, gone).sigmoid()[1], 5)


def test_one_logit_has_a_yes_and_a_no() -> None:
    import timm

    torch.manual_seed(0)
    module = timm.create_model("vit_tiny_patch16_224", img_size=(32, 24), patch_size=8, embed_dim=24, depth=2, num_heads=2, num_classes=1)
    model = explainers.wrap(module.double().eval(), labels=["no fracture", "fracture"])
    assert model.output == "sigmoid"
    tensors = inputs("vit", 1)
    result = explainers.explain(model, tensors, ["fracture", "no fracture"], SPECS)
    sign = 1 if model.forward(tensors)[0, list(model.labels).index("fracture")] == alone(model, tensors, [])[0] else -1
    for label, own in (("fracture", sign), ("no fracture", -sign)):
        test = explainers.deletion_test(model, result, label)
        check(test, result, lambda gone, own=own: (own * alone(model, tensors, gone)[0]).sigmoid(), 5)


def test_a_value_is_read_in_its_own_unit() -> None:
    model, tensors = vit(output="regression", labels=["age", "weight", "height", "heat", "light"]), inputs("vit", 1)
    result = explainers.explain(model, tensors, "weight", SPECS)
    test = explainers.deletion_test(model, result)
    assert test.explains == "value"
    assert set(test.curves[0].values) == {"value"}
    check(test, result, lambda gone: alone(model, tensors, gone)[1], 5)
    assert "NaN" not in json.dumps(test.to_json())


def test_a_contrast_is_read_by_the_difference() -> None:
    model, tensors = vit(), inputs("vit", 1)
    result = explainers.explain(model, tensors, explainers.Contrast(1, 3), SPECS)
    test = explainers.deletion_test(model, result)
    assert test.explains == "logit"
    check(test, result, lambda gone: alone(model, tensors, gone)[1] - alone(model, tensors, gone)[3], 5)


@pytest.mark.slow
def test_it_prints_and_saves(tmp_path: Path) -> None:
    model = vit()
    test = explainers.deletion_test(model, explainers.explain(model, inputs("vit", 1), 1, SPECS))
    printed = str(test)
    for row in test.ranking:
        line = next(line for line in printed.splitlines() if ("random baseline" if row.is_control else row.method) in line)
        assert f"{row.areas['most']:.4f}" in line
        assert f"{row.gap:.4f}" in line
    test.save(tmp_path / "test.json")
    assert json.loads((tmp_path / "test.json").read_text("utf-8")) == {**test.to_json(), "notes": []}
    test.save(tmp_path / "test.png")
    with Image.open(tmp_path / "test.png") as image:
        assert image.width > 2 * image.height  # two panels
    test.save(tmp_path / "test.svg")
    drawn = test.figure()
    (most, least) = drawn.axes
    for axes, order in ((most, "most"), (least, "least")):
        curves = [one.values["probability"] for one in test.curves if one.order == order] + [test.random.values["probability"]]
        assert sorted(tuple(line.get_ydata()) for line in axes.lines) == sorted(curves)
    assert most.get_ylabel() == f"probability of {test.target}"
    with pytest.raises(ExplainerError, match="end it in"):
        test.save(tmp_path / "test.txt")


def test_what_does_not_go_says_so() -> None:
    model, tensors = vit(), inputs("vit", 1)
    result = explainers.explain(model, tensors, 1, SPECS)
    with pytest.raises(ExplainerError, match="was not explained"):
        explainers.deletion_test(model, result, "nobody")
    with pytest.raises(ExplainerError, match="There is no map 'attcat'"):
        explainers.deletion_test(model, result, methods=["attcat"])
    with pytest.raises(ExplainerError, match="other weights"):
        explainers.deletion_test(text_model(), result)
    with pytest.raises(ExplainerError, match="two different numbers"):
        explainers.deletion_test(model, result, fractions=[0.5])
    with pytest.raises(ExplainerError, match="at least 1"):
        even_shares(0)
    with pytest.raises(ExplainerError, match="no map"):
        explainers.deletion_test(model, replace(result, maps=[]))
    with pytest.raises(explainers.Cancelled):
        explainers.deletion_test(model, result, cancelled=lambda: True)


def test_each_number_of_tokens_is_asked_once_and_a_curve_has_an_end() -> None:
    model, tensors = vit(), inputs("vit", 1)
    result = explainers.explain(model, tensors, 1, ["rollout"])
    many = explainers.deletion_test(model, result, fractions=even_shares(1000), draws=1)
    assert many.counts == tuple(range(13))
    assert many.fractions[0] == 0
    assert many.fractions[-1] == 1
    assert many.notes == ("Only 13 of the 1001 shares remove different numbers of the 12 tokens: each number is tested once.",)
    once = explainers.deletion_test(model, result, fractions=even_shares(12), draws=1)
    assert once.notes == ()
    assert [row.gap for row in many.ranking] == pytest.approx([row.gap for row in once.ranking])
    reader = text_model()
    word = explainers.deletion_test(reader, explainers.explain(reader, "good", 0, ["input_x_gradient"]))
    assert (word.tokens, word.counts, word.fractions) == (1, (0, 1), (0, 1))
    assert "asked at 2 points" in str(word)
    assert word.notes[-1].startswith("Only 2 of the 11 shares remove different numbers of the 1 token:")
    with pytest.raises(ExplainerError, match="ask for at most 1000"):
        even_shares(1001)
    with pytest.raises(ExplainerError, match="1001 random orders ask the model too often"):
        explainers.deletion_test(model, result, draws=1001)

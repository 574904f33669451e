"""Metrics against what their authors' code gives for made-up maps and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from explainers.evaluation.curve_logits import CurveLogits
from explainers.evaluation.statistics import estimate, weights_of
from explainers.metrics import METRICS, RemovalCurve
from tests.explainers.support.golden import GOLDEN, Case
from tests.explainers.support.golden_arrays import arrays

CLOSE = {"rtol": 0, "atol": 1e-9}


def test_every_folder_has_a_source() -> None:
    folders = [path for path in GOLDEN.iterdir() if path.name.startswith("metrics-")]
    names = {"metrics-segmentation", "metrics-eraser", "metrics-ali", "metrics-torchcam"}
    assert {path.name for path in folders} == names | {"metrics-quantus", "metrics-infidelity", "metrics-saco", "metrics-naopc"}
    assert all("Source: " in (path / "README.md").read_text("utf-8") for path in folders)


def over_all(name: str, values: Tensor) -> float:
    """A metric of a data set from the columns (B, P) of each input, as a report has it."""
    return float(estimate(METRICS[name], values.reshape(len(values), 1, -1).numpy(), weights_of(len(values))).values[0])


def test_segmentation_of_chefer_et_al_and_of_libragrad() -> None:
    inputs, theirs = arrays("metrics-segmentation", "inputs"), arrays("metrics-segmentation", "outputs")
    labels = torch.from_numpy(inputs["labels"])
    given = {"maps": torch.from_numpy(inputs["maps"]), "mask": labels == 1, "labelled": labels >= 0}
    accuracy, iou, both = (METRICS[name](**given) for name in ("pixel_accuracy", "miou", "map"))
    np.testing.assert_array_equal(accuracy, np.stack([theirs["correct"], theirs["labelled"]], 1))
    wanted = [theirs[part][:, place] for place in (1, 0) for part in ("inter", "union")]
    np.testing.assert_array_equal(iou, np.stack(wanted, 1))
    np.testing.assert_allclose(both, theirs["ap_both"], **CLOSE)
    assert both[3] == 0.5  # the constant one
    assert over_all("pixel_accuracy", accuracy) == pytest.approx(float(theirs["pixel_accuracy"]))
    assert over_all("miou", iou) == pytest.approx(float(theirs["miou"]))
    assert over_all("map", both) == pytest.approx(float(theirs["map"]))
    # their enlarged map is float32
    np.testing.assert_allclose(METRICS["ap"](maps=given["maps"], mask=given["mask"]), theirs["auprc"], rtol=0, atol=1e-5)


def eraser(inputs: Mapping[str, Any], document: int) -> dict[str, Tensor]:
    """One document as metrics take it."""
    row = torch.from_numpy(inputs["scores"][document])
    scores = row[~row.isnan()]
    spans = [(first, last) for number, first, last in inputs["spans"].tolist() if number == document]
    passages = torch.tensor([[first <= word < last for word in range(len(scores))] for first, last in spans])
    return {"word_scores": scores[None], "rationale": passages.any(0)[None], "passages": passages[None]}


def test_rationales_of_eraser() -> None:
    inputs, theirs = arrays("metrics-eraser", "inputs"), arrays("metrics-eraser", "outputs")
    documents = [eraser(inputs, number) for number in range(len(inputs["scores"]))]

    def ours(name: str) -> Tensor:
        metric = METRICS[name]
        return torch.cat([metric(**{need: document[need] for need in metric.takes}) for document in documents])

    for name in ("auprc", "token_f1_10", "token_f1_20"):
        np.testing.assert_allclose(ours(name), theirs[name], **CLOSE)
    found = ours("iou_f1")
    np.testing.assert_allclose(found[:, :2], np.stack([theirs["iou_p"], theirs["iou_r"]], 1), **CLOSE)
    assert over_all("iou_f1", found) == pytest.approx(float(theirs["iou_f1_macro"]))
    assert over_all("iou_f1", found) != pytest.approx(float(theirs["iou_f1_document"].mean()), abs=0.01)


@pytest.mark.parametrize(("name", "array"), [("auac", "generate_evidence_content"), ("auac_special", "generate_evidence")])
def test_auac_of_ali_et_al(name: str, array: str) -> None:
    """The probability of the class that the data set gives, with their fractions; the ceilings of the last bits are ours."""
    case, metric = Case("metrics-ali"), METRICS[name]
    model = replace(case.model, details={**case.model.details, "unknown_token_id": 1})
    curve = metric.takes["inserted"]
    assert isinstance(curve, RemovalCurve)
    wholes = 0
    for i, mask in enumerate(case.inputs["attention_mask"].bool()):
        tensors = {key: case.inputs[key][i : i + 1, mask] for key in ("input_ids", "attention_mask")}
        content = torch.ones(int(mask.sum()), dtype=torch.bool)
        content[[0, -1]] = curve.special
        scores = case.inputs["scores"][i, mask][content]
        answers = CurveLogits(model, tensors, None, content, None).along([curve], scores[None])[0].double().softmax(-1)
        close = {"rtol": 1e-5, "atol": 1e-6}
        same = torch.isclose(answers[0, :, int(case.inputs["gold"][i])], case.published[array][i], **close)
        counts = [(math.ceil(step * len(scores)), math.ceil(step * len(scores) - 1e-9)) for step in np.linspace(0, 1, 11)]
        assert [step for step, (theirs, ours) in enumerate(counts) if theirs == ours] == torch.nonzero(same).flatten().tolist()
        if bool(same.all()):
            gold = torch.zeros(1, answers.shape[-1], dtype=torch.bool)
            gold[0, int(case.inputs["gold"][i])] = True
            torch.testing.assert_close(metric(inserted=answers, gold=gold)[0], case.published[f"area_{array}"][i], **close)
            wholes += 1
    assert wholes > 1


@pytest.mark.parametrize(("name", "array"), [("au_mse", "prune_mse_content"), ("au_mse_special", "prune_mse")])
def test_au_mse_of_ali_et_al(name: str, array: str) -> None:
    """With their fractions, whose ceilings take a word more in some texts: curve by curve, and the area under each."""
    case, metric = Case("metrics-ali"), METRICS[name]
    model = replace(case.model, details={**case.model.details, "unknown_token_id": 1})
    curve = metric.takes["pruned"]
    assert isinstance(curve, RemovalCurve)
    curve = replace(curve, fractions=tuple(np.linspace(0, 1, 11)))
    for i, mask in enumerate(case.inputs["attention_mask"].bool()):
        tensors = {key: case.inputs[key][i : i + 1, mask] for key in ("input_ids", "attention_mask")}
        content = torch.ones(int(mask.sum()), dtype=torch.bool)
        content[[0, -1]] = curve.special
        scores, whole = case.inputs["scores"][i, mask][content], model.forward(tensors).detach()
        logits = CurveLogits(model, tensors, None, content, None).along([replace(curve, rounding="up")], scores[None])[0].double()
        squares = (logits - whole[:, None]).square().sum(-1)[0]
        close = {"rtol": 1e-5, "atol": 1e-6}
        same = torch.isclose(squares, case.published[array][i], **close)
        # 0.6 of 15 words are 9.000000000000002 of theirs, and so ten
        counts = [(math.ceil(fraction * len(scores)), math.ceil(fraction * len(scores) - 1e-9)) for fraction in curve.fractions]
        assert [step for step, (theirs, ours) in enumerate(counts) if theirs == ours] == torch.nonzero(same).flatten().tolist()
        if not bool(same.all()):
            continue
        torch.testing.assert_close(metric(pruned=logits, logits=whole)[0], case.published[f"area_{array}"][i], **close)

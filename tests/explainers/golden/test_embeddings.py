"""Maps that start at the word embeddings, and Captum's account of what integrated gradients leave out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from tests.explainers.support.golden import Case
from tests.explainers.support.golden_rows import (
    CP_LRP,
    ROWS,
    TOLERANCE,
    TRAPEZOID,
    case_of,
    explained,
)

BEFORE_NORM = "bert.embeddings.LayerNorm"  # its input is the sum of word, position and type embedding


@pytest.mark.parametrize(("key", "rule"), [("attnlrp", RULES["attnlrp"]), ("cp_lrp", CP_LRP)])
def test_attnlrp_at_the_word_embeddings(key: str, rule: Rule) -> None:
    """Their quick start multiplies the word embedding alone with its gradient, which is that of the sum of the embeddings."""
    case = Case("attnlrp-bert", entry=BEFORE_NORM)
    recording = Recording(case.model, case.inputs)
    gradient = recording.cached_backward(rule, case.one_hot(recording.logits)).block_inputs[0]
    words = case.module.bert.embeddings.word_embeddings(case.inputs["input_ids"])
    assert case.difference((words * gradient).sum(-1), f"{key}_inputs_embeds") < TOLERANCE


def without_padding_row(module: nn.Module) -> None:
    """Then an input of padding has word embeddings of zero, and the positions that it has anyway."""
    with torch.no_grad():
        module.bert.embeddings.word_embeddings.weight[0] = 0


def of_word_embeddings(zero: bool) -> Case:
    return Case("integrated-gradients-bert", entry=BEFORE_NORM, change=without_padding_row if zero else None)


@pytest.mark.parametrize("quadrature", ["gausslegendre", "riemann_trapezoid"])
@pytest.mark.parametrize("zero", [True, False], ids=["zero", "pad"])
def test_integrated_gradients_of_the_word_embeddings(zero: bool, quadrature: str) -> None:
    """Between the sums of embeddings lies what lies between the word embeddings, as positions and types are the same at both ends."""
    case = of_word_embeddings(zero)
    method = (TRAPEZOID + "&" if quadrature == "riemann_trapezoid" else "integrated_gradients?") + "baseline=pad"
    one = explained(case, method)
    path = "word_embeddings_zero" if zero else "lig_word_embeddings_pad"
    assert case.difference(one.scores, f"ig_{path}_{quadrature}" if zero else f"{path}_{quadrature}", (2,)) < TOLERANCE
    assert one.completeness_error == pytest.approx(abs(float(case.published[f"delta_{path}_{quadrature}"])), rel=TOLERANCE, abs=1e-7)


def test_logits_where_the_word_embeddings_are_zero() -> None:
    case = of_word_embeddings(zero=True)
    blank = {**case.inputs, "input_ids": torch.zeros_like(case.inputs["input_ids"])}
    with torch.no_grad():
        assert case.difference(case.model.forward(blank), "logits_baseline_word_embeddings") < 1e-6


DELTAS = {
    ("integrated-gradients-vit", "delta_gausslegendre"): "ig_gausslegendre",
    ("integrated-gradients-vit", "delta_riemann_trapezoid"): "ig_riemann_trapezoid",
    **{
        ("integrated-gradients-bert", f"delta_{path}_{quadrature}"): f"{path if path.startswith('lig') else f'ig_{path}'}_{quadrature}"
        for path in ("embeddings_zero", "lig_embeddings_pad")
        for quadrature in ("gausslegendre", "riemann_trapezoid")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "delta"), DELTAS)
def test_the_completeness_error_is_captums_delta(name: str, delta: str) -> None:
    case = case_of(name)
    error = explained(case, ROWS[name][DELTAS[name, delta]].method).completeness_error
    assert error == pytest.approx(abs(float(case.published[delta])), rel=TOLERANCE, abs=1e-7)


def test_logits_of_a_black_image() -> None:
    case = case_of("integrated-gradients-vit")
    with torch.no_grad():
        black = case.model.forward({"pixel_values": torch.zeros_like(case.inputs["pixel_values"])})
    assert case.difference(black, "logits_baseline") < 1e-6

"""AGCAM against its authors' code: the map, and the scores and gradients of which it is made."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods import parse
from explainers.records.session import rerunner
from explainers.records.targets import resolved_class
from explainers.records.trace import Trace
from tests.explainers.support.golden import Case
from tests.explainers.support.golden_rows import case_of

TOLERANCE = 1e-9


def classes(of: str) -> list[int]:
    """Which class each picture's map is of."""
    case = case_of("agcam-vit")
    return [case.target] * 3 if of == "target" else case.published["logits"].argmax(-1).tolist()


def trace(of: str, rule: str) -> Trace:
    case: Case = case_of("agcam-vit")
    chosen = resolved_class(("",) * 3, torch.tensor(classes(of)))
    rerun = rerunner(case.model, case.inputs, lambda: None)
    return Trace(Recording(case.model, case.inputs), chosen, RULES[rule], rerun=rerun)


@cache
def found(of: str, spec: str) -> Tensor:
    """(pictures, rows, columns) in float64."""
    request = parse(spec)
    assert request.rule is not None
    given = trace(of, request.rule.name)
    return request.read(given).scores[given.content].view(3, *(given.layout.grid or ()))


@pytest.mark.parametrize("of", ["target", "top"])
def test_the_map(of: str) -> None:
    assert case_of("agcam-vit").difference(found(of, "agcam"), f"agcam|{of}") < TOLERANCE


@pytest.mark.parametrize("of", ["target", "top"])
def test_scores_before_the_softmax_and_the_gradient_after_it(of: str) -> None:
    case, given = case_of("agcam-vit"), trace(of, "cut-attention")
    recording = given.rerun(keeps_scores=True)
    kept = recording.structure.scores_and_values
    scores = torch.stack([each[:, :, 0] for each, _ in kept], 1)
    assert case.difference(scores, f"agcam|{of}|scores") < TOLERANCE
    contexts = given.signals_with("contexts").contexts
    rows = [context[:, :, :1] @ value.mT for context, (_, value) in zip(contexts, kept, strict=True) if context is not None]
    assert case.difference(torch.stack([row[:, :, 0] for row in rows], 1), f"agcam|{of}|gradient") < TOLERANCE


@pytest.mark.parametrize("of", ["target", "top"])
def test_the_ordinary_gradient_gives_another_map(of: str) -> None:
    assert case_of("agcam-vit").difference(found(of, "agcam:gradient"), f"agcam|{of}") > 0.1


def test_an_explanation_gives_it_by_its_name() -> None:
    case = case_of("agcam-vit")
    result = explainers.explain(case.model, case.inputs, target=case.target, methods=["agcam"])
    assert isinstance(result, list)
    ours = torch.stack([one["agcam"].scores[one["agcam"].content] for one in result])
    assert case.difference(ours, "agcam|target") < 1e-6
    assert result[0]["agcam"].title == "AGCAM"

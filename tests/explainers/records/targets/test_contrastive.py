"""CLRP and SGLRP as targets, against the rules written out a second time and against autograd."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers import CLRP, SGLRP, AnyOf, Contrast, ExplainerError, Probability
from explainers.autograd.rules import RULES
from explainers.methods import parse
from explainers.records.targets import Classes, parse_target, python_code, resolve, target_from_json
from explainers.records.trace import Trace
from tests.explainers.support.explained import LABELS, clip_model, image_model, picture
from tests.explainers.support.formulas import twin_of
from tests.explainers.support.operator_cases.case import normal
from tests.explainers.support.toys import record

LOGITS = 2 * torch.randn(3, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def rows(target: Any) -> list[Tensor]:
    """The start of each sample, class by class as the papers have it."""
    starts = []
    for row in LOGITS:
        of_class, p = 3, row.exp() / row.exp().sum()
        sglrp = [float(p[3] * (1 - p[3])) if c == of_class else float(-p[3] * p[c]) for c in range(5)]
        starts.append(torch.tensor([1.0 if c == of_class else -1 / 4 for c in range(5)] if isinstance(target, CLRP) else sglrp).double())
    return starts


@pytest.mark.parametrize("target", [CLRP("fork"), SGLRP(3)], ids=str)
def test_starts_are_those_of_the_papers(target: Any) -> None:
    chosen, expected = resolve(target, Classes(LABELS), LOGITS), torch.stack(rows(target))
    for rule in ("gradient", "lrp"):
        torch.testing.assert_close(chosen.output_gradient(LOGITS, RULES[rule]), expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(chosen.value(LOGITS), (expected * LOGITS).sum(1), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(chosen.account(LOGITS), chosen.value(LOGITS))
    leaf = LOGITS.clone().requires_grad_()
    of_autograd = leaf.softmax(-1)[:, 3] if isinstance(target, SGLRP) else leaf[:, 3] - (leaf.sum(1) - leaf[:, 3]) / 4
    torch.testing.assert_close(chosen.output_gradient(LOGITS, RULES["lrp"]), torch.autograd.grad(of_autograd.sum(), leaf)[0])


@pytest.mark.parametrize("rule", ["deep_taylor", "lrp", "libra"])
def test_maps_are_those_of_a_twin(rule: str) -> None:
    """A small classifier of tokens with its operators written out a second time, begun as the papers begin: of CLRP two passes whose
    difference is cut at zero, token by token.
    """
    x, first, last = normal(2, 4, 6, seed=1).requires_grad_(), normal(8, 6, seed=2), normal(5, 8, seed=3)
    recording = record(lambda x: F.linear(F.gelu(F.linear(x, first)).mean(1), last), x.detach())
    operators = twin_of(RULES[rule])
    hidden = operators.act(F.gelu, operators.linear(lambda y: y @ first.mT, x))
    logits = operators.linear(lambda y: y @ last.mT, operators.mean(hidden, 1))

    def relevance(start: Tensor) -> Tensor:
        (signal,) = torch.autograd.grad(logits, x, start.expand_as(logits), retain_graph=True)
        return (signal if RULES[rule].is_relevance else signal * x.detach()).sum(-1)

    def read(target: Any) -> Tensor:
        chosen = resolve(target, Classes(LABELS), recording.logits)
        request = parse(f"lrp:{rule}" if RULES[rule].is_relevance else f"input_x_gradient:{rule}")
        return request.read(Trace(recording, chosen, RULES[rule])).scores.detach()

    one = torch.tensor([0.0, 1, 0, 0, 0], dtype=torch.float64)
    difference = relevance(one) - relevance((1 - one) / 4)
    assert bool((difference < 0).any())
    torch.testing.assert_close(read(CLRP(1)), difference.clamp(min=0))
    p = logits.detach().softmax(-1)
    torch.testing.assert_close(read(SGLRP(1)), relevance(p[:, 1:2] * (one - p)))


def test_what_an_explanation_says_of_them() -> None:
    model = image_model()
    specs = ["lrp", "fullgrad_plus:libra"]
    result = explainers.explain(model, picture(), [CLRP(), SGLRP("dog"), "dog"], specs)
    top, of_dog = result.targets[0], result.targets[1]
    assert (top.kind, top.label, top.of) == ("clrp", f"{result.top(1)[0].label} (CLRP)", f"clrp:{result.top(1)[0].label}")
    others = float(result.logits.sum() - result.logits.max()) / 4
    assert top.logit == pytest.approx(float(result.logits.max()) - others, rel=1e-4)
    assert (of_dog.probability, of_dog.index) == (pytest.approx(float(result.probabilities[4])), 4)
    for spec in specs:
        cut, plain = result[spec, 0], result[spec, 2]
        assert bool((cut.scores >= 0).all())
        assert (cut.signed, cut.adds_up_to, cut.completeness_error) == (False, None, None)
        assert any("the positive part is kept in each token" in note for note in cut.notes)
        assert any("SGLRP" in note for note in result[spec, 1].notes)
        assert plain.signed
        assert not plain.notes
    session = explainers.Session(model, picture(), CLRP("dog"))
    with pytest.raises(ExplainerError, match="no sum over blocks"):
        explainers.contributions(session, "fullgrad_plus:libra")
    assert explainers.explain(clip_model(), picture(), [CLRP("a film"), "a movie"], "lrp").target.label == "a film (CLRP)"


def test_as_text_json_and_code() -> None:
    assert parse_target("clrp:dog", LABELS) == CLRP("dog")
    assert parse_target("sglrp: 3", LABELS) == SGLRP(3)
    assert parse_target("clrp:", LABELS) == CLRP()
    info = explainers.explain(image_model(), picture(), SGLRP(4), "random").target.to_json()
    assert target_from_json(json.loads(json.dumps(info)), LABELS) == SGLRP("dog")
    assert python_code(CLRP("dog")) == ('explainers.CLRP("dog")', {"explainers"})


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (CLRP("okapi"), "no class 'okapi'"),
        (Contrast(CLRP("dog"), "Zebra"), "cannot be set against"),
        (Probability(SGLRP("dog")), "has no probability"),  # type: ignore[arg-type]
        (CLRP(AnyOf("animal")), "explains a single class"),  # type: ignore[arg-type]
    ],
)
def test_what_they_cannot_be(target: Any, said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        explainers.explain(image_model(), picture(), target, "random")


def test_models_that_have_no_such_start() -> None:
    for target, classes, logits, said in (
        (CLRP(0), Classes(["one"]), LOGITS[:, :1], "this model has one"),
        (SGLRP(0), Classes(LABELS, output="sigmoid"), LOGITS, "starts from a softmax"),
    ):
        with pytest.raises(ExplainerError, match=said):
            resolve(target, classes, logits)
    with pytest.raises(ExplainerError, match="explains a single class"):
        resolve(parse_target("clrp:any:animal", LABELS), Classes(LABELS), LOGITS)

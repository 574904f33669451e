"""A class against its nearest kinds, against what torch-cam and the authors' code gave for two pictures (torch 2.13, float64)."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers import ExplainerError, Finer, FinerWeighted
from explainers.records.targets import Classes, Target, parse_target, python_code, resolve, target_from_json
from tests.explainers.support.explained import LABELS, image_model, picture

CLASSES = Classes([f"kind {i}" for i in range(8)])
#: Class 3 of both pictures is explained.
LOGITS = torch.tensor(
    [
        [
            *(-1.5198154248817541, -0.3105306380437369, 0.3423848770249237, 1.2633883184710384),
            *(-0.8633595569228376, -0.5466905378791408, 0.7414325111832482, -1.7826863550262353),
        ],
        [
            *(0.5721599286210152, -1.4249967687786769, 0.5864713331473888, 1.7355931759960375),
            *(0.6607175505820418, -0.7272345343901415, -0.1380733013670023, -0.850880610338753),
        ],
    ],
    dtype=torch.float64,
)
PUBLISHED = {
    Finer(3): [1.1087309684381514, 1.3717234135259484],
    FinerWeighted(3): [0.8363508872351058, 1.12761892484156],
}
#: The authors' gradient with respect to the logits, largest parts.
GRADIENTS = {(0, 1): -0.04536890831980431, (0, 2): -0.3040081538655736, (0, 6): -0.6506229346817776, (1, 4): -0.37020280883328754}


@pytest.mark.parametrize("target", PUBLISHED, ids=str)
def test_values_are_the_published_ones(target: Target) -> None:
    chosen = resolve(target, CLASSES, LOGITS)
    assert chosen.value(LOGITS).tolist() == pytest.approx(PUBLISHED[target], abs=1e-9)


def test_gradients_are_the_published_ones() -> None:
    weighted = resolve(FinerWeighted(3), CLASSES, LOGITS)
    gradient = weighted.target.output_gradient(weighted.name_logits(LOGITS))
    for place, expected in GRADIENTS.items():
        assert float(gradient[place]) == pytest.approx(expected, abs=1e-9)
    linear = resolve(Finer(3), CLASSES, LOGITS)
    start = linear.target.output_gradient(linear.name_logits(LOGITS))
    expected = torch.zeros(2, 8, dtype=torch.float64)
    for row, references in enumerate([[6, 2, 1], [4, 2, 0]]):  # torch-cam's
        expected[row, references] = -0.2
    expected[:, 3] = 1
    torch.testing.assert_close(start, expected)


def test_it_is_asked_for_everywhere() -> None:
    target = parse_target("finer:dog", ["cat", "dog", "eel"])
    assert target == Finer("dog")
    assert python_code(target)[0] == 'explainers.Finer("dog")'
    model = image_model()
    result = explainers.explain(model, picture(), [Finer(), FinerWeighted(1)], "fullgrad:libra")
    for number, info in enumerate(result.targets):
        assert "against its nearest kinds" in info.label
        told = info.to_json()
        again = explainers.explain(model, picture(), target_from_json(told, result.labels), "fullgrad:libra")
        assert again.target.label == info.label
        assert result.completeness("libra", number) < 1e-5
    top = int(result.logits.argmax())
    others = torch.cat([result.logits[:top], result.logits[top + 1 :]])
    nearest = others[(others - result.logits[top]).abs().argsort()[:3]]
    assert result.targets[0].logit == pytest.approx(float(result.logits[top] - 0.6 * nearest.mean()), abs=1e-5)
    assert any("FinerCAM" in note for note in result["fullgrad:libra"].notes)


def test_a_model_of_one_class_is_refused() -> None:
    with pytest.raises(ExplainerError, match="this model has one class"):
        resolve(Finer(0), Classes(LABELS[:1]), torch.zeros(1, 1))


@pytest.mark.parametrize("target", [Finer(3, 0.4, 2), FinerWeighted(3, 0.5, 5)])
def test_how_much_and_how_many_can_be_others(target: Finer) -> None:
    """Against the formulas, and written and read again."""
    chosen = resolve(target, CLASSES, LOGITS)
    for row, logits in enumerate(LOGITS):
        near = sorted((i for i in range(8) if i != 3), key=lambda i: abs(float(logits[i] - logits[3])))[: target.references]
        if isinstance(target, FinerWeighted):
            p = logits.softmax(-1)[near]
            expected = float((p * (logits[3] - target.gamma * logits[near])).sum() / (p.sum() + 1e-9))
        else:
            expected = float(logits[3] - target.gamma * logits[near].mean())
        assert float(chosen.value(LOGITS)[row]) == pytest.approx(expected, abs=1e-12)
    text = f"{target.kind}:{target.text(lambda name: f'kind {name}')}"
    named = parse_target(text, CLASSES.labels)
    assert named == type(target)("kind 3", target.gamma, target.references)
    assert f"gamma={target.gamma}" in chosen.labels[0]
    assert eval(python_code(target)[0], {"explainers": explainers}) == target


@pytest.mark.parametrize("text", ["finer:dog?gamma=much", "finer:dog?references=0", "finer:dog?gamma=-1", "finer:dog?references=1.5"])
def test_settings_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ExplainerError):
        parse_target(text, ["cat", "dog"])


def test_a_label_may_have_a_question_mark() -> None:
    assert parse_target("finer:who?", ["who?", "cat"]) == Finer("who?")


def test_kinds_of_targets_are_read_from_text_in_python() -> None:
    model = image_model()
    texts = explainers.explain(model, picture(), [f"finer:{LABELS[0]}?gamma=0.4", "over:0.0001"], ["input_x_gradient"])
    same = explainers.explain(model, picture(), [Finer(LABELS[0], 0.4), explainers.Over(0.0001)], ["input_x_gradient"])
    assert [each.label for each in texts.targets] == [each.label for each in same.targets]  # type: ignore[union-attr]

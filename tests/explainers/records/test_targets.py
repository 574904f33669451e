"""What is explained: classes, contrasts, probabilities, one or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from explainers import Contrast, ExplainerError, Probability, explain
from tests.explainers.support.explained import LABELS, image_model, picture


def test_targets_by_label_index_and_default() -> None:
    model = image_model()
    top = explain(model, picture(), methods="random")
    best = int(top.logits.argmax())
    assert top.target.index == best
    assert top.target.label == LABELS[best]
    assert top.target.logit == pytest.approx(float(top.logits[best]))
    assert top.target.probability == pytest.approx(float(top.probabilities[best]))
    for target in (3, "fork", "FORK", torch.tensor(3), np.int64(3), np.array(3)):
        result = explain(model, picture(), target=target, methods="input_x_gradient")
        assert (result.target.index, result.target.label) == (3, "fork")
        assert result["input_x_gradient"].target == "fork"
    ranked = top.top(3)
    assert [t.index for t in ranked] == top.logits.argsort(descending=True)[:3].tolist()
    assert len(top.top()) == 5


def test_a_batch_without_target_explains_each_samples_own_top_class() -> None:
    model = image_model()
    results = explain(model, [picture(i) for i in range(6)], methods="input_x_gradient")
    for i, result in enumerate(results):
        best = LABELS[int(result.logits.argmax())]
        assert result.target.label == best
        alone = explain(model, picture(i), target=best, methods="input_x_gradient")["input_x_gradient"].scores
        torch.testing.assert_close(result["input_x_gradient"].scores, alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (5, "5 classes, 0 to 4"),
        (-1, "Classes are not counted from the end: the last one is 4"),
        (Contrast(1, -1), "not counted from the end"),
        (torch.tensor([1, 2]), "Several targets are a list"),
        (torch.tensor(1.0), "no target"),
        (np.bool_(True), "no target"),
        ([1, 1], "'elephant' is named twice"),
        ([torch.tensor(1), "Elephant"], "'elephant' is named twice"),
        ([Contrast(0, 1), Contrast("zebra", 1)], "named twice"),
        ([Probability(2), Probability("spoon")], "named twice"),
        ("zebras", "did you mean Zebra"),
        ("giraffe-like quadruped", "the model knows Zebra"),
        (True, "no target"),
        (1.0, "no target"),
        ([], "empty"),
        ([0, False], "no target"),
        (Contrast("Zebra", "zebra"), "itself"),
        (Contrast("Zebra", "okapi"), "no class"),
        (Probability(9), "9 does not exist"),
    ],
)
def test_wrong_targets(target: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explain(image_model(), picture(), target=target, methods="random")


def test_what_only_looks_like_the_same_target_is_explained() -> None:
    model = image_model()
    top = int(explain(model, picture(), methods="random").logits.argmax())
    targets = [None, top, Probability(top), Contrast(top, 1 - min(top, 1)), Contrast(1 - min(top, 1), top)]
    assert len(explain(model, picture(), target=targets, methods="random").targets) == 5
    result = explain(model, picture(), target=Contrast(np.int64(3), torch.tensor(0)), methods="random")
    assert result.target.label == "fork − Zebra"


def test_a_contrast_is_the_difference_of_two_maps() -> None:
    model, spec = image_model(), "fullgrad_plus:libra"
    two = explain(model, picture(), target=["Zebra", "dog"], methods=spec)
    one = explain(model, picture(), target=Contrast("Zebra", "dog"), methods=spec)
    torch.testing.assert_close(one[spec].scores, two[spec, "Zebra"].scores - two[spec, "dog"].scores, rtol=1e-3, atol=1e-5)
    assert one.target.logit == pytest.approx(two.targets[0].logit - two.targets[1].logit, rel=1e-4)
    assert one.target.index is None
    assert one.target.probability is None
    assert "Zebra" in one.target.label
    assert "dog" in one.target.label
    assert two.completeness("libra") < 1e-4
    assert one.completeness("libra") < 1e-4


def test_completeness_is_that_of_the_target_asked_about() -> None:
    model = image_model()
    several = explain(model, picture(), target=["Zebra", "dog", Contrast("Zebra", "dog")], methods="random")
    for place, target in enumerate(["Zebra", "dog", Contrast("Zebra", "dog")]):
        alone = explain(model, picture(), target=target, methods="random")
        expected = alone.completeness("gradient")
        assert several.completeness("gradient", place) == pytest.approx(expected, rel=1e-3)
        assert several.completeness("gradient", alone.target.label) == pytest.approx(expected, rel=1e-3)
    assert several.completeness("gradient", 1) != pytest.approx(several.completeness("gradient"), rel=1e-2)
    for unknown in ("Spoon", 3, -1):
        with pytest.raises(ExplainerError, match="none of the explained targets: Zebra, dog"):
            several.completeness("gradient", unknown)


def test_a_probability_is_the_softmax_chain() -> None:
    model, spec = image_model(), "input_x_gradient"
    logits = explain(model, picture(), target=list(range(5)), methods=spec)
    maps = torch.stack([logits[spec, i].scores for i in range(5)])
    p = logits.probabilities
    expected = p[2] * (maps[2] - (p[:, None] * maps).sum(0))
    result = explain(model, picture(), target=Probability("Spoon"), methods=spec)
    torch.testing.assert_close(result[spec].scores, expected, rtol=1e-3, atol=1e-6)
    assert explain(model, picture(), target=Probability(), methods=spec).target.index == int(p.argmax())
    with pytest.raises(ExplainerError, match="not from a probability"):
        explain(model, picture(), target=Probability("Spoon"), methods="transformer_attribution")


def test_several_targets_share_one_forward_pass_and_are_addressed_by_label_or_place(monkeypatch: pytest.MonkeyPatch) -> None:
    model = image_model()
    calls: list[int] = []
    handle = model.module.register_forward_hook(lambda *_: calls.append(1))
    try:
        result = explain(model, picture(), target=["Zebra", 3], methods=["rollout", "hirescam", "fullgrad:libra"])
    finally:
        handle.remove()
    assert len(calls) == 1
    assert [(m.method, m.target) for m in result.maps] == [
        (spec, label) for label in ("Zebra", "fork") for spec in ("rollout", "hirescam", "fullgrad:libra")
    ]
    assert result["hirescam"] is result["hirescam", "Zebra"]
    assert result["hirescam", 1] is result["hirescam", "fork"]
    assert torch.equal(result["rollout", 0].scores, result["rollout", 1].scores)


def test_a_map_that_was_not_asked_for_is_a_key_error_that_says_what_there_is() -> None:
    result = explain(image_model(), picture(), target="dog", methods=["rollout", "random"])
    with pytest.raises(KeyError, match="rollout, random") as caught:
        result["gradcam"]
    assert "dog" in str(caught.value)
    with pytest.raises(KeyError, match="Zebra"):
        result["rollout", "Zebra"]

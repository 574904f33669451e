"""The caller chooses which map comes next: the maps are the same, and what is shared is made once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from explainers import ExplainerError, explain
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.records.result import Attribution, Explanation
from tests.explainers.support.explained import image_model, picture
from tests.explainers.support.long_texts import TEXT, model_of, windows

METHODS = ["rollout", "input_x_gradient:libra", "random", "fullgrad_plus:libra", "occlusion"]
WISHES = ["occlusion", "fullgrad_plus:libra", "random"]


def wishes(left: list[str]) -> str | None:
    return next((spec for spec in WISHES if spec in left), left[0])


class Order:
    """The maps as they come, with the target of each."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def on_prediction(self, explanation: Explanation) -> None:
        pass

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        self.seen.append((attribution.method, attribution.target))

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.seen]


def same_maps(some: Explanation, others: Explanation) -> None:
    assert some.methods == others.methods or sorted(some.methods) == sorted(others.methods)
    theirs = {(one.method, one.target): one for one in others.maps}
    assert len(some.maps) == len(theirs)
    for one in some.maps:
        torch.testing.assert_close(one.scores, theirs[one.method, one.target].scores, rtol=1e-5, atol=1e-7)


def test_maps_come_as_wished_and_are_the_same() -> None:
    model, order = image_model(), Order()
    result = explain(model, picture(), methods=METHODS, observer=order, next_method=wishes)
    assert order.methods == [*WISHES, "rollout", "input_x_gradient:libra"]
    same_maps(result, explain(model, picture(), methods=METHODS))


def test_with_several_targets_a_method_is_made_for_all_of_them_and_its_rule_goes_back_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, back = [], Recording.backward
    monkeypatch.setattr(Recording, "backward", lambda self, rule, *how: (passes.append(rule.name), back(self, rule, *how))[1])
    model, order = image_model(), Order()
    how: dict[str, Any] = {"target": ["dog", "fork"], "methods": METHODS}
    result = explain(model, picture(), observer=order, next_method=wishes, **how)
    expected = [("occlusion", "dog"), ("occlusion", "fork")]
    expected += [(spec, label) for label in ("dog", "fork") for spec in ("fullgrad_plus:libra", "input_x_gradient:libra")]
    assert order.seen == expected + [(spec, label) for spec in ("random", "rollout") for label in ("dog", "fork")]
    assert passes == ["libra"] * 2
    same_maps(result, explain(model, picture(), **how))


def test_none_ends_it_early() -> None:
    def one_alone(left: list[str]) -> str | None:
        return left[0] if len(left) == len(METHODS) else None

    result = explain(image_model(), picture(), methods=METHODS, next_method=one_alone)
    assert [attribution.method for attribution in result.maps] == METHODS[:1]


def test_the_first_map_of_a_long_text_does_not_wait_for_the_others() -> None:
    """Every window is explained by one method, or by those of one rule, before any is by the next."""
    model, order, at = model_of(), Order(), dict[str, int]()
    names = [spec for spec in METHODS if spec != "occlusion"]
    number = len(windows(model))
    assert number > 2

    def wish(left: list[str]) -> str | None:
        at[left[0]] = len(order.seen)
        return wishes(left)

    result = explain(model, TEXT, methods=names, observer=order, next_method=wish)
    assert order.methods == ["fullgrad_plus:libra", "input_x_gradient:libra", "random", "rollout"]
    assert at["rollout"] == 3  # when it was alone, three maps of the whole text were there
    same_maps(result, explain(model, TEXT, methods=names))
    assert len(result.windows) == number


def test_what_has_no_spec_cannot_be_chosen_in_a_long_text() -> None:
    rule = RULES["libra"].__class__(name="mine", title="mine")
    with pytest.raises(ExplainerError, match="next_method goes with rules that have a name"):
        explain(model_of(), TEXT, methods=[("input_x_gradient", rule)], next_method=wishes)
    with pytest.raises(ExplainerError, match="name them"):
        explain(model_of(), TEXT, next_method=wishes)

"""What a map of Integrated Gradients says of its own integral."""

from __future__ import annotations

import pytest

import explainers
from explainers.records.result import Attribution
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, wrapped


def maps(spec: str) -> list[Attribution]:
    results = explainers.explain(wrapped("vit"), inputs("vit", 3), target=TARGET, methods=[spec])
    return [result.maps[0] for result in results]


@pytest.mark.parametrize("quadrature", ["gauss_legendre", "riemann"])
@pytest.mark.parametrize("at", ["tokens", "pixels"])
def test_integrated_gradients_say_how_much_of_the_difference_they_miss(quadrature: str, at: str) -> None:
    spec = f"integrated_gradients?quadrature={quadrature}&at={at}&steps="
    whole = [float(one.scores.sum()) for one in maps(f"integrated_gradients?at={at}&steps=300")]  # what the scores add up to in the end
    missing = 0
    for steps in (2, 40):
        for one, difference in zip(maps(f"{spec}{steps}"), whole, strict=True):
            assert one.completeness_error is not None
            notes = [note for note in one.notes if note.startswith("The scores should add up to ")]
            is_missing = one.completeness_error > 0.05 * abs(difference)
            assert len(notes) == is_missing
            missing += is_missing
            if notes:
                assert f"by {one.completeness_error:.2g}" in notes[0]
                assert notes[0].endswith(f"raise steps, now {steps}.")
    assert missing


def test_a_rule_under_which_no_number_of_steps_adds_up_is_not_asked_for_more() -> None:
    assert all("raise steps" not in note for one in maps("integrated_gradients:libra?steps=2") for note in one.notes)

"""Figures of maps: each has the bar of its colours."""

from __future__ import annotations

import pytest

import explainers
from tests.explainers.support.explained import image_model, picture


@pytest.mark.parametrize(("spec", "ends"), [("input_x_gradient", ["against", "for"]), ("rollout", ["weak", "strong"])])
def test_a_map_has_a_bar_of_its_colours(spec: str, ends: list[str]) -> None:
    (axes,) = explainers.explain(image_model(), picture(), methods=[spec]).figure().axes
    (bar,) = axes.child_axes
    assert [text.get_text() for text in bar.texts] == ends
    first, *_, last = bar.images[0].get_array()[0]
    if ends[0] == "against":
        assert first[2] > first[0]  # blue
        assert last[0] > last[2]  # red
    else:
        assert first[3] < last[3]  # what is weak lets more of the picture through

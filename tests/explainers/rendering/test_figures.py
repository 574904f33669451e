"""Figures of maps: each has the bar of its colours, and says whether another class would have another map."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

import explainers
from tests.conftest import ROOT
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


@pytest.mark.parametrize(
    ("spec", "is_same"), [("rollout", True), ("raw_attention", True), ("generic_attention", False), ("fullgrad_plus:libra", False)]
)
def test_a_map_that_no_class_changes_says_so(spec: str, is_same: bool) -> None:
    """In the title of a panel and below a map in a notebook; the maps of two classes are what is said."""
    result = explainers.explain(image_model(), picture(), [0, 1], [spec])
    first, second = (attribution.scores for attribution in result.maps)
    assert torch.equal(first, second) == is_same
    titles = [axes.get_title() for axes in result.figure().axes if axes.images]
    assert len(titles) == 2
    assert [title.count("the same for every class") for title in titles] == [int(is_same)] * 2
    assert result.maps[0]._repr_html_().count("the same for every class") == int(is_same)


@pytest.mark.parametrize("specs", [["fullgrad_plus:libra"], ["fullgrad_plus:libra", "rollout"]])
def test_captions_and_bars_are_not_cut_off(specs: list[str]) -> None:
    sample = ROOT / "explainers" / "embedded" / "samples" / "scenes" / "zebra-elephant.png"  # square, as is what the model sees
    figure = explainers.explain("scenes-vit", sample, ["zebra", "elephant"], specs).figure(columns=2)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[..., :3].min(-1)
    assert drawn.min() < 100
    assert drawn[[0, -1]].min() > 250  # nothing but paper at the upper and the lower edge

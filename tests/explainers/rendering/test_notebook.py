"""Explanations in a notebook, and as a figure."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers import ExplainerError, explain
from explainers.rendering.colours import colours
from explainers.rendering.figures import panel
from explainers.rendering.overlays import render_overlay
from tests.explainers.support.explained import image_model, picture, text_model
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

METHODS = ["input_x_gradient:libra", "rollout"]


class Tags(HTMLParser):
    """The tags of a page that is well formed, its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("img", "br"):
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_map_lies_over_its_picture() -> None:
    result = explain(image_model(), picture(), "dog", METHODS)
    tags = Tags(result["rollout"]._repr_html_())
    (source,) = tags.attributes["src"]
    shown = Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,"))))
    assert np.array_equal(np.asarray(shown), np.asarray(render_overlay(result, result["rollout"], 224)))
    assert tags.attributes["alt"] == [f"{result['rollout'].title} for dog"]
    both = Tags(result._repr_html_())
    assert both.seen.count("img") == len(METHODS)
    assert all(spec in both.text for spec in METHODS)
    assert result.top()[0].label in both.text


def test_a_map_has_the_colours_of_its_scale_under_it() -> None:
    """The ends of the bar are the colours of the largest score and, of a signed map, of the least."""
    result = explain(image_model(), picture(), "dog", METHODS)
    for method, low, high in (("input_x_gradient:libra", "against", "for"), ("rollout", "weak", "strong")):
        page = result[method]._repr_html_()
        (bar,) = re.findall(r"(\w+)<div style=\"flex:1;height:6px;background:linear-gradient\(90deg,([^\"]+)\)\"></div>(\w+)", page)
        assert (bar[0], bar[2]) == (low, high)
        stops = re.findall(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)", bar[1])
        ends = colours(np.array([-1.0 if low == "against" else 0.0, 1.0]), low == "against")
        for stop, expected in zip((stops[0], stops[-1]), ends, strict=True):
            np.testing.assert_allclose([float(part) for part in stop], expected, atol=0.51)
    texts = explain(text_model(), "a good film", methods=METHODS)
    assert texts["rollout"]._repr_html_().count("linear-gradient") == 1


def test_each_patch_says_its_score_where_it_is_pointed_at() -> None:
    result = explain(image_model(), picture(), "dog", METHODS)
    attribution = result[METHODS[0]]
    assert attribution.patches is not None
    page = attribution._repr_html_()
    said = re.findall(r'<rect x="(\d+)" y="(\d+)" width="1" height="1"><title>row (\d+), column (\d+): ([^<]+)</title>', page)
    rows, columns = attribution.patches
    assert f'viewBox="0 0 {columns} {rows}"' in page
    assert [(int(y) * columns + int(x), int(row) - int(y), int(column) - int(x)) for x, y, row, column, _ in said] == [
        (place, 1, 1) for place in range(rows * columns)
    ]
    assert [float(score) for *_, score in said] == pytest.approx(attribution.scores[attribution.content].tolist(), rel=5e-3)


def test_words_are_coloured_by_their_scores() -> None:
    result = explain(text_model(), "Not a bad movie.", "positive", METHODS)
    tags = Tags(result[METHODS[0]]._repr_html_())
    assert tags.text.startswith("Not a bad movie.")
    words = result[METHODS[0]].words()
    assert tags.attributes["title"] == [f"{word.score:.4g}" for word in words]
    lines = [re.search(r"border-bottom:(\d)px (\w+)", style) for style in tags.attributes["style"] if "border" in style]
    assert len(lines) == len(words)
    strongest = int(np.argmax([abs(word.score) for word in words]))
    assert lines[strongest] is not None
    assert lines[strongest][1] == "4"
    assert [line and line[2] for line in lines] == ["dotted" if word.score < 0 else "solid" for word in words]


def test_no_text_becomes_a_tag() -> None:
    hostile = "<script>alert(1)</script> & <b>"
    model = explainers.wrap(FAMILIES["bert"].build(), labels=["<i>no</i>", "a&b", '"yes"'], tokenizer=wordpiece())
    result = explain(model, hostile, 0, METHODS)
    tags = Tags(result._repr_html_())
    assert not {"script", "i"} & set(tags.seen)
    assert tags.seen.count("b") == len(METHODS)  # the titles
    assert hostile in tags.text
    assert "<i>no</i>" in tags.text


def test_tensors_have_no_picture_and_say_so() -> None:
    result = explain(image_model(), {"pixel_values": torch.rand(1, 3, 32, 24)}, 0, "rollout")
    tags = Tags(result["rollout"]._repr_html_())
    assert "img" not in tags.seen
    assert "no picture" in tags.text
    with pytest.raises(ExplainerError, match="no picture"):
        result.figure()


def test_the_figure_shows_the_maps_that_are_asked_for() -> None:
    result, same = explain(image_model(), picture(), ["dog", "fork"], METHODS), "\nthe same for every class"
    drawn = [axes for axes in result.figure(columns=3).axes if axes.images]
    assert [axes.get_title() for axes in drawn] == [
        f"{one.title}\n{one.target}{'' if one.class_specific else same}" for spec in METHODS for one in result.maps if one.method == spec
    ]
    (only,) = [axes for axes in result.figure(["rollout"], "fork").axes if axes.images]
    assert np.array_equal(only.images[0].get_array(), np.asarray(render_overlay(result, result["rollout", "fork"])))
    buffer = io.BytesIO()
    result.figure(["rollout"]).savefig(buffer, format="pdf")
    assert buffer.getvalue().startswith(b"%PDF")
    for arguments, message in (
        ((["saliency"],), "no map of saliency"),
        ((None, "zebra"), "none of the explained targets"),
        ((None, None, 0), "1 or more"),
    ):
        with pytest.raises(ExplainerError, match=message):
            result.figure(*arguments)


def test_a_map_far_on_one_side_of_zero_says_that_only_its_order_is_meant() -> None:
    result = explain(image_model(), picture(), "dog", METHODS)
    drawn = result[METHODS[0]]
    shifted = replace(drawn, scores=drawn.scores - 2 * drawn.scores.abs().max())
    note = "Nothing here speaks for, so the map is drawn as strength: only the order counts."
    shown = [note in Tags(attribution._repr_html_()).text for attribution in (drawn, shifted)]
    assert shown == [False, len(drawn.scores[drawn.content]) >= 10]
    figure = panel(result, [shifted])
    assert (note in figure.axes[0].get_title().replace("\n", " ")) == shown[1]


def test_results_of_analyses_show_their_table_and_their_picture() -> None:
    """What ``print`` shows stands in the page letter by letter, and each picture opens."""
    model, text = image_model(), text_model()
    result = explain(model, picture(), ["Zebra", "dog"], ["input_x_gradient:libra"])
    for shown, pictures in (
        (explainers.deletion_test(model, result, draws=1), 1),
        (explainers.regions(result, "input_x_gradient:libra"), 1),
        (explainers.input_interaction(model, picture(), picture()), 2),
        (explainers.summarise(model, [picture()], "Zebra", "input_x_gradient:libra"), 1),
        (explainers.summarise(text, ["a good film", "a bad film"], "positive", "input_x_gradient:libra"), 0),
    ):
        page = Tags(shown._repr_html_())
        assert str(shown) in page.text
        assert len(str(shown).splitlines()) > 2
        sources = page.attributes.get("src", [])
        assert len(sources) == pictures
        for source in sources:
            opened = Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,")))).convert("RGB")
            assert np.ptp(np.asarray(opened)) > 0
    probe = explainers.word_probe(text, "a {} film", {"one": ["good"], "other": ["bad"]}, "positive", "input_x_gradient:libra")
    page = Tags(probe._repr_html_())
    assert str(probe) in page.text
    assert any(title.endswith(f"{word.score:.4g}") for word in probe.method.words() for title in page.attributes["title"])

"""What helps to choose: families, sets to begin with, and how far each method can be trusted."""

from __future__ import annotations

import pytest

import explainers
from explainers.methods.about import line_of
from explainers.methods.families import FAMILIES
from explainers.methods.presets import PRESETS
from explainers.methods.registry import METHODS, method
from explainers.methods.standing import CONTROL, Standing, standing_for, standings


def test_every_method_has_a_family_and_a_line() -> None:
    for one in METHODS.values():
        assert one.family in FAMILIES
        assert line_of(one.name, one.rule, one.rule).endswith(".")
    assert line_of("input_x_gradient", "attnlrp", "gradient") != line_of("input_x_gradient", "libra", "gradient")
    assert line_of("of another package", None, None) == ""


def test_a_family_that_does_not_exist_is_refused() -> None:
    with pytest.raises(explainers.ExplainerError, match="family 'nothing', which does not exist"):
        method("new", title="", family="nothing", by="", year=None, paper="", rule=None, signed=False)(lambda trace: trace)


def test_sets_hold_methods_that_run() -> None:
    listed = explainers.variants()
    for one in PRESETS:
        assert one.specs(listed)
        assert set(one.specs(listed)) <= {variant.spec for variant in listed}
    default = next(one for one in PRESETS if one.name == "default")
    assert default.specs(listed) == [variant.spec for variant in listed if variant.default]
    quick = next(one for one in PRESETS if one.name == "quick")
    assert not any(variant.slow for variant in listed if variant.spec in quick.specs(listed))


def test_ranks_follow_the_areas_and_leave_the_control_out() -> None:
    made = Standing("m", "image", "2 photos", {"a": 0.3, "b": 0.1, "c": 0.3, CONTROL: 0.2})
    assert [made.rank(spec) for spec in ("b", "a", "c", CONTROL, "unknown")] == [1, 2, 2, None, None]
    assert made.to_json("a") == {"rank": 2, "of": 3, "area": 0.3}
    assert made.to_json(CONTROL) is None


def test_what_was_measured_names_methods_that_there_are() -> None:
    known = {pair.spec for pair in explainers.variants()}
    for one in standings():
        assert set(one.areas) <= known
        assert one.areas[CONTROL] > min(one.areas.values())
    image, text = standing_for("image"), standing_for("text")
    assert image is not None
    assert text is not None
    assert (image.kind, text.kind) == ("image", "text")
    assert standing_for("clip", "clip") == image
    assert standing_for("image", image.model) == image

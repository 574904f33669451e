"""What helps to choose: families, and sets to begin with."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explainers
from explainers.methods.families import METHOD_FAMILIES
from explainers.methods.presets import METHOD_SETS, MOST_IN_A_PRESET, PRESETS, QUICK
from explainers.methods.registry import METHODS, is_control, method


def test_every_method_has_a_family_and_a_line() -> None:
    for one in METHODS.values():
        assert one.family in METHOD_FAMILIES
        assert one.line_under(one.rule).endswith(".")
    lines = [METHODS["input_x_gradient"].line_under(name) for name in ("gradient", "attnlrp", "libra")]
    assert len(set(lines)) == 3
    assert all(line.startswith(lines[0]) for line in lines)
    assert replace(METHODS["rollout"], about=None).line_under(None) == ""


def test_a_family_that_does_not_exist_is_refused() -> None:
    with pytest.raises(explainers.ExplainerError, match="family 'nothing', which does not exist"):
        method("new", title="", family="nothing", rule=None, signed=False)(lambda trace: trace)


def test_no_set_has_the_name_of_a_method() -> None:
    """``--methods lrp`` meant five methods."""
    assert not {preset.name for preset in METHOD_SETS} & {variant.spec for variant in explainers.variants()}
    assert not {preset.name for preset in METHOD_SETS} & set(METHODS)


def test_sets_hold_methods_that_run() -> None:
    listed = explainers.variants()
    for one in METHOD_SETS:
        assert one.specs(listed)
        assert set(one.specs(listed)) <= {variant.spec for variant in listed}
    default = next(one for one in PRESETS if one.name == "default")
    assert default.specs(listed) == [variant.spec for variant in listed if variant.default]
    assert not any(variant.slow for variant in listed if variant.spec in QUICK.specs(listed))


def test_one_panel_can_show_a_set() -> None:
    for one in PRESETS:
        methods = [spec for spec in one.specs(explainers.variants()) if not is_control(spec)]
        assert len(methods) <= MOST_IN_A_PRESET, one.name


def test_the_default_set_has_a_method_of_each_paper_and_of_four_families() -> None:
    default = next(one for one in PRESETS if one.name == "default").specs(explainers.variants())
    assert {"transformer_attribution", "generic_attention", "input_x_gradient:conservative", "fullgrad_plus:libra"} <= set(default)
    families = {METHODS[spec.partition(":")[0]].family for spec in default if not is_control(spec)}
    assert {"attention", "attention_gradient", "relevance", "gradients"} <= families

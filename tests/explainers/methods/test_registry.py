"""What is declared about methods: options as the functions take them, pairs with rules that run or say why not."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest

import explainers
from explainers import METHODS, RULES, Citation, ExplainerError, Probability, Rule, explain
from explainers.methods import parse
from explainers.methods.registry import INTEGRATED, ROW, TOKEN_ROW
from explainers.methods.requirements import for_probability
from explainers.methods.specs import Option
from tests.explainers.support.explained import image_model, picture

#: Options that the sources of a method speak of, and so have to be there.
EXPECTED = {
    "tis": {"masks", "keep"},
    "vit_cx": {"distance"},
    "mda": {"gamma", "candidates"},
    "eagle": {"side"},
    "nib": {"block", "steps"},
    "m2ib": {"block", "beta", "steps", "draws"},
    "maskclip": {"after", "less"},
    "sclip": {"after", "less"},
    "clearclip": {"after", "less"},
    "naclip": {"after", "std", "less"},
    "gem": {"layers", "iterations", "inverse_temperature", "less"},
    "clip_surgery": {"layers", "features"},
    "clip_decomposition": {"less_mean"},
    "rollout": {"start_layer"},
    "generic_attention": {"start_layer"},
    "attcat": {"published_code"},
    "transformer_attribution": {"start_layer", "published_code"},
    "transformer_attribution_without_gradient": {"start_layer", "published_code"},
    "integrated_gradients": {"steps", "baseline", "at", "quadrature"},
    "smoothgrad": {"sigma", "draws", "at"},
    "decompx": {"biases"},
    "fullgrad_plus": {"reduction"},
    "globenc": {"published_code"},
    "saliency": {"at"},
    "input_x_gradient": {"at"},
    "pa_lrp": {"part"},
    "legrad": {"layers"},
    "pytorch_grad_cam": {"cam"},
    "refinecam": {"cam"},
    "grad_eclip": {"single_head"},
    "occlusion": {"window", "compare"},
    "rise": {"samples", "keep", "cells", "at"},
    "d_rise": {"samples", "keep", "cells"},
    "kernel_shap": {"samples", "features", "segments"},
    "lime": {"samples", "alpha"},
}


#: Options that many methods share; the trace knows them, not the function.
SHARED = {"row": (ROW, TOKEN_ROW), "integrated": (INTEGRATED,)}


@pytest.mark.parametrize("name", METHODS)
def test_options_are_declared_as_the_function_takes_them(name: str) -> None:
    taken = list(inspect.signature(METHODS[name].function).parameters.values())[1:]
    declared = {key: option for key, option in METHODS[name].options.items() if key not in SHARED}
    shared = {key: option for key, option in METHODS[name].options.items() if key in SHARED}
    assert all(option in SHARED[key] for key, option in shared.items())
    assert ("row" in shared) == ("class_token" in METHODS[name].needs)
    assert {one.name: one.default for one in taken} == {key: option.default for key, option in declared.items()}
    assert set(declared) == EXPECTED.get(name, set())
    for key, option in declared.items():
        assert len(option.help) > 10
        assert option.allowed
        for blocks in (None, 12):  # the default is a value that may be given
            if option.default is not None:
                assert option.within(blocks).parse(key, str(option.default)) == option.default
        if option.kind in (int, float):
            assert option.blocks or (option.minimum is not None and option.maximum is not None)


@pytest.mark.parametrize(
    ("option", "wrong", "allowed"),
    [
        (Option(int, 3, "", 1, 5), ["0", "6", "2.5", "x", "nan", "9" * 400], "a whole number from 1 to 5"),
        (Option(float, 0.5, "", 0, 1), ["-0.1", "1.1", "inf", "nan", ""], "a number from 0 to 1"),
        (Option(bool, False, ""), ["yes", "2", ""], "true or false"),
        (Option(str, "a", "", choices=("a", "b")), ["c", "A", ""], "one of a, b"),
        (Option(int, 0, "", blocks="index").within(4), ["-5", "4"], "a whole number from -4 to 3"),
        (Option(int, 2, "", minimum=1, blocks="count").within(4), ["0", "5"], "a whole number from 1 to 4"),
    ],
)
def test_a_wrong_value_is_told_what_is_allowed(option: Option, wrong: list[str], allowed: str) -> None:
    assert option.allowed == allowed
    for text in wrong:
        with pytest.raises(ExplainerError, match="Option size=") as raised:
            option.parse("size", text)
        assert str(raised.value).endswith(f"is not {allowed}.")


def test_every_pair_runs_or_says_why_not() -> None:
    """What is listed as running runs and gives finite scores; what is refused is refused with the reason listed."""
    model = image_model()
    listed = explainers.all_variants(model)
    for name, method in METHODS.items():
        own = [pair for pair in listed if pair.method_name == name]
        assert {pair.rule for pair in own} == {*RULES, *([None] if method.rule is None else [])}
        assert len({pair.spec for pair in own}) == len(own)
    refused = [pair for pair in listed if pair.reason is not None]
    for pair in refused:
        with pytest.raises(ExplainerError) as raised:
            explain(model, picture(), methods=[parse(pair.spec).spec])
        assert pair.reason in str(raised.value)
    runs = [pair.spec for pair in listed if pair.reason is None and not pair.slow]
    found = explain(model, picture(), methods=runs)
    assert [one.method for one in found.maps] == runs
    assert len(runs) > 100
    assert all(bool(one.scores.isfinite().all()) for one in found.maps)


def test_ablations_of_libra_go_with_what_takes_libra() -> None:
    runs = {pair.spec for pair in explainers.all_variants() if pair.reason is None}
    for name, method in METHODS.items():
        for part in ("attention", "attention-norm", "norm", "activation", "product", "bias"):
            takes = "libra" in method.rules and (name != "decompx" or part == "product")
            assert (f"{name}:libra-{part}" in runs or method.rule == f"libra-{part}") == takes


@pytest.mark.parametrize("changed", [{"attention": "jacobian"}, {"linear": "gamma"}, {"linear": "epsilon"}])
def test_decompx_refuses_a_rule_that_it_would_not_follow(changed: dict[str, str]) -> None:
    rule = replace(RULES["libra"], **changed, name="custom")  # type: ignore[arg-type]
    assert isinstance(rule, Rule)
    with pytest.raises(ExplainerError, match="constant"):
        explain(image_model(), picture(), methods=[("decompx", rule)])


def test_a_model_gives_the_reason_of_what_it_lacks() -> None:
    reasons = {pair.spec: pair.reason for pair in explainers.all_variants(image_model("siglip"))}
    assert "classification token" in str(reasons["generic_attention:libra-norm"])
    assert "makes no sense" in str(reasons["generic_attention:lrp"])
    assert reasons["fullgrad:libra-bias"] is None


def test_without_methods_a_probability_leaves_out_relevance_and_says_so() -> None:
    model = image_model()
    usual = explainers.default_methods(model)
    found = explain(model, picture(), Probability(1))
    left_out = [spec for spec in usual if spec not in found.methods]
    assert left_out == [spec for spec in usual if (rule := parse(spec).rule) and rule.is_relevance]
    assert left_out
    assert len(found.notes) == 1
    assert all(spec in found.notes[0] for spec in left_out)
    target = found.to_json()["targets"][0]
    assert (target["read"], target["of"], target["label"]) == ("probability", model.labels[1], f"p({model.labels[1]})")
    assert for_probability(["random", "rollout"]) == (["random", "rollout"], None)


def test_a_method_with_two_sources_is_refused() -> None:
    cited = Citation(authors="Doe", year=2026, title="A paper")
    for twice in ({"by": "Roe"}, {"year": 2025}, {"paper": "Another paper"}):
        with pytest.raises(ExplainerError, match=r"new has both source= and by=, year= or paper=: write .* into source alone"):
            explainers.method("new", title="", source=cited, rule=None, signed=False, **twice)
    assert "new" not in METHODS


def test_no_publication_is_credited_with_what_it_only_compares_with() -> None:
    """A source whose note speaks of a baseline is the publication that had the idea: the note names the one that compares with it."""
    sources = {
        **{f"rule {rule.name}": rule.source for rule in RULES.values()},
        **{method.name: method.source for method in METHODS.values()},
        **{f"{method.name}:{rule}": name.source for method in METHODS.values() for rule, name in method.named.items()},
    }
    compared = {name: source for name, source in sources.items() if "baseline" in source.note}
    assert {"raw_attention", "lrp", "partial_lrp", "gradcam_attention", "input_x_gradient:cp-lrp", "rule lrp"} <= set(compared)
    for name, source in compared.items():
        others = re.findall(r"(\w+ et al\.)", source.note)
        assert others, name
        assert source.authors not in others, name
    assert METHODS["raw_attention"].source.short == "Vaswani et al., 2017"
    assert METHODS["lrp"].source.short == RULES["lrp"].source.short == RULES["lrp-eq4"].source.short == "Bach et al., 2015"
    assert RULES["cp-lrp"].source.short == RULES["conservative"].source.short == "Ali et al., 2022"

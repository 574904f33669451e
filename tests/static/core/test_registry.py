"""Which methods stand first."""

from __future__ import annotations

from typing import Any

from explainers.methods.registry import METHODS
from tests.support.node import compute

IN_ORDER = """async ([given, rather]) => (await script('core/registry.js')).inOrder(given, rather)
  .map(({ spec, leads }) => (leads ? spec.toUpperCase() : spec))"""


def variant(rank: int | None, family: str = "gradients", signed: bool = True) -> dict[str, Any]:
    standing = None if rank is None else {"rank": rank}
    return {"spec": f"{family}{rank}", "family": family, "standing": standing, "signed": signed}


def placed(*variants: dict[str, Any]) -> list[dict[str, Any]]:
    return [each | {"place": place} for place, each in enumerate(variants)]


def test_the_first_four_are_one_a_family_the_best_of_all_in_front() -> None:
    plates = placed(variant(3), variant(1), variant(9, "attention"), variant(2), variant(7, "relevance"), variant(None, "control"))
    first = ["GRADIENTS1", "RELEVANCE7", "ATTENTION9", "GRADIENTS2"]
    assert compute(IN_ORDER, [plates, False]) == [*first, "gradients3", "controlNone"]


def test_the_best_of_further_families_come_before_the_second_of_any() -> None:
    plates = placed(variant(2), variant(1), *(variant(rank, f"family{rank}_") for rank in (5, 6, 7, 8)))
    first = ["GRADIENTS1", "FAMILY5_5", "FAMILY6_6", "FAMILY7_7"]
    assert compute(IN_ORDER, [plates, False]) == [*first, "family8_8", "gradients2"]


def test_of_one_answer_rather_than_another_no_map_without_a_sign_comes_before_one_with_it() -> None:
    blind = [variant(1, "attention", signed=False), variant(2, "relevance", signed=False)]
    plates = placed(*blind, variant(4), variant(3), variant(5, "paths"), variant(None, "control", signed=False))
    assert compute(IN_ORDER, [plates, True]) == ["GRADIENTS3", "PATHS5", "GRADIENTS4", "ATTENTION1", "relevance2", "controlNone"]
    assert compute(IN_ORDER, [plates, False])[:2] == ["ATTENTION1", "RELEVANCE2"]
    assert compute(IN_ORDER, [placed(*blind), True]) == ["ATTENTION1", "RELEVANCE2"]  # none has a sign


def test_what_a_rule_changes_is_told_apart_from_what_a_method_shows() -> None:
    pairs = [{"spec": spec, "line": line} for spec, line in (("a:b", "What it adds. B: halves."), ("a", "What it adds."), ("a:c", "Else."))]
    lines = """async (pairs) => {
      const { Registry } = await script('core/registry.js');
      const registry = new Registry({ methods: [{ name: "a", classic: false, pairs }] });
      return pairs.map(({ spec }) => registry.plate(spec)).map(({ line, ruleLine }) => [line, ruleLine ?? null]);
    }"""
    assert compute(lines, pairs[:2]) == [["What it adds.", "B: halves."], ["What it adds.", ""]]
    assert compute(lines, pairs[2:]) == [["Else.", ""]]


def test_a_spec_with_options_has_the_rank_measured_with_these_and_a_map_that_depends_on_other_prompts_none() -> None:
    ranks = {spec: {"rank": rank, "tied": rank == 1} for rank, spec in enumerate(("a", "a?x=1", "a?less=prompts"), 1)}
    found = """async (ranks) => {
      const { Registry, learnSpecs } = await script('core/registry.js');
      const specs = [["a?x=1", { x: 1 }], ["a?x=2", { x: 2 }], ["a?less=prompts", { less: "prompts" }]];
      learnSpecs(specs.map(([spec, options]) => ({ spec, pair: "a", options })));
      const methods = [{ name: "a", classic: false, pairs: [{ spec: "a", line: "" }] }];
      const registry = new Registry({ methods, standing: { ranks } });
      return ["a", ...specs.map(([spec]) => spec)].map((spec) => registry.plate(spec).standing?.rank ?? null);
    }"""
    assert compute(found, ranks) == [1, 2, None, None]


def test_a_line_holds_for_the_place_that_is_asked_about() -> None:
    line_of = "async (given) => (await script('core/registry.js')).lineFor(...given)"
    line = METHODS["raw_attention"].about.line
    assert line is not None
    assert compute(line_of, [line, False, False]) == line
    assert compute(line_of, [line, False, True]).endswith("It is the same for every answer at this place.")
    assert compute(line_of, ["What counts for the answer.", True, False]) == "What counts for the difference."
    assert compute(line_of, [None, True, True]) is None

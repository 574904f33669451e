"""Methods with their rules, one by one."""

from __future__ import annotations

import explainers
from explainers.autograd.rules import RULES
from explainers.methods import METHODS
from tests.families import FAMILIES


def test_a_title_says_the_rule_where_it_is_marked_so_and_a_method_under_its_own_rule_does_not() -> None:
    marked = [variant for variant in explainers.all_variants() if variant.names_rule]
    assert {"fullgrad_plus:libra", "hirescam:attnlrp"} <= {variant.spec for variant in marked}
    for variant in marked:
        assert variant.rule is not None
        assert variant.title == f"{METHODS[variant.method_name].title} · {RULES[variant.rule].title}"
    plain = [variant for variant in explainers.all_variants() if variant.title == METHODS[variant.method_name].title]
    assert not any(variant.names_rule for variant in plain)


def test_a_map_is_marked_as_its_method_is() -> None:
    model = explainers.wrap(FAMILIES["vit"].build())
    maps = explainers.explain(
        model, {"pixel_values": FAMILIES["vit"].inputs(1)["pixel_values"]}, 0, ["rollout", "fullgrad_plus:libra"]
    ).maps
    assert [(one.names_rule, one.to_json()["names_rule"]) for one in maps] == [(False, False), (True, True)]


def test_a_variant_as_plain_data_is_the_same_variant() -> None:
    for variant in explainers.variants():
        document = variant.to_json()
        assert (document["by"], document["year"], document["paper"]) == (
            variant.source.authors,
            variant.source.year,
            variant.source.paper,
        )
        assert "source" not in document
        assert type(variant).from_json(document).to_json() == document

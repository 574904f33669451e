"""What the Leaderboard's scripts compute without a page: places in a plot, groups, dates, times, what a search finds."""

from __future__ import annotations

import pytest

from tests.support.node import compute_all


def test_values_lie_on_the_scale_in_proportion_and_all_of_them_inside() -> None:
    function = """async ({ places, chance, value }) => {
      const { endsOf, placeOn } = await script("pages/figures/places.js");
      const ends = endsOf(places, chance);
      return [...ends, placeOn(value, ends)];
    }"""
    places = [{"value": 0.5, "low": 0.4, "high": 0.6}, {"value": 0.2, "low": None, "high": None}]
    cases = [
        {"places": places, "chance": -0.4, "value": 0.1},
        {"places": places, "chance": None, "value": 0.6},
        {"places": [{"value": 0.5, "low": None, "high": None}], "chance": None, "value": 0.5},
    ]
    found = compute_all(function, cases)
    assert found[0] == pytest.approx([-0.4, 0.6, 0.5])
    assert found[1] == pytest.approx([0.2, 0.6, 0.98])
    assert found[2] == pytest.approx([0.5, 0.5, 0.5])  # all values are equal


def test_what_a_tie_means_is_said_and_that_a_better_value_can_be_behind_only_where_one_is() -> None:
    function = "async ([places, direction]) => (await script('pages/figures/ranking.js')).tieLine({ places, metric: { direction } })"
    tie = [{"group": "first", "value": 0.5}, {"group": "first", "value": 0.4}]
    low, high = ([*tie, {"group": "behind", "value": value}] for value in (0.3, 0.45))
    cases = [(tie, "higher"), (low, "higher"), (high, "higher"), (high, "lower"), (low, "lower"), (tie[:1], "higher")]
    plain = "Methods tie where their difference may be chance."
    odd = "Methods tie where their difference may be chance, so one with a better value can still be behind."
    assert compute_all(function, cases) == [plain, plain, odd, odd, odd, ""]
    both = """async (places) => {
      const second = { title: "S", line: "Is it so?" };
      return (await script("pages/figures/ranking.js")).tieLine({ places, metric: { direction: "higher" }, second });
    }"""
    also = "The first are also among the best by “S”"
    assert compute_all(both, [low, high]) == [
        f"{plain} {also}. Is it so?",
        f"{plain} {also}, so one with a better value can still be behind. Is it so?",
    ]


def test_groups_are_headed_by_their_size_and_speak_of_chance_only_where_it_was_measured() -> None:
    function = """async ({ groups, random }) => {
      const { groupsOf } = await script("pages/figures/places.js");
      return groupsOf({ places: groups.map((group) => ({ group })), random }).map(([heading]) => heading);
    }"""
    cases = [
        {"groups": ["first", "first", "behind", "chance", "worse"], "random": 0.1},
        {"groups": ["first", "behind", "behind"], "random": None},
        {"groups": ["behind"], "random": 0.1},
        {"groups": ["chance", "chance"], "random": 0.1},
    ]
    assert compute_all(function, cases) == [
        ["2 tie for first", "1 behind them, better than chance", "1 no better than chance", "1 worse than chance"],
        ["First", "2 behind it"],
        ["1 method, better than chance"],
        ["2 no better than chance"],
    ]


def test_a_run_is_found_by_parts_of_its_name_and_date() -> None:
    function = """async ([search, ...texts]) => (await script("pages/figures/choice.js")).isFound(search, texts)"""
    name = ("Photos ViT on COCO 2017, 60 inputs, 29 Nov 2026", "photos-vit-on-coco", "2026-11-29")
    searches = ["", "  ", "coco", "29 nov", "2026-11", "COCO photos", "imdb", "coco imdb"]
    assert compute_all(function, [[search, *name] for search in searches]) == [True] * 6 + [False] * 2


def test_times_and_days_are_told_as_exactly_as_they_are_known() -> None:
    function = """async (value) => {
      const { dateInWords, duration } = await script("pages/figures/values.js");
      return typeof value === "string" ? dateInWords(value) : duration(value);
    }"""
    assert compute_all(function, [3, 50, 170, 5940, 7300, "2026-11-29", "2026-01-05T10:00:00"]) == [
        "less than a minute",
        "about 1 minute",
        "about 3 minutes",
        "about 99 minutes",
        "about 2 hours",
        "29 Nov 2026",
        "5 Jan 2026",
    ]


def test_a_model_has_changed_only_where_both_digests_are_known_and_differ() -> None:
    function = """async ([measured, now]) => {
      const { isOfEarlierModel } = await script("pages/figures/ranking.js");
      return isOfEarlierModel({ model: "m", weights_digest: measured }, [{ name: "m", weights_digest: now }]);
    }"""
    assert compute_all(function, [["a", "b"], ["a", "a"], [None, "b"], ["a", None]]) == [True, False, False, False]


def test_a_share_has_one_decimal_and_no_negative_zero() -> None:
    function = """async ([value, unit]) => (await script("pages/figures/values.js")).shortly(value, unit)"""
    cases = [[0.4581, "share"], [-0.0004, "share"], [-0.0236, "share"], [0.25, ""]]
    assert compute_all(function, cases) == ["45.8", "0.0", "\u22122.4", "0.250"]


def test_methods_that_earn_the_larger_share_of_claims_come_first_and_ranges_are_of_per_cent() -> None:
    function = """async (runs) => {
      const { earned, order, sized } = await script("pages/figures/claims.js");
      return [order(runs), runs[0].methods.map(earned), runs[0].methods.map(sized)];
    }"""
    none = {"spec": "a", "count": 0, "inputs": 6, "low": 0, "high": 0.459, "size": None, "size_low": None, "size_high": None}
    some = {"spec": "b", "count": 5, "inputs": 6, "low": 0.359, "high": 0.996, "size": 0.0414, "size_low": 0.03, "size_high": 0.12}
    other = {"spec": "c", "count": 3, "inputs": 4}
    (found,) = compute_all(function, [[{"methods": [none, some]}, {"methods": [other]}]])
    assert found[0] == ["b", "c", "a"]
    assert found[1] == [["0 of 6", "0 to 46 %"], ["5 of 6", "36 to 100 %"]]
    assert found[2] == [["–", ""], ["4.1 %", "3.0 to 12 %"]]


def test_what_ties_for_first_by_comparing_prompts_is_said_not_to_be_recommended() -> None:
    function = "async (members) => (await script('pages/figures/places.js')).notRecommended(members)"
    first = [{"group": "first", "comparing": False, "title": "A"}, {"group": "first", "comparing": True, "title": "B"}]
    behind = [{"group": "behind", "comparing": True, "title": "C"}]
    told = ". Not recommended: B, as it depends on them"
    assert compute_all(function, [first, behind, first[:1]]) == [told, "", ""]


def test_a_link_to_a_method_opens_its_page_with_the_rule_of_the_map() -> None:
    function = "async ([readout, spec]) => (await script('pages/figures/values.js')).variantPage(readout, spec)"
    cases = [("input_x_gradient", "input_x_gradient:attnlrp"), ("maskclip", "maskclip?less=prompts")]
    assert compute_all(function, cases) == [
        "/methods/input_x_gradient?rule=input_x_gradient%3Aattnlrp",
        "/methods/maskclip?rule=maskclip",
    ]

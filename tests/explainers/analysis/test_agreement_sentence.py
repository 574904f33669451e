"""The sentence on what maps have in common: on maps whose correlations are known, on noise, and of an explanation."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import spearmanr

import explainers
from explainers.analysis.agreement_sentence import (
    TitledMap,
    _agreement,
    _place_of_patches,
    element_of,
    outlined_atom_sentence,
    outlined_sentence,
    sentence_of,
    title_map,
)
from explainers.errors import ExplainerError

GRID = (14, 14)
Scores = NDArray[np.float64]


def said(maps: dict[str, Scores], signed: bool = True, grid: tuple[int, int] = GRID) -> str:
    return sentence_of([TitledMap(title, scores, signed) for title, scores in maps.items()], grid=grid)


def noise(seed: int, size: int = 196) -> Scores:
    drawn: Scores = np.random.default_rng(seed).normal(size=size)
    return drawn


def near(scores: Scores, seed: int, amount: float = 0.1) -> Scores:
    """Scores in nearly the same order."""
    return scores + amount * noise(seed, len(scores))


def rho(a: Scores, b: Scores) -> float:
    return float(spearmanr(a, b).statistic)


def test_maps_that_agree_and_the_one_that_does_not() -> None:
    base = noise(0)
    alike = {name: near(base, seed) for seed, name in enumerate("ABCD", 1)}
    least = min(rho(a, b) for a, b in itertools.combinations(alike.values(), 2))
    text = said(alike)
    assert text.startswith("All 4 maps say nearly the same, which is no proof (rank correlation of any two 0.9")
    number = float(re.findall(r"two (\d\.\d\d) or more", text)[0])
    assert least - 0.01 < number <= least
    with_noise = {**alike, "Odd · Libra": noise(9)}
    assert said(with_noise).startswith("4 of 5 maps say nearly the same, which is no proof (")
    most = max(rho(with_noise["Odd · Libra"], scores) for scores in alike.values())
    found = re.findall(r"Odd · Libra shows something else \((−?\d\.\d\d) at most with each\)\.", said(with_noise))
    assert most <= float(found[0].replace("−", "-")) < most + 0.01
    assert "Odd says the opposite (−0.9" in said({**alike, "Odd": -base})
    # one that is a little less alike is not said to show something else, nor are three
    assert "something else" not in said({**alike, "E": near(base, 7, 1.2)})
    assert "something else" not in said({**alike, "E": noise(5), "F": noise(6), "G": noise(7)})


def test_maps_that_disagree_name_only_what_the_numbers_carry() -> None:
    unlike = {name: noise(seed) for seed, name in enumerate("ABCD")}
    most = max(rho(a, b) for a, b in itertools.combinations(unlike.values(), 2))
    assert said(unlike) == f"No two of the 4 maps say the same (highest rank correlation {most:.2f})."
    pair = {**unlike, "E": near(unlike["A"], 11)}
    middle = np.median([rho(a, b) for a, b in itertools.combinations(pair.values(), 2)])
    number = f"{middle:.2f}".replace("-", "−")
    assert said(pair).startswith(f"The maps disagree (median rank correlation of any two {number}).")
    alone = {"A": noise(1), "B": near(noise(1), 2), "C": noise(3), "D": near(noise(3), 4), "E": noise(5)}
    assert "E is unlike all others (" in said(alone)


def test_two_maps() -> None:
    base = noise(0)
    assert said({"A": base, "B": 2 * base}).startswith("Both maps say nearly the same, which is no proof (rank correlation 1.00).")
    assert said({"A": base, "B": -base}) == "The two maps say the opposite of each other (rank correlation −1.00)."
    assert said({"A": base, "B": noise(1)}) == (f"The two maps differ (rank correlation {rho(base, noise(1)):.2f}).".replace("-", "−"))


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    assert said({}) == said({"A": noise(0)}) == said({"A": noise(0), "flat": np.ones(196)}) == ""
    few = {name: np.arange(9.0) for name in "ABC"}
    assert "rank correlation" not in said(few, grid=(3, 3))


def test_a_place_is_named_where_the_evidence_is_concentrated() -> None:
    blob = np.zeros(GRID)
    blob[4:7, 9:12] = 1
    blob[0, 0], blob[13, 13] = -1, -0.5
    spot = (blob + 0.01 * np.linspace(-1, 1, 196).reshape(GRID)).flatten()
    place = "Half of the evidence lies in rows "
    found = said({"A": spot, "B": 3 * spot, "C": spot + 0.001})
    assert found.endswith(" of 14 by 14, at the right.")
    rows, columns = (
        re.findall(r"rows (\d+) to (\d+), columns (\d+) to (\d+) of 14 by 14", found)[0][:2],
        re.findall(r"columns (\d+) to (\d+)", found)[0],
    )
    assert {*map(int, rows)} <= {5, 6, 7}
    assert {*map(int, columns)} <= {10, 11, 12}
    # a map of strength alone has a floor, which is no evidence
    assert place in said({"A": spot + 5, "B": spot + 9}, signed=False)
    # as much everywhere, and at random: there is no place
    for seed in range(20):
        shuffled = np.random.default_rng(seed).permutation(spot + 0.3 * np.abs(noise(seed)))
        assert place not in said({"A": shuffled, "B": shuffled * 2})
        assert place not in said({"A": noise(seed), "B": near(noise(seed), 99)})


WORDS = ["It", "is", "brave", "and", "astonishing", "and", "astonishing", "and", "a", "long", "film", "."]


def spoken(maps: dict[str, Scores], words: list[str] = WORDS) -> str:
    return sentence_of(
        [TitledMap(title, scores, True) for title, scores in maps.items()], words=[(word, [i]) for i, word in enumerate(words)]
    )


def test_words_are_named_once_and_only_where_most_methods_have_them() -> None:
    strong = np.array([0, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0, 0], float)
    alike = {name: strong + 0.01 * noise(seed, 12) for seed, name in enumerate("ABCDEFGHIJKL")}
    assert spoken(alike).startswith("“astonishing” and “brave” are among the 3 strongest words of all 12 methods.")
    odd = {**alike, "Odd": -strong + 0.01 * noise(9, 12)}
    assert spoken(odd).startswith("“astonishing” and “brave” are among the 3 strongest words of at least 12 of 13 methods.")
    assert spoken({"A": strong, "B": -strong}).startswith("The two maps")  # two of two is chance


def test_maps_that_share_a_word_are_said_to_differ_in_the_order_of_the_words() -> None:
    """One word is the strongest of all maps, the others are noise: the maps do not disagree on it, so no sentence says that they do."""
    words = [f"word{i}" for i in range(40)]
    shared = {name: np.where(np.arange(40) == 7, 9.0, noise(seed, 40)) for seed, name in enumerate("ABCDEFGH")}
    correlations = [rho(a, b) for a, b in itertools.combinations(shared.values(), 2)]
    named = "“word7” is the strongest word of all 8 methods. "
    unlike = f"Otherwise no two of the 8 maps order the words alike (highest rank correlation {max(correlations):.2f})."
    assert spoken(shared, words) == named + unlike
    pair = {**shared, "I": near(shared["A"], 11)}
    middle = np.median([rho(a, b) for a, b in itertools.combinations(pair.values(), 2)])
    differently = f"Otherwise the maps order the words differently (median rank correlation of any two {middle:.2f})."
    assert differently.replace("-", "−") in spoken(pair, words)
    two = [("A", shared["A"]), ("B", shared["B"])]
    assert _agreement(["A", "B"], np.array([[1, 0.1], [0.1, 1]]), 40, {0, 1})[0] == (
        "Otherwise the two maps order the words differently (rank correlation 0.10)."
    )
    assert _agreement(["A", "B"], np.array([[1, -0.9], [-0.9, 1]]), 40, {0, 1})[0] == (
        "Otherwise the two maps order the words in reverse (rank correlation −0.90)."
    )
    assert "the strongest word of all 2" in spoken(dict(two), words)  # of 40 words two maps share the first by chance once in 40


def test_the_strongest_word_of_all_maps_is_named_before_the_maps_are_said_to_differ() -> None:
    """A review of twelve words, on which three maps share only the strongest: among the first three it may be by chance."""
    words = ["We", "bought", "tickets", "and", "the", "film", "was", "dull", ",", "awful", "and", "stupid"]
    first = np.where(np.arange(12) == 2, 9.0, 0)
    three = {name: first + np.random.default_rng(seed).permutation(12) / 100 for seed, name in enumerate("ABC")}
    best = max(rho(a, b) for a, b in itertools.combinations(three.values(), 2))
    assert best < 0.8
    unlike = f"Otherwise no two of the 3 maps order the words alike (highest rank correlation {best:.2f})."
    assert spoken(three, words) == f"“tickets” is the strongest word of all 3 methods. {unlike}"


def test_a_map_that_shares_the_strongest_word_is_not_said_to_show_something_else() -> None:
    words = [f"word{i}" for i in range(40)]
    base = np.where(np.arange(40) == 7, 9.0, noise(0, 40))
    alike = {name: near(base, seed, 0.01) for seed, name in enumerate("ABCD", 1)}
    with_its_peak = {**alike, "Odd": np.where(np.arange(40) == 7, 9.0, noise(5, 40))}
    most = max(rho(with_its_peak["Odd"], scores) for scores in alike.values())
    assert most <= 0.25
    assert "Odd orders the other words differently (" in spoken(with_its_peak, words)
    assert "Odd shows something else (" in spoken({**alike, "Odd": np.where(np.arange(40) == 9, 9.0, noise(5, 40))}, words)
    reverse = np.where(np.arange(40) == 7, 9.0, -base)
    assert "Odd orders the other words in reverse (" in spoken({**alike, "Odd": reverse}, words)


def test_maps_that_share_only_their_strongest_patch_say_so_and_outline_it() -> None:
    """In the outlined sentence of the page by its place, in that of the command line by row and column; of an atom by its element."""
    maps = {name: np.where(np.arange(196) == 76, 9.0, noise(seed)) for seed, name in enumerate("ABC")}
    unlike = "Otherwise no two of the 3 maps order the patches alike (highest rank correlation "
    assert said(maps).startswith(f"All 3 maps are strongest at row 6, column 7. {unlike}")
    titled = [TitledMap(title, scores, True) for title, scores in maps.items()]
    sentence, patches = outlined_sentence(titled, GRID)
    assert patches == [76]
    assert sentence.startswith(f"All 3 maps are strongest at the outlined patch, in the centre. {unlike}")
    two_of_three = [*titled[:2], TitledMap("C", noise(2), True)]
    assert outlined_sentence(two_of_three, GRID)[0].startswith("2 of 3 maps are strongest at the outlined patch, in the centre. ")
    atoms = ["C"] * 76 + ["[N+]"] + ["C"] * 119
    otherwise = "Otherwise no two of the 3 maps order the atoms alike ("
    assert sentence_of(titled, atoms=atoms).startswith(f"All 3 maps are strongest at atom 77, N. {otherwise}")
    sentence, outlined = outlined_atom_sentence(titled, atoms)
    assert outlined == [76]
    assert sentence.startswith(f"All 3 maps are strongest at the outlined atom, N. {otherwise}")
    alike = [TitledMap(title, near(titled[0].scores, seed), True) for seed, title in enumerate("ABC")]
    assert outlined_atom_sentence(alike, atoms)[0].startswith("All 3 maps say nearly the same, which is no proof (")
    assert outlined_atom_sentence(alike, atoms)[1] == []
    assert outlined_atom_sentence(titled[:1], atoms) == ("", [])


@pytest.mark.parametrize(
    ("atom", "element"),
    [("C", "C"), ("c", "C"), ("[N+]", "N"), ("[nH]", "N"), ("Cl", "Cl"), ("[35Cl-]", "Cl"), ("[se]", "Se"), ("[C@@H]", "C"), ("[O-]", "O")],
)
def test_an_atom_is_named_by_its_element(atom: str, element: str) -> None:
    assert element_of(atom) == element


def test_of_random_maps_words_are_hardly_ever_named() -> None:
    words = [f"word{i}" for i in range(40)]
    named = sum(
        "strongest" in spoken({name: noise(100 * seed + i, 40) for i, name in enumerate("ABCDEFGHIJK")}, words) for seed in range(200)
    )
    assert named <= 20  # one text of twenty, doubled


def test_of_an_explanation_by_the_names_of_the_plates() -> None:
    model = explainers.load("scenes-vit")
    image = Image.fromarray(np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    specs = ["random", "raw_attention", "input_x_gradient:libra"]
    result = explainers.explain(model, image, ["zebra", "elephant"], specs)
    maps = [result[spec, "elephant"] for spec in specs[1:]]
    value = rho(*(one.scores[one.content].double().numpy() for one in maps))
    sentence = explainers.agreement_sentence(result, "elephant")
    assert f"(rank correlation {value:.2f})".replace("-", "−") in sentence  # the control is left out
    with pytest.raises(ExplainerError, match="'horse' was not explained"):
        explainers.agreement_sentence(result, "horse")
    assert title_map("Occlusion", "occlusion?window=3", torch.zeros(4), True).title == "Occlusion (window=3)"
    film = "A brave, brave and astonishing film."
    text = explainers.explain(explainers.load("reviews-bert"), film)
    assert explainers.agreement_sentence(text).count("“brave”") == 1


def test_the_patches_that_most_maps_mark_are_outlined_in_place_of_rows_and_columns() -> None:
    spot = np.zeros(GRID)
    spot[4:7, 9:12] = 1
    marked = np.flatnonzero(spot).tolist()
    base = (spot + 0.001 * np.linspace(0, 1, 196).reshape(GRID)).flatten()
    other = -base
    maps = {"A": base, "B": 3 * base, "C": base + 0.001, "D": other}
    titled = [TitledMap(title, scores, True) for title, scores in maps.items()]
    sentence, found = outlined_sentence(titled, GRID)
    assert set(found) <= set(marked)
    assert 2 * base[found].sum() >= base.sum() - base.max()  # half of the evidence, up to a patch
    assert sentence == "3 of 4 maps agree on the outlined part, at the right; that is no proof. D differs most: it marks the upper left."
    assert outlined_sentence(titled[:3], GRID)[0] == "All 3 maps agree on the outlined part, at the right; that is no proof."
    assert outlined_sentence(titled[:1], GRID)[1] == []
    apart = [TitledMap(title, noise(seed), True) for seed, title in enumerate("ABC")]
    assert outlined_sentence(apart, GRID)[1] == []
    assert "outlined" not in outlined_sentence(apart, GRID)[0]
    wide = [TitledMap(title, np.abs(noise(5)) + 1 + 0.001 * noise(seed), True) for seed, title in enumerate("ABC")]
    assert outlined_sentence(wide, GRID)[1] == []  # half of it lies nearly everywhere


def blob(row: int, column: int, size: int = 4, seed: int = 0) -> Scores:
    """A square of evidence with its corner at this patch, cut off at the edges of the picture and put on at the other ones, in a little
    noise.
    """
    scores = np.zeros(GRID)
    scores[:size, :size] = 1
    return np.roll(scores, (row, column), (0, 1)).flatten() + 0.001 * noise(seed)


def test_the_map_that_marks_another_place_is_named_with_its_place() -> None:
    titled = [TitledMap(title, blob(5, 5, seed=seed), True) for seed, title in enumerate("ABCD")]
    odd = TitledMap("Odd", blob(10, 0), True)
    sentence, patches = outlined_sentence([*titled, odd], GRID)
    assert sentence == "4 of 5 maps agree on the outlined part, in the centre; that is no proof. Odd differs most: it marks the lower left."
    assert set(patches) <= set(np.flatnonzero(blob(5, 5) > 0.5).tolist())


def test_the_place_of_the_odd_map_is_outside_of_the_part() -> None:
    """It may mark the part a little as well; where it marks nothing else at one place, how little is there is said."""
    titled = [TitledMap(title, blob(5, 5), True) for title in "ABCD"]
    part = outlined_sentence(titled, GRID)[1]
    half = np.zeros(GRID)
    half[10:, 10:] = 0.6
    half.reshape(-1)[part[: round(len(part) / 3)]] = 1
    sentence, patches = outlined_sentence([*titled, TitledMap("Odd", half.flatten(), True)], GRID)
    assert (
        sentence
        == "4 of 5 maps agree on the outlined part, in the centre; that is no proof. Odd differs most: it also marks the lower right."
    )
    thin = np.full(GRID, 1.0)
    thin[5:9, 5:9] = 0
    sentence, patches = outlined_sentence([*titled, TitledMap("Odd", thin.flatten() + 0.001 * noise(6), True)], GRID)
    agreement = "4 of 5 maps agree on the outlined part, in the centre; that is no proof."
    assert sentence == f"{agreement} Odd differs most: only 0\N{NO-BREAK SPACE}% of its evidence is there."
    assert set(patches) == set(part)


def test_a_part_across_ninths_has_the_names_of_two_or_of_its_half_or_none() -> None:
    two, wide, corners = np.full(GRID, 0.04), np.full(GRID, 0.08), np.full(GRID, 0.07)
    two[:2, :2] = two[6:8, 6:8] = 1
    wide[1, :14] = 1  # in three ninths
    corners[:2, :2] = corners[:2, -2:] = corners[-2:, -2:] = 1
    names = ((two, " part, in the upper left and the centre"), (wide, " part, in the upper half"), (corners, " part"))
    for part, name in names:
        maps = [TitledMap(title, part.flatten() + 0.001 * noise(seed), True) for seed, title in enumerate("ABC")]
        assert outlined_sentence(maps, GRID)[0] == f"All 3 maps agree on the outlined{name}; that is no proof."


@pytest.mark.parametrize(
    ("outside", "name"),
    [
        ([(1, 5)], "mostly in the upper left"),  # which ends with row 4 and column 4: 12 of 13 patches
        ([(1, 5), (1, 6), (1, 7), (1, 8), (9, 7)], "mostly in the upper left and at the top"),  # 16 of 17
        ([(1, 5), (1, 10), (5, 0), (6, 6), (5, 10), (9, 0)], "mostly in the upper half"),  # 17 of 18; 13 in any two ninths
        ([(3, 0), (3, 1)], "in the upper left"),
    ],
)
def test_a_place_that_holds_not_all_of_the_part_is_named_as_where_it_mostly_lies(outside: list[tuple[int, int]], name: str) -> None:
    """The part is three rows of four patches in the upper left and some patches more."""
    part = np.full(GRID, 0.0)
    part[:3, :4] = 1
    for place in outside:
        part[place] = 1
    maps = [TitledMap(title, part.flatten() * (1 + i), True) for i, title in enumerate("ABC")]
    marked = np.flatnonzero(part).tolist()
    assert _place_of_patches(marked, GRID) == name
    sentence = outlined_sentence(maps, GRID)[0]
    assert sentence.startswith("All 3 maps agree on the outlined part, ")
    assert len(sentence.split()) <= 20  # of each sentence on a page


def test_a_row_in_the_middle_lies_in_neither_half() -> None:
    """Of seven rows the fourth is half above and half below."""
    upper = list(range(3 * 7))
    assert _place_of_patches(upper, (7, 7)) == "in the upper half"
    assert _place_of_patches([*upper, 24], (7, 7)) == "mostly in the upper half"


def test_maps_without_a_common_part_are_told_apart_by_what_two_of_them_mark() -> None:
    places = {"A": blob(0, 0, seed=1), "B": blob(5, 5, seed=2), "C": blob(10, 10, seed=3)}
    sentence, patches = outlined_sentence([TitledMap(title, scores, True) for title, scores in places.items()], GRID)
    assert patches == []
    least = min("BC", key=lambda title: rho(places["A"], places[title]))
    assert sentence.endswith(f" A marks the upper left, {least} {'the centre' if least == 'B' else 'the lower right'}.")


def test_of_maps_at_random_hardly_any_part_is_outlined() -> None:
    """Squares at random places have parts in common more often than single patches at random."""
    draw = np.random.default_rng(0)
    outlined = 0
    for count in (2, 3, 4, 5, 8):
        for _ in range(60):
            maps = [TitledMap(str(i), blob(*draw.integers(0, 14, 2).tolist(), size=5, seed=i), True) for i in range(count)]
            outlined += bool(outlined_sentence(maps, GRID)[1])
    assert outlined <= 15  # of 300


def test_maps_that_agree_in_part_name_the_one_that_differs_most() -> None:
    base = noise(0)
    maps = {"A": near(base, 1, 0.7), "B": near(base, 2, 0.7), "C": near(base, 3, 0.7), "Odd": near(base, 4, 1.6), "E": near(base, 5, 0.3)}
    maps["F"] = near(maps["E"], 6)
    others = {title: np.median([rho(scores, other) for name, other in maps.items() if name != title]) for title, scores in maps.items()}
    assert min(others, key=lambda title: others[title]) == "Odd"
    middle = np.median([rho(a, b) for a, b in itertools.combinations(maps.values(), 2)])
    numbers = f"median rank correlation {others['Odd']:.2f}, of any two maps {middle:.2f}"
    assert said(maps).startswith(f"Odd differs most from the other maps ({numbers}).")

"""Two made-up collections compared: what is counted as what, and the figures against a calculation of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from explainers import ExplainerError
from explainers.collection.diff.comparison import compare
from explainers.collection.diff.difference import Difference
from explainers.collection.records import CollectedRow
from tests.explainers.support.collected import made_up_collection, made_up_map, made_up_row, made_up_text

LIKE, UNLIKE = [127, 20, 10, 0], [0, 10, 20, 127]


def compared(folder: Path, old: list[CollectedRow], new: list[CollectedRow], **about: Any) -> Difference:
    return compare(made_up_collection(folder / "old", old, **about), made_up_collection(folder / "new", new, **about))


def test_answers_are_counted_by_what_became_of_them(tmp_path: Path) -> None:
    before = [("ant", True), ("ant", False), ("ant", False), ("ant", True), ("ant", None)]
    after = [("bee", False), ("bee", True), ("bee", False), ("ant", True), ("bee", None)]
    old, new = ([made_up_row(i, LIKE, answer=a, right=r) for i, (a, r) in enumerate(side)] for side in (before, after))
    found = compared(tmp_path, old, new)
    assert [row.change for row in found.rows] == ["wrong now", "right now", "other answer", "same", "other answer"]
    assert (found.changed.count, found.changed.of) == (4, 5)
    assert (found.wrong_now.count, found.right_now.count) == (1, 1)
    assert (found.old_right.count, found.old_right.of, found.new_right.count) == (2, 4, 2)
    assert found.to_check.count == 3  # the answer that is right now is not among them
    assert found.null.threshold is None
    assert found.other_reason.of == 0


def test_the_same_answer_with_a_map_unlike_the_old_one_stands_for_another_reason(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    maps = draw.integers(10, 110, (70, 4))
    noise = draw.integers(-8, 9, (2, 70, 4))
    old = [made_up_row(i, scores.tolist()) for i, scores in enumerate(maps)]
    near = [made_up_row(i, scores.tolist()) for i, scores in enumerate(maps + noise[0])]
    after = maps + noise[1] // 4
    after[7], after[30] = maps[7].max() - maps[7], maps[30].max() - maps[30]
    new = [made_up_row(i, scores.tolist()) for i, scores in enumerate(after)]
    collections = [made_up_collection(tmp_path / name, rows) for name, rows in (("old", old), ("new", new), ("third", near))]
    found = compare(*collections, kind="reference")
    assert [row.index for row in found.rows if row.change == "other reason"] == [7, 30]
    assert found.rows[7].correlations == [pytest.approx(np.corrcoef(maps[7], after[7])[0, 1])]
    assert (found.other_reason.count, found.other_reason.of, found.null.rows) == (2, 70, 70)
    known = [np.corrcoef(maps[i], maps[i] + noise[0][i])[0, 1] for i in range(70)]
    assert found.null.median == pytest.approx(np.median(known))
    assert found.has_other_reasons is False  # two of seventy is no more than chance
    changed = compare(collections[0], made_up_collection(tmp_path / "all", [made_up_row(i, (127 - maps[i]).tolist()) for i in range(70)]),
                      collections[2], "reference")  # fmt: skip
    assert changed.other_reason.count == 70
    assert changed.has_other_reasons is True


def test_maps_of_mirrored_pictures_are_turned_back(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    maps = draw.integers(1, 127, (60, 2, 3))
    shape: dict[str, Any] = {"size": [16, 8], "grid": [2, 3]}
    old = [made_up_row(i, m.flatten().tolist(), crop=[0, 0, 12, 8], **shape) for i, m in enumerate(maps)]
    other = [made_up_row(i, m[:, ::-1].flatten().tolist(), crop=[4, 0, 16, 8], **shape) for i, m in enumerate(maps)]
    collections = [made_up_collection(tmp_path / name, rows) for name, rows in (("old", old), ("new", old), ("null", other))]
    found = compare(*collections, kind="mirror")
    assert (found.null.rows, found.null.median, found.null.threshold) == (60, pytest.approx(1), pytest.approx(1))


def test_maps_of_other_parts_are_not_compared(tmp_path: Path) -> None:
    old = [made_up_row(0, LIKE), made_up_row(1, LIKE), made_up_row(2, LIKE), made_up_row(3, [5, 5, 5, 5])]
    new = [
        made_up_row(0, LIKE, crop=[1, 0, 8, 8]),
        made_up_row(1, [1, 2], grid=[1, 2]),
        made_up_row(2, UNLIKE),
        made_up_row(3, LIKE),
    ]
    found = compared(tmp_path, old, new)
    assert [row.correlations[0] is None for row in found.rows] == [True, True, False, True]
    assert (found.grid, found.old_map) == ([], [])


def test_shares_of_places_are_compared_input_by_input(tmp_path: Path) -> None:
    before, after = np.random.default_rng(2).uniform(size=(2, 12))
    sides = []
    for values in (before, after):
        maps = [made_up_map(LIKE, share_on_border=float(v), share_on_object=float(v) if i < 5 else None) for i, v in enumerate(values)]
        sides.append([made_up_row(i, LIKE, maps=[each]) for i, each in enumerate(maps)])
    found = {place.place: place for place in compared(tmp_path, *sides).places}
    ends = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert found["border"].difference.value == pytest.approx((after - before).mean())
    assert (found["border"].difference.low, found["border"].difference.high) == (pytest.approx(ends.low), pytest.approx(ends.high))
    assert found["border"].old.value == pytest.approx(before.mean())
    assert (found["object"].new.inputs, found["object"].new.value) == (5, pytest.approx(after[:5].mean()))


def test_mean_maps_are_of_shares_of_the_positive_scores(tmp_path: Path) -> None:
    old = [made_up_row(0, [10, 30, -5, 0]), made_up_row(1, [0, 0, 0, 1])]
    found = compared(tmp_path, old, [made_up_row(0, [0, 0, 1, 1]), made_up_row(1, [1, 1, 1, 1])])
    assert found.grid == [2, 2]
    assert found.old_map == pytest.approx([0.125, 0.375, 0, 0.5])
    assert found.new_map == pytest.approx([0.125, 0.125, 0.375, 0.375])


def test_words_whose_share_changed_are_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    texts = [f"{'Site' if i % 2 else 'site'} good film number{i}" for i in range(30)]
    before = [[1, 50, *draw.integers(20, 40, 2)] for _ in texts]
    after = [[60, *(np.array(scores[1:]) + draw.integers(-2, 3, 3))] for scores in before]
    old, new = ([made_up_text(i, t, [int(s) for s in side[i]]) for i, t in enumerate(texts)] for side in (before, after))
    found = compared(tmp_path, old, new, input_kind="text")
    assert found.words[0].word == "site"
    shares = np.array([[scores[0] / sum(scores) for scores in side] for side in (before, after)])
    assert found.words[0].old.value == pytest.approx(shares[0].mean())
    assert found.words[0].difference.value == pytest.approx((shares[1] - shares[0]).mean())
    assert not [word for word in found.words if word.word.startswith("number")]  # each in one text alone
    unchanged = compared(tmp_path / "again", old, [made_up_text(i, t, [int(s) for s in before[i]]) for i, t in enumerate(texts)])
    assert unchanged.words == []


def test_inputs_that_one_of_them_left_out_are_passed_over(tmp_path: Path) -> None:
    old = made_up_collection(tmp_path / "old", [made_up_row(i, LIKE) for i in (2, 0, 1)])
    new = made_up_collection(
        tmp_path / "new", [made_up_row(i, LIKE) for i in (2, 1)], broken=[{"index": 0, "input": "0.png", "broken": "x"}], data_digest="1"
    )
    assert [row.index for row in compare(old, new).rows] == [2, 1]


@pytest.mark.parametrize(
    ("rows", "about", "problem"),
    [
        ([made_up_row(0, LIKE)], {"data_digest": "1"}, "has other inputs than"),
        ([made_up_row(0, LIKE)], {"limit": 5, "seed": 1}, "has other limit, seed than"),
        ([made_up_row(0, LIKE, maps=[made_up_map(LIKE, "random")])], {}, "no method in common"),
        ([made_up_row(0, LIKE, input="b.png")], {}, "row 0 is 0.png in .* and b.png in"),
        ([made_up_row(5, LIKE)], {}, "no input in common"),
    ],
)
def test_collections_of_other_inputs_are_refused(tmp_path: Path, rows: list[CollectedRow], about: Any, problem: str) -> None:
    old = made_up_collection(tmp_path / "old", [made_up_row(0, LIKE)])
    with pytest.raises(ExplainerError, match=problem):
        compare(old, made_up_collection(tmp_path / "new", rows, **about))


def test_patches_that_the_maps_move_to_are_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    before = draw.integers(20, 60, (24, 12))
    after = before + draw.integers(-3, 4, before.shape)
    after[:, 5] = before[:, 5] + 60
    sides = [[made_up_row(i, [int(s) for s in scores], grid=[3, 4]) for i, scores in enumerate(side)] for side in (before, after)]
    found = compared(tmp_path, *sides)
    shares = [side / side.sum(1, keepdims=True) for side in (before, after)]
    risen = [patch for patch in found.patches if patch.new > patch.old]
    assert [(patch.row, patch.column) for patch in risen] == [(1, 1)]
    assert risen[0].p == pytest.approx(12 * 2 / 2**24)  # of 24 coins that fall alike, for one of twelve patches
    assert (risen[0].old, risen[0].new) == (pytest.approx(shares[0][:, 5].mean()), pytest.approx(shares[1][:, 5].mean()))
    again = compare(made_up_collection(tmp_path / "a", sides[0]), made_up_collection(tmp_path / "b", sides[0]))
    assert again.patches == []

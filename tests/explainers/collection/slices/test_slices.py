"""Slices of finished collections: sentences, examples, what is refused, and the test against answers computed one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import t

import explainers
from explainers import ExplainerError
from explainers.collection.collect import make_setup
from explainers.collection.intervals import Mean, share
from explainers.collection.records import CollectedRow
from explainers.collection.result import Collection
from explainers.collection.slices.hiding import elsewhere, hide_place, hide_word
from explainers.collection.slices.kept_tests import KeptTests
from explainers.collection.slices.records import CopyTest, HidingTest
from explainers.collection.slices.search import FoundSlice
from explainers.models.model import Model
from tests.explainers.support.collected import (
    finished,
    made_up_collection,
    made_up_map,
    made_up_row,
    made_up_text,
    save_pictures,
    tiny_bert,
    tiny_vit,
)


def with_corner(index: int, is_there: bool, **fields: Any) -> CollectedRow:
    """A row of nine patches, with noise, and much of the evidence in the lower right corner if ``is_there``."""
    scores = np.random.default_rng(index).integers(-20, 20, 9)
    if is_there:
        scores[8] = 120
    magnitudes = scores / np.abs(scores).sum()
    each = made_up_map(scores.tolist(), embedding=magnitudes.tolist(), share_on_border=0.9, **fields.pop("shares", {}))
    return made_up_row(index, [], maps=[each], grid=[3, 3], **fields)


@pytest.fixture
def corner(tmp_path: Path) -> Collection:
    """160 pictures, a quarter of them wrong, half of these with their evidence in a corner."""
    rows = [with_corner(i, i % 8 == 0, right=i % 4 != 0, labels=["bee"], answer="ant" if i % 4 == 0 else "bee") for i in range(160)]
    return made_up_collection(tmp_path / "corner", rows)


def test_a_corner_of_wrong_rows_becomes_a_sentence(corner: Collection) -> None:
    found = explainers.slices(corner)
    (first,) = found.slices
    assert first.sentence.startswith("20 of 40 wrong rows")
    assert first.sentence.endswith("of their evidence in the lower right corner.")
    assert (first.patches, first.rows, first.of) == ([8], list(range(0, 160, 8)), 40)
    assert (found.inputs, found.left_out, found.wrong, found.method) == (160, 0, 40, "rollout")
    assert first.test is None
    shares = {row.index: 120 / sum(max(0, score) for score in row.maps[0].scores) for row in corner if row.index in first.rows}
    assert [each.index for each in first.examples] == sorted(shares, key=lambda index: -shares[index])[:10]
    assert first.examples[0].input == f"{first.examples[0].index}.png"
    assert explainers.slices(corner.folder) == found


def test_rows_that_are_right_off_the_object_are_searched_by_answer(tmp_path: Path) -> None:
    rows = [
        with_corner(
            i,
            i % 3 == 0 and i % 2 == 0,
            right=True,
            labels=["bee"],
            answer="bee" if i % 3 == 0 else "ant",
            object_area=0.3,
            shares={"share_on_object": 0.49 if i % 2 == 0 else 0.5},
        )
        for i in range(180)
    ]
    found = explainers.slices(made_up_collection(tmp_path / "made", rows))
    first, *mirrored = sorted(found.slices, key=lambda each: each.p)
    assert {each.answer for each in mirrored} <= {"ant"}  # which lies more elsewhere than bees, all of which lie in the corner
    assert found.doubtful == 180  # those on the object are searched for a place that most share
    assert (first.kind, first.answer, first.rows) == ("right_off_object", "bee", list(range(0, 180, 6)))
    assert first.sentence.startswith("30 of 30 rows rightly answered “bee”, with most of their evidence off the object, have at least")


def test_rows_that_cannot_be_searched_are_counted(tmp_path: Path) -> None:
    rows = [made_up_row(i, [9, 5, 2, 1], right=i < 6) for i in range(8)]
    rows += [made_up_row(8, [0, -1, -2, 0], right=True), made_up_row(9, [1, 1, 1, 1], right=None)]
    rows += [made_up_row(10, [1] * 6, right=True, grid=[2, 3])]
    found = explainers.slices(made_up_collection(tmp_path / "made", rows))
    assert (found.inputs, found.left_out, found.slices) == (8, 3, [])


def test_a_word_of_wrong_texts_becomes_a_sentence(tmp_path: Path) -> None:
    def row(i: int) -> CollectedRow:
        text = f"Tuesday was fine {i}" if i % 8 == 0 else f"it was fine {i}"
        return made_up_text(i, text, [], maps=[made_up_map([9, 1, 2, 3], top=[0 if i % 8 == 0 else 2])], right=i % 4 != 0)

    found = explainers.slices(made_up_collection(tmp_path / "made", [row(i) for i in range(160)], input_kind="text"))
    first = next(each for each in found.slices if each.word == "tuesday")
    assert first.sentence == "20 of 40 wrong rows stand on the word “tuesday”."
    assert (first.place, first.patches, first.threshold) == (None, [], None)


def test_what_cannot_be_searched_is_refused(tmp_path: Path, corner: Collection) -> None:
    unlabelled = made_up_collection(tmp_path / "unlabelled", [made_up_row(0, [1, 2, 3, 4])])
    with pytest.raises(ExplainerError, match="slices need the labels"):
        explainers.slices(unlabelled)
    with pytest.raises(ExplainerError, match="it has rollout"):
        explainers.slices(corner, method="fullgrad")
    molecules = made_up_collection(tmp_path / "molecules", [made_up_row(0, [1, 2, 3, 4])], input_kind="molecule")
    with pytest.raises(ExplainerError, match="not of molecules"):
        explainers.slices(molecules)


@pytest.mark.parametrize(
    ("patches", "grid"), [([15], (4, 4)), ([0, 1, 4, 5], (4, 4)), ([0, 1, 2, 3, 4, 7, 8, 11], (4, 5)), ([0, 7], (2, 4))]
)
def test_elsewhere_is_as_many_other_patches(patches: list[int], grid: tuple[int, int]) -> None:
    for chosen in elsewhere(np.array(patches), grid, 20, np.random.default_rng(0)):
        assert len(set(chosen.tolist())) == len(patches)
        assert not set(chosen.tolist()) & set(patches)
        assert 0 <= chosen.min() <= chosen.max() < grid[0] * grid[1]


def test_elsewhere_has_the_same_form_where_there_is_room() -> None:
    for chosen in elsewhere(np.array([0, 1, 4]), (4, 4), 20, np.random.default_rng(0)):
        rolls = [np.roll(np.isin(np.arange(16), [0, 1, 4]).reshape(4, 4), by, (0, 1)) for by in np.ndindex(4, 4)]
        assert any(np.array_equal(np.isin(np.arange(16), chosen).reshape(4, 4), roll) for roll in rolls)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Collection]:
    folder = tmp_path_factory.mktemp("pictures")
    model, data = tiny_vit(folder / "model"), save_pictures(folder / "data", 7)
    return model, finished(explainers.collect(model, data, folder / "out", ["rollout"], removal=False))


def test_hidden_patches_lower_the_answer_as_one_question_after_the_other_says(pictures: tuple[Model, Collection]) -> None:
    model, collection = pictures
    setup = replace(make_setup(model, collection.about["sources"]["data"], ["rollout"], labels=False, seed=5), how="painted", batch=3)
    rows, patches = list(collection), np.array([0, 4])
    seen: list[int] = []
    test = hide_place(setup, rows, patches, seen.append)
    assert seen == [3, 6, 7]
    falls, away, changed = [], [], 0
    for row in rows:
        sets = [patches, *elsewhere(patches, (4, 3), 3, np.random.default_rng([5, row.index]))]
        left = []
        for hidden in sets:
            pixels = model.prepare(setup.read(row.index).model_input).tensors["pixel_values"].clone()
            for patch in hidden:
                down, right = divmod(int(patch), 3)
                pixels[..., 8 * down : 8 * down + 8, 8 * right : 8 * right + 8] = 0
            with torch.no_grad():
                left.append(model.module(pixels)[0].softmax(0))
        changed += int(left[0].argmax()) != row.answer_index
        assert row.probability is not None
        falls.append(row.probability - float(left[0][row.answer_index]))
        away.append(row.probability - float(np.mean([float(each[row.answer_index]) for each in left[1:]])))
    difference = np.array(falls) - np.array(away)
    half = t.ppf(0.975, 6) * difference.std(ddof=1) / np.sqrt(7)
    assert test.rows == 7
    assert test.fall.value == pytest.approx(np.mean(falls), abs=1e-5)
    assert test.elsewhere.value == pytest.approx(np.mean(away), abs=1e-5)
    assert test.difference.low == pytest.approx(difference.mean() - half, abs=1e-5)
    assert test.difference.high == pytest.approx(difference.mean() + half, abs=1e-5)
    assert (test.changed.count, test.changed.of) == (changed, 7)
    assert test.is_needed == (difference.mean() - half > 0)


def test_other_weights_and_other_inputs_are_refused(pictures: tuple[Model, Collection], tmp_path: Path) -> None:
    model, collection = pictures
    with pytest.raises(ExplainerError, match="other inputs"):
        explainers.slices(collection, model, save_pictures(tmp_path / "data", 8, masks=False))
    other = Collection(collection.folder, {**collection.about, "weights_digest": "0"})
    with pytest.raises(ExplainerError, match="other weights"):
        explainers.slices(other, model)
    nowhere = Collection(collection.folder, {name: value for name, value in collection.about.items() if name != "sources"})
    with pytest.raises(ExplainerError, match="name the data"):
        explainers.slices(nowhere, model)


def test_hidden_words_lower_the_answer_as_texts_without_them_do(tmp_path: Path) -> None:
    model = tiny_bert(tmp_path / "model")
    texts = ["the film not good", "not bad the movie", "well made not the movie", "not"]
    (tmp_path / "data.csv").write_text("text,label\n" + "\n".join(f"{text},good" for text in texts), "utf-8")
    collection = finished(explainers.collect(model, tmp_path / "data.csv", tmp_path / "out", ["rollout"], removal=False))
    setup = replace(make_setup(model, tmp_path / "data.csv", ["rollout"], labels=False), how="removed")
    rows = list(collection)
    test = hide_word(setup, rows, "not")
    assert test.rows == 3  # the last text has no other word
    falls = []
    for row, text in zip(rows[:3], texts[:3], strict=True):
        without = " ".join(word for word in text.split() if word != "not")
        with torch.no_grad():
            logits = model.module(**model.prepare(without).tensors).logits[0]
        assert row.probability is not None
        falls.append(row.probability - float(logits.softmax(0)[row.answer_index]))
    assert test.fall.value == pytest.approx(np.mean(falls), abs=1e-5)
    assert test.difference.value == pytest.approx((test.fall.value or 0) - (test.elsewhere.value or 0), abs=1e-7)


def test_a_stopped_search_goes_on_with_the_slice_at_which_it_was(tmp_path: Path) -> None:
    mean = Mean(3, 0.5, 0.25, 0.75)
    hidden = HidingTest(
        rows=3, fall=mean, elsewhere=Mean(1, 0.5, None, None), difference=mean, changed=share(1, 3), changed_elsewhere=share(0, 0)
    )
    copied = CopyTest(donors=3, copied=mean, elsewhere=mean, difference=mean, changed=share(2, 3), changed_elsewhere=share(0, 3), p=0.01)
    path = tmp_path / "made/tests.jsonl"
    kept = KeptTests(path, ["a slice", "another"])
    assert kept.find(0) is None
    kept.add(0, (hidden, None))
    kept.add(1, (hidden, copied))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"slice": 2, "te')  # it was cut
    again = KeptTests(path, ["a slice", "another"])
    assert (again.find(0), again.find(1), again.find(2)) == ((hidden, None), (hidden, copied), None)
    again.add(2, (None, None))
    assert KeptTests(path, ["a slice", "another"]).find(2) == (None, None)
    assert KeptTests(path, ["a slice"]).find(0) is None  # of another search


def test_slices_that_were_tested_are_not_asked_about_again(
    pictures: tuple[Model, Collection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, collection = pictures
    found = FoundSlice(
        kind="wrong", answer=None, patches=np.array([0]), threshold=0.1, group=np.ones(7, bool), rows=np.ones(7, bool),
        unseen=np.arange(7) > 2, share=share(4, 4), others=share(0, 3), p=1e-9, corrected=1e-9,
    )  # fmt: skip
    monkeypatch.setattr("explainers.collection.slices.slices.find", lambda rows, seed: ([found], 1))
    asked: list[tuple[int, int]] = []
    first = explainers.slices(collection, model, kept=tmp_path / "tests", progress=lambda done, total: asked.append((done, total)))
    assert asked == sorted(asked)
    assert asked[0] == (0, 8)  # four rows, by two tests
    assert asked[-1] == (8, 8)
    assert any(0 < done < 4 for done, _ in asked)  # while rows are copied too
    monkeypatch.setattr("explainers.collection.slices.hiding.hide_place", None)
    monkeypatch.setattr("explainers.collection.slices.copying.copy_place", None)
    assert explainers.slices(collection, model, kept=tmp_path / "tests") == first

"""The page on slices: what it says, what it draws, and that a text cannot write tags into it."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import explainers
from explainers.collection.intervals import Mean, share
from explainers.collection.records import thumbnail_schema
from explainers.collection.result import Collection
from explainers.collection.slices.records import CopyTest, HidingTest
from explainers.collection.slices.report import write_report
from explainers.collection.slices.words import _hiding_in_words, figures_in_words, finding_of, in_words
from tests.explainers.support.collected import made_up_collection, made_up_map, made_up_row, made_up_text

BLUE = (20, 60, 200)


@pytest.fixture
def corner(tmp_path: Path) -> Collection:
    """160 blue pictures of three by three patches; half of the wrong ones have their evidence in the lower right one."""
    rows, files = [], []
    for i in range(160):
        scores = np.random.default_rng(i).integers(-20, 20, 9)
        scores[8] = 120 if i % 8 == 0 else 0
        each = made_up_map(scores.tolist(), embedding=(scores / np.abs(scores).sum()).tolist(), share_on_border=0.9)
        rows.append(made_up_row(i, [], maps=[each], grid=[3, 3], right=i % 4 != 0, labels=["bee"]))
        file = io.BytesIO()
        Image.new("RGB", (60, 60), BLUE).save(file, "PNG")
        files.append({"index": i, "thumbnail": file.getvalue()})
    collection = made_up_collection(tmp_path / "made", rows)
    pq.write_table(pa.Table.from_pylist(files, thumbnail_schema()), collection.folder / "thumbnails.parquet")
    return collection


def test_the_page_has_the_sentence_the_figures_and_ten_pictures_with_the_place_outlined(corner: Collection) -> None:
    found = explainers.slices(corner)
    page = write_report(found, corner)
    text = page.read_text("utf-8")
    (each,) = found.slices
    assert page == corner.folder / "slices.html"
    assert each.sentence in text
    assert json.loads((corner.folder / "slices.json").read_text("utf-8")) == found.to_json()
    assert all(sentence in text for sentence in in_words(found))
    assert "By chance at most 5 % of such searches find a slice." in text
    assert "The model was not asked." in text
    finding = finding_of(each)
    for sentences in (finding.says, finding.leaves_open, finding.next_step):
        assert sentences in text
    pictures = [Image.open(io.BytesIO(base64.b64decode(data))) for data in re.findall(r"data:image/png;base64,([^\"]+)", text)]
    assert len(pictures) == 3 * 10
    enlarged = np.asarray(pictures[0].convert("RGB"))
    assert enlarged.shape == (120, 120, 3)  # the ninth patch and those around it
    assert (np.abs(enlarged.astype(int) - BLUE) <= 1).all()  # without the outline
    outlined = np.asarray(pictures[1].convert("RGB"))
    is_line = (outlined != BLUE).any(axis=2)
    assert outlined.shape[:2] == (120, 120)
    inside = np.zeros((120, 120), bool)
    inside[80:, 80:] = True
    inside[82:118, 82:118] = False
    assert np.array_equal(is_line, inside)  # two pixels around the ninth patch


def test_a_slice_says_its_shares_and_what_copying_does(corner: Collection) -> None:
    (each,) = explainers.slices(corner).slices
    sentence = figures_in_words(replace(each, share=share(8, 10), others=share(1, 10), p=0.00123))[0]
    assert "80.0 % (49.0 to 94.3) of the 10 rows do so, and 10.0 % (1.8 to 40.4) of the 10 right rows: p = 0.0012." in sentence
    test = CopyTest(
        donors=9,
        copied=Mean(9, 0.8, 0.7, 0.9),
        elsewhere=Mean(9, 0.1, 0.0, 0.2),
        difference=Mean(9, 0.7, 0.6, 0.8),
        changed=share(8, 9),
        changed_elsewhere=share(1, 9),
        p=1e-5,
    )
    said = figures_in_words(replace(each, copy_test=test))
    assert any("makes the answer 80.0 % probable, what lies elsewhere 10.0 %: 70.0 points (60.0 to 80.0) more." in line for line in said)
    assert any(line.startswith("They get this answer: 8 of 9, ") and "; by what lies elsewhere: 1 of 9, " in line for line in said)
    said = figures_in_words(replace(each, word="not", copy_test=test))
    assert any(line.startswith("Put into texts with other answers, the word 'not' makes the answer 80.0 % probable") for line in said)
    assert "1 more was left out" in in_words(replace(explainers.slices(corner), without_effect=1))[1]


def test_a_search_of_too_few_rows_says_how_many_it_needs(tmp_path: Path) -> None:
    """Six pictures, two of them wrong: no half has five of a kind, so nothing was tried, and no sentence speaks of chance."""
    rows = [made_up_row(i, [], maps=[made_up_map([1, 0, 0, 0])], right=i > 1, labels=["bee"]) for i in range(6)]
    collection = made_up_collection(tmp_path / "few", rows)
    found = explainers.slices(collection)
    assert (found.tried, found.inputs, found.wrong, found.slices) == (0, 6, 2, [])
    (sentence,) = in_words(found)
    assert sentence.startswith("Nothing could be searched in 6 rows, 2 of them wrong. A search needs about 10 rows of a kind, ")
    assert sentence.endswith("Make a collection of more inputs with labels, and search again.")
    page = write_report(found, collection).read_text("utf-8")
    assert sentence in page
    assert "Each slice below" not in page
    assert "By chance" not in page


def test_the_title_names_the_data_as_the_visitor_did(corner: Collection) -> None:
    page = write_report(explainers.slices(corner), corner, title="reviews.csv").read_text("utf-8")
    assert "<h1>Slices of reviews.csv by made</h1>" in page


def copied(value: float, elsewhere: float) -> CopyTest:
    means = [Mean(20, each, each - 0.05, each + 0.05) for each in (value, elsewhere, value - elsewhere)]
    changed, changed_elsewhere = share(1, 20), share(1, 20)
    return CopyTest(
        donors=20, copied=means[0], elsewhere=means[1], difference=means[2], changed=changed, changed_elsewhere=changed_elsewhere, p=1e-4
    )


NONE_CHANGED = {"changed": share(0, 0), "changed_elsewhere": share(0, 0)}


def hidden(changed: int) -> HidingTest:
    small = Mean(20, 0.003, 0.001, 0.005)
    return HidingTest(rows=20, fall=small, elsewhere=small, difference=small, changed=share(changed, 20), changed_elsewhere=share(0, 20))


def test_answers_that_stay_do_not_acquit_a_place(corner: Collection) -> None:
    """A planted mark was hidden and no answer changed, since the object was enough: the report says so, and does not end with a figure."""
    (found,) = explainers.slices(corner).slices
    each = replace(found, kind="right", answer="bee", others=share(0, 226), copy_test=copied(0.131, 0.02), test=hidden(0))
    finding = finding_of(each)
    assert finding.says == (
        "Of the rows with other answers that it was compared with, 0 of 226 have as much of their evidence there. "
        "What these pictures show there pushes the model to “bee”. Put into pictures with other answers, it makes this answer 13.1 % "
        "probable, against 2.0 % by as much from elsewhere in them."
    )
    assert "without it, 20 of 20 answers stay. That does not clear it" in finding.leaves_open
    assert "is it no part of “bee”? Then train without it" in finding.next_step
    needed = finding_of(replace(each, test=hidden(15)))
    assert "Most of the answers need it: without it, 15 of 20 become another." in needed.says
    assert "does not clear" not in needed.leaves_open
    untested = finding_of(replace(each, test=None, copy_test=None))
    assert "it was not asked" in untested.leaves_open
    assert "pushes" not in untested.says
    uncopied = finding_of(replace(each, test=hidden(15), copy_test=None))
    assert "that was not tested" in uncopied.leaves_open
    empty = HidingTest(rows=0, **dict.fromkeys(("fall", "elsewhere", "difference"), Mean(0, None, None, None)), **NONE_CHANGED)
    too_short = finding_of(replace(each, test=empty))
    assert "without it, too little is left of these inputs to ask the model" in too_short.leaves_open
    assert "0 of 0" not in too_short.leaves_open


def test_a_word_may_be_a_good_reason(corner: Collection) -> None:
    (found,) = explainers.slices(corner).slices
    finding = finding_of(replace(found, kind="right", answer="positive", word="great", copy_test=copied(0.6, 0.2), test=hidden(2)))
    assert "Put into texts with other answers, it makes this answer 60.0 % probable, against 20.0 % by another word" in finding.says
    assert finding.leaves_open.startswith("Whether that is a mistake: the word may be a good reason.")
    assert "The place" not in finding.leaves_open
    assert "Is the word “great” no reason for “positive”?" in finding.next_step


def test_a_place_all_over_the_picture_is_not_enlarged(corner: Collection) -> None:
    found = explainers.slices(corner)
    spread = replace(found, slices=[replace(found.slices[0], patches=[0, 8])])
    assert "the place, enlarged" not in write_report(spread, corner).read_text("utf-8")


def test_the_words_of_a_text_are_words_on_the_page(tmp_path: Path) -> None:
    def text(i: int) -> str:
        return f"<b>tuesday</b> was fine {i}" if i % 8 == 0 else f"it was fine {i}"

    rows = [
        made_up_text(i, text(i), [], maps=[made_up_map([9, 1, 2, 3], top=[0 if i % 8 == 0 else 2])], right=i % 4 != 0) for i in range(160)
    ]
    collection = made_up_collection(tmp_path / "made", rows, input_kind="text")
    page = write_report(explainers.slices(collection), collection, tmp_path / "out").read_text("utf-8")
    assert "&lt;b&gt;tuesday&lt;/b&gt;" in page
    assert "<b>tuesday" not in page
    assert "<img" not in page


def test_a_rounded_zero_has_no_sign() -> None:
    none = share(0, 9)
    mean = Mean(9, -0.0001, -0.0004, 0.0002)
    hidden = HidingTest(rows=9, fall=mean, elsewhere=mean, difference=mean, changed=none, changed_elsewhere=none)
    assert _hiding_in_words(hidden)[0] == (
        "Without it the probability of the answer falls by 0.0 points, with as much hidden elsewhere by 0.0: 0.0 points (0.0 to 0.0) more."
    )

"""The test that copies a place into other pictures, against pictures that are mixed one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import ttest_1samp

import explainers
from explainers.collection.collect import make_setup
from explainers.collection.records import row_schema
from explainers.collection.result import Collection, open_collection
from explainers.collection.slices.copying import TAKERS, _answers, _with_word, copy_place, copy_word
from explainers.collection.slices.hiding import elsewhere
from explainers.datasets import Sample
from explainers.models.inputs.types import TextPair
from explainers.models.model import Model
from tests.explainers.support.collected import finished, made_up_map, save_pictures, tiny_bert, tiny_vit

GRID = (4, 3)  # patches of 8 by 8 pixels
ROWS = 80


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Collection]:
    folder = tmp_path_factory.mktemp("pictures")
    model, data = tiny_vit(folder / "model"), save_pictures(folder / "data", ROWS, masks=False)
    return model, finished(explainers.collect(model, data, folder / "out", ["rollout"], removal=False))


def test_copied_patches_raise_the_answer_as_one_mixed_picture_after_the_other_says(pictures: tuple[Model, Collection]) -> None:
    model, collection = pictures
    setup = make_setup(model, collection.about["sources"]["data"], ["rollout"], labels=False, seed=5)
    rows, patches = list(collection)[:20], np.array([0, 4])
    donors, takers = rows[:6], [(row.index, row.answer if row.index != 9 else "another") for row in rows[6:]]
    seen: list[int] = []
    test = copy_place(setup, donors, patches, takers, seen.append)
    assert test is not None
    assert seen[-1] == 6

    def pixels(index: int) -> torch.Tensor:
        return model.prepare(setup.read(index).model_input).tensors["pixel_values"][0]

    values = []
    for donor in donors:
        rng = np.random.default_rng([5, donor.index, 1])
        drawn = rng.permutation([index for index, answer in takers if answer != donor.answer])[:TAKERS]
        if not len(drawn):
            continue
        others = elsewhere(patches, GRID, len(drawn), rng)
        both = []
        for places in ([patches] * len(drawn), others):
            left = []
            for index, place in zip(drawn, places, strict=True):
                mixed, donated = pixels(int(index)).clone(), pixels(donor.index)
                for patch in place:
                    down, right = divmod(int(patch), GRID[1])
                    mixed[:, 8 * down : 8 * down + 8, 8 * right : 8 * right + 8] = donated[
                        :, 8 * down : 8 * down + 8, 8 * right : 8 * right + 8
                    ]
                with torch.no_grad():
                    left.append(float(model.module(mixed[None])[0].softmax(0)[donor.answer_index]))
            both.append(np.mean(left))
        values.append(both)
    copied, away = np.array(values).T
    assert test.donors == len(values) > 1
    assert test.copied.value == pytest.approx(copied.mean(), abs=1e-5)
    assert test.elsewhere.value == pytest.approx(away.mean(), abs=1e-5)
    assert test.difference.value == pytest.approx((copied - away).mean(), abs=1e-6)
    assert test.p == pytest.approx(ttest_1samp(copied - away, 0, alternative="greater").pvalue, abs=1e-2)
    assert test.changed.of == test.changed_elsewhere.of == len(values)


def test_a_word_is_put_into_other_texts_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text that is asked about is one of the takers with a word more, the word of the donor in the first half of the questions, and
    the answers are those of the model alone.
    """
    model = tiny_bert(tmp_path / "model")
    donors = ["the film Not good", "not bad the movie", "well made not the movie"]
    takers = ["the film", "bad movie", "a good film", "the movie", "well made", "film movie"]
    (tmp_path / "data.csv").write_text("text,label\n" + "\n".join(f"{text},good" for text in [*donors, *takers]), "utf-8")
    collection = finished(explainers.collect(model, tmp_path / "data.csv", tmp_path / "out", ["rollout"], removal=False))
    setup = make_setup(model, tmp_path / "data.csv", ["rollout"], labels=False)
    asked: list[list[str]] = []
    monkeypatch.setattr(
        "explainers.collection.slices.copying._answers", lambda setup, inputs: asked.append(list(inputs)) or _answers(setup, inputs)
    )
    rows = list(collection)
    test = copy_word(setup, rows[:3], "not", [(row.index, "another") for row in rows[3:]])
    assert test is not None
    assert test.donors == 3
    given = {0: "Not", 1: "not", 2: "not"}
    told, differences, changed = [], [], [0, 0]
    for number, (with_word, with_other) in enumerate(zip(asked[::2], asked[1::2], strict=True)):
        answer = rows[number].answer_index
        left = []
        for kind, texts in enumerate((with_word, with_other)):
            with torch.no_grad():
                logits = torch.cat([model.module(**model.prepare(text).tensors).logits for text in texts])
            left.append(float(logits.softmax(1)[:, answer].mean()))
            changed[kind] += int(logits[0].argmax()) == answer
        differences.append(left[0] - left[1])
        for text, other in zip(with_word, with_other, strict=True):
            words, others = text.split(), other.split()
            (place,) = [i for i, word in enumerate(words) if word == given[number] and " ".join(words[:i] + words[i + 1 :]) in takers][:1]
            told.append(" ".join(words[:place] + words[place + 1 :]))
            assert others[:place] + others[place + 1 :] == words[:place] + words[place + 1 :]
            assert others[place] in donors[number].split()
            assert others[place].casefold() != "not"
    assert sorted(told) == sorted(takers)  # two for each donor, none of them twice
    assert test.difference.value == pytest.approx(np.mean(differences), abs=1e-5)
    assert test.p == pytest.approx(ttest_1samp(differences, 0, alternative="greater").pvalue, abs=1e-3)
    assert [test.changed.count, test.changed_elsewhere.count] == changed


def test_a_word_of_two_texts_goes_into_the_same_of_them() -> None:
    sample = Sample(name="1", text="a b", text_pair="c d")
    assert _with_word(sample, "not", 1, 0.5) == TextPair("a b", "c not d")
    assert _with_word(sample, "not", 0, 0.99) == TextPair("a not b", "c d")
    assert _with_word(Sample(name="1", text="a b"), "not", 0, 0.0) == "not a b"


def test_there_is_no_test_without_a_picture_of_another_answer(pictures: tuple[Model, Collection]) -> None:
    model, collection = pictures
    setup = make_setup(model, collection.about["sources"]["data"], ["rollout"], labels=False)
    rows = list(collection)[:3]
    assert copy_place(setup, rows[:1], np.array([0]), [(row.index, rows[0].answer) for row in rows]) is None


def test_a_place_that_does_not_carry_the_answer_over_is_left_out(pictures: tuple[Model, Collection], tmp_path: Path) -> None:
    """The maps are made up to lie in a corner in half of the wrong rows; the noise there has no part in their answers."""
    model, collection = pictures
    made = []
    for row in collection:
        scores = np.random.default_rng(row.index).integers(-20, 20, 12)
        scores[11] = 120 if row.index % 4 == 0 else 0
        each = made_up_map(scores.tolist(), embedding=(scores / np.abs(scores).sum()).tolist(), share_on_border=0.9)
        answer = ("bee", "ant")[row.index // 2 % 2]
        made.append(replace(row, maps=[each], right=row.index % 2 != 0, answer=answer, answer_index=("ant", "bee").index(answer)))
    folder = tmp_path / "made"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist([row.to_row() for row in made], row_schema()), folder / "rows.parquet")
    (folder / "run.json").write_bytes((collection.folder / "run.json").read_bytes())
    corner = open_collection(folder)
    untested = explainers.slices(corner)
    tested = explainers.slices(corner, model)
    assert [each.patches for each in untested.slices] == [[11]]
    assert untested.without_effect == 0
    assert (tested.slices, tested.without_effect) == ([], 1)

"""Places that most rows with one answer share, against a count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explainers.collection.shared_places import Evidence, find_shared_places

GRID = (4, 4)
CORNER = 15


def evidence_of(answers: list[str], marked: float, seed: int = 0) -> Evidence:
    """Noise, with half of the positive scores of a share ``marked`` of the cats in the lower right corner."""
    random = np.random.default_rng(seed)
    steps = random.integers(0, 60, (len(answers), 16)).astype(np.float64)
    steps[:, CORNER] = 0
    cats = [i for i, answer in enumerate(answers) if answer == "cat"]
    for number, i in enumerate(cats):
        if number < marked * len(cats):
            steps[i] *= 0.2
            steps[i, CORNER] = steps[i].sum()
    return Evidence(steps.round().clip(0, 127).astype(np.uint8), GRID)


def answers(count: int = 60) -> list[str]:
    return [("ant", "bee", "cat")[index % 3] for index in range(count)]


def test_the_reading_is_what_a_row_has_there_more_than_others() -> None:
    """The corner is the only place where cats have more than others, and others have nothing there: so each reading is the row's share."""
    evidence = evidence_of(answers(), marked=1.0)
    readings, (place,) = find_shared_places(evidence, answers())
    expected = [evidence.steps[i, CORNER] / evidence.steps[i].sum() if name == "cat" else 0.0 for i, name in enumerate(answers())]
    assert readings.tolist() == pytest.approx(expected)
    assert (place.answer, place.place, place.rows, place.of) == ("cat", "in the lower right corner", 20, 20)


@pytest.mark.parametrize(("marked", "found"), [(0.75, ["cat"]), (0.25, []), (0.0, [])])
def test_most_rows_of_an_answer_must_share_it(marked: float, found: list[str]) -> None:
    readings, places = find_shared_places(evidence_of(answers(120), marked), answers(120))
    assert [each.answer for each in places] == found
    assert bool((readings > 0).any()) is bool(found)


def test_of_rows_with_labels_the_right_ones_are_counted() -> None:
    evidence = evidence_of(answers(), marked=1.0)
    cats = [i for i, name in enumerate(answers()) if name == "cat"]
    right = np.ones(60)
    right[cats[:3]], right[cats[3]] = 0, np.nan
    readings, (place,) = find_shared_places(evidence, answers(), right=right)
    assert (place.rows, place.of) == (16, 16)  # of 20
    assert np.array_equal(readings, find_shared_places(evidence, answers())[0])
    unknown = np.full(60, np.nan)
    assert find_shared_places(evidence, answers(), right=unknown)[1][0].of == 20


def test_noise_shares_no_place() -> None:
    places = [find_shared_places(evidence_of(answers(), 0, seed), answers())[1] for seed in range(30)]
    assert places == [[]] * 30


def test_rows_that_cannot_be_compared_are_unknown() -> None:
    evidence = evidence_of(answers(), marked=1.0)
    evidence.steps[2] = 0  # a cat without a positive score
    readings, _ = find_shared_places(evidence, [*answers()[:-1], "dog"])  # of which there is one
    assert np.flatnonzero(np.isnan(readings)).tolist() == [2, 59]
    assert np.isnan(find_shared_places(evidence, ["cat"] * 60)[0]).all()  # no other answer

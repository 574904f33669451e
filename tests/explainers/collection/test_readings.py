"""What a map says in numbers, at its edges."""

from __future__ import annotations

import pytest
import torch

from explainers.collection.readings import agreements, border_cover, quantise, share_on, top_parts
from explainers.collection.records import CollectedRow, row_schema
from explainers.json_records import schema_of


def test_steps_reach_the_largest_score() -> None:
    steps, step = quantise(torch.tensor([-2.54, 1.27, 0.004, 0.0]))
    assert steps == [-127, 64, 0, 0]  # 63.5 steps
    assert step == pytest.approx(0.02)
    assert quantise(torch.zeros(2)) == ([0, 0], 0.0)
    assert quantise(torch.zeros(0)) == ([], 0.0)


def test_a_tenth_of_the_parts_is_at_least_one() -> None:
    assert top_parts(torch.tensor([0.0, 3.0, 3.0])) == [1]
    assert top_parts(-torch.arange(25.0)) == [0, 1, 2]  # 2.5, a half up


def test_the_border_of_a_grid_of_two_rows_is_all_of_it() -> None:
    assert border_cover((3, 4)).tolist() == [[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    assert border_cover((2, 3)).min() == 1


def test_no_share_without_a_positive_score() -> None:
    assert share_on(torch.tensor([-1.0, 0.0]), torch.ones(2)) is None
    assert share_on(torch.tensor([1.0, 0.0]), None) is None
    assert share_on(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 0.0])) == pytest.approx(0.125)


def test_a_map_of_one_score_counts_in_no_agreement() -> None:
    up = torch.tensor([1.0, 2.0, 3.0])
    assert agreements([up, -up, torch.ones(3)]) == (pytest.approx(-1), [pytest.approx(-1), pytest.approx(-1), None])
    assert agreements([up]) == (None, [None])


def test_maps_that_rest_on_the_same_part_have_no_ranks_to_compare() -> None:
    """Below that part is noise, in which one map ranks the parts against the other."""
    one, other = torch.tensor([9.0, 0.1, 0.2, 0.3]), torch.tensor([9.0, 0.3, 0.2, 0.1])
    assert agreements([one, other]) == (None, [None, None])
    assert agreements([-one, other]) == (None, [None, None])  # of a map against the answer too
    elsewhere = torch.tensor([0.1, 9.0, 0.2, 0.3])
    assert agreements([one, elsewhere])[0] == pytest.approx(-0.8)  # ranks 4 1 2 3 and 1 4 2 3: 1 - 6 * 18 / 60
    spread = torch.tensor([3.0, 1.0, 1.5, 2.0])
    assert agreements([one, spread])[0] == pytest.approx(1)


def test_two_parts_have_no_ranks_to_compare() -> None:
    assert agreements([torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])]) == (None, [None, None])


def test_every_column_is_a_field_of_the_record() -> None:
    assert [field.name for field in row_schema()] == list(CollectedRow.__dataclass_fields__)
    maps = row_schema().field("maps").type.value_type
    assert str(maps.field("scores").type.value_type) == "int8"
    assert str(row_schema().field("own_columns").type).startswith("map<string, string")
    assert set(schema_of(CollectedRow).__annotations__) == set(CollectedRow.__dataclass_fields__)

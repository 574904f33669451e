"""The table of half precision holds for what is computed today, and has every method."""

from __future__ import annotations

import pytest

import explainers
from tools.half_precision import INPUTS, PAGE, TYPES, Agreements, measure, quick_specs, read_table, write_table

STATED = read_table(PAGE.read_text("utf-8"))


@pytest.fixture(scope="module")
def measured() -> Agreements:
    return measure()


def test_every_quick_method_has_a_row() -> None:
    assert set(STATED) == {spec for name in INPUTS for spec in quick_specs(explainers.load(name, "cpu"))}


@pytest.mark.parametrize("spec", sorted(STATED))
def test_maps_in_half_precision_are_as_near_as_the_table_says(spec: str, measured: Agreements) -> None:
    """Processors round in another order, which moves a difference by less than a factor of three; a map that has nothing to do with the one
    in float32 (a difference over 0.3) has no bound.
    """
    for dtype, (difference, rank), (stated, stated_rank) in zip(TYPES, measured[spec], STATED[spec], strict=True):
        if stated < 0.3:
            assert difference <= 3 * stated, dtype
            assert rank >= stated_rank - 0.1, dtype


def test_the_table_is_read_as_it_was_written() -> None:
    written = write_table("<!-- half precision -->\n<!-- end of half precision -->", {"rollout": ((0.25, 0.5), (3e-5, 1.0))})
    assert read_table(written) == {"rollout": ((0.2, 0.5), (3e-5, 1.0))}

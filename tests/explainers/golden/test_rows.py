"""Ours against what the published code of others gave: every array in tests/golden, each folder with its source."""

from __future__ import annotations

import pytest
import torch

from tests.explainers.support.golden import GOLDEN, arrays_of
from tests.explainers.support.golden_rows import (
    BESIDE,
    IN_FLOAT32,
    ROWS,
    TOLERANCE,
    case_of,
    maps_of,
)


def test_every_array_of_every_folder_is_accounted_for_and_has_a_source() -> None:
    folders = {p.name for p in GOLDEN.iterdir() if p.is_dir() and not p.name.startswith("metrics-")}  # those are in test_metrics.py
    assert folders == set(ROWS) == set(BESIDE) | {name for name in ROWS if name not in BESIDE}
    for name in folders:
        assert arrays_of(name) - {"logits"} == set(ROWS[name]) | BESIDE.get(name, set()), name
        assert "Source: " in (GOLDEN / name / "README.md").read_text()


@pytest.mark.parametrize("name", [name for name in ROWS if "logits" in arrays_of(name) and name != "generic-attention-clip"])
def test_logits(name: str) -> None:
    case = case_of(name)
    with torch.no_grad():
        assert case.difference(case.model.forward(case.inputs), "logits") < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("name", "array"), [(name, array) for name, rows in ROWS.items() for array in rows])
def test_scores_are_those_of_the_published_code(name: str, array: str, dtype: torch.dtype) -> None:
    """In float64 within 1e-5; in float32 within what float32 can reach there, which the published code's own run shows."""
    case, row = case_of(name, dtype), ROWS[name][array]
    bound = TOLERANCE if dtype == torch.float64 else max(TOLERANCE, IN_FLOAT32 * case.about.get("float32_error", {}).get(array, 0.0))
    assert case.difference(row.shown(maps_of(name, dtype)[array]), array, row.summed) < bound

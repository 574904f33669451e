"""The small models of worlds with known truth are what their cards say, on inputs that no training saw."""

from __future__ import annotations

from pathlib import Path

import pytest

import explainers.embedded
from recipes.evaluation import Setting, measure

WORLDS = Path(explainers.embedded.__file__).parent / "worlds"


@pytest.mark.parametrize("name", ["marks-vit", "votes-vit", "subject-verb-bert"])
def test_the_evidence_is_where_it_is_said_to_be(name: str) -> None:
    figures = measure(name, Setting(WORLDS / name, limit=100)).figures
    slack = 0.05  # a hundred inputs are few
    assert not [figure for figure in figures if (figure.short_by or 0) > (0 if "not read" in figure.what else slack)]
    assert sum(file.stat().st_size for file in (WORLDS / name).iterdir()) < 1e6
    assert any(figure.bar is not None for figure in figures)

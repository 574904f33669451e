"""``python -m recipes``: every recipe can be asked for, and what is none is said in a line."""

from __future__ import annotations

import pytest

from recipes import RECIPES
from recipes.__main__ import main


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_asked_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["train", name, "--help"])
    assert leaving.value.code == 0
    assert f"python -m recipes train {name}" in capsys.readouterr().out


def test_a_recipe_that_there_is_not_is_answered_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["train", "scenes-vat"])
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert leaving.value.code == 2
    assert line.startswith("vitrine: ")
    assert "scenes-vit" in line

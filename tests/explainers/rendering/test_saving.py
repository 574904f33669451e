"""Results as files of numbers or figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from explainers import ExplainerError
from explainers.rendering.saving import save_numbers_or_figure


def numbers() -> str:
    return json.dumps({"scores": [1, 2]})


@pytest.mark.parametrize(("ending", "begins"), [(".json", b"{"), (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_the_ending_of_the_name_says_what_is_written(tmp_path: Path, ending: str, begins: bytes) -> None:
    save_numbers_or_figure(tmp_path / f"result{ending}", numbers, Figure)
    assert (tmp_path / f"result{ending}").read_bytes().startswith(begins)


def test_another_ending_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match=r"result\.txt cannot be saved with this ending: end it in \.json, \.png, \.pdf or \.svg"):
        save_numbers_or_figure(str(tmp_path / "result.txt"), pytest.fail, pytest.fail)
    assert not list(tmp_path.iterdir())

"""``vitrine patches``: a table, numbers and a figure of several pictures; and what is no place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.server.conftest import png
from vitrine_server.cli import main


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    files = [tmp_path / f"{number}.png" for number in range(2)]
    for number, file in enumerate(files):
        file.write_bytes(png(number, (64, 64)))
    return [str(file) for file in files]


def test_pictures_are_compared(images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "patches.png"
    assert main(["patches", *images, "--model", "scenes-vit", "--patch", "3,4", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "14 x 14" in said
    assert "0.png" in said
    with Image.open(out) as drawn:
        assert drawn.height > drawn.width  # three rows of two pictures
    assert main(["patches", *images, "--model", "scenes-vit", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [len(each["foreground"]) for each in document["pictures"]] == [196, 196]


def test_what_is_no_file_or_place_is_refused(images: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patches", "missing.png", "--model", "scenes-vit"]) != 0
    assert "there is no file missing.png" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["patches", *images, "--patch", "3"])
    assert "names no patch" in capsys.readouterr().err

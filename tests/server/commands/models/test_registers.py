"""``vitrine registers``, and an explanation without the tokens that it found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explainers.models.companion_files.register_neurons import read_register_neurons
from vitrine_server.cli import main


def test_what_is_found_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "register_neurons.json"
    command = ["registers", "--model", "scenes-vit", "--pictures", "scenes", "--limit", "3", "--device", "cpu", "--out", str(out)]
    assert main(command) == 0
    found = read_register_neurons(out)
    assert str(found) in capsys.readouterr().out
    assert found.pictures == "3 of scenes"
    assert main([*command, "--threshold", "0", "--count", "2", "--block", "1", "--highest-block", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["block"], told["counted"], len(told["neurons"])) == (0, 3, 2)
    assert main([*command[:-2], "--block", "99"]) == 2
    assert "There is no block 98" in capsys.readouterr().err


def test_an_explanation_without_outlier_tokens_needs_the_neurons(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", str(photo), "--model", "scenes-vit", "--methods", "random", "--device", "cpu", "--outlier-tokens", "move"]
    assert main(command) == 2
    assert "are not known: find them once" in capsys.readouterr().err

"""``vitrine claim`` prints what the engine says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import explainers
from vitrine_server.cli import main

METHODS = ["fullgrad_plus:libra", "random"]


def test_claims_of_each_map_are_printed(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["claim", str(photo), "--model", "scenes-vit", "--target", "zebra", "--methods", *METHODS]
    assert main(command) == 0
    printed = capsys.readouterr().out
    model = explainers.load("scenes-vit")
    result = explainers.explain(model, photo, "zebra", METHODS)
    expected = [explainers.claim(model, result, method) for method in METHODS]
    assert printed.strip() == "\n\n".join(map(str, expected))
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["method"], each["sentence"]) for each in found] == [(each.method, each.sentence) for each in expected]


def test_an_error_that_is_none_is_refused_before_anything_is_loaded(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claim", str(photo), "--error", "2"]) == 2
    assert "send an error from 0.001 to less than 0.5" in capsys.readouterr().err

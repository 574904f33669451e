"""The commands that try whether maps are true: the deletion test, the word probe, and the regions of prompts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explainers
from vitrine_server.cli import main

REVIEW = "A dull and lifeless film. The first hour is a mess, and the ending is even worse."
METHODS = ["rollout", "transformer_attribution", "fullgrad_plus:libra"]


def test_methods_are_ranked_by_the_deletion_test(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "curves.png"
    where = [str(photo), "--model", "scenes-vit", "--target", "zebra"]
    command = ["deletion-test", *where, "--methods", *METHODS, "--steps", "4", "--draws", "2"]
    assert main([*command, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    with Image.open(out) as image:
        assert image.width > 2 * image.height
    model = explainers.load("scenes-vit")
    result = explainers.explain(model, photo, "zebra", METHODS)
    expected = explainers.deletion_test(model, result, fractions=[0, 0.25, 0.5, 0.75, 1], draws=2)
    assert printed.strip() == str(expected)
    assert main([*command, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in found["ranking"]] == [row.method for row in expected.ranking]
    assert [row["gap"] for row in found["ranking"]] == pytest.approx([row.gap for row in expected.ranking], abs=1e-4)


def test_a_word_is_swapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template, out = "{} is a fine actor in a dull film.", tmp_path / "probe.json"
    command = ["probe", template, "--group", "her=Anna, Maria", "--group", "him=Paul", "--target", "positive", "--device", "cpu"]
    assert main([*command, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    groups = {"her": ["Anna", "Maria"], "him": ["Paul"]}
    expected = explainers.word_probe(explainers.load("reviews-bert"), template, groups, "positive")
    assert printed.strip() == str(expected)
    assert json.loads(out.read_text("utf-8"))["rows"] == [text.to_json() for text in expected.texts]


def test_prompts_divide_a_picture(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mask.png"
    command = [
        "regions",
        str(photo),
        "--model",
        "scenes-vit",
        "--target",
        "zebra",
        "--target",
        "elephant",
        "--methods",
        "fullgrad_plus:libra",
    ]
    assert main([*command, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    result = explainers.explain(explainers.load("scenes-vit"), photo, ["zebra", "elephant"], ["fullgrad_plus:libra"])
    expected = explainers.regions(result, "fullgrad_plus:libra")
    assert printed.strip() == str(expected)
    with Image.open(out) as mask:
        np.testing.assert_array_equal(np.asarray(mask), np.asarray(expected.mask()))

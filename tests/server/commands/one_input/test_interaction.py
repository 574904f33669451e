"""``vitrine interaction`` and ``vitrine alike``: the numbers of the library, printed and written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import explainers
from vitrine_server.cli import main


def test_interaction_prints_and_writes_what_the_library_gives(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = explainers.interaction(explainers.load("clip"), photo, "a zebra on grass")
    out = tmp_path / "pairs.npy"
    assert main(["interaction", str(photo), "--prompt", "a zebra on grass", "--device", "cpu", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"cosine {expected.cosine:+.4f} by libra")
    first, second, _ = expected.strongest(1)[0]
    best = printed.splitlines()[2]
    assert best.startswith(expected.unit(0, first))
    assert expected.unit(1, second) in best
    np.testing.assert_allclose(np.load(out), expected.pairs.numpy(), rtol=1e-4, atol=1e-6)


def test_interaction_by_fixlip_fits_coalitions(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fitted.json"
    asked = ["--prompt", "a zebra", "--by", "fixlip", "--budget", "64", "--parts", "4", "--seed", "1", "--device", "cpu"]
    assert main(["interaction", str(photo), *asked, "--out", str(out)]) == 0
    expected = explainers.faithful_interaction(explainers.load("clip"), photo, "a zebra", budget=64, parts=4, seed=1)
    assert f"{expected.coalitions[0]} prompts and {expected.coalitions[1]} pictures" in capsys.readouterr().out
    np.testing.assert_allclose(json.loads(out.read_text("utf-8"))["pairs"], expected.pairs.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "refused"), [(["--p", "0.5"], "--p belongs to --by fixlip"), (["--by", "fixlip", "--steps", "3"], "--steps is of exclip's")]
)
def test_options_of_the_other_way_are_refused(options: list[str], refused: str, photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["interaction", str(photo), "--prompt", "a zebra", *options]) != 0
    assert refused in capsys.readouterr().err


def test_alike_takes_two_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["A dull film.", "What a bore."]
    expected = explainers.input_interaction(explainers.load("reviews-bert"), *texts, rule="gradient", steps=2)
    command = ["alike", *texts, "--rule", "gradient", "--steps", "2", "--device", "cpu", "--json", "--out", str(tmp_path / "a.json")]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cosine"] == pytest.approx(expected.cosine, rel=1e-4)
    np.testing.assert_allclose(document["pairs"], expected.pairs.numpy(), rtol=1e-3, atol=1e-6)
    written = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert (written["pairs"], written["steps"], written["rule"]) == (document["pairs"], 2, "gradient")

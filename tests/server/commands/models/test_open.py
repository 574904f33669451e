"""``vitrine open``, and the other commands with a model of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support.own_models.case import ARCHITECTURE, CLASSES, save_text, text_model, vit
from vitrine_server.cli import main
from vitrine_server.commands.model import OPEN_OPTIONS


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A file as DeiT's script leaves it, and names of its classes beside it."""
    torch.save({"model": vit().state_dict(), "optimizer": {}}, tmp_path / "best.pth")
    (tmp_path / "names.txt").write_text("\n".join(CLASSES))
    return tmp_path / "best.pth"


def ways(checkpoint: Path) -> list[str]:
    return ["--architecture", ARCHITECTURE, "--labels", str(checkpoint.parent / "names.txt")]


def test_the_report_is_printed(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["open", str(checkpoint), *ways(checkpoint)]) == 0
    text = capsys.readouterr().out
    for part in ("opened from the weights under 'model' of a file", "ant, bee, cat, dog, eel", "ok      Logits equal", "Guessed:"):
        assert part in text


def test_the_report_is_json(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["open", str(checkpoint), *ways(checkpoint), "--json", "--check", "none"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["checks"] == []
    assert {fact["name"] for fact in document["facts"]} == {"family", "blocks", "tokens", "inputs", "outputs", "labels"}


def test_all_asks_each_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_text(tmp_path / "model", text_model())
    assert main(["open", str(tmp_path / "model"), "--check", "all"]) == 0
    assert "ok      Attention rollout runs" in capsys.readouterr().out


def test_a_failure_is_one_line_and_a_report_to_send(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["open", str(checkpoint), "--architecture", "timm/test_vit2"]
    assert main(wrong) == 2
    assert "--failure FILE writes a report" in capsys.readouterr().err
    out = checkpoint.parent / "failure.txt"
    assert main([*wrong, "--failure", str(out)]) == 2
    assert "do not fit timm/test_vit2" in out.read_text()
    assert str(checkpoint.parent) not in out.read_text()


def test_a_check_that_fails_is_an_exit_code(checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explainers.self_check.checks.ROUNDING", -1.0)
    assert main(["open", str(checkpoint), *ways(checkpoint)]) == 2
    assert "checks failed: do not trust its maps" in capsys.readouterr().err


def test_explain_takes_the_same(checkpoint: Path, photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", str(photo), "--model", str(checkpoint), *ways(checkpoint), "--target", "cat", "--methods", "saliency", "--json"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["targets"][0]["label"] == "cat"
    assert document["notes"] == []


def test_methods_take_the_same(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--model", str(checkpoint), *ways(checkpoint), "--json"]) == 0
    assert any(row["spec"] == "fullgrad_plus:libra" and row["reason"] is None for row in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("command", ["explain", "deletion-test", "probe", "regions", "summarise", "evaluate", "methods", "open"])
def test_every_command_that_takes_a_model_takes_how_it_is_opened(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert all(f"--{way}" in text for way in OPEN_OPTIONS)

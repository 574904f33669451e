"""``vitrine models``, ``vitrine methods``, and help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import explainers
from explainers.analysis.flow_routes.routes import INFORMATION_FLOW
from explainers.analysis.interactions.faithful import FIXLIP
from explainers.analysis.interactions.pairs import SOURCE
from explainers.analysis.interactions.sparse import PROXYSPEX, SPEX
from explainers.models.catalogue import CATALOGUE
from explainers.models.loading import calibration_of
from tests.conftest import ROOT
from vitrine_server.cli import main


def test_models_are_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    printed = capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == [entry.name for entry in CATALOGUE]
    assert all(entry.name in printed for entry in CATALOGUE)
    lines = [line for one in listed for line in one.get("calibration", {"lines": []})["lines"]]
    assert [line["measured"] for line in lines] == [line.measured for entry in CATALOGUE for line in calibration_of(entry.name).thresholds]
    assert all(line["measured"] in printed and f"“{line['says']}”" in printed for line in lines)
    assert {one["kind"] for one in listed if one["recommended"]} == {"image", "clip", "text"}


def test_methods_are_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    specs = [variant.spec for variant in explainers.variants()]
    assert main(["methods", "--json"]) == 0
    assert [one["spec"] for one in json.loads(capsys.readouterr().out)] == specs
    assert main(["methods"]) == 0
    *printed, blank, count = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in printed] == specs
    assert blank == ""
    assert f"{len(explainers.METHODS)} methods" in count
    assert f": {len(specs)} with rules of their own" in count


@pytest.mark.parametrize("columns", [80, 120])
def test_all_there_is_about_the_methods(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--all", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == list(explainers.METHODS)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["methods", "--all"]) == 0
    printed = capsys.readouterr().out
    assert columns - 20 < max(map(len, printed.splitlines())) <= columns
    sheets = [" ".join(sheet.split()) for sheet in printed.split("\n\n")]
    *sheets, rules, pairs, others = sheets
    for rule in explainers.RULES.values():
        assert f"{rule.name} {rule.title}; carries {'relevance' if rule.is_relevance else 'gradients'}. {rule.source.authors}" in rules
        assert rule.source.title in rules
    assert (pairs.count(SOURCE.title), pairs.count(FIXLIP.title)) == (2, 1)
    assert all(source.title in others for source in (INFORMATION_FLOW, PROXYSPEX, SPEX))
    for sheet, one in zip(sheets, listed, strict=True):
        assert sheet.startswith(f"{one['name']} {one['title']} {one['description']} paper ")
        assert one["paper"] in sheet
        assert f"costs {one['passes']}" in sheet
        assert f"scores {'signed' if one['signed'] else 'unsigned'}, {'class-specific' if one['class_specific'] else 'the same'}" in sheet
        assert all(need in sheet for need in one["needs"].values())
        runs = [pair["rule"] for pair in one["pairs"] if pair["rule"] and pair["reason"] is None]
        assert ("rules " + (", ".join(runs) or "none")) in sheet
        for pair in one["pairs"]:
            if one["rules"] and pair["reason"]:
                assert pair["reason"].split(": ")[1].split(". ")[0] in sheet
        for option in one["options"]:
            assert f"{option['help']} ({option['allowed']})" in sheet
    assert "it is AttnLRP (Achtibat et al., 2024)" in next(sheet for sheet in sheets if sheet.startswith("input_x_gradient "))


def test_help_needs_no_torch() -> None:
    code = "import sys; from vitrine_server.cli import build_parser; build_parser(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

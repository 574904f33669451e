"""The command for a GPU, as far as it can be tried without one: tiny models on the CPU."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks import gpu


def test_a_dry_run_fills_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "RUNS", 1)
    arguments = ["gpu", "--device", "cpu", "--tiny", "--parts", "correct", "speed", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    gpu.main()
    document = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert document["missing"] == {}
    assert document["on"]["device"] == "CPU"
    assert len(document["correct"]) == 2 * len(gpu.MODES)
    for name, methods in document["correct"].items():
        worst = max(row["difference"] for row in methods.values())
        assert (worst > 1e-4) if "float16" in name else (worst == 0), name  # on the CPU the other two are one and the same
    assert [len(rows) for rows in document["speed"].values()] == [10, 9]  # Captum is for pictures
    assert all(row["ms"] > 0 for rows in document["speed"].values() for row in rows.values())
    text = (tmp_path / "gpu.md").read_text("utf-8")
    summary = dict(line.strip("| ").split(" | ") for line in text.splitlines()[4 : 4 + len(gpu.MODES) + 5])
    assert summary["maps against the CPU's, float32"].startswith("0.0e+00 of the largest score at most")
    assert summary["maps against the CPU's, float32"].endswith(": equal")
    assert float(summary["panels a second, ViT-B/16, batch 1"]) > 0
    assert summary["panels a second, ViT-B/16, batch 64"] == "not measured"
    assert summary["seconds to the first map by HTTP, scenes-vit"] == "not measured"
    assert "**speed: ViT-B/16, batch 1**" in (tmp_path / "gpu.md").read_text("utf-8")


@pytest.mark.slow
def test_the_first_map_by_http_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "RUNS", 1)
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--tiny", "--parts", "server", "--out", str(tmp_path)])
    gpu.main()
    document = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert document["missing"] == {}
    assert document["server"]["scenes-vit"]["first map"]["seconds"] > 0
    clients = document["server"]["scenes-vit, clients"]
    assert [set(row["answers"]) for row in clients.values()] == [{"200"}, {"200"}]
    assert f"HTTP, scenes-vit | {document['server']['scenes-vit']['first map']['seconds']} |" in (tmp_path / "gpu.md").read_text("utf-8")


def test_how_far_maps_differ() -> None:
    ours, theirs = torch.tensor([4.0, -1.0, 0.0, 2.0]), torch.tensor([4.0, -1.0, 1.0, 2.0])
    assert gpu.agreement(ours, theirs) == pytest.approx({"difference": 0.25, "rank correlation": 1.0})
    assert gpu.agreement(ours, -ours)["rank correlation"] == pytest.approx(-1)


def test_what_fails_is_named_and_what_the_time_does_not_reach() -> None:
    report = gpu.Report(torch.device("cpu"), is_tiny=True, ends=time.monotonic() + 60)
    with report.step("one"):
        raise RuntimeError("it does not run")
    report.ends = 0
    with report.step("two"):
        report.check_time()
    assert report.missing == {"one": "RuntimeError: it does not run", "two": "TimeoutError: there was no time left"}
    assert "- two: TimeoutError" in report.to_markdown()

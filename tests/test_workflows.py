"""The workflow that tests a change runs every test once, by targets of make that exist."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import yaml

from tests.conftest import ROOT

WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
PARTS: list[str] = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]["paths"]


def test_every_test_is_in_one_part() -> None:
    found: Counter[str] = Counter()
    for path in " ".join(PARTS).split():
        matches = list(ROOT.glob(path))
        assert matches, path
        for match in matches:
            found.update(str(test) for test in ([match] if match.is_file() else match.rglob("test_*.py")))
    assert found == Counter(str(test) for test in (ROOT / "tests").rglob("test_*.py"))


def test_what_the_jobs_make_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (ways,) = {step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "make " in step.get("run", "")}
    assert "make ${{ matrix.target || github.job }}" in ways
    made = [name for name, job in WORKFLOW["jobs"].items() if ways in [step.get("run") for step in job["steps"]] and name != "tests"]
    for target in [*made, *WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]["target"]]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert {"lint", "docs", "wheel"} == set(made)

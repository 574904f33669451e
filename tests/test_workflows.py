"""The workflow that tests a change runs every test once, by targets of make that exist; those that run are pinned and end in time."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_jobs_may_read_alone_and_end(path: Path) -> None:
    """A tag of an action can be moved to other code; a job without a limit runs for six hours."""
    text = path.read_text("utf-8")
    used = re.findall(r"uses: *(.*)", text)
    assert used
    assert not [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action)]
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert max(job["timeout-minutes"] for name, job in workflow["jobs"].items() if name != "image") <= 15

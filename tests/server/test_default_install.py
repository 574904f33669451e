"""What the pages offer works where nothing but the default dependencies is installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

# Runs in a fresh interpreter that finds no module but those of Python, of Vitrine and of its default dependencies.
SCRIPT = r"""
import json
import sys
from pathlib import Path

absent = set(json.loads(sys.stdin.read()))


class Rest:  # a finder without what is absent
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


sys.meta_path[:] = map(Rest, sys.meta_path)

import explainers
from server.jobs.measuring import evaluate, measurable

QUICK = ("mif", "auac", "completeness", "ap", "energy")  # of every kind that loads a library of its own
for name, kind in (("scenes-vit", "image"), ("reviews-bert", "text"), ("clip", "clip")):
    model = explainers.load(name, "cpu")
    dataset, *_ = measurable(kind)
    metrics = [metric["name"] for metric in dataset["metrics"] if metric["name"] in QUICK]
    assert len(metrics) >= 3
    wanted = {"dataset": dataset["name"], "methods": ["rollout", "random"], "metrics": metrics, "limit": 2}
    folder = Path(name)
    assert evaluate(model, wanted, folder, lambda done, total: None, lambda: False), name
    assert json.loads((folder / "report.json").read_text("utf-8"))["inputs"] == 2
    print(name)
"""


def default_distributions() -> set[str]:
    """The names of what ``pip install`` brings: the default dependencies, theirs, and so on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names: set[str] = set()
    waiting = [(Requirement(line), "") for line in project["dependencies"]]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, within = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": within}):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(Requirement(line), extra) for line in metadata.requires(name) or ()]
    return names


def test_measure_here_needs_no_extra(tmp_path: Path) -> None:
    """A run of the metrics that the Leaderboard page offers, on a data set for each kind of model."""
    default = default_distributions()
    assert {"torch", "numpy", "fastapi"} <= default
    absent = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not default & set(map(canonicalize_name, owners)) and "vitrine" not in owners
    ]
    assert {"pytest", "h5py"} <= set(absent)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(absent),
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["scenes-vit", "reviews-bert", "clip"]

"""What the pages offer works where nothing but the default dependencies is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from explainers.installation import DISTRIBUTION
from tests.conftest import PYTHONPATH
from tests.support.distributions import default_distributions

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
from vitrine_server.app import create_app
from vitrine_server.jobs.runs.data_sources import DataCatalogue
from vitrine_server.jobs.runs.measuring import evaluate, metric_choices, reason_against_dataset
from vitrine_server.schemas.runs import RunRequest
from vitrine_server.settings import load_settings

create_app(load_settings({"home": "home", "device": "cpu"}))  # which opens a store
assert not {"ray", "psycopg"} & set(sys.modules)
catalogue = DataCatalogue({}, lambda name: None)
QUICK = ("mif", "auac", "completeness", "ap", "energy")  # of every kind that loads a library of its own
for name, kind in (("scenes-vit", "image"), ("reviews-bert", "text"), ("clip", "clip")):
    model = explainers.load(name, "cpu")
    source = next(each for each in catalogue.listed() if reason_against_dataset(kind, catalogue.opened(each)) is None)
    metrics = [metric.name for metric in metric_choices(catalogue.opened(source)) if metric.name in QUICK and not metric.reason]
    assert len(metrics) >= 3
    request = RunRequest(model=name, dataset=source.name, methods=["rollout", "random"], metrics=metrics, limit=2)
    wanted = {**request.model_dump(), "source": source.to_json()}
    folder = Path(name)
    assert evaluate(model, wanted, folder, lambda done, total: None, lambda: False), name
    assert json.loads((folder / "report.json").read_text("utf-8"))["inputs"] == 2
    print(name)
"""


def test_measure_here_needs_no_extra(tmp_path: Path) -> None:
    """A run of the metrics that the Leaderboard page offers, on a data set for each kind of model."""
    default = default_distributions()
    assert {"torch", "numpy", "fastapi"} <= default
    absent = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not default & set(map(canonicalize_name, owners)) and DISTRIBUTION not in owners
    ]
    assert {"pytest", "h5py", "ray", "psycopg"} <= set(absent)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(absent),
        cwd=tmp_path,
        env={"PYTHONPATH": PYTHONPATH, "PATH": "", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["scenes-vit", "reviews-bert", "clip"]

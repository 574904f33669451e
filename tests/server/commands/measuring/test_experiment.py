"""Experiments: files of options of ``vitrine evaluate``, and those that ship results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explainers.datasets import DATASETS
from explainers.methods import parse
from explainers.methods.presets import METHOD_SETS
from explainers.metrics import METRICS
from tests.conftest import ROOT
from vitrine_server.cli import build_parser, main
from vitrine_server.commands.measuring.evaluate import apply_experiment, command
from vitrine_server.commands.measuring.experiment import read_options

RUNS = sorted(path.parent for path in (ROOT / "docs" / "results").glob("*/report.json"))
EXPERIMENTS = sorted((ROOT / "experiments").glob("*.toml"))


def typed(*words: str) -> list[str]:
    """The words of the command that is measured and could be typed."""
    args = apply_experiment(build_parser().parse_args(["evaluate", *words]))
    return command(args).split()


def test_every_run_that_ships_has_an_experiment_and_make_measures_each() -> None:
    assert {path.stem for path in EXPERIMENTS} == {path.name for path in RUNS}
    makefile = (ROOT / "Makefile").read_text("utf-8").replace(":", " ").split()
    assert not [path.stem for path in EXPERIMENTS if path.stem not in makefile]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run.name))
def test_an_experiment_is_the_command_of_its_report(run: Path) -> None:
    report = json.loads((run / "report.json").read_text("utf-8"))
    data = ["--data", "DIR"] if DATASETS[report["plan"]["dataset"]].layout else []
    assert " ".join(typed("--experiment", f"{ROOT}/experiments/{run.name}.toml", *data)) == report["command"]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: str(path.stem))
def test_an_experiment_names_what_there_is(path: Path) -> None:
    options = read_options(path)
    assert options["dataset"] in DATASETS
    assert set(options["metrics"]) <= set(METRICS)
    assert len(set(options["methods"])) == len(options["methods"])
    sets = {preset.name for preset in METHOD_SETS}
    assert all(spec in sets or parse(spec) for spec in options["methods"])


def test_what_is_typed_counts_more_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('methods = ["random"]\nlimit = 9\nno-examples = true\n', "utf-8")
    file = tmp_path / "more.toml"
    file.write_text('extends = "base.toml"\nmodel = "clip"\nmethods = ["rollout"]\nlimit = 3\n', "utf-8")
    said = "vitrine evaluate --model clip --methods random,rollout --metrics mif,lif,srg --limit 3 --no-examples --out DIR"
    assert typed("--experiment", str(file)) == said.split()
    for words in (
        ["--experiment", str(file), "--limit", "5", "--methods", "lrp"],
        ["--limit", "5", "--methods", "lrp", "--experiment", str(file)],
    ):
        assert typed(*words) == said.replace("random,rollout", "lrp").replace("limit 3", "limit 5").split()
    args = apply_experiment(build_parser().parse_args(["evaluate", "--experiment", str(file)]))
    assert (args.seed, args.target, args.engine, args.device, args.list) == (0, "predicted", "local", None, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metrix = 3", "there is no option --metrix 3"),
        ('limit = "many"', "invalid int value: 'many'"),
        ('target = "all"', "invalid choice: 'all'"),
        ("limit = ", "cannot be read"),
        ('extends = "wrong.toml"', "extends itself"),
        ('extends = "no.toml"', "no.toml cannot be read"),
        ('experiment = "wrong.toml"', "names an experiment"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "--experiment", str(file)])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_an_experiment_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text('model = "scenes-vit"\ndataset = "scenes"\nlimit = 1\nmethods = ["random"]\nmetrics = ["ap"]\n', "utf-8")
    assert main(["evaluate", "--experiment", str(file), "--device", "cpu", "--out", str(tmp_path / "run"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["inputs"], [method["spec"] for method in report["methods"]]) == (1, ["random"])

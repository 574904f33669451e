"""The reports of ``vitrine evaluate`` that the leaderboard shows: those that ship with Vitrine, and those of folders that are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError
from explainers.evaluation.html import format_value
from explainers.evaluation.marks import best_methods, cannot_tell
from explainers.evaluation.protocol_in_words import protocol_in_words
from explainers.evaluation.reporting import EXAMPLES, REPORT, check_report
from explainers.evaluation.statistics import rank_methods
from explainers.methods.registry import is_control
from explainers.methods.specs import split_spec
from server.http.problems import Problem
from server.json_text import encodable, parsed_json

_ID = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True)
class RunReport:
    """One report; ``shipped`` says whether it came with Vitrine, ``begun_here`` whether it was begun on the page."""

    id: str
    folder: Path
    report: dict[str, Any]
    shipped: bool
    begun_here: bool = False

    def to_json(self) -> dict[str, Any]:
        """The report without the comparison of every pair of methods. A figure is ``tied`` where it is marked as the best; a metric says
        why it ``cannot_tell``, where it cannot; a method its ``readout``, the name alone, and whether it is a ``control``.
        """
        document = {name: value for name, value in self.report.items() if name != "apart"}
        metrics = [{**metric, "cannot_tell": cannot_tell(self.report, metric)} for metric in self.report["metrics"]]
        results = dict(self.report["results"])
        for metric in metrics:
            marked = best_methods(self.report, metric)
            figures = results[metric["name"]]
            results[metric["name"]] = {spec: {**figure, "tied": spec in marked} for spec, figure in figures.items()}
        methods = [
            {**method, "readout": split_spec(method["spec"])[0], "control": is_control(method["spec"])} for method in self.report["methods"]
        ]
        protocol = protocol_in_words(self.report["plan"], self.report["kind"], self.report.get("removal"))
        about = {"protocol": protocol, "id": self.id} | {name: getattr(self, name) for name in ("shipped", "begun_here", "shows_inputs")}
        return {**about, **document, "methods": methods, "metrics": metrics, "results": results}

    @property
    def shows_inputs(self) -> bool:
        """Whether the run keeps examples."""
        return (self.folder / EXAMPLES).is_file()

    def examples(self) -> dict[str, Any]:
        """The best and worst cases of each method and metric. Raises Problem 404 where the run keeps none, 422 where they are broken."""
        path = self.folder / EXAMPLES
        if not self.shows_inputs:
            detail = f"The run {self.id} keeps no examples of its inputs: its reports hold figures alone."
            raise Problem(404, "no-examples", detail, send="Measure it anew, without --no-examples, where you have the data.")
        try:
            examples: dict[str, Any] = parsed_json(path.read_bytes(), mend=True)
        except (OSError, ValueError):
            raise Problem(422, "broken-examples", f"{path} cannot be read.", send="Make its reports anew with vitrine evaluate.") from None
        return examples


#: The metrics on a method's page: the first of these that a run has of each kind, faithfulness and agreement with people's marks.
_METRICS = (("srg", "mif", "auac"), ("ap", "auprc", "token_f1_20"))


@dataclass(frozen=True)
class Figure:
    """What a run found of one spec by one metric, as it is printed: ``rank`` among ``of`` methods that have a value, 1 for the best; None
    for the control, which is no method.
    """

    run: RunReport
    spec: str
    metric: dict[str, Any]
    value: str
    interval: str
    rank: int | None
    of: int


#: The spec whose map is drawn at random: what does not beat it says nothing.
CONTROL = "random"


def places(report: dict[str, Any], metric: dict[str, Any]) -> dict[str, int]:
    """The place of each method that has a value by a metric, 1 for the best, best first. Equal values share the place of the first of them;
    the control is no method and has none.
    """
    order = [spec for spec in rank_methods(report, metric) if not is_control(spec)]
    values = [report["results"][metric["name"]][spec]["value"] for spec in order]
    return {spec: 1 + values.index(value) for spec, value in zip(order, values, strict=True)}


def figures_of(method_name: str, rules: Iterable[str], runs: Iterable[RunReport]) -> list[Figure]:
    """What runs found of a method alone and under these ``rules``, run by run, best first. Where several runs measured a spec in the same
    setting, the one with most methods counts: its ranks say most.
    """
    specs = {method_name, *(f"{method_name}:{rule}" for rule in rules)}
    figures: list[Figure] = []
    known: set[tuple[str, ...]] = set()
    for run in sorted(runs, key=lambda run: -len(run.report["methods"])):
        report = run.report
        metrics = {metric["name"]: metric for metric in report["metrics"]}
        setting = [str(report["plan"].get(part)) for part in ("model", "dataset", "target", "how")]
        for name in (next((name for name in names if name in metrics), None) for names in _METRICS):
            if name is None:
                continue
            metric, values = metrics[name], report["results"][name]
            ranks = places(report, metric)
            for spec in rank_methods(report, metric):
                if spec.partition("?")[0] not in specs or (key := (*setting, name, spec)) in known:
                    continue
                known.add(key)
                low, high = (format_value(values[spec][end], metric["unit"]) for end in ("low", "high"))
                value = format_value(values[spec]["value"], metric["unit"])
                figures.append(Figure(run, spec, metric, value, f"{low} to {high}", ranks.get(spec), len(ranks)))
    return figures


def shipped_folder() -> Path | None:
    """The folder of the results that ship: inside the package where it is installed, in ``docs`` in a checkout."""
    here = Path(__file__).resolve().parent
    return next((folder for folder in (here / "results_shipped", here.parent / "docs" / "results") if folder.is_dir()), None)


def folders_of_runs(named: Iterable[str], begun: Path) -> list[str]:
    """The folders of runs: those that are ``named``, and that of the runs that were ``begun`` on the page, once one has ended."""
    return [*named, *([str(begun)] if begun.is_dir() and any(begun.glob(f"*/{REPORT}")) else [])]


@lru_cache(maxsize=256)
def _report_of(path: Path, changed: int) -> dict[str, Any]:
    """The report in a file that was last changed at this time, kept since pages ask for it again; raises what reading it raises."""
    return check_report(parsed_json(path.read_bytes(), mend=True), path)


def read_run_reports(folders: Iterable[str], begun: Path | None = None) -> tuple[list[RunReport], list[str]]:
    """The results that ship and those in ``folders``, each a run or a folder of runs, ``begun`` that of the runs of the page; and what is
    wrong with those that cannot be read.
    """
    runs: list[RunReport] = []
    wrong: list[str] = []
    shipped = shipped_folder()
    roots = [*([(shipped, True)] if shipped else []), *((Path(folder).expanduser(), False) for folder in folders)]
    for root, is_shipped in roots:
        files = sorted({*root.glob(REPORT), *root.glob(f"*/{REPORT}")})
        if not files and not is_shipped:
            wrong.append(f"{root} holds no {REPORT}, nor does a folder in it.")
        for path in files:
            try:
                report = _report_of(path, path.stat().st_mtime_ns)
            except (OSError, ValueError) as problem:
                wrong.append(encodable(str(problem) if isinstance(problem, ExplainerError) else f"{path} cannot be read: {problem}."))
                continue
            name = _ID.sub("-", path.parent.resolve().name.lower()).strip("-") or "run"
            number = sum(run.id == name or run.id.startswith(f"{name}.") for run in runs)
            is_begun = begun is not None and root == begun
            runs.append(RunReport(f"{name}.{number + 1}" if number else name, path.parent, report, is_shipped, is_begun))
    return runs, wrong

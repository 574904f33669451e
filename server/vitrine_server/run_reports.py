"""The reports of ``vitrine evaluate`` that the leaderboard shows: those that ship with Vitrine, and those of folders that are named."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError
from explainers.evaluation.marks import best_methods, cannot_tell
from explainers.evaluation.protocol_in_words import protocol_in_words
from explainers.evaluation.reporting import EXAMPLES, REPORT, check_report
from explainers.methods.prompt_cosines import depends_on_other_prompts
from explainers.methods.registry import is_control
from explainers.methods.specs import Spec
from vitrine_server.http.problems import Problem
from vitrine_server.json_text import decode_json, encodable
from vitrine_server.metric_lines import metric_line

_ID = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True)
class RunReport:
    """The report of one run.

    id          its name in requests
    folder      the folder of the run
    report      the content of its ``report.json``
    shipped     whether it came with Vitrine
    begun_here  whether it was begun on the page
    version     text that changes with the file
    """

    id: str
    folder: Path
    report: dict[str, Any]
    shipped: bool
    begun_here: bool = False
    version: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON, without the comparison of every pair of methods. A figure is ``tied`` if it is marked as the best; a
        metric has its meaning in one ``line``, and a reason why it ``cannot_tell`` methods apart, or null; a method has its name as
        ``readout``, and whether it is a ``control``.
        """
        document = {name: value for name, value in self.report.items() if name != "apart"}
        metrics = [
            {**metric, "line": metric_line(metric), "cannot_tell": cannot_tell(self.report, metric)} for metric in self.report["metrics"]
        ]
        results = dict(self.report["results"])
        for metric in metrics:
            marked = best_methods(self.report, metric)
            figures = results[metric["name"]]
            results[metric["name"]] = {spec: {**figure, "tied": spec in marked} for spec, figure in figures.items()}
        methods = [
            {
                **method,
                "title": title_in_words(method),
                "readout": Spec.parse(method["spec"]).method,
                "control": is_control(method["spec"]),
            }
            for method in self.report["methods"]
        ]
        protocol = protocol_in_words(self.report["plan"], self.report["kind"], self.report.get("removal"))
        about = {"protocol": protocol, "id": self.id} | {name: getattr(self, name) for name in ("shipped", "begun_here", "shows_inputs")}
        return {**about, **document, "methods": methods, "metrics": metrics, "results": results}

    @property
    def shows_inputs(self) -> bool:
        """True if the run keeps examples of its inputs."""
        return (self.folder / EXAMPLES).is_file()

    def examples(self) -> dict[str, Any]:
        """Return the best and worst cases of each method and metric. Raises Problem 404 if the run keeps none, 422 if they are broken."""
        path = self.folder / EXAMPLES
        if not self.shows_inputs:
            detail = f"The run {self.id} keeps no examples of its inputs: its reports hold figures alone."
            raise Problem(404, "no-examples", detail, send="Measure it again without --no-examples, where you have the data.")
        try:
            examples: dict[str, Any] = decode_json(path.read_bytes(), mend=True)
        except (OSError, ValueError):
            raise Problem(422, "broken-examples", f"{path} cannot be read.", send="Make its reports again with vitrine evaluate.") from None
        return examples


def title_in_words(method: dict[str, Any]) -> str:
    """Return the title of a ``method`` of a report; where its map depends on the other prompts, that in words in place of the option."""
    spec, title = Spec.parse(method["spec"]), str(method["title"])
    if not depends_on_other_prompts(spec.options):
        return title
    others = Spec(spec.method, spec.rule, {name: value for name, value in spec.options.items() if name != "less"})
    return others.title(f"{title.partition(' (')[0]}, minus the other prompts")


#: The spec whose map is drawn at random: what does not beat it says nothing.
CONTROL = "random"


def shipped_folder() -> Path | None:
    """Return the folder of the results that ship: inside the installed package, or in ``docs`` of a checkout; None if there is none."""
    here = Path(__file__).resolve().parent
    return next((folder for folder in (here / "results_shipped", here.parents[1] / "docs" / "results") if folder.is_dir()), None)


def folders_of_runs(named: Iterable[str], begun: Path) -> list[str]:
    """Return the paths of the folders of runs: those ``named``, and the folder ``begun`` of the page's runs once one of these has ended."""
    return [*named, *([str(begun)] if begun.is_dir() and any(begun.glob(f"*/{REPORT}")) else [])]


class _Reports:
    """A cache of the reports that were read, one for each file, since pages ask for them again and again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[str, dict[str, Any]]] = {}

    def read(self, path: Path) -> tuple[str, dict[str, Any]]:
        """Return the version of the file ``path`` and the report in it. Raises OSError or ValueError if it cannot be read."""
        state = path.stat()
        version = f"{path} {state.st_mtime_ns} {state.st_size}"
        with self._lock:
            known = self._read.get(path)
        if known is None or known[0] != version:
            known = (version, check_report(decode_json(path.read_bytes(), mend=True), path))
            with self._lock:
                self._read[path] = known
        return known

    def forget_gone(self, asked_for: Collection[Path]) -> None:
        """Drop the reports whose files no longer exist; files in ``asked_for`` are known to exist."""
        with self._lock:
            others = self._read.keys() - set(asked_for)
        gone = [path for path in others if not path.is_file()]
        with self._lock:
            for path in gone:
                self._read.pop(path, None)


_REPORTS = _Reports()


def read_run_reports(folders: Iterable[str], begun: Path | None = None) -> tuple[list[RunReport], list[str]]:
    """Read the results that ship and those in ``folders``, each a run or a folder of runs; ``begun`` is the folder of the page's runs.
    Returns the runs, and the problems of those that cannot be read.
    """
    runs: list[RunReport] = []
    wrong: list[str] = []
    seen: list[Path] = []
    shipped = shipped_folder()
    roots = [*([(shipped, True)] if shipped else []), *((Path(folder).expanduser(), False) for folder in folders)]
    for root, is_shipped in roots:
        files = sorted({*root.glob(REPORT), *root.glob(f"*/{REPORT}")})
        if not files and not is_shipped:
            wrong.append(f"{root} holds no {REPORT}, nor does a folder in it.")
        for path in files:
            try:
                version, report = _REPORTS.read(path)
            except (OSError, ValueError) as problem:
                wrong.append(encodable(str(problem) if isinstance(problem, ExplainerError) else f"{path} cannot be read: {problem}."))
                continue
            name = _ID.sub("-", path.parent.resolve().name.lower()).strip("-") or "run"
            number = sum(run.id == name or run.id.startswith(f"{name}.") for run in runs)
            is_begun = begun is not None and root == begun
            runs.append(RunReport(f"{name}.{number + 1}" if number else name, path.parent, report, is_shipped, is_begun, version))
            seen.append(path)
    _REPORTS.forget_gone(seen)
    return runs, wrong

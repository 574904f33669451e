"""A protocol as data: of one table or figure of a paper its models, data sets, methods, measures, and the figures that it prints.

Each is a TOML file in ``tables``. ``extends`` begins with the keys of another file there.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from explainers import papers
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.requirements import for_probability

__all__ = [
    "Figure",
    "Measure",
    "MissingPart",
    "Protocol",
    "ProtocolModel",
    "ProtocolRow",
    "Published",
    "find_protocol",
    "missing_parts",
    "protocol_names",
]

FILES = Path(__file__).parent / "tables"
MISSING = Path(__file__).parent / "missing.toml"
#: What the minutes of a protocol were measured on, in words.
MINUTES_OF = "30 inputs of each data set that ships, on one busy core"
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
SHARED_ROWS_ENDING = "-rows"  # ending of the files that hold rows of several protocols


@dataclass(frozen=True, kw_only=True)
class ProtocolModel:
    """A model that a protocol measures.

    title    the paper's name for it
    name     what ``explainers.open`` takes; empty for a model without such a name, and then ``get`` says how to obtain it
    options  options of its runs that differ from the protocol's
    """

    title: str
    name: str = ""
    get: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of a protocol's table; the table has it once for each model.

    head      its heading
    dataset   a name of :data:`explainers.datasets.DATASETS`
    metric    a name of :data:`explainers.metrics.METRICS`; in a ranking of names the class
    options   options of the run (those of ``vitrine evaluate``) that differ from the protocol's
    models    titles of the models for which the paper has this column; empty: all
    has_best  whether the best value of the column is marked
    unit      unit in which the paper prints it, if not the metric's
    """

    head: str
    dataset: str
    metric: str
    models: tuple[str, ...] = ()
    has_best: bool = True
    unit: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProtocolRow:
    """A row of a protocol's table.

    title    the method as the paper calls it
    spec     the method here
    options  options of the runs of this row only
    """

    title: str
    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Published:
    """The values of a table as the paper prints them.

    heads   the heads of the columns
    rows    title of a row -> a text for each of ``heads``, empty for a missing value
    source  where the values were read
    """

    heads: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    source: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure with curves: each column of the table is a point of every curve; its head is the x value.

    ``x`` and ``y`` are the titles of the axes.
    """

    x: str
    y: str


@dataclass(frozen=True, kw_only=True)
class MissingPart:
    """A table or figure of a paper, or a part of one, that no protocol measures.

    paper    the publication
    version  the version of the paper whose numbers ``place`` counts by
    place    which table or figure it is
    title    what it compares
    reason   why it is not measured
    instead  what to do instead; empty if there is nothing
    """

    paper: Citation
    version: str
    place: str
    title: str
    reason: str
    instead: str = ""

    @property
    def source(self) -> str:
        """The table or figure, with the version of the paper that it is in."""
        return f"{self.paper.short} ({self.version}), {self.place}"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The description of how one table or figure of a paper is measured.

    name         its name on the command line; ``title`` says what the table compares
    paper        the publication
    place        which table or figure it is, by the numbers of the ``version`` of the paper, such as its proceedings
    models       the paper's models; the table has its ``measures``, the columns, once for each
    rows         the methods
    kind         ``runs``: each cell is the value of a metric; ``names``: the names of a data set of texts, ranked
    inputs       how many of each data set the paper measures; None: all
    options      options of all runs (those of ``vitrine evaluate``)
    splits       name of a data set -> the part that the paper measures, if not the first
    notes        explanations that a reader of the table needs, a sentence or two each
    differences  how it differs from the paper or its code, a sentence or two each
    decimals     number of decimals that the paper prints; None: as all figures are printed
    figure       the axes of the figure, if the paper draws one
    pictures     number of inputs whose maps are drawn as well, where the paper shows maps; 0: none
    minutes      how long it took here, on :data:`MINUTES_OF`; None: it was not measured
    published    the values that the paper prints; None if they were not copied
    inside       names of embedded models that can take the place of the paper's
    stand_ins    data set of the paper -> an embedded data set that these models can read instead
    """

    name: str
    title: str
    paper: Citation
    place: str
    version: str
    models: tuple[ProtocolModel, ...]
    measures: tuple[Measure, ...]
    rows: tuple[ProtocolRow, ...]
    inside: tuple[str, ...]
    stand_ins: Mapping[str, str]
    kind: str = "runs"
    inputs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    decimals: int | None = None
    figure: Figure | None = None
    pictures: int = 0
    minutes: int | None = None
    published: Published | None = None

    @property
    def source(self) -> str:
        """The table or figure, with the version of the paper that it is in."""
        return f"{self.paper.short} ({self.version}), {self.place}"

    @property
    def heading(self) -> str:
        """The title that stands above the protocol's table."""
        return f"{self.title} ({self.place} of {self.paper.short}, in the version of {self.version})"

    def options_of(
        self, row: ProtocolRow, measure: Measure, of_model: Mapping[str, Any] = NO_OPTIONS, given: Mapping[str, Any] = NO_OPTIONS
    ) -> dict[str, Any]:
        """Return the options of the run that measures a cell: those of the protocol, the measure, the model (``of_model``), the row, and
        ``given`` ones, each overriding the earlier ones.

        A rule of relevance starts from a score, so that its rows explain the logit.
        """
        options = {**self.options, **measure.options, **of_model, **row.options, **given}
        return {**options, "explains": "logit"} if options.get("explains") == "probability" and for_probability([row.spec])[1] else options

    @property
    def needs(self) -> str:
        """The data sets and models of the paper in words; a model that is on no hub is "your own"."""
        models = [model.title if model.name else f"{model.title} (your own)" for model in self.models]
        return f"{', '.join(self.datasets)}; {', '.join(models)}"

    @property
    def duration(self) -> str:
        """How long it took here in words; empty if that was not measured."""
        return "" if self.minutes is None else f"{self.minutes} min"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of the paper, each once."""
        return tuple(dict.fromkeys(measure.dataset for measure in self.measures))


def protocol_names() -> list[str]:
    """Return the names of all protocols, in order of paper and table."""
    return sorted(path.stem for path in FILES.glob("*.toml") if not path.stem.endswith(SHARED_ROWS_ENDING))


@cache
def find_protocol(name: str) -> Protocol:
    """Return the protocol of this name. Raises ExplainerError, naming similar ones, for an unknown one."""
    names = protocol_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        send = f"Did you mean {', '.join(near)}?" if near else f"Choose one of {', '.join(names)}."
        raise ExplainerError(f"There is no protocol {name!r}. {send}")
    return protocol_of(name, _read(name))


@cache
def missing_parts() -> tuple[MissingPart, ...]:
    """Return the tables and figures of the papers that no protocol measures, each with the reason."""
    document = tomllib.loads(MISSING.read_text("utf-8"))
    return tuple(MissingPart(**{**entry, "paper": getattr(papers, entry["paper"])}) for entry in document["missing"])


def _read(name: str) -> dict[str, Any]:
    """Read the file of the protocol ``name`` and return its keys. If it extends another protocol, the keys of that protocol are added where
    the file lacks them.
    """
    document = tomllib.loads((FILES / f"{name}.toml").read_text("utf-8"))
    other = document.pop("extends", None)
    return document if other is None else {**_read(other), **document}


#: Keys of a file that are used unchanged.
_UNCHANGED_KEYS = ("title", "place", "version", "kind", "inputs", "options", "splits", "decimals", "pictures", "minutes")


def protocol_of(name: str, document: Mapping[str, Any]) -> Protocol:
    """Build the protocol called ``name`` from ``document``, the keys of its file."""
    inside, published, figure = document["inside"], document.get("published"), document.get("figure")
    plain = {key: document[key] for key in _UNCHANGED_KEYS if key in document}
    return Protocol(
        name=name,
        paper=getattr(papers, document["paper"]),
        notes=tuple(document.get("notes", ())),
        differences=tuple(document.get("differences", ())),
        figure=figure and Figure(**figure),
        models=tuple(
            ProtocolModel(title=title, **({"name": given} if isinstance(given, str) else given))
            for title, given in document["models"].items()
        ),
        measures=tuple(
            Measure(
                **{key: entry[key] for key in ("head", "dataset", "metric")},
                models=tuple(entry.get("models", ())),
                has_best=entry.get("has_best", True),
                unit=entry.get("unit", ""),
                options=_without(entry, "head", "dataset", "metric", "models", "has_best", "unit"),
            )
            for entry in document["measures"]
        ),
        rows=tuple(
            ProtocolRow(title=entry["title"], spec=entry["spec"], options=_without(entry, "title", "spec")) for entry in document["rows"]
        ),
        inside=tuple(inside["models"]),
        stand_ins=inside["datasets"],
        published=published
        and Published(
            heads=tuple(published["heads"]),
            rows={title: tuple(texts) for title, texts in published["rows"].items()},
            source=published["source"],
        ),
        **plain,
    )


def _without(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in names}

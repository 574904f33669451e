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

__all__ = ["Measure", "Protocol", "ProtocolModel", "ProtocolRow", "Published", "find_protocol", "protocol_names"]

FILES = Path(__file__).parent / "tables"
NONE: Mapping[str, Any] = MappingProxyType({})
SHARED = "-rows"  # files that end so hold rows that several protocols share


@dataclass(frozen=True, kw_only=True)
class ProtocolModel:
    """A model of a protocol. ``name`` is what ``explainers.open`` takes; ``get`` says how to come by one that no name leads to; ``options``
    are those of its runs, where they are not those of the protocol.
    """

    title: str
    name: str = ""
    get: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of a protocol's table for each model.

    dataset  a name of :data:`explainers.datasets.DATASETS`; metric  of :data:`explainers.metrics.METRICS`, of a ranking of names the class
    options  of the run, as ``vitrine evaluate`` takes them, where they are not those of the protocol
    models   titles of the models that the paper measures so; empty: all
    has_best whether a value at the better end is a merit by itself
    """

    head: str
    dataset: str
    metric: str
    models: tuple[str, ...] = ()
    has_best: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProtocolRow:
    """A row of a protocol's table: the method as the paper calls it, its spec, and options that hold for it alone."""

    title: str
    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the paper prints, as it prints it: ``rows`` by their titles, a text for each of ``heads``, empty where it
    has none.

    source  where the figures were read
    """

    heads: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    source: str


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How one table or figure of a paper is measured.

    place    which table or figure it is
    kind     ``runs``: each cell is the value of a metric; ``names``: the names of a data set of texts, ranked
    inputs   how many of each data set the paper measures; None: all
    options  of all runs, as ``vitrine evaluate`` takes them
    notes    what differs from the paper or its code, and what must be known, a sentence or two each
    inside   names of models that ship; stand_ins  for a data set of the paper one that ships, which these models read
    """

    name: str
    title: str
    paper: Citation
    place: str
    models: tuple[ProtocolModel, ...]
    measures: tuple[Measure, ...]
    rows: tuple[ProtocolRow, ...]
    inside: tuple[str, ...]
    stand_ins: Mapping[str, str]
    kind: str = "runs"
    inputs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    published: Published | None = None

    @property
    def heading(self) -> str:
        """What stands above its table."""
        return f"{self.title} ({self.place} of {self.paper.short})"

    def options_of(
        self, row: ProtocolRow, measure: Measure, of_model: Mapping[str, Any] = NONE, given: Mapping[str, Any] = NONE
    ) -> dict[str, Any]:
        """The options of the run that measures a cell: those of the protocol, the measure, the model and the row, what is ``given`` last. A
        rule of relevance starts from a score, so that its rows explain the logit.
        """
        options = {**self.options, **measure.options, **of_model, **row.options, **given}
        return {**options, "explains": "logit"} if options.get("explains") == "probability" and for_probability([row.spec])[1] else options

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of the paper, each once."""
        return tuple(dict.fromkeys(measure.dataset for measure in self.measures))


def protocol_names() -> list[str]:
    """The names of all protocols, in order of paper and table."""
    return sorted(path.stem for path in FILES.glob("*.toml") if not path.stem.endswith(SHARED))


@cache
def find_protocol(name: str) -> Protocol:
    """The protocol of this name. Raises ExplainerError, naming near misses, for an unknown one."""
    names = protocol_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        send = f"Did you mean {', '.join(near)}?" if near else f"Choose one of {', '.join(names)}."
        raise ExplainerError(f"There is no protocol {name!r}. {send}")
    return protocol_of(name, _read(name))


def _read(name: str) -> dict[str, Any]:
    """The keys of a file, those of what it extends first."""
    document = tomllib.loads((FILES / f"{name}.toml").read_text("utf-8"))
    other = document.pop("extends", None)
    return document if other is None else {**_read(other), **document}


def protocol_of(name: str, document: Mapping[str, Any]) -> Protocol:
    """A protocol from the keys of its file."""
    inside, published = document["inside"], document.get("published")
    plain = {key: document[key] for key in ("title", "place", "kind", "inputs", "options") if key in document}
    return Protocol(
        name=name,
        paper=getattr(papers, document["paper"]),
        notes=tuple(document.get("notes", ())),
        models=tuple(
            ProtocolModel(title=title, **({"name": given} if isinstance(given, str) else given))
            for title, given in document["models"].items()
        ),
        measures=tuple(
            Measure(
                **{key: entry[key] for key in ("head", "dataset", "metric")},
                models=tuple(entry.get("models", ())),
                has_best=entry.get("has_best", True),
                options=_without(entry, "head", "dataset", "metric", "models", "has_best"),
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

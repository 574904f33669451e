"""What can be measured on the page: models that are loaded, data sets, and what a run of one on the other may be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from vitrine_server.http.problems import Problem, suggestion
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.runs.data_sources import DataCatalogue, DataSource
from vitrine_server.jobs.runs.measuring import (
    MeasurableMetric,
    RunOptionValue,
    given_in_words,
    metric_choices,
    option_choices,
    reason_against_dataset,
)
from vitrine_server.jobs.runs.run_protocols import ProtocolForm, protocol_forms
from vitrine_server.jobs.runs.sent_data import PREFIX


@dataclass(frozen=True)
class MeasurableDataset(Record):
    """A data set: its name and title, the number of its inputs and what is known of them, and the reason if a model cannot be measured on
    it.
    """

    name: str
    title: str
    inputs: int
    gives: Annotated[list[str], describe("What is known of its inputs, in words.")]
    shipped: Annotated[bool, describe("Whether it comes with Vitrine.")]
    reason: Annotated[str | None, describe("Why the model cannot be measured on it.")]


@dataclass(frozen=True)
class MeasurableModel(Record):
    """A loaded model (name and title), and the data sets on which it can be measured.

    kind      what it reads
    datasets  every data set, each with the reason if it does not suit
    """

    name: str
    title: str
    kind: Annotated[str, describe("What it reads: image, clip, text or molecule.")]
    datasets: list[MeasurableDataset]


@dataclass(frozen=True)
class RunChoices(Record):
    """The metrics, options and protocols for a run of a model on a data set, each with the reason if it cannot be chosen."""

    metrics: list[MeasurableMetric]
    options: dict[str, list[RunOptionValue]]
    protocols: list[ProtocolForm]


class RunInputs(Protocol):
    """What runs of a kind need: the models by ``registry``, the inputs by name, and ``most``, the maximum number of inputs in a run."""

    @property
    def registry(self) -> ModelRegistry:
        """The models."""

    @property
    def most(self) -> int:
        """The maximum number of inputs in a run."""

    def model(self, name: str, visitor: Visitor) -> tuple[ModelEntry, ModelFacts]:
        """Return the entry and the facts of the loaded model ``name``. Raises Problem if the visitor may not use it."""

    def source(self, name: str, facts: ModelFacts, visitor: Visitor) -> DataSource:
        """Return the inputs called ``name``. Raises Problem if there are none, or the model with these ``facts`` cannot be asked about
        them.
        """


def loaded_model(registry: ModelRegistry, name: str, visitor: Visitor) -> tuple[ModelEntry, ModelFacts]:
    """Return the entry and the facts of the loaded model ``name`` of ``registry``. Raises Problem 404 for one that is unknown to the
    ``visitor``, 409 for one that is not loaded.
    """
    entry = registry.find(name, visitor)
    if entry.facts is None:
        detail = f"The model “{entry.name_to_show}” is not loaded."
        raise Problem(409, "model-not-loaded", detail, send="Load it first, with POST /api/models.")
    return entry, entry.facts


@dataclass(frozen=True)
class Measurable:
    """The models (``registry``) and data sets (``catalogue``) of a server that runs can use; ``most`` is the maximum number of inputs in a
    run. Any thread may call.
    """

    registry: ModelRegistry
    catalogue: DataCatalogue
    most: int

    def models(self, visitor: Visitor) -> list[MeasurableModel]:
        """Return a record for each loaded model that ``visitor`` may see: its name and title, and all data sets, each with the reason why
        the model cannot be measured on it, if there is one.
        """
        return [
            MeasurableModel(entry.name, entry.title, entry.facts.kind, self._datasets(entry.facts))
            for entry in self.registry.all(visitor)
            if entry.facts is not None
        ]

    def _datasets(self, facts: ModelFacts) -> list[MeasurableDataset]:
        return [self.about_data(source, facts) for source in self.catalogue.listed()]

    def about_data(self, source: DataSource, facts: ModelFacts | None = None) -> MeasurableDataset:
        """Describe the data set of ``source``, with the reason if a model with these ``facts`` (None: no model in particular) cannot be
        measured on it.
        """
        data = self.catalogue.opened(source)
        return MeasurableDataset(
            name=source.name,
            title=source.title,
            inputs=len(data),
            gives=given_in_words(data),
            shipped=source.folder is None,
            reason=None if facts is None else reason_against_dataset(facts.kind, data, facts.details.get("task")),
        )

    def choices(self, model: str, dataset: str, visitor: Visitor) -> RunChoices:
        """List the metrics, options and protocols for a run of the model named ``model`` on the data set ``dataset``. Raises Problem if the
        model cannot be measured on it, or is unknown to the ``visitor``.
        """
        _, facts = self.model(model, visitor)
        data = self.catalogue.opened(self.source(dataset, facts, visitor))
        return RunChoices(metric_choices(data), option_choices(facts, data), protocol_forms(facts, data, self.most))

    def model(self, name: str, visitor: Visitor) -> tuple[ModelEntry, ModelFacts]:
        """Return the entry and the facts of the loaded model ``name``. Raises Problem 404 for one that is unknown to the ``visitor``, 409
        for one that is not loaded.
        """
        return loaded_model(self.registry, name, visitor)

    def source(self, name: str, facts: ModelFacts, visitor: Visitor) -> DataSource:
        """Return the data set called ``name``, which all who know its name may read. Raises Problem 404 if there is none, 422 if the model
        with these ``facts`` cannot be measured on it.
        """
        source = self.catalogue.find(name)
        if source is None:
            raise self._unknown(name)
        try:
            reason = reason_against_dataset(facts.kind, self.catalogue.opened(source), facts.details.get("task"))
        except ExplainerError as problem:
            raise Problem(422, "broken-data", str(problem), send="Choose another data set.") from None
        if reason is not None:
            suits = ", ".join(each.name for each in self._datasets(facts) if each.reason is None)
            detail = f"{source.title} does not suit the model: {reason}."
            raise Problem(422, "unsuitable-dataset", detail, send=f"Send one of: {suits}.")
        return source

    def _unknown(self, name: str) -> Problem:
        if name.startswith(PREFIX):
            return Problem(404, "data-gone", "The data set that you sent has been deleted.", send="Send the same file again.")
        known = [listed.name for listed in self.catalogue.listed()]
        others = "One of your own: POST /api/runs/data, or vitrine evaluate."
        send = f"{suggestion(name, known)}Here: {', '.join(known)}. {others}"
        return Problem(404, "unknown-dataset", f"There is no data set {name!r} here.", send=send)

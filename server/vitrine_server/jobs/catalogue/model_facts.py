"""Facts about a loaded model, for the web threads: the model itself is in another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.companion_files.calibration import UNCALIBRATED, Calibration
from explainers.models.labels import ClassEntry
from explainers.models.report import Report
from explainers.models.resizing import reason_against_resize
from vitrine_server.json_text import NotJsonError, json_text
from vitrine_server.registries import default_methods, methods, variants

#: Where the weights of a model are: on the device that it computes on, or in the memory of the machine, from which they move back.
Place = Literal["device", "host"]


@dataclass(frozen=True)
class ResidentModel(Record):
    """Where a loaded model is now (on its device or in the machine's memory), its device, and the bytes of its weights."""

    place: Annotated[Place, describe("`device`, or `host` for the memory of the machine: then it moves back when it is asked.")]
    device: Annotated[str, describe("On which it computes.")]
    bytes: Annotated[int, describe("Of its weights.")]


@dataclass(frozen=True)
class DeviceBudget:
    """How a host of models shares out the memory of its device, in bytes.

    device      its name, such as ``cuda:0``
    total       what the device has in all
    others      what of it other processes, or the driver, hold
    headroom    what is left for what the models compute
    room        what the weights of models may take
    peaks       the most that a recent use of each model on it took beyond the weights, by name, where that is measured
    start_room  what the weights may take at first, before anything was measured; so much at least where some of them cannot leave
    cached      what torch's allocator holds and no tensor uses
    """

    device: str
    total: int
    others: int
    headroom: int
    room: int
    peaks: Mapping[str, int] = field(default_factory=dict)
    start_room: int = 0
    cached: int = 0


@dataclass(frozen=True)
class ModelFacts:
    """The facts of a loaded model that the web threads use.

    kind                   what it reads, such as "image"; ``device`` is where it runs
    labels                 names of its classes; ``classes`` has facts about each
    groups                 name of a group -> indices of its classes; ``synonyms``: another name -> indices of its classes
    details                facts such as its blocks, heads and grid, for JSON
    weights_digest         SHA-256 of its weights
    blocks                 number of its blocks
    methods                all methods as JSON, with what each needs; ``variants``: each with its own rules, and the reason if it cannot run
    default_methods        specs of the methods that are used if nobody chooses any
    text_side              the facts of a CLIP model's text side; None if it has none
    calibration            the calibration of its probabilities, and thresholds beyond which it does not know
    report                 what was found and checked when it was opened; None if it was only loaded
    reason_against_resize  why its pictures cannot be brought to its size in another way; None if they can
    """

    kind: str
    device: str
    labels: tuple[str, ...]
    details: dict[str, Any]
    weights_digest: str
    blocks: int
    methods: tuple[dict[str, Any], ...]
    variants: tuple[dict[str, Any], ...]
    default_methods: tuple[str, ...]
    text_side: ModelFacts | None = None
    classes: tuple[ClassEntry, ...] = ()
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    synonyms: Mapping[str, Sequence[int]] = field(default_factory=dict)
    calibration: Calibration = UNCALIBRATED
    report: Report | None = None  # what was found and checked when it was opened
    reason_against_resize: str | None = None  # why its pictures cannot be brought to its size in another way


def facts_of(model: Any) -> ModelFacts:
    """Collect the facts of ``model``, a loaded one, and return them. Raises ExplainerError if they contain a value that cannot be sent as
    JSON.
    """
    facts = _facts_of_side(model)
    if model.kind == "clip":
        with suppress(ExplainerError):  # one whose text tower cannot be told has an image side alone
            facts = replace(facts, text_side=_facts_of_side(model.seen_from("text")))
    _check(facts)
    return facts


def _facts_of_side(model: Any) -> ModelFacts:
    return ModelFacts(
        kind=model.kind,
        device=str(model.device),
        labels=tuple(model.labels),
        details={"blocks": len(model.blocks), **{k: v for k, v in model.details.items() if k != "missing_requirements"}},
        weights_digest=model.weights_digest,
        blocks=len(model.blocks),
        methods=tuple(methods(model)),
        variants=tuple(variants(model)),
        default_methods=tuple(default_methods(model)),
        classes=tuple(model.classes),
        groups=model.groups,
        synonyms=model.synonyms,
        calibration=model.calibration,
        report=model.report,
        reason_against_resize=reason_against_resize(model),
    )


def _check(facts: ModelFacts) -> None:
    """Raise ExplainerError if the facts contain a value that JSON lacks: every list of models would fail for every visitor."""
    classes = [label.to_json() for label in facts.classes]
    report = None if facts.report is None else facts.report.to_json()
    try:
        json_text([facts.labels, facts.details, classes, facts.calibration.to_json(), report])
    except NotJsonError as error:
        raise ExplainerError(f"What the model says of itself (labels, classes, sizes, calibration) cannot be shown: {error}.") from None

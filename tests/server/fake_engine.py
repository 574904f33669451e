"""Models that stand in for real ones: real registries and result types, no neural network, and gates at which a test can hold them.

The server asks ``explainers`` itself. Of these models alone, the few functions that would run one ask the stand-in instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image

from explainers import METHODS, RULES, Abstention, AnyOf, Attribution, Cancelled, ExplainerError, Explanation, variants
from explainers.citation import UNKNOWN
from explainers.methods import parse
from explainers.models.calibration import Calibration
from explainers.models.catalogue import CatalogueEntry
from explainers.models.inputs.depth import Windowed
from explainers.models.inputs.images import read_picture
from explainers.models.inputs.types import Crop, ImageInput, TextInput, Token, Word
from explainers.models.labels import ClassEntry, places_of
from explainers.records.result import TargetInfo
from explainers.records.targets import Contrast, Probability
from server import registries
from server.jobs import model_facts, model_host, runs
from server.jobs.model_source import DownloadProgress, ModelSource
from tests.support.made_up_run import write_run

LABELS = ("zebra", "elephant", "dog", "7")
GRID = (2, 3)  # patches: rows, columns
USUAL_METHODS = ["rollout", "fullgrad_plus:libra"]
CATALOGUE = [
    CatalogueEntry("scenes-vit", "image", "Scenes", "", True, ""),
    CatalogueEntry("clip", "clip", "Prompts", "", True, ""),
    CatalogueEntry("reviews-bert", "text", "Reviews", "", True, ""),
    CatalogueEntry("timm/listed", "image", "Listed", "", False, ""),
    CatalogueEntry("timm/other", "image", "Other", "", False, ""),
]
KINDS = {"clip": "clip", "reviews-bert": "text"}
LISTED_METHODS: dict[str, list[dict[str, Any]]] = {}  # by what the real engine reads of a model of this stand-in: hundreds of servers ask
CPU = torch.device("cpu")
PATIENCE = 20.0  # seconds until a test that waits for nothing gives up


@cache
def listed_variants() -> list[dict[str, Any]]:
    """What the real engine lists without a model."""
    return [variant.to_json() for variant in variants(None)]


class Gate:
    """Where the stand-in waits until a test lets it through."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def wait(self) -> None:
        assert self._reached.wait(PATIENCE), "nothing came to the gate"

    def open(self) -> None:
        self._open.set()


@dataclass
class FakeEngine:
    """What the stand-in does and has done. Keys of ``gates`` and ``errors``: a spec, ``load NAME`` or ``fetch NAME``."""

    gates: dict[str, Gate] = field(default_factory=dict)
    errors: dict[str, list[Exception]] = field(default_factory=dict)  # each is raised once, in order
    calls: list[str] = field(default_factory=list)
    value: float | None = None  # in place of every score
    logit: float = 1.0  # of the last class
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of the map of a spec
    catalogue: list[CatalogueEntry] = field(default_factory=lambda: CATALOGUE)
    usual: list[str] = field(default_factory=lambda: USUAL_METHODS)
    details: dict[str, Any] = field(default_factory=lambda: {"heads": 2})
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of a model with other classes than ``LABELS``
    classes: dict[str, tuple[ClassEntry, ...]] = field(default_factory=dict)  # of a model whose classes have groups
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    abstention: Abstention | None = None  # of every answer
    grids: dict[str, tuple[int, int]] = field(default_factory=dict)  # of a model with other patches than ``GRID``

    def gate(self, key: str) -> Gate:
        return self.gates.setdefault(key, Gate())

    def _at(self, key: str) -> None:
        self.calls.append(key)
        if key in self.gates:
            self.gates[key].pass_through()
        if self.errors.get(key):
            raise self.errors[key].pop(0)

    def load(self, name: str, device: str | None, /, **ways: Any) -> Any:
        assert threading.current_thread().name == "worker"
        self._at(f"load {name}")
        kind = KINDS.get(name, "image")
        labels = () if kind == "clip" else ("negative", "positive") if kind == "text" else self.labels.get(name, LABELS)
        details = {**self.details, "missing_requirements": {}}
        model = SimpleNamespace(
            name=name,
            kind=kind,
            labels=labels,
            details=details,
            blocks=[1, 2, 3],
            weights_digest=f"digest of {name}",
            device=CPU,
        )
        model.classes = self.classes.get(name, ())
        model.groups, model.synonyms = places_of(model.classes, "groups"), places_of(model.classes, "synonyms")
        model.calibration = self.calibrations.get(name, Calibration())
        model.report = None
        model.seen_from, model.side, model.prompt_inputs = lambda side: model, "image", None
        model.stand_in = self
        model.prepare = lambda source: SimpleNamespace(tensors=given(source))
        return model

    def fetch(self, name: str, progress: DownloadProgress) -> None:
        progress("Asking the hub", None)
        self._at(f"fetch {name}")
        progress("Downloading", 0.5)

    def methods(self, model: Any) -> list[dict[str, Any]]:
        key = "" if model is None else f"{model.kind} {model.details}"
        if key not in LISTED_METHODS:
            LISTED_METHODS[key] = registries.methods(model)
        return LISTED_METHODS[key]

    def variants(self, model: Any) -> list[dict[str, Any]]:
        listed = listed_variants()
        if model is None or model.kind != "text":
            return listed
        return [{**one, "reason": "No attention." if one["readout"] == "raw_attention" else None} for one in listed]

    def default_methods(self, model: Any) -> list[str]:
        return self.usual

    def explain(
        self,
        model: Any,
        inputs: Any,
        target: Any,
        methods: list[str],
        *,
        observer: Any,
        cancelled: Callable[[], bool],
        next_method: Callable[[list[str]], str | None],
        **_: Any,
    ) -> Explanation:
        assert threading.current_thread().name == "worker"
        asked = [None] if target is None else target
        labels = list(dict.fromkeys(label for one in asked for label in _named(one))) if model.kind == "clip" else list(model.labels)
        logits = torch.arange(len(labels), 0, -1, dtype=torch.float32)
        logits[-1] = self.logit
        targets = [_target(one, labels, logits, model.kind == "clip") for one in asked]
        grid = self.grids.get(model.name, GRID)
        record, base = _seen(inputs, grid)
        explanation = Explanation(
            model.name, model.weights_digest, record, labels, logits, logits.softmax(0), targets, methods, {"vitrine": "0"}
        )
        explanation.prompted, explanation.abstention = model.kind == "clip", self.abstention
        explanation.tensors = given(inputs)
        observer.on_prediction(explanation)
        left = list(methods)
        while left and (spec := next_method(list(left))) is not None:
            left.remove(spec)
            for one in targets:
                self._at(spec)
                if cancelled():
                    raise Cancelled
                explanation.maps.append(self._map(spec, one.label, record, base, grid))
                observer.on_map(explanation, explanation.maps[-1])
        return explanation

    def _map(self, spec: str, label: str, record: ImageInput | TextInput, base: torch.Tensor, grid: tuple[int, int]) -> Attribution:
        request = parse(spec)
        scores = base * (1 + len(label)) / 7 if self.value is None else torch.full_like(base, self.value)
        text = record if isinstance(record, TextInput) else None
        content = torch.ones(len(scores), dtype=torch.bool)
        if text is not None:
            content = torch.tensor([not token.special for token in text.tokens])
        return Attribution(
            method=spec,
            method_name=request.method.name,
            rule=request.rule.name if request.rule else None,
            title=spec,
            source=UNKNOWN,
            target=label,
            scores=scores,
            content=content,
            patches=grid if text is None else None,
            text=text,
            signed=request.method.signed,
            class_specific=request.method.class_specific,
            seconds=0.25,
            notes=self.notes.get(spec, ()),
        )

    def evaluate(
        self, model: Any, wanted: Mapping[str, Any], folder: Path, tell: Callable[[int, int], None], cancelled: Callable[[], bool]
    ) -> bool:
        """A run with figures written by hand; it passes the gates ``input 0``, ``input 1``, ... and goes on where it was stopped."""
        assert threading.current_thread().name == "worker"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(len(list(folder.glob("*.row"))), wanted["limit"]):
            tell(number, wanted["limit"])
            self._at(f"input {number}")
            if cancelled():
                return False
            (folder / f"{number}.row").touch()
        tell(wanted["limit"], wanted["limit"])
        write_run(folder, wanted["model"])
        return True

    def source(self) -> ModelSource:
        return ModelSource(self.catalogue, self.load, self.fetch)


def _asks_stand_in(asked: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, which asks the stand-in where the model is one."""

    def ask(model: Any, *arguments: Any, **named: Any) -> Any:
        stand_in = getattr(model, "stand_in", None)
        return (asked if stand_in is None else getattr(stand_in, name))(model, *arguments, **named)

    return ask


for module, names in ((model_host, ("explain",)), (runs, ("evaluate",)), (model_facts, ("methods", "variants", "default_methods"))):
    for function in names:
        setattr(module, function, _asks_stand_in(getattr(module, function), function))


def _named(target: Any) -> tuple[Any, ...]:
    """The classes or prompts that a target names."""
    if isinstance(target, Contrast):
        return target.towards, target.against
    return (target.of,) if isinstance(target, Probability) else (target,)


def _target(target: Any, labels: list[str], logits: torch.Tensor, prompted: bool) -> TargetInfo:
    if isinstance(target, AnyOf):
        return TargetInfo(f"any {target.group}", None, None, float(logits.logsumexp(0)), 0.75, "logit", str(target), group=target.group)
    places = [0 if one is None else labels.index(one) if isinstance(one, str) else one for one in _named(target)]
    label = labels[places[0]]
    if isinstance(target, Contrast):
        other = labels[places[1]]
        return TargetInfo(f"{label} − {other}", None, None, float(logits[places[0]] - logits[places[1]]), None, "logit", label, other)
    read, of = ("probability", label) if isinstance(target, Probability) else ("logit", None)
    shown = f"p({label})" if of else label
    return TargetInfo(shown, places[0], label if prompted else None, float(logits[places[0]]), 0.5, read, of)  # type: ignore[arg-type]


def given(inputs: Image.Image | str) -> dict[str, torch.Tensor]:
    """What the stand-in says that the model was given."""
    return {"input_ids" if isinstance(inputs, str) else "pixel_values": _seen(inputs)[1][None]}


def _seen(inputs: Image.Image | str, grid: tuple[int, int] = GRID) -> tuple[ImageInput | TextInput, torch.Tensor]:
    """The record of an input, and numbers that depend on it: means of the patches of the centre square; of a text, lengths of words."""
    if isinstance(inputs, Crop) and not (isinstance(inputs.image, Image.Image) and inputs.image.mode == "RGB"):
        image, window = read_picture(inputs.image)
        record, numbers = _seen(Crop(image, inputs.box), grid)
        return replace(record, window=window), numbers  # type: ignore[call-arg]
    if isinstance(inputs, Windowed) or (isinstance(inputs, Image.Image) and inputs.mode != "RGB"):
        image, window = read_picture(inputs)
        record, numbers = _seen(image, grid)
        return replace(record, window=window), numbers  # type: ignore[call-arg]
    if isinstance(inputs, Crop):
        record, numbers = _seen(inputs.image.crop(inputs.box), grid)  # type: ignore[union-attr]
        (left, top, *_), (x0, y0, x1, y1) = inputs.box, record.crop  # type: ignore[union-attr]
        width, height = inputs.image.size  # type: ignore[union-attr]
        return replace(record, width=width, height=height, crop=(x0 + left, y0 + top, x1 + left, y1 + top), frame=inputs.box), numbers  # type: ignore[call-arg]
    if isinstance(inputs, Image.Image):
        assert inputs.mode == "RGB"
        side = min(inputs.size)
        left, top = (inputs.width - side) // 2, (inputs.height - side) // 2
        crop = (left, top, left + side, top + side)
        small = inputs.crop(crop).convert("L").resize(grid[::-1])
        return ImageInput(inputs.width, inputs.height, crop, (32, 32), inputs.crop(crop).resize((32, 32))), torch.tensor(
            np.asarray(small).ravel() / 255.0
        ).float()
    if inputs == "unreadable":
        raise ExplainerError("The stand-in refuses this text.")
    words, place = [], 0
    for number, word in enumerate(inputs.split()):
        place = inputs.index(word, place)
        words.append(Word(word, place, place + len(word), (number + 1,)))
        place += len(word)
    tokens = (Token("[CLS]", 0, 0, True), *(Token(w.text, w.start, w.end, False) for w in words))
    return TextInput(inputs, tokens, tuple(words)), torch.tensor([0.0, *(len(word.text) / 3 for word in words)])


__all__ = ["LABELS", "METHODS", "RULES", "USUAL_METHODS", "FakeEngine", "Gate"]

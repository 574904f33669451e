"""Tiny random models whose answers, passes and maps wait at gates until a test lets them through, and raise what it tells them to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

import explainers
from explainers.methods import METHODS, method
from explainers.models.catalogue import CatalogueEntry
from explainers.models.inputs.images import Preprocessing
from explainers.models.memory import bytes_of_weights
from explainers.records.trace import Trace
from tests.families import FAMILIES, SQUARE
from tests.support.vocabularies import wordpiece
from vitrine_server.jobs.catalogue.model_source import DownloadProgress, ModelSource

PATIENCE = 20.0  # seconds until a test that waits for nothing gives up
LABELS = ("zebra", "elephant", "dog", "7")  # the most probable first, whatever the input is
USUAL_METHODS = ["rollout", "fullgrad_plus:libra"]  # the second needs a backward pass
#: Methods of the tests: each waits where its name is that of a gate, and gives the lengths of the embedded tokens.
STEPS = ["step_one", "step_two", "step_three", "step_four"]
SLOW_STEP = "slow_step"  # one that asks the model three times, between which others may go first
CATALOGUE = [
    CatalogueEntry("scenes-vit", "image", "Scenes", "", True, ""),
    CatalogueEntry("clip", "clip", "Prompts", "", True, ""),
    CatalogueEntry("reviews-bert", "text", "Reviews", "", True, ""),
    CatalogueEntry("timm/listed", "image", "Listed", "", False, ""),
    CatalogueEntry("timm/other", "image", "Other", "", False, ""),
]


class Gate:
    """Where something waits until a test lets it through."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def wait(self) -> None:
        assert self._reached.wait(PATIENCE), "nothing came to the gate"

    def open(self) -> None:
        self._open.set()


def _ranked(outputs: int) -> nn.Linear:
    """A head whose first class is always the most probable one, the second the next, and so on."""
    head = nn.Linear(24, outputs)
    with torch.no_grad():
        head.weight.copy_(torch.randn(outputs, 24, generator=torch.Generator().manual_seed(outputs)) * 0.05)
        head.bias.copy_(torch.arange(outputs, 0, -1) * 1.5)
    return head


@cache
def image_model(labels: tuple[str, ...] = LABELS, patch: int = 8, seed: int = 0) -> explainers.Model:
    """Three blocks over squares of ``patch`` pixels of a picture of 32 x 32, its centre. Made once: whoever changes it takes a copy."""
    shape: dict[str, Any] = {"embed_dim": 24, "depth": 3, "num_heads": 2, "img_size": SQUARE, "patch_size": patch, "num_classes": 4}
    module = replace(FAMILIES["vit"], make=lambda: timm.create_model("vit_tiny_patch16_224", pretrained=False, **shape)).build(seed)
    module.head = _ranked(len(labels))
    return explainers.wrap(module, name="image", preprocess=Preprocessing(resize=SQUARE, crop=SQUARE), labels=list(labels), device="cpu")


@cache
def text_model() -> explainers.Model:
    """Two classes of texts of at most 20 tokens."""
    module = FAMILIES["bert"].build()
    module.classifier = _ranked(2)
    return explainers.wrap(module, name="text", tokenizer=wordpiece(), labels=["negative", "positive"], device="cpu")


@cache
def clip_model() -> explainers.Model:
    """It compares pictures of 32 x 32 with prompts."""
    preprocess = Preprocessing(resize=SQUARE, crop=SQUARE)
    model = explainers.wrap(FAMILIES["hf-clip"].build(), name="clip", tokenizer=wordpiece(), preprocess=preprocess, device="cpu")
    return replace(model, text_side=partial(model.seen_from, "text"))  # whose copies need not find out about it again


#: What makes models, by their names; those that are not named are of images.
MAKES: Mapping[str, Callable[[], explainers.Model]] = {
    "clip": clip_model,
    "reviews-bert": text_model,
    "timm/listed": partial(image_model, seed=1),
    "timm/other": partial(image_model, seed=2),
}


@dataclass
class GatedModels:
    """The models of a server, what holds them, and what was done with them.

    What can be held or fail, by its name: ``load NAME`` and ``fetch NAME`` of a model, each of ``STEPS``, ``forward`` and ``backward``
    for the passes of all models, ``pass 0`` to ``pass 2`` of the slow step. With a number after it, from 0, only the one of that number.
    """

    gates: dict[str, Gate] = field(default_factory=dict)
    errors: dict[str, list[Exception]] = field(default_factory=dict)  # each is raised once, in order
    calls: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)  # of the maps of a step
    scores: dict[str, float] = field(default_factory=dict)  # of every token, in place of those of a step
    catalogue: list[CatalogueEntry] = field(default_factory=lambda: CATALOGUE)
    makes: Mapping[str, Callable[[], explainers.Model]] = field(default_factory=lambda: MAKES)
    downloaded: set[str] = field(default_factory=set)  # names of the hub's models whose files are on the disk at the start

    def gate(self, key: str) -> Gate:
        return self.gates.setdefault(key, Gate())

    def open_all(self) -> None:
        for gate in list(self.gates.values()):
            gate.open()

    def reach(self, key: str) -> None:
        """Note that ``key`` is reached; wait at its gates, and raise its next error."""
        numbered = f"{key} {self.calls.count(key)}"
        self.calls.append(key)
        for name in (key, numbered):
            if name in self.gates:
                self.gates[name].pass_through()
            if self.errors.get(name):
                raise self.errors[name].pop(0)

    def load(self, place: str | Path, device: str | None = None, /, **ways: Any) -> explainers.Model:
        assert threading.current_thread().name == "models"
        name = str(place)
        self.reach(f"load {name}")
        model = replace(self.makes.get(name, image_model)(), name=name)
        explainers.variants(model)  # the pass that finds out what it can be asked is made once for all, and is none of this one's
        return replace(model, forward=partial(self._forward, model.forward))

    def _forward(self, forward: Callable[[Mapping[str, Tensor]], Tensor], tensors: Mapping[str, Tensor]) -> Tensor:
        self.reach("forward")
        logits = forward(tensors)
        if logits.requires_grad:
            logits.register_hook(lambda _: self.reach("backward"))
        return logits

    def fetch(self, name: str, progress: DownloadProgress) -> None:
        progress("Asking the hub", None)
        self.reach(f"fetch {name}")
        progress("Downloading", 0.5)

    def bytes_of(self, place: str | Path, dtype: torch.dtype) -> int | None:
        return bytes_of_weights(self.makes.get(str(place), image_model)().module)

    def source(self) -> ModelSource:
        return ModelSource(self.catalogue, self.load, self.fetch, self.bytes_of, self.downloaded.__contains__)

    @contextmanager
    def in_registry(self) -> Iterator[GatedModels]:
        """Have the methods of the tests in the registry meanwhile; whatever is held goes on at the end."""
        before = dict(METHODS)
        for name in (*STEPS, SLOW_STEP):
            METHODS.pop(name, None)  # of another server of this process
        for name in STEPS:
            self._add_step(name)
        self._add_slow_step()
        try:
            yield self
        finally:
            self.open_all()
            METHODS.clear()
            METHODS.update(before)

    def _add_step(self, name: str) -> None:
        @method(name, title=name.replace("_", " ").capitalize(), rule=None, signed=False, passes="none")
        def step(trace: Trace) -> Tensor:
            """The length of each embedded token."""
            self.reach(name)
            if name in self.notes:
                trace.notes.append(self.notes[name])
            lengths = trace.block_inputs[0].norm(dim=-1)
            return lengths.new_full(lengths.shape, self.scores[name]) if name in self.scores else lengths

    def _add_slow_step(self) -> None:
        @method(SLOW_STEP, title="Slow step", rule=None, signed=False, passes="3 forward", slow=True)
        def slow_step(trace: Trace) -> Tensor:
            """The length of each embedded token, after the model was asked three times."""
            self.reach(SLOW_STEP)
            for number in range(3):
                trace.answer(0, 1, lambda name, tensor: tensor)
                self.reach(f"pass {number}")
            return trace.block_inputs[0].norm(dim=-1)

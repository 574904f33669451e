"""A task as a class: which numbers of a model's output can be asked about, where they are, and how a person names such a place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ImageInput, Prepared, TextInput
from explainers.models.layout import Layout
from explainers.models.libraries.calls import RawForward
from explainers.models.libraries.recognition import Library
from explainers.models.outputs import Output

#: How a page lets a person choose a place: a click on a word, on a patch or on a box, a region that is drawn, or a list.
Control = Literal["words", "patches", "boxes", "region", "list"]
MOST_PLACES = 300  # that are listed: a person chooses one


@dataclass(frozen=True)
class Place:
    """A part of the output that can be asked about, and what the model says there.

    at      how it is written: what ``explain(at=)`` takes
    label   what it is called where maps are shown
    tokens  the first and the last token that it is about, counted from 0; None where it is about none
    patch   the row and the column of the patch that it is about
    box     x0, y0, x1, y1 as shares of the picture that the model saw
    area    which share of that picture it is, where it has no such shape
    says    the label of the top class there, and its probability as ``score``; None where the place has values alone
    """

    at: str
    label: str
    tokens: tuple[int, int] | None = None
    patch: tuple[int, int] | None = None
    box: tuple[float, float, float, float] | None = None
    area: float | None = None
    says: str | None = None
    score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, without what it has not."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True, eq=False)
class TaskInput:
    """One input of which a place is looked for: what the module gave for it, and what it is.

    output  what the module gives, a batch of one
    record  how the input was shown to the model
    layout  how its tokens lie
    labels  names of the model's classes
    tensors what the module was given
    """

    output: Any
    record: ImageInput | TextInput
    layout: Layout
    labels: Sequence[str]
    tensors: Mapping[str, Tensor]


def _as_it_is(prepared: Prepared) -> Prepared:
    return prepared


@dataclass(frozen=True, eq=False)
class Reading:
    """How the logits of one place are read from what the module gives, for any batch of the same input.

    place   the place
    read    from what the module gives to logits (B, C), differentiable
    labels  of these logits; None: those of the model
    output  what they mean
    token   the token whose last hidden state they are made of, which then stands for the class token; None: of several
    notes   what people must know of the number
    moves   whether the place is still found where words before it are gone: then those that are taken away are removed, not masked
    complete  what is added to another input that is asked at the same place
    """

    place: Place
    read: Callable[[Any], Tensor]
    labels: Sequence[str] | None = None
    output: Output = "softmax"
    token: int | None = None
    notes: tuple[str, ...] = ()
    moves: bool = False
    complete: Callable[[Prepared], Prepared] = _as_it_is


class Task(ABC):
    """What a model gives besides one row of logits a sample, in a file of its own; :func:`add_task` makes it known.

    name     as the pipelines of transformers call it
    places_are  what ``at`` takes, in words
    control  how a page lets one choose a place
    texts    what the two texts are called that a model of it reads together; None for one that reads one
    output   what its numbers mean, where no place says otherwise
    tokenizer  of a model of texts, its tokenizer, which ``wrap`` sets; None where there is none
    first_row  whether its numbers are made behind further rows of blocks, or of what several stages give: the blocks are then the first row
             over patches, through which the whole picture goes, and not the last
    general  whether it takes what no other task does, so that it is asked last
    """

    tokenizer: Any = None
    name: ClassVar[str]
    places_are: ClassVar[str]
    control: ClassVar[Control] = "list"
    texts: ClassVar[tuple[str, str] | None] = None
    output: ClassVar[Output] = "softmax"
    first_row: ClassVar[bool] = False
    general: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """The task of a ``module`` that gives this ``output`` for a trial batch; None where it is another one."""

    def raw_forward(self, forward: RawForward) -> RawForward:
        """What the places are read from, of the module's own ``forward``."""
        return forward

    def sample(self, text: str) -> Any:
        """Of ``text``, a sentence, an input with which a model of texts is checked when it is opened."""
        return text

    def complete(self, prepared: Prepared, module: nn.Module) -> Prepared:
        """The input with what the model itself adds to it, such as an answer that it writes; most add nothing."""
        return prepared

    @abstractmethod
    def trial(self, output: Any) -> Tensor:
        """Logits (B, C) of one place: by them the structure of the model is found, and which methods run. It is read as most places are: at
        one token, if that is how.
        """

    def class_count(self, logits: Tensor) -> int:
        """How many names of classes the model has, of what :meth:`trial` gave."""
        return int(logits.shape[-1])

    @abstractmethod
    def places(self, task_input: TaskInput) -> list[Place]:
        """The places of an input that are offered, in the order in which a person looks at them."""

    def usual(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """The place that is meant where none is named: the one that the model is surest of. Raises ExplainerError where there is none."""
        if not places:
            raise ExplainerError(f"This input has nothing to ask about: {self.places_are}.")
        return max(places, key=lambda place: place.score or 0.0)

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """The place that a person wrote. Raises ExplainerError for what is none."""
        for place in places:
            if at.casefold() in (place.at.casefold(), place.label.casefold()):
                return place
        raise self.unknown(at, places)

    def unknown(self, at: str, places: Sequence[Place]) -> ExplainerError:
        """The error of a place that is none."""
        known = ", ".join(place.at for place in places[:8])
        return ExplainerError(f"at={at!r} names no place of this input. Send {self.places_are}{f': here {known}' if known else ''}.")

    @abstractmethod
    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """How the logits at a place are read."""


#: Every task by its name, in the order in which they are asked whether a module is theirs.
TASKS: dict[str, type[Task]] = {}
_Kind = TypeVar("_Kind", bound=type[Task])


def add_task(task: _Kind) -> _Kind:
    """Make a task known: from then on models of it are wrapped, explained and shown. Raises ExplainerError for a name that is taken."""
    if task.name in TASKS:
        raise ExplainerError(f"There is already a task {task.name}.")
    TASKS[task.name] = task
    return task


def task_of(module: nn.Module, library: Library, output: Any, name: str | None = None) -> Task | None:
    """The task of a ``module`` that gives ``output``, or the one called ``name``; None where it gives one row of logits a sample.

    Raises ExplainerError for a name that is unknown, or that does not fit what the module gives.
    """
    if name is None:
        return next(
            (
                task
                for kind in sorted(TASKS.values(), key=lambda kind: kind.general)
                if (task := kind.of(module, library, output)) is not None
            ),
            None,
        )
    if name not in TASKS:
        raise ExplainerError(f"task={name!r}: choose one of {', '.join(TASKS)}")
    task = TASKS[name].of(module, library, output)
    if task is None:
        raise ExplainerError(f"task={name!r} does not fit what {type(module).__name__} gives: {shapes_of(output)}")
    return task


def shapes_of(output: Any) -> str:
    """The shapes of the tensors in what a module gives, in words."""
    if isinstance(output, Tensor):
        return str(tuple(output.shape))
    named = output.items() if isinstance(output, Mapping) else enumerate(output) if isinstance(output, tuple | list) else ()
    return ", ".join(f"{name} {tuple(t.shape)}" for name, t in named if isinstance(t, Tensor)) or type(output).__name__


def transformers_class_ends(module: nn.Module, library: Library, *endings: str) -> bool:
    """Whether the module is one of transformers', with a head that its class's name ends in."""
    return library == "transformers" and type(module).__name__.endswith(endings)


def top_class(logits: Tensor, labels: Sequence[str], output: Output = "softmax") -> tuple[str, float]:
    """The label of the largest of the logits (C,), and its probability."""
    p = logits.detach().double().softmax(-1) if output == "softmax" else logits.detach().double().sigmoid()
    index = int(p.argmax())
    return (labels[index] if index < len(labels) else f"class {index}"), float(p[index])


def tensor_of(output: Any, name: str) -> Tensor | None:
    """The tensor called ``name`` in what a module gives; None where there is none."""
    value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
    return value if isinstance(value, torch.Tensor) else None


def logits_in(output: Any) -> Tensor:
    """The tensor called ``logits`` in what a module gives, which has one."""
    logits = tensor_of(output, "logits")
    assert logits is not None
    return logits

"""A task as a class: which numbers of a model's output can be asked about, where they are, and how a person names such a place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe, optional
from explainers.models.inputs.types import ImageInput, Prepared, TextInput, TextPair
from explainers.models.layout import Layout, OtherTokens
from explainers.models.libraries.calls import RawForward
from explainers.models.libraries.recognition import Library
from explainers.models.outputs import Output
from explainers.old_names import accept_old_names

#: The control with which a person chooses a place on a page: a click on a word, a patch or a box, a drawn region, or a list.
Control = Literal["words", "patches", "boxes", "region", "list"]
MOST_PLACES = 300  # that are listed: a person chooses one


@dataclass(frozen=True)
class Place(Record, name="OutputPlace"):
    """A part of a model's output that can be asked about (what names it, its label, and its tokens, patch, box or area), and what the model
    says there, with its probability.
    """

    at: Annotated[str, describe("What to send as ``at``, and what ``explain(at=)`` takes.")]
    label: Annotated[str, describe("Its name where maps are shown.")]
    tokens: Annotated[tuple[int, int] | None, optional("The first and the last token that it is about, counted from 0.")] = None
    patch: Annotated[tuple[int, int] | None, optional("The row and the column of the patch that it is about.")] = None
    box: Annotated[tuple[float, float, float, float] | None, optional("x0, y0, x1, y1 as shares of the picture that the model saw.")] = None
    area: Annotated[float | None, optional("Its share of that picture, where it is no rectangle.")] = None
    says: Annotated[str | None, optional("The label of the top class there; left out where the place has only values.")] = None
    score: Annotated[float | None, optional("The probability of that class.")] = None


@dataclass(frozen=True, eq=False)
class TaskInput:
    """One input in whose output a place is looked for: the module's output for it, and a record of the input.

    output  the module's output, a batch of one
    record  how the input was shown to the model
    layout  how its tokens lie
    labels  names of the model's classes
    tensors the tensors that the module took
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
    """A function that reads the logits of one place from the module's output, for any batch of the same input.

    place   the place
    read    function from the module's output to the logits (B, C) there, differentiable
    labels  names of these logits; None: those of the model
    output  what the logits mean
    token   index of the token from whose last hidden state they are computed, which methods then use as the class token; None: there are
            several
    other_tokens  further tokens that they are computed from; None: if ``token`` is the one that the head reads, those that it reads next to
                  it, else none
    notes   notes for people on the number
    moves   whether the place can still be found when words before it are removed; if not, words are masked instead
    complete  function that adds to another prepared input what the same place needs, such as an answer
    mark    function that marks in the record of the prepared input which of its own words the model read for this place
    likeness  detectors only: function from the module's output to how like the box of this place the most similar box of each sample is,
              (B,) from 0 to 1
    last_rows  how many of the last tokens it reads logits of, of a model with logits for each token; None: it may read those of all
    """

    place: Place
    read: Callable[[Any], Tensor]
    labels: Sequence[str] | None = None
    output: Output = "softmax"
    token: int | None = None
    notes: tuple[str, ...] = ()
    moves: bool = False
    complete: Callable[[Prepared], Prepared] = _as_it_is
    mark: Callable[[Prepared], Prepared] = _as_it_is
    other_tokens: OtherTokens | None = None
    last_rows: int | None = None
    likeness: Callable[[Any], Tensor] | None = None

    def layout_from(self, layout: Layout) -> Layout:
        """Return ``layout``, the layout of a model's tokens, with the tokens from which this place is read marked in it."""
        kept = layout.other_tokens if self.token is not None and self.token == layout.class_token else OtherTokens()
        return replace(layout, class_token=self.token, other_tokens=kept if self.other_tokens is None else self.other_tokens)


class Task(ABC):
    """A kind of model output other than one row of logits for each sample. Each task is a file; :func:`add_task` registers it.

    name     the name of the task in the pipelines of transformers
    places_are  the places that ``at`` takes, in words
    control  the control with which a page lets people choose a place
    texts    names of the two texts that a model reads together; None for a model that reads one text
    output   what its numbers mean, unless a place says otherwise
    tokenizer  the tokenizer of a model of texts, set by ``wrap``; None if there is none
    first_row  whether its numbers are computed after further rows of blocks, or from the outputs of several stages. The explained blocks
               are then the first row over patches, through which the whole picture goes, and not the last
    own_axes   the axes of the logits by which a module of one's own has this task if ``wrap`` is told so, such as ("samples", "tokens",
               "labels"); empty if only what is known to have the task has it
    reads_pixels  whether the explained tokens are patches of pixels in front of the module, as where no row of its blocks sees the whole
               picture: :mod:`explainers.models.structure.pixel_patches`
    general  whether it accepts any output that no other task accepts, so that it is tried last
    """

    tokenizer: Any = None
    reads_pixels: bool = False
    name: ClassVar[str]
    places_are: ClassVar[str]
    control: ClassVar[Control] = "list"
    texts: ClassVar[tuple[str, str] | None] = None
    output: Output = "softmax"
    first_row: ClassVar[bool] = False
    own_axes: ClassVar[tuple[str, ...]] = ()
    general: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        accept_old_names(cls, {"usual": "default_place", "unknown": "unknown_place"})

    @classmethod
    @abstractmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return the task of ``module``, which comes from ``library``, if the module's ``output`` for a trial batch shows that it has this
        task; else None.
        """

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return the forward from which places are read, given the module's own ``forward``."""
        return forward

    def sample(self, text: str) -> str | TextPair:
        """Return an input of this task, made from the sentence ``text``: a text or a pair of texts. A model of texts is checked with it
        when it is opened.
        """
        return text

    def complete(self, prepared: Prepared, module: nn.Module) -> Prepared:
        """Return the input ``prepared`` followed by what the model, ``module``, itself adds, such as an answer that it writes; in most
        tasks that is nothing.
        """
        return prepared

    @abstractmethod
    def trial(self, output: Any) -> Tensor:
        """Return logits (B, C) at one place of the output, used to find the structure of the model and the methods that can run. The place
        is read as most places are, such as at one token.
        """

    def class_count(self, logits: Tensor) -> int:
        """Return the number of class names that the model has, from ``logits``, the result of :meth:`trial`."""
        return int(logits.shape[-1])

    @property
    def outputs(self) -> str:
        """A phrase for the output of the module, for its report, where it has no classes of its own."""
        return f"numbers at places of the input ({self.name})"

    @abstractmethod
    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the places of the output in ``task_input`` that a page offers, in reading order."""

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the one of the ``places`` of an input's output that is explained if none is named: the one that the model is surest of.

        Raises ExplainerError if there are no places.
        """
        if not places:
            raise ExplainerError(f"This input has nothing to ask about: {self.places_are}.")
        return max(places, key=lambda place: place.score or 0.0)

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place among ``places`` that ``at``, a text, names or labels. Raises ExplainerError if it names none."""
        for place in places:
            if at.casefold() in (place.at.casefold(), place.label.casefold()):
                return place
        raise self.unknown_place(at, places)

    def unknown_place(self, at: str, places: Sequence[Place]) -> ExplainerError:
        """Return the error for ``at`` if it names no place; its message lists the ``places``."""
        known = ", ".join(place.at for place in places[:8])
        return ExplainerError(f"at={at!r} names no place of this input. Send {self.places_are}{f': here {known}' if known else ''}.")

    def usual(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """The old name of :meth:`default_place`, from version 0.2."""
        return self.default_place(task_input, places)

    def unknown(self, at: str, places: Sequence[Place]) -> ExplainerError:
        """The old name of :meth:`unknown_place`, from version 0.2."""
        return self.unknown_place(at, places)

    @abstractmethod
    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place`` in the input ``task_input``: a function from the module's output to the logits there."""


#: A dict of every task, a class, by its name, in the order in which they are asked whether a module is theirs.
TASKS: dict[str, type[Task]] = {}
_Kind = TypeVar("_Kind", bound=type[Task])


def add_task(task: _Kind) -> _Kind:
    """Register ``task``, a class, under its name and return it: from then on its models can be wrapped, explained and shown. Raises
    ExplainerError for a name that is taken.
    """
    if task.name in TASKS:
        raise ExplainerError(f"There is already a task {task.name}.")
    TASKS[task.name] = task
    return task


def task_of(module: nn.Module, library: Library, output: Any, name: str | None = None) -> Task | None:
    """Return the task of a ``module`` of ``library`` that gives ``output``, or the one called ``name``; None if its output is one row of
    logits for each sample.

    Raises ExplainerError for an unknown name, and for a task that does not fit the module's output.
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
    kind = TASKS[name]
    task, logits = kind.of(module, library, output), output if isinstance(output, Tensor) else tensor_of(output, "logits")
    if task is None and kind.own_axes and logits is not None and logits.dim() == len(kind.own_axes):
        task = kind()
    if task is None:
        wanted = f" Logits ({', '.join(kind.own_axes)}) fit it." if kind.own_axes else ""
        raise ExplainerError(f"task={name!r} does not fit what {type(module).__name__} gives: {shapes_of(output)}.{wanted}")
    return task


def shapes_of(output: Any) -> str:
    """Return a text with the shapes of the tensors in ``output``, the output of a module."""
    if isinstance(output, Tensor):
        return str(tuple(output.shape))
    named = output.items() if isinstance(output, Mapping) else enumerate(output) if isinstance(output, tuple | list) else ()
    return ", ".join(f"{name} {tuple(t.shape)}" for name, t in named if isinstance(t, Tensor)) or type(output).__name__


def transformers_class_ends(module: nn.Module, library: Library, *endings: str) -> bool:
    """Return whether ``module`` is of transformers (``library``), with a class name that ends in one of ``endings``."""
    return library == "transformers" and type(module).__name__.endswith(endings)


def top_class(logits: Tensor, labels: Sequence[str], output: Output = "softmax") -> tuple[str, float]:
    """Return the label of the largest of the logits (C,), and its probability from 0 to 1, by softmax or sigmoid as ``output`` says."""
    p = logits.detach().double().softmax(-1) if output == "softmax" else logits.detach().double().sigmoid()
    index = int(p.argmax())
    return (labels[index] if index < len(labels) else f"class {index}"), float(p[index])


def tensor_of(output: Any, name: str) -> Tensor | None:
    """Return the tensor called ``name`` in a module's output; None if there is none."""
    value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
    return value if isinstance(value, torch.Tensor) else None


def logits_in(output: Any) -> Tensor:
    """Return ``output``, a module's, if it is a tensor, else the tensor called ``logits`` in it, which must have one."""
    logits = output if isinstance(output, Tensor) else tensor_of(output, "logits")
    assert logits is not None
    return logits

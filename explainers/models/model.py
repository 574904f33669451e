"""A model and what goes with it: where its blocks are, how its tokens lie, how an input becomes tensors and words."""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.companion_files.calibration import UNCALIBRATED, Calibration
from explainers.models.companion_files.head_words import HeadWords
from explainers.models.companion_files.prompt_words import PromptWords
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.parts import PartName
from explainers.models.inputs.types import Input, ModelKind, PicturePromptInput, Prepared, Side, Windows
from explainers.models.labels import ClassEntry, places_of
from explainers.models.layout import Layout
from explainers.models.libraries.calls import with_last_logits
from explainers.models.outputs import HeadActivation, Output
from explainers.models.report import Report
from explainers.models.structure.block_kinds import BlockKind, OneStream
from explainers.models.tasks import Place, Reading, Task, TaskInput
from explainers.models.tasks.features import REFERENCE

T = TypeVar("T")
MOST_KEPT = 8  # of what is made for single inputs
#: The tensors with one row of tokens for each text, of a model that also reads pictures.
_TEXT_ROWS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "position_ids")


@dataclass(eq=False)
class Model:
    """A Transformer with everything needed to explain it. Made by ``explainers.load`` and ``explainers.wrap``.

    name          its name, as it was loaded or wrapped; ``kind`` is what it reads: "image", "text", "clip" or "molecule"
    module        the user's own module, unchanged
    blocks        the Transformer blocks of the explained tower, in the order they run; a shared block (ALBERT) once for each time it runs
    entry         the module whose first argument is x^1, the embedded tokens (``norm_pre`` where there is one, else block 1)
    labels        names of the classes, in the order of the logits; empty for CLIP, whose classes are prompts
    prepare_input  function from anything in ``Input`` to tensors
    windows_of    texts only: function from a text that is too long for the model to overlapping windows; it returns None for other texts
    prompt_inputs  CLIP only: function from prompts to ``input_ids``, ``attention_mask`` and a record of each prompt
    forward       function from tensors to logits (B, C); for CLIP (B, prompts)
    layout_of     function from tensors to the layout of their tokens
    first_misplaced  function from tensors and their layout to the index of the first sample whose tokens do not lie where they are drawn
                  (None: all do); None itself where the order of tokens cannot depend on what an input shows
    side          CLIP only: whose tokens get the scores, the image's or the prompt's. On the text side the prompts are the samples:
                  ``forward`` gives (prompts, B)
    text_side     CLIP only: the same module seen from its text side; None there
    image_side    for the text side of a CLIP model: the model seen from its image side
    output        what the logits mean: one class of several (``softmax``), a label each, yes or no (``sigmoid``), values (``regression``)
    head_activation  the softmax or sigmoid that ends the module's own head, if there is one
    block_kind    how the blocks take and give tokens, and what follows from it
    class_blocks  modules after the blocks in which a class token may join their tokens, in the order they run
    classes       facts about each class besides its label, in the same order; empty if there are none
    calibration   the calibration of its probabilities, and thresholds beyond which the model does not know
    directions    text classifiers only: directions of features that scores of the calibration use
    prompt_words  CLIP only: the words that it was trained on; None if unknown
    task          the kind of its output, whose places :meth:`at` chooses; None if the output is one row of logits for each sample
    raw_forward   if there is a task: function from tensors to the output from which places are read
    reading       the chosen place, which ``forward`` reads; ``places`` are all places of the input
    head_words    CLIP only: what each head looks for, in words; None if unknown
    fingerprints  models of molecules only: fingerprints of the training molecules, see `explainers.models.companion_files.fingerprints`;
                  None if unknown
    register_neurons  models of images only: outlier tokens and the neurons that cause them; None if unknown
    grey_pixels   models that read a text with pictures in it only: function from the record of an input to the pixel values of grey
                  pictures of the same sizes; None if how its pictures are prepared is not known
    view          function that opens a context in which the module answers as this model; None: none is needed
    report        what was found, guessed and checked when it was opened; None for a model that was only wrapped or loaded
    made_by       the function that made it from its module, and the other arguments, with which a copy of the model is made from a copy of
                  the module
    chat_input    texts only: as ``prepare_input``, with the tokenizer's chat template around the text; None if it has none
    details       facts for pages and reports, by name: heads, width, input size, token limit, source
    cache         results that :meth:`cached` keeps
    """

    name: str
    kind: ModelKind
    module: nn.Module
    blocks: Sequence[nn.Module]
    entry: nn.Module
    labels: Sequence[str]
    prepare_input: Callable[[Input], Prepared]
    forward: Callable[[Mapping[str, Tensor]], Tensor]
    layout_of: Callable[[Mapping[str, Tensor]], Layout]
    first_misplaced: Callable[[Mapping[str, Tensor], Layout], int | None] | None = None
    windows_of: Callable[[str], Windows | None] | None = None
    prompt_inputs: Callable[[Sequence[str]], Prepared] | None = None
    side: Side = "image"
    text_side: Callable[[], Model] | None = None
    image_side: Model | None = None
    block_kind: BlockKind = field(default_factory=OneStream)
    class_blocks: Sequence[nn.Module] = ()
    output: Output = "softmax"
    head_activation: HeadActivation = field(default_factory=HeadActivation)
    classes: Sequence[ClassEntry] = ()
    calibration: Calibration = UNCALIBRATED
    directions: Mapping[str, Tensor] = field(default_factory=dict)
    prompt_words: PromptWords | None = None
    task: Task | None = None
    raw_forward: Callable[[Mapping[str, Tensor]], Any] | None = field(default=None, repr=False)
    reading: Reading | None = None
    places: Sequence[Place] = ()
    head_words: HeadWords | None = None
    fingerprints: Tensor | None = None
    register_neurons: RegisterNeurons | None = None
    view: Callable[[], AbstractContextManager[None]] | None = field(default=None, repr=False)
    report: Report | None = None
    made_by: tuple[Callable[..., Model], Mapping[str, Any]] | None = field(default=None, repr=False)
    chat_input: Callable[[Any], Prepared] | None = field(default=None, repr=False)  # texts: with the tokenizer's chat template around them
    grey_pixels: Callable[[PicturePromptInput], Tensor] | None = field(default=None, repr=False)
    details: dict[str, Any] = field(default_factory=dict)  # heads, width, input size, token limit, source: for pages and reports
    cache: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict, repr=False)  # what was made for the inputs that were asked last

    def __repr__(self) -> str:
        classes = f", {len(self.labels)} classes" if len(self.labels) else ""
        return f"<Model {self.name}: {self.kind}{classes}, {len(self.blocks)} blocks on {self.device}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        """Return a model of a copy of the module, whose blocks and other parts are those of the copy; ``memo`` holds what is copied
        already.
        """
        return self.rebuild(**copy.deepcopy({"module": self.module, **self.made_with}, memo))

    def rebuild(self, **changes: Any) -> Model:
        """Return a model made with the same arguments, except for these ``changes``. Raises ExplainerError for a model that was put
        together by hand.
        """
        if self.made_by is None:
            raise ExplainerError(f"{self.name} was put together by hand and cannot be copied: copy its module, and wrap that")
        make, arguments = self.made_by
        made = make(**{"module": self.module, **arguments, **changes})
        known = (
            "name",
            "labels",
            "classes",
            "calibration",
            "directions",
            "prompt_words",
            "head_words",
            "register_neurons",
            "fingerprints",
            "report",
        )
        return replace(made, **{name: getattr(self, name) for name in known})

    @property
    def made_with(self) -> Mapping[str, Any]:
        """The arguments of :func:`explainers.wrap` that made the model, besides its module; empty for one put together by hand."""
        return {} if self.made_by is None else self.made_by[1]

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Return the groups of classes, such as all dogs: a dict from each group's name in lower case to the indices of its classes.
        :class:`explainers.AnyOf` takes such a name.
        """
        return places_of(self.classes, "groups")

    @cached_property
    def synonyms(self) -> dict[str, tuple[int, ...]]:
        """Return other words for the classes, in lower case, each with the indices of the classes that it may mean."""
        return places_of(self.classes, "synonyms")

    @property
    def reads_text(self) -> bool:
        """Return whether the scored tokens lie in a row, as for texts and molecules, and not on a grid."""
        return self.kind in ("text", "molecule") or self.side == "text"

    @property
    def reads(self) -> tuple[PartName, ...]:
        """The parts of an input that the model reads, such as ("picture", "text"); where it reads videos too, one may take the picture's
        place.
        """
        return tuple(self.details["reads"])

    @property
    def reads_pictures(self) -> bool:
        """Return whether the model reads a text with a picture in it: its tokens are words and patches."""
        return self.details.get("picture_grid") is not None

    @cached_property
    def _text_model(self) -> Model:
        assert self.text_side is not None
        return replace(self.text_side(), calibration=self.calibration, prompt_words=self.prompt_words, report=self.report, image_side=self)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of ``make()``, which is cached under ``key``; the results used least recently are dropped."""
        if key in self.cache:
            self.cache.move_to_end(key)
        else:
            self.cache[key] = make()
            while len(self.cache) > MOST_KEPT:
                self.cache.popitem(last=False)
        value: T = self.cache[key]
        return value

    def clear_caches(self) -> None:
        """Drop what is cached for the inputs that were asked last, of both sides of a CLIP model: it may be on the model's device."""
        self.cache.clear()
        if (text_model := vars(self).get("_text_model")) is not None:  # it was made when it was first asked for
            text_model.cache.clear()

    def seen_from(self, side: Side | None) -> Model:
        """Return the model with its ``side`` explained; None keeps the side it has. Raises ExplainerError if there is no such side."""
        if side is None or (self.kind == "clip" and side == self.side):
            return self
        if self.text_side is None or side != "text":
            raise ExplainerError(f"{self.name} has no {side} side to choose: side= is for models that compare images with prompts")
        return self._text_model

    def at(self, at: str | None, prepared: Prepared) -> Model:
        """Return the model asked about one place of its output: its ``forward`` gives the logits there. ``prepared`` holds the one input.

        ``at`` names a place as the model's task names its places, such as a box; None is the place that the model is surest of. A model
        without a task is returned unchanged. Raises ExplainerError for a place that the input does not have, for any place if the model has
        no task, and for several inputs, as their places differ.
        """
        if at is None and self.reading is not None:
            return self
        if self.task is None or self.raw_forward is None:
            if at is not None:
                raise ExplainerError(f"{self.name} gives one answer to a whole input, so there is no place to choose in it: leave at= out.")
            return self
        if len(prepared) != 1:
            raise ExplainerError(f"A place of one input is explained at a time, and {len(prepared)} were sent: explain them one by one.")
        task, run = self.task, self.raw_forward
        with torch.no_grad(), evaluating(self.module):
            output = run(prepared.tensors)
        task_input = TaskInput(output, prepared.inputs[0], self.layout_of(prepared.tensors), self.labels, prepared.tensors)
        places = task.places(task_input)
        place = task.default_place(task_input, places) if at is None else task.find(at, task_input, places)
        reading = task.reading(place, task_input)
        layout_of = self.layout_of
        return replace(
            self,
            forward=lambda tensors: reading.read(run(with_last_logits(self.module, tensors, reading.last_rows))),
            layout_of=lambda tensors: reading.layout_from(layout_of(tensors)),
            labels=self.labels if reading.labels is None else reading.labels,
            classes=self.classes if reading.labels is None else (),
            output=reading.output,
            calibration=UNCALIBRATED,
            reading=reading,
            places=places,
            details={name: value for name, value in self.details.items() if name != "missing_requirements"},  # which another place may have
        )

    def is_sample(self, name: str) -> bool:
        """Return whether the tensor ``name`` has one row for each sample; the inputs with which a CLIP model compares its samples do
        not, nor have the tiles or packed patches of a picture in a text.
        """
        if name == REFERENCE or (self.reads_pictures and name not in _TEXT_ROWS):
            return False
        return self.kind != "clip" or (name == "pixel_values") == (self.side == "image")

    def repeat(self, tensors: Mapping[str, Tensor], times: int) -> dict[str, Tensor]:
        """Return ``tensors`` with each sample repeated ``times`` times, one after the other; those that samples share are not repeated.

        A picture in a text, which is one sample, is repeated as a whole, with all of its tiles or packed patches.
        """
        repeated = {}
        for name, tensor in tensors.items():
            if self.is_sample(name):
                repeated[name] = tensor.repeat_interleave(times, 0)
            else:
                repeated[name] = torch.cat([tensor] * times) if self.reads_pictures and times > 1 else tensor
        return repeated

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        first = next(self.module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the weights."""
        return next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.get_default_dtype())

    def prepare(self, inputs: Input, chat: bool = False) -> Prepared:
        """Preprocess ``inputs`` as the model expects and return them as tensors with a record of each; see :class:`Prepared`. Raises
        ExplainerError for an input that cannot be read.

        ``chat`` puts the tokenizer's chat template around one prompt for a model that writes. A language model appends its answer to the
        text; if it is asked about a place of an answer, that answer is appended.
        """
        if chat and self.chat_input is None:
            raise ExplainerError(f"{self.name} has no chat template, or writes nothing: leave chat= out.")
        prepared = self.chat_input(inputs) if chat and self.chat_input is not None else self.prepare_input(inputs)
        if self.reading is not None:
            return self.reading.complete(prepared)
        return prepared if self.task is None else self.task.complete(prepared, self.module)

    def windows(self, inputs: object) -> Windows | None:
        """Return the overlapping windows of a text that is longer than the model takes; None for any other input."""
        return self.windows_of(inputs) if isinstance(inputs, str) and self.windows_of is not None else None

    def tensors(self, inputs: Input) -> dict[str, Tensor]:
        """Return the preprocessed tensors of ``inputs``, batch first, on the model's device; ``explain`` takes them as well."""
        return self.prepare_input(inputs).tensors

    @cached_property
    def weights_digest(self) -> str:
        """Return the SHA-256, as hexadecimal text, over names, shapes and bytes of all parameters and buffers, in the order of their
        names.
        """
        digest = hashlib.sha256()
        for name, tensor in sorted(self.module.state_dict().items()):
            flat = tensor.detach().cpu().contiguous()
            digest.update(f"{name}{flat.dtype}{tuple(flat.shape)}".encode())
            digest.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

"""A model and what goes with it: where its blocks are, how its tokens lie, how an input becomes tensors and words."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from PIL import Image
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.calibration import UNCALIBRATED, Calibration
from explainers.models.forms import Form
from explainers.models.labels import ClassEntry, places_of
from explainers.models.outputs import Output, Squashed
from explainers.models.prompt_words import PromptWords

Kind = Literal["image", "text", "clip"]
Side = Literal["image", "text"]
T = TypeVar("T")
MOST_KEPT = 8  # of what is made for single inputs


@dataclass(frozen=True)
class TextPair:
    """Two texts that a classifier reads together: a premise and a hypothesis, a question and an answer."""

    first: str
    second: str


@dataclass(frozen=True)
class Crop:
    """A part of an image that the model is shown in place of the whole: all of it, where it has the proportions of the model's input.

    box  x0, y0, x1, y1 in pixels of the upright original, at whose full resolution it is cut
    """

    image: Image.Image | Path | str
    box: tuple[int, int, int, int]

    def check(self, size: tuple[int, int]) -> None:
        """Raise ExplainerError unless the box lies in an upright original of this width and height."""
        (x0, y0, x1, y1), (width, height) = self.box, size
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
            raise ExplainerError(
                f"the crop {x0},{y0},{x1},{y1} does not lie in the picture, which is {width} x {height} pixels; "
                f"send x0,y0,x1,y1 with 0 <= x0 < x1 <= {width} and 0 <= y0 < y1 <= {height}"
            )


#: What a caller may pass to :meth:`Model.prepare`; a list is a batch.
Input = Image.Image | Path | str | Crop | TextPair | Mapping[str, Tensor] | Sequence[Image.Image | Path | str | Crop | TextPair]


@dataclass(frozen=True)
class ImageInput:
    """How one image was shown to the model. Sizes and the crop are in pixels of the upright original."""

    width: int
    height: int
    crop: tuple[int, int, int, int]  # x0, y0, x1, y1: the part of the original that the model saw
    seen: tuple[int, int]  # width, height of the tensor that the model saw
    pixels: Image.Image | None = field(default=None, repr=False, compare=False)  # RGB, of the size ``seen``: what became the tensor, before
    # it was normalised; None when tensors were passed
    frame: tuple[int, int, int, int] | None = None  # the part that was asked for, where it was a :class:`Crop`


@dataclass(frozen=True)
class Token:
    """One token of a text; ``start`` and ``end`` are character offsets into the text, both 0 for a special token.

    ``part`` is 1 for a token of the second text of a pair, into which its offsets then point.
    """

    text: str
    start: int
    end: int
    special: bool
    part: int = 0


@dataclass(frozen=True)
class Word:
    """One word of a text and the indices of the tokens it was cut into; ``part`` as for a token."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    part: int = 0


@dataclass(frozen=True)
class TextInput:
    """How one text was shown to the model: every token of its row, padding included.

    Of tensors, ``text`` is what they decode to if that gives the same ids again; else it is None and there are no words.
    ``pair`` is the second text of a pair.
    """

    text: str | None
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    pair: str | None = None

    def without_padding(self, mask: Sequence[bool]) -> TextInput:
        """The same text with the tokens whose ``mask`` is False left out; words then count only the tokens that stay."""
        if all(mask):
            return self
        place = list(accumulate(mask, initial=0))
        tokens = tuple(token for token, stays in zip(self.tokens, mask, strict=True) if stays)
        words = tuple(replace(w, tokens=tuple(place[i] for i in w.tokens if mask[i])) for w in self.words)
        return replace(self, tokens=tokens, words=words)


@dataclass(frozen=True)
class Prepared:
    """A batch ready for the model: tensors on its device, one record per sample, and what a person should know."""

    tensors: dict[str, Tensor]
    inputs: tuple[ImageInput | TextInput, ...]
    notes: tuple[tuple[str, ...], ...]  # per sample: truncated text, ...

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Windows:
    """A long text, and its windows in order.

    whole     the text with all of its tokens, special ones at its two ends
    ids       the ids (S,) of those tokens
    prepared  the windows as a batch: the offsets of their tokens point into the whole text
    indices   for each window, the token of ``whole`` that each of its tokens is, padding left out
    """

    whole: TextInput
    ids: tuple[int, ...]
    prepared: Prepared
    indices: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.indices)

    def rows(self, first: int, stop: int) -> Prepared:
        """Some of the windows as a batch."""
        part = slice(first, stop)
        tensors = {name: tensor[part] for name, tensor in self.prepared.tensors.items()}
        return Prepared(tensors, self.prepared.inputs[part], self.prepared.notes[part])

    def content(self, window: int) -> tuple[int, int]:
        """The first and the last of the tokens of ``whole`` that stand for words in a window."""
        words = [index for index in self.indices[window] if not self.whole.tokens[index].special]
        return words[0], words[-1]

    def joined(self, scores: list[Tensor]) -> Tensor:
        """One score (S,) for each token of the whole, from those of each window: the mean of the windows that the token stands in."""
        total, count = torch.zeros(len(self.ids), dtype=torch.float64), torch.zeros(len(self.ids), dtype=torch.float64)
        for values, indices in zip(scores, self.indices, strict=True):
            index = torch.tensor(indices)
            total.index_add_(0, index, values.double())
            count.index_add_(0, index, torch.ones(len(index), dtype=torch.float64))
        return (total / count).float()


@dataclass(frozen=True)
class Layout:
    """How the tokens of one batch lie.

    prefix       tokens before the first patch or word (classification token, registers); for text 1 where there is a [CLS]
    class_token  index of the token that the head reads, whose attention row CLS-methods read; -1 where it depends on the text (the last
                 word of a causal classifier, the end of a prompt): a recording knows which it was; None where the head pools
    grid         (rows, columns) of the patches; None for text
    coarser      (rows, columns) of further, larger patches of the same image, whose tokens follow those of the grid
    """

    prefix: int
    class_token: int | None
    grid: tuple[int, int] | None
    coarser: tuple[tuple[int, int], ...] = ()


@dataclass(eq=False)
class Model:
    """A Transformer with everything needed to explain it. Made by ``explainers.load`` and ``explainers.wrap``.

    module        the user's own module, unchanged
    blocks        the Transformer blocks of the explained tower, in the order they run; a shared block (ALBERT) once for each time it runs
    entry         the module whose first argument is x^1, the embedded tokens (``norm_pre`` where there is one, else block 1)
    labels        names of the classes, in the order of the logits; empty for CLIP, whose classes are prompts
    prepare_input from anything in ``Input`` to tensors
    windows_of    texts only: a text that the model cannot take whole in overlapping windows; None of one that it can
    prompt_inputs CLIP only: prompts to ``input_ids``, ``attention_mask`` and the record of each prompt
    forward       from tensors to logits (B, C); for CLIP (B, prompts)
    layout_of     from tensors to the layout of their tokens
    side          CLIP only: whose tokens get the scores, the image's or the prompt's. On the text side the prompts are the samples:
                  ``forward`` gives (prompts, B)
    text_side     CLIP only: the same module seen from its text side; None there
    output        what the logits mean: one class of several (``softmax``), a label each, yes or no (``sigmoid``), values (``regression``)
    squashed      how the module's own head squashes what it gives
    form          how tokens lie in what the blocks take and give
    class_blocks  modules behind the blocks in which a class token may join their tokens, in the order they run
    classes       what is known of each class besides its label, in the same order; empty where nothing is
    calibration   how sure its probabilities may be, and where it should not be believed
    directions    text classifiers only: directions of features that scores of the calibration are made from
    prompt_words  CLIP only: the words that it was given; None where that is not known
    """

    name: str
    kind: Kind
    module: nn.Module
    blocks: Sequence[nn.Module]
    entry: nn.Module
    labels: Sequence[str]
    prepare_input: Callable[[Input], Prepared]
    forward: Callable[[Mapping[str, Tensor]], Tensor]
    layout_of: Callable[[Mapping[str, Tensor]], Layout]
    windows_of: Callable[[str], Windows | None] | None = None
    prompt_inputs: Callable[[Sequence[str]], Prepared] | None = None
    side: Side = "image"
    text_side: Callable[[], Model] | None = None
    form: Form = field(default_factory=Form)
    class_blocks: Sequence[nn.Module] = ()
    output: Output = "softmax"
    squashed: Squashed = field(default_factory=Squashed)
    classes: Sequence[ClassEntry] = ()
    calibration: Calibration = UNCALIBRATED
    directions: Mapping[str, Tensor] = field(default_factory=dict)
    prompt_words: PromptWords | None = None
    details: dict[str, Any] = field(default_factory=dict)  # heads, width, input size, token limit, source: for pages and reports
    cache: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict, repr=False)  # what was made for the inputs that were asked last

    def __repr__(self) -> str:
        classes = f", {len(self.labels)} classes" if len(self.labels) else ""
        return f"<Model {self.name}: {self.kind}{classes}, {len(self.blocks)} blocks on {self.device}>"

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The groups that classes are in, lower case, each with the indices of its classes: what :class:`explainers.AnyOf` takes."""
        return places_of(self.classes, "groups")

    @cached_property
    def synonyms(self) -> dict[str, tuple[int, ...]]:
        """Other words for classes, lower case, each with the indices of the classes that it may mean."""
        return places_of(self.classes, "synonyms")

    @property
    def reads_text(self) -> bool:
        """Whether the scored tokens are those of texts."""
        return self.kind == "text" or self.side == "text"

    @cached_property
    def _text_model(self) -> Model:
        assert self.text_side is not None
        return replace(self.text_side(), calibration=self.calibration, prompt_words=self.prompt_words)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for a key and kept as long as few others are asked for, and as the model itself."""
        if key in self.cache:
            self.cache.move_to_end(key)
        else:
            self.cache[key] = make()
            while len(self.cache) > MOST_KEPT:
                self.cache.popitem(last=False)
        value: T = self.cache[key]
        return value

    def seen_from(self, side: Side | None) -> Model:
        """The same module, whose ``side`` is explained; None is the side it has. Raises ExplainerError where there is no such side."""
        if side is None or (self.kind == "clip" and side == self.side):
            return self
        if self.text_side is None or side != "text":
            raise ExplainerError(f"{self.name} has no {side} side to choose: side= is for models that compare images with prompts")
        return self._text_model

    def is_sample(self, name: str) -> bool:
        """Whether the tensor ``name`` has one row for each sample. What a CLIP model compares its samples with has not."""
        return self.kind != "clip" or (name == "pixel_values") == (self.side == "image")

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        first = next(self.module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the weights."""
        return next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.get_default_dtype())

    def prepare(self, inputs: Input) -> Prepared:
        """Preprocess ``inputs`` as the model expects; see :class:`Prepared`. Raises ExplainerError for what cannot be read."""
        return self.prepare_input(inputs)

    def windows(self, inputs: object) -> Windows | None:
        """The overlapping windows of a text that is longer than the model takes; None for whatever else."""
        return self.windows_of(inputs) if isinstance(inputs, str) and self.windows_of is not None else None

    def tensors(self, inputs: Input) -> dict[str, Tensor]:
        """The preprocessed tensors of ``inputs``, batch first, on the model's device; ``explain`` takes them as well."""
        return self.prepare(inputs).tensors

    @cached_property
    def weights_digest(self) -> str:
        """SHA-256 over names, shapes and bytes of all parameters and buffers, in the order of their names."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.module.state_dict().items()):
            flat = tensor.detach().cpu().contiguous()
            digest.update(f"{name}{flat.dtype}{tuple(flat.shape)}".encode())
            digest.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def wrapped(model: object) -> Model:
    """``model``, which is one that can be explained. Raises ExplainerError for anything else, such as a module of torch."""
    if isinstance(model, Model):
        return model
    if isinstance(model, nn.Module):
        name = type(model).__name__
        raise ExplainerError(f"A {name} is a module of torch: wrap it first, with model = explainers.wrap(module), and send this model.")
    raise ExplainerError(f"A {type(model).__name__} is no model: send what explainers.load(name) or explainers.wrap(module) gives.")

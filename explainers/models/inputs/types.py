"""What people give to a model, and how it was shown to the model: pictures, texts, molecules, their tokens, words, batches and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import GreyWindow, WindowedPicture

#: What a model takes: images, texts, images and texts, which it compares, or molecules.
ModelKind = Literal["image", "text", "clip", "molecule"]
#: Of the two that a model compares, whose tokens are explained.
Side = Literal["image", "text"]


@dataclass(frozen=True)
class TextPair:
    """Two texts that a classifier reads together: a premise and a hypothesis, a question and an answer."""

    first: str
    second: str


@dataclass(frozen=True)
class PicturePrompt:
    """A picture, and what a vision-language model is asked about it.

    Where the text has the model's own token for a picture (such as ``<image>``), the picture stands there; else before the text.
    """

    picture: Image.Image | Path | str | Crop | WindowedPicture | NDArray[Any]
    text: str


@dataclass(frozen=True)
class Crop:
    """A part of an image that the model is shown in place of the whole: all of it, where it has the proportions of the model's input.

    box  x0, y0, x1, y1 in pixels of the upright original, at whose full resolution it is cut
    """

    image: Image.Image | Path | str | WindowedPicture | NDArray[Any]
    box: tuple[int, int, int, int]

    def check(self, size: tuple[int, int]) -> None:
        """Raise ExplainerError unless the box lies in an upright original of this width and height."""
        (x0, y0, x1, y1), (width, height) = self.box, size
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
            raise ExplainerError(
                f"the crop {x0},{y0},{x1},{y1} does not lie in the picture, which is {width} x {height} pixels; "
                f"send x0,y0,x1,y1 with 0 <= x0 < x1 <= {width} and 0 <= y0 < y1 <= {height}"
            )


@dataclass(frozen=True)
class Clip:
    """Pictures in the order of time, which a model of clips is shown as one input: a list alone would be several inputs.

    frames  PIL images or their paths; a path of a folder of frames (in the order of their names) or of an animation; an animated PIL image;
            an array (frames, height, width, 3) or (frames, 3, height, width) of 0 to 255
    """

    frames: Sequence[Image.Image | Path | str] | Image.Image | Path | str | NDArray[Any] | Tensor = field(repr=False)


#: What a caller may pass to :meth:`Model.prepare`; a list is a batch.
Single = Image.Image | Path | str | Crop | Clip | WindowedPicture | TextPair | PicturePrompt | NDArray[Any]
Input = Single | Mapping[str, Tensor] | Sequence[Single]


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
    frames: int | None = None  # of a clip, how many lie below each other in ``pixels``: one for each row of maps in time
    window: GreyWindow | None = None  # of greys of more than 8 bits, the values that were shown as black to white


#: The ``part`` of tokens that the model wrote itself, of those that a picture became among those of a text, and of those that a chat
#: template laid around it.
ANSWER, PICTURE, TEMPLATE = 2, 3, 4


@dataclass(frozen=True)
class Token:
    """One token of a text; ``start`` and ``end`` are character offsets into the text, both 0 for a special token.

    ``part`` is 1 for a token of the second text of a pair, into which its offsets then point, and :data:`ANSWER` for one of the model's own
    answer. Those are special: they count as given, always stay, and no map lies on them. Those of a picture have the part :data:`PICTURE`,
    and those of a chat template :data:`TEMPLATE`: they too are special.
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
    ``pair`` is the second text of a pair, ``answer`` what a language model wrote behind the text.
    """

    text: str | None
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    pair: str | None = None
    answer: str | None = None

    def without_padding(self, mask: Sequence[bool]) -> TextInput:
        """The same text with the tokens whose ``mask`` is False left out; words then count only the tokens that stay."""
        if all(mask):
            return self
        place = list(accumulate(mask, initial=0))
        tokens = tuple(token for token, stays in zip(self.tokens, mask, strict=True) if stays)
        words = tuple(replace(w, tokens=tuple(place[i] for i in w.tokens if mask[i])) for w in self.words)
        return replace(self, tokens=tokens, words=words)


@dataclass(frozen=True)
class Bond:
    """A bond between two atoms: their places among the atoms of the molecule, and its order, 1.5 for an aromatic one."""

    atoms: tuple[int, int]
    order: float


@dataclass(frozen=True)
class Toxicophore:
    """A group of atoms that is known to make molecules mutagenic: its name, and the places of its atoms."""

    name: str
    atoms: tuple[int, ...]


@dataclass(frozen=True)
class Drawing:
    """A molecule drawn: a plain SVG of this width and height, and where in it each atom lies."""

    svg: str = field(repr=False)
    size: tuple[int, int]
    places: tuple[tuple[float, float], ...] = field(repr=False)


@dataclass(frozen=True)
class MoleculeInput(TextInput):
    """How one molecule was shown to the model: its SMILES as a text, whose words are its atoms.

    A token is an atom with its characters in the SMILES; special ones stand for the whole molecule, or are padding. Of tensors there are no
    SMILES, no bonds and no drawing.
    """

    bonds: tuple[Bond, ...] = ()
    toxicophores: tuple[Toxicophore, ...] = ()
    drawing: Drawing | None = None


@dataclass(frozen=True)
class PicturePromptInput(TextInput):
    """How a picture and a prompt were shown to a vision-language model: the tokens of the prompt, and those of the picture among them.

    picture  how the picture was shown; None of a plain text
    grid     rows and columns of its patches, each a token
    first    the first of these tokens
    """

    picture: ImageInput | None = None
    grid: tuple[int, int] = (0, 0)
    first: int = 0

    @property
    def patches(self) -> slice:
        """Which of the tokens are patches, in raster order."""
        return slice(self.first, self.first + self.grid[0] * self.grid[1])

    def on_picture(self, scores: Tensor) -> Tensor:
        """Those of the scores (S,) that lie on the picture: (rows, columns)."""
        return scores[self.patches].view(self.grid)


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

    def join_scores(self, scores: list[Tensor]) -> Tensor:
        """One score (S,) for each token of the whole, from those of each window: the mean of the windows that the token stands in."""
        total, count = torch.zeros(len(self.ids), dtype=torch.float64), torch.zeros(len(self.ids), dtype=torch.float64)
        for values, indices in zip(scores, self.indices, strict=True):
            index = torch.tensor(indices)
            total.index_add_(0, index, values.double())
            count.index_add_(0, index, torch.ones(len(index), dtype=torch.float64))
        return (total / count).float()

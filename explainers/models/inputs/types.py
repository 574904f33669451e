"""Records of inputs and how they were shown to the model: pictures, texts, molecules, their tokens, words, batches and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, INLINE, Record, as_it_is, describe, optional
from explainers.models.inputs.depth import GreyWindow, WindowedPicture
from explainers.models.inputs.picture_tiles import WHOLE, PictureTile, join_tiles

#: The input of a model: images, texts, images and texts (which it compares), or molecules.
ModelKind = Literal["image", "text", "clip", "molecule"]
#: For a model that compares images with texts: the side whose tokens are explained.
Side = Literal["image", "text"]


@dataclass(frozen=True)
class TextPair:
    """Two texts that a classifier reads together, ``first`` and ``second``, such as a premise and a hypothesis, or a question and an
    answer.
    """

    first: str
    second: str


@dataclass(frozen=True)
class PicturePrompt:
    """A picture, or several, and what a vision-language model is asked about it.

    Where the text has the model's own token for a picture (such as ``<image>``), the picture stands there; else before the text. Several
    pictures are a list; the text then has that token once for each, or not at all. A video is a :class:`Clip` of its frames, for which the
    text may have the model's token for a video.
    """

    picture: OnePicture | Clip | Sequence[OnePicture]
    text: str

    @property
    def pictures(self) -> tuple[OnePicture, ...]:
        """The pictures, in their order. Raises ExplainerError if there are none."""
        if isinstance(self.picture, Clip):
            raise ExplainerError("this model is shown pictures, and a video was sent: send its frames as a list of pictures")
        if not isinstance(self.picture, list | tuple):
            return (self.picture,)  # type: ignore[return-value]  # an array or a path is a sequence too
        if not self.picture:
            raise ExplainerError("the prompt has no picture: send explainers.PicturePrompt(picture, 'What is this?')")
        return tuple(self.picture)


@dataclass(frozen=True)
class Crop:
    """A part of an image that is shown to the model instead of the whole image. Nothing is cut off if it has the proportions of the model's
    input.

    box  x0, y0, x1, y1 in pixels of the upright original; it is cut at full resolution
    """

    image: Image.Image | Path | str | WindowedPicture | NDArray[Any]
    box: tuple[int, int, int, int]

    def check(self, size: tuple[int, int]) -> None:
        """Raise ExplainerError unless the box lies in an upright original of the ``size`` (width, height) in pixels."""
        (x0, y0, x1, y1), (width, height) = self.box, size
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
            raise ExplainerError(
                f"the crop {x0},{y0},{x1},{y1} does not lie in the picture, which is {width} x {height} pixels; "
                f"send x0,y0,x1,y1 with 0 <= x0 < x1 <= {width} and 0 <= y0 < y1 <= {height}"
            )


@dataclass(frozen=True)
class Clip:
    """Pictures in the order of time that are one input of a model of clips; a plain list would be several inputs.

    frames  PIL images or their paths; a path of a folder of frames (in the order of their names) or of an animation; an animated PIL image;
            an array (frames, height, width, 3) or (frames, 3, height, width) of 0 to 255
    """

    frames: Sequence[Image.Image | Path | str] | Image.Image | Path | str | NDArray[Any] | Tensor = field(repr=False)


@dataclass(frozen=True)
class Sound:
    """A sound for a model of sounds.

    samples  numbers from -1 to 1, (samples,), or (channels, samples), of which the mean is taken
    rate     how many samples are a second
    """

    samples: NDArray[Any] = field(repr=False)
    rate: int


#: One picture as a caller may pass it.
OnePicture = Image.Image | Path | str | Crop | WindowedPicture | NDArray[Any]
#: What a caller may pass to :meth:`Model.prepare`; a list is a batch.
Single = Image.Image | Path | str | Crop | Clip | Sound | WindowedPicture | TextPair | PicturePrompt | NDArray[Any]
Input = Single | Mapping[str, Tensor] | Sequence[Single]


@dataclass(frozen=True)
class SoundStretch(Record):
    """The stretch of a sound that a picture of it shows, and how long the sound is, all in seconds."""

    start: float
    end: float
    whole: Annotated[float, describe("The length of the sound that was sent; what lies beyond it is padding.")]


@dataclass(frozen=True)
class ImageInput(Record):
    """One image as it was shown to the model. Sizes and the crop are in pixels of the upright original.

    pixels     RGB picture of the size ``seen`` from which the tensor was made by normalising; None if tensors were passed
    is_placed  False if it is unknown which part of the original the model saw; sizes and crop are then those of ``pixels``
    """

    width: Annotated[int, describe("The width of the upright original, in pixels.")]
    height: Annotated[int, describe("The height of the upright original, in pixels.")]
    crop: Annotated[tuple[int, int, int, int], describe("x0, y0, x1, y1: the part of the upright original that the model saw.")]
    seen: Annotated[tuple[int, int], describe("Columns and rows of pixels that the model saw.")]
    pixels: Annotated[Image.Image | None, HIDDEN] = field(default=None, repr=False, compare=False)
    frame: Annotated[tuple[int, int, int, int] | None, optional("The part that was asked for, where one was.")] = None
    frames: Annotated[
        int | None, optional("How many frames of a clip lie below each other; the grid of a map has the rows of each in turn.")
    ] = None
    window: Annotated[GreyWindow | None, optional("The window of values that is shown, for greys of more than 8 bits.")] = None
    sound: Annotated[SoundStretch | None, optional("The stretch of a sound, where the picture was drawn of one.")] = None
    frame_numbers: Annotated[
        tuple[int, int] | None, optional("Of a video in a prompt: the first and the last of its frames, from 1 on, that these tokens show.")
    ] = None
    is_placed: Annotated[bool, HIDDEN] = True
    sha256: Annotated[str | None, optional("The SHA-256 of the file that was sent to a server.")] = None

    @property
    def kind(self) -> Annotated[Literal["image"], describe()]:
        """The name of this kind of input in JSON: "image"."""
        return "image"


@dataclass(frozen=True, kw_only=True)
class PicturePart(ImageInput):
    """A picture among the tokens of a text: how it was shown to the model, the index of its first token, the rows and columns of its map,
    and its tiles of tokens.
    """

    grid: Annotated[tuple[int, int], describe("Rows and columns of its map; without tiles each of these patches is a token.")]
    first: Annotated[int, describe("The first of its tokens, which have part 3; without tiles they follow each other in raster order.")]
    tiles: Annotated[
        tuple[PictureTile, ...],
        optional("The rectangle that each token covers, for a picture that is more than one grid of tokens."),
    ] = ()

    @property
    def all_tiles(self) -> tuple[PictureTile, ...]:
        """The tiles of the picture: one over all of it where the record names none."""
        return self.tiles or (PictureTile(self.first, self.grid[1], *self.grid, WHOLE),)

    @property
    def patches(self) -> Tensor:
        """The indices of the tokens that are patches, in their order."""
        return torch.cat([tile.tokens.flatten() for tile in self.all_tiles])

    @property
    def image(self) -> ImageInput:
        """How the picture was shown, without its place among the tokens."""
        return ImageInput(**{name: value for name, value in vars(self).items() if name not in ("grid", "first", "tiles")})

    def map_of(self, scores: Tensor) -> Tensor:
        """Return the map of the picture, (rows, columns), from the scores of all tokens (S,): those of its patches, or joined from tiles
        without a change of their sum.
        """
        return join_tiles(scores, self.tiles, self.grid) if self.tiles else scores[self.patches].view(self.grid)


#: The ``part`` of tokens that the model wrote itself, of those that a picture became among those of a text, and of those that a chat
#: template laid around it.
ANSWER, PICTURE, TEMPLATE = 2, 3, 4


@dataclass(frozen=True)
class Token(Record):
    """One token of a text, as the model reads it; offsets are both 0 for a special token.

    ``part`` is 1 for a token of the second text of a pair, whose offsets are in that text; :data:`ANSWER` for a token of the model's own
    answer, :data:`PICTURE` for one of a picture, and :data:`TEMPLATE` for one of a chat template or of a decoder's start. These three are
    special: they are never removed, and no map shows them. Only what an encoder-decoder wrote before the explained words is shown, and is
    special no longer.
    """

    text: str
    start: Annotated[int, describe("The first of its characters.")]
    end: Annotated[int, describe("The character after its last one.")]
    special: Annotated[bool, describe("Whether it stands for no word.")]
    part: Annotated[int, optional("The part of the input: 0, in the second of a pair of texts 1, in an answer 2, in a picture 3.")] = 0


@dataclass(frozen=True)
class Word(Record):
    """One word of a text: its characters in the text, the indices of its tokens, and in a pair which of the texts it is in."""

    text: str
    start: Annotated[int, describe("The first of its characters.")]
    end: Annotated[int, describe("The character after its last one.")]
    tokens: Annotated[tuple[int, ...], describe("The indices of the tokens that it was cut into.")]
    part: Annotated[int, optional("The part of the input: 0, 1 in the second of a pair of texts, 2 in what an encoder-decoder wrote.")] = 0


@dataclass(frozen=True)
class TextInput(Record):
    """One text as it was shown to the model: every token of its row, padding included.

    If tensors were passed, ``text`` is the decoded text, provided that tokenizing it gives the same ids; else it is None and there are no
    words. In JSON ``part`` is left out if it is the same for all tokens.
    """

    text: Annotated[str | None, describe("The text; null where only its tokens are known.")]
    tokens: Annotated[tuple[Token, ...], HIDDEN]
    words: Annotated[tuple[Word, ...], HIDDEN]
    pair: Annotated[str | None, optional("The second text of a pair.", key="text_pair")] = None
    answer: Annotated[str | None, optional("What a language model wrote after the text; its tokens have part 2.")] = None

    @property
    def kind(self) -> Annotated[Literal["text"], describe()]:
        """The name of this kind of input in JSON: "text"."""
        return "text"

    @property
    def texts(self) -> tuple[str | None, str | None, str | None]:
        """The texts by the ``part`` of a word: the text, the second of a pair, and what the model wrote; None for one that there is not."""
        return self.text, self.pair, self.answer

    @property
    def _has_parts(self) -> bool:
        return self.pair is not None or self.answer is not None

    @property
    def _tokens(self) -> Annotated[list[dict[str, Any]], describe(key="tokens", kind=list[Token], write=as_it_is)]:
        if self._has_parts:
            return [{"text": t.text, "start": t.start, "end": t.end, "special": t.special, "part": t.part} for t in self.tokens]
        return [{"text": t.text, "start": t.start, "end": t.end, "special": t.special} for t in self.tokens]

    @property
    def _words(self) -> Annotated[list[dict[str, Any]], describe(key="words", kind=list[Word], write=as_it_is)]:
        words = [{"text": w.text, "start": w.start, "end": w.end, "tokens": list(w.tokens)} for w in self.words]
        return [{**word, "part": w.part} for word, w in zip(words, self.words, strict=True)] if self._has_parts else words

    @property
    def _molecule(self) -> Annotated[MoleculePart | None, optional("The molecule whose SMILES the text is.", key="molecule")]:
        return None

    @property
    def _picture(
        self,
    ) -> Annotated[PicturePart | None, optional("The picture that a vision-language model read with the text.", key="picture")]:
        return None

    @property
    def _further_pictures(
        self,
    ) -> Annotated[tuple[PicturePart, ...], optional("The pictures after the first, in their order.", key="further_pictures")]:
        return ()

    def without_padding(self, mask: Sequence[bool]) -> TextInput:
        """Return this record without the tokens whose ``mask`` is False; its words refer only to the remaining tokens."""
        if all(mask):
            return self
        place = list(accumulate(mask, initial=0))
        tokens = tuple(token for token, stays in zip(self.tokens, mask, strict=True) if stays)
        words = tuple(replace(w, tokens=tuple(place[i] for i in w.tokens if mask[i])) for w in self.words)
        return replace(self, tokens=tokens, words=words)


@dataclass(frozen=True)
class Bond(Record):
    """A bond of a molecule: the two atoms that it joins, and its order."""

    atoms: Annotated[tuple[int, int], describe("The places of its atoms among the words.")]
    order: Annotated[float, describe("1.5 for an aromatic one.")]


@dataclass(frozen=True)
class Toxicophore(Record):
    """A group of atoms that is known to make molecules mutagenic: its name and its atoms."""

    name: str
    atoms: Annotated[tuple[int, ...], describe("The places of its atoms among the words.")]


@dataclass(frozen=True)
class Drawing(Record):
    """A molecule drawn as a plain SVG of outlines, the drawing's size, and the place of each atom in it."""

    svg: str = field(repr=False)
    size: Annotated[tuple[int, int], describe("Width and height.")]
    places: Annotated[tuple[tuple[float, float], ...], describe("Where each atom lies in it.")] = field(repr=False)


@dataclass(frozen=True)
class MoleculePart(Record):
    """What belongs to a molecule besides its SMILES: its bonds, its toxicophores and its drawing.

    bonds         each with the indices of its two atoms among the words, and its order (1.5: aromatic)
    toxicophores  the groups of atoms in it that are known to make molecules mutagenic, each with its name and indices of atoms
    drawing       an SVG with its size and the place of each atom; None if the molecule was not drawn
    """

    bonds: tuple[Bond, ...]
    toxicophores: tuple[Toxicophore, ...]
    drawing: Drawing | None


@dataclass(frozen=True)
class MoleculeInput(TextInput):
    """One molecule as it was shown to the model: its SMILES as a text, whose words are its atoms.

    A token is an atom with its characters in the SMILES; special ones stand for the whole molecule, or are padding. If tensors were passed,
    there are no SMILES, no bonds and no drawing.
    """

    bonds: Annotated[tuple[Bond, ...], HIDDEN] = ()
    toxicophores: Annotated[tuple[Toxicophore, ...], HIDDEN] = ()
    drawing: Annotated[Drawing | None, HIDDEN] = None

    @property
    def _molecule(self) -> Annotated[MoleculePart | None, optional(key="molecule")]:
        return MoleculePart(self.bonds, self.toxicophores, self.drawing)


@dataclass(frozen=True)
class PicturePromptInput(TextInput):
    """A picture and a prompt as a vision-language model read them: the tokens of the prompt, and the picture's among them.

    picture  how the first picture was shown; None for a plain text
    grid     rows and columns of its map; without ``tiles`` each of these patches is a token
    first    index of the first patch among the tokens
    tiles    the parts of the picture that its tokens cover, if these are more than one grid of tokens that follow each other
    others   the pictures after the first
    """

    picture: Annotated[ImageInput | None, HIDDEN] = None
    grid: Annotated[tuple[int, int], HIDDEN] = (0, 0)
    first: Annotated[int, HIDDEN] = 0
    tiles: Annotated[tuple[PictureTile, ...], HIDDEN] = ()
    others: Annotated[tuple[PicturePart, ...], HIDDEN] = ()

    @property
    def _has_parts(self) -> bool:
        return self.picture is not None or super()._has_parts

    @property
    def _picture(self) -> Annotated[PicturePart | None, optional(key="picture")]:
        return next(iter(self.pictures), None)

    @property
    def _further_pictures(self) -> Annotated[tuple[PicturePart, ...], optional(key="further_pictures")]:
        return self.others

    @property
    def pictures(self) -> tuple[PicturePart, ...]:
        """All pictures in the prompt, in their order, each with its place among the tokens; empty for a plain text."""
        if self.picture is None:
            return ()
        shown = {name: value for name, value in vars(self.picture).items() if name not in ("grid", "first", "tiles")}
        return (PicturePart(**shown, grid=self.grid, first=self.first, tiles=self.tiles), *self.others)

    @property
    def picture_names(self) -> tuple[str, ...]:
        """The name of each picture: "picture" if it is the only one, "picture 2" of several, "frame 3" or "frames 3-4" of a video, "sound"
        for one that was drawn of a sound.
        """
        names = []
        for number, picture in enumerate(self.pictures, 1):
            if picture.sound is not None:
                names.append("sound")
            elif picture.frame_numbers is None:
                names.append("picture" if len(self.pictures) == 1 else f"picture {number}")
            else:
                first, last = picture.frame_numbers
                names.append(f"frame {first}" if first == last else f"frames {first}-{last}")
        return tuple(names)

    @property
    def all_tiles(self) -> tuple[PictureTile, ...]:
        """The tiles of all pictures: one over all of a picture where the record names none."""
        return tuple(tile for picture in self.pictures for tile in picture.all_tiles)

    @property
    def patches(self) -> Tensor:
        """The indices of the tokens that are patches of any picture, in their order."""
        return torch.cat([picture.patches for picture in self.pictures])

    def on_picture(self, scores: Tensor, number: int = 0) -> Tensor:
        """Return the map of the picture with this ``number``, from 0 on, as (rows, columns), from the scores of all tokens (S,): those of
        its patches, or joined from tiles without a change of their sum.
        """
        return self.pictures[number].map_of(scores)


@dataclass(frozen=True)
class PromptInput(Record):
    """A prompt whose words are explained: the text that was sent, and its tokens and words as the model read them."""

    prompt: str
    read: Annotated[TextInput, INLINE]


@dataclass(frozen=True)
class Prepared:
    """A batch ready for the model: tensors on its device, one record per sample, and notes for people."""

    tensors: dict[str, Tensor]
    inputs: tuple[ImageInput | TextInput, ...]
    notes: tuple[tuple[str, ...], ...]  # per sample: truncated text, ...

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, first: int, number: int) -> Prepared:
        """Return ``number`` of the samples, from index ``first`` on, as a batch; the batch itself if these are all."""
        if number >= len(self):
            return self
        part = slice(first, first + number)
        return Prepared({name: tensor[part] for name, tensor in self.tensors.items()}, self.inputs[part], self.notes[part])


@dataclass(frozen=True)
class Windows:
    """A text that is too long for the model, and its overlapping windows in order.

    whole     the text with all of its tokens, special ones at its two ends
    ids       the ids (S,) of those tokens
    prepared  the windows as a batch: the offsets of their tokens point into the whole text
    indices   for each window, the index in ``whole`` of each of its tokens, without padding
    """

    whole: TextInput
    ids: tuple[int, ...]
    prepared: Prepared
    indices: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.indices)

    def rows(self, first: int, stop: int) -> Prepared:
        """Return the windows number ``first`` to ``stop`` - 1 as one batch."""
        return self.prepared.rows(first, stop - first)

    def content(self, window: int) -> tuple[int, int]:
        """Return the first and the last of the tokens of ``whole`` that stand for words in a window."""
        words = [index for index in self.indices[window] if not self.whole.tokens[index].special]
        return words[0], words[-1]

    def join_scores(self, scores: list[Tensor]) -> Tensor:
        """Join ``scores``, a tensor for each window of a long text, into one score (S,) for each token of the whole: the mean of the
        windows that hold the token.
        """
        total, count = torch.zeros(len(self.ids), dtype=torch.float64), torch.zeros(len(self.ids), dtype=torch.float64)
        for values, indices in zip(scores, self.indices, strict=True):
            index = torch.tensor(indices)
            total.index_add_(0, index, values.double())
            count.index_add_(0, index, torch.ones(len(index), dtype=torch.float64))
        return (total / count).float()

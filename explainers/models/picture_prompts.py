"""Reader of a picture with a prompt for vision-language models: the picture's tokens are part of the text's."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.chat_prompts import read_chat
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.texts import TextReader
from explainers.models.inputs.transforms import AnyPreprocessing
from explainers.models.inputs.types import (
    PICTURE,
    ImageInput,
    PicturePart,
    PicturePrompt,
    PicturePromptInput,
    Prepared,
    TextInput,
    Token,
    Word,
)
from explainers.models.libraries.recognition import device_of
from explainers.models.libraries.vision_language import picture_tokens_of
from explainers.models.preparing import move_tensors

_GREY = 128  # of 255, of every colour of a picture that is painted grey
_NO_TYPES = (
    "This model can be told by token_type_ids which tokens are of the picture, and its own processor may tell it (Gemma 3 and PaliGemma "
    "let some attend to those after them): that is not done here, and every token attends to those before it alone."
)


@dataclass(frozen=True)
class PicturePromptReader:
    """A reader that converts pictures with prompts to tensors, for one model.

    words   reader of the prompts; recipe  preparation of the pictures, None if unknown; notes  on the recipe
    token   the id that stands for each token of a picture
    grid    rows and columns of these tokens
    """

    words: TextReader
    recipe: AnyPreprocessing | None
    notes: tuple[str, ...]
    token: int
    grid: tuple[int, int]

    @property
    def count(self) -> int:
        """The number of tokens by which the model reads one picture: rows times columns of ``grid``."""
        return math.prod(self.grid)

    def read(self, prompt: PicturePrompt, device: torch.device, chat: bool = False) -> Prepared:
        """Return the tensors and the record of ``prompt``, pictures and their text, on ``device``, with the tokenizer's chat template
        around them if ``chat`` is true. Raises ExplainerError if the text has places for another number of pictures.
        """
        if self.recipe is None:
            raise ExplainerError("how this model's images are prepared is not known; pass preprocess= to wrap, or send tensors")
        made = [self.recipe.of(picture) for picture in prompt.pictures]
        written = None if self.words.tokenizer is None else self.words.tokenizer.convert_ids_to_tokens(self.token)
        further_content = [] if written and written in prompt.text else [{"type": "image"}] * len(made)
        read = read_chat(self.words, prompt.text, device, further_content) if chat else self.words.read([prompt.text], device)
        record = read.inputs[0]
        assert isinstance(record, TextInput)
        ids = read.tensors["input_ids"][0].tolist()
        count = ids.count(self.token)
        check_places(count, len(made))
        places = [i for i, index in enumerate(ids) if index == self.token] or [_first_word_index(record.tokens)] * len(made)
        tensors = {name: self._insert_tokens(name, tensor, places, 1 if count else 0) for name, tensor in read.tensors.items()}
        notes = [*self.notes, *read.notes[0]]
        if not count:
            how = f" Write {written} where it shall be." if written else ""
            notes.append(f"The prompt does not say where the picture stands: it is read before it.{how}")
        laid = self._insert_pictures(record, [picture for _, picture in made], places, 1 if count else 0)
        pixels = torch.stack([pixels for pixels, _ in made])
        return Prepared({**tensors, "pixel_values": pixels}, (laid,), (tuple(notes),))

    def _insert_tokens(self, name: str, tensor: Tensor, places: Sequence[int], placeholders: int) -> Tensor:
        """Return the text ``tensor`` called ``name``, (1, tokens), with the tokens of a picture at each of ``places``, where they replace
        ``placeholders`` tokens.
        """
        filling = tensor[:, : self.count].new_full((1, self.count), self.token if name == "input_ids" else _filling(name))
        parts, start = [], 0
        for place in places:
            parts += [tensor[:, start:place], filling]
            start = place + placeholders
        return torch.cat([*parts, tensor[:, start:]], 1)

    def grey_pixels(self, record: PicturePromptInput) -> Tensor:
        """Return the pixel values of a grey picture of the size of each in ``record``."""
        assert self.recipe is not None
        return torch.stack([self.recipe.of(grey_picture(picture))[0] for picture in record.pictures])

    def _insert_pictures(
        self, record: TextInput, pictures: Sequence[ImageInput], places: Sequence[int], placeholders: int
    ) -> PicturePromptInput:
        """Return the record of a text with the tokens of each of ``pictures`` inserted at its place, where they replace ``placeholders``
        tokens.
        """
        step = self.count - placeholders

        def moved_word(word: Word) -> Word:
            return replace(word, tokens=tuple(i + step * sum(place <= i for place in places) for i in word.tokens))

        tokens: list[Token] = []
        start = 0
        for place in places:
            tokens += [*record.tokens[start:place], *[Token("", 0, 0, False, PICTURE)] * self.count]
            start = place + placeholders
        of_text = [word for word in record.words if not (placeholders and set(places) & set(word.tokens))]
        parts = [
            PicturePart(**vars(picture), grid=self.grid, first=place + number * step)
            for number, (picture, place) in enumerate(zip(pictures, places, strict=True))
        ]
        return PicturePromptInput(
            record.text,
            (*tokens, *record.tokens[start:]),
            tuple(map(moved_word, of_text)),
            picture=pictures[0],
            grid=self.grid,
            first=places[0],
            others=tuple(parts[1:]),
        )

    def read_tensors(self, tensors: Mapping[str, Tensor]) -> Prepared:
        """Return ``tensors`` of one picture and one prompt, from the model's own processor, with a record of them: ``input_ids`` with one
        id for each token of the picture, and ``pixel_values``.
        """
        ids, pixels = tensors.get("input_ids"), tensors.get("pixel_values")
        if ids is None or ids.dim() != 2 or len(ids) != 1 or ids.is_floating_point() or pixels is None or len(pixels) != 1:
            raise ExplainerError(
                "tensors of a picture and a prompt are {'input_ids': integer tensor (1, tokens), 'pixel_values': float tensor "
                "(1, channels, height, width)}, of one picture at a time"
            )
        seen = (ids[0] == self.token).nonzero().flatten().tolist()
        first = seen[0] if seen else 0
        if seen != list(range(first, first + self.count)):
            raise ExplainerError(
                f"input_ids hold {len(seen)} tokens of a picture, the id {self.token}, and the model makes {self.count} of one, which "
                "follow each other:  send what its processor gives"
            )
        outside = torch.ones(ids.shape[1], dtype=torch.bool)
        outside[seen] = False
        of_text = {name: tensor[:, outside.to(tensor.device)] for name, tensor in tensors.items() if tensor.shape == ids.shape}
        (record,) = self.words.read_tensors(of_text)
        height, width = pixels.shape[-2:]
        picture = ImageInput(width, height, (0, 0, width, height), (width, height))
        return Prepared(dict(tensors), (self._insert_pictures(record, [picture], [first], 0),), ((),))


def check_places(places: int, pictures: int) -> None:
    """Raise ExplainerError if a prompt has another number of ``places`` for pictures than of ``pictures``, and any."""
    if places not in (0, pictures):
        raise ExplainerError(
            f"the prompt has {places} place{'s' if places > 1 else ''} for a picture, and {pictures} {'were' if pictures > 1 else 'was'} "
            "sent: write one for each, or none"
        )


def grey_picture(shown: ImageInput) -> Image.Image:
    """Return a grey picture (128 of 255) of the size of the one that ``shown`` records, or of the part of it that was asked for."""
    x0, y0, x1, y1 = shown.frame or (0, 0, shown.width, shown.height)
    return Image.new("RGB", (x1 - x0, y1 - y0), (_GREY,) * 3)


def _first_word_index(tokens: Sequence[Token]) -> int:
    """Return the index of the first of ``tokens`` that is no special one; their number if all are special."""
    return next((i for i, token in enumerate(tokens) if not token.special), len(tokens))


def _filling(name: str) -> int:
    """Return the value that the text tensor called ``name`` has at the tokens of a picture: 1 for masks and types, 0 for positions."""
    return 0 if name == "position_ids" else 1


def picture_reader(
    module: nn.Module,
    words: TextReader | None,
    recipe: AnyPreprocessing | None,
    notes: tuple[str, ...],
    token: int | None,
    sample: dict[str, Tensor],
) -> tuple[PicturePromptReader | None, dict[str, Tensor]]:
    """Return a reader of pictures with prompts, and ``sample`` with the picture's tokens among those of the text; None and ``sample`` for
    other modules.

    ``module`` is the model, ``words`` reads its texts, ``recipe`` prepares its pictures, with ``notes`` on that. ``sample`` holds pixels
    and ids of texts; ``token`` is the id that stands for each token of a picture, None for modules without one.

    Raises ExplainerError if the number of a picture's tokens is not a square.
    """
    if token is None or words is None:
        return None, sample
    with evaluating(module):
        count = picture_tokens_of(module, sample["pixel_values"][:1])
    side = math.isqrt(count)
    if side * side != count or side < 2:
        raise ExplainerError(
            f"{type(module).__name__} makes {count} tokens of a picture, which fill no square grid: where each lies is not known"
        )
    texts = {name: tensor for name, tensor in sample.items() if name != "pixel_values"}
    laid = {
        name: torch.cat([t[:, :1], t.new_full((len(t), count), token if name == "input_ids" else _filling(name)), t[:, 1:]], 1)
        for name, t in texts.items()
    }
    return PicturePromptReader(words, recipe, notes, token, (side, side)), {**laid, "pixel_values": sample["pixel_values"]}


def one_picture_prompt(module: nn.Module, inputs: Any) -> PicturePrompt:
    """Return the one PicturePrompt in ``inputs``, alone or in a list. Raises ExplainerError for several inputs or another kind, in the name
    of ``module``.
    """
    several = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if len(several) != 1 or not isinstance(several[0], PicturePrompt):
        raise ExplainerError(
            f"{type(module).__name__} reads a picture and a prompt: send explainers.PicturePrompt(picture, 'What is this?'), one at a time"
        )
    return several[0]


class ReaderOfPrompts(Protocol):
    """A reader of a picture with a text, or of the tensors of both."""

    def read(self, prompt: PicturePrompt, device: torch.device, chat: bool = False) -> Prepared:
        """Return the tensors and the record of ``prompt`` on ``device``."""

    def read_tensors(self, tensors: Mapping[str, Tensor]) -> Prepared:
        """Return ``tensors`` of one picture and one text with a record of them."""


def prepare_picture_prompts(module: nn.Module, reader: ReaderOfPrompts, inputs: Any, chat: bool = False) -> Prepared:
    """Return one picture with its prompt (with ``chat`` put into the model's chat template), or their tensors (``inputs``), prepared by
    ``reader`` as the input of ``module``. Raises ExplainerError for several inputs or another kind.
    """
    if isinstance(inputs, Mapping):
        prepared = reader.read_tensors(inputs)
    else:
        prepared = reader.read(one_picture_prompt(module, inputs), device_of(module), chat)
        if "token_type_ids" in inspect.signature(module.forward).parameters and "token_type_ids" not in prepared.tensors:
            prepared = replace(prepared, notes=((*prepared.notes[0], _NO_TYPES),))
    prepared.tensors.setdefault("attention_mask", torch.ones_like(prepared.tensors["input_ids"]))  # with which tokens are removed
    return replace(prepared, tensors=move_tensors(prepared.tensors, module))

"""Reader of a text and a picture for models whose row of tokens is the text, then the picture (ViLT)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.texts import TextReader
from explainers.models.inputs.transforms import AnyPreprocessing
from explainers.models.inputs.types import PICTURE, ImageInput, PicturePrompt, PicturePromptInput, Prepared, TextInput, Token
from explainers.models.libraries.words_and_patches import WordsAndPatches
from explainers.models.picture_prompts import grey_picture

_TENSORS = (
    "tensors of a text and a picture are {'input_ids': integer tensor (1, tokens), 'pixel_values': float tensor (1, channels, height, "
    "width)}, of one picture at a time and without padding"
)


@dataclass(frozen=True)
class PictureAfterTextReader:
    """A reader that converts texts with a picture to tensors, for one model.

    words   reader of the texts; recipe  preparation of the pictures, None if unknown; notes  on the recipe
    grid    rows and columns of the patches of a picture of the size that the model declares; others have more or fewer
    """

    module: WordsAndPatches
    words: TextReader
    recipe: AnyPreprocessing | None
    notes: tuple[str, ...]
    grid: tuple[int, int]

    def read(self, prompt: PicturePrompt, device: torch.device, chat: bool = False) -> Prepared:
        """Return the tensors and the record of ``prompt``, a picture and a text, on ``device``; ``chat`` is ignored, as these models answer
        once. Raises ExplainerError for several pictures.
        """
        if self.recipe is None:
            raise ExplainerError("how this model's images are prepared is not known; pass preprocess= to wrap, or send tensors")
        if len(prompt.pictures) != 1:
            raise ExplainerError(f"this model reads one picture with a text, and {len(prompt.pictures)} were sent")
        pixels, shown = self.recipe.of(prompt.pictures[0])
        read = self.words.read([prompt.text], device)
        record = read.inputs[0]
        assert isinstance(record, TextInput)
        return self._joined(read.tensors["input_ids"], pixels[None], record, shown, (*self.notes, *read.notes[0]))

    def read_tensors(self, tensors: Mapping[str, Tensor]) -> Prepared:
        """Return ``tensors`` of one text and one picture, those of a record or from the model's own processor, with a record of them."""
        ids, pixels = tensors.get("input_ids"), tensors.get("pixel_values")
        if ids is None or ids.dim() != 2 or len(ids) != 1 or ids.is_floating_point() or pixels is None or len(pixels) != 1:
            raise ExplainerError(_TENSORS)
        masks = [tensors[name] for name in ("attention_mask", "pixel_mask") if name in tensors]
        if not all(bool(mask.all()) for mask in masks):
            raise ExplainerError(_TENSORS)
        words = ids[:, ids[0] != self.module.picture_token]
        (record,) = self.words.read_tensors({"input_ids": words})
        height, width = pixels.shape[-2:]
        return self._joined(words, pixels, record, ImageInput(width, height, (0, 0, width, height), (width, height)), ())

    def grey_pixels(self, record: PicturePromptInput) -> Tensor:
        """Return the pixel values of a grey picture of the size of the one in ``record``."""
        assert self.recipe is not None
        return torch.stack([self.recipe.of(grey_picture(picture))[0] for picture in record.pictures])

    def _joined(self, ids: Tensor, pixels: Tensor, record: TextInput, shown: ImageInput, notes: tuple[str, ...]) -> Prepared:
        """Return the tensors and the record of a text, with its ``ids`` (1, tokens) and ``record``, and of a picture after it."""
        grid = self.module.grid_of(*pixels.shape[-2:])
        tokens = [*record.tokens, Token("", 0, 0, True, PICTURE), *[Token("", 0, 0, False, PICTURE)] * math.prod(grid)]
        joined = PicturePromptInput(record.text, tuple(tokens), record.words, picture=shown, grid=grid, first=len(record.tokens) + 1)
        return Prepared(self.module.joined(ids, pixels), (joined,), (notes,))


def picture_after_text_reader(
    module: WordsAndPatches, words: TextReader, recipe: AnyPreprocessing | None, notes: tuple[str, ...], sample: Mapping[str, Tensor]
) -> tuple[PictureAfterTextReader, dict[str, Tensor]]:
    """Return the reader of texts with a picture for ``module``, and ``sample``, which holds pixels and ids of texts, with the picture's
    tokens after those of the text. ``words`` reads its texts, ``recipe`` prepares its pictures, with ``notes`` on that.
    """
    grid = module.grid_of(*sample["pixel_values"].shape[-2:])
    reader = PictureAfterTextReader(module, words, recipe, notes, grid)
    return reader, module.joined(sample["input_ids"], sample["pixel_values"])

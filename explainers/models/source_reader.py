"""Reader of a picture or a sound from which an encoder-decoder writes a text: its tokens are the whole source (TrOCR, Whisper)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.inputs.transforms import AnyPreprocessing
from explainers.models.inputs.types import PICTURE, ImageInput, PicturePrompt, PicturePromptInput, Prepared, Token
from explainers.models.libraries.source_writers import PIXELS, WriterSource
from explainers.models.outputs import Forward
from explainers.models.picture_prompts import grey_picture
from explainers.models.preparing import prepare_images
from explainers.models.structure.blocks import Structure
from explainers.models.structure.layouts import check_places


@dataclass(frozen=True)
class SourceReader:
    """A reader that converts a picture, or a sound as a picture, to the tensors of an encoder-decoder that writes from it.

    recipe   preparation of the pictures or sounds, None if unknown; notes  on the recipe
    grid_of  function from the (height, width) of pixels to the rows and columns of its patches
    grid     these of the sample with which the model is tried
    prefix   the number of tokens before the patches, such as a class token
    filler   an id that stands for each token of the picture in ``input_ids``, where the model reads none
    """

    module: nn.Module
    recipe: AnyPreprocessing | None
    notes: tuple[str, ...]
    grid_of: Callable[[int, int], tuple[int, int]]
    grid: tuple[int, int]
    prefix: int
    filler: int

    def read(self, inputs: Any) -> Prepared:
        """Return the tensors and the record of ``inputs``: one picture or sound, alone or in a list or with an empty prompt, or the tensors
        of one. Raises ExplainerError for several, and for a prompt.
        """
        given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        given = [picture for each in given for picture in _without_prompt(each)]
        prepared = prepare_images(self.module, self.recipe, self.notes, given[0] if len(given) == 1 else given)
        if len(prepared) != 1:
            raise ExplainerError(
                f"This model writes from one picture or sound at a time, and {len(prepared)} were sent: send them one by one."
            )
        record = prepared.inputs[0]
        assert isinstance(record, ImageInput)
        grid = self.grid_of(*prepared.tensors[PIXELS].shape[-2:])
        tokens = [*[Token("", 0, 0, True, PICTURE)] * self.prefix, *[Token("", 0, 0, False, PICTURE)] * math.prod(grid)]
        joined = PicturePromptInput("", tuple(tokens), (), picture=record, grid=grid, first=self.prefix)
        return replace(prepared, tensors=self.joined(prepared.tensors[PIXELS]), inputs=(joined,))

    def joined(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return the tensors of pictures or sounds, ``pixels`` (B, channels, height, width), without the tokens of the decoder."""
        count = self.prefix + math.prod(self.grid_of(*pixels.shape[-2:]))
        ids = torch.full((len(pixels), count), self.filler, device=pixels.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), PIXELS: pixels}

    def sample(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return the tensors of ``pixels`` with the start of the decoder."""
        return {name: tensor if name == PIXELS else torch.cat([tensor, tensor[:, :1]], 1) for name, tensor in self.joined(pixels).items()}

    def grey_pixels(self, record: PicturePromptInput) -> Tensor:
        """Return the pixel values of a grey picture of the size of the one in ``record``."""
        assert self.recipe is not None
        return torch.stack([self.recipe.of(grey_picture(picture))[0] for picture in record.pictures])

    def check(self, module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> None:
        """Check by noise in the picture of ``tensors`` that its tokens lie where they are drawn. ``run`` returns the logits of ``module``,
        whose blocks are in ``structure``. Raises ExplainerError if they lie elsewhere.
        """
        place = slice(self.prefix, self.prefix + math.prod(self.grid))

        def run_pictures(given: Mapping[str, Tensor]) -> Tensor:
            return run(self.sample(given[PIXELS]))

        check_places(module, structure, run_pictures, {PIXELS: tensors[PIXELS][:1]}, place, self.grid)


def _without_prompt(given: Any) -> Sequence[Any]:
    """Return the pictures of ``given`` if it has an empty prompt, else ``given`` alone. Raises ExplainerError for a prompt with words."""
    if not isinstance(given, PicturePrompt):
        return [given]
    if given.text.strip():
        raise ExplainerError("This model writes from a picture or a sound alone, and a text was sent with it: leave the text out.")
    return given.pictures


def source_reader(
    module: nn.Module, source: WriterSource, recipe: AnyPreprocessing | None, notes: tuple[str, ...], pixels: Tensor
) -> tuple[SourceReader, dict[str, Tensor]]:
    """Return the reader of the pictures or sounds that ``module`` writes from, its ``source``, and tensors of sample ``pixels`` (B,
    channels, height, width). ``recipe`` prepares them, with ``notes`` on that. Raises ExplainerError if the tokens of its encoder fill no
    grid of patches.
    """
    encoder: Any = module.get_encoder()  # type: ignore[operator]  # of transformers
    with torch.no_grad(), evaluating(module):
        count = encoder(source.from_pixels(pixels[:1]))[0].shape[1]
    if isinstance(recipe, SoundPreparation):
        grid_of = recipe.shape.grid
    else:
        side = getattr(encoder.config, "patch_size", None)
        down, across = (side, side) if isinstance(side, int) else side or (0, 0)

        def grid_of(height: int, width: int) -> tuple[int, int]:
            return (height // down, width // across) if down and across else (0, 0)

    grid = grid_of(*pixels.shape[-2:])
    prefix = count - math.prod(grid)
    if not 0 <= prefix <= _MOST_PREFIX or not math.prod(grid):
        raise ExplainerError(
            f"{type(module).__name__} writes from a picture of which its encoder, a {type(encoder).__name__}, makes {count} tokens, which "
            f"are no grid of patches of {pixels.shape[-2]} x {pixels.shape[-1]} pixels: encoders that keep all patches of one size (ViT, "
            "DeiT, BEiT, as in TrOCR) are read"
        )
    reader = SourceReader(module, recipe, notes, grid_of, grid, prefix, int(getattr(module.config, "decoder_start_token_id", None) or 0))
    return reader, reader.sample(pixels)


_MOST_PREFIX = 16  # tokens before the patches: a class token, one of distillation, registers

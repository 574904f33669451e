"""What a family is: how to build its tiny model, what inputs it takes, and what ``wrap`` must find in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

SIZE = (32, 24)  # height, width of images; 8 x 8 patches lie in 4 rows and 3 columns
SQUARE = (32, 32)
PATCH = 8
TEXT_LENGTH = 9
VOCABULARY = 64
CLASS, SEPARATOR, PADDING, FIRST_WORD = 2, 3, 1, 5  # ids of the special tokens of texts, and of the first ordinary one


@dataclass(frozen=True)
class Family:
    """One row: how to build the model and what ``wrap`` must say about it.

    entry   dotted name of the module whose first argument is x^1, inside the explained model
    blocks  dotted name of every block, in order; ALBERT repeats one block
    heads   of the attention in a block; None without one
    mixed   whether x^1 is past layers in which patches meet, so that a patch of it depends on more than its pixels
    row     how many numbers a token of x^1 has, those of the tokens inside it and of other branches included
    coarser further grids of larger patches
    lossy   whether it has layers so narrow that some of their outputs have no positive product: what deep Taylor gave them is lost
    """

    name: str
    library: Literal["timm", "transformers"]
    kind: Literal["image", "text", "clip"]
    make: Callable[[], nn.Module]
    blocks: tuple[str, ...]
    entry: str
    prefix: int
    class_token: int | None
    grid: tuple[int, int] | None
    size: tuple[int, int] = SIZE
    heads: int | None = 2
    mixed: bool = False
    row: int = 24
    coarser: tuple[tuple[int, int], ...] = ()
    lossy: bool = False

    def build(self, seed: int = 0) -> nn.Module:
        """The model in eval mode; LayerScale, biases and positions are not the zeros they start as."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.make()
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.dim() <= 1 else 0.1))
        return module.eval()

    def inputs(self, batch: int = 2, seed: int = 0) -> dict[str, Tensor]:
        """Random tensors for ``Model.forward``; of several texts, the last is shorter and padded."""
        generator = torch.Generator().manual_seed(seed)
        tensors: dict[str, Tensor] = {}
        if self.kind != "text":
            tensors["pixel_values"] = torch.randn(batch, 3, *self.size, generator=generator)
        if self.kind != "image":
            tensors |= texts(batch, generator)
        return tensors


def texts(batch: int, generator: torch.Generator) -> dict[str, Tensor]:
    """[CLS] words [SEP] padding, and their attention mask."""
    ids = torch.randint(FIRST_WORD, VOCABULARY, (batch, TEXT_LENGTH), generator=generator)
    mask = torch.ones_like(ids)
    ids[:, 0] = CLASS
    for row in range(batch):
        length = TEXT_LENGTH - 3 if row and row == batch - 1 else TEXT_LENGTH
        ids[row, length - 1] = SEPARATOR
        ids[row, length:] = PADDING
        mask[row, length:] = 0
    return {"input_ids": ids, "attention_mask": mask}


SHAPE: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 20,
    "num_labels": 3,
    "pad_token_id": PADDING,
    "bos_token_id": CLASS,
    "eos_token_id": SEPARATOR,
}

"""Models of transformers that read a text and a picture in one row of tokens, the words first, and answer once (ViLT)."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError

_CLASSES = ("ViltForQuestionAnswering", "ViltForImageAndTextRetrieval")
_MATCH = "match"


class WordsAndPatches(nn.Module):
    """A classifier of a text with a picture whose ``input_ids`` hold a token for each in its row: the words, then ``picture_token`` for the
    picture's class token and for each of its patches, row by row. It shares its weights with ``of_transformers``, the module of
    transformers, which is not changed.

    That module lays patches in a random order, each with its position, at every call. Here they lie in the order of the picture: blocks do
    not know where in the row a token lies, so that the logits are the same but for the order of sums.
    """

    def __init__(self, module: Any) -> None:
        """Take ``module``, one of :func:`reads_words_and_patches`."""
        super().__init__()
        self.config = copy.copy(module.config)
        if type(module).__name__.endswith("Retrieval"):
            self.config.id2label = {0: _MATCH}
        else:
            self.config.problem_type = "multi_label_classification"  # each answer yes or no, as in its loss and in the pipeline
        self.picture_token = int(module.config.vocab_size)  # which no word has
        self.of_transformers = module
        self.training = module.training

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of patches of a picture of ``height`` by ``width`` pixels."""
        side = self.config.patch_size
        return height // side, width // side

    def joined(self, ids: Tensor, pixel_values: Tensor) -> dict[str, Tensor]:
        """Return the tensors of texts without padding, of which ``ids`` (B, words) are the tokens, with pictures after them."""
        patches = math.prod(self.grid_of(*pixel_values.shape[-2:]))
        row = torch.cat([ids, ids.new_full((len(ids), 1 + patches), self.picture_token)], 1)
        return {"pixel_values": pixel_values, "input_ids": row, "attention_mask": torch.ones_like(row)}

    def forward(self, input_ids: Tensor, pixel_values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return logits (B, C) for texts with pictures: ``input_ids`` (B, words + 1 + patches), ``pixel_values`` (B, 3, height, width), and
        ``attention_mask`` of the shape of the ids, 0 at tokens that no other attends to.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        words = input_ids.shape[1] - 1 - math.prod(self.grid_of(*pixel_values.shape[-2:]))
        logits: Tensor = self.of_transformers(
            input_ids=input_ids[:, :words],
            attention_mask=mask[:, :words],
            image_embeds=self._embed(pixel_values),
            pixel_mask=mask[:, words:],
        ).logits
        return logits

    def _embed(self, pixel_values: Tensor) -> Tensor:
        """Return the embedded class token and patches (B, 1 + patches, width) of pictures, in the order of the picture. Raises
        ExplainerError if the model leaves patches out.
        """
        whole = torch.ones_like(pixel_values[:, 0], dtype=torch.long)
        with torch.random.fork_rng(devices=[]):  # the order is drawn on the CPU
            tokens, _, (places, (rows, columns)) = self.of_transformers.vilt.embeddings.visual_embed(
                pixel_values, whole, max_image_length=self.config.max_image_length
            )
        if places.shape[1] != rows * columns:
            raise ExplainerError(
                f"this model reads {places.shape[1]} of {rows * columns} patches of a picture, which it draws at random "
                "(max_image_length): send a smaller picture"
            )
        order = (places[..., 0] * columns + places[..., 1]).argsort(1) + 1
        order = torch.cat([torch.zeros_like(order[:, :1]), order], 1)
        in_order: Tensor = tokens.gather(1, order[..., None].expand_as(tokens))
        return in_order


def reads_words_and_patches(module: nn.Module) -> bool:
    """Return whether ``module`` is a model of transformers that :class:`WordsAndPatches` takes."""
    return type(module).__name__ in _CLASSES and type(module).__module__.startswith("transformers.")

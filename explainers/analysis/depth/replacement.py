"""Parts of a model replaced by what they give on average, and how much the loss changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.analysis.depth.asker import Asker, Batch
from explainers.analysis.depth.block_calls import ChangedParts, Part
from explainers.errors import ExplainerError

_READ, _OTHER, _CONTENT, _GROUPS = 0, 1, 2, 3  # kinds of tokens of a text: the one that the head reads, special ones, words


class MeanOutputs:
    """The mean output of each of ``parts`` of a model over the inputs of ``asker``: for pictures by token; for texts by kind of token: the
    one that the head reads, other special ones, words.
    """

    def __init__(self, asker: Asker, parts: Sequence[Part]) -> None:
        self._asker, self.parts = asker, list(parts)
        self._sums: dict[Part, Tensor] = {}
        self._counts: dict[Part, Tensor] = {}
        shapes = {tuple(tensor.shape[1:]) for batch in asker.batches for name, tensor in batch.tensors.items() if name == "pixel_values"}
        self._by_token = not asker.batches[0].model.reads_text and len(shapes) == 1

    def collect(self) -> list[Tensor]:
        """Run the unchanged model on all inputs, sum the outputs of each part, and return the logits of each batch."""

        def collecting(batch: Batch) -> AbstractContextManager[Any]:
            return ChangedParts(batch.model, self.parts, lambda part, given: self._add(part, given, batch)).over_blocks()

        return self._asker.logits(collecting)

    def logits(self, replaced: Collection[Part]) -> list[Tensor]:
        """Return the logits of each batch when the parts ``replaced`` return their mean output."""

        def replacing(batch: Batch) -> AbstractContextManager[Any]:
            return ChangedParts(batch.model, replaced, lambda part, given: self._mean(part, given, batch)).over_blocks()

        return self._asker.logits(replacing)

    def losses(self, replaced: Collection[Part]) -> NDArray[np.float64]:
        """Return the loss of each input when the parts ``replaced`` return their mean output."""
        return self._asker.losses_of(self.logits(replaced))

    def _add(self, part: Part, given: Tensor, batch: Batch) -> None:
        rows = self._rows(given, batch)
        if self._by_token:
            total, count = rows.sum(0), torch.tensor(float(len(rows)), device=rows.device)
        else:
            groups = self._groups(rows, batch)
            total = torch.zeros(_GROUPS, rows.shape[-1], dtype=rows.dtype, device=rows.device).index_add_(0, groups, rows.flatten(0, 1))
            count = torch.bincount(groups, minlength=_GROUPS).to(rows.dtype)
        self._sums[part] = total + self._sums[part] if part in self._sums else total
        self._counts[part] = count + self._counts[part] if part in self._counts else count

    def _mean(self, part: Part, given: Tensor, batch: Batch) -> Tensor:
        rows = self._rows(given, batch)
        if self._by_token:
            mean = (self._sums[part] / self._counts[part]).expand_as(rows)
        else:
            means = self._sums[part] / self._counts[part].clamp(min=1)[:, None]
            mean = means[self._groups(rows, batch)].view_as(rows)
        mean = mean.to(given.dtype)
        return mean.transpose(0, 1) if batch.model.block_kind.tokens_first else mean

    @staticmethod
    def _rows(given: Tensor, batch: Batch) -> Tensor:
        """Return the output of a part, ``given``, with the axis of samples first, whichever of samples or tokens the batch's model puts
        first.
        """
        return given.transpose(0, 1) if batch.model.block_kind.tokens_first else given

    @staticmethod
    def _groups(rows: Tensor, batch: Batch) -> Tensor:
        """Return the kind of each token of a ``batch`` (read by the head, other special token, word or patch) as a number, (B * S,);
        ``rows`` (B, S, D) are its tokens. Raises ExplainerError for pictures of several sizes.
        """
        if rows.dim() != 3 or batch.content is None:
            raise ExplainerError(
                "The pictures have several sizes, so that what a part gives has no mean by patch: send pictures of one size."
            )
        kinds = torch.full(rows.shape[:2], _OTHER, device=rows.device)
        kinds[:, : batch.content.shape[1]][batch.content] = _CONTENT
        token = batch.layout.class_token
        if token is not None:
            kinds[:, token] = _READ  # -1: the last word of a text that is not padded
        return kinds.flatten()

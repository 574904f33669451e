"""Vectors of inputs and of maps, by which rows of a collection are compared; those of inputs come from the pass that is explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.encoders import encoder, final_linear
from explainers.models.eval_mode import evaluating
from explainers.models.model import Model
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after
from explainers.records.result import Attribution, Explanation

MAP_FIELDS = (8, 8)  # rows and columns to which the map of a picture is averaged


class InputVectors:
    """What a model makes of inputs on its way to an answer: the input of its last linear layer, and its embedded tokens.

    example  tensors of one input, with which the layer is found. A CLIP model has an encoder in its place, which is asked apart from the
             answer; a classifier without such a layer has no vectors
    """

    def __init__(self, model: Model, example: Mapping[str, Tensor]) -> None:
        self._model = model
        self._head: nn.Linear | None = None
        if model.kind != "clip":
            try:
                self._head = final_linear(model, example)
            except ExplainerError:
                self._head = None  # the head is of another kind, so that rows have no embedding
        self._taken: dict[bytes, tuple[Tensor, Tensor | None]] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the vectors of what the model is asked inside this context; those noted before are forgotten."""
        self._taken = {}
        if self._head is None:
            yield
            return
        tokens: list[Tensor] = []

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            tokens[:] = [self._model.block_kind.input_tokens(args, kwargs).detach()]

        def leave(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            vectors, logits = args[0].detach(), output.detach()
            if vectors.dim() != 2:
                return
            entered = tokens[0] if tokens and self._model.reads_text and len(tokens[0]) == len(vectors) else None
            for i, row in enumerate(logits.float().cpu()):
                self._taken.setdefault(_key(row), (vectors[i].float().cpu(), None if entered is None else entered[i].float().cpu()))

        handles = [self._head.register_forward_hook(in_this_thread(leave))]
        if self._model.reads_text:
            handles.append(self._model.entry.register_forward_pre_hook(in_this_thread(enter), with_kwargs=True))
        with remove_hooks_after(handles):
            yield

    def embeddings(self, explanations: Sequence[Explanation], tensors: Mapping[str, Tensor]) -> list[list[float]]:
        """Return the vector of each explained input; empty ones for a model without.

        ``tensors`` are those of the batch, of which a CLIP model is asked for the embeddings of the pictures.
        """
        if self._model.kind == "clip":
            with torch.no_grad(), evaluating(self._model.module):
                vectors: list[list[float]] = encoder(self._model).forward(tensors).float().cpu().tolist()
            return vectors
        taken = (self._taken.get(_key(explanation.logits)) for explanation in explanations)
        return [[] if each is None else each[0].tolist() for each in taken]

    def map_embedding(self, explanation: Explanation, attribution: Attribution) -> list[float]:
        """Return the embedding of a map of one of the inputs; empty for a text whose embedded tokens are not known.

        The map, divided by the sum of its magnitudes, is averaged over 8 by 8 fields of a picture, as in SpRAy (Lapuschkin et al., 2019);
        that of a text is multiplied with the tokens' embeddings and summed over the tokens, so that maps of the same words are alike
        wherever these stand.
        """
        scores = attribution.scores.double() * attribution.content
        scores = scores / scores.abs().sum().clamp(min=torch.finfo(torch.float64).tiny)
        if attribution.patches is not None:
            grid = scores[attribution.content].view(1, *attribution.patches)
            values: list[float] = F.adaptive_avg_pool2d(grid, MAP_FIELDS).flatten().tolist()
            return values
        tokens = self._tokens_of(explanation, len(scores))
        return [] if tokens is None else (scores @ tokens.double()).tolist()

    def _tokens_of(self, explanation: Explanation, count: int) -> Tensor | None:
        """Return the embedded tokens (``count``, D) of an input, without padding; None if they are not known."""
        tokens = self._taken.get(_key(explanation.logits), (None, None))[1]
        if tokens is None or len(tokens) == count:
            return tokens
        mask = explanation.tensors.get("attention_mask")
        if mask is None or mask.shape != (1, len(tokens)) or int(mask.sum()) != count:
            return None
        return tokens[mask[0].bool().cpu()]


def _key(logits: Tensor) -> bytes:
    """Return the bytes of the logits (C,) of an input, by which what was noted of it is found again."""
    return bytes(logits.float().cpu().contiguous().numpy().tobytes())

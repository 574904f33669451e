"""FullGrad's bias terms of one backward pass: by the token where they act, or of none."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.layout import Layout
from explainers.models.structure.block_kinds import BlockKind


class BiasTerms:
    """The sums of bias terms: ``by_token`` (B, S), and ``unplaced`` (B,), which belong to no token."""

    def __init__(self, x: Tensor, layout: Layout, class_tokens: Tensor | None, block_kind: BlockKind) -> None:
        """Start with no terms for tokens like ``x`` (B, S, D). A term without an axis of tokens goes to the first prefix token, to the one
        that the head reads (``class_tokens`` (B,)), or to none. ``block_kind`` tells how tokens lie in the blocks.
        """
        self.by_token = x.new_zeros(x.shape[:2])
        self.unplaced = x.new_zeros(len(x))
        self._layout, self._class_tokens, self._block_kind = layout, class_tokens, block_kind

    def add(self, signal: Tensor, bias: Tensor) -> None:
        """Add the term signal * bias to the account. Raises ExplainerError if it has no axis of samples."""
        batch = len(self.by_token)
        if self._block_kind.tokens_first and signal.dim() == 3 and signal.shape[:2] == self.by_token.T.shape:
            signal, bias = signal.transpose(0, 1), bias.transpose(0, 1) if bias.dim() == 3 else bias
        if bias.dim() == 1 and signal.dim() == 3 and signal.shape[:2] == self.by_token.shape:  # most of them, without the product
            self.by_token += signal.detach() @ bias.detach()
            return
        term = (signal * bias).detach()
        if term.shape[0] != batch or signal.dim() < 2:
            if term.shape[0] % batch:
                raise ExplainerError("The model mixes its samples: a tensor inside it has no batch dimension. Explain one input at a time.")
            by_patch = self._block_kind.by_patch(term, batch, self._layout)
            if by_patch is not None:
                self.by_token[:, self._layout.patches] += by_patch
            else:
                self.unplaced += term.reshape(batch, -1).sum(1)
            return
        by_token = self._block_kind.by_token(term, self.by_token.shape[1], self._layout)
        if by_token is not None:
            self.by_token += by_token
        elif self._layout.prefix:
            self.by_token[:, 0] += term.reshape(batch, -1).sum(1)
        elif self._class_tokens is not None:
            self.by_token[torch.arange(batch), self._class_tokens] += term.reshape(batch, -1).sum(1)
        else:
            self.unplaced += term.reshape(batch, -1).sum(1)

"""FullGrad's bias terms of one backward pass: by the token where they act, or of none."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.models.block_io import BlockIO
from explainers.models.layout import Layout


class BiasTerms:
    """The sums of bias terms: ``by_token`` (B, S), and ``unplaced`` (B,), which belong to no token."""

    def __init__(self, x: Tensor, layout: Layout, class_tokens: Tensor | None, block_io: BlockIO) -> None:
        """``x`` (B, S, D) are tokens of the model; a term without an axis of tokens goes to the first prefix token, to the one that the
        head reads, ``class_tokens`` (B,), or to nobody. ``block_io`` says how tokens lie in the blocks.
        """
        self.by_token = x.new_zeros(x.shape[:2])
        self.unplaced = x.new_zeros(len(x))
        self._layout, self._class_tokens, self._block_io = layout, class_tokens, block_io

    def add(self, signal: Tensor, bias: Tensor) -> None:
        """Account for the term signal * bias. Raises ExplainerError where it has no axis of samples."""
        batch = len(self.by_token)
        if self._block_io.tokens_first and signal.dim() == 3 and signal.shape[:2] == self.by_token.T.shape:
            signal, bias = signal.transpose(0, 1), bias.transpose(0, 1) if bias.dim() == 3 else bias
        if bias.dim() == 1 and signal.dim() == 3 and signal.shape[:2] == self.by_token.shape:  # most of them, without the product
            self.by_token += signal.detach() @ bias.detach()
            return
        term = (signal * bias).detach()
        if term.shape[0] != batch or signal.dim() < 2:
            if term.shape[0] % batch:
                raise ExplainerError("The model mixes its samples: a tensor inside it has no batch dimension. Explain one input at a time.")
            patches = math.prod(self._layout.grid or ())
            if self._block_io.is_nested and term.shape[0] == batch * patches:
                self.by_token[:, self._layout.prefix :] += term.reshape(batch, patches, -1).sum(2)
            else:
                self.unplaced += term.reshape(batch, -1).sum(1)
            return
        by_token = self._by_token(term)
        if by_token is not None:
            self.by_token += by_token
        elif self._layout.prefix:
            self.by_token[:, 0] += term.reshape(batch, -1).sum(1)
        elif self._class_tokens is not None:
            self.by_token[torch.arange(batch), self._class_tokens] += term.reshape(batch, -1).sum(1)
        else:
            self.unplaced += term.reshape(batch, -1).sum(1)

    def _by_token(self, term: Tensor) -> Tensor | None:
        """(B, S) from a term with an axis of tokens, or with height and width of the map of patches; None where it has none."""
        batch, tokens = self.by_token.shape
        # (B, C) has no tokens, even where there happen to be as many classes or channels as tokens
        places = (1, term.dim() - 2, term.dim() - 1) if term.dim() > 2 else ()
        if self._block_io.branches:
            return self._by_branch(term)
        grid, prefix = self._layout.grid, self._layout.prefix
        if term.dim() == 3 and prefix and grid is not None and term.shape[1] == grid[0] * grid[1] == tokens - prefix:  # patches alone
            return F.pad(term.sum(2), (prefix, 0))
        axis = next((a for a in places if term.shape[a] == tokens), None)
        if term.dim() == 4 and grid is not None and grid[0] * grid[1] == tokens - prefix:
            for down in (2, 1):
                if term.shape[down : down + 2] == grid:
                    return F.pad(term.movedim((down, down + 1), (1, 2)).reshape(batch, tokens - prefix, -1).sum(2), (prefix, 0))
        return None if axis is None else term.movedim(axis, 1).reshape(batch, tokens, -1).sum(2)

    def _by_branch(self, term: Tensor) -> Tensor | None:
        """(B, S) from a term over the tokens of one branch, or over those that stand before its patches."""
        if term.dim() != 3:
            return None
        by_token = torch.zeros_like(self.by_token)
        for (prefix, patches), (before, after) in zip(self._block_io.branches, self._block_io.places, strict=True):
            if term.shape[1] == prefix + patches:
                by_token[:, before] += term[:, :prefix].sum(2)
                by_token[:, after] += term[:, prefix:].sum(2)
                return by_token
        return None

"""FullGrad's bias terms of one backward pass: by the token where they act, or of none."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.autograd.nodes import Block, Nodes
from explainers.autograd.structure.bias_rows import (
    BiasPlaces,
    BiasRows,
    PullAgain,
    are_as_tokens,
    follow_tokens,
    in_place,
    may_turn_axes,
    rows_in,
)
from explainers.errors import ExplainerError
from explainers.models.layout import Layout
from explainers.models.structure.block_kinds import BlockKind

_BY_AXES = BiasPlaces()


class BiasTerms:
    """The sums of bias terms: ``by_token`` (B, S), and ``unplaced`` (B,), which belong to no token."""

    def __init__(
        self, x: Tensor, layout: Layout, class_tokens: Tensor | None, block_kind: BlockKind, places: BiasPlaces = _BY_AXES
    ) -> None:
        """Start with no terms for tokens like ``x`` (B, S, D) in this ``layout``. A term without an axis of tokens goes to the first prefix
        token, to the one that the head reads (``class_tokens`` (B,)), or to none. ``block_kind`` tells how tokens lie in the blocks, and
        ``places`` where they lie in another way.
        """
        self.by_token = x.new_zeros(x.shape[:2])
        self.unplaced = x.new_zeros(len(x))
        self._layout, self._class_tokens, self._block_kind = layout, class_tokens, block_kind
        self._places = places

    def add(self, signal: Tensor, bias: Tensor, position: int | None = None) -> None:
        """Add the term signal * bias of the operator at ``position``. Raises ExplainerError if it has no axis of samples."""
        batch = len(self.by_token)
        rows = None if position is None else self._places.rows.get(position)
        if rows is not None:
            self._add_rows((signal * bias).detach(), rows)
            return
        if self._block_kind.tokens_first and signal.dim() == 3 and signal.shape[:2] == self.by_token.T.shape:
            signal, bias = signal.transpose(0, 1), bias.transpose(0, 1) if bias.dim() == 3 else bias
        has_token = position not in self._places.without_token
        if (
            has_token and bias.dim() == 1 and signal.dim() == 3 and signal.shape[:2] == self.by_token.shape
        ):  # most of them, without the product
            self.by_token += signal.detach() @ bias.detach()
            return
        term = (signal * bias).detach()
        if term.shape[0] != batch or signal.dim() < 2:
            if term.shape[0] % batch:
                raise ExplainerError("The model mixes its samples: a tensor inside it has no batch dimension. Explain one input at a time.")
            by_patch = None if not has_token else self._block_kind.by_patch(term, batch, self._layout)
            if by_patch is not None:
                self.by_token[:, self._layout.patches] += by_patch
            else:
                self.unplaced += term.reshape(batch, -1).sum(1)
            return
        before, tokens = None if position is None else self._places.rows_before.get(position), self.by_token.shape[1]
        if before is not None and term.dim() == 3:  # the others are of no token
            self.by_token += term[:, before : before + tokens].sum(-1)
            term = torch.cat([term[:, :before], term[:, before + tokens :]], 1)
            has_token = False
        by_token = self._block_kind.by_token(term, tokens, self._layout) if has_token else None
        if by_token is not None:
            self.by_token += by_token
        elif self._layout.prefix:
            self.by_token[:, 0] += term.reshape(batch, -1).sum(1)
        elif self._class_tokens is not None:
            self.by_token[torch.arange(batch), self._class_tokens] += term.reshape(batch, -1).sum(1)
        else:
            self.unplaced += term.reshape(batch, -1).sum(1)

    def _add_rows(self, term: Tensor, rows: BiasRows) -> None:
        """Add a term whose rows are of the tokens that ``rows`` tells. Raises ExplainerError for rows of no token among several samples."""
        samples, tokens = self.by_token.shape
        sums, of_none = rows.sum_by_token(term, samples * tokens)
        self.by_token += sums.view_as(self.by_token)
        if rows.are_by_sample(samples, tokens) or samples == 1:
            self.unplaced += of_none.reshape(samples, -1).sum(1)
        elif bool(of_none.any()):
            raise ExplainerError("A bias inside the model's blocks acts where several tokens come together. Explain one input at a time.")


@dataclass(frozen=True)
class BiasFacts:
    """Facts about the rows at which the biases in the blocks act.

    elsewhere    whether some bias acts at rows whose tokens its axes do not tell, as they are flattened or sorted
    of_some      whether some bias acts at rows that are not all tokens in their order, such as those of the patches alone
    of_no_token  the positions of the biases that act at no token, although an axis is as long
    joined       the positions of the biases at some rows of several tokens, whose other rows do not lie as the tokens do
    """

    elsewhere: bool = False
    of_some: bool = False
    of_no_token: frozenset[int] = frozenset()
    joined: frozenset[int] = frozenset()


def facts_of_biases(nodes: Nodes, layout: Layout, block_kind: BlockKind, pull: PullAgain, *, keeps_order: bool = True) -> BiasFacts:
    """Return facts about the biases in the blocks of ``nodes``. ``layout`` and ``block_kind`` say how tokens lie, ``pull`` goes back.
    ``keeps_order``: whether tensors in the blocks with a row for each token have these rows in the order of the tokens.
    """
    elsewhere, of_some, of_no_token, joined = False, False, set[int](), set[int]()
    unclear_blocks = [
        block
        for block in nodes.blocks
        if not keeps_order or not all(are_as_tokens(out.shape, block) for out in block.biased.values()) or may_turn_axes(nodes, block)
    ]
    known = in_place(nodes, pull) if unclear_blocks else set()
    for block in unclear_blocks:
        if known.issuperset(block.biased):
            continue
        rows_of, tokens = rows_in(block, pull), block.input.shape[1]
        for position, rows in rows_of.items():
            out = block.biased[position].detach()
            term = torch.rand(out.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(out)
            if rows.has_mixed:
                term = term * (rows.by_place >= 0)
            places = (_BY_AXES, BiasPlaces({position: rows}))
            by_axes, by_rows = (BiasTerms(block.input.detach(), layout, None, block_kind, each) for each in places)
            for terms in (by_axes, by_rows):
                terms.add(term, torch.ones_like(term), position)
            if not torch.allclose(by_axes.by_token, by_rows.by_token, rtol=1e-3):
                elsewhere = True
                joined |= {position} if rows.has_mixed else set()
            of_some |= not are_all_tokens(rows, out, block, block_kind)
        unclear = [
            position
            for position, out in block.biased.items()
            if (position not in rows_of or (rows_of[position].has_mixed and position not in joined))
            and out.requires_grad
            and out.dim() == 3
            and tokens in out.shape[1:]
            and len(out) == len(block.input)
        ]
        of_no_token |= set(unclear) - follow_tokens(block, unclear, pull)
    return BiasFacts(elsewhere, of_some, frozenset(of_no_token), frozenset(joined))


def are_all_tokens(rows: BiasRows, out: Tensor, block: Block, block_kind: BlockKind) -> bool:
    """Return whether the ``rows`` of ``out``, a tensor in a block, are all tokens of each sample in their order, in the axes in which
    ``block_kind`` looks for them; rows of several tokens or of none may be at any place.
    """
    samples, tokens = block.input.shape[:2]
    numbers = torch.arange(tokens, dtype=out.dtype, device=out.device).expand(len(out), -1)
    by_axes = block_kind.spread(numbers, out, block.stream) if rows.are_by_sample(samples, tokens) else None
    return by_axes is not None and bool(((by_axes == (rows.by_place % tokens).to(out.dtype)) | (rows.by_place < 0)).all())

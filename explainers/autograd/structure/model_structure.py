"""What a recorded pass shows of its model's structure, each question answered when it is first asked."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from explainers.autograd.nodes import Node, Nodes, users_of
from explainers.autograd.signals import AttentionParts
from explainers.autograd.structure import attention as attention_nodes
from explainers.autograd.structure.attention_kinds import OVER_TOKENS, AttentionKind, Gradient, attention_kind_of
from explainers.autograd.structure.class_attention import ClassAttention, class_attention
from explainers.autograd.structure.pooling import pooling_attention
from explainers.autograd.structure.positions import added_before
from explainers.autograd.structure.residual import sums_in
from explainers.models.layout import Layout
from explainers.models.structure.block_kinds import BlockKind


class ModelStructure:
    """Questions to the nodes of a pass. ``gradient`` answers what their list alone cannot.

    attention_kind  what attention in the blocks is known to be over; None: to be found out
    is_text         texts have no class token that joins behind the blocks
    """

    def __init__(
        self, nodes: Nodes, layout: Layout, block_kind: BlockKind, gradient: Gradient, is_text: bool, attention_kind: AttentionKind | None
    ) -> None:
        self._nodes, self._layout, self._block_kind, self._gradient, self._is_text = nodes, layout, block_kind, gradient, is_text
        self._known_kind = attention_kind

    @cached_property
    def _users(self) -> dict[int, list[Node]]:
        return users_of(self._nodes.ran)

    @cached_property
    def _candidates(self) -> list[attention_nodes.Attention | None]:
        """Per block what has the shape of attention over its tokens."""
        return [attention_nodes.attention_of(self._nodes, block, self._users) for block in self._nodes.blocks]

    @cached_property
    def _kinds(self) -> list[AttentionKind]:
        """Per block what that is over."""
        return [
            OVER_TOKENS if each is None else self._known_kind or attention_kind_of(each, block.input, self._gradient)
            for each, block in zip(self._candidates, self._nodes.blocks, strict=True)
        ]

    @property
    def attention_kind(self) -> AttentionKind:
        """What attention in the blocks is over: tokens, unless it is over something else in one of them."""
        return next((kind for kind in self._kinds if kind is not OVER_TOKENS), OVER_TOKENS)

    @cached_property
    def _attentions(self) -> list[attention_nodes.Attention | None]:
        return [each if kind.no_map is None else None for each, kind in zip(self._candidates, self._kinds, strict=True)]

    @property
    def attentions(self) -> list[Tensor | None]:
        """Per block (B, H, S, S), None where it has no attention over its tokens."""
        return [None if each is None else each.weights for each in self._attentions]

    @property
    def contexts(self) -> list[Tensor | None]:
        """Per block (B, H, S, d): what attention gives, before its projection."""
        return [None if each is None else each.context for each in self._attentions]

    @cached_property
    def parts(self) -> list[AttentionParts | None]:
        """Per block what its attention was made of, None where that cannot be told."""
        return [None if each is None else each.parts() for each in self._attentions]

    @cached_property
    def attention_inputs(self) -> list[Tensor | None]:
        """Per block (B, S, D): what its attention is given, in most models the first norm's output; None where that is no one tensor."""
        pairs = zip(self._attentions, self._nodes.blocks, strict=True)
        return [None if each is None else attention_nodes.input_of(each, block) for each, block in pairs]

    @cached_property
    def output_projections(self) -> list[tuple[Tensor, Tensor | None] | None]:
        """Per block weight and bias of the linear map that takes what attention gives."""
        products = [None if each is None else each.product for each in self._attentions]
        return [None if product is None else attention_nodes.projection_of(product, self._users) for product in products]

    @cached_property
    def sums(self) -> list[list[Tensor]]:
        """Per block (B, S, D) each: the residual stream after each sum of two paths."""
        return [sums_in(self._nodes, block, self._block_kind) for block in self._nodes.blocks]

    @property
    def mid_residuals(self) -> list[Tensor | None]:
        """Per block (B, S, D): the residual stream after attention, None where there is none."""
        return [sums[0] if sums else None for sums in self.sums]

    @cached_property
    def positions(self) -> tuple[Tensor, Tensor] | None:
        """Recorded from the pixels: position embeddings, and the tokens with them added. A model of several streams has positions of each,
        of which only some are embeddings of the grid's patches.
        """
        return None if self._block_kind.no_positions is not None else added_before(self._nodes, self._layout)

    @cached_property
    def _projections(self) -> tuple[frozenset[int], bool]:
        return attention_nodes.projections(self._nodes)

    @property
    def projections(self) -> frozenset[int]:
        """The positions of the linear maps that make queries, keys and values."""
        return self._projections[0]

    @property
    def rotary(self) -> bool:
        """Whether attention in the blocks rotates queries and keys by position."""
        return self._projections[1]

    @cached_property
    def normalised(self) -> frozenset[int]:
        """The positions of the linear attentions that are divided by their normaliser."""
        return attention_nodes.normalised(self._nodes)

    @cached_property
    def pooling(self) -> Tensor | None:
        """(B, H, queries, S): attention with which a head pools the tokens."""
        return pooling_attention(self._nodes)

    @cached_property
    def class_attention(self) -> ClassAttention:
        """That of a class token which joins the tokens behind the blocks."""
        return ClassAttention() if self._is_text else class_attention(self._nodes, self._is_alone)

    def _is_alone(self, value: Tensor, left: Tensor) -> bool:
        with torch.inference_mode(False), torch.enable_grad():
            signal = self._gradient(value[..., 0, :], left)
        return signal is None or not bool(signal.any())

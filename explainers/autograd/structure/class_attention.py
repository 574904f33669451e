"""Class attention after the blocks, where a class token joins their tokens, as in CaiT, XCiT and VOLO.

A block of class attention has one query, the class token itself, over itself and the tokens of the blocks; what it gives is added to the
class token. The other tokens stay what they are, or change each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.nodes import Block, Nodes, users_of
from explainers.autograd.operators import Add, Softmax
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.signals import AttentionParts
from explainers.autograd.structure.attention import Attention, Gradient, product_with_values, projection_of

#: Whether the first of values (B, H, 1 + S, d) depends on none of what a block gave (B, S, D): then it is a class token's.
IsAlone = Callable[[Tensor, Tensor], bool]


@dataclass(frozen=True)
class ClassBlock:
    """The tensors of one block of class attention; its tokens are the class token, then those of the blocks.

    input         (B, 1 + S, D)
    mid_residual  the residual stream after attention, (B, 1 + S, D), or (B, 1, D) of the class token alone; None if unknown
    output        the output of the block, in one of the same shapes; None until it is done
    """

    input: Tensor
    mid_residual: Tensor | None = None
    output: Tensor | None = None


@dataclass(frozen=True)
class ClassAttention:
    """The class attention of one recorded pass, in the order in which it ran.

    blocks       the modules that contain it
    attentions   (B, H, 1, 1 + S) each: the weights of all class attention, inside or outside of those modules
    parts        its query (B, H, 1, d), keys, values (B, H, 1 + S, d), and output (B, H, 1, d); None if they are not known
    projections  weight and bias of the linear map after it; None if there is none
    """

    blocks: tuple[ClassBlock, ...] = ()
    attentions: tuple[Tensor, ...] = ()
    parts: tuple[AttentionParts | None, ...] = ()
    projections: tuple[tuple[Tensor, Tensor | None] | None, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Return whether each class attention was in a block whose stream is known."""
        known = [block for block in self.blocks if block.mid_residual is not None and block.output is not None]
        return len(known) == len(self.attentions)


def class_attentions(nodes: Nodes, is_alone: IsAlone) -> list[Attention]:
    """Return the attention after the blocks of a recorded pass (``nodes``) that has a single query, over the blocks' tokens and one class
    token before these. ``is_alone`` tests whether that token is the same for every image.
    """
    of_classes: list[Attention] = []
    users = users_of(nodes.ran[nodes.blocks[0].end :]) if nodes.blocks and nodes.blocks[0].end is not None else {}
    for node, block in nodes.after_blocks():
        left = block.passed_on
        if node.operator is not Softmax or len(node.shape) != 4 or left is None or node.shape[0] != len(left):
            continue
        tokens, attention = 1 + left.shape[1], Attention(node, product_with_values(node, users))
        value = attention.value
        one_query = node.shape[-2:] == (1, tokens) and value is not None and value.shape[-2] == tokens
        if one_query and value is not None and (of_classes or is_alone(value, left)):
            of_classes.append(attention)
    return of_classes


def class_attention(nodes: Nodes, is_alone: IsAlone, gradient: Gradient) -> ClassAttention:
    """Collect all class attention after the blocks of a recorded pass (``nodes``): the blocks, their weights, parts and projections; empty
    if there is none. ``is_alone`` tests whether a class token is the same for every image; ``gradient`` runs an ordinary
    backward pass.
    """
    of_classes = class_attentions(nodes, is_alone)
    if not of_classes:
        return ClassAttention()
    users = users_of(nodes.ran)
    blocks = []
    for block in nodes.class_blocks:
        inside = [attention for attention in of_classes if block.first <= attention.softmax.place < (block.end or len(nodes.ran))]
        if inside:
            blocks.append(ClassBlock(block.input, _stream_after(nodes, block, inside[0]), block.output))
    parts = tuple(attention.parts(gradient) for attention in of_classes)
    projections = tuple(None if each.product is None else projection_of(each.product, users) for each in of_classes)
    return ClassAttention(tuple(blocks), tuple(attention.weights for attention in of_classes), parts, projections)


def _stream_after(nodes: Nodes, block: Block, attention: Attention) -> Tensor | None:
    """Return the residual stream of ``block``, a block of class attention, after its ``attention``: the first sum among ``nodes`` in which
    the class token itself is added to the attention's output; None if there is none.
    """
    token = block.input[:, :1]
    for node in nodes.ran[attention.softmax.place : block.end]:
        if node.operator is not Add or node.output is None or node.output.shape not in (token.shape, block.input.shape):
            continue
        if len(node.paths) == 1:
            constant: Tensor = constant_of(node)
            if torch.broadcast_shapes(constant.shape, token.shape) != token.shape:
                continue
            if not torch.equal(constant.expand_as(token), token.detach()):  # kept once where it is the same for all samples
                continue
        return node.output
    return None


def tokens_among(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors of tokens, one or two, among the arguments ``args`` and ``kwargs`` of a block of class attention."""
    return [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.is_floating_point()]


def class_token_first(given: list[Tensor]) -> Tensor:
    """Return the tokens (B, 1 + S, D) of a block's inputs, the class token first. ``given`` is one tensor, or the class token and the other
    tokens in either order.
    """
    return given[0] if len(given) == 1 else torch.cat(sorted(given, key=lambda tokens: tokens.shape[1]), 1)


def with_tokens_of_class_block(x: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a block of class attention with its tokens replaced by ``x`` (B, 1 + S, D)."""
    several = len(tokens_among(args, kwargs)) > 1

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return (x[:, :1] if value.shape[1] == 1 else x[:, 1:]) if several else x

    return tuple(other(value) for value in args), {name: other(value) for name, value in kwargs.items()}

"""What a recorded pass has around the attention of its blocks: residual sums, added positions, a norm at the input, pooling in the head."""

from __future__ import annotations

import math

from torch import Tensor

from explainers.autograd.nodes import Block, Move, Node, Nodes, Role, Start, users_of
from explainers.autograd.operators import Add, Norm, Softmax
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.structure.attention import Attention, Users, meeting
from explainers.models.layout import Layout
from explainers.models.structure.block_kinds import BlockKind


def sums_in(nodes: Nodes, block: Block, block_kind: BlockKind) -> list[Tensor]:
    """Return the residual stream (B, S, D) after each sum of two paths in a block: the first is the one after attention. None if a block
    has several streams.
    """
    return [
        block_kind.row_of(node.output)
        for node in nodes.inside(block)
        if node.operator is Add and node.output is not None and node.shape == block.stream and len(node.paths) == 2
    ]


def added_before(nodes: Nodes, layout: Layout) -> tuple[Tensor, Tensor] | None:
    """Return the constant that was added last before x^1 to all tokens, or to the patches alone, and differs from token to token: the
    position embeddings; and the tokens with them added. None if there is none.
    """
    tokens = math.prod(layout.grid or (0,))
    for node in reversed(nodes.ran[: nodes.entry]):
        total = node.output
        if node.operator is not Add or total is None or len(node.paths) != 1 or node.settings["role"] == Role.SHIFT:
            continue
        constant: Tensor = constant_of(node)
        by_token = total.dim() == 3 and total.shape[1] in (tokens, layout.image_tokens)
        if by_token and constant.dim() >= 2 and constant.shape[-2] == total.shape[1]:
            return constant, total
    return None


def is_normalised_first(nodes: Nodes, of_pixels: bool = False) -> bool:
    """Return whether every operator that takes x^1 (or the pixels) is a normalisation, ignoring operators that only move numbers."""
    block = nodes.blocks[0]
    start = next((node for node in nodes.ran if node.operator is Start and node.role == Role.PIXELS), None) if of_pixels else block.start
    if start is None:
        return False
    takers = _takers(nodes, start)
    return bool(takers) and all(taker.operator is Norm for taker in takers)


def is_added_and_normalised(nodes: Nodes, block: Block) -> bool:
    """Return whether the tokens that enter a block are used only by a normalisation in it and by its residual sum."""
    takers = [] if block.start is None or block.end is None else _takers(nodes, block.start)
    is_inside = all(block.end is not None and block.first <= taker.place < block.end for taker in takers)
    return is_inside and {taker.operator for taker in takers} == {Norm, Add}


def _takers(nodes: Nodes, start: Node) -> list[Node]:
    """Return the nodes that compute with the result of a node, directly or after operators that only move numbers."""
    users, waiting, takers = users_of(nodes.ran), [start], list[Node]()
    while waiting:
        for user in users.get(id(waiting.pop()), ()):
            (waiting if user.operator is Move else takers).append(user)
    return takers


def pooling_attention(nodes: Nodes, users: Users) -> Tensor | None:
    """Return the weights (B, H, queries, S) of the attention that pools the tokens: the last one behind the blocks that has fewer queries
    than keys, with the blocks' tokens as keys. None if there is none.
    """
    return next((attention.weights for attention in pooling_products(nodes, users)), None)


def pooling_products(nodes: Nodes, users: Users) -> list[Attention]:
    """Return the attention that pools the tokens after the blocks, with the values that it weights; an empty list if there is none."""
    node = _pooling_softmax(nodes)
    return [] if node is None else [Attention(node, meeting(node, users))]


def _pooling_softmax(nodes: Nodes) -> Node | None:
    behind = [(node, block) for node, block in nodes.after_blocks() if node.operator is Softmax and len(node.shape) == 4]
    fewer = [(node, block) for node, block in behind if node.shape[-2] < node.shape[-1]]
    if not fewer:
        return None
    node, block = fewer[-1]
    assert block.output is not None
    return node if node.shape[-1] == block.output.shape[1] else None

"""What a recorded pass has around the attention of its blocks: residual sums, added positions, a norm at the input, pooling in the head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from explainers.autograd.nodes import Block, Move, Node, Nodes, Role, Start, ancestors, users_of
from explainers.autograd.operators import Add, LinearMap, Norm, Softmax
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.operators.linear import weight_and_bias_of
from explainers.autograd.structure.attention import Attention, Users, product_with_values
from explainers.models.layout import Layout


@dataclass(frozen=True, eq=False)
class Addition:
    """A sum in a block that adds one of its parts, such as its attention or its MLP, to the residual stream.

    total          the result of the sum, in the shape of the stream
    part           which of the two addends the part is, 0 or 1; the other is the stream
    has_attention  whether attention weights are multiplied with values in the part
    has_linear     whether it has a linear map other than a convolution
    """

    total: Tensor
    part: int
    has_attention: bool
    has_linear: bool


def sums_in(nodes: Nodes, block: Block) -> list[Node]:
    """Return the sums of two paths among ``nodes`` in ``block`` that have the shape of its residual stream; none where it has several
    streams.
    """
    return [node for node in _sums_of_paths(nodes, block) if node.shape == block.stream]


#: Where blocks without a sum in the shape of their residual stream add two paths: in other axes of it, or in a part of its channels.
SumsElsewhere = Literal["turned", "part"]


def sums_elsewhere(nodes: Nodes, block: Block) -> SumsElsewhere | None:
    """Return where ``block``, which has no sum in the shape of its residual stream, adds two paths instead, among ``nodes``; None if
    nowhere.
    """
    if block.stream is None or sums_in(nodes, block):
        return None
    shapes = [node.shape for node in _sums_of_paths(nodes, block)]
    if any(sorted(shape) == sorted(block.stream) for shape in shapes):
        return "turned"
    return "part" if any(shape[:-1] == block.stream[:-1] and shape[-1] < block.stream[-1] for shape in shapes) else None


def _sums_of_paths(nodes: Nodes, block: Block) -> list[Node]:
    """Return the nodes in ``block``, among ``nodes``, that add two paths and whose operands and result are still stored."""
    return [node for node in nodes.nodes_in(block) if node.operator is Add and node.output is not None and len(node.paths) == 2]


def additions_in(nodes: Nodes, block: Block) -> list[Addition]:
    """Return the sums among ``nodes`` by which the parts of ``block`` are added to its residual stream, in the order in which they ran.
    Sums inside a part are left out: neither of their addends is the stream.
    """
    streams, additions = [block.start], list[Addition]()
    for node in _sums_of_paths(nodes, block):
        if block.stream is None or node.shape.numel() != block.stream.numel():  # a map of tokens may be a row for a while
            continue
        unmoved = [_origin_of(path, block.start) for path in node.paths]
        behind = [ancestors([path], [block.start]) for path in node.paths]
        is_stream = [any(each is stream for stream in streams) or each in behind[1 - side] for side, each in enumerate(unmoved)]
        if is_stream[0] != is_stream[1] and node.output is not None:
            part = 0 if is_stream[1] else 1
            inside = ancestors([node.paths[part]], [block.start, node.paths[1 - part], unmoved[1 - part]])
            has_attention = any(each.role == Role.CONTEXT for each in inside)
            additions.append(Addition(node.output, part, has_attention, any(_is_dense(each) for each in inside)))
            streams.append(node)
    return additions


def _is_dense(node: Node) -> bool:
    """Return whether a node is a linear map of whole tokens; convolutions, whose weights have more dimensions, are none."""
    return node.operator is LinearMap and weight_and_bias_of(node)[0].dim() == 2


def _origin_of(node: Node, start: Node | None) -> Node:
    """Follow a node back through operators that only move numbers, no further than the ``start`` of a block, and return the node
    reached.
    """
    while node is not start and node.operator is Move and len(node.paths) == 1:
        (node,) = node.paths
    return node


def added_before(nodes: Nodes, layout: Layout) -> tuple[Tensor, Tensor] | None:
    """Return the position embeddings of a recorded pass, whose operators are ``nodes`` and whose tokens lie as ``layout`` says, and the
    tokens with them added. They are the last constant before the first block that was added to all tokens or patches and differs from token
    to token. None if there is none.
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
    """Return whether every operator among ``nodes`` that takes the embedded tokens x^1 (or the pixels) is a normalisation, ignoring
    operators that only move numbers.
    """
    block = nodes.blocks[0]
    start = next((node for node in nodes.ran if node.operator is Start and node.role == Role.PIXELS), None) if of_pixels else block.start
    if start is None:
        return False
    takers = _takers(nodes, start)
    return bool(takers) and all(taker.operator is Norm for taker in takers)


def are_outputs_normalised(nodes: Nodes) -> bool:
    """Return whether, among ``nodes`` of a recorded pass, the output of some block but the last is used by normalisations alone, ignoring
    operators that only move numbers.
    """
    outputs = [block.made_by for block in nodes.blocks[:-1]]
    takers = [_takers(nodes, output) for output in outputs if output is not None]
    return any(each and all(taker.operator is Norm for taker in each) for each in takers)


def is_added_and_normalised(nodes: Nodes, block: Block) -> bool:
    """Return whether, among ``nodes`` of a recorded pass, the input tokens of ``block`` are used only by a normalisation and by the block's
    residual sum.
    """
    takers = [] if block.start is None or block.end is None else _takers(nodes, block.start)
    is_inside = all(block.end is not None and block.first <= taker.place < block.end for taker in takers)
    return is_inside and {taker.operator for taker in takers} == {Norm, Add}


def _takers(nodes: Nodes, start: Node) -> list[Node]:
    """Return the nodes that compute with the result of the node ``start``, directly or after operators that only move numbers."""
    users, waiting, takers = users_of(nodes.ran), [start], list[Node]()
    while waiting:
        for user in users.get(id(waiting.pop()), ()):
            (waiting if user.operator is Move else takers).append(user)
    return takers


def pooling_attention(nodes: Nodes, users: Users) -> Tensor | None:
    """Return the weights (B, H, queries, S) of the attention that pools the tokens in a recorded pass, whose operators are ``nodes``: the
    last attention after the blocks that has fewer queries than keys, with the blocks' tokens as keys. None if there is none. ``users``
    lists the nodes that read each node.
    """
    return next((attention.weights for attention in pooling_products(nodes, users)), None)


def pooling_products(nodes: Nodes, users: Users) -> list[Attention]:
    """Return the attention that pools the tokens after the blocks of a recorded pass (``nodes``), with the values that it weights; an empty
    list if there is none. ``users`` lists the nodes that read each node.
    """
    node = _pooling_softmax(nodes)
    return [] if node is None else [Attention(node, product_with_values(node, users))]


def _pooling_softmax(nodes: Nodes) -> Node | None:
    behind = [(node, block) for node, block in nodes.after_blocks() if node.operator is Softmax and len(node.shape) == 4]
    fewer = [(node, block) for node, block in behind if node.shape[-2] < node.shape[-1]]
    if not fewer:
        return None
    node, block = fewer[-1]
    assert block.output is not None
    return node if node.shape[-1] == block.output.shape[1] else None

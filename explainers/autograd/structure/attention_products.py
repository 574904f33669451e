"""The products by which attention weights meet values in a block: which they are, and what stands before and after them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.autograd.nodes import Block, Move, Node, Nodes, Role, Start, ancestors
from explainers.autograd.operators import Add, LinearAttention, LinearMap, MatMul, Mean, Mul, Normaliser, Scale, Softmax, Weights
from explainers.autograd.operators.linear import weight_and_bias_of
from explainers.autograd.products import unmoved
from explainers.autograd.structure.attention import scores_of
from explainers.models import matrix_products


class Unreadable(Exception):
    """Error for attention of a block that cannot be read as maps over its tokens; its text is the end of a sentence that says why."""


#: Why attention in complex numbers is not read.
COMPLEX = (
    "their attention weights or the values that these meet are complex numbers: real weights can be read where they meet the real and the "
    "imaginary parts of values, each in a matrix product of real numbers"
)


@dataclass(frozen=True, eq=False)
class Product:
    """A product of attention weights and values; ``side`` is the index of the operand that holds the weights."""

    node: Node
    side: int

    @property
    def weights(self) -> Tensor:
        """The weights (..., queries, keys); (..., keys, queries) if the values are the first factor of the product."""
        return self.node.operands[self.side]

    @property
    def value(self) -> Tensor:
        """The values (..., keys, d); (..., d, keys) if they are the first factor of the product."""
        return self.node.operands[1 - self.side]

    @property
    def is_turned(self) -> bool:
        """Return whether values come first in the product."""
        return self.side == 1

    @property
    def softmaxes(self) -> list[Node]:
        """The softmaxes that made the weights."""
        return softmaxes_behind([self.node.inputs[self.side]])


def softmaxes_behind(starts: Iterable[Node | None], block: Block | None = None) -> list[Node]:
    """Return the softmaxes from which the nodes ``starts`` are computed, searching back to the next matrix product of two paths; with
    ``block`` only those in the block.
    """
    ends = [] if block is None else [block.start]
    reached = ancestors(starts, ends, until=lambda each: each.operator is Softmax or is_product(each))
    return [each for each in reached if each.operator is Softmax]


def is_product(node: Node) -> bool:
    """Return whether ``node`` is a matrix product of two paths."""
    return isinstance(node.operator, type) and issubclass(node.operator, MatMul | LinearAttention)


def is_weights(factor: Node, starts: Container[int] = ()) -> bool:
    """Return whether ``factor``, of a matrix product of two paths, is attention weights: whether a softmax or another curve of scores made
    it, whatever was done to it since, short of another product; or made all of it, as of weights times weights. The search ends at nodes
    whose ids are in ``starts``, such as the inputs of blocks.
    """

    def ends(node: Node) -> bool:
        return node.operator in (Softmax, Weights) or id(node) in starts

    def is_past(node: Node) -> bool:
        return ends(node) or is_product(node) or _is_weighted_sum(node)

    if any(node.operator in (Softmax, Weights) for node in ancestors([factor], until=is_past)):
        return True
    whole = ancestors([factor], until=ends)
    return all(node.operator in (Softmax, Weights) if ends(node) else node.paths for node in whole)


def _is_weighted_sum(node: Node) -> bool:
    """Return whether ``node`` is values times attention weights other than by a matrix product of two paths: summed number by number, as in
    deformable attention, or as a matrix product with values that are constants.
    """
    if node.operator is LinearMap:
        return node.settings["forward"] is torch.matmul and any(path.role == Role.WEIGHTS for path in node.paths)
    return node.operator is Mean and any(
        product is not None and product.operator is Mul and Role.WEIGHTS in product.settings["roles"]
        for product in map(unmoved, node.paths)
    )


def products_of_attention(node: Node, starts: Container[int] = ()) -> list[Node]:
    """Return the matrix products of two paths that ``node`` shows to belong to attention: for a softmax, another curve that makes weights,
    and a normaliser of linear attention those of which it is made, such as of queries with keys and of queries with relative positions; for
    a product of weights with values, the product itself. Other nodes show none. ``starts`` is as in :func:`is_weights`.
    """
    if node.operator in (Softmax, Weights, Normaliser):
        reached = ancestors(node.paths, until=lambda each: is_product(each) or id(each) in starts)
        return [each for each in reached if is_product(each)]
    has_weights = is_product(node) and (node.role == Role.CONTEXT or any(is_weights(path, starts) for path in node.paths))
    return [node] if has_weights else []


def positions_of_attention(nodes: Nodes) -> frozenset[int]:
    """Return the positions of the matrix products of two paths among ``nodes`` that belong to attention: those by which weights meet
    values, and those of which weights are made.
    """
    starts = {id(block.start) for block in nodes.blocks}
    return frozenset(product.position for node in nodes.ran for product in products_of_attention(node, starts))


def products_behind(starts: Iterable[Node | None], block: Block) -> list[Node]:
    """Return the matrix products of two paths inside ``block`` from which the nodes ``starts`` are computed: the nearest on each path,
    other than by the factor of a normalisation, such as the length of a token, written as its product with itself.
    """
    reached = ancestors(starts, [block.start], lambda node: is_product(node) or node.role == Role.SCALE)
    return [node for node in reached if is_product(node) and node.place >= block.first]


def products_of(nodes: Nodes, block: Block) -> list[Product]:
    """Return the products of attention weights and values that combine tokens in ``block``, found among ``nodes``, in the order in which
    they ran.

    Raises Unreadable if a product of two paths is no product of attention weights and values, if the result of one product is used only by
    another, if values are also added to the result by another path, and if no residual connection leads around the products.
    """
    products = []
    if block.start is not None and block.start not in ancestors([block.made_by], until=is_product) and not _is_added_outside(nodes, block):
        raise Unreadable("no residual goes round their attention")
    reached = products_behind([block.made_by], block)
    for node in sorted(reached, key=lambda each: each.place):
        by_role = [side for side, path in enumerate(node.inputs) if path is not None and path.role == Role.WEIGHTS]
        sides = by_role or [side for side in (0, 1) if softmaxes_behind([node.inputs[side]], block)]
        if len(node.operands) != 2 or node.output is None or len(sides) != 1 or not softmaxes_behind([node.inputs[sides[0]]], block):
            raise Unreadable(_why_no_attention(node, block))
        products.append(Product(node, sides[0]))
        if adds_values_beside(products[-1], block):
            raise Unreadable(
                "the values of their attention are also added to what it gives by another way, so that its weights alone do not say how "
                "tokens come together"
            )
    known = {id(node) for node in reached}
    if any(id(node) not in known for each in products for node in products_behind([each.node.inputs[1 - each.side]], block)):
        raise Unreadable("what one of their attentions gives goes into another without a residual around it")
    if any(node.operator is MatMul and node.role == Role.CONTEXT and id(node) not in known for node in nodes.nodes_in(block)):
        raise Unreadable("where the output of one of their attentions goes cannot be seen")
    return products


def adds_values_beside(product: Product, block: Block) -> bool:
    """Return whether the values that an attention weights in ``product`` are also added to its output in ``block`` by another path,
    unchanged or scaled, as in ``v - A v``. Then the attention weights alone do not say how much each token contributes.
    """
    value = product.node.inputs[1 - product.side]
    if value is None:
        return False
    values, size = {id(value)}, value.shape.numel()
    while value.operator is Move and len(value.paths) == 1 and value.paths[0].shape.numel() == size:  # before they are parted by heads
        (value,) = value.paths
        values.add(id(value))

    def ends(node: Node) -> bool:
        is_of_rows = node.operator is LinearMap and node.settings.get("forward") is matrix_products.linear
        return id(node) in values or not (node.operator in (Move, Add, Scale) or is_of_rows)

    reached = ancestors([block.made_by], [product.node, block.start], ends)
    return any(id(node) in values for node in reached)


def mixes(node: Node, block: Block) -> bool:
    """Return whether a node is a product of attention weights, made in a block, with values."""
    return is_product(node) and bool(softmaxes_behind(node.inputs, block))


def sum_after_attention(nodes: Nodes, block: Block, sums: Sequence[Node]) -> int:
    """Return the index, among the residual ``sums`` of ``block``, of the first sum that follows all of its attention and that the block's
    input reaches by a path without attention and linear maps. If no sum has such a path, it is the first sum after all of its attention; 0
    if none follows all of it. ``nodes`` are the operators of the pass.
    """
    reached = {id(node) for node in ancestors([block.made_by], [block.start])}
    attention = {id(node) for node in nodes.nodes_in(block) if id(node) in reached and mixes(node, block)}

    behind = [i for i, node in enumerate(sums) if attention and attention <= {id(each) for each in ancestors([node], [block.start])}]
    straight = [i for i in behind if _comes_straight(sums[i], block)]
    chosen = next(iter(straight or behind), 0)
    for i in straight[1:]:
        if _completes(sums[i], sums[chosen], block):
            chosen = i
    return chosen


def _completes(later: Node, earlier: Node, block: Block) -> bool:
    """Return whether the sum ``later`` adds the tokens of ``block`` themselves, perhaps scaled, to the sum ``earlier``, perhaps scaled or
    gated: as x + a (h - x) does, in which h - x is no residual stream.
    """

    def scaled(node: Node) -> Node:
        while node is not block.start and node is not earlier and node.operator in (Move, Scale) and len(node.paths) == 1:
            (node,) = node.paths
        return node

    def is_earlier(node: Node) -> bool:
        given = scaled(node)
        return given is earlier or (given.operator is Mul and any(scaled(path) is earlier for path in given.paths))

    if len(later.paths) != 2:
        return False
    first, second = later.paths
    return any(scaled(kept) is block.start and is_earlier(given) for kept, given in ((first, second), (second, first)))


def adds_attention_elsewhere(nodes: Nodes, block: Block, known_sum: Node) -> bool:
    """Return whether what attention gives is added to the tokens of ``block`` before ``known_sum``, the sum after it: to some of them, or
    to all in another shape. ``nodes`` are the operators of the pass.
    """
    reached = ancestors([known_sum], [block.start])
    sums = [
        node for node in reached if node is not known_sum and node.operator is Add and len(node.paths) == 2 and node.place >= block.first
    ]

    def attends(node: Node) -> bool:
        return any(mixes(each, block) for each in ancestors([node], [block.start]))

    return any(
        attends(given) and not attends(kept) and _comes_straight(kept, block)
        for first, second in (node.paths for node in sums if not _completes(known_sum, node, block))
        for given, kept in ((first, second), (second, first))
    )


def adds_to_attention(known_sum: Node, block: Block) -> bool:
    """Return whether ``known_sum``, a sum of two paths in ``block``, adds to a stream that already has what one of its addends is made of:
    whether one product of attention weights and values is behind both. So it is for the sum after an MLP, and then attention was added to
    the stream before by something that is no sum of two paths, such as a pool over both or a linear layer that joins them.
    """
    first, second = ({id(each) for each in ancestors([path], [block.start]) if mixes(each, block)} for path in known_sum.paths)
    return bool(first & second)


def adds_more_than_attention(nodes: Nodes, block: Block, known_sum: Node) -> bool:
    """Return whether ``known_sum``, the sum after the attention of ``block``, also holds what linear maps made of the block's tokens next
    to attention, such as those of an MLP that runs in parallel. Then no residual stream follows attention alone, or which one does depends
    on the order of the sums. ``nodes`` are the operators of the pass.
    """
    inside = [node for node in ancestors([known_sum], [block.start]) if node.place >= block.first]
    before_attention = {id(node) for node in ancestors([node for node in inside if mixes(node, block)], [block.start])}
    waiting, seen = [(known_sum, False)] if before_attention else [], set[tuple[int, bool]]()
    while waiting:
        node, is_made = waiting.pop()
        if (id(node), is_made) in seen or mixes(node, block):
            continue
        seen.add((id(node), is_made))
        if node is block.start:
            if is_made:
                return True
            continue
        is_made |= node.operator is LinearMap and weight_and_bias_of(node)[0].dim() == 2 and id(node) not in before_attention
        if node.operator is not Mul or len(node.paths) != 2 or not any(_is_attended(path, block) for path in node.paths):
            gated = [path for path in node.paths if node.operator is Mul and _comes_straight(path, block)]
            waiting += [(path, is_made) for path in gated or node.paths]
    return False


def stream_and_attention(nodes: Nodes, block: Block, known_sum: Node) -> tuple[Tensor, Tensor] | None:
    """Return the tokens of ``block`` and what its attention adds to them, in the shape of its stream, where ``known_sum`` adds both and an
    MLP in parallel, as x + (attention + MLP); None where it adds anything else. ``nodes`` are the operators of the pass.
    """
    attended = [(node, tensor) for node, tensor in known_sum.terms if any(mixes(each, block) for each in ancestors([node], [block.start]))]
    others = [(node, tensor) for node, tensor in known_sum.terms if all(node is not each for each, _ in attended)]
    straight = [tensor for node, tensor in others if _comes_straight(node, block)]
    if len(attended) != 1 or len(straight) != 1 or adds_more_than_attention(nodes, block, attended[0][0]):
        return None
    return straight[0], attended[0][1]


def _is_attended(node: Node, block: Block) -> bool:
    """Return whether ``node`` depends on the tokens of ``block`` only through its attention."""
    return block.start not in ancestors([node], until=lambda each: each is block.start or is_product(each))


def _comes_straight(node: Node, block: Block) -> bool:
    """Return whether a path leads from the tokens of ``block`` to ``node`` without a product of two paths or a linear map."""
    return block.start in ancestors([node], until=lambda each: each is block.start or is_product(each) or each.operator is LinearMap)


def are_of_no_place(nodes: Nodes) -> bool:
    """Return whether the tokens that enter the first block belong to no place of the picture, as the ``nodes`` of a recorded pass show.
    This is so if they read the picture only by attention with queries that do not depend on it, such as learned latents that read all
    patches (Perceiver). False for a pass that is not recorded from the pixels, which does not show it.
    """
    start = nodes.blocks[0].start

    def is_picture(node: Node) -> bool:
        return node.operator is Start and node.role == Role.PIXELS

    if not any(is_picture(node) for node in ancestors([start])):
        return False
    waiting, seen = [start], set[int]()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if is_picture(node):
            return False
        softmaxes = softmaxes_behind(node.inputs) if is_product(node) else []
        scores = [scores_of(softmax) for softmax in softmaxes]
        queries = [each.inputs[0] for each in scores if each is not None and each.operator is MatMul]
        waiting += queries if softmaxes else node.paths
    return True


def _why_no_attention(product: Node, block: Block) -> str:
    """Return the reason why ``product``, a product of two paths in a block, is not a product of attention weights and values, as the end of
    a sentence.
    """
    of_weights = [path for path in product.inputs if path is not None and path.role in (Role.WEIGHTS, Role.CONTEXT)]
    behind = [each for path in of_weights for each in products_behind([path], block)]
    if product.operator is LinearAttention and not softmaxes_behind(product.inputs, block):
        return "their attention is linear: keys meet values before queries do, so that no weights between tokens are made"
    if len(of_weights) > 1 or any(each.role == Role.CONTEXT and softmaxes_behind(each.inputs, block) for each in behind):
        return "attention weights are multiplied with others before they meet values, or again with what these gave"
    if attends_in_complex_numbers(block):
        return COMPLEX
    if any(product in ancestors([softmax], [block.start]) for softmax in softmaxes_behind([block.made_by], block)):
        return "their attention weights multiply values number by number, and meet them in no matrix product"
    return "they bring tokens together by a product of two paths that is no attention of a softmax"


def attends_in_complex_numbers(block: Block) -> bool:
    """Return whether ``block`` makes complex numbers of what a softmax in it gave."""
    inside = ancestors([block.made_by], [block.start])
    return any(softmaxes_behind([node], block) for node in inside if node.is_complex)


def _is_added_outside(nodes: Nodes, block: Block) -> bool:
    """Return whether, by the ``nodes`` of a recorded pass, the output of ``block`` is added to its input outside of the block, as where a
    block is attention alone (XLM).
    """
    later = nodes.ran[block.end :] if block.end is not None else []
    sums = (node.paths for node in later if node.operator is Add and len(node.paths) == 2)
    return any(
        block.made_by in ancestors([given], [block.start]) and block.start in ancestors([taken], [block.made_by], is_product)
        for first, second in sums
        for given, taken in ((first, second), (second, first))
    )

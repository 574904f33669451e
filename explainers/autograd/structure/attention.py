"""Attention: a softmax whose weights meet values. Its projections are the linear maps that queries, keys and values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from explainers.autograd.nodes import Block, Move, Node, Nodes, Role, ancestors
from explainers.autograd.operators import Add, LinearAttention, LinearMap, MatMul, Normaliser, Pool, Scale, Softmax, swapped
from explainers.autograd.operators.arithmetic import constant_of
from explainers.autograd.operators.linear import is_bias, weight_and_bias_of
from explainers.autograd.products import factor, unmoved
from explainers.autograd.signals import AttentionParts
from explainers.models import matrix_products
from explainers.models.eval_mode import with_gradients

Users = Mapping[int, list[Node]]
#: The ordinary gradient of the sum of one tensor with respect to another; None if it does not depend on it.
Gradient = Callable[[Tensor, Tensor], Tensor | None]


@dataclass(frozen=True, eq=False)
class Attention:
    """One attention: the node of its ``softmax``, and the node of the matrix ``product`` of weights and values; None if there is no such
    product.
    """

    softmax: Node
    product: Node | None

    @property
    def weights(self) -> Tensor:
        """The weights (B, H, queries, keys) that multiply the values: more than the softmax if the model mixes its heads, scales it or adds
        to it first; the output of the softmax if the values are used in another shape, or not in a product.
        """
        given = _kept(self.softmax)
        met = given if self.product is None else self.product.operands[0]
        has_shape = met.dim() == given.dim() == 4 and (len(met), *met.shape[2:]) == (len(given), *given.shape[2:])
        return met if has_shape else given

    @property
    def value(self) -> Tensor | None:
        """The values that the attention weights multiply, (B, H, keys, d); None without a product."""
        return None if self.product is None else self.product.operands[1]

    @property
    def context(self) -> Tensor | None:
        """The output of the attention (B, H, queries, d), before its projection; None if it has no product of weights and values."""
        return None if self.product is None else _kept(self.product)

    @property
    def has_several_softmaxes(self) -> bool:
        """Whether the weights are made of several softmaxes, such as of a difference of two, each of queries and keys of its own."""

        def ends(node: Node) -> bool:
            return node.operator is Softmax or node.role != Role.WEIGHTS

        made_by = [] if self.product is None else ancestors(self.product.inputs[:1], until=ends)
        return sum(node.operator is Softmax for node in made_by) > 1

    @property
    def is_of_other_width(self) -> bool:
        """Whether queries and keys are wider or narrower than values, so that what takes values cannot take them."""
        scores = None if self.product is None else scores_of(self.softmax)
        if self.product is None or scores is None or scores.operator is not MatMul:
            return False
        return scores.operands[0].shape[-1] != self.product.operands[1].shape[-1]

    @property
    def is_one_softmax(self) -> bool:
        """Whether values meet the output of the softmax unchanged: neither mixed between heads, nor scaled, nor added to."""
        return self.product is not None and len(self.softmax.shape) == 4 and unmoved(self.product.inputs[0]) is self.softmax

    @property
    def scores(self) -> Tensor | None:
        """The attention scores of which the softmax was taken, (B, H, queries, keys); None if the recording did not keep them."""
        if not self.softmax.operands or self.product is None:
            return None
        (scores, *_), weights, met = self.softmax.operands, _kept(self.softmax).detach(), self.product.operands[0].detach()
        if met.shape != weights.mT.shape:
            return scores
        is_turned = met.shape != weights.shape or bool((met - weights.mT).abs().max() < (met - weights).abs().max())
        return scores.mT if is_turned else scores  # a row for each query, as in the product with values

    def _scores_have_keys_first(self, product: Node, scores: Node, gradient: Gradient) -> bool | None:
        """Return whether the product of queries and keys, the node ``scores``, has a row for each key instead of one for each query, so
        that what lies between it and the ``product`` with values turns it; None if that cannot be told. ``gradient`` runs an ordinary
        backward pass.

        A softmax over keys makes the weight of query i for key j of query i alone and of all keys; one over queries, of key j alone and of
        all queries. Weights that are divided by sums over both are made of all queries and all keys.
        """
        weights, (first, second) = product.operands[0], scores.operands
        made_by = ancestors([product.inputs[0]], ends=[scores])
        if not any(node.operator is Move for node in made_by) or not weights.requires_grad or min(weights.shape[-2:]) < 2:
            return False
        query = weights.shape[-2] - 1  # the last one sees all keys where attention is causal
        key, is_made_of_many = int(weights.detach()[..., query, :-1].flatten(0, -2).sum(0).argmax()), True
        for factor_of_scores, width, straight, turned in ((first, -1, query, key), (second, -2, key, query)):
            if factor_of_scores.requires_grad:
                with with_gradients():
                    signal = gradient(weights[..., query, key], factor_of_scores)
                reached = [] if signal is None else (signal != 0).any(width).flatten(0, -2).any(0).nonzero().flatten().tolist()
                if reached in ([straight], [turned]):
                    return reached == [turned]
                is_made_of_many &= len(reached) > 1
        return None if is_made_of_many else False

    def parts(self, gradient: Gradient) -> AttentionParts | None:
        """Return the queries, keys, values, weights and outputs of the attention, keys and values that heads share once for each head; None
        if its queries and keys cannot be found, if there are several of each, or if they are not as wide as its values. ``gradient`` runs
        an ordinary backward pass, from the first tensor to the second.
        """
        scores = None if self.product is None else scores_of(self.softmax)
        if scores is None or self.product is None or scores.operator is not MatMul or self.has_several_softmaxes:
            return None
        if self.is_of_other_width:
            return None
        (query, key), (of_query, of_key) = scores.operands, scores.inputs
        has_keys_first = self._scores_have_keys_first(self.product, scores, gradient)
        if has_keys_first is None:
            return None
        if has_keys_first:
            query, key, of_query, of_key = key.mT, query.mT, of_key, of_query
        weights, value = self.weights, self.product.operands[1]
        if weights.dim() != 4 or (query.shape[-2], key.shape[-1]) != weights.shape[-2:] or query.shape[:2] != weights.shape[:2]:
            return None
        if any(each.dim() != 4 or each.shape[1] not in (1, weights.shape[1]) for each in (key, value)):
            return None
        if scores.role == Role.SCORES:  # written out: what they are scaled by is no part of them, whichever of them is
            query, key = _unscaled(query, of_query), _unscaled(key, of_key)
        of_heads = (len(weights), weights.shape[1], -1, -1)
        return AttentionParts(query, key.mT.expand(of_heads), value.expand(of_heads), weights, _kept(self.product))


def _kept(node: Node) -> Tensor:
    assert node.output is not None
    return node.output


def _unscaled(tensor: Tensor, node: Node | None) -> Tensor:
    return tensor.detach() / factor(node)


def ends_of(attention: Attention) -> tuple[Tensor, Tensor] | None:
    """Return the values (B, H, keys, d) that an attention weights and its output (B, H, queries, d); None if they cannot be followed."""
    value, context = attention.value, None if attention.product is None else attention.product.output
    if value is None or context is None or not value.requires_grad or not context.requires_grad:
        return None
    return value, context


def scores_of(softmax: Node) -> Node | None:
    """Return the product of queries and keys of which a softmax was taken, possibly scaled, masked, or mixed between heads; None if its
    input is anything else.
    """
    node = softmax.inputs[0]
    while node is not None and node.operator is not MatMul:
        is_product = node.operator is LinearMap and node.settings["forward"] is swapped
        if is_product or node.operator not in (Move, Scale, Add, LinearMap) or len(node.paths) != 1:
            return node if is_product else None
        (node,) = node.paths
    return node


def product_with_values(softmax: Node, users: Users) -> Node | None:
    """Return the matrix product in which the weights of a ``softmax``, possibly mixed between heads, multiply values; None if there is
    none. ``users`` gives the nodes that take the output of a node.
    """
    waiting = [softmax]
    while waiting:
        node = waiting.pop(0)
        for user in users.get(id(node), ()):
            if user.operator is MatMul and user.role == Role.CONTEXT and user.inputs[0] is node:
                return user
            if user.role == Role.WEIGHTS:
                waiting.append(user)
    return None


def over_tokens(nodes: Nodes, block: Block) -> list[Node]:
    """Return the softmaxes among ``nodes`` in ``block`` whose weights have the shape of maps over all its tokens (B, H, S, S), as far as it
    has run.
    """
    batch, tokens = block.input.shape[:2]
    return [
        node
        for node in nodes.nodes_in(block)
        if node.operator is Softmax and len(node.shape) == 4 and node.shape[0] == batch and node.shape[-2:] == (tokens, tokens)
    ]


def attention_of(nodes: Nodes, block: Block, users: Users) -> Attention | None:
    """Return the attention over the tokens of ``block``, a block of a recorded pass (``nodes``): the last softmax whose weights multiply
    values, else the last one; None if there is none. ``users`` lists the nodes that read each node.
    """
    candidates = [Attention(softmax, product_with_values(softmax, users)) for softmax in over_tokens(nodes, block)]
    return next((attention for attention in reversed(candidates) if attention.product is not None), candidates[-1] if candidates else None)


def projection_of(product: Node, users: Users) -> tuple[Tensor, Tensor | None] | None:
    """Return weight and bias of the first linear map that takes the output of an attention, all heads side by side; None if there is none.
    ``product`` is the node that weights the values, ``users`` lists the nodes that read each node.
    """
    width = product.shape[1] * product.shape[3]
    waiting, seen = [product], {id(product)}
    while waiting:
        node = min(waiting, key=lambda each: each.place)
        waiting.remove(node)
        weight = _layer_weight(node, width) if node.operator is LinearMap else None
        if weight is not None:
            bias = weight_and_bias_of(node)[1]
            return weight, _bias_after(node, len(weight), users) if bias is None else bias.flatten()
        if node.operator is LinearMap and node.settings["role"] == "attention":
            return None  # in some other form, such as head by head
        for user in users.get(id(node), ()):
            if id(user) not in seen:
                seen.add(id(user))
                waiting.append(user)
    return None


def _layer_weight(node: Node, width: int) -> Tensor | None:
    """Return the weight (outputs, ``width``) of a linear map of rows of that width, however it is written: as a linear layer, with the
    weight on the left, or as a convolution of single places. None for any other map.
    """
    weight, taken = weight_and_bias_of(node)[0], node.paths[0].shape
    if node.settings["forward"] is matrix_products.linear:
        return weight if taken[-1] == width else None
    if node.settings["forward"] is swapped:
        return weight if weight.dim() == 2 and taken[-2] == width else None
    is_of_places = weight.dim() == len(taken) > 2 and weight.shape[2:].numel() == 1 and taken[2:] == node.shape[2:]
    return weight.flatten(1) if is_of_places and weight.shape[1] == taken[1] == width else None


def _bias_after(linear_map: Node, width: int, users: Users) -> Tensor | None:
    """Return the constant (``width``,) that is added separately, perhaps in parts, to the output of the node ``linear_map``, found by the
    ``users`` of its output; None if there is none.
    """
    node, bias = linear_map, None
    while True:
        takers = users.get(id(node), [])
        if len(takers) != 1 or (takers[0].operator is not Move and takers[0].operator is not Add):
            return bias
        (node,) = takers
        if node.operator is Add:
            constant: Any = constant_of(node) if len(node.paths) == 1 else None
            if not isinstance(constant, Tensor) or constant.numel() != width or not is_bias(constant):
                return bias
            bias = constant.flatten() if bias is None else bias + constant.flatten()


def input_of(products: Sequence[Node | None], block: Block) -> Tensor | None:
    """Return the input (B, S, D) of an attention in ``block``, given the matrix ``products`` of its weights and values: the one tensor
    whose linear maps are its queries, keys and values.

    None if they come from several tensors, or from one that is no row of the block's tokens.
    """

    def projects(node: Node) -> bool:
        return node.operator is LinearMap and bool(node.operands) and node.operands[0].shape == block.input.shape

    reached = [node for node in ancestors(products, [block.start], projects) if projects(node)]
    return reached[0].operands[0] if len({id(node.inputs[0]) for node in reached}) == 1 else None


def projections(nodes: Nodes) -> tuple[frozenset[int], bool]:
    """Return, for the ``nodes`` of a recorded pass, the positions of the linear maps that make queries, keys and values, possibly followed
    by reshapes, rotations and norms, and of those that take what attention gives, however its parts are put together; and whether positions
    are rotary: in the blocks, a constant that differs from token to token is multiplied in between.
    """
    positions, rotary = _output_projections(nodes), False
    products_of_keys = {id(scores_of(node)) for node in nodes.ran if node.operator is Softmax}  # where the queries are constants

    def projects(node: Node) -> bool:
        return node.operator is LinearMap and id(node) not in products_of_keys

    for stretch, start, inside in _stretches(nodes):
        factors = [path for node in stretch if node.operator in (MatMul, LinearAttention) for path in node.inputs]
        reached = ancestors(factors, [] if start is None else [start], projects)
        positions |= {node.position for node in reached if projects(node)}
        rotary = rotary or (inside and any(_rotates(node) for node in reached))
    return frozenset(positions), rotary


def _output_projections(nodes: Nodes) -> set[int]:
    """Return the positions of the linear maps among ``nodes`` all of whose input is what attention gives, moved, scaled or added up, such
    as that of single heads or of chunks of queries; not where it is pooled.
    """
    of_attention = set[int]()
    for node in nodes.ran:
        numbers = sum(path.shape.numel() for path in node.paths[:1])
        keeps = node.operator in (Move, Add, Scale) or (node.operator is Pool and node.shape.numel() >= numbers)
        is_made_of_it = keeps and bool(node.paths) and all(id(path) in of_attention for path in node.paths)
        if is_made_of_it or node.role in (Role.CONTEXT, Role.UNNORMALISED):
            of_attention.add(id(node))
    return {node.position for node in nodes.ran if node.operator is LinearMap and node.paths and id(node.paths[0]) in of_attention}


def _stretches(nodes: Nodes) -> Iterator[tuple[list[Node], Node | None, bool]]:
    """Yield the list of nodes in sections: the blocks, and the parts before, between and after them. Each comes with the node at which it
    begins to depend on the previous block (for a block, on its input), and whether it is a block.
    """
    yield nodes.ran[: nodes.blocks[0].first if nodes.blocks else None], None, False
    for block, after in zip(nodes.blocks, [*nodes.blocks[1:], None], strict=True):
        yield nodes.nodes_in(block), block.start, True
        if block.end is not None:
            yield nodes.ran[block.end : None if after is None else after.first], block.passed_on_by, False


def _rotates(node: Node) -> bool:
    """Return whether a node multiplies by a constant (..., tokens, d) that differs from token to token."""
    constant: Any = constant_of(node) if node.operator is Scale else None
    return isinstance(constant, Tensor) and constant.dim() > 1 and bool((constant != constant[..., :1, :]).any())


def normalised(nodes: Nodes) -> frozenset[int]:
    """Return the positions of those linear attentions among the recorded ``nodes`` whose output is divided by a normaliser, which then
    needs no stabiliser.
    """
    divided = [node.inputs[0] for node in nodes.ran if node.operator is Normaliser]
    reached = ancestors(divided, until=lambda node: node.operator is LinearAttention)
    return frozenset(node.position for node in reached if node.operator is LinearAttention)

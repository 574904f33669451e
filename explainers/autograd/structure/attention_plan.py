"""The result of a trial pass on a model's attention: the blocks in which it is one map over the tokens in their order, and the
exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from explainers.autograd.nodes import Block, Nodes, ancestors
from explainers.autograd.operators import Softmax
from explainers.autograd.structure.attention import Attention, Users, product_with_values
from explainers.autograd.structure.attention_maps import maps_in
from explainers.autograd.structure.attention_products import COMPLEX, Product, Unreadable, attends_in_complex_numbers, products_of
from explainers.autograd.structure.token_codes import MIXED, NO_SIGNAL, NOTHING, ONE_TOKEN, Pull, tokens_of
from explainers.autograd.structure.token_mixing import mixes_tokens

_NO_SOFTMAX = (
    "no softmax runs in them whose weights could be read: they bring tokens together in another way or not at all, such as by "
    "convolutions, by a sigmoid, by exponentials whose sum divides what they gave, by weights that are constants, detached or made in an "
    "earlier block, or in code that cannot be inspected (attention with keys of its own, torch.jit)"
)
_NO_VALUES = (
    "no softmax in them, as far as it depends on the input and is not detached, weighs their tokens by a matrix product with values made "
    "of these tokens: it may weigh branches or channels, as split attention does"
)
_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class BlockPlan:
    """The way in which the attention of one block is read.

    is_usual   whether every pass with the same number of softmaxes has one attention map in this block, over the tokens in their order
    softmaxes  number of softmaxes that ran in the block
    maps       number of its attention maps, one after the other; 0 if it has none, or none that can be read
    reason     why its attention cannot be read, as the end of a sentence; None if it can, or if the block has no attention between tokens
    """

    is_usual: bool
    softmaxes: int
    maps: int
    reason: str | None = None
    heads_apart: bool = False  # whether the heads of a map are of several products


@dataclass(frozen=True)
class AttentionPlan:
    """The way in which the attention of a model is read: the plan of each block, and properties of the whole model.

    blocks              the plan of each block
    keeps_order         whether token i at the input of every block is token i at the input of the first
    outside             where attention runs that belongs to no block and no known head: "before", "between" or "behind" (after) the blocks
    has_earlier_values  whether attention in some block weights values that an earlier block computed, alone or mixed with its own
    mixes_elsewhere     whether tokens come together in the blocks, or between them, by something else than attention
    has_shortcuts       whether the input or output of a block reaches the head or a later block by another path than through the blocks
                        between them
    keeps_inner_order   whether row i of a tensor inside a block that has a row for each token belongs to token i
    has_places          whether the tokens belong to places in the picture
    has_rows_elsewhere  whether the rows at which some bias acts do not lie as the tokens do
    has_rows_of_some    whether the rows at which some bias acts are not all tokens in their order, such as those of the patches alone
    has_flat_rows       whether these rows are the tokens of a sample one after the other
    biases_of_no_token  the positions of biases in the blocks that act at no token
    joined_biases       the positions of biases at some rows of several tokens, whose other rows do not lie as the tokens do
    rows_before         by the positions of biases after the blocks: how many rows stand before that of the first token
    cuts_tokens         whether some tokens are thrown away between the blocks or inside them, and others put in their places
    replaces_inside     whether a block puts other tokens in the places of some of its own, or weighs other values for them
    no_product          why maps cannot be multiplied from block to block where tokens are thrown away, as the end of a sentence; None if
                        they can
    """

    blocks: tuple[BlockPlan, ...]
    keeps_order: bool
    outside: tuple[str, ...] = ()
    has_earlier_values: bool = False
    mixes_elsewhere: bool = False
    has_shortcuts: bool = False
    keeps_inner_order: bool = True
    has_places: bool = True
    has_rows_elsewhere: bool = False
    has_rows_of_some: bool = False
    has_flat_rows: bool = False
    biases_of_no_token: frozenset[int] = frozenset()
    joined_biases: frozenset[int] = frozenset()
    rows_before: Mapping[int, int] = field(default_factory=dict)
    cuts_tokens: bool = False
    replaces_inside: bool = False
    no_product: str | None = None

    @property
    def reason(self) -> str | None:
        """The reason why attention cannot be read in some block; None if it can in all."""
        return next((block.reason for block in self.blocks if block.reason is not None), None)

    @property
    def has_several(self) -> bool:
        """Return whether a block attends several times, one after the other."""
        return any(block.maps > 1 for block in self.blocks)

    @property
    def has_usual_maps(self) -> bool:
        """Return whether each block has one attention map, made by one softmax, over all of its tokens in their order."""
        return not self.cuts_tokens and all(block.is_usual and block.softmaxes == block.maps == 1 for block in self.blocks)

    @property
    def has_parallel(self) -> bool:
        """Return whether the heads of a block's map come from several products."""
        return any(block.heads_apart for block in self.blocks)


def softmaxes_in(nodes: Nodes, block: Block) -> int:
    """Return the number of softmaxes among ``nodes`` that ran in ``block``."""
    return sum(node.operator is Softmax for node in nodes.nodes_in(block))


def attention_outside(nodes: Nodes, read: Sequence[Attention], users: Users) -> tuple[str, ...]:
    """Return where attention runs outside of the blocks of a recorded pass, whose operators are ``nodes``: some of "before", "between" and
    "behind" (after the blocks). It counts as attention if a softmax weights several values that depend on the input. Attention in ``read``
    is left out; ``users`` are the nodes that use each node's output.
    """
    known = {id(attention.softmax) for attention in read}
    if not nodes.blocks:
        return ()
    inside = [(block.first, len(nodes.ran) if block.end is None else block.end) for block in nodes.blocks]
    places = set[str]()
    for node in nodes.ran:
        if node.operator is not Softmax or id(node) in known or any(first <= node.place < end for first, end in inside):
            continue
        product = product_with_values(node, users)
        if product is None or product.inputs[1] is None or product.operands[0].shape[-1] < 2:
            continue
        is_before, is_behind = node.place < inside[0][0], node.place >= inside[-1][1]
        places.add("before" if is_before else "behind" if is_behind else "between")
    return tuple(place for place in ("before", "between", "behind") if place in places)


def has_shortcuts(nodes: Nodes) -> bool:
    """Return whether, in a recorded pass (``nodes``), a later block, or the code after the last one, uses the input or the output of an
    earlier block by another path than through the blocks between. Paths through attention weights do not count. If a loop outside of the
    blocks adds their residual, a sum around one block alone looks like that residual, and does not count either.
    """
    blocks = nodes.blocks
    first, last = blocks[0].start, blocks[-1]
    behind = [node for node in nodes.ran[last.end :] if last.end is not None]
    steps = [(block.made_by, block.start, block.first) for block in blocks[1:]]
    steps += [(block.start, before.passed_on_by, block.first) for before, block in pairwise(blocks)]
    steps += [(node, last.passed_on_by, len(nodes.ran)) for node in behind[-1:]]
    for taker, known, until in steps:
        if taker is None or known is None:
            continue
        reached = ancestors([taker], [known], lambda node: node.operator is Softmax and node.place >= blocks[0].first)
        inside = [(block.first, until if block.end is None else block.end) for block in blocks if block.first < until]
        if any(node is first or any(low <= node.place < min(high, known.place) for low, high in inside) for node in reached):
            return True
    return False


def plan_of(
    nodes: Nodes,
    candidates: Sequence[Attention | None],
    usual: Sequence[Product | None],
    behind: Sequence[Attention],
    pull: Pull,
    pull_all: Pull,
    known: str | None = None,
    is_row_by_row: bool = False,
) -> AttentionPlan:
    """Return the attention plan, found from the ``nodes`` of one recorded pass. ``candidates`` has for each block the softmax with the
    shape of a map over its tokens (None without one), ``usual`` the :func:`usual_products` of these, and ``behind`` the attention after the
    blocks that is read. ``pull`` runs a backward
    pass that stops at attention, with gates and the scales of normalisations as constants, ``pull_all`` one that stops at attention alone.
    ``known`` is the reason why blocks without a candidate have no map, if known; ``is_row_by_row`` the result of
    :func:`~explainers.autograd.structure.inner_order.is_row_by_row`.
    """
    in_order_behind = all(_has_keys_in_order(attention, nodes.blocks[-1], pull) for attention in behind)
    products = [each for each in usual if each is not None]
    earlier = has_earlier_values(nodes, usual)
    clear, strange = (True, False) if is_row_by_row else _follow(nodes, products, pull_all)
    mixes = False
    if not clear:  # in few models
        clear, strange = _follow(nodes, products, pull)
        mixes = mixes_tokens(nodes, pull_all)
    if clear and len(products) == sum(each is not None for each in candidates):
        plans = [
            BlockPlan(True, softmaxes_in(nodes, block), 1) if each is not None else _plan_of_block(nodes, block, each, pull, known)
            for each, block in zip(candidates, nodes.blocks, strict=True)
        ]
        return AttentionPlan(tuple(plans), in_order_behind, has_earlier_values=earlier, mixes_elsewhere=mixes)
    plans = [_plan_of_block(nodes, block, each, pull, known) for each, block in zip(candidates, nodes.blocks, strict=True)]
    moved = strange and not products
    in_order = in_order_behind and not moved and _keeps_order(nodes, candidates, pull)
    return AttentionPlan(tuple(plans), in_order, has_earlier_values=earlier, mixes_elsewhere=mixes)


def usual_products(nodes: Nodes, candidates: Sequence[Attention | None]) -> list[Product | None]:
    """Return for each block of a recorded pass (``nodes``) the only product that mixes its tokens, if it multiplies by the weights of its
    candidate, one of ``candidates``; else None.
    """
    return [None if each is None else _usual_product(nodes, each, block) for each, block in zip(candidates, nodes.blocks, strict=True)]


def has_earlier_values(nodes: Nodes, usual: Sequence[Product | None]) -> bool:
    """Return whether attention in some block weighs values of an earlier one; ``usual`` are the :func:`usual_products` of ``nodes``."""
    pairs = zip(usual, nodes.blocks, strict=True)
    return any(each is not None and _has_values_of_earlier_block(nodes, each, block) for each, block in pairs)


def _usual_product(nodes: Nodes, candidate: Attention, block: Block) -> Product | None:
    """Return the only product among ``nodes`` that mixes the tokens of ``block``, if it multiplies by the weights of ``candidate``; else
    None.
    """
    try:
        products = products_of(nodes, block)
    except Unreadable:
        return None
    if len(products) != 1 or products[0].node is not candidate.product or products[0].is_turned:
        return None
    return products[0] if _has_weights_of(products[0], candidate) else None


def _has_values_of_earlier_block(nodes: Nodes, product: Product, block: Block) -> bool:
    """Return whether the values of ``product`` in ``block`` are computed from results of an earlier block by another path than through the
    block's own input tokens; also if they are mixed with the block's own values (value residual learning). ``nodes`` are the operators of
    the pass.
    """
    if block.start is None:
        return False
    reached = ancestors([product.node.inputs[1 - product.side]], [block.start])
    earlier = [(each.first, block.first if each.end is None else each.end) for each in nodes.blocks if each.first < block.first]
    return any(first <= node.place < end for node in reached for first, end in earlier)


def _has_weights_of(product: Product, candidate: Attention) -> bool:
    """Return whether ``product`` multiplies by the weights of ``candidate``, perhaps in another shape."""
    met, read = product.weights, candidate.weights
    return met is read or (met.numel() == read.numel() and met.shape[-2:] == read.shape[-2:] and torch.equal(met.reshape(read.shape), read))


def _follow(nodes: Nodes, products: Sequence[Product], pull: Pull) -> tuple[bool, bool]:
    """Test whether tokens keep their order from block to block of a recorded pass (``nodes``), by ``pull``, a backward pass from the last
    block and the values of ``products``: each token's signal is multiplied by a number of its own, and these numbers are looked for at each
    block's input and at each attention's output. Return two booleans: whether every signal there has the number of its own position, and
    whether some token has that of another.
    """
    last = nodes.blocks[-1].output
    assert last is not None
    tokens = last.shape[1]
    generator = torch.Generator().manual_seed(0)
    code = (1 + torch.rand(tokens, 1, generator=generator, dtype=torch.float64)).to(last)
    outputs = [last, *(product.value for product in products)]
    inputs = [block.input for block in nodes.blocks]
    contexts = [product.node.output for product in products if product.node.output is not None]
    if any(tensor.shape[-2] != tokens for tensor in (*outputs, *inputs, *contexts)):
        return False, False
    directions = [
        torch.randn(output.shape[-2:], generator=generator, dtype=torch.float64).to(output).expand(output.shape) for output in outputs
    ]
    plain = pull(outputs, [*inputs, *contexts], directions)
    coded = pull(outputs, [*inputs, *contexts], [direction * code for direction in directions])
    clear, strange, code = True, False, code.double()
    for number, signals in enumerate(zip(plain, coded, strict=True)):
        if any(signal is None for signal in signals):
            clear = False
            continue
        without, with_code = (signal.double() for signal in signals if signal is not None)
        size = (without * code).norm()
        clear &= bool((with_code - without * code).norm() < ONE_TOKEN * size) if bool(size) else number >= len(inputs)
        if number < len(inputs):
            length = without.square().sum(-1, keepdim=True)
            ratio = (without * with_code).sum(-1, keepdim=True) / length.clamp_min(_TINY)
            rest = (with_code - ratio * without).square().sum(-1, keepdim=True).sqrt()
            is_of_one = (rest < ONE_TOKEN * length.sqrt()) & (length > NO_SIGNAL**2 * length.max())
            strange |= bool((is_of_one & ((ratio - code).abs() > ONE_TOKEN)).any())
    return clear, strange


def _plan_of_block(nodes: Nodes, block: Block, candidate: Attention | None, pull: Pull, known: str | None) -> BlockPlan:
    softmaxes = softmaxes_in(nodes, block)
    if candidate is None and known is not None:
        return BlockPlan(False, softmaxes, 0, known)
    if not softmaxes:
        return BlockPlan(False, softmaxes, 0, _NO_SOFTMAX)
    try:
        maps = maps_in(nodes, block, pull)
    except Unreadable as problem:
        return BlockPlan(False, softmaxes, 0, str(problem))
    if not maps:
        return BlockPlan(False, softmaxes, 0, COMPLEX if attends_in_complex_numbers(block) else _NO_VALUES)
    is_usual = len(maps) == len(maps[0].sources) == 1 and maps[0].is_usual
    is_usual = is_usual and candidate is not None and maps[0].sources[0] is candidate.weights
    return BlockPlan(is_usual, softmaxes, len(maps), heads_apart=any(each.heads_apart for each in maps))


def _has_keys_in_order(attention: Attention, last: Block, pull: Pull) -> bool:
    """Return whether the keys of ``attention``, one after the blocks, are the output tokens of the ``last`` block in their order, perhaps
    after a class token. ``pull`` runs a backward pass that stops at attention.
    """
    value, given = attention.value, last.passed_on
    if value is None or given is None or not value.requires_grad:
        return True
    keys, tokens = value.shape[-2], given.shape[1]
    labels = torch.arange(keys, device=value.device).view(*[1] * (value.dim() - 2), keys, 1)
    (whose,) = tokens_of(pull, value, labels, keys, [given], [2])
    expected = torch.arange(keys - tokens, keys, device=value.device)
    return whose is None or not bool(((whose != expected) & (whose != NOTHING) & (whose != MIXED)).any())


def _keeps_order(nodes: Nodes, candidates: Sequence[Attention | None], pull: Pull) -> bool:
    """Return whether token i stays token i from the output of each block to the input of the next, and within each block that has attention
    over its tokens (one of ``candidates``, None for other blocks). ``pull`` runs a backward pass over ``nodes`` that stops at attention.
    """
    for block, after, candidate in zip(nodes.blocks, [*nodes.blocks[1:], None], candidates, strict=True):
        pairs = []
        if candidate is not None and block.output is not None:
            pairs.append((block.output, block.input))
        if after is not None and block.passed_on is not None:
            pairs.append((after.input, block.passed_on))
        for later, earlier in pairs:
            batch, tokens = later.shape[:2]
            labels = torch.arange(batch * tokens, device=later.device).view(batch, tokens, 1)
            (whose,) = tokens_of(pull, later, labels, batch * tokens, [earlier], [2])
            if whose is not None and bool(((whose != labels[..., 0]) & (whose != NOTHING) & (whose != MIXED)).any()):
                return False
    return True

"""The attention maps of one block, in the order of its tokens, however the block computes them.

Each product of attention weights and values is asked to which token of what the block gives each of its queries belongs, and from which
token of what the block takes each of its keys comes: see :mod:`explainers.autograd.structure.token_codes`. Products that are added to one
residual stream are heads of one map, whether they are computed in chunks, in parallel branches or together; products of which one takes
what the other gave to the stream are maps one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Size, Tensor

from explainers.autograd.nodes import Block, Nodes, Unruled, ancestors
from explainers.autograd.operators import Add, Softmax
from explainers.autograd.recorder import Reader
from explainers.autograd.structure.attention_kinds import OVER_CHANNELS
from explainers.autograd.structure.attention_products import Product, Unreadable, is_product, products_of
from explainers.autograd.structure.token_codes import MIXED, NOTHING, ONE_TOKEN, Pull, tokens_of

#: What a map is made of: the weights, or what a rule of gradients or of relevance brought back to them.
What = Literal["weights", "gradient", "relevance"]
_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """One attention map (B, H, S, S). ``sources`` are the tensors of the recorded pass that hold its numbers. ``arrange(values, what)``
    builds the map from them, or the signal at the map from the signals at them. ``is_usual``: whether the map is the weights of one product
    unchanged; ``heads_apart``: whether its heads come from several products; ``is_in_order``: whether rows and columns of each source are
    the tokens in their order; ``is_turned``: whether its one source lies with keys before queries. ``readers``: for each source the matrix
    product that multiplies values by it, whose own signal at the source is read, without what comes from other products of the same
    weights; empty where the whole signal at each source is read. ``has_samples_first``: whether in each source all matrices of one sample
    come before those of the next, as far as there are several.
    """

    sources: tuple[Tensor, ...]
    arrange: Callable[[Sequence[Tensor], What], Tensor]
    is_usual: bool = True  # whether it is a product's weights as they are
    heads_apart: bool = False  # whether its heads are of several products
    is_in_order: bool = True  # whether rows and columns of its sources are the tokens in their order
    is_turned: bool = False  # whether its one source lies with keys before queries
    readers: tuple[Reader, ...] = ()
    has_samples_first: bool = True  # whether in each source all of one sample comes before all of the next

    @property
    def weights(self) -> Tensor:
        """The attention weights of all heads, (B, H, queries, keys)."""
        return self.arrange(self.sources, "weights")


def as_recorded(weights: Tensor) -> AttentionMap:
    """Return the :class:`AttentionMap` of ``weights`` (B, H, S, S), a tensor that was recorded as a map already and is read unchanged."""
    return AttentionMap((weights,), lambda values, what: values[0])


@dataclass(frozen=True, eq=False)
class _Part:
    """The part of an attention map over ``tokens`` tokens that comes from one product of attention weights and values.

    leads    (B, H): for each head the index of its matrix of weights; several heads may share one matrix
    firsts   (B, H): for each head the index of the first of its matrices in the product's output
    rows     (B, H, Q): the token of each query, and columns (B, K): the token of each key; ``tokens`` where there is none
    others   further products with the same values whose outputs are added to this one's, each with its factor (B, H, 1, 1)
    pieces   further products with the same queries and with values of other tokens, added likewise, each with its factor
    alike    further products with the same weights and other values, such as other channels of them
    """

    product: Product
    leads: Tensor
    firsts: Tensor
    rows: Tensor
    columns: Tensor
    tokens: int
    others: tuple[tuple[_Part, Tensor], ...] = ()
    pieces: tuple[tuple[_Part, Tensor], ...] = ()
    alike: tuple[_Part, ...] = ()

    @property
    def products(self) -> tuple[Product, ...]:
        """The products of attention weights and values of the part, including those that are added to it."""
        further = (product for part in (*(piece for piece, _ in self.pieces), *self.alike) for product in part.products)
        return (self.product, *(other.product for other, _ in self.others), *further)

    @property
    def sources(self) -> tuple[Tensor, ...]:
        """The tensors that hold the weights of the products of the part."""
        return tuple(product.weights for product in self.products)

    def arrange(self, values: Sequence[Tensor], what: What) -> Tensor:
        """Return the map (B, H, S, S) made of ``values``: the weights in the part's sources, or the signals there; ``what`` says which:
        "weights", "gradient" or "relevance".
        """
        left = iter(values)
        whole = self._placed(next(left))
        for other, times in self.others:
            value = next(left)
            if what != "gradient":  # that at the others is a multiple of the one at the first
                whole = whole + (times if what == "weights" else 1) * other._placed(value)
        for piece, times in self.pieces:
            of_piece = piece.arrange([next(left) for _ in piece.sources], what)
            whole = whole + (times * of_piece if what == "weights" else of_piece / times if what == "gradient" else of_piece)
        for part in self.alike:
            of_alike = part.arrange([next(left) for _ in part.sources], what)
            whole = whole if what == "weights" else whole + of_alike
        return whole

    def _placed(self, values: Tensor) -> Tensor:
        turned = values.mT if self.product.is_turned else values
        given = _matrices(turned)[self.leads]
        batch, heads = self.leads.shape
        whole = given.new_zeros(batch, heads, self.tokens + 1, self.tokens + 1)
        samples = torch.arange(batch, device=given.device)[:, None, None, None]
        places = torch.arange(heads, device=given.device)[None, :, None, None]
        whole[samples, places, self.rows[..., None], self.columns[:, None, None, :]] = given
        return whole[..., :-1, :-1]

    @property
    def is_in_order(self) -> bool:
        """Return whether queries and keys, as far as they are of tokens, are these in their order."""
        if self.rows.shape[-1] != self.tokens or self.columns.shape[-1] != self.tokens:
            return False
        in_order = torch.arange(self.tokens, device=self.rows.device)
        return all(bool(((whose == in_order) | (whose == self.tokens)).all()) for whose in (self.rows, self.columns))

    @property
    def is_usual(self) -> bool:
        """Return whether queries and keys are all tokens in their order."""
        in_order = torch.arange(self.tokens, device=self.rows.device)
        shape = self.product.weights.shape
        return (
            not self.product.is_turned
            and len(shape) == 4
            and shape[-2:] == (self.tokens, self.tokens)
            and bool((self.rows == in_order).all() and (self.columns == in_order).all())
            and bool((self.leads.flatten() == torch.arange(self.leads.numel(), device=self.leads.device)).all())
        )


#: Why several tokens have one key, where all queries meet the same keys, and where they do not.
_FEWER_KEYS = "each key of their attention is made of several tokens, as where a convolution leaves fewer keys (PVT)"
_OTHER_KEYS = "their keys are not the same tokens for all queries, as in attention inside windows"


def _matrices(tensor: Tensor) -> Tensor:
    """Return ``tensor`` with all leading dimensions flattened: (L, rows, columns)."""
    return tensor.reshape(-1, *tensor.shape[-2:])


def _operand_indices(given: Tensor, leads: Size) -> Tensor:
    """Return, for each matrix of a matrix product with the leading dimensions ``leads``, the index of the matrix in the operand ``given``
    that it was computed from, after broadcasting: (matrices,).
    """
    places = torch.arange(given.shape[:-2].numel(), device=given.device)
    return places.view(given.shape[:-2]).expand(leads).flatten()


def maps_in(nodes: Nodes, block: Block, pull: Pull) -> list[AttentionMap]:
    """Return the attention maps of ``block``, found among ``nodes``, one after the other; ``pull`` propagates back with attention cut.
    Raises Unreadable if they cannot be determined.
    """
    products = products_of(nodes, block)
    known = {id(softmax) for product in products for softmax in product.softmaxes}
    inside = nodes.nodes_in(block)
    is_known = all(node.operator is not Unruled and (node.operator is not Softmax or id(node) in known) for node in inside)
    parts = [part for part in (_part_of(nodes, product, block, pull, is_known) for product in products) if part is not None]
    stages: list[list[_Part]] = []
    for part in parts:
        before = {id(node) for node in ancestors(part.product.node.inputs, [block.start])}
        level = max((1 + i for i, stage in enumerate(stages) for other in stage if id(other.product.node) in before), default=0)
        stages += [[] for _ in range(level + 1 - len(stages))]
        stages[level].append(part)
    return [_map_of(_sums_of(stage, block, pull)) for stage in stages]


def _part_of(nodes: Nodes, product: Product, block: Block, pull: Pull, is_known: bool) -> _Part | None:
    """Return the part that ``product`` adds to the attention map of ``block`` in a recorded pass (``nodes``); None if it combines no tokens
    of the block. ``pull`` propagates back with attention cut. ``is_known``: whether nothing in the block but its products and linear maps
    (such as convolutions after its attention) can combine tokens, so that tokens can be followed back through it.
    """
    batch, tokens = block.input.shape[:2]
    assert block.output is not None
    assert product.node.output is not None
    context, value, turned = product.node.output, product.value, product.is_turned
    dims = context.dim() - 1
    of_context = -dims if turned else dims
    rows, stream = None, None
    for stream_after in (block.output, _sum_after(nodes, product, block) if is_known else None):
        if stream_after is None:
            continue
        labels = torch.arange(batch * tokens, device=value.device).view(batch, tokens, *[1] * (stream_after.dim() - 2))
        rows, stream = tokens_of(pull, stream_after, labels, batch * tokens, [context, block.input], [of_context, 2])
        if rows is not None and stream is not None and not bool((rows == MIXED).any()) and not bool((stream == MIXED).any()):
            break
    if rows is None or not bool((rows != NOTHING).any()):
        raise Unreadable("where the output of one of their attentions goes cannot be seen")
    if bool((rows == MIXED).any()) and _is_over_channels(pull, block.output, labels, context, of_context):
        raise Unreadable(OVER_CHANNELS.no_map or "")
    if bool((rows == MIXED).any()) or (stream is not None and bool((stream == MIXED).any())):
        raise Unreadable("tokens come together in them on other ways than attention, so that whose queries they are is not known")
    if stream is not None and bool((stream != labels.view(batch, tokens)).logical_and(stream != NOTHING).any()):
        raise Unreadable("tokens change places inside them")
    matrices = rows.reshape(-1, rows.shape[-1])
    if _is_inside_tokens(matrices, product, block, pull, tokens):
        return None
    axis = value.shape[-1] if turned else value.shape[-2]
    of_keys = torch.arange(axis, device=value.device).view([1] * (value.dim() - 2) + ([1, axis] if turned else [axis, 1]))
    (keys,) = tokens_of(pull, value, of_keys, axis, [block.input], [2])
    if keys is None or bool((keys == NOTHING).all()):
        return None  # its values come from elsewhere
    if bool((keys == MIXED).any()):
        raise Unreadable(
            "the values that their attention weighs are made of several tokens each, or are not the same tokens in the same order for all "
            "heads and queries, as where each query gathers keys of its own"
        )
    columns = torch.full((batch, axis + 1), tokens, device=value.device)
    counts = torch.zeros(batch, axis + 1, dtype=torch.long, device=value.device)
    places = torch.where(keys == NOTHING, axis, keys)
    columns.scatter_(1, places, torch.arange(tokens, device=value.device).expand_as(places))
    counts.scatter_add_(1, places, torch.ones_like(places))
    if bool((counts[:, :-1] > 1).any()):
        raise Unreadable(_FEWER_KEYS if rows.shape[-1] == tokens else _OTHER_KEYS)
    met = _operand_indices(product.weights, context.shape[:-2])
    shared = torch.full((int(met.max()) + 1, matrices.shape[1]), NOTHING, device=matrices.device)
    shared.scatter_reduce_(0, met[:, None].expand_as(matrices), matrices, "amax")
    if bool(((shared[met] != matrices) & (matrices != NOTHING)).any()):
        raise Unreadable("the same attention weights belong to different tokens")
    first = torch.full((len(shared),), len(met), device=met.device).scatter_reduce_(
        0, met, torch.arange(len(met), device=met.device), "amin"
    )
    places, rows = _heads_of(shared, batch, tokens)
    return _Part(product, places, first[places], rows, columns[:, :-1], tokens)


def _is_over_channels(pull: Pull, output: Tensor, labels: Tensor, context: Tensor, dims: int) -> bool:
    """Return whether tokens lie along dimension ``dims`` from the end of ``context``, the output of a product, so that its weights are
    between channels. ``labels`` number the tokens of the block's ``output``. ``pull`` propagates back with attention cut.
    """
    (columns,) = tokens_of(pull, output, labels, labels.numel(), [context], [-dims])
    return columns is not None and bool((columns != MIXED).all()) and bool((columns != NOTHING).any())


def _sum_after(nodes: Nodes, product: Product, block: Block) -> Tensor | None:
    """Return the residual stream after the first sum of two paths among ``nodes`` in ``block`` that uses the output of ``product``; None if
    there is none.
    """
    for node in nodes.nodes_in(block):
        is_sum = node.operator is Add and len(node.paths) == 2 and node.shape == block.stream == block.input.shape
        if is_sum and any(each is product.node for each in ancestors([node], [block.start], is_product)):
            return node.output
    return None


def _is_inside_tokens(matrices: Tensor, product: Product, block: Block, pull: Pull, tokens: int) -> bool:
    """Return whether the attention of ``product`` in ``block``, which has ``tokens`` tokens, stays within single tokens, such as between
    positions inside a patch; ``matrices`` (L, Q) holds the token of each query. ``pull`` propagates back with attention cut.
    """
    owners = matrices.amax(1)
    if bool((matrices != owners[:, None]).logical_and(matrices != NOTHING).any()):
        return False
    value, context, batch = product.value, product.node.output, len(block.input)
    assert context is not None
    of_values = torch.zeros(value.shape[:-2].numel(), dtype=owners.dtype, device=owners.device)
    of_values[_operand_indices(value, context.shape[:-2])] = owners.clamp(min=0)
    labels = of_values.view(*value.shape[:-2], 1, 1)
    (keys,) = tokens_of(pull, value, labels, batch * tokens, [block.input], [2])
    whose = torch.arange(batch * tokens, device=value.device).view(batch, tokens)
    return keys is not None and bool(((keys == whose) | (keys == NOTHING)).all())


def _heads_of(matrices: Tensor, batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Sort the matrices of attention weights by sample, of ``batch`` samples with ``tokens`` tokens each. ``matrices`` (L, Q) holds the
    token of each query, numbered across all samples. Return the indices of each sample's matrices (B, H), and the tokens of their queries
    within the sample (B, H, Q). Raises Unreadable if a matrix mixes samples.
    """
    known = matrices != NOTHING
    samples = torch.where(known, matrices // tokens, -1).amax(1)
    lowest = torch.where(known, matrices // tokens, batch).amin(1)
    if bool((samples != lowest).any()) or len(set(samples.bincount(minlength=batch).tolist())) > 1:
        raise Unreadable("their attention does not keep samples apart")
    leads = torch.stack([(samples == sample).nonzero()[:, 0] for sample in range(batch)])
    return _unfold_queries(leads, torch.where(known, matrices % tokens, tokens)[leads], tokens)


def _unfold_queries(leads: Tensor, rows: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Return matrices, from ``leads`` (B, H), and queries, from ``rows`` (B, H, Q), as :func:`_heads_of` does, with a head of its own for
    each repetition where a matrix holds several queries of one token, as if all heads share their keys: the first query of each token
    belongs to the first head, the second to the next.
    """
    is_query = torch.nn.functional.one_hot(rows, tokens + 1)
    number = (is_query.cumsum(2) - 1).gather(3, rows[..., None])[..., 0].masked_fill(rows == tokens, 0)
    folded = 1 + int(number.max())
    if folded == 1:
        return leads, rows
    of_heads = [torch.where(number == head, rows, tokens) for head in range(folded)]
    return leads.repeat_interleave(folded, 1), torch.stack(of_heads, 2).flatten(1, 2)


def _sums_of(stage: list[_Part], block: Block, pull: Pull) -> list[_Part]:
    """Merge those parts of ``stage`` in ``block`` whose outputs are added or subtracted and that have the same values, or values of
    different tokens; return the shorter list. Examples are a difference of two attentions, and weights that are split between the class
    token and the patches. Raises Unreadable for a part whose output reaches no output of the block.
    """
    if len(stage) < 2 or block.output is None:
        return stage
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(block.output.shape, generator=generator, dtype=torch.float64).to(block.output)
    contexts = [part.product.node.output for part in stage]
    signals = pull([block.output], [context for context in contexts if context is not None], [direction])
    left: list[tuple[_Part, Tensor]] = []
    for part, signal in zip(stage, signals, strict=True):
        if signal is None:
            raise Unreadable("where the output of one of their attentions goes cannot be seen")
        for number, (first, reference) in enumerate(left):
            times = _multiple(first, reference, part, signal)
            if times is None:
                continue
            if _weighs_the_same(first, reference, part, signal):
                left[number] = (replace(first, others=(*first.others, (part, times))), reference)
                break
            if bool(times.all()) and _weighs_other_tokens(first, part):
                left[number] = (replace(first, pieces=(*first.pieces, (part, times))), reference)
                break
        else:
            left.append((part, signal))
    return _joined_with_alike([part for part, _ in left])


def _joined_with_alike(parts: list[_Part]) -> list[_Part]:
    """Merge those of ``parts`` with equal weights into one, and return the shorter list."""
    joined: list[_Part] = []
    for part in parts:
        weights = part.arrange(part.sources, "weights")
        for number, first in enumerate(joined):
            known = first.arrange(first.sources, "weights")
            if known.shape == weights.shape and torch.allclose(known, weights):
                joined[number] = replace(first, alike=(*first.alike, part))
                break
        else:
            joined.append(part)
    return joined


def _weighs_the_same(first: _Part, reference: Tensor, part: _Part, signal: Tensor) -> bool:
    """Return whether the products of two parts have equal values. ``reference`` and ``signal`` are the signals at the outputs of the first
    and of the second.
    """
    ours, theirs = (
        _matrices(each.product.value)[_operand_indices(each.product.value, given.shape[:-2])]
        for each, given in ((first, reference), (part, signal))
    )
    return ours.shape == theirs.shape and torch.allclose(ours, theirs)


def _weighs_other_tokens(first: _Part, part: _Part) -> bool:
    """Return whether the values of a part belong to other tokens than all values of the ``first`` part and of its pieces."""
    counts = torch.zeros(len(part.columns), part.tokens + 1, dtype=torch.long, device=part.columns.device)
    for each in (first, *(piece for piece, _ in first.pieces), part):
        counts.scatter_add_(1, each.columns, torch.ones_like(each.columns))
    return not bool((counts[:, :-1] > 1).any())


def _multiple(first: _Part, reference: Tensor, part: _Part, signal: Tensor) -> Tensor | None:
    """Return the factor, for each head (B, H, 1, 1), with which the output of ``part`` is added to that of the ``first`` part, if both have
    the same queries; None if they are added in another way. The factor is read from the signals at both outputs, ``reference`` at the first
    and ``signal`` at the other.
    """
    contexts = [each.shape[:-2] for each in (reference, signal)]
    given = [_matrices(each.double()).flatten(1) for each in (reference, signal)]
    if contexts[0] != contexts[1] or given[0].shape != given[1].shape:
        return None
    if not torch.equal(first.firsts, part.firsts) or not torch.equal(first.rows, part.rows):
        return None
    times = (given[0] * given[1]).sum(-1, keepdim=True) / given[0].square().sum(-1, keepdim=True).clamp_min(_TINY)
    rest = (given[1] - times * given[0]).norm(dim=-1)
    by_head = times[part.firsts[..., None]]  # (B, H, 1, 1)
    met = _operand_indices(part.product.weights, contexts[1])
    whole = torch.zeros(int(met.max()) + 1, 1, dtype=times.dtype, device=times.device)
    whole[part.leads.flatten()] = by_head.flatten(0, 1).flatten(1)
    is_multiple = bool((rest <= ONE_TOKEN * given[1].norm(dim=-1)).all()) and bool(
        ((times - whole[met]).abs() <= ONE_TOKEN * whole[met].abs()).all()
    )
    return by_head.to(part.product.weights.dtype) if is_multiple else None


def _map_of(stage: list[_Part]) -> AttentionMap:
    """Join the parts of one ``stage``, whose outputs are added to one residual stream, into one attention map. Raises Unreadable if they do
    not cover each token's row exactly once.
    """
    counts = [_times_covered(part) for part in stage]
    parts = tuple(stage)
    sources = tuple(source for part in parts for source in part.sources)
    readers = tuple((product.node.position, product.side) for part in parts for product in part.products)

    def arranged(values: Sequence[Tensor], what: What) -> list[Tensor]:
        left = iter(values)
        return [part.arrange([next(left) for _ in part.sources], what) for part in parts]

    if all(bool((count == 1).all()) for count in counts):
        is_usual, is_turned = (len(sources) == 1 and of_it for of_it in (parts[0].is_usual, parts[0].product.is_turned))
        in_order = all(part.is_in_order for part in parts)
        arrange: Callable[[Sequence[Tensor], What], Tensor] = lambda values, what: torch.cat(arranged(values, what), 1)  # noqa: E731
        leads = [part.leads for part in parts]
        samples_first = all(bool((each[1:].amin(1) > each[:-1].amax(1)).all()) for each in leads)
        return AttentionMap(sources, arrange, is_usual, len(parts) > 1, in_order, is_turned, readers, samples_first)
    groups = _heads_in_chunks(stage, counts)
    if groups is None:
        of_tokens = torch.stack([count.sum(1) for count in counts]).sum(0)  # by how many heads each token asks
        if bool((of_tokens == of_tokens.max()).all()):
            raise Unreadable(
                "their attention is computed in chunks of queries and of heads at once, and which chunks are of one head is not known, as "
                "their values differ: chunks of queries alone, of heads alone, or of both with the values of a head computed once can be "
                "read"
            )
        raise Unreadable("some of their attention is over a part of the tokens alone")

    def by_head(values: Sequence[Tensor], what: What) -> Tensor:
        chunks = arranged(values, what)
        return torch.cat([torch.stack([chunks[number] for number in group]).sum(0) for group in groups], 1)

    return AttentionMap(sources, by_head, False, len(groups) > 1, readers=readers)


def _heads_in_chunks(stage: list[_Part], counts: list[Tensor]) -> list[list[int]] | None:
    """Return the parts of ``stage``, by their numbers, in groups of those whose queries are all tokens together: one group, or else one for
    each tensor of values, which are those of its heads. ``counts`` say how many queries each token has in each part. None if no such groups
    cover each token once.
    """
    if len({part.leads.shape for part in stage}) == 1 and bool((sum(counts, torch.zeros_like(counts[0])) == 1).all()):
        return [list(range(len(stage)))]
    groups: list[list[int]] = []
    for number, part in enumerate(stage):
        for group in groups:
            first, covered = stage[group[0]], sum((counts[each] for each in group), torch.zeros_like(counts[group[0]]))
            if part.leads.shape != first.leads.shape or bool((covered * counts[number]).any()):
                continue
            if part.product.value.shape == first.product.value.shape and torch.equal(part.product.value, first.product.value):
                group.append(number)
                break
        else:
            groups.append([number])
    covers = (bool((torch.stack([counts[each] for each in group]).sum(0) == 1).all()) for group in groups)
    return groups if all(covers) else None


def _times_covered(part: _Part) -> Tensor:
    """Return how many queries each token has in each head of ``part``, (B, H, S)."""
    counts = torch.zeros(*part.leads.shape, part.tokens + 1, dtype=torch.long, device=part.rows.device)
    counts.scatter_add_(2, part.rows, torch.ones_like(part.rows))
    return counts[..., :-1]

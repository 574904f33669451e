"""The structure of a model as a recorded pass shows it, each question answered when it is first asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from explainers.autograd.nodes import Block, Node, Nodes, users_of
from explainers.autograd.products import number_of, unscaled
from explainers.autograd.signals import AttentionParts
from explainers.autograd.structure import attention as attention_nodes
from explainers.autograd.structure.around_attention import (
    Addition,
    SumsElsewhere,
    added_before,
    additions_in,
    pooling_attention,
    pooling_products,
    sums_elsewhere,
    sums_in,
)
from explainers.autograd.structure.attention_kinds import OVER_TOKENS, AttentionKind, attention_kind_of
from explainers.autograd.structure.attention_maps import AttentionMap, as_recorded, maps_in
from explainers.autograd.structure.attention_plan import (
    AttentionPlan,
    BlockPlan,
    attention_outside,
    has_shortcuts,
    plan_of,
    softmaxes_in,
    usual_products,
)
from explainers.autograd.structure.attention_products import (
    Unreadable,
    adds_attention_elsewhere,
    adds_more_than_attention,
    adds_to_attention,
    are_of_no_place,
    positions_of_attention,
    products_of,
    stream_and_attention,
    sum_after_attention,
)
from explainers.autograd.structure.bias_rows import (
    BiasPlaces,
    BiasRows,
    PullAgain,
    are_flat,
    find_bias_rows,
    flat_rows,
    rows_before_tokens,
    rows_in,
)
from explainers.autograd.structure.biases import BiasFacts, are_all_tokens, facts_of_biases
from explainers.autograd.structure.class_attention import ClassAttention, class_attention, class_attentions
from explainers.autograd.structure.inner_order import is_row_by_row, keeps_inner_order
from explainers.autograd.structure.token_codes import Pull
from explainers.autograd.structure.token_links import TokenLinks, come_from_elsewhere, links_in, reached_from
from explainers.autograd.structure.two_row_attention import TwoRowAttention, two_row_attention
from explainers.errors import ExplainerError
from explainers.models.eval_mode import with_gradients
from explainers.models.layout import Layout
from explainers.models.structure.block_kinds import BlockKind
from explainers.models.structure.two_rows import SourceAndWritten

#: What keeps the queries, keys and values of a block from being read, though it has a map: several attentions one after the other; one map
#: of several products, or of weights made of several softmaxes; queries or keys of another width than values, or that are not the tokens
#: in their order; weights of other axes than batch, heads, queries and keys, or of three, as torch.bmm takes them; weights that lie with
#: keys before queries.
NoParts = Literal[
    "several attentions",
    "several products",
    "several softmaxes",
    "another width",
    "another order",
    "other axes",
    "three axes",
    "keys first",
]


class ModelStructure:
    """The structure of a model, found from ``nodes``, the operators of one pass, and the ``layout`` of its tokens; ``pull`` answers what
    the list of nodes leaves open.

    attention_kind  the kind of attention in the blocks, if known; None: it is found from the pass
    is_text         whether the input is a text, which has no class token that joins after the blocks
    pull            runs a backward pass that stops at attention, with gates and the scales of normalisations as constants
    pull_all        runs one that stops at attention alone
    plan            finds the attention plan by a trial pass; not called if ``attention_kind`` is known
    """

    def __init__(
        self,
        nodes: Nodes,
        layout: Layout,
        block_kind: BlockKind,
        is_text: bool,
        attention_kind: AttentionKind | None,
        gradient: attention_nodes.Gradient,
        pull: PullAgain,
        pull_all: Pull,
        plan: Callable[[], AttentionPlan],
    ) -> None:
        self._nodes, self._layout, self._block_kind, self._gradient, self._is_text = nodes, layout, block_kind, gradient, is_text
        self._known_kind, self._pull, self._pull_all, self._find_plan = attention_kind, pull, pull_all, plan

    @cached_property
    def _users(self) -> dict[int, list[Node]]:
        return users_of(self._nodes.ran)

    @cached_property
    def _candidates(self) -> list[attention_nodes.Attention | None]:
        """The softmax in each block whose output has the shape of attention between the block's tokens; None for a block without one."""
        return [attention_nodes.attention_of(self._nodes, block, self._users) for block in self._nodes.blocks]

    @cached_property
    def _kinds(self) -> list[AttentionKind]:
        """The kind of attention of each block."""
        return [
            OVER_TOKENS if each is None else self._known_kind or attention_kind_of(each, block.input, self._gradient)
            for each, block in zip(self._candidates, self._nodes.blocks, strict=True)
        ]

    @property
    def attention_kind(self) -> AttentionKind:
        """The kind of attention in the blocks: attention between tokens, unless a block has another kind."""
        return next((kind for kind in self._kinds if kind is not OVER_TOKENS), OVER_TOKENS)

    @cached_property
    def _shaped(self) -> list[attention_nodes.Attention | None]:
        """The attention between tokens in each block; None for a block whose attention is of another kind."""
        return [each if kind.no_map is None else None for each, kind in zip(self._candidates, self._kinds, strict=True)]

    @cached_property
    def plan(self) -> AttentionPlan | None:
        """The attention plan of the trial pass; None if each block is assumed to have one map over its tokens in their order."""
        return None if self._known_kind is not None else self._find_plan()

    def found_plan(self) -> AttentionPlan:
        """Return the attention plan, found from this pass: what is known of the attention in each block, and whether tokens keep their
        order.
        """
        behind = [] if self._is_text else class_attentions(self._nodes, self._is_alone)
        pooling = pooling_products(self._nodes, self._users)
        known = self.attention_kind.no_map or self._block_kind.no_attention
        usual = usual_products(self._nodes, self._shaped)
        by_row = is_row_by_row(self._nodes, usual, self._pull_all)
        plan = plan_of(self._nodes, self._shaped, usual, [*behind, *pooling], self._pull, self._pull_all, known, by_row)
        read = [*behind, *(pooling if self._layout.class_token is None else [])]  # what else pools is read from a class token
        inner_order = not plan.keeps_order or by_row or keeps_inner_order(self._nodes, self._pull)
        outside = attention_outside(self._nodes, read, self._users)
        places = not are_of_no_place(self._nodes)
        how = self._nodes, self._layout, self._block_kind, self._pull
        biases = facts_of_biases(*how, keeps_order=inner_order) if self._has_row else BiasFacts()
        elsewhere = not inner_order or biases.elsewhere
        links = self._links(plan) if plan.keeps_order else []
        return replace(
            plan,
            outside=outside,
            has_shortcuts=has_shortcuts(self._nodes),
            keeps_inner_order=inner_order,
            has_places=places,
            has_rows_elsewhere=elsewhere,
            has_flat_rows=elsewhere and inner_order and are_flat(self._nodes, self._pull),
            has_rows_of_some=biases.of_some,
            biases_of_no_token=biases.of_no_token,
            joined_biases=biases.joined,
            rows_before=rows_before_tokens(self._nodes, self._pull),
            cuts_tokens=any(each.is_cut_inside or each.is_cut_behind for each in links),
            replaces_inside=any(each.is_replaced_inside for each in links),
            no_product=self._why_no_product(plan, links),
        )

    @property
    def _has_row(self) -> bool:
        return self._block_kind.is_row or self._block_kind.tokens_first

    @cached_property
    def bias_rows(self) -> dict[int, BiasRows]:
        """The rows of each bias in the blocks, by the position of its operator, where some do not lie as the tokens do; else empty."""
        if self.plan is None or not self.plan.has_rows_elsewhere:
            return {}
        flat = flat_rows(self._nodes) if self.plan.has_flat_rows else None
        if flat is not None:
            return flat
        known, joined = find_bias_rows(self._nodes, self._pull), self.plan.joined_biases
        return {position: rows for position, rows in known.items() if position in joined or not rows.has_mixed}

    def rows_out_of_order(self) -> dict[int, BiasRows]:
        """Return the rows of each bias in the blocks, by the position of its operator, whose rows of one token are not all tokens in their
        order. The recording must have kept what the operators gave.
        """
        return {
            position: rows
            for block in self._nodes.blocks
            for position, rows in rows_in(block, self._pull).items()
            if not are_all_tokens(rows, block.biased[position].detach(), block, self._block_kind)
        }

    @cached_property
    def bias_places(self) -> BiasPlaces:
        """The tokens of the biases in the blocks and after them, where their axes do not tell them."""
        if self.plan is None:
            return BiasPlaces()
        return BiasPlaces(self.bias_rows, self.plan.biases_of_no_token, self.plan.rows_before)

    @cached_property
    def two_row_attention(self) -> TwoRowAttention | None:
        """The attention of an encoder-decoder whose two rows of tokens are read as one; None for other models, and if it is not found."""
        return two_row_attention(self._nodes) if isinstance(self._block_kind, SourceAndWritten) else None

    @cached_property
    def _maps(self) -> list[list[AttentionMap] | None]:
        """The attention maps of each block, one after the other; None if it has none that can be read."""
        if self._block_kind.no_attention is not None:
            return [None] * len(self._shaped)
        if self.plan is None:
            return [None if each is None else [as_recorded(each.weights)] for each in self._shaped]
        plans = [*self.plan.blocks, *[self.plan.blocks[-1]] * len(self._shaped)]  # of blocks that ran more often the last
        return [self._maps_of(*each) for each in zip(self._nodes.blocks, self._shaped, plans[: len(self._shaped)], strict=True)]

    def _maps_of(self, block: Block, shaped: attention_nodes.Attention | None, plan: BlockPlan) -> list[AttentionMap] | None:
        if not plan.maps:
            return None
        if plan.is_usual and shaped is not None and softmaxes_in(self._nodes, block) == plan.softmaxes:
            return [as_recorded(shaped.weights)]
        try:
            return maps_in(self._nodes, block, self._pull) or None
        except Unreadable:
            return None

    @cached_property
    def attention_maps(self) -> list[AttentionMap | None]:
        """The attention maps of all blocks in a list: one for most blocks, None for a block that has none over its tokens."""
        return [each for maps in self._maps for each in ([None] if maps is None else maps)]

    def first_map(self, block: int) -> int:
        """Return the index of a block's first attention map among all maps, for a block counted from 0 or back from -1. Raises
        ExplainerError if there is no such block.
        """
        counts = [1 if maps is None else len(maps) for maps in self._maps]
        if all(count == 1 for count in counts):
            return block
        if not -len(counts) <= block < len(counts):
            raise ExplainerError(
                f"start_layer={block}: this model has {len(counts)} blocks, so choose {-len(counts)} to {len(counts) - 1}."
            )
        return sum(counts[: block % len(counts)])

    def _links(self, plan: AttentionPlan) -> list[TokenLinks]:
        """Return the links of the tokens of each block, whose attention is read as the ``plan`` says."""
        plans = [*plan.blocks, *[plan.blocks[-1]] * len(self._shaped)]
        pairs = zip(self._shaped, plans[: len(self._shaped)], strict=True)
        ends = [attention_nodes.ends_of(shaped) if shaped is not None and each.is_usual else None for shaped, each in pairs]
        return links_in(self._nodes, ends, self._pull)

    def _why_no_product(self, plan: AttentionPlan, links: list[TokenLinks]) -> str | None:
        if any(each.is_cut_inside and block.maps > 1 for each, block in zip(links, plan.blocks, strict=False)):
            return "blocks that attend several times throw tokens away inside"
        if come_from_elsewhere(self._nodes, links, self._pull):
            return "tokens are thrown away between blocks, and what stands in their places comes from the input by another way"
        return None

    @cached_property
    def token_links(self) -> list[TokenLinks] | None:
        """The links of the tokens of each block; None if the trial pass saw no token that is thrown away."""
        return None if self.plan is None or not self.plan.cuts_tokens else self._links(self.plan)

    @cached_property
    def links_of_maps(self) -> list[TokenLinks | None] | None:
        """The links of :attr:`token_links` for each of the :attr:`attention_maps`: of several in one block, what is thrown away after it
        goes with the last.
        """
        if self.token_links is None:
            return None
        links: list[TokenLinks | None] = []
        for maps, each in zip(self._maps, self.token_links, strict=True):
            several = maps is not None and len(maps) > 1
            links += [None] * (len(maps) - 1 if several and maps else 0) + [each.only_behind() if several else each]
        return links

    @cached_property
    def links_after_attention(self) -> list[Tensor | None]:
        """For each block which rows of the residual stream after its attention reach the input of the next block, bool (B, S); None if all
        do.
        """
        blocks = self._nodes.blocks
        if self.plan is None or not self.plan.cuts_tokens:
            return [None] * len(blocks)
        totals = [sums[place].output if sums else None for sums, place in zip(self._sums, self.sums_after_attention, strict=True)]
        return [
            None if total is None or following is None else reached_from(total, following, self._pull, self._block_kind.row_of)
            for following, total in zip([*blocks[1:], None], totals, strict=True)
        ]

    @cached_property
    def attentions(self) -> list[Tensor | None]:
        """The attention weights of each block in a list, (B, H, S, S) each; None for a block that has no map over its tokens."""
        return [None if each is None else each.weights for each in self.attention_maps]

    @cached_property
    def _attentions(self) -> list[attention_nodes.Attention | None]:
        """The attention of each block; None for a block that has several, or whose attention is not over its tokens in their order, or
        whose heads have no axis of their own.
        """
        pairs = zip(self._maps, self._shaped, strict=True)
        return [None if maps is None or len(maps) != 1 or not _is_read_as(maps[0], shaped) else shaped for maps, shaped in pairs]

    @property
    def contexts(self) -> list[Tensor | None]:
        """The output of each block's attention before its projection, (B, H, S, d)."""
        return [None if each is None else each.context for each in self._attentions]

    @cached_property
    def parts(self) -> list[AttentionParts | None]:
        """The queries, keys, values, weights and outputs of each block's attention; None if they cannot be found."""
        return [None if each is None else each.parts(self._gradient) for each in self._attentions]

    @property
    def has_scores(self) -> bool:
        """Whether each block has one attention whose weights are a softmax of scores and nothing else."""
        return all(each is not None and each.is_one_softmax for each in self._attentions)

    @property
    def scores_and_values(self) -> list[tuple[Tensor, Tensor]]:
        """The attention scores (B, H, S, S) before the softmax, and the values (B, H, S, d), of each block; one head where heads share
        values. For a model that :attr:`has_scores`, in a recording that keeps them.
        """
        pairs = [(each.scores, each.value) for each in self._attentions if each is not None]
        return [(scores, value) for scores, value in pairs if scores is not None and value is not None]

    def why_no_parts(self, block: int) -> NoParts | None:
        """Return what about the attention maps of a ``block`` keeps its queries, keys and values from being read; None if nothing does.
        Also None if it has no map, or one that is no softmax of queries and keys.
        """
        maps = self._maps[block]
        if maps is None:
            return None
        if len(maps) > 1:
            return "several attentions"
        if len(maps[0].sources) > 1:
            return "several products"
        if not maps[0].is_in_order:
            return "another order"
        attention = self._attentions[block]
        if attention is not None and attention.has_several_softmaxes:
            return "several softmaxes"
        if attention is not None and attention.is_of_other_width:
            return "another width"
        if self._has_three_axes(block):
            return "three axes"
        if maps[0].sources[0].dim() != len(("batch", "heads", "queries", "keys")):
            return "other axes"
        if maps[0].is_turned:
            return "keys first"
        return "other axes" if self._shaped[block] is None and softmaxes_in(self._nodes, self._nodes.blocks[block]) else None

    def _has_three_axes(self, block: int) -> bool:
        """Return whether weights meet values in a product of three axes, as of torch.bmm, in a ``block`` that has attention maps."""
        attention = self._attentions[block]
        if attention is not None and attention.product is not None:
            return False
        try:
            products = products_of(self._nodes, self._nodes.blocks[block])
        except Unreadable:
            return False
        return bool(products) and all(len(each.node.shape) == len(("batch x heads", "queries", "width")) for each in products)

    @property
    def maps_without_sample_axis(self) -> list[AttentionMap]:
        """The attention maps whose numbers lie in a tensor whose first axis is not that of the samples alone: of samples and heads, say."""
        maps = [each for of_block in self._maps for each in of_block or ()]
        samples = [len(block.input) for block in self._nodes.blocks][:1]
        return [each for each in maps if any([*source.shape[:1]] != samples for source in each.sources)]

    @cached_property
    def attention_inputs(self) -> list[Tensor | None]:
        """The input of each block's attention, (B, S, D), in most models the output of the first norm; None if that is not one tensor."""
        pairs = zip(self._attentions, self._maps, self._nodes.blocks, strict=True)
        return [self._attention_input(each, maps, block) for each, maps, block in pairs]

    def _attention_input(self, usual: attention_nodes.Attention | None, maps: list[AttentionMap] | None, block: Block) -> Tensor | None:
        if usual is None and (maps is None or len(maps) > 1):
            return None
        products = [each.node for each in products_of(self._nodes, block)] if usual is None else [usual.product]
        return attention_nodes.input_of(products, block)

    @cached_property
    def output_projections(self) -> list[tuple[Tensor, Tensor | None] | None]:
        """The weight and bias of the linear map after each block's attention."""
        products = [None if each is None else each.product for each in self._attentions]
        return [None if product is None else attention_nodes.projection_of(product, self._users) for product in products]

    @cached_property
    def sums(self) -> list[list[Tensor]]:
        """The residual stream (B, S, D) after each sum of two paths, such as after attention and after the MLP: a list for each block."""
        return [[self._block_kind.row_of(node.output) for node in sums if node.output is not None] for sums in self._sums]

    @cached_property
    def _sums(self) -> list[list[Node]]:
        return [sums_in(self._nodes, block) for block in self._nodes.blocks]

    @cached_property
    def sums_after_attention(self) -> list[int]:
        """The index of the sum after the attention of each block among its :attr:`sums`; 0 where none follows it."""
        return [sum_after_attention(self._nodes, block, sums) for block, sums in zip(self._nodes.blocks, self._sums, strict=True)]

    def adds_to_sum(self, block: int, place: int) -> bool:
        """Return whether the next of the :attr:`sums` of ``block`` adds to the one at ``place`` as it is, perhaps times a number: whether
        the block does nothing else to its residual stream between the two.
        """
        sums = self._sums[block]
        return any(unscaled(path) is unscaled(sums[place]) for node in sums[place + 1 : place + 2] for path in node.paths)

    @cached_property
    def additions(self) -> list[list[Addition]]:
        """The sums by which the parts of each block are added to its residual stream."""
        return [additions_in(self._nodes, block) for block in self._nodes.blocks]

    @property
    def mid_residuals(self) -> list[Tensor | None]:
        """The residual stream after the attention of each block, (B, S, D); None if there is none, if it is no single tensor, if it is
        made in another way than by a sum, or if that sum holds more than attention that cannot be told apart.
        """
        each = zip(self._nodes.blocks, self._sums, self.sums_after_attention, self._has_parallel_parts, strict=True)
        return [
            None
            if not sums or parallel or adds_to_attention(sums[place], block) or adds_attention_elsewhere(self._nodes, block, sums[place])
            else self._scaled(sums[place], self.stream_after(number, place))
            for number, (block, sums, place, parallel) in enumerate(each)
        ]

    def stream_after(self, block: int, place: int) -> Tensor:
        """Return the residual stream (B, S, D) after the attention of a ``block`` whose sum after it is that at ``place``, without an MLP
        that is added with it in parallel.
        """
        node = self._sums[block][place]
        both = stream_and_attention(self._nodes, self._nodes.blocks[block], node) if node.terms else None
        return self.sums[block][place] if both is None else self._block_kind.row_of(both[0]) + self._block_kind.row_of(both[1])

    @cached_property
    def _has_parallel_parts(self) -> list[bool]:
        """Whether the sum after the attention of each block holds more than that, which is no term of its own, as an MLP may be."""
        each = zip(self._nodes.blocks, self._sums, self.sums_after_attention, strict=True)
        return [
            bool(nodes)
            and not adds_to_attention(nodes[place], block)
            and adds_more_than_attention(self._nodes, block, nodes[place])
            and stream_and_attention(self._nodes, block, nodes[place]) is None
            for block, nodes, place in each
        ]

    @property
    def has_parallel_parts(self) -> bool:
        """Return whether some block adds more than its attention to the stream in one sum, such as an MLP in parallel."""
        return any(self._has_parallel_parts)

    @property
    def sums_elsewhere(self) -> SumsElsewhere | None:
        """Return where blocks without a sum in the shape of their residual stream add two paths instead; None if nowhere."""
        return next((where for block in self._nodes.blocks if (where := sums_elsewhere(self._nodes, block)) is not None), None)

    def _scaled(self, node: Node, total: Tensor) -> Tensor:
        """Return ``total``, the result of a sum, times the numbers by which the model multiplies it before anything reads it."""
        factor = 1.0
        while len(users := self._users.get(id(node), [])) == 1 and (number := number_of(users[0])) is not None:
            factor, node = factor * float(number), users[0]
        return total if factor == 1 else total * factor

    @cached_property
    def positions(self) -> tuple[Tensor, Tensor] | None:
        """The position embeddings, and the tokens with them added, in a pass recorded from the pixels. None for blocks of several streams,
        where only some are embeddings of the grid's patches.
        """
        return None if self._block_kind.no_positions is not None else added_before(self._nodes, self._layout)

    @cached_property
    def _projections(self) -> tuple[frozenset[int], bool]:
        return attention_nodes.projections(self._nodes)

    @property
    def projections(self) -> frozenset[int]:
        """The positions of the linear maps that make queries, keys and values, and of those that take what attention gives."""
        return self._projections[0]

    @property
    def rotary(self) -> bool:
        """Return whether attention in the blocks rotates queries and keys by position."""
        return self._projections[1]

    @cached_property
    def products_of_attention(self) -> frozenset[int]:
        """The positions of the matrix products of two paths that make attention weights or multiply values by them."""
        return positions_of_attention(self._nodes)

    @cached_property
    def normalised(self) -> frozenset[int]:
        """The positions of the linear attentions that are divided by their normaliser."""
        return attention_nodes.normalised(self._nodes)

    @cached_property
    def pooling(self) -> Tensor | None:
        """The weights (B, H, queries, S) of the attention with which a head pools the tokens; None without one."""
        return pooling_attention(self._nodes, self._users)

    @cached_property
    def class_attention(self) -> ClassAttention:
        """The tensors of the blocks of class attention, in which a class token joins the tokens after the other blocks; without blocks if
        the model has none.
        """
        return ClassAttention() if self._is_text else class_attention(self._nodes, self._is_alone, self._gradient)

    def _is_alone(self, value: Tensor, left: Tensor) -> bool:
        with with_gradients():
            signal = self._gradient(value[..., 0, :], left)
        return signal is None or not bool(signal.any())


def _is_read_as(read: AttentionMap, shaped: attention_nodes.Attention | None) -> bool:
    """Return whether the attention map ``read`` is the softmax of the attention ``shaped``, whose queries and keys are the tokens in their
    order, and whose product with values has axes for samples and heads too; false if that is None.
    """
    if shaped is None or read.sources[0] is not shaped.weights or not read.is_in_order:
        return False
    return shaped.product is None or len(shaped.product.shape) == len(shaped.weights.shape)

"""Inside the model: what every head of every block attends to, and what every block adds to a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from explainers.autograd.rules import RULES
from explainers.autograd.signals import fields_of
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe, optional
from explainers.methods import METHODS, parse
from explainers.methods.requirements import lacks_of
from explainers.pipeline.precision import choose_trace
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget
from explainers.records.trace import MethodOutput, Trace

_Origin = Literal["class_token", "read_token", "mean", "token"]
BlockMaps = list[Tensor | None]  # one a block, (B, H, S, S); None where a block has no attention over its tokens
DIGITS = 4  # significant ones of a score in JSON: many maps travel at once


def _attention(trace: Trace) -> BlockMaps:
    return list(trace.recording.attentions)


def _signals(trace: Trace) -> BlockMaps:
    return list(trace.signals.attentions)


def _times(first: BlockMaps, second: BlockMaps) -> BlockMaps:
    """Return the product of the lists of maps ``first`` and ``second``, one map or None for each block, element by element; negative
    products become 0. A block without a map in either list gets None.
    """
    pairs = zip(first, second, strict=True)
    return [None if a is None or b is None else (a * b).clamp(min=0) for a, b in pairs]


@dataclass(frozen=True)
class Quantity(Record):
    """A quantity that every attention head has for each pair of tokens.

    name    its name in requests; ``title`` is its name for people, ``says`` what it is and how to read it
    signed  whether its values can be negative
    rule    the backward rule of the pass that it needs; None: it needs none
    read    function from a trace to the maps of the heads by block
    """

    name: str
    title: str
    says: str
    signed: bool
    rule: Annotated[str | None, HIDDEN]
    read: Annotated[Callable[[Trace], BlockMaps], HIDDEN]


_QUANTITIES = (
    Quantity(
        "attention",
        "attention",
        "How much each token attends to each other one. It says where the head looks, not whether that matters to the answer.",
        False,
        None,
        _attention,
    ),
    Quantity(
        "gradient",
        "gradient",
        "How the answer would change if the head attended a little more: the gradient of each attention weight.",
        True,
        "gradient",
        _signals,
    ),
    Quantity(
        "product",
        "attention × gradient",
        "Attention that raises the answer: attention times its gradient, what is negative cut off (as in Generic Attention).",
        False,
        "gradient",
        lambda trace: _times(_attention(trace), _signals(trace)),
    ),
    Quantity(
        "relevance",
        "relevance",
        "The share of the answer that deep Taylor decomposition passes back through each attention weight.",
        True,
        "deep_taylor",
        _signals,
    ),
    Quantity(
        "weighted",
        "relevance × gradient",
        "Relevance where more attention would raise the answer: relevance times gradient, what is negative cut off (as in Transformer "
        "Attribution).",
        False,
        "deep_taylor",
        lambda trace: _times(_signals(trace.under("gradient")), _signals(trace)),
    ),
)
#: The quantities that :func:`head_maps` can return, such as attention and its gradient: a dict by name, in the order of the pages.
HEAD_QUANTITIES = {quantity.name: quantity for quantity in _QUANTITIES}


@dataclass(frozen=True)
class HeadRow(Record):
    """One row of a head's map, from one token to all others, in JSON: ``scores`` of patches or words, and in ``outside`` the sum of the
    rest.
    """

    scores: list[float]
    outside: Annotated[float, describe("The sum over the tokens that stand for no patch or word.")]


@dataclass(frozen=True)
class HeadsOfBlock(Record):
    """One block with a row of each head's map and the mean of these rows; null where the block has no maps.

    block  number of the block, from 0
    heads  a row for each head; None if the block has no maps
    mean   the mean of these rows; None with ``heads``
    """

    block: int
    heads: list[HeadRow] | None
    mean: HeadRow | None


@dataclass(frozen=True, eq=False)
class HeadMaps(Record):
    """One row of the map of every attention head in some blocks: the scores from one token to all tokens, of one quantity for one target.

    blocks   number of the block -> (H, S), real tokens only; None if the block has no attention map over its tokens
    token    index of the row's token among the S tokens; None for the mean over all rows, and for a token that the model appends to a text
    content  bool (S,): which tokens stand for patches or words

    In JSON scores have four digits: one for each patch in raster order, or for each token of a text; ``token`` is an index in that same
    order.
    """

    quantity: str
    target: str
    blocks: Annotated[dict[int, Tensor | None], HIDDEN]
    origin: Annotated[
        _Origin,
        describe("Whose row it is: of the class token, of the token that the head reads, of the mean of all, or of the chosen token."),
    ]
    token: Annotated[int | None, HIDDEN]
    content: Annotated[Tensor, HIDDEN]
    grid: Annotated[tuple[int, int] | None, optional("Rows and columns of the patches; a text has none.")]
    heads: Annotated[
        tuple[int | None, ...],
        describe("How many heads each block of the model has, those left out too; null where it has no attention map over its tokens."),
    ]

    @property
    def signed(self) -> Annotated[bool, describe()]:
        """True if the quantity can be negative."""
        return HEAD_QUANTITIES[self.quantity].signed

    @property
    def _shown(self) -> Tensor:
        """Return which tokens have scores in JSON, bool (S,): only patches if the input is a picture, else all."""
        return self.content if self.grid is not None else torch.ones_like(self.content)

    @property
    def _shown_token(
        self,
    ) -> Annotated[int | None, describe("Its place among the scores; null where it has none.", key="token")]:
        is_shown = self._shown
        return None if self.token is None or not is_shown[self.token] else int(is_shown[: self.token].sum())

    @property
    def _shown_blocks(self) -> Annotated[list[HeadsOfBlock], describe(key="blocks")]:
        return [
            HeadsOfBlock(block, None, None)
            if rows is None
            else HeadsOfBlock(block, [self._row(row) for row in rows], self._row(rows.mean(0)))
            for block, rows in self.blocks.items()
        ]

    def _row(self, row: Tensor) -> HeadRow:
        return HeadRow(brief(row[self._shown]), brief(row[~self.content].sum()[None])[0])


def head_maps(
    session: Session,
    quantity: str = "attention",
    *,
    token: int | None = None,
    block: int | Sequence[int] | None = None,
    head: int | None = None,
) -> HeadMaps:
    """Return for each attention head of the model in ``session`` the row of its map that belongs to the token which the classification head
    reads, or the mean over all rows if it reads no single token. The first input and target are taken; ``quantity`` says what map:
    attention, its gradient, or another of :data:`HEAD_QUANTITIES`.

    ``token`` chooses another row: the number of a patch in raster order, or of a word piece. ``block`` (one or several, from 0) and
    ``head`` restrict the result to these. In the :class:`HeadMaps` that are returned, ``blocks`` has for each block number the scores
    (heads, tokens), or None for a block without a map. Raises ExplainerError for a token, block or head that does not exist, and for a
    model without attention maps.
    """
    if quantity not in HEAD_QUANTITIES:
        raise ExplainerError(f"There is no {quantity!r} of a head; there are {', '.join(HEAD_QUANTITIES)}.")
    _require(session, {"one_attention", "token_order"})
    session_target, rule = _first(session), HEAD_QUANTITIES[quantity].rule
    block_numbers = _numbers(len(session.recording.block_inputs), block, "block")
    if rule == "gradient":  # how relevance rounds is judged by all blocks
        session.plan([(RULES[rule], fields_of(f"attentions[{number}]" for number in block_numbers))])
    read_maps = HEAD_QUANTITIES[quantity].read

    def flatten_maps(trace: Trace) -> MethodOutput:
        values = [block_values.flatten(1) for block_values in read_maps(trace) if block_values is not None]
        return MethodOutput(torch.cat(values, 1) if values else torch.zeros(1, 1))

    trace = choose_trace(session, session_target, None if rule is None else RULES[rule], flatten_maps)
    maps = read_maps(trace)
    session.forget_signals()
    attentions = _attention(trace)
    if all(weights is None for weights in attentions):
        raise ExplainerError(f"{session.model.name} has no block with an attention map over all its tokens: there are no heads to look at.")
    real, sources = trace.recording.real_tokens.of_input[0], trace.recording.real_tokens.sources
    content = trace.content[0][real].cpu()
    origin, place = _origin(trace, real, content, token)
    read = trace.mask[0] if origin == "mean" else trace.class_tokens[:1] if token is None else real.nonzero()[place]
    rows_of_blocks: dict[int, Tensor | None] = {}
    for number in block_numbers:
        block_maps = maps[number]
        if block_maps is None:
            rows_of_blocks[number] = None
            continue
        rows = block_maps[0].detach()[:, read].float().mean(1)
        if sources is not None:  # what goes to a second token of a word goes to the word
            rows = sources.fold(rows, trace.content[:1].expand_as(rows))[0]
        rows = rows[:, real].cpu()
        rows_of_blocks[number] = rows[_numbers(len(rows), head, "head")]
    heads = tuple(None if weights is None else weights.shape[1] for weights in attentions)
    return HeadMaps(quantity, session_target.labels[0], rows_of_blocks, origin, place, content, trace.layout.grid, heads)


def _require(session: Session, needs: set[str]) -> None:
    """Raise ExplainerError, with the reason, if the model recorded in ``session`` lacks one of the ``needs``."""
    lacks = lacks_of(session.recording)
    if (reason := next((lacks[need] for need in sorted(needs) if need in lacks), None)) is not None:
        raise ExplainerError(f"What happens inside cannot be shown block by block. {reason}")


def _first(session: Session) -> ResolvedTarget:
    return session.targets_and_rows()[0][0]


def _numbers(count: int, given: int | Sequence[int] | None, what: str) -> list[int]:
    if given is None:
        return list(range(count))
    numbers = [given] if isinstance(given, int) else list(given)
    for number in numbers:
        if not 0 <= number < count:
            raise ExplainerError(f"There is no {what} {number}: there are {count}, counted from 0.")
    return numbers


def _origin(trace: Trace, real: Tensor, content: Tensor, token: int | None) -> tuple[_Origin, int | None]:
    """Find whose row of the attention maps in ``trace`` is read: return the kind of that token, and its index among the real tokens (None
    for the mean over all rows, and for a token that the model appends to a text). ``real`` and ``content`` (bool) say which tokens are no
    padding, and which of these are patches or words. ``token`` is the number of a patch or word piece; None takes the class token or the
    token that the model's head reads.
    """
    if token is not None:
        places = content.nonzero()[:, 0] if trace.layout.grid is not None else torch.arange(len(content))
        what = "patch" if trace.layout.grid is not None else "token"
        return "token", int(places[_numbers(len(places), token, what)[0]])
    if trace.layout.class_token is None:
        return "mean", None
    read = int(trace.class_tokens[0])
    place = int(real[:read].sum()) if bool(real[read]) else None  # a token that the model appends has no place among those of the input
    return ("class_token" if trace.layout.class_token >= 0 else "read_token"), place


@dataclass(frozen=True)
class Term(Record):
    """One term of a map that is a sum, in JSON: its total, and its scores by patch or word."""

    total: Annotated[float, describe("The sum over patches or words.")]
    scores: Annotated[list[float], describe("One for each patch or word, four digits each.")]


@dataclass(frozen=True)
class BlockTerm(Term):
    """The number of a block, and its contribution to a map: in total and by patch or word."""

    block: int


@dataclass(frozen=True, eq=False)
class Contributions(Record):
    """The map of one method and target that is a sum over blocks, split into the part of each block.

    method   spec of the method; ``title`` is its title
    target   label of what is explained
    signed   whether the scores tell evidence for the target from evidence against it
    blocks   number of the block -> its term (S,), real tokens only
    rest     (S,): what belongs to no block (bias terms), or None. All of them sum to the scores of the map
    content  bool (S,): which tokens stand for patches or words
    grid     (rows, columns) of the patches; None for a text
    """

    method: str
    title: str
    target: str
    signed: bool
    blocks: Annotated[dict[int, Tensor], HIDDEN]
    rest: Annotated[Tensor | None, HIDDEN]
    content: Annotated[Tensor, HIDDEN]
    grid: Annotated[tuple[int, int] | None, optional("Rows and columns of the patches; a text has none.")]

    @property
    def _block_terms(self) -> Annotated[list[BlockTerm], describe(key="blocks")]:
        return [BlockTerm(*self._totals(term), block) for block, term in self.blocks.items()]

    @property
    def _rest_term(self) -> Annotated[Term | None, describe("What belongs to no block.", key="rest")]:
        return None if self.rest is None else Term(*self._totals(self.rest))

    def _totals(self, term: Tensor) -> tuple[float, list[float]]:
        return float(term[self.content].sum()), brief(term if self.grid is None else term[self.content])


def contributions(session: Session, spec: str) -> Contributions:
    """Split the map of the method ``spec``, for the first input and target of ``session``, into the parts that the model's blocks add. In
    the :class:`Contributions`, ``blocks`` has for each block number its part (tokens,), and ``rest`` what belongs to no block; they sum to
    the scores of the map.

    Raises ExplainerError if that method is not a sum over blocks.
    """
    request = parse(spec, blocks=len(session.model.blocks))
    if not request.method.summed:
        able = ", ".join(name for name, method in METHODS.items() if method.summed)
        raise ExplainerError(f"{spec} is no sum over the blocks, so no block adds a part of its own; these are: {able}.")
    if _first(session).halves is not None:
        raise ExplainerError("The positive part of a difference is no sum over blocks: explain the class itself to see what they add.")
    _require(session, {"token_order", "inner_order"})
    trace = choose_trace(session, _first(session), request.rule, request.read)
    output = request.read(trace)
    session.forget_signals()
    real = trace.recording.real_tokens.of_input[0]

    def of_tokens(values: Tensor) -> Tensor:
        return values[0].detach()[real].float().cpu()

    return Contributions(
        method=request.spec,
        title=request.name.title,
        target=trace.chosen.labels[0],
        signed=request.method.signed,
        blocks={block: of_tokens(term) for block, term in output.terms.items()},
        rest=None if output.rest is None else of_tokens(output.rest),
        content=trace.content[0][real].cpu(),
        grid=trace.layout.grid,
    )


def brief(values: Tensor) -> list[float]:
    """Return the numbers of a 1-d tensor, ``values``, as a list of floats, rounded to :data:`DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]

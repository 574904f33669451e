"""Inside the model: what every head of every block attends to, and what every block adds to a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.rules import RULES
from explainers.autograd.signals import fields_of
from explainers.errors import ExplainerError
from explainers.methods import METHODS, parse
from explainers.pipeline.precision import choose_trace
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget
from explainers.records.trace import MethodOutput, Trace

BlockMaps = list[Tensor | None]  # one a block, (B, H, S, S); None where a block has no attention over its tokens
DIGITS = 4  # significant ones of a score in JSON: many maps travel at once


def _attention(trace: Trace) -> BlockMaps:
    return list(trace.recording.attentions)


def _signals(trace: Trace) -> BlockMaps:
    return list(trace.signals.attentions)


def _times(first: BlockMaps, second: BlockMaps) -> BlockMaps:
    """Element-wise product, positive part."""
    pairs = zip(first, second, strict=True)
    return [None if a is None or b is None else (a * b).clamp(min=0) for a, b in pairs]


@dataclass(frozen=True)
class Quantity:
    """Something that every head has for each pair of tokens. ``rule``: under which the model is gone back through; None: not at all."""

    title: str
    says: str
    signed: bool
    rule: str | None
    read: Callable[[Trace], BlockMaps]


#: What can be looked at, in the order of the pages.
HEAD_QUANTITIES: dict[str, Quantity] = {
    "attention": Quantity(
        "attention",
        "How much of a token's attention goes to each other token. It says where the head looks, not whether that matters to the answer.",
        False,
        None,
        _attention,
    ),
    "gradient": Quantity(
        "gradient",
        "How the answer would change if the head attended a little more: its slope with respect to each attention weight.",
        True,
        "gradient",
        _signals,
    ),
    "product": Quantity(
        "attention × gradient",
        "Attention that raises the answer: attention times its gradient, what is negative cut off (as in Generic Attention).",
        False,
        "gradient",
        lambda trace: _times(_attention(trace), _signals(trace)),
    ),
    "relevance": Quantity(
        "relevance",
        "The share of the answer that deep Taylor decomposition passes back through each attention weight.",
        True,
        "deep_taylor",
        _signals,
    ),
    "weighted": Quantity(
        "relevance × gradient",
        "Relevance where more attention would raise the answer: relevance times gradient, what is negative cut off (as in Transformer "
        "Attribution).",
        False,
        "deep_taylor",
        lambda trace: _times(_signals(trace.under("gradient")), _signals(trace)),
    ),
}


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """Rows of the maps of some blocks: from one token to all tokens.

    blocks   number of the block -> (H, S), real tokens only; None where the block has no attention map over its tokens
    origin   whose row it is: ``class_token``, ``read_token`` (the one that the head reads, where that depends on the text), ``mean`` over
             all tokens (the head pools them), or ``token``
    token    its place among the S tokens; None for ``mean``
    content  bool (S,): which tokens stand for patches or words
    grid     (rows, columns) of the patches; None for a text
    heads    how many each block of the model has, those left out too; None where it has no attention map over its tokens
    """

    quantity: str
    target: str
    blocks: dict[int, Tensor | None]
    origin: str
    token: int | None
    content: Tensor
    grid: tuple[int, int] | None
    heads: tuple[int | None, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data. ``scores``: of an image those of the patches in raster order, of a text one for each token, four digits each;
        ``outside``: the sum over the tokens that stand for no patch or word. ``token`` counts as ``scores`` do; null where it is not there.
        """
        is_shown = self.content if self.grid is not None else torch.ones_like(self.content)
        place = None if self.token is None or not is_shown[self.token] else int(is_shown[: self.token].sum())
        return {
            "quantity": self.quantity,
            "signed": HEAD_QUANTITIES[self.quantity].signed,
            "target": self.target,
            "origin": self.origin,
            "token": place,
            "heads": list(self.heads),
            **({} if self.grid is None else {"grid": list(self.grid)}),
            "blocks": [{"block": block, **self._block_json(rows, is_shown)} for block, rows in self.blocks.items()],
        }

    def _block_json(self, rows: Tensor | None, is_shown: Tensor) -> dict[str, Any]:
        if rows is None:
            return {"heads": None, "mean": None}
        return {"heads": [self._row_json(row, is_shown) for row in rows], "mean": self._row_json(rows.mean(0), is_shown)}

    def _row_json(self, row: Tensor, is_shown: Tensor) -> dict[str, Any]:
        return {"scores": brief(row[is_shown]), "outside": brief(row[~self.content].sum()[None])[0]}


def head_maps(
    session: Session,
    quantity: str = "attention",
    *,
    token: int | None = None,
    block: int | Sequence[int] | None = None,
    head: int | None = None,
) -> HeadMaps:
    """What the heads of the first input attend to for the first target, from the token that the head of the model reads, else on average.

    ``token`` takes another one: of an image the number of the patch in raster order, of a text that of the word piece. ``block``, one or
    several, and ``head`` leave the others out. Raises ExplainerError for what does not exist, and for a model without attention maps.
    """
    if quantity not in HEAD_QUANTITIES:
        raise ExplainerError(f"There is no {quantity!r} of a head; there are {', '.join(HEAD_QUANTITIES)}.")
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
    real = trace.mask[0]
    content = trace.content[0][real].cpu()
    origin, place = _origin(trace, real, content, token)
    rows_of_blocks: dict[int, Tensor | None] = {}
    for number in block_numbers:
        block_maps = maps[number]
        if block_maps is None:
            rows_of_blocks[number] = None
            continue
        square = block_maps[0].detach()[:, real][:, :, real].float().cpu()
        rows = square.mean(1) if place is None else square[:, place]
        rows_of_blocks[number] = rows[_numbers(len(rows), head, "head")]
    heads = tuple(None if weights is None else weights.shape[1] for weights in attentions)
    return HeadMaps(quantity, session_target.labels[0], rows_of_blocks, origin, place, content, trace.layout.grid, heads)


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


def _origin(trace: Trace, real: Tensor, content: Tensor, token: int | None) -> tuple[str, int | None]:
    """Whose row is read, and its place among the real tokens."""
    if token is not None:
        places = content.nonzero()[:, 0] if trace.layout.grid is not None else torch.arange(len(content))
        what = "patch" if trace.layout.grid is not None else "token"
        return "token", int(places[_numbers(len(places), token, what)[0]])
    if trace.layout.class_token is None:
        return "mean", None
    place = int(real[: int(trace.class_tokens[0])].sum())
    return ("class_token" if trace.layout.class_token >= 0 else "read_token"), place


@dataclass(frozen=True, eq=False)
class Contributions:
    """What each block adds to a map that is a sum over blocks.

    blocks   number of the block -> its term (S,), real tokens only
    rest     (S,): what belongs to no block (bias terms), or None. All of them sum to the scores of the map
    content  bool (S,): which tokens stand for patches or words
    """

    method: str
    title: str
    target: str
    signed: bool
    blocks: dict[int, Tensor]
    rest: Tensor | None
    content: Tensor
    grid: tuple[int, int] | None

    def to_json(self) -> dict[str, Any]:
        """Plain data. ``total``: the sum over patches or words; ``scores`` as those of a map, four digits each."""
        blocks = [{"block": block, **self._term_json(term)} for block, term in self.blocks.items()]
        return {
            "method": self.method,
            "title": self.title,
            "target": self.target,
            "signed": self.signed,
            **({} if self.grid is None else {"grid": list(self.grid)}),
            "blocks": blocks,
            "rest": None if self.rest is None else self._term_json(self.rest),
        }

    def _term_json(self, term: Tensor) -> dict[str, Any]:
        return {"total": float(term[self.content].sum()), "scores": brief(term if self.grid is None else term[self.content])}


def contributions(session: Session, spec: str) -> Contributions:
    """What each block adds to the map of ``spec``, for the first input and target.

    Raises ExplainerError where that method is no sum over blocks.
    """
    request = parse(spec, blocks=len(session.model.blocks))
    if not request.method.summed:
        able = ", ".join(name for name, method in METHODS.items() if method.summed)
        raise ExplainerError(f"{spec} is no sum over the blocks, so no block adds a part of its own; these are: {able}.")
    if _first(session).halves is not None:
        raise ExplainerError("The positive part of a difference is no sum over blocks: explain the class itself to see what they add.")
    trace = choose_trace(session, _first(session), request.rule, request.read)
    output = request.read(trace)
    session.forget_signals()
    real = trace.mask[0]

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
    """The numbers with :data:`DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]

"""The token of each row at which a bias acts, in blocks whose inner rows do not lie as their tokens do: flattened over samples, tokens
before samples, sorted, or sent to experts; and after the blocks, where a class token joins the tokens.

Two passes with token codes tell it: one back from what a block gives, which shows where a row goes, and one forward from what it takes,
which shows where a row comes from. Both stop at attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Size, Tensor

from explainers.autograd.nodes import Block, Nodes, Role
from explainers.autograd.operators import Add, LinearMap, Norm
from explainers.autograd.operators.arithmetic import OF_ATTENTION
from explainers.autograd.recorder import Operator
from explainers.autograd.structure.token_codes import MIXED, NO_SIGNAL, NOTHING, ONE_TOKEN, Pull, Tensors, tokens_of
from explainers.models import matrix_products

#: Fewer numbers in a row do not tell whether it is of one token or of several: the signals may be multiples by chance.
_MIN_WIDTH = 4
#: How many random directions tell whether later rows are of later tokens, and how steeply they must.
_DRAWS, _FOLLOWS = 8, 0.3


class PullAgain(Protocol):
    """A backward pass that stops at attention, whose result can be differentiated with respect to the signals."""

    def __call__(
        self, outputs: Sequence[Tensor], at: Sequence[Tensor], signals: Sequence[Tensor], *, differentiable: bool = False
    ) -> Tensors:
        """Propagate ``signals`` at ``outputs`` back to the tensors ``at``; None for one that no signal reaches. With ``differentiable`` the
        result can be differentiated again.
        """


@dataclass(frozen=True)
class BiasRows:
    """The rows of the output of an operator that adds a bias, and the token to which each belongs.

    tokens     the number of the token of each row, counted over all samples; NOTHING for a row that no signal reaches, MIXED for one that
               depends on several tokens
    last_axis  whether the rows are the last axis of the output and the width the one before it; else the width is the last axis
    """

    tokens: Tensor
    last_axis: bool

    @property
    def has_mixed(self) -> bool:
        """Return whether some rows depend on several tokens each."""
        return bool((self.tokens == MIXED).any())

    @property
    def by_place(self) -> Tensor:
        """The tokens in a shape that broadcasts with the output of the operator."""
        return self.tokens.unsqueeze(-2 if self.last_axis else -1)

    def sum_by_token(self, term: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Sum ``term``, a bias term by row, by token, of ``count`` tokens: return the sums (count,), and the sums by row with 0 at the rows
        that belong to a token.
        """
        by_row = (term.mT if self.last_axis else term).sum(-1)
        is_of_token = self.tokens >= 0
        sums = by_row.new_zeros(count).index_add_(0, self.tokens.flatten().clamp_min(0), (by_row * is_of_token).flatten())
        return sums, by_row * ~is_of_token

    def are_by_sample(self, samples: int, tokens: int) -> bool:
        """Return whether the first axis is of ``samples``, with ``tokens`` each, as far as the rows that belong to a token show it."""
        sample = torch.arange(samples, device=self.tokens.device).view(-1, *[1] * (self.tokens.dim() - 1))
        return len(self.tokens) == samples and bool(((self.tokens // tokens == sample) | (self.tokens < 0)).all())


@dataclass(frozen=True)
class BiasPlaces:
    """The tokens of biases that the axes of what their operators give do not tell, by the position of the operator.

    rows           in the blocks, where rows do not lie as the tokens do
    without_token  in the blocks, where no row is of a token, such as at the hidden units of an MLP over tokens
    rows_before    after the blocks, where others have joined the tokens: how many rows stand before the first token
    """

    rows: Mapping[int, BiasRows] = field(default_factory=dict)
    without_token: frozenset[int] = frozenset()
    rows_before: Mapping[int, int] = field(default_factory=dict)


def keep_biased(nodes: Nodes, position: int, operator: type[Operator], arguments: tuple[Any, ...], role: Role | None, out: Tensor) -> None:
    """Store ``out``, the output of ``operator`` at ``position``, in the last of the blocks of ``nodes`` if the operator adds a bias. The
    token of each of its rows is found later, by :func:`rows_in` or :func:`rows_before_tokens`.
    """
    if not nodes.blocks:
        return
    adds = (
        operator is Add and role not in OF_ATTENTION and not all(isinstance(each, Tensor) and each.requires_grad for each in arguments[:2])
    )
    if adds or (operator is LinearMap and arguments[2] is not None) or operator is Norm:
        (nodes.blocks[-1].biased if nodes.running is not None else nodes.blocks[-1].biased_after)[position] = out


def are_as_tokens(shape: Size, block: Block) -> bool:
    """Return whether a tensor in a block, by its shape, has a row for each sample and token, in no other axes than these."""
    samples, tokens = block.input.shape[:2]
    return shape[:2] == (samples, tokens) and len(shape) == 3 and shape[2] != tokens


def flat_rows(nodes: Nodes) -> dict[int, BiasRows] | None:
    """Return the rows of the biases in all blocks, as :func:`find_bias_rows` does, on the assumption that each bias acts at the tokens in
    their axes or at rows that are flattened over the tokens of one sample. No backward pass is needed. None if some tensor has another
    shape.
    """
    rows: dict[int, BiasRows] = {}
    for block in nodes.blocks:
        samples, tokens = block.input.shape[:2]
        for position, out in block.biased.items():
            if out.dim() < 2 or not out.requires_grad or are_as_tokens(out.shape, block):
                continue
            if samples != 1 or out.dim() != 2 or len(out) != tokens:
                return None
            rows[position] = BiasRows(torch.arange(tokens, device=out.device), False)
    return rows


def are_flat(nodes: Nodes, pull: PullAgain) -> bool:
    """Return whether the rows of the biases in all blocks are those that :func:`flat_rows` assumes."""
    assumed = flat_rows(nodes)
    if not assumed:
        return False
    known = find_bias_rows(nodes, pull)
    return all(
        position in known and not known[position].last_axis and torch.equal(known[position].tokens, rows.tokens)
        for position, rows in assumed.items()
    )


def find_bias_rows(nodes: Nodes, pull: PullAgain) -> dict[int, BiasRows]:
    """Return, for each bias in the blocks of ``nodes``, to which token each row of its operator's output belongs, by the position of the
    operator, if some row belongs to one. ``pull`` is a backward pass that stops at attention.
    """
    rows_of: dict[int, BiasRows] = {}
    for block in nodes.blocks:
        rows_of |= rows_in(block, pull)
    return rows_of


def rows_in(block: Block, pull: PullAgain) -> dict[int, BiasRows]:
    """Return, for each bias in ``block``, to which token each row of its operator's output belongs, by the position of the operator.
    ``pull`` is a backward pass: see :func:`find_bias_rows`.
    """
    at = {position: tensor for position, tensor in block.biased.items() if tensor.dim() > 1 and tensor.requires_grad}
    if not at or block.output is None:
        return {}
    tensors, (samples, tokens) = list(at.values()), block.input.shape[:2]
    count = samples * tokens
    labels = torch.arange(count, device=block.input.device).view(samples, tokens, 1)

    rows_of: dict[int, BiasRows] = {}
    mixed: dict[int, BiasRows] = {}
    for last_axis in (False, True):
        rows = [(1 - each.dim()) if last_axis else each.dim() - 1 for each in tensors]
        from_below = tokens_of(pushed_by(pull), block.input, labels, count, tensors, rows)
        to_above: list[Tensor | None] = [None] * len(tensors)
        if block.output.shape[:2] == block.input.shape[:2]:
            to_above = tokens_of(pull, block.output, labels, count, tensors, rows)
        for position, above, below in zip(at, to_above, from_below, strict=True):
            whose = _first_known(above, below)
            if whose is not None and position not in rows_of and bool((whose >= 0).any()):
                known = BiasRows(whose, last_axis)
                if not known.has_mixed:
                    rows_of[position] = known
                elif at[position].shape[-2 if last_axis else -1] >= _MIN_WIDTH:
                    mixed.setdefault(position, known)
        if len(rows_of) == len(at):
            break
    return mixed | rows_of


def pushed_by(pull: PullAgain) -> Pull:
    """Return a function that takes signals forward by the same derivative as ``pull``, a backward pass, takes them back."""

    def push(inputs: Sequence[Tensor], outputs: Sequence[Tensor], directions: Sequence[Tensor]) -> Tensors:
        generator = torch.Generator().manual_seed(1)
        signals = [torch.randn(each.shape, generator=generator, dtype=torch.float64).to(each).requires_grad_() for each in outputs]
        back = pull(outputs, inputs, signals, differentiable=True)[0]
        if back is None or not back.requires_grad:
            return [None] * len(outputs)
        return torch.autograd.grad(back, signals, list(directions), retain_graph=True, allow_unused=True)

    return push


def _first_known(above: Tensor | None, below: Tensor | None) -> Tensor | None:
    """Return a token for each row: the token in ``above``, to which the row goes, or if this is unknown the token in ``below``, from which
    the row comes.
    """
    if above is None or below is None:
        return below if above is None else above
    return torch.where(above >= 0, above, torch.where(below == NOTHING, above, below))


def may_turn_axes(nodes: Nodes, block: Block) -> bool:
    """Return whether an axis as long as that of the tokens of ``block`` may be another in it: the last axis of a tensor of ``nodes`` is, or
    a linear map runs over another axis than the last.
    """
    tokens = block.input.shape[1]
    return any(
        (len(node.shape) in (2, 3) and node.shape[-1] == tokens)
        or (node.operator is LinearMap and node.settings["forward"] is not matrix_products.linear)
        for node in nodes.nodes_in(block)
    )


def in_place(nodes: Nodes, pull: PullAgain) -> set[int]:
    """Return the positions of the biases in the blocks of ``nodes`` at whose output row i goes to token i alone, in the axes of samples and
    tokens. ``pull`` is a backward pass that stops at attention.
    """
    at = {
        position: out
        for block in nodes.blocks
        for position, out in block.biased.items()
        if out.requires_grad and len(out.shape) == 3 and out.shape[:2] == block.input.shape[:2]
    }
    outputs = [block.output for block in nodes.blocks if block.output is not None]
    if not at or len({output.shape for output in outputs}) != 1:
        return set()
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(each.shape, generator=generator, dtype=torch.float64).to(each) for each in outputs]
    code = (1 + torch.rand(outputs[0].shape[1], 1, generator=generator, dtype=torch.float64)).to(outputs[0])
    plain, coded = (pull(outputs, list(at.values()), [each * factor for each in directions]) for factor in (torch.ones_like(code), code))
    return {
        position
        for position, before, after in zip(at, plain, coded, strict=True)
        if before is None or after is None or bool((after - before * code).norm() <= ONE_TOKEN * after.norm())
    }


def follow_tokens(block: Block, positions: Sequence[int], pull: PullAgain) -> set[int]:
    """Return those of the ``positions`` of biases in ``block``, each of which acts at (B, tokens, width) or (B, width, tokens), at which
    later rows come from later tokens or go to them, as a convolution leaves it. After a matrix over tokens no row is of a token. ``pull``
    is a backward pass that stops at attention.
    """
    tensors, tokens = [block.biased[position] for position in positions], block.input.shape[1]
    if not tensors or block.output is None:
        return set()
    code = torch.linspace(1, 2, tokens, dtype=torch.float64, device=block.input.device)
    generator = torch.Generator().manual_seed(0)
    ways = [(pushed_by(pull), block.input)]
    ways += [(pull, block.output)] if block.output.shape[:2] == block.input.shape[:2] else []
    following = set[int]()
    factors = torch.ones_like(code), code
    for carry, start in ways:
        sums = [torch.zeros(2, tokens, dtype=torch.float64, device=code.device) for _ in tensors]
        for _ in range(_DRAWS):
            direction = torch.randn(start.shape, generator=generator, dtype=torch.float64).to(start)
            signals = [carry([start], tensors, [direction * factor.to(start)[:, None]]) for factor in factors]
            for number, (plain, coded) in enumerate(zip(*signals, strict=True)):
                if plain is not None and coded is not None:
                    rows = [(each if each.shape[1] == tokens else each.mT).double() for each in (plain, coded)]
                    sums[number] += torch.stack([(rows[0] * each).sum((0, 2)) for each in rows])
        for position, (size, along) in zip(positions, sums, strict=True):
            has_signal = size > NO_SIGNAL**2 * size.max()
            if bool(has_signal.any()):
                place, seen = code[has_signal], (along / size)[has_signal]
                centred = place - place.mean()
                if bool((centred * seen).sum() > _FOLLOWS * (centred * centred).sum()):
                    following.add(position)
    return following


def rows_before_tokens(nodes: Nodes, pull: PullAgain) -> dict[int, int]:
    """Return, by the positions of biases after the blocks of ``nodes``, how many rows of their output (B, more than tokens, width) stand
    before that of the first token. ``pull`` is a backward pass that stops at attention. Rows of one number are taken to lie alike: what
    attention gave shows it no more. Those of which nothing is known, or that lie otherwise, are left out.
    """
    last = nodes.blocks[-1]
    if last.passed_on is None:
        return {}
    samples, tokens = last.passed_on.shape[:2]
    at = {
        position: out
        for position, out in last.biased_after.items()
        if out.requires_grad and out.dim() == 3 and len(out) == samples and out.shape[1] > tokens
    }
    labels = torch.arange(samples * tokens, device=last.passed_on.device).view(samples, tokens)
    seen = tokens_of(pushed_by(pull), last.passed_on, labels[..., None], labels.numel(), list(at.values()), [2] * len(at)) if at else []
    before: dict[int, set[int | None]] = {}
    for whose in seen:
        if whose is not None and bool((whose >= 0).any()):
            first = int((whose[0] >= 0).int().argmax())
            expected = torch.nn.functional.pad(labels, (first, whose.shape[1] - first - tokens), value=NOTHING)
            before.setdefault(whose.shape[1], set()).add(first if torch.equal(whose, expected) else None)
    known = {rows: next(iter(firsts)) for rows, firsts in before.items() if len(firsts) == 1}
    return {position: joined for position, out in at.items() if (joined := known.get(out.shape[1])) is not None}

"""Which tokens a model keeps on the way from the input of one block to that of the next, and which it throws away.

A model may give a token a new start before a block or inside it: a class token or prompts of its own for each block, mask tokens, rows that
are multiplied by zero. What the token held before is lost then, so that maps that are multiplied from block to block must end there. A
backward pass that stops at attention shows it: no signal arrives at a row that is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from explainers.autograd.nodes import Block, Nodes, Role, Start
from explainers.autograd.structure.token_codes import Pull, random_direction


@dataclass(frozen=True, eq=False)
class TokenLinks:
    """The links of one block's tokens, bool (B, S) each: False where what a token holds is thrown away.

    residual   whether a token's row at the block's output is made of its row at the input, other than by attention
    attended   whether what attention gives a token reaches the block's output
    weighed    whether the values that attention weighs for a token are made of its row at the input
    passed_on  whether a token's row at the block's output reaches the input of the next block
    """

    residual: Tensor
    attended: Tensor
    weighed: Tensor
    passed_on: Tensor

    @property
    def is_cut_inside(self) -> bool:
        """Return whether some token is thrown away inside the block."""
        return not bool((self.residual & self.attended & self.weighed).all())

    @property
    def is_cut_behind(self) -> bool:
        """Return whether some token is thrown away between the block and the next one."""
        return not bool(self.passed_on.all())

    @property
    def is_replaced_inside(self) -> bool:
        """Return whether something else is put in a token's place before what attention gives it, or as its values."""
        return bool((~self.residual & self.attended | ~self.weighed).any())

    @property
    def replaced(self) -> Tensor:
        """The tokens, bool (B, S), in whose place something else stands, from the block on or as the values of its attention."""
        return ~(self.residual & self.weighed & self.passed_on)

    def only_behind(self) -> TokenLinks:
        """Return links that are cut only after the block."""
        whole = torch.ones_like(self.passed_on)
        return TokenLinks(whole, whole, whole, self.passed_on)

    def with_first_token(self) -> TokenLinks:
        """Return the links (B, 1 + S) of these tokens after a first one, of which nothing is thrown away."""
        links = (self.residual, self.attended, self.weighed, self.passed_on)
        return TokenLinks(*(torch.nn.functional.pad(each, (1, 0), value=True) for each in links))

    def cut(self, matrix: Tensor) -> Tensor:
        """Return the matrix M' (B, S, S) such that I + M' is what leads from the input of the block to that of the next, where I + M, with
        ``matrix`` as M, would lead there if no token were thrown away.
        """
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        of_attention = matrix * (self.attended[:, :, None] & self.weighed[:, None, :])
        return (of_attention + identity * self.residual[:, :, None]) * self.passed_on[:, :, None] - identity


#: Of one block, the values that its only attention weighs and what that gives, each (B, H, S, d); None where it has no such attention.
AttentionEnds = tuple[Tensor, Tensor] | None


def links_in(nodes: Nodes, ends: Sequence[AttentionEnds], pull: Pull) -> list[TokenLinks]:
    """Find the links of the tokens of every block of a recorded pass (``nodes``). ``ends`` has for each block what its attention weighs and
    gives; ``pull`` runs a backward pass that stops at attention.

    Where no row of a block has a signal, its tokens are made in another way, such as of another block's, and all links are taken to hold.
    """
    outputs = [block.output for block in nodes.blocks if block.output is not None]
    contexts = [each[1] for each in ends if each is not None]
    arrived = pull(outputs, [*(block.input for block in nodes.blocks), *contexts], [random_direction(output) for output in outputs])
    of_inputs, of_contexts = arrived[: len(nodes.blocks)], iter(arrived[len(nodes.blocks) :])
    links = []
    for block, following, signal, each in zip(nodes.blocks, [*nodes.blocks[1:], None], of_inputs, ends, strict=True):
        whole = torch.ones(block.input.shape[:2], dtype=torch.bool, device=block.input.device)
        attended = weighed = whole
        if each is not None:
            attended = _with_signal(next(of_contexts), whole)
            weighed = _with_signal(pull([each[0]], [block.input], [random_direction(each[0])])[0], whole)
        onward = passed_on(block, following, pull)
        links.append(TokenLinks(_with_signal(signal, whole), attended, weighed, whole if onward is None else onward))
    return links


def passed_on(block: Block, following: Block | None, pull: Pull) -> Tensor | None:
    """Return which rows of the output of ``block`` reach the input of the ``following`` block: bool (B, S). None if all do, and for the
    last block.
    """
    if following is None or block.passed_on is None or block.passed_on.shape != following.input.shape:
        return None
    if following.start is not None and following.start is block.passed_on_by:
        return None
    return reached_from(block.passed_on, following, pull, lambda rows: rows)


def reached_from(start: Tensor, following: Block, pull: Pull, row_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return which rows of an earlier tensor, ``start``, reach the input of the ``following`` block: bool (B, S). ``row_of`` turns
    ``start`` into a row of tokens (B, S, D).
    """
    (signal,) = pull([following.input], [start], [random_direction(following.input)])
    return (row_of(torch.zeros_like(start) if signal is None else signal) != 0).any(-1)


def come_from_elsewhere(nodes: Nodes, links: Sequence[TokenLinks], pull: Pull) -> bool:
    """Return whether a token that is thrown away between two blocks of a recorded pass gets in its place what is made of the picture or the
    text by another way, such as the embedded token again; not if that is a constant.
    """
    starts = [node.output for node in nodes.ran if node.operator is Start and node.role == Role.PIXELS and node.output is not None]
    source = starts[0] if starts else nodes.blocks[0].input
    for (_, following), each in zip(pairwise(nodes.blocks), links, strict=False):
        if not each.is_cut_behind:
            continue
        direction = random_direction(following.input) * ~each.passed_on[..., None]
        (signal,) = pull([following.input], [source], [direction])
        if signal is not None and bool((signal != 0).any()):
            return True
    return False


def _with_signal(signal: Tensor | None, whole: Tensor) -> Tensor:
    """Return the rows, as ``whole`` (B, S) has them, at which a signal (B, S, D) or (B, H, S, d) arrived; all if none did anywhere, or if
    it has no axis for the samples.
    """
    if signal is None or signal.dim() < 3:
        return whole
    rows = (signal != 0).any(-1)
    rows = rows if rows.dim() == 2 else rows.any(1)
    return rows if rows.shape == whole.shape and bool(rows.any()) else whole

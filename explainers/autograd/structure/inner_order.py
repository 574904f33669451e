"""Whether the rows inside the blocks of a model belong to the tokens in their order, as codes in backward passes of one pass show."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Size, Tensor

from explainers.autograd.nodes import Block, Nodes
from explainers.autograd.operators import Add, LinearMap, Norm
from explainers.autograd.structure.attention_plan import has_earlier_values, has_shortcuts
from explainers.autograd.structure.attention_products import Product
from explainers.autograd.structure.token_codes import MIXED, NOTHING, ONE_TOKEN, Pull, tokens_of

#: Up to which share of the longest signal a row's may be off by rounding.
_ROUNDING = 1e-5


def is_row_by_row(nodes: Nodes, usual: Sequence[Product | None], pull_all: Pull) -> bool:
    """Return whether everything between the blocks of a recorded pass (``nodes``) and inside them, but attention by the ``usual`` products,
    works on each token by itself: row i of the input of every block, of each tensor inside it with a row for each token, and of what its
    attention weighs and gives, is token i. ``pull_all`` runs a backward pass that stops at attention alone.

    One look at each block alone answers what :func:`keeps_inner_order` and the attention plan look for otherwise in two. False if some row
    is unclear, and where blocks are joined by other ways too.
    """
    blocks, directions = nodes.blocks, _Directions()
    if any(block.output is None or block.output.shape != blocks[0].input.shape for block in blocks):
        return False
    if any(block.input.shape != blocks[0].input.shape for block in blocks) or has_shortcuts(nodes) or has_earlier_values(nodes, usual):
        return False
    for block, following in pairwise(blocks):
        if block.output is None or block.passed_on is not block.output:
            return False
        if not _is_in_order(pull_all, [following.input], [block.output], directions):
            return False
    for block, product in zip(blocks, usual, strict=True):
        inner, tokens = _rows_inside(nodes, block), block.input.shape[-2]
        values = [] if product is None else [product.value]
        contexts = [] if product is None or product.node.output is None else [product.node.output]
        if any(each.shape[-2] != tokens for each in (*values, *contexts)):
            return False
        assert block.output is not None
        if not _is_in_order(pull_all, [block.output, *inner, *values], [block.input, *inner, *contexts], directions, needed=1):
            return False
    return True


class _Directions:
    """Random signals of rows, which tensors of one shape in different blocks share, as drawing them takes long."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[int, Size], Tensor] = {}

    def for_all(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return a signal in the shape of each of ``tensors``, another one for each."""
        return [self._draw(number, each.shape[-2:]).to(each).expand(each.shape) for number, each in enumerate(tensors)]

    def _draw(self, seed: int, shape: Size) -> Tensor:
        if (seed, shape) not in self._drawn:
            self._drawn[seed, shape] = torch.randn(shape, generator=torch.Generator().manual_seed(1 + seed))
        return self._drawn[seed, shape]


def _is_in_order(
    pull: Pull, later: Sequence[Tensor], earlier: Sequence[Tensor], directions: _Directions, needed: int | None = None
) -> bool:
    """Return whether each row of the tensors ``earlier``, whose last axes are rows and their width, reaches the row of the same number of
    the tensors ``later`` and no other. Signals of the first ``needed`` of ``earlier`` must arrive (None: of all), and of each where any do.
    """
    like = later[0]
    signals = directions.for_all(later)
    code = (1 + torch.rand(like.shape[-2], 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).to(like)
    plain, coded = pull(later, earlier, signals), pull(later, earlier, [signal * code for signal in signals])
    for number, (before, after) in enumerate(zip(plain, coded, strict=True)):
        if before is None or after is None:
            return False
        length = before.square().sum(-1).sqrt()
        if not bool(length.any()) and (needed is None or number < needed):
            return False
        if not bool(((after - before * code).square().sum(-1).sqrt() <= ONE_TOKEN * length + _ROUNDING * length.max()).all()):
            return False
    return True


def keeps_inner_order(nodes: Nodes, pull: Pull) -> bool:
    """Return whether, in every block of a recorded pass (``nodes``), row i of each tensor inside it belongs to the block's token i: of the
    inputs of linear maps, the outputs of normalisations and the residual stream, if they have a row for each token. ``pull`` runs a
    backward pass that stops at attention.
    """
    generator = torch.Generator().manual_seed(0)
    for block in nodes.blocks:
        inner = _rows_inside(nodes, block)
        if not inner or block.output is None or block.output.shape != block.input.shape:
            continue
        at, start = [block.input, *inner], [block.output, *inner]
        directions = [torch.randn(each.shape, generator=generator, dtype=torch.float64).to(block.input) for each in start]
        code = (1 + torch.rand(block.input.shape[1], 1, generator=generator, dtype=torch.float64)).to(block.input)
        plain, coded = pull(start, at, directions), pull(start, at, [direction * code for direction in directions])
        pairs = [(before, after) for before, after in zip(plain, coded, strict=True) if before is not None and after is not None]
        if all(bool((after - before * code).norm() <= ONE_TOKEN * after.norm()) for before, after in pairs):
            continue
        count = block.input.shape[:2].numel()
        labels = torch.arange(count, device=block.input.device).view(*block.input.shape[:2], 1)
        for tensor in inner:  # tokens come together somewhere: each way alone
            ways = ((block.output, tensor), (tensor, block.input))
            for later, earlier in ways:
                (whose,) = tokens_of(pull, later, labels, count, [earlier], [2])
                if whose is not None and bool(((whose != labels[..., 0]) & (whose != NOTHING) & (whose != MIXED)).any()):
                    return False
    return True


def _rows_inside(nodes: Nodes, block: Block) -> list[Tensor]:
    """Return the tensors of ``nodes`` in ``block`` that have a row for each token: inputs of linear maps, and outputs of normalisations and
    sums; not the block's own input and output.
    """
    tensors: dict[int, Tensor] = {}
    for node in nodes.nodes_in(block):
        taken = node.operands[:1] if node.operator is LinearMap else ()
        given = (node.output,) if node.operator in (Norm, Add) else ()
        for tensor in (*taken, *given):
            if tensor is None or not tensor.requires_grad or tensor is block.input:
                continue
            if tensor.shape == block.input.shape or (taken and tensor.shape[:-1] == block.input.shape[:-1]):
                tensors[id(tensor)] = tensor
    return [tensor for tensor in tensors.values() if tensor is not block.output]

"""The residual stream inside blocks: each sum of two paths of its shape."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.nodes import Block, Nodes
from explainers.autograd.operators import Add
from explainers.models.structure.block_kinds import BlockKind


def sums_in(nodes: Nodes, block: Block, block_kind: BlockKind) -> list[Tensor]:
    """The residual stream (B, S, D) after each sum of two paths in a block: the first is the one after attention. None where a block has
    several streams.
    """
    return [
        block_kind.row_of(node.output)
        for node in nodes.inside(block)
        if node.operator is Add and node.output is not None and node.shape == block.stream and len(node.paths) == 2
    ]

"""Attention with which a head pools the tokens."""

from __future__ import annotations

from torch import Tensor

from explainers.autograd.nodes import Nodes
from explainers.autograd.operators import Softmax


def pooling_attention(nodes: Nodes) -> Tensor | None:
    """(B, H, queries, S): the last attention behind the blocks of fewer queries than keys, where the keys are the blocks' tokens."""
    behind = [(node, block) for node, block in nodes.after_blocks() if node.operator is Softmax and len(node.shape) == 4]
    fewer = [(node, block) for node, block in behind if node.shape[-2] < node.shape[-1]]
    if not fewer:
        return None
    node, block = fewer[-1]
    assert block.output is not None
    return node.output if node.shape[-1] == block.output.shape[1] else None

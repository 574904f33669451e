"""Position embeddings that are added to tokens before the first block."""

from __future__ import annotations

import math

from torch import Tensor

from explainers.autograd.nodes import Nodes, Role
from explainers.autograd.operators import Add
from explainers.autograd.operators.arithmetic import constant_of
from explainers.models.layout import Layout


def added_before(nodes: Nodes, layout: Layout) -> tuple[Tensor, Tensor] | None:
    """The constant that was added last before x^1 to all tokens, or to the patches alone, and differs from token to token: the position
    embeddings, and the tokens with them added. None where nothing was.
    """
    tokens = math.prod(layout.grid or (0,))
    for node in reversed(nodes.ran[: nodes.entry]):
        total = node.output
        if node.operator is not Add or total is None or len(node.paths) != 1 or node.settings["role"] == Role.SHIFT:
            continue
        constant: Tensor = constant_of(node)
        by_token = total.dim() == 3 and total.shape[1] in (tokens, layout.image_tokens)
        if by_token and constant.dim() >= 2 and constant.shape[-2] == total.shape[1]:
            return constant, total
    return None

"""Whether tokens come together in the blocks of a model by something else than attention, as a recorded pass shows it."""

from __future__ import annotations

from itertools import pairwise

import torch

from explainers.autograd.nodes import Nodes
from explainers.autograd.structure.token_codes import MIXED, Pull, tokens_of


def mixes_tokens(nodes: Nodes, pull: Pull) -> bool:
    """Return whether some row of tokens at the input of a block reaches several tokens at its output, or some row of that several at the
    input of the next, by another way than attention: a convolution, a layer or a mean over tokens. ``nodes`` are the operators of a
    recorded pass; ``pull`` runs a backward pass that stops at attention alone.
    """
    pairs = [(block.output, block.input) for block in nodes.blocks]
    pairs += [(after.input, block.passed_on) for block, after in pairwise(nodes.blocks) if block.passed_on is not None]
    for later, earlier in pairs:
        if later is None or later is earlier or not later.dim() == earlier.dim() == 3 or later.shape[:2] != earlier.shape[:2]:
            continue
        count = later.shape[:2].numel()
        labels = torch.arange(count, device=later.device).view(*later.shape[:2], 1)
        (whose,) = tokens_of(pull, later, labels, count, [earlier], [2])
        if whose is not None and bool((whose == MIXED).any()):
            return True
    return False

"""State of a recording's forward pass, kept until that ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from explainers.autograd.detached import DetachedNumbers
from explainers.autograd.head_calls import HeadCalls
from explainers.autograd.opaque import Insides
from explainers.autograd.saved_values import SavedValues

Change = Callable[[Tensor], Tensor]


@dataclass(eq=False)
class ForwardPass:
    """State of one forward pass while it runs.

    exit_block, exit_through  what the head reads instead of the last block's output
    position  the number of operators applied: 1, 2, ... after the embedded tokens x^1 and -1, -2, ... before it. So an operator after x^1
    has the same position
              in a recording that starts at the pixels and in one that starts at x^1; accumulated rounding is measured on one and looked up
              for the other
    x1        the explained tokens, once they are reached
    keeps_biased  whether what operators with a bias give is kept, to find the tokens of its rows
    head      the calls after the blocks
    """

    entry: Change | None = None
    exit_block: int | None = None
    exit_through: Change | None = None
    single_head: bool = False
    keeps_biased: bool = False
    position: int = 0
    x1: Tensor | None = None
    insides: Insides = field(default_factory=Insides)
    saved: SavedValues = field(default_factory=SavedValues)
    detached: DetachedNumbers = field(default_factory=DetachedNumbers)
    head: HeadCalls = field(default_factory=HeadCalls)
    thread: int = field(default_factory=threading.get_ident)

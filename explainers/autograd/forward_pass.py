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

    entry         function that changes x^1, the embedded tokens, on their way in; None: they stay
    entry_block   the block at whose input ``entry`` changes the tokens, and the gradient ends; None: at x^1
    exit_block    the block that the head reads instead of the last one, through the function ``exit_through``; None: the last
    single_head   whether the last block attends with one head over its whole width
    keeps_scores  whether attention scores are kept, of which the softmax is taken
    keeps_biased  whether what operators with a bias give is kept, to find the tokens of its rows
    position      number of operators applied: 1, 2, ... after x^1 and -1, -2, ... before it. So an operator after x^1 has the same position
                  in a recording that starts at the pixels and in one that starts at x^1; accumulated rounding is measured on one and looked
                  up for the other
    x1            x^1, once it is reached
    insides       what ran inside opaque code, such as autograd functions
    saved         tensors that operators keep for the backward pass
    detached      numbers that were taken out of the gradient
    head          the calls after the blocks
    thread        identifier of the thread that runs the pass
    """

    entry: Change | None = None
    entry_block: int | None = None
    exit_block: int | None = None
    exit_through: Change | None = None
    single_head: bool = False
    keeps_scores: bool = False
    keeps_biased: bool = False
    position: int = 0
    x1: Tensor | None = None
    insides: Insides = field(default_factory=Insides)
    saved: SavedValues = field(default_factory=SavedValues)
    detached: DetachedNumbers = field(default_factory=DetachedNumbers)
    head: HeadCalls = field(default_factory=HeadCalls)
    thread: int = field(default_factory=threading.get_ident)

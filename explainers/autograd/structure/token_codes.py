"""Token codes: a signal with different numbers for each token shows, where it arrives, which token it came from.

Gradients are linear, so that the signal at a row that depends on one token alone is that token's code times the signal without a code. A
row that depends on several tokens has a signal that is no multiple of it: it is mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

#: How far from a multiple a signal may be, relative to its length, to belong to one token: codes are further apart than that.
ONE_TOKEN = 0.01
#: A row whose signal is shorter than this, relative to the longest, has none.
NO_SIGNAL = 1e-6
#: How many tokens one digit of a code tells apart.
DIGIT = 16
#: What a row belongs to where it has no signal, and where it depends on several tokens.
NOTHING, MIXED = -1, -2

#: What comes back to tensors, in their order; None where nothing does.
Tensors = Sequence[Tensor | None]
#: What comes back of signals at tensors, the first, to others, the second.
Pull = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Tensors]


def digits_of(count: int) -> int:
    """Return the number of digits of a code for ``count`` tokens."""
    digits = 1
    while DIGIT**digits < count:
        digits += 1
    return digits


def codes(count: int, like: Tensor) -> Tensor:
    """Return the factors (digits, count) from 1 to 2 that mark the signals of ``count`` tokens: one for each digit of a token's number, in
    the type and on the device of ``like``.
    """
    numbers = torch.arange(count, device=like.device)
    digits = [numbers // DIGIT**place % DIGIT for place in range(digits_of(count))]
    return 1 + torch.stack(digits).to(like.dtype) / DIGIT


def decode(plain: Tensor, coded: Sequence[Tensor], count: int) -> Tensor:
    """Return the number (R,) of the token, of ``count``, that each of R rows belongs to. ``plain`` (R, F) are the signals at the rows
    without a code, ``coded`` those with each digit's code. A row without a signal gets NOTHING, one whose signal comes from several tokens
    MIXED.
    """
    plain = plain.double()
    size = plain.square().sum(-1)
    has_signal = size > NO_SIGNAL**2 * size.max().clamp_min(torch.finfo(plain.dtype).tiny)
    token, clear = torch.zeros(len(plain), dtype=torch.long, device=plain.device), torch.ones_like(has_signal)
    for place, signal in enumerate(each.double() for each in coded):
        ratio = (plain * signal).sum(-1) / size.clamp_min(torch.finfo(plain.dtype).tiny)
        rest = (signal - ratio[:, None] * plain).square().sum(-1).sqrt() / size.sqrt().clamp_min(torch.finfo(plain.dtype).tiny)
        digit = ((ratio - 1) * DIGIT).round().long()
        clear &= (rest < ONE_TOKEN) & (((ratio - 1) * DIGIT - digit).abs() < ONE_TOKEN * DIGIT) & (digit >= 0) & (digit < DIGIT)
        token += digit * DIGIT**place
    token = torch.where(clear & (token < count), token, MIXED)
    return torch.where(has_signal, token, NOTHING)


def tokens_of(pull: Pull, output: Tensor, labels: Tensor, count: int, at: Sequence[Tensor], rows: Sequence[int]) -> list[Tensor | None]:
    """Find which rows of earlier tensors (``at``) the rows of ``output`` are computed from. Return, for each tensor of ``at``, the label of
    ``output`` that each of its rows belongs to, NOTHING or MIXED; None if no signal from the output reaches it. ``pull`` runs the backward
    passes.

    ``labels`` are whole numbers below ``count``, to be broadcast with ``output``: rows of the same label belong together. ``rows`` is the
    number of leading dimensions of each tensor that are rows; if negative, the last dimension is one too. The results have these
    dimensions.
    """
    seeds = [torch.ones_like(labels, dtype=output.dtype), *codes(count, output)[:, labels]]
    direction = random_direction(output)
    arrived = [pull([output], at, [direction * seed]) for seed in seeds]
    whose: list[Tensor | None] = []
    for place, dims in enumerate(rows):
        signals = [each[place] for each in arrived]
        if any(signal is None for signal in signals):
            whose.append(None)
            continue
        plain, *coded = [signal.mT if dims < 0 else signal for signal in signals if signal is not None]
        shape = plain.shape[: abs(dims)]
        flat = [signal.flatten(0, abs(dims) - 1).flatten(1) for signal in (plain, *coded)]
        whose.append(decode(flat[0], flat[1:], count).view(shape))
    return whose


def random_direction(output: Tensor) -> Tensor:
    """Return random numbers in the shape of ``output``, always the same, with which a backward pass begins. They differ between tokens,
    because equal signals would make a mean of tokens look like a single token.
    """
    generator = torch.Generator().manual_seed(0)
    return torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output)

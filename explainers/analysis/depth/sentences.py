"""What the findings of a model's depth mean, in sentences for who reads maps of it."""

from __future__ import annotations

from collections.abc import Sequence

from explainers.analysis.depth.estimate import Estimate
from explainers.analysis.depth.records import DepthOfPart, HeadsOfBlock

DECIDING_SHARE = 0.5  # of what all parts together change: a part above it decides
SMALL_SHARE = 0.1  # attention below it adds little
ALIKE_HEADS = 0.9
ALIKE_MAPS, DIFFERENT_MAPS = 0.7, 0.4
SAME_ANSWERS = 0.9  # so many answers that stay say that nothing was read that the answers need
ONE_ANSWER = 0.8  # so many inputs with one answer say little about reading
NAMES_SHOWN = 4


def number(value: float) -> str:
    """Format ``value``, such as a rise of the loss or a correlation, with two decimals, or with three if its size is below 0.01."""
    return f"{value:.2f}" if abs(value) >= 0.01 else f"{value:.3f}"


def percent(value: float) -> str:
    """Format a share from 0 to 1 as a whole number of per cent, such as "42 %"."""
    return f"{100 * value:.0f} %"


def between(estimate: Estimate) -> str:
    """Format an estimate as its value and interval, such as "0.12 (0.08 to 0.16)"."""
    return f"{number(estimate.value)} ({number(estimate.low)} to {number(estimate.high)})"


def say_parts(parts: Sequence[DepthOfPart], attention: Estimate | None, together: Estimate, inputs: int) -> str:
    """Return sentences on how much the parts of a model matter: whether one decides, whether attention is needed, and which are idle. They
    follow from the rise of the loss without each of ``parts``, without all ``attention``, and without all parts ``together``, measured on
    this number of ``inputs``.
    """
    if not any(part.verdict == "needed" for part in parts) and together.low <= 0:
        return (
            f"The answers hardly depend on the blocks: with all parts replaced the loss changes by {between(together)}. "
            "A model without training gives this, and so do inputs that are alike. No map shows much of such answers."
        )
    largest = max(parts, key=lambda part: part.rise.value)
    if largest.rise.value >= DECIDING_SHARE * together.value:
        first = f"One part decides most: without the {_of(largest)} the loss rises by {between(largest.rise)}."
    else:
        first = (
            f"No single part decides: without all parts the loss rises by {between(together)}, "
            f"without the largest one, the {_of(largest)}, by {number(largest.rise.value)}."
        )
    return " ".join([first, *_say_attention(attention, together), *_say_idle(parts, inputs)])


def _of(part: DepthOfPart) -> str:
    block, _, kind = part.name.partition(f"{part.block + 1} ")
    return f"{kind} of {block}{part.block + 1}"


def _say_attention(attention: Estimate | None, together: Estimate) -> list[str]:
    if attention is None:
        return []
    if attention.low <= 0 or attention.value < SMALL_SHARE * together.value:
        return [
            f"Without all attention the loss changes by {between(attention)} only. "
            "Attention adds little here, and maps that read attention alone say little of these answers."
        ]
    return [f"Without all attention the loss rises by {between(attention)}: methods that read attention read what these answers need."]


def _say_idle(parts: Sequence[DepthOfPart], inputs: int) -> list[str]:
    idle = [part for part in parts if part.verdict == "idle"]
    undecided = sum(part.verdict == "undecided" for part in parts)
    said = []
    if idle:
        names = ", ".join(f"the {_of(part)}" for part in idle[:NAMES_SHOWN])
        more = f" and {len(idle) - NAMES_SHOWN} more" if len(idle) > NAMES_SHOWN else ""
        verb = "is" if len(idle) == 1 else "are"
        said.append(f"{len(idle)} of {len(parts)} parts {verb} idle: {names}{more}. They change nothing, alone or with others replaced.")
    if undecided:
        said.append(
            f"{inputs} inputs are too few to tell whether the loss rises without {undecided} of the {len(parts)} parts: these may matter."
        )
    return said or ["No part is idle."]


def say_heads(blocks: Sequence[HeadsOfBlock]) -> str:
    """Return sentences on how alike the heads of each block are, and what is lost by averaging over them."""
    values = sorted(block.similarity.value for block in blocks if block.similarity is not None)
    if not values:
        return "No block has two heads that could be compared."
    alike = sum(value >= ALIKE_HEADS for value in values)
    if alike == len(values):
        return (
            f"In all {len(values)} blocks the heads look at nearly the same places. A mean over heads, as rollout takes it, loses little."
        )
    first = f"The maps of two heads of a block correlate by {number(values[len(values) // 2])} (median of {len(values)} blocks)."
    if alike:
        first += f" In {alike} of the blocks they look at nearly the same places."
    return f"{first} A mean over heads that differ mixes what they do; methods that weigh heads by a gradient keep it apart."


def say_reading(stay: Estimate, chance: float, unit: str) -> str:
    """Return sentences on whether the answers need patches or words (``unit``) to read each other. ``stay`` is the share of answers that
    stay the same when none reads another, ``chance`` the share that would by chance.
    """
    interval = f"{percent(stay.low)} to {percent(stay.high)}; chance: {percent(chance)}"
    first = f"When no {unit} reads another, {percent(stay.value)} of the answers stay ({interval})."
    if chance > ONE_ANSWER:
        return f"{first} Most inputs have the same answer, so this says little: send inputs of several classes."
    if stay.value >= SAME_ANSWERS:
        return f"{first} The answers hardly need it. Maps that follow attention from {unit} to {unit}, as rollout does, say little of them."
    return (
        f"{first} The answers need it: each {unit}'s token stands for others too, so read attention of all blocks, not of the last alone."
    )


def say_agreement(correlation: Estimate, methods: int) -> str:
    """Return sentences on whether the choice of a method matters, from the rank correlation between the maps of different methods."""
    first = (
        f"Maps by methods of different families have a rank correlation of {between(correlation)}: "
        f"the median over pairs of {methods} methods."
    )
    if correlation.value >= ALIKE_MAPS:
        return f"{first} They say nearly the same, so it matters little which one you read."
    if correlation.value <= DIFFERENT_MAPS:
        return f"{first} They say different things: trust none before a deletion test on your inputs."
    return f"{first} They agree in part: compare two families before you trust a detail."

"""The ways in which tokens are removed: their names, the inputs that they are for, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from explainers.errors import ExplainerError

How = Literal["removed", "zeroed", "painted", "black", "masked", "unknown"]
#: Those that one answer about an image can be asked for over HTTP and on the pages.
HowOfPages = Literal["removed", "painted"]


@dataclass(frozen=True)
class RemovalWay:
    """A way to remove tokens: its ``name``, the ``kinds`` of inputs that it is for, and what becomes of the tokens, in words."""

    name: How
    kinds: tuple[Literal["image", "text", "molecule"], ...]
    words: str


#: Every way by its name, those that suit most models first.
REMOVAL_WAYS: dict[How, RemovalWay] = {
    way.name: way
    for way in (
        RemovalWay("removed", ("image", "text", "molecule"), "the model does not see them at all"),
        RemovalWay("zeroed", ("image", "molecule"), "their embeddings become zero"),
        RemovalWay("painted", ("image",), "their patches get the mean colour"),
        RemovalWay("black", ("image",), "their patches turn black"),
        RemovalWay("masked", ("text",), "they become [MASK]"),
        RemovalWay("unknown", ("text",), "they become [UNK]"),
    )
}


def ways_for(kind: str) -> tuple[How, ...]:
    """Return the names of the ways in which tokens of an input of this ``kind`` ("image", "text" or "molecule") can be removed."""
    return tuple(name for name, way in REMOVAL_WAYS.items() if kind in way.kinds)


#: The ways to remove patches, word pieces and atoms.
OF_PATCHES, OF_WORDS, OF_ATOMS = ways_for("image"), ways_for("text"), ways_for("molecule")


def check_how(how: str, ways: Sequence[How], kind: str) -> How:
    """Return the way ``how``; raises ExplainerError unless it is one of the ``ways`` in which tokens of this ``kind`` ("patches", "word
    pieces", "atoms") are removed.
    """
    for way in ways:
        if way == how:
            return way
    others = " and ".join(f"{other}s" for other in REMOVAL_WAYS[how].kinds) if how in REMOVAL_WAYS else ""
    wrong = f"is for {others}" if others else f"is not a way to remove {kind}"
    raise ExplainerError(f"how={how!r} {wrong}: {kind} are {', '.join(ways[:-1])} or {ways[-1]}.")

"""The registry of the kinds of blocks by name, and the search for the kind of a block."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import TypeVar

from explainers.errors import ExplainerError
from explainers.models.structure.block_kinds.base import BlockCall, BlockKind

#: The kinds that a call of a block tells, by their names, in the order in which they are asked; a block of none has one stream of tokens.
BLOCK_KINDS: dict[str, type[BlockKind]] = {}
_Kind = TypeVar("_Kind", bound=type[BlockKind])


def add_block_kind(kind: _Kind) -> _Kind:
    """Register ``kind``, a frozen dataclass that derives from :class:`BlockKind`, as a kind of block and return it: from then on blocks
    that its ``find`` recognises have this kind.

    Raises ExplainerError for any other class, and for a name that is invalid or already in use.
    """
    if not (issubclass(kind, BlockKind) and is_dataclass(kind)):
        raise ExplainerError(f"{kind.__name__} is no kind of block: derive a frozen dataclass from BlockKind.")
    if missing := sorted(kind.__abstractmethods__):
        raise ExplainerError(f"The class {kind.__name__}, a kind of block, lacks {', '.join(missing)}: define them.")
    name = getattr(kind, "name", None)
    if not (isinstance(name, str) and re.fullmatch(r"[a-z0-9_]+", name)):
        raise ExplainerError(f"A kind of block cannot be called {name!r}: send lower-case letters, digits and _.")
    if name in BLOCK_KINDS:
        raise ExplainerError(f"There is already a kind of block {name}.")
    BLOCK_KINDS[name] = kind
    return kind


def kind_of(call: BlockCall) -> BlockKind | None:
    """Return how the tokens of the block that was called in ``call`` lie, as the first kind that knows it finds; None if no kind does: the
    block then has one stream.
    """
    return next((made for kind in BLOCK_KINDS.values() if (made := kind.find(call)) is not None), None)

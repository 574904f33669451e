"""Blocks of branches, as CrossViT's: the same image in patches of several sizes, each branch with tokens of its own before them.

They take and give a list, (B, S_k, D_k) each. A row has all of their tokens: first those before the patches, then the patches, finest
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from explainers.models.structure.block_kinds.base import BlockCall, floating_tensors
from explainers.models.structure.block_kinds.registry import add_block_kind
from explainers.models.structure.block_kinds.several_streams import StreamsInColumns


@add_block_kind
@dataclass(frozen=True)
class Branches(StreamsInColumns):
    """Blocks of several branches; ``sizes`` holds for each branch how many tokens stand before its patches, and how many patches it has."""

    name: ClassVar[str] = "branches"
    no_attention: ClassVar[str | None] = "each branch attends to its own"
    no_residual: ClassVar[str | None] = (
        "The blocks of {name} hold several branches, each with a residual stream of its own, so there is no one stream in which attention "
        "could be followed."
    )
    no_removal: ClassVar[str | None] = "{name} takes several sizes of patches, whose tokens lie over each other"
    falls_short: ClassVar[tuple[str, str] | None] = (
        "branches with patches of several sizes (CrossViT)",
        "A row of tokens holds those of all branches. What larger patches were given is shared among the smaller ones that they cover, in "
        "proportion to the area, and a note on the map says so. Whatever reads attention is refused, for each branch attends to its own; "
        "patches are painted, never removed. A branch that is shown a crop of the image is refused.",
    )
    sizes: tuple[tuple[int, int], ...]

    @classmethod
    def find(cls, call: BlockCall) -> Branches | None:
        """Return how a block's tokens lie, as one recorded ``call`` of the block shows; None if it has not several branches. Tokens before
        the patches are the same in all samples.
        """
        lists = [call.args[0] if call.args else None, call.output]
        if not all(isinstance(value, (tuple, list)) and len(value) > 1 for value in lists):
            return None
        taken, given = (floating_tensors(value) for value in lists)
        if [x.shape for x in taken] != [x.shape for x in given] or len(taken) != len(lists[0]) or any(x.dim() != 3 for x in taken):
            return None
        if len(taken[0]) < 2 or any(len(x) != len(taken[0]) for x in taken):
            return None
        changing = [(x[0] != x[1]).any(-1) for x in taken]
        before = [int(tokens.int().argmax()) for tokens in changing]
        counts = [x.shape[1] - first for x, first in zip(taken, before, strict=True)]
        if len({x.shape[1] for x in taken}) < len(taken) or not all(
            bool(tokens[first:].all()) for tokens, first in zip(changing, before, strict=True)
        ):
            return None
        return cls(tuple(zip(before, counts, strict=True)))

    @property
    def before(self) -> int:
        """The number of tokens before the patches, over all branches."""
        return sum(count for count, _ in self.sizes)

    @property
    def _finest_first(self) -> list[int]:
        """The indices of the branches in the order in which their patches stand in a row."""
        return sorted(range(len(self.sizes)), key=lambda number: -self.sizes[number][1])

    @property
    def places(self) -> Sequence[Sequence[slice]]:
        """Return for each branch the slices of a joined row of tokens that hold the tokens before its patches, and its patches."""
        counts = [*(count for count, _ in self.sizes), *(self.sizes[number][1] for number in self._finest_first)]
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        slices = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
        patches = dict(zip(self._finest_first, slices[len(self.sizes) :], strict=True))
        return [(slices[number], patches[number]) for number in range(len(self.sizes))]

    @property
    def patch_places(self) -> Sequence[slice]:
        """The slices of a row that hold the patches of each branch, finest first."""
        return [self.places[number][1] for number in self._finest_first]

"""The part of the picture that single tokens are made of, found by its gradient: whether patches lie where they are drawn.

Only patches that lie next to each other are judged: where they overlap, as after several convolutions, each is of a place, but of no part
with edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from explainers.models.outputs import Forward
from explainers.models.structure.footprints import influence_of
from explainers.models.structure.watching import Entrance

#: How much larger than drawn, in patches and in pixels, a token may seem where patches do not overlap.
_LARGER, _MORE_PIXELS = 1.3, 2
#: How far, in patches, the edges of a token may lie from where they are drawn.
_OFF = 0.25


@dataclass(frozen=True)
class Extents:
    """Where tokens lie along one side of the picture: those at ``places`` of ``count`` reach from pixel ``low`` to before pixel ``high`` of
    ``side`` pixels.
    """

    places: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    count: int
    side: int

    @property
    def compact(self) -> Extents:
        """The tokens among these that are made of no more than a patch of the size that is drawn."""
        most = _LARGER * self.side / self.count + _MORE_PIXELS
        kept = [i for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)) if high - low <= most]
        places, low, high = (tuple(each[i] for i in kept) for each in (self.places, self.low, self.high))
        return Extents(places, low, high, self.count, self.side)

    @property
    def overlap(self) -> bool:
        """Return whether most tokens are made of more than the patch that they are drawn at, so that their edges say nothing."""
        return len(self.compact.places) * 2 < len(self.places)

    def are_at(self, pitch: float, edges: int) -> bool:
        """Return whether as many edges of each token, one or both, lie where they do if patches are ``pitch`` pixels apart, from 0 on."""
        return all(
            sum(off <= _OFF * pitch for off in (abs(low - place * pitch), abs(high - (place + 1) * pitch))) >= edges
            for place, low, high in zip(self.places, self.low, self.high, strict=True)
        )

    @property
    def covered(self) -> int | None:
        """The pixels from the first on that the patches cover; all of the side where they are drawn over it, None if they lie elsewhere."""
        tokens = self.compact
        if self.overlap or tokens.are_at(self.side / self.count, 1):
            return self.side
        first, last = (tokens.places.index(place) for place in (min(tokens.places), max(tokens.places)))
        if tokens.places[first] == tokens.places[last]:
            return None
        pitch = (tokens.low[last] - tokens.low[first]) / (tokens.places[last] - tokens.places[first])
        is_stretched = pitch > 0 and tokens.places[last] == self.count - 1 and tokens.are_at(pitch, 2)
        return tokens.high[last] if is_stretched else None


def extents_of(
    module: nn.Module,
    structure: Entrance,
    run: Forward,
    tensors: Mapping[str, Tensor],
    place: slice,
    grid: tuple[int, int],
    probes: Sequence[tuple[int, int]],
) -> tuple[Extents, Extents] | None:
    """Find where patches of the embedded tokens x^1 lie, in rows and in columns of pixels: those at the ``probes`` (row, column) of the
    ``grid``, whose patches are at ``place``. ``tensors`` holds one picture. None if no gradient goes back to the pixels.
    """
    rows, columns = grid
    influence = influence_of(module, structure, run, tensors, place, [row * columns + column for row, column in probes])
    if influence is None:
        return None
    edges = [_edges(influence.sum(3 - axis)) for axis in (1, 2)]
    if edges[0] is None or edges[1] is None:
        return None
    sides = influence.shape[-2:]
    return (
        Extents(tuple(row for row, _ in probes), *edges[0], rows, sides[0]),
        Extents(tuple(column for _, column in probes), *edges[1], columns, sides[1]),
    )


def _edges(influence: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the first pixel of each token and the one after its last, from the ``influence`` (K, side) of rows or columns of pixels; None
    if a token has none.
    """
    most = influence.amax(1, keepdim=True)
    if not bool((most > 0).all()) or not bool(most.isfinite().all()):
        return None
    belongs = (influence > 0).int()  # what has no influence has none at all where patches do not overlap
    low, high = belongs.argmax(1), influence.shape[1] - belongs.flip(1).argmax(1)
    return tuple(low.tolist()), tuple(high.tolist())


#: What is wrong with the places of patches.
Verdict = Literal["elsewhere"] | tuple[int, int] | None


def covered_pixels(
    module: nn.Module, structure: Entrance, run: Forward, tensors: Mapping[str, Tensor], place: slice, grid: tuple[int, int]
) -> Verdict:
    """Return the height and width in pixels, from the top left corner of the picture, that its patches cover; None if that is all of it,
    and "elsewhere" if they lie at other places than they are drawn at. The arguments are those of :func:`extents_of`.
    """
    rows, columns = grid
    middle, corners = (rows // 2, columns // 2), [(row, column) for row in (0, rows - 1) for column in (0, columns - 1)]
    for probes in ([middle], list(dict.fromkeys([*corners, middle]))):  # one is enough to see that patches overlap
        extents = extents_of(module, structure, run, tensors, place, grid, probes)
        if extents is None or any(each.overlap for each in extents):
            return None
    assert extents is not None
    height, width = (each.covered for each in extents)
    if height is None or width is None:
        return "elsewhere"
    return None if (height, width) == tuple(each.side for each in extents) else (height, width)

"""Pictures of 8 x 8 patches that each show one of four signs, of which 16 places alone vote: the class is the sign that most of them show.

A model that reads nothing else can have its answer from these places alone, and from those among them that show the sign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIGNS = ("lying stripes", "upright stripes", "slanted stripes", "ring")
SIDE, PATCH = 64, 8  # pixels
GRID = SIDE // PATCH
READ_COUNT = 16
#: The places that vote, in raster order.
READ: tuple[int, ...] = tuple(sorted(np.random.default_rng(16).permutation(GRID * GRID)[:READ_COUNT].tolist()))
MOST_VOTES = (7, 10)  # of the sign that wins
LEAD = 2  # votes before any other
DECOYS = 0.5  # of the places that do not vote show one and the same sign that has not won
CONTRAST = 90  # grey levels at least between the two colours of a patch, in the mean of red, green and blue
NOISE = 8.0  # grey levels


class Ballot(NamedTuple):
    """A picture, the sign that each place shows (GRID, GRID), and the one that wins."""

    image: Image.Image
    signs: NDArray[np.int64]
    winner: int

    @property
    def voters(self) -> NDArray[np.bool_]:
        """The places (GRID, GRID) that vote for the sign that wins: the truth."""
        return read_places() & (self.signs == self.winner)


def read_places() -> NDArray[np.bool_]:
    """Which places vote, (GRID, GRID)."""
    places = np.zeros(GRID * GRID, bool)
    places[list(READ)] = True
    return places.reshape(GRID, GRID)


def sign_shapes() -> NDArray[np.bool_]:
    """Where each sign is, (signs, PATCH, PATCH)."""
    row, column = np.mgrid[:PATCH, :PATCH]
    radius = np.hypot(row - (PATCH - 1) / 2, column - (PATCH - 1) / 2)
    return np.stack([row // 2 % 2 == 0, column // 2 % 2 == 0, (row + column) // 2 % 2 == 0, (radius > 1.5) & (radius < 3.5)])


def _votes(rng: np.random.Generator, winner: int) -> NDArray[np.int64]:
    """The signs of the places that vote, shuffled: the winner has its lead."""
    most = int(rng.integers(MOST_VOTES[0], MOST_VOTES[1] + 1))
    others = [sign for sign in range(len(SIGNS)) if sign != winner]
    while True:
        counts = rng.multinomial(READ_COUNT - most, [1 / len(others)] * len(others))
        if counts.max() <= most - LEAD:
            break
    votes = np.repeat([winner, *others], [most, *counts])
    rng.shuffle(votes)
    return votes


def _colours(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Two colours (count, 2, 3) for each patch, far enough apart in brightness."""
    middle, half = rng.uniform(80, 175, (count, 1)), rng.uniform(CONTRAST / 2, 75, (count, 1)) * rng.choice([-1, 1], (count, 1))
    tint = rng.uniform(-40, 40, (count, 2, 3))
    tint -= tint.mean(-1, keepdims=True)
    return np.stack([middle - half, middle + half], 1) + tint


def ballot(rng: np.random.Generator) -> Ballot:
    """A picture drawn at random."""
    winner = int(rng.integers(len(SIGNS)))
    signs = rng.integers(len(SIGNS), size=GRID * GRID)
    decoy = (winner + int(rng.integers(1, len(SIGNS)))) % len(SIGNS)
    signs[rng.random(GRID * GRID) < DECOYS] = decoy
    signs[list(READ)] = _votes(rng, winner)
    return Ballot(drawn(signs, rng), signs.reshape(GRID, GRID), winner)


def drawn(signs: NDArray[np.int64], rng: np.random.Generator) -> Image.Image:
    """A picture of patches that show these ``signs`` (GRID * GRID,), each in colours of its own."""
    colours = _colours(rng, len(signs))
    patches = np.where(sign_shapes()[signs][..., None], colours[:, None, None, 1], colours[:, None, None, 0])
    pixels = patches.reshape(GRID, GRID, PATCH, PATCH, 3).swapaxes(1, 2).reshape(SIDE, SIDE, 3)
    return Image.fromarray(np.clip(pixels + rng.normal(0, NOISE, (SIDE, SIDE, 1)), 0, 255).astype(np.uint8))

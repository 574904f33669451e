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
#: The indices of the places that vote, in raster order.
READ: tuple[int, ...] = tuple(sorted(np.random.default_rng(16).permutation(GRID * GRID)[:READ_COUNT].tolist()))
MOST_VOTES = (7, 10)  # least and most votes of the winning sign
MIN_LEAD = 2  # votes that the winner has more than any other sign, at least
DECOY_SHARE = 0.5  # share of the places without a vote that all show one sign which has not won
MIN_CONTRAST = 90  # grey levels at least between the two colours of a patch, in the mean of red, green and blue
NOISE = 8.0  # grey levels


class Ballot(NamedTuple):
    """A picture, the sign that each place shows, ``signs`` (GRID, GRID), and ``winner``, the sign with the most votes."""

    image: Image.Image
    signs: NDArray[np.int64]
    winner: int

    @property
    def voters(self) -> NDArray[np.bool_]:
        """The mask (GRID, GRID) of the places that vote for the winning sign: the truth."""
        voters: NDArray[np.bool_] = read_places() & (self.signs == self.winner)
        return voters


def read_places() -> NDArray[np.bool_]:
    """Return the mask (GRID, GRID) of the places that vote."""
    places = np.zeros(GRID * GRID, bool)
    places[list(READ)] = True
    return places.reshape(GRID, GRID)


def sign_shapes() -> NDArray[np.bool_]:
    """Return the mask of each sign within a patch, (signs, PATCH, PATCH)."""
    row, column = np.mgrid[:PATCH, :PATCH]
    radius = np.hypot(row - (PATCH - 1) / 2, column - (PATCH - 1) / 2)
    return np.stack([row // 2 % 2 == 0, column // 2 % 2 == 0, (row + column) // 2 % 2 == 0, (radius > 1.5) & (radius < 3.5)])


def _votes(rng: np.random.Generator, winner: int) -> NDArray[np.int64]:
    """Draw by ``rng`` the signs (votes,) of the places that vote, in random order: most of them show the sign ``winner``, which leads every
    other sign by at least the required number of votes.
    """
    most = int(rng.integers(MOST_VOTES[0], MOST_VOTES[1] + 1))
    others = [sign for sign in range(len(SIGNS)) if sign != winner]
    while True:
        counts = rng.multinomial(READ_COUNT - most, [1 / len(others)] * len(others))
        if counts.max() <= most - MIN_LEAD:
            break
    votes = np.repeat([winner, *others], [most, *counts])
    rng.shuffle(votes)
    return votes


def _colours(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return two random colours, drawn by ``rng``, for each of ``count`` patches, (count, 2, 3) in 0..255, which differ enough in
    brightness.
    """
    middle, half = rng.uniform(80, 175, (count, 1)), rng.uniform(MIN_CONTRAST / 2, 75, (count, 1)) * rng.choice([-1, 1], (count, 1))
    tint = rng.uniform(-40, 40, (count, 2, 3))
    tint -= tint.mean(-1, keepdims=True)
    return np.stack([middle - half, middle + half], 1) + tint


def ballot(rng: np.random.Generator) -> Ballot:
    """Draw from ``rng`` a random picture in which a random sign wins the vote; other places often show another sign. Returns the picture,
    the sign at each place and the winner.
    """
    winner = int(rng.integers(len(SIGNS)))
    signs = rng.integers(len(SIGNS), size=GRID * GRID)
    decoy = (winner + int(rng.integers(1, len(SIGNS)))) % len(SIGNS)
    signs[rng.random(GRID * GRID) < DECOY_SHARE] = decoy
    signs[list(READ)] = _votes(rng, winner)
    return Ballot(draw_signs(signs, rng), signs.reshape(GRID, GRID), winner)


def draw_signs(signs: NDArray[np.int64], rng: np.random.Generator) -> Image.Image:
    """Draw a picture of patches that show these ``signs`` (GRID * GRID,), each in random colours, by ``rng``."""
    colours = _colours(rng, len(signs))
    patches = np.where(sign_shapes()[signs][..., None], colours[:, None, None, 1], colours[:, None, None, 0])
    pixels = patches.reshape(GRID, GRID, PATCH, PATCH, 3).swapaxes(1, 2).reshape(SIDE, SIDE, 3)
    return Image.fromarray(np.clip(pixels + rng.normal(0, NOISE, (SIDE, SIDE, 1)), 0, 255).astype(np.uint8))

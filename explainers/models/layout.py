"""Layout of the tokens of a batch: those in front, the token that the head reads, the grid of patches."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class OtherTokens:
    """The tokens that the head reads next to the one that a layout calls ``class_token``.

    in_front  the number of them among the prefix tokens
    rest      how many of the tokens after the prefix are among them
    """

    in_front: int = 0
    rest: Literal["none", "some", "all"] = "none"

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self.in_front > 0 or self.rest != "none"

    @classmethod
    def at(cls, places: Collection[int], prefix: int, token: int | None, count: int) -> OtherTokens:
        """Return the record of the tokens that the head reads at these ``places``, next to the class token at index ``token``, among
        ``count`` tokens of which the first ``prefix`` are prefix tokens.
        """
        behind = sum(place >= prefix for place in places)
        room = sum(place != token for place in range(prefix, count))
        return cls(len(places) - behind, "none" if not behind else "all" if behind == room else "some")


@dataclass(frozen=True)
class Footprint:
    """The part of the picture that tokens read, where it is not mainly the squares at which they are drawn.

    inside              the share of what a token reads that lies in its square and half a square around it
    is_of_other_pixels  whether the embedding makes the tokens of other pixels, so that they are of no places at which they could be drawn;
                        else layers before the blocks have brought the picture together
    """

    inside: float
    is_of_other_pixels: bool


@dataclass(frozen=True)
class Layout:
    """The order of the tokens of one batch.

    prefix       tokens before the first patch or word (classification token, registers); for text 1 where there is a [CLS]
    class_token  index of the token that the head reads, whose attention row CLS-methods read; -1 if it depends on the input (the last word
                 of a causal classifier, the end of a prompt), when a recording knows it; None if the head pools
    grid         (rows, columns) of the patches; None for text
    coarser      (rows, columns) of further, larger patches of the same image, whose tokens follow those of the grid
    after        tokens after all patches, such as one for each box of a detector
    added        how many of the prefix tokens, the last of them, were added to take outliers: :mod:`explainers.models.registers`
    other_tokens the tokens that the head reads next to the class token; none where it pools
    has_own_words  texts only: whether the embedding of some word does not depend on the word, as where the model puts tokens of its own in
                 the places of words
    own_word_share  texts only: how much of the influence of the text's tokens on an embedded one is that of its own; None: all of it
    covered      the height and width in pixels that the patches cover, from the top left corner on; None: the whole picture
    footprint    what tokens read of the picture, where it is not mainly the squares at which they are drawn; None: it is
    """

    prefix: int
    class_token: int | None
    grid: tuple[int, int] | None
    coarser: tuple[tuple[int, int], ...] = ()
    after: int = 0
    added: int = 0
    other_tokens: OtherTokens = OtherTokens()
    covered: tuple[int, int] | None = None
    has_own_words: bool = False
    own_word_share: float | None = None
    footprint: Footprint | None = None

    @property
    def patches(self) -> slice:
        """The slice of a row of tokens with the patches of the grid; empty for text."""
        return slice(self.prefix, self.prefix + math.prod(self.grid or (0,)))

    @property
    def image_tokens(self) -> int:
        """The number of tokens of an image whose patches have one size."""
        return self.prefix + math.prod(self.grid or (0,)) + self.after

    @property
    def added_tokens(self) -> slice:
        """The slice of a row of tokens with the added ones."""
        return slice(self.prefix - self.added, self.prefix)

    @property
    def coarser_tokens(self) -> slice:
        """The slice of a row of tokens with the larger patches."""
        first = self.prefix + math.prod(self.grid or ())
        return slice(first, first + sum(rows * columns for rows, columns in self.coarser))

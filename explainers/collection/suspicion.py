"""Suspicion: which rows of a collection a person should look at first, and the five readings that it is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explainers.collection.slices.clusters import SHARED_FROM

#: Before the sentence on suspicion, where a search for slices found some.
SLICES_FIRST_IN_WORDS = "Rows of what the search found in common come first; then: "
SURE_FROM = 0.5  # probability of a wrong answer
DISAGREEMENT_BELOW = 0.2  # mean rank correlation of the maps
BORDER_FROM = 1 / 3  # of what a map can exceed chance by on the outermost patches
STAYS_FROM = 0.9  # share of the answer's probability that is left without the top parts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Readings:
    """What suspicion is judged by: one value for each row, NaN where it is not known.

    right          1 or 0
    probability    of the answer
    agreement      mean rank correlation of every two maps
    on_object, object_area  share of the first map, and of all parts, that is on the object
    on_border, border_area  share of the first map, and of all patches, that is outermost
    falls          1 if the model answers otherwise without the top parts of the first map, else 0
    without        the probability that is left to the answer then
    shared_place   how far the first map lies at a place that most rows with the same answer share, 0 to 1
    """

    right: Floats
    probability: Floats
    agreement: Floats
    on_object: Floats
    object_area: Floats
    on_border: Floats
    border_area: Floats
    falls: Floats
    without: Floats
    shared_place: Floats

    @property
    def stays(self) -> Floats:
        """The share of the answer's probability that is left without the top parts, 0 if another answer is given then."""
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.clip(self.without / self.probability, 0, 1)
        return np.where(self.falls == 1, 0.0, np.where(np.isnan(self.falls), np.nan, left))

    @property
    def past_border(self) -> Floats:
        """How far the first map exceeds chance on the border of a picture: 0 for chance and less, 1 with everything there."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.clip((self.on_border - self.border_area) / (1 - self.border_area), 0, 1)

    @property
    def off_object(self) -> Floats:
        """How far the first map misses the object: 0 for a map that is on it at least as much as chance, 1 for one with nothing on it.

        Without a marked object it is :attr:`past_border`.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            missed = np.clip(1 - self.on_object / self.object_area, 0, 1)
        return np.where(np.isnan(missed), self.past_border, missed)

    def suspicion(self) -> Floats:
        """Return the mean of the parts that are known, each 0 to 1: the probability of a wrong answer, :attr:`shared_place`,
        :attr:`off_object`, half of one minus the agreement, and :attr:`stays`. 0 if none is known.
        """
        surely_wrong = np.where(np.isnan(self.right), np.nan, (1 - self.right) * np.nan_to_num(self.probability, nan=1.0))
        parts = np.stack([surely_wrong, self.shared_place, self.off_object, (1 - self.agreement) / 2, self.stays])
        known = ~np.isnan(parts)
        total: Floats = np.where(known, parts, 0).sum(0) / np.maximum(known.sum(0), 1)
        return total

    def in_words(self) -> str:
        """Return a sentence on what :meth:`suspicion` is made of here: the signs that are known of some row; "" if none is."""
        has_labels, has_objects = _any_known(self.right), _any_known(self.on_object)
        has_borders = _any_known(np.where(np.isnan(self.on_object), self.past_border, np.nan))
        off_object = [name for name, is_known in (("off the object", has_objects), ("at the border", has_borders)) if is_known]
        signs = [
            "wrong and sure" if has_labels else "",
            "much evidence at a place that most rows with the same answer share" if _any_known(self.shared_place) else "",
            f"the first map {' or '.join(off_object)}" if off_object else "",
            "methods that disagree" if _any_known(self.agreement) else "",
            "a map whose top parts the answer does not need" if _any_known(self.stays) else "",
        ]
        known = [sign for sign in signs if sign]
        if not known:
            return ""
        order = f"Most suspicious first, by {'the mean of these signs' if len(known) > 1 else 'this sign'}: {', '.join(known)}."
        return f"{order} A right row with other signs can come before a wrong one." if has_labels and len(known) > 1 else order

    def known_flags(self) -> set[str]:
        """Return the names of the :data:`FLAGS` that some row can have: those whose readings are known of at least one row."""
        readings = {
            "wrong": self.right,
            "shared_place": self.shared_place,
            "off_object": self.on_object - self.object_area,
            "on_border": self.past_border,
            "disagree": self.agreement,
            "stays": self.stays,
        }
        return {name for name, reading in readings.items() if _any_known(reading)}

    def flags(self) -> dict[str, Bools]:
        """Return which rows have each of the :data:`FLAGS`, by its name; an unknown reading has none."""
        return {
            "wrong": (self.right == 0) & ~(self.probability < SURE_FROM),
            "shared_place": self.shared_place >= SHARED_FROM,
            "off_object": self.on_object < self.object_area,
            "on_border": self.past_border >= BORDER_FROM,
            "disagree": self.agreement < DISAGREEMENT_BELOW,
            "stays": self.stays >= STAYS_FROM,
        }


def _any_known(reading: Floats) -> bool:
    """Return whether a reading is known of any row."""
    return bool((~np.isnan(reading)).any())


#: The name of each flag, and its words on the page and in full.
FLAGS = {
    "wrong": ("wrong and sure", f"The answer is wrong, with a probability of at least {SURE_FROM:.0%}."),
    "shared_place": (
        "same place as others",
        "Much more of the first map than of other answers' maps lies at one place, and so it is in most rows with this answer.",
    ),
    "off_object": ("map off the object", "Less of the first map lies on the object than a map by chance has there."),
    "on_border": ("map at the border", "Much more of the first map lies on the outermost patches than a map by chance has there."),
    "disagree": ("methods disagree", f"The mean rank correlation of the maps is below {DISAGREEMENT_BELOW:g}."),
    "stays": (
        "map not needed",
        "Without the tenth that the first map marks most, the answer keeps 90 % of its probability: the rest is enough for it, or the map "
        "is wrong. It clears no place that the map marks.",
    ),
}

"""Protocols of what pictures are drawn from: the parts of an explanation and of its maps that drawing reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from explainers.models.inputs.types import ImageInput, TextInput

#: A note for a reader on a map of a method that has one map for all targets; figures, notebooks and the command line say it.
SAME_FOR_EVERY_CLASS = "the same for every class"


class DrawnWord(Protocol):
    """A word of a text: its characters and its score, in a pair of texts with the number of its text."""

    @property
    def text(self) -> str:
        """The word as it is written."""

    @property
    def start(self) -> int:
        """The index of the word's first character in its text."""

    @property
    def end(self) -> int:
        """The index after the word's last character in its text."""

    @property
    def score(self) -> float:
        """The score of the word."""

    @property
    def part(self) -> int:
        """The text of a pair that the word is in: 1 for the second, else 0."""


class DrawableMap(Protocol):
    """A map: scores over patches or words, with the title of its method and its target."""

    @property
    def method(self) -> str:
        """The spec of the method."""

    @property
    def title(self) -> str:
        """The title of the method."""

    @property
    def target(self) -> str:
        """The label of the explained target."""

    @property
    def signed(self) -> bool:
        """Return whether scores may speak against the target."""

    @property
    def class_specific(self) -> bool:
        """Return whether another target can have another map."""

    @property
    def scores(self) -> Tensor:
        """The scores (S,), one for each token."""

    @property
    def content(self) -> Tensor:
        """Which tokens stand for patches or words, bool (S,)."""

    @property
    def patches(self) -> tuple[int, int] | None:
        """Return the number of rows and of columns of patches; None for a text."""

    @property
    def pixels(self) -> Tensor | None:
        """The map of the pixels (height, width); None if there is none."""

    @property
    def text(self) -> TextInput | None:
        """The text that was explained, with its words; None for an image."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for a reader on the map."""

    def words(self) -> Sequence[DrawnWord]:
        """Return the words of the text with their scores."""


class DrawableExplanation(Protocol):
    """An explanation: the input that its maps lie on."""

    @property
    def input(self) -> ImageInput | TextInput:
        """The input as it was shown to the model."""

"""One class against its nearest kinds: the target of FinerCAM."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.papers import FINER_CAM_PAPER
from explainers.records.targets.contrastive import OfOneClass
from explainers.records.targets.registry import add_target
from explainers.records.targets.target import NamedLogits, NameOf, ReadName, Target

REFERENCES = 3  # as many as there are, where a model has fewer other classes
#: The settings by name, and how they are read.
_SETTINGS: dict[str, Callable[[str], float]] = {"gamma": float, "references": int}


def nearest_classes(logits: NamedLogits, index: Tensor, count: int = REFERENCES) -> Tensor:
    """Return the indices (B, R) of the at most ``count`` classes whose ``logits`` are nearest to that of the class ``index`` (B,), itself
    left out, nearest first.
    """
    rows = logits.logits.detach()
    distance = (rows - rows.gather(-1, index[:, None])).abs().scatter(-1, index[:, None], float("inf"))
    return distance.sort(dim=-1, stable=True).indices[:, : min(count, rows.shape[-1] - 1)]


@add_target
@dataclass(frozen=True)
class Finer(OfOneClass):
    """A class against its nearest other classes (Zhang et al. 2025): its logit minus 0.6 times the mean of the three nearest logits.

    ``gamma`` and ``references`` (how many are nearest) can be others: ``finer:zebra?gamma=0.4&references=5``. The nearest classes are
    chosen for each input; ``words`` is what labels call them. torch-cam implements this form of the paper; :class:`FinerWeighted` is the
    authors' code.
    """

    gamma: float = 0.6
    references: int = REFERENCES

    kind = "finer"
    source = FINER_CAM_PAPER
    words: ClassVar[str] = "its nearest kinds"

    def __post_init__(self) -> None:
        """Raise ExplainerError for a ``gamma`` or a number of ``references`` that makes no contrast."""
        if not (isinstance(self.gamma, int | float) and math.isfinite(self.gamma) and 0 < self.gamma <= 10):
            raise ExplainerError(f"gamma={self.gamma!r}: send how much the nearest classes count, a number above 0, such as 0.6.")
        if not isinstance(self.references, int) or isinstance(self.references, bool) or self.references < 1:
            raise ExplainerError(f"references={self.references!r}: send how many of the nearest classes count, a whole number from 1.")

    def __str__(self) -> str:
        return f"{super().__str__()}{self._settings()}"

    def _settings(self) -> str:
        """Return the settings that differ from the defaults, as they are written after the class; "" for none."""
        usual = {part.name: part.default for part in fields(self)}
        said = [f"{name}={getattr(self, name):g}" for name in _SETTINGS if getattr(self, name) != usual[name]]
        return f"?{'&'.join(said)}" if said else ""

    @property
    def note(self) -> str:  # type: ignore[override]
        """A sentence on what is explained, for every map of this target."""
        return (
            f"FinerCAM (Zhang et al., 2025): what is explained is the logit less {self.gamma:g} times the mean of the {self.references} "
            "nearest other logits, so what speaks for the class and its nearest kinds alike counts for less."
        )

    def text(self, name_of: NameOf) -> str:
        """Return the label of the class followed by the settings that differ from the defaults, such as ``?gamma=0.4&references=5``;
        ``name_of`` returns the label of a class from its name.
        """
        return f"{super().text(name_of)}{self._settings()}"

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> Target:
        """Return the target of the class that ``text`` names, with the settings after it, such as ``zebra?gamma=0.4``; ``read_name`` turns
        the name into a label or an index. Raises ExplainerError for settings that are no numbers.
        """
        name, mark, query = text.rpartition("?")
        said = dict(part.partition("=")[::2] for part in query.split("&"))
        if not mark or not said.keys() <= _SETTINGS.keys():
            return super().parse(text, read_name)
        try:
            settings: Any = {key: _SETTINGS[key](value) for key, value in said.items()}
        except ValueError:
            raise ExplainerError(f"{query}: send numbers, such as gamma=0.4&references=5.") from None
        return replace(super().parse(name, read_name), **settings)  # type: ignore[type-var]

    def value(self, logits: NamedLogits) -> Tensor:
        """Return z_c - gamma * mean of z_t over the nearest classes t, (B,), from the logits z of a batch."""
        references = logits.logits.gather(-1, nearest_classes(logits, self.index(logits), self.references))
        return logits.logit(self.name) - self.gamma * references.mean(-1)

    def check(self, logits: NamedLogits) -> None:
        """Raise ExplainerError if these logits belong to a model with a single class."""
        if logits.logits.shape[-1] < 2:
            raise ExplainerError("FinerCAM sets a class against its nearest ones, and this model has one class: explain its logit.")

    def label(self, name_of: NameOf) -> str:
        """Return the label of this target for people, such as ``zebra (against its nearest kinds)``; ``name_of`` returns the label of a
        class from its name.
        """
        said = self._settings().removeprefix("?").replace("&", ", ")
        return f"{name_of(self.name)} (against {self.words}{f'; {said}' if said else ''})"


@add_target
@dataclass(frozen=True)
class FinerWeighted(Finer):
    """A class against its nearest other classes as FinerCAM's authors compute it: the contrasts z_c - gamma z_t, averaged with the softmax
    probabilities p_t as weights. p is the softmax of the logits, not calibrated, and not held constant: its slope is part of the map.
    """

    gamma: float = 1.0

    kind = "finer-weighted"
    words = "its nearest kinds, weighted"

    @property
    def note(self) -> str:  # type: ignore[override]
        """A sentence on what is explained, for every map of this target."""
        times = "" if self.gamma == 1 else f"{self.gamma:g} times "
        return (
            f"FinerCAM (Zhang et al., 2025), as its authors' code has it: what is explained is how far the logit is above {times}the "
            f"{self.references} nearest others, each counted by its probability, and the slope of these probabilities is part of the map."
        )

    def value(self, logits: NamedLogits) -> Tensor:
        """Return sum_t p_t (z_c - gamma z_t) / (sum_t p_t + 1e-9) over the nearest classes t, (B,), with z the ``logits`` and p their
        softmax.
        """
        references = nearest_classes(logits, self.index(logits), self.references)
        weights = logits.logits.softmax(-1).gather(-1, references)
        contrasts = logits.logit(self.name)[:, None] - self.gamma * logits.logits.gather(-1, references)
        return (weights * contrasts).sum(-1) / (weights.sum(-1) + 1e-9)

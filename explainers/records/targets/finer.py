"""One class against its nearest kinds: the target of FinerCAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.papers import FINER_CAM_PAPER
from explainers.records.targets.contrastive import OfOneClass
from explainers.records.targets.registry import add_target
from explainers.records.targets.target import NamedLogits, NameOf

REFERENCES = 3  # as many as there are, where a model has fewer other classes


def nearest(logits: NamedLogits, index: Tensor, count: int = REFERENCES) -> Tensor:
    """The indices (B, R) of the classes whose logits are nearest to that of the class ``index`` (B,), itself left out, nearest first."""
    rows = logits.logits.detach()
    distance = (rows - rows.gather(-1, index[:, None])).abs().scatter(-1, index[:, None], float("inf"))
    return distance.sort(dim=-1, stable=True).indices[:, : min(count, rows.shape[-1] - 1)]


@add_target
@dataclass(frozen=True)
class Finer(OfOneClass):
    """A class against its nearest kinds (Zhang et al. 2025): its logit less 0.6 times the mean of the three nearest logits.

    The nearest are those of the input itself. torch-cam has this form as the paper's; :class:`FinerWeighted` is the authors' code.
    """

    gamma: ClassVar[float] = 0.6

    kind = "finer"
    source = FINER_CAM_PAPER
    words: ClassVar[str] = "its nearest kinds"
    note = (
        "FinerCAM (Zhang et al., 2025): what is explained is the logit less 0.6 times the mean of the three nearest other logits, so what "
        "speaks for the class and its nearest kinds alike counts for less."
    )

    def value(self, logits: NamedLogits) -> Tensor:
        """z_c - gamma * mean of z_t over the nearest t."""
        references = logits.logits.gather(-1, nearest(logits, self.index(logits)))
        return logits.logit(self.name) - self.gamma * references.mean(-1)

    def check(self, logits: NamedLogits) -> None:
        """Refuse a model of one class."""
        if logits.logits.shape[-1] < 2:
            raise ExplainerError("FinerCAM sets a class against its nearest ones, and this model has one class: explain its logit.")

    def label(self, name_of: NameOf) -> str:
        """``zebra (against its nearest kinds)``."""
        return f"{name_of(self.name)} (against {self.words})"


@add_target
@dataclass(frozen=True)
class FinerWeighted(Finer):
    """A class against its nearest kinds as FinerCAM's authors compute it: of each its contrast z_c - gamma z_t, weighted by the softmax
    probability p_t, over the sum of these. p is the softmax of the logits, not calibrated, and not held constant: its slope is part of
    the map.
    """

    gamma: ClassVar[float] = 1.0

    kind = "finer-weighted"
    words = "its nearest kinds, weighted"
    note = (
        "FinerCAM (Zhang et al., 2025), as its authors' code has it: what is explained is how far the logit is above the three nearest "
        "others, each counted by its probability, and the slope of these probabilities is part of the map."
    )

    def value(self, logits: NamedLogits) -> Tensor:
        """sum_t p_t (z_c - gamma z_t) / (sum_t p_t + 1e-9)."""
        references = nearest(logits, self.index(logits))
        weights = logits.logits.softmax(-1).gather(-1, references)
        contrasts = logits.logit(self.name)[:, None] - self.gamma * logits.logits.gather(-1, references)
        return (weights * contrasts).sum(-1) / (weights.sum(-1) + 1e-9)

"""The number of a model's output that stands for a target: a probability, a logit, a difference of logits, or a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from explainers.models.model import Model
from explainers.models.outputs import Output
from explainers.records.targets import Classes, ResolvedTarget, resolve, target_from_json

#: The number that is followed while an input changes: ``value`` where a model predicts a number and no class.
FollowedNumber = Literal["probability", "logit", "value"]


@dataclass(frozen=True)
class TargetOutput:
    """A target whose classes were found among a model's logits, and which of its numbers is read while tokens are removed.

    label     of the target
    resolved  the target with the indices of its classes
    explains  the number that areas and ranks are computed from; ``value`` is the output of a regression, in its own unit
    """

    label: str
    resolved: ResolvedTarget
    explains: FollowedNumber = "probability"

    @property
    def kind(self) -> Output:
        """The meaning of the model's logits, such as "softmax"."""
        return self.resolved.classes.output

    def values(self, logits: Tensor) -> dict[str, Tensor]:
        """Return the target's numbers by name, from logits (..., C).

        ``probability`` is that of the class, group or prompt itself, where the target is about one; ``logit`` of a contrast is the
        difference. A regression has ``value`` alone.
        """
        target, rows = self.resolved.target, logits.reshape(-1, logits.shape[-1])
        number = target.logit(self.resolved.name_logits(rows)).to(logits.dtype).view(logits.shape[:-1])
        if self.kind == "regression":
            return {"value": number}
        probability = target.probability(self.resolved.name_logits(rows.double()))
        return {"logit": number} if probability is None else {"probability": probability.view(logits.shape[:-1]), "logit": number}

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probability of every class, in double precision, from logits (..., C)."""
        return self.resolved.classes.calibration.probabilities(logits.double(), self.kind)


def target_output(model: Model, labels: Sequence[str], target: Mapping[str, Any]) -> TargetOutput:
    """Find which number of the model's output belongs to an explained ``target``, in the form of :meth:`TargetInfo.to_json`; ``labels`` are
    the names of the logits.

    A prompt without others is read by its logit, as its probability is always 1. A prompt whose own words are removed is read by its logit
    too, as removing them changes its own similarity and not that of the others.
    """
    explained = target_from_json(target, None if model.kind == "clip" else labels)
    resolved = resolve(explained, Classes.of(model, labels), torch.zeros(1, len(labels)))
    by_logit = not explained.has_probability or (model.output == "softmax" and len(labels) == 1) or model.side == "text"
    explains: FollowedNumber = "value" if model.output == "regression" else "logit" if by_logit else "probability"
    return TargetOutput(target["label"], resolved, explains)

"""The number of a model's output that stands for a target: a probability, a logit, a difference of logits, or a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from explainers.models.calibration import UNCALIBRATED, Calibration
from explainers.models.model import Model
from explainers.models.outputs import Output
from explainers.records.targets import AnyOf, find_group, named_target

ExplainedNumber = Literal["probability", "logit", "value"]


@dataclass(frozen=True)
class TargetOutput:
    """Where a target is among the logits of a model, and which number of it is followed while tokens are taken away.

    label        of the target
    of, against  the indices of its classes among the logits (of a group several), and of what it is set against
    explains     the number that areas and ranks are made of: ``value`` is that of a regression, in its own unit
    kind         what the logits mean
    calibration  what makes probabilities of them
    """

    label: str
    of: tuple[int, ...]
    against: tuple[int, ...] | None = None
    explains: ExplainedNumber = "probability"
    kind: Output = "softmax"
    calibration: Calibration = UNCALIBRATED

    def values(self, logits: Tensor) -> dict[str, Tensor]:
        """From logits (..., C): ``probability`` (of the class, group or prompt itself) and ``logit`` (of a contrast the difference); of a
        regression ``value`` alone.
        """
        number = logits[..., list(self.of)].logsumexp(-1)
        if self.against is not None:
            number = number - logits[..., list(self.against)].logsumexp(-1)
        if self.kind == "regression":
            return {"value": number}
        shares = self.probabilities(logits)
        return {"probability": shares[..., list(self.of)].sum(-1), "logit": number}

    def probabilities(self, logits: Tensor) -> Tensor:
        """Of every class, in double precision, from logits (..., C)."""
        return self.calibration.probabilities(logits.double(), self.kind)


def target_output(model: Model, labels: Sequence[str], target: Mapping[str, Any]) -> TargetOutput:
    """The output for an explained ``target``, as :meth:`TargetInfo.to_json` gives it; ``labels`` are the names of the logits.

    A lone prompt is read by its logit, as its probability is 1 whatever is shown; so is a prompt whose own words go, as they make its own
    similarity and not that of the others.
    """

    def indices(name: str) -> tuple[int, ...]:
        parsed = name if model.kind == "clip" else named_target(name, labels)
        return tuple(find_group(parsed.group, model.groups)) if isinstance(parsed, AnyOf) else (list(labels).index(name),)

    against = target.get("against")
    of = (int(target["index"]),) if "index" in target else indices(target.get("of", target["label"]))
    by_logit = against is not None or (model.output == "softmax" and len(labels) == 1) or model.side == "text"
    explains: ExplainedNumber = "value" if model.output == "regression" else "logit" if by_logit else "probability"
    other = None if against is None else indices(against)
    return TargetOutput(target["label"], of, other, explains, model.output, model.calibration)

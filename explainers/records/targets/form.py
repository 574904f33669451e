"""The targets of a question that has fields of its own for what is explained of each class, as over HTTP and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from explainers.records.targets.contrast import Contrast
from explainers.records.targets.probability import Probability
from explainers.records.targets.registry import TargetLike, as_targets
from explainers.records.targets.target import Target


def targets_of_form(
    names: Sequence[str | int | Target], against: str | int | Target | None = None, probability: bool = False
) -> list[TargetLike] | None:
    """Return a target for each name: itself, its difference from the one ``against``, or its ``probability``; None (the top class) if none
    is named.

    Raises ExplainerError for the probability of a target that has none.
    """
    if against is not None:
        return [Contrast(name, against) for name in names]
    if probability:
        targets: list[TargetLike] = [Probability(name) for name in names] or [Probability()]  # type: ignore[arg-type]
        as_targets(targets)  # which refuses what has none
        return targets
    return list(names) or None

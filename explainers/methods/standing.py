"""How far each method can be trusted, as far as it was measured: ``standing.json``, which ``python -m benchmarks.standing`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("standing.json")
#: The spec whose map is drawn at random: what does not beat it says nothing.
CONTROL = "random"


@dataclass(frozen=True)
class Standing:
    """How the methods did in the deletion test on one model.

    model     that was asked
    kind      image or text
    measured  on what, in words: "30 photos"
    areas     spec -> mean area under the probability of the class while tokens go, most relevant first; smaller is better
    """

    model: str
    kind: str
    measured: str
    areas: Mapping[str, float]

    def rank(self, spec: str) -> int | None:
        """The place of a method, 1 for the best; None where it was not measured, and for the control."""
        if spec == CONTROL or spec not in self.areas:
            return None
        return 1 + sum(area < self.areas[spec] for name, area in self.areas.items() if name != CONTROL)

    def to_json(self, spec: str) -> dict[str, Any] | None:
        """The standing of one method: its rank among how many, and its area beside that of the control."""
        rank = self.rank(spec)
        if rank is None:
            return None
        return {"rank": rank, "of": len(self.areas) - (CONTROL in self.areas), "area": self.areas[spec]}

    def about(self) -> dict[str, Any]:
        """What the ranks are made of."""
        return {"model": self.model, "measured": self.measured, "random": self.areas.get(CONTROL)}


@cache
def standings() -> tuple[Standing, ...]:
    """All that was measured."""
    measured = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(Standing(model, **entry) for model, entry in measured.items())


def standing_for(kind: str, model: str | None = None) -> Standing | None:
    """What holds for a model: its own measurement, else that of a model which reads inputs of the same kind, else None. The picture side of
    a CLIP model reads what an image model reads.
    """
    alike = "image" if kind == "clip" else kind
    return next((standing for standing in standings() if standing.model == model), None) or next(
        (standing for standing in standings() if standing.kind == alike), None
    )

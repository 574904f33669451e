"""Outlier tokens of an explained picture: patches whose norm stands apart, and the share of maps that an added token holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.models.layout import Layout


@dataclass(frozen=True)
class OutlierPatches:
    """Which patches of a picture, in raster order, have a norm above the model's ``threshold`` after a ``block`` (counted from 0)."""

    block: int
    threshold: float
    patches: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "patches": list(self.patches)}


def outlier_patches(recording: Recording, sample: int) -> OutlierPatches | None:
    """Those of a sample of a recorded pass; None where the model's threshold is not known, or no norm stands apart."""
    known, layout = recording.model.register_neurons, recording.layout
    if known is None or known.threshold is None or layout.grid is None:
        return None
    norms = recording.block_outputs[known.block][sample].detach().norm(dim=-1)
    of_patches = norms[layout.prefix : layout.prefix + layout.grid[0] * layout.grid[1]]
    return OutlierPatches(known.block, known.threshold, tuple((of_patches > known.threshold).nonzero().flatten().tolist()))


def added_token_notes(scores: Tensor, layout: Layout) -> tuple[str, ...]:
    """How much of a map's scores (S,) the added tokens hold; nothing where there are none, and of a map of zeros."""
    total = float(scores.abs().sum())
    if not layout.added or not total:
        return ()
    share = float(scores[layout.added_tokens].abs().sum()) / total
    named = "token that was added for outliers holds" if layout.added == 1 else "tokens that were added for outliers hold"
    return (f"The {named} {share:.1%} of this map's strength. It is no patch and is not drawn.",)

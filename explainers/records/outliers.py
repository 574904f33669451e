"""Outlier tokens of an explained picture: patches of unusually large norm, and the share of maps that an added token holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.json_records import Record, describe
from explainers.models.layout import Layout


@dataclass(frozen=True)
class OutlierPatches(Record):
    """Patches of a picture whose norm is far above that of the others: their numbers, the block at whose output the norms are compared, and
    the threshold.
    """

    block: Annotated[int, describe("Counted from 0: the norms of its outputs are compared.")]
    threshold: Annotated[float, describe("The norm above which a patch is an outlier.")]
    patches: Annotated[tuple[int, ...], describe("The outliers, counted from 0 in raster order.")]


def outlier_patches(recording: Recording, sample: int) -> OutlierPatches | None:
    """Return the outlier patches of input number ``sample`` of ``recording``; None if no threshold for the norms of its model is known."""
    known, layout = recording.model.register_neurons, recording.layout
    if known is None or known.threshold is None or layout.grid is None:
        return None
    norms = recording.block_outputs[known.block][sample].detach().norm(dim=-1)
    of_patches = norms[layout.prefix : layout.prefix + layout.grid[0] * layout.grid[1]]
    return OutlierPatches(known.block, known.threshold, tuple((of_patches > known.threshold).nonzero().flatten().tolist()))


def added_token_notes(scores: Tensor, layout: Layout) -> tuple[str, ...]:
    """Return a note on the share of a map's scores (S,) that the added tokens in ``layout`` hold; empty if there are none, and for a map of
    zeros.
    """
    total = float(scores.abs().sum())
    if not layout.added or not total:
        return ()
    share = float(scores[layout.added_tokens].abs().sum()) / total
    named = "token that was added for outliers holds" if layout.added == 1 else "tokens that were added for outliers hold"
    return (f"The {named} {share:.1%} of this map's strength. It is no patch and is not drawn.",)

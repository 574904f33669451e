"""Attention sinks: a note on maps whose first word holds most of the evidence, which makes all other words look weak."""

from __future__ import annotations

from torch import Tensor

from explainers.models.inputs.types import ImageInput, TextInput
from explainers.records.result import word_scores
from explainers.rendering.colours import has_sink


def sink_notes(record: ImageInput | TextInput, scores: Tensor, signed: bool) -> tuple[str, ...]:
    """Return a note if the first word of the text ``record`` has more of the ``scores`` (S,), ``signed`` or not, than all others together;
    empty for pictures and other texts.
    """
    if not isinstance(record, TextInput):
        return ()
    sizes = [word.score for word in word_scores(record, scores, signed)]
    if not has_sink(sizes):
        return ()
    share = abs(sizes[0]) / sum(map(abs, sizes))
    return (
        f"The first word has {share:.0%} of the evidence. Where the model attends to its first token whatever that is, this is an "
        "attention sink and says little about the word; leave it out of the colour scale to tell the others apart.",
    )

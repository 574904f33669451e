"""The words of a text with the scores of maps, and the passages of them that people marked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from explainers.datasets import Sample
from explainers.models.inputs.types import Word
from explainers.models.model import Model
from explainers.records.result import Attribution, WordScore


def marked_words(model: Model, sample: Sample, maps: Sequence[Attribution]) -> tuple[Tensor, Tensor] | None:
    """Scores (M, W) of every word of a text, -inf of those that the model did not read, and bool (P, W): the words of each passage that
    people marked. None where nobody marked a word.

    All words of the document count, as ERASER's scorer has it: marks on what a cut text lacks are missed.
    """
    if sample.text is None or not sample.rationale:
        return None
    words_of_maps = [attribution.words() for attribution in maps]
    windows = model.windows(sample.text)
    words: Sequence[Word | WordScore] = words_of_maps[0] if windows is None else windows.whole.words
    spans = [(word.start, word.end) for word in words]
    starts = torch.tensor([start for start, _ in spans])
    places = torch.searchsorted(starts, torch.tensor([word.start for word in words_of_maps[0]]), right=True) - 1
    scores = torch.full((len(maps), len(spans)), -torch.inf)
    for row, map_words in zip(scores, words_of_maps, strict=True):
        row.scatter_reduce_(0, places, torch.tensor([word.score for word in map_words]), "amax")
    passages = [[start < last and first < end for start, end in spans] for first, last in sample.rationale]
    passages_with_words = [passage for passage in passages if any(passage)]
    return (scores, torch.tensor(passages_with_words)) if passages_with_words else None

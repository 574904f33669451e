"""The words of a text, or of a pair of texts, with the scores of maps, and the passages of them that people marked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from explainers.datasets import Sample
from explainers.models.inputs.types import TextInput, Word
from explainers.models.model import Model
from explainers.records.result import Attribution


def marked_words(model: Model, sample: Sample, maps: Sequence[Attribution]) -> tuple[Tensor, Tensor] | None:
    """Scores (M, W) of every word of a text, -inf of those that the model did not read, and bool (P, W): the words of each passage that
    people marked. None where nobody marked a word.

    All words of the document count, as ERASER's scorer has it: marks on what a cut text lacks are missed. Of a pair those of both texts
    do, one after the other (so a run of neighbours may go from one into the other); where nobody was asked about one of them, the words
    of the other alone.
    """
    texts = ((sample.text, sample.rationale), (sample.text_pair, sample.pair_rationale))
    annotated_texts = [(part, text, spans) for part, (text, spans) in enumerate(texts) if text is not None and spans is not None]
    if not any(spans for _, _, spans in annotated_texts):
        return None
    words_of_maps = [attribution.words() for attribution in maps]
    scores, passages, count = [], [], 0
    words_of_texts = [_words_of(model, text) for _, text, _ in annotated_texts]
    total = sum(map(len, words_of_texts))
    for (part, _, spans), words in zip(annotated_texts, words_of_texts, strict=True):
        read = [[word for word in map_words if word.part == part] for map_words in words_of_maps]
        starts = torch.tensor([word.start for word in words])
        places = torch.searchsorted(starts, torch.tensor([word.start for word in read[0]]), right=True) - 1
        of_text = torch.full((len(maps), len(words)), -torch.inf)
        for row, map_words in zip(of_text, read, strict=True):
            row.scatter_reduce_(0, places, torch.tensor([word.score for word in map_words]), "amax")
        scores.append(of_text)
        for first, last in spans:
            passage = torch.zeros(total, dtype=torch.bool)
            passage[count : count + len(words)] = torch.tensor([word.start < last and first < word.end for word in words])
            passages.append(passage)
        count += len(words)
    passages_with_words = [passage for passage in passages if passage.any()]
    return (torch.cat(scores, 1), torch.stack(passages_with_words)) if passages_with_words else None


def _words_of(model: Model, text: str) -> Sequence[Word]:
    """All words of a text, however long it is."""
    windows = model.windows(text)
    record = windows.whole if windows is not None else model.prepare(text).inputs[0]
    assert isinstance(record, TextInput)
    return record.words

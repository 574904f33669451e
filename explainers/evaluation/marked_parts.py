"""What a data set marks of an input, as a model saw it: the outlines of objects in a picture, the words of a text that people marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from explainers.datasets import AnnotatedObject, Sample
from explainers.datasets.base import Mask
from explainers.models.inputs.types import ImageInput, TextInput, Word
from explainers.models.model import Model
from explainers.records.result import Attribution


def explained_mask(sample: Sample, objects: Sequence[AnnotatedObject], record: ImageInput) -> tuple[Tensor, Tensor] | None:
    """Return two masks, bool (1, height, width), of the picture of ``sample`` as the model saw it (``record``): of the given objects
    together, and of the labelled area. None if no pixel of the objects is visible.
    """
    if sample.image is None or not objects:
        return None
    mask = _crop_mask(np.logical_or.reduce([obj.mask for obj in objects]), record)
    labelled = _crop_mask(sample.labelled, record) if sample.labelled is not None else np.ones_like(mask)
    return (torch.from_numpy(mask)[None], torch.from_numpy(labelled)[None]) if (mask & labelled).any() else None


def other_masks(sample: Sample, objects: Sequence[AnnotatedObject], record: ImageInput) -> Tensor | None:
    """Return the masks, bool (1, K, height, width), of all other objects in the picture of ``sample``, as the model saw it (``record``);
    None if none of them is visible.
    """
    masks = [_crop_mask(obj.mask, record) for obj in sample.objects if obj not in objects]
    visible_masks = [torch.from_numpy(mask) for mask in masks if mask.any()]
    return torch.stack(visible_masks)[None] if visible_masks else None


def _crop_mask(mask: Mask, record: ImageInput) -> Mask:
    """Return ``mask``, of the original picture, cropped and resized as the picture was for the model, by its ``record``; each pixel takes
    the value of the nearest.
    """
    picture = Image.fromarray(mask).crop(record.crop).resize(record.seen, Image.Resampling.NEAREST)
    return np.array(picture)


def marked_words(model: Model, sample: Sample, maps: Sequence[Attribution]) -> tuple[Tensor, Tensor] | None:
    """Return the scores (M, W) of M ``maps`` for every word of the text in ``sample``, and bool (P, W): which words are in each marked
    passage. None if no word is marked.

    Words that the model did not read have the score -inf.

    As in ERASER's scorer all words of the document count, so marks in a part that was cut off are missed. For a pair the words of the
    second text follow those of the first (a run of neighbours may cross from one into the other); a text that nobody annotated is left out.
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
    """Split ``text``, of any length, into words as the tokenizer of ``model`` does, and return all of them."""
    windows = model.windows(text)
    record = windows.whole if windows is not None else model.prepare(text).inputs[0]
    assert isinstance(record, TextInput)
    return record.words

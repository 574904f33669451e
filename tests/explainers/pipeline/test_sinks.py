"""Attention sinks: a first word that dwarfs all others is said, and may be left out of the colour scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import explainers
from explainers.models.inputs.types import TextInput, Token, Word
from explainers.pipeline.sinks import sink_notes
from explainers.rendering.colours import has_sink
from explainers.rendering.overlays import render_overlay
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

COUNT = 12
TEXT = " ".join("abcdefghijkl")
RECORD = TextInput(
    TEXT,
    (Token("[CLS]", 0, 0, True), *(Token(TEXT[2 * i], 2 * i, 2 * i + 1, False) for i in range(COUNT))),
    tuple(Word(TEXT[2 * i], 2 * i, 2 * i + 1, (i + 1,)) for i in range(COUNT)),
)


def scores(first: float, others: float = 1.0, special: float = 0.0) -> torch.Tensor:
    return torch.tensor([special, first, *([others, -others] * COUNT)][: COUNT + 1])


@pytest.mark.parametrize(("first", "is_sink"), [(12.0, True), (-12.0, True), (10.0, False)])
def test_a_first_word_with_more_than_all_others_is_said(first: float, is_sink: bool) -> None:
    notes = sink_notes(RECORD, scores(first, special=99.0), True)
    assert [f"{abs(first) / (abs(first) + 11):.0%}" in note for note in notes] == [True] * is_sink


def test_a_strong_word_elsewhere_and_a_short_text_are_none() -> None:
    assert not has_sink([1.0, 99.0, *[1.0] * 10])
    assert not has_sink([99.0, 1.0, 1.0])


def test_a_sink_is_left_out_of_the_scale_where_asked() -> None:

    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    result = explainers.explain(model, TEXT, methods=["input_x_gradient"])
    values = torch.zeros(len(result.maps[0].scores))
    words = result.maps[0].text.words  # type: ignore[union-attr]
    values[words[0].tokens[0]], values[words[5].tokens[0]] = 100.0, 1.0
    result.maps[0] = replace(result.maps[0], scores=values)
    kept, left_out = (np.asarray(render_overlay(result, result.maps[0], sink=sink), int) for sink in (True, False))
    faint = np.ptp(kept, axis=-1)  # paper and ink are all but grey: colour is evidence
    assert (np.ptp(left_out, axis=-1) > 60).sum() > 1.5 * (faint > 60).sum()
    assert len(result.figure(sink=False).axes) == 1

"""Token-F1 of a text of five words, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from explainers import ExplainerError
from explainers.metrics.rationales import token_f1

SCORES = torch.tensor([0.1, 0.9, -2.0, 0.5, 0.3])  # best first: words 1, 3, 4, 0, 2
MARKED = torch.tensor([False, True, False, False, True])


def test_the_top_words_against_the_marked_ones() -> None:
    # k=1: precision 1, recall 1/2; k=2: 1/2, 1/2; k=3: 2/3, 1; all five: 2/5, 1
    expected = [2 / 3, 1 / 2, 4 / 5, 4 / 7]
    assert token_f1(SCORES, MARKED, [1, 2, 3, 5]) == pytest.approx(expected)
    assert token_f1(SCORES, MARKED, [80]) == pytest.approx([4 / 7])  # there are no more than five words


def test_equal_scores_are_taken_from_the_beginning() -> None:
    assert token_f1(torch.zeros(5), MARKED, [1, 2]) == pytest.approx([0, 1 / 2])


def test_no_word_is_marked() -> None:
    with pytest.raises(ExplainerError, match="no word of the text is marked"):
        token_f1(SCORES, torch.zeros(5, dtype=torch.bool), [1])

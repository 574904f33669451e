"""Token-F1 of a text of five words, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from explainers import ExplainerError
from explainers.metrics import rationales
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


def test_passages_are_found_where_half_is_shared() -> None:
    marked = torch.tensor([[1, 1, 1, 0, 0, 0, 1, 1]]).bool()
    # five words: 1 2 3 share two of four with 0 1 2; 6 and 7 are found whole
    assert rationales.iou_f1(torch.tensor([[0.0, 5, 5, 5, 0, 0, 5, 5]]), marked).item() == 1.0
    # 3 4 5 and 6 7 are one run of five, which shares two of five with 6 7: nothing is found
    assert rationales.iou_f1(torch.tensor([[0.0, 0, 0, 5, 5, 5, 5, 5]]), marked).item() == 0.0
    # 0 1 is found (two of three), 3 4 and 6 are not (6 is: one of two)
    assert rationales.iou_f1(torch.tensor([[5.0, 5, 0, 5, 5, 0, 5, 0]]), marked).item() == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))


def test_auprc_by_hand() -> None:
    found = rationales.rationale_auprc(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[True, False, True]])).item()
    # precision at recalls 0, 1/2, 1/2, 1: 1, 1, 1/2, 2/3
    assert found == pytest.approx(0.5 * 1 + 0.5 * (1 / 2 + 2 / 3) / 2)
    with pytest.raises(ExplainerError, match="no word"):
        rationales.rationale_auprc(torch.ones(1, 2), torch.zeros(1, 2, dtype=torch.bool))

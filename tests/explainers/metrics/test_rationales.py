"""Token-F1 of a text of five words, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from explainers import ExplainerError
from explainers.metrics import METRICS, rationales
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


WORDS = 8


def passages(*spans: tuple[int, int]) -> torch.Tensor:
    """Passages (1, P, WORDS) from first words and words after the last."""
    return torch.tensor([[[first <= word < last for word in range(WORDS)] for first, last in spans]])


def iou(scores: list[float], *spans: tuple[int, int]) -> list[float]:
    """Precision and recall of one document."""
    *shares, documents = rationales.iou_f1(torch.tensor([scores]), passages(*spans))[0].tolist()
    assert documents == 1
    return shares


def test_passages_are_found_where_half_is_shared() -> None:
    marked = [(0, 3), (6, 8)]
    # five words: 1 2 3 share two of four with 0 1 2; 6 and 7 are found whole
    assert iou([0.0, 5, 5, 5, 0, 0, 5, 5], *marked) == [1, 1]
    # 3 4 5 and 6 7 are one run of five, which shares two of five with 6 7: nothing is found
    assert iou([0.0, 0, 0, 5, 5, 5, 5, 5], *marked) == [0, 0]
    # 0 1 is found (two of three), 3 4 is not, 6 is (one of two)
    assert iou([5.0, 5, 0, 5, 5, 0, 5, 0], *marked) == pytest.approx([2 / 3, 1])


def test_passages_that_adjoin_stay_apart() -> None:
    scores = [5.0, 5, 5, 5, 0, 0, 0, 0]
    assert iou(scores, (0, 4)) == [1, 1]
    assert iou(scores, (0, 2), (2, 4)) == [1, 1 / 2]  # one run is one hit, and there are two passages
    assert iou(scores, (0, 1), (1, 4)) == [1, 1 / 2]
    assert iou(scores, (0, 4), (0, 4)) == [1, 1]  # marked in two groups of evidence


def test_iou_f1_is_of_the_means_over_documents() -> None:
    combine = METRICS["iou_f1"].combine
    assert combine is not None
    documents = torch.tensor([[1.0, 1 / 2, 1], [0, 0, 1], [1 / 2, 1, 1]])
    assert float(combine(documents.sum(0).numpy())) == pytest.approx(2 * 0.5 * 0.5 / (0.5 + 0.5))
    assert combine(documents.numpy()).tolist() == pytest.approx([2 / 3, 0, 2 / 3])


def test_words_that_were_not_read_are_marked_and_never_chosen() -> None:
    unread = float("-inf")
    scores, marked = torch.tensor([3.0, 2.0, 1.0, unread, unread]), torch.tensor([True, False, False, True, True])
    assert token_f1(scores, marked, [1, 3, 80]) == pytest.approx([2 / 4, 2 / 6, 2 / 6])
    assert iou([3.0, 2, 1, unread, unread, unread, unread, unread], (0, 1), (3, 6)) == [0, 0]  # 0 1 2 share one of three with 0
    # precision at recalls 0, 1/3, 1/3, 1/3, 1: 1, 1, 1/2, 1/3, 3/5
    found = rationales.rationale_auprc(scores[None], marked[None]).item()
    assert found == pytest.approx(1 / 3 + 2 / 3 * (1 / 3 + 3 / 5) / 2)
    assert rationales.rationale_auprc(torch.full((1, 2), unread), torch.tensor([[True, False]])).item() == pytest.approx(3 / 4)


def test_auprc_by_hand() -> None:
    found = rationales.rationale_auprc(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[True, False, True]])).item()
    # precision at recalls 0, 1/2, 1/2, 1: 1, 1, 1/2, 2/3
    assert found == pytest.approx(0.5 * 1 + 0.5 * (1 / 2 + 2 / 3) / 2)
    with pytest.raises(ExplainerError, match="no word"):
        rationales.rationale_auprc(torch.ones(1, 2), torch.zeros(1, 2, dtype=torch.bool))


def test_the_rank_of_the_best_marked_word_and_the_relevance_on_marked_words() -> None:
    scores = torch.stack([SCORES, torch.zeros(5), -SCORES.abs(), torch.tensor([0.5, -torch.inf, 0.0, 0.1, -torch.inf])])
    marked = MARKED.expand(4, -1)
    # word 1 is first; all five share the third place; word 4 is second of the negative ones; neither marked word was read
    assert rationales.reciprocal_rank(scores, marked).tolist() == pytest.approx([1, 1 / 3, 1 / 2, 1 / 4.5])
    masses = rationales.mass_marked(scores, marked)
    assert masses[0].item() == pytest.approx(1.2 / 1.8)
    assert masses[1:3].isnan().all()
    assert masses[3] == 0

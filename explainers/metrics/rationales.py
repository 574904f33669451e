"""Rationales: whether a map names the words that people gave as their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.metrics.registry import metric
from explainers.papers import CLEVR_XAI, ERASER, RECIPROCAL_RANK


def token_f1(scores: Tensor, rationale: Tensor, counts: Sequence[int]) -> list[float]:
    """Return the F1 of the k words with the largest scores against the words of a human rationale, for each k of ``counts``.

    scores     (N,): one for each word, with its sign; of equal scores the earlier word comes first. -inf for a word that the model did not
               read, which is never chosen
    rationale  bool (N,): the words that people marked, read or not

    All words of a text with fewer than k words are chosen. This is the token-level F1 of one document in ERASER (DeYoung et al., ACL 2020),
    for the top k = 10 ... 80 that Chefer et al., CVPR 2021, plot. Raises ExplainerError if no word is marked.
    """
    marked, order = _need_marks(rationale), _best_first(scores)
    hits = rationale[order].cumsum(0)
    # F1 = 2 * hits / (chosen + marked), from precision = hits / chosen and recall = hits / marked
    return [2 * int(hits[k - 1]) / (k + marked) if k else 0.0 for k in (min(count, len(order)) for count in counts)]


_TAKES = ["word_scores", "rationale"]


def _declare_token_f1(count: int) -> None:
    """Declare the metric of the ``count`` words with the largest scores."""

    @metric(
        f"token_f1_{count}",
        title=f"Token-F1 at {count}",
        family="rationales",
        takes=_TAKES,
        direction="higher",
        source=ERASER,
        kinds=("text",),
        description=f"F1 of the {count} words with the largest scores against the words that people marked.",
    )
    def token_f1_at_count(word_scores: Tensor, rationale: Tensor) -> Tensor:
        return torch.tensor(
            [token_f1(scores, marked, [count])[0] for scores, marked in zip(word_scores, rationale, strict=True)], dtype=torch.float64
        )


for _count in range(10, 81, 10):
    _declare_token_f1(_count)


@metric("auprc", title="AUPRC", family="rationales", takes=_TAKES, direction="higher", source=ERASER, kinds=("text", "molecule"))
def rationale_auprc(word_scores: Tensor, rationale: Tensor) -> Tensor:
    """The area under precision over recall of the scores against the words that people marked, by trapezoids. Words that the model did not
    read come last, all alike.

    ``word_scores`` (B, W), -inf for an unread word; ``rationale`` bool (B, W): the marked words. Returns (B,).

    Raises ExplainerError if no word is marked.
    """
    from sklearn.metrics import auc, precision_recall_curve

    values = []
    for scores, marks in zip(word_scores, rationale, strict=True):
        _need_marks(marks)
        unread = scores.isneginf()
        last = float(scores[~unread].min()) - 1 if not bool(unread.all()) else 0.0
        ranking = torch.where(unread, last, scores.double())
        precision, recall, _ = precision_recall_curve(marks.numpy(), ranking.numpy())
        values.append(float(auc(recall, precision)))
    return torch.tensor(values, dtype=torch.float64)


@metric(
    "reciprocal_rank",
    title="Rank of the marked word",
    family="rationales",
    takes=_TAKES,
    direction="higher",
    source=RECIPROCAL_RANK,
    kinds=("text", "molecule"),
)
def reciprocal_rank(word_scores: Tensor, rationale: Tensor) -> Tensor:
    """1 over the rank of the marked word with the largest score; words of equal scores share the mean of their ranks. 1 where the top word
    is marked, near 0 where marked words come last.

    ``word_scores`` (B, W), -inf for an unread word; ``rationale`` bool (B, W): the marked words. Returns (B,).
    """
    best = word_scores.masked_fill(~rationale, -torch.inf).amax(1, keepdim=True)
    above, equal = (word_scores > best).sum(1), (word_scores == best).sum(1)
    return 1 / (above + (equal + 1) / 2).double()


@metric(
    "mass_marked",
    title="Relevance on marked words",
    family="rationales",
    takes=_TAKES,
    direction="higher",
    source=CLEVR_XAI,
    kinds=("text", "molecule"),
)
def mass_marked(word_scores: Tensor, rationale: Tensor) -> Tensor:
    """The share of the map's positive scores that lies on words that people marked, or of which it is known that they decide. A map without
    a positive score has no value.

    ``word_scores`` (B, W), -inf for an unread word; ``rationale`` bool (B, W): the marked words. Returns (B,).
    """
    positive = word_scores.double().clamp(min=0)
    total = positive.sum(1)
    return torch.where(total > 0, (positive * rationale).sum(1) / total, torch.nan)


def _f1_of_means(sums: NDArray[Any]) -> NDArray[Any]:
    """Return F1 (...) of the mean precision and the mean recall, from sums over documents (..., 3): precisions, recalls, documents."""
    precision, recall, documents = sums[..., 0], sums[..., 1], sums[..., 2]
    both = np.where(precision + recall > 0, precision + recall, 1.0)
    return np.asarray(2 * precision * recall / both / documents)


@metric(
    "iou_f1",
    title="IoU-F1",
    family="rationales",
    takes=["word_scores", "passages"],
    direction="higher",
    source=ERASER,
    parts=("precision", "recall", "documents"),
    combine=_f1_of_means,
    kinds=("text",),
)
def iou_f1(word_scores: Tensor, passages: Tensor) -> Tensor:
    """F1 of the mean precision and the mean recall of passages, both over documents. As many words as people marked, those with the largest
    scores, are cut into runs of neighbours; a run is right if it shares at least half of the words that it and a marked passage have
    together. Passages that adjoin stay apart.

    ``word_scores`` (B, W), -inf for an unread word; ``passages`` bool (B, P, W): the words of each marked passage. Returns (B, 3):
    precision, recall, and 1 for the document.

    Precision is the share of the runs that are right, recall their number over that of the marked passages, each passage counted once, as
    ERASER's scorer has it. Raises ExplainerError if no word is marked.
    """
    values = []
    for scores, rows in zip(word_scores, passages, strict=True):
        marked = rows.any(0)
        chosen = torch.zeros_like(marked)
        chosen[_best_first(scores)[: _need_marks(marked)]] = True
        runs = _runs(chosen)
        truths = {frozenset(torch.nonzero(row).flatten().tolist()) for row in rows if bool(row.any())}
        hits = sum(any(2 * len(run & truth) >= len(run | truth) for truth in truths) for run in runs)
        values.append([hits / len(runs) if runs else 0.0, hits / len(truths), 1.0])
    return torch.tensor(values, dtype=torch.float64)


def _best_first(scores: Tensor) -> Tensor:
    """Return the indices of the words that the model read, the largest score first, of equal ones the earlier."""
    return scores.argsort(descending=True, stable=True)[: len(scores) - int(scores.isneginf().sum())]


def _need_marks(marked: Tensor) -> int:
    """Return how many words are marked; raises ExplainerError for none."""
    count = int(marked.sum())
    if not count:
        raise ExplainerError("no word of the text is marked, so there is nothing to compare with")
    return count


def _runs(chosen: Tensor) -> list[set[int]]:
    """Group the indices at which ``chosen``, bool (N,), is true into runs of neighbours; return each run as a set."""
    runs: list[set[int]] = []
    for index in torch.nonzero(chosen).flatten().tolist():
        if runs and index - 1 in runs[-1]:
            runs[-1].add(index)
        else:
            runs.append({index})
    return runs

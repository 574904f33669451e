"""Does a map name the words that people gave as their reasons?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.metrics.papers import ERASER
from explainers.metrics.registry import metric


def token_f1(scores: Tensor, rationale: Tensor, counts: Sequence[int]) -> list[float]:
    """F1 of the k words with the largest scores against the words of a human rationale, for each k of ``counts``.

    scores     (N,): one for each word, signed scores as they are; of equal ones the earlier word comes first
    rationale  bool (N,): the words that people marked

    k counts words; a text of fewer words is taken whole. The token-level F1 of one document in ERASER (DeYoung et al., ACL 2020),
    for the top k = 10 ... 80 as Chefer et al., CVPR 2021, plot it. Raises ExplainerError where no word is marked.
    """
    marked = _need_marks(rationale)
    hits = rationale[scores.argsort(descending=True, stable=True)].cumsum(0)
    # F1 = 2 * hits / (chosen + marked), from precision = hits / chosen and recall = hits / marked
    return [2 * int(hits[k - 1]) / (k + marked) for k in (min(count, len(scores)) for count in counts)]


_TAKES = ["word_scores", "rationale"]


def _declare_token_f1(count: int) -> None:
    """The metric of the ``count`` words with the largest scores."""

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
    def at_count(word_scores: Tensor, rationale: Tensor) -> Tensor:
        return torch.tensor(
            [token_f1(scores, marked, [count])[0] for scores, marked in zip(word_scores, rationale, strict=True)], dtype=torch.float64
        )


for _count in range(10, 81, 10):
    _declare_token_f1(_count)


@metric("auprc", title="AUPRC", family="rationales", takes=_TAKES, direction="higher", source=ERASER, kinds=("text",))
def rationale_auprc(word_scores: Tensor, rationale: Tensor) -> Tensor:
    """The area under precision over recall of the scores against the words that people marked, by trapezoids.

    Raises ExplainerError where no word is marked.
    """
    from sklearn.metrics import auc, precision_recall_curve

    values = []
    for scores, marked in zip(word_scores, rationale, strict=True):
        _need_marks(marked)
        precision, recall, _ = precision_recall_curve(marked.numpy(), scores.double().numpy())
        values.append(float(auc(recall, precision)))
    return torch.tensor(values, dtype=torch.float64)


@metric("iou_f1", title="IoU-F1", family="rationales", takes=_TAKES, direction="higher", source=ERASER, kinds=("text",))
def iou_f1(word_scores: Tensor, rationale: Tensor) -> Tensor:
    """F1 of passages: as many words as people marked, those with the largest scores, cut into runs of neighbours. A run counts as found
    where it shares at least half of the words that it and a marked passage have together.

    Raises ExplainerError where no word is marked.
    """
    values = []
    for scores, marked in zip(word_scores, rationale, strict=True):
        chosen = torch.zeros_like(marked)
        chosen[scores.argsort(descending=True, stable=True)[: _need_marks(marked)]] = True
        runs, passages = _runs(chosen), _runs(marked)
        matches = [
            (i, j) for i, run in enumerate(runs) for j, passage in enumerate(passages) if 2 * len(run & passage) >= len(run | passage)
        ]
        precision, recall = len({i for i, _ in matches}) / len(runs), len({j for _, j in matches}) / len(passages)
        values.append(2 * precision * recall / (precision + recall) if matches else 0.0)
    return torch.tensor(values, dtype=torch.float64)


def _need_marks(marked: Tensor) -> int:
    """How many words are marked; raises ExplainerError for none."""
    count = int(marked.sum())
    if not count:
        raise ExplainerError("no word of the text is marked, so there is nothing to compare with")
    return count


def _runs(chosen: Tensor) -> list[set[int]]:
    """The runs of neighbours among the chosen indices."""
    runs: list[set[int]] = []
    for index in torch.nonzero(chosen).flatten().tolist():
        if runs and index - 1 in runs[-1]:
            runs[-1].add(index)
        else:
            runs.append({index})
    return runs

"""Does a map name the words that people gave as their reasons?"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from explainers.errors import ExplainerError


def token_f1(scores: Tensor, rationale: Tensor, counts: Sequence[int]) -> list[float]:
    """F1 of the k words with the largest scores against the words of a human rationale, for each k of ``counts``.

    scores     (N,): one for each word, signed scores as they are; of equal ones the earlier word comes first
    rationale  bool (N,): the words that people marked

    k counts words; a text of fewer words is taken whole. The token-level F1 of one document in ERASER (DeYoung et al., ACL 2020),
    for the top k = 10 ... 80 as Chefer et al., CVPR 2021, plot it. Raises ExplainerError where no word is marked.
    """
    marked = int(rationale.sum())
    if not marked:
        raise ExplainerError("no word of the text is marked, so there is nothing to compare with")
    hits = rationale[scores.argsort(descending=True, stable=True)].cumsum(0)
    # F1 = 2 * hits / (chosen + marked), from precision = hits / chosen and recall = hits / marked
    return [2 * int(hits[k - 1]) / (k + marked) for k in (min(count, len(scores)) for count in counts)]

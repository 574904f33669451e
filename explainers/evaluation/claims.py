"""How large a set of parts each map needs for a claim, for metrics: the search of ``explainers.claim``, cut to what a run can pay.

A run of many methods replaces parts only by the fillings that are not drawn at random: then each set of a map costs a few answers, and the
hundreds of random sets are shared by all methods. Each method is judged as if it alone was looked at, so that its value does not depend on
the other methods of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from explainers.analysis.claims.claim import draws_of_result, find_claim, ranked_map
from explainers.analysis.claims.draws import Draws
from explainers.models.model import Model
from explainers.records.result import Attribution, Explanation
from explainers.records.session import checker

#: Needs of metrics for which the model is asked about sets of parts, as for a claim.
ASKED_FOR_CLAIMS = frozenset({"claimed_share"})


def claimed_shares(
    model: Model, explanation: Explanation, maps: Sequence[Attribution], seed: int, cancelled: Callable[[], bool] | None = None
) -> Tensor:
    """Search the claims of M ``maps`` of one target of ``explanation``, and return the share of the input's parts in the set of each claim
    (M,), 0 without one.

    seed       of the random sets
    cancelled  asked before each forward pass; when true, :class:`Cancelled` is raised

    Raises ExplainerError for an answer that has no range from 0 to 1.
    """
    draws = without_drawn_fillings(draws_of_result(model, explanation, maps[0].target, seed=seed))
    check = checker(cancelled)
    draws.before_pass = lambda done, total: check()
    claims = [find_claim(draws, ranked_map(attribution), explanation.input) for attribution in maps]
    return torch.tensor([len(each.hidden) / each.parts for each in claims], dtype=torch.float64)


def without_drawn_fillings(draws: Draws) -> Draws:
    """Return new draws of the same input and seed under those fillings that are the same in each draw; random sets stay random. They
    compare a map with no order that knows nothing of the model.
    """
    fixed = tuple(filling for filling in draws.fillings if not filling.is_drawn)
    return Draws(replace(draws.inputs, fillings=fixed), draws.parts, draws.answer, draws.seed)

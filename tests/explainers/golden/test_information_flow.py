"""Information-flow routes of a small Llama against the authors' graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from explainers.analysis.flow_routes.routes import attention_nearness, normalise
from explainers.methods.attention_terms import attention_terms, stream_into
from explainers.records.session import Session
from tests.explainers.support.golden import GOLDEN
from tests.explainers.support.golden_rows import case_of

SAME = 1e-6


@pytest.fixture(scope="module")
def published() -> dict[str, Tensor]:
    with np.load(GOLDEN / "information-flow-llama" / "outputs.npz") as outputs:
        return {name: torch.tensor(outputs[name]) for name in outputs}


def test_the_importance_of_every_head_and_token(published: dict[str, Tensor]) -> None:
    case = case_of("lxt-llama")
    recording = Session(case.model, case.inputs).recording
    tokens = list(range(11))
    for block in range(3):
        x = stream_into(recording, block)
        terms = attention_terms(recording, block, x, explainers.ExplainerError)
        mid = recording.mid_residuals[block]
        assert mid is not None
        ours = normalise(attention_nearness(terms, x[0], mid[0].detach(), tokens))
        torch.testing.assert_close(ours[:, :-1].permute(0, 2, 1), published["heads"][block], rtol=0, atol=SAME)
        torch.testing.assert_close(ours[:, -1].diagonal(), published["around_attention"][block], rtol=0, atol=SAME)


@pytest.mark.parametrize(
    ("name", "threshold", "renormalise"), [("full", 0.0, False), ("at_0.04", 0.04, False), ("renormalised_0.04", 0.04, True)]
)
def test_the_graph(published: dict[str, Tensor], name: str, threshold: float, renormalise: bool) -> None:
    case = case_of("lxt-llama")
    flow = explainers.information_flow(case.model, case.inputs, threshold=threshold, renormalise=renormalise)
    assert flow.start == 10
    ours = {"attention": torch.zeros(3, 11, 11, dtype=torch.float64)}
    ours |= {kind: torch.zeros(3, 11, dtype=torch.float64) for kind in ("mlp", "around_mlp")}
    for route in flow.routes:
        ours["attention"][route.block, route.target, route.source] += route.importance
    for step in flow.steps:
        ours["attention"][step.block, step.token, step.token] += step.around_attention
        ours["mlp"][step.block, step.token] = step.mlp
        ours["around_mlp"][step.block, step.token] = step.around_mlp
    for kind in ("attention",) if renormalise else ours:
        torch.testing.assert_close(ours[kind], published[f"{name}|{kind}"], rtol=0, atol=SAME)

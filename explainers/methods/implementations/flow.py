"""Attention flow: the maximum flow from the classification token to each input token, with attention weights as capacities."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explainers.methods.about import AGNOSTIC, ATTENTION_FAILS, About
from explainers.methods.implementations.attention import cut
from explainers.methods.registry import TOKEN_ROW, method
from explainers.papers import ATTENTION_FLOW
from explainers.records.trace import Trace

UNITS = 1_000_000  # capacity of a pipe that carries all attention of one token: the library counts in whole units


@method(
    "attention_flow",
    title="Attention flow",
    family="attention",
    classic=True,
    source=ATTENTION_FLOW,
    rule=None,
    signed=False,
    class_specific=False,
    needs=("attention", "class_token", "product"),
    class_attention="all",
    slow=True,
    passes="1 forward, and one maximum flow for each token",
    options={"row": TOKEN_ROW},
    about=About(
        formula=(
            r"s_j \propto \text{maxflow}\left(c \to j\right)",
            r"\text{capacity of} \; (l, i) \to (l-1, j) = \frac{1}{2} \left(\bar{A}^l + I\right)_{i,j}",
        ),
        words="Attention as pipes: as much as can flow from the answer down to each token.",
        trust="Use it next to rollout, as an upper bound of what attention could have carried.",
        fails=f"{ATTENTION_FAILS} Very slow for images. {AGNOSTIC}",
        line="How much attention can flow from the answer down to each part.",
    ),
)
def attention_flow(trace: Trace) -> Tensor:
    """Maximum flow from the classification token after the last block to each input token, scaled to sum to 1.

    Edge (l, i) to (l - 1, j) carries up to (A + I)_ij / 2 of block l, A the mean of the heads, rounded to one part in a million.
    """
    averages = [(a + trace.identity()) / 2 for a in cut(trace, [a.mean(1) for a in trace.attentions])]
    scores = averages[0].new_zeros(trace.mask.shape)
    for sample in range(len(scores)):
        real = trace.mask[sample].nonzero()[:, 0]
        layers = [a[sample][real][:, real].double().cpu().numpy() for a in averages]
        flows = _flows(layers, int((real == trace.class_tokens[sample]).nonzero()[0, 0]))
        scores[sample, real] = torch.tensor(flows / max(flows.sum(), 1e-30), dtype=scores.dtype, device=scores.device)
    return scores


def _flows(layers: list[np.ndarray], source: int) -> np.ndarray:
    """Return the maximum flow (S,) from token ``source`` after the last block to each input token, as multiples of 1 / ``UNITS``.
    ``layers[l]`` (S, S) are the capacities of block l: a row for each of its output tokens, a column for each input token.
    """
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import maximum_flow

    size, depth = layers[0].shape[0], len(layers)
    rows, columns, capacities = [], [], []
    for level, matrix in enumerate(layers):
        later, earlier = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
        rows.append((level + 1) * size + later.ravel())
        columns.append(level * size + earlier.ravel())
        capacities.append(np.rint(matrix.ravel() * UNITS).astype(np.int32))
    nodes = (depth + 1) * size
    graph = csr_array((np.concatenate(capacities), (np.concatenate(rows), np.concatenate(columns))), shape=(nodes, nodes), dtype=np.int32)
    graph.eliminate_zeros()
    return np.array([maximum_flow(graph, depth * size + source, sink).flow_value for sink in range(size)], dtype=np.float64)

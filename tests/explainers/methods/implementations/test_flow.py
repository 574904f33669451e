"""Attention flow, against the maximum flow of networkx."""

from __future__ import annotations

import networkx
import torch

from explainers.methods.implementations.flow import _flows


def test_attention_flow_is_the_maximum_flow_of_networkx() -> None:
    generator = torch.Generator().manual_seed(0)
    layers = [(torch.rand(4, 4, generator=generator, dtype=torch.float64).softmax(-1) + torch.eye(4)) / 2 for _ in range(3)]
    graph = networkx.DiGraph()
    for level, matrix in enumerate(layers):
        for i in range(4):
            for j in range(4):
                graph.add_edge((level + 1, i), (level, j), capacity=round(float(matrix[i, j]) * 1_000_000))
    expected = [networkx.maximum_flow_value(graph, (3, 0), (0, j)) for j in range(4)]
    assert _flows([m.numpy() for m in layers], 0).tolist() == expected

"""A tiny graph Transformer with random weights, wrapped."""

from __future__ import annotations

from functools import cache

import torch

import explainers
from explainers.embedded.graph_transformer import GraphTransformer
from explainers.models.inputs.molecule_graphs import ATOM_FEATURES, BONDS, DISTANCES
from explainers.models.model import Model

NITROBENZENE, ETHANOL = "c1ccccc1[N+](=O)[O-]", "CCO"
LABELS = ("not mutagenic", "mutagenic")
ARGS = {"sizes": list(ATOM_FEATURES.values()), "distances": DISTANCES, "bonds": BONDS, "width": 24, "depth": 2, "heads": 4, "inner": 48}


def tiny_module(seed: int = 0) -> GraphTransformer:
    """A model with biases, and biases of attention, that count."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = GraphTransformer(**ARGS)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return module.eval()


@cache
def tiny_model() -> Model:
    """Shared by tests, so never change it."""
    return explainers.wrap(tiny_module(), kind="molecule", labels=LABELS, name="tiny molecules")

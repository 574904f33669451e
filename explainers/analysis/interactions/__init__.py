"""Interactions between the parts of two inputs in the space of an encoder: words and patches, two pictures, two texts."""

from explainers.analysis.interactions.faithful import FaithfulInteraction, InteractionMeasures, faithful_interaction, measure_interactions
from explainers.analysis.interactions.pairs import Interaction, input_interaction, interaction
from explainers.analysis.interactions.sparse import SparseInteractions, SparseTerm, sparse_interactions

__all__ = [
    "FaithfulInteraction",
    "Interaction",
    "InteractionMeasures",
    "SparseInteractions",
    "SparseTerm",
    "faithful_interaction",
    "input_interaction",
    "interaction",
    "measure_interactions",
    "sparse_interactions",
]

"""How much of the work of a model its Transformer does: parts, heads, reading between patches or words, and agreement of methods."""

from explainers.analysis.depth.estimate import Estimate
from explainers.analysis.depth.measuring import MAX_INPUTS, MIN_INPUTS, depth
from explainers.analysis.depth.records import Depth

__all__ = ["MAX_INPUTS", "MIN_INPUTS", "Depth", "Estimate", "depth"]

"""A control: a map made without any knowledge of input or model."""

from __future__ import annotations

import torch

from explainers.methods.about import About
from explainers.methods.registry import method
from explainers.records.trace import MethodOutput, Trace


@method(
    "random",
    title="Random",
    family="control",
    classic=True,
    rule=None,
    signed=False,
    class_specific=False,
    passes="none",
    default=True,
    about=About(
        formula=(r"s_j \sim \text{uniform}(0, 1)",),
        words="Random numbers that know nothing of input or model.",
        trust="Never trust it: it is there so that the others can be seen to beat it.",
        fails="A method that does no better than this in a test says nothing there.",
        line="Drawn at random: every other map has to beat it.",
    ),
)
def random(trace: Trace) -> MethodOutput:
    """Uniform random numbers, the same for the same seed: a map that any method must beat.

    Returns scores (B, S), one number from 0 to 1 for each token.
    """
    tokens = trace.recording.block_inputs[0].shape[1]
    rows = [torch.rand(tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in trace.seeds]
    drawn = torch.stack(rows).to(trace.recording.block_inputs[0])
    drawn[:, trace.layout.coarser_tokens] = 0  # one number for a patch, not those of several sizes added up
    return MethodOutput(drawn, seed_correlations=(0.0,) * len(drawn))

"""PA-LRP: relevance of patches and of their positions."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from explainers.autograd.rules import RULES
from explainers.methods.about import About
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace, from_pixels

PART = Option(
    str,
    "both",
    "whose relevance is shown: of the pixels and of the position embeddings together, or of one of them",
    choices=("both", "pixels", "positions"),
)

ROTARY = (
    "This model has two kinds of positions: an embedding that is added, whose relevance is in this map, and rotations of queries and keys, "
    "whose relevance is not."
)


@method(
    "pa_lrp",
    title="PA-LRP",
    family="relevance",
    source=RULES["pa-lrp"].source,
    rule="pa-lrp",
    also=("cp-lrp-gamma", "attnlrp", "libra"),
    signed=False,
    needs=("positions",),
    pixels=True,
    options={"part": PART},
    reads=("placed",),
    about=About(
        formula=(
            r"s_j = \sum_p \left(\frac{1}{f} \left(R_p + \frac{1}{n} \sum_d P_{j,d} \nabla z_{j,d}\right)\right)^{+}",
            r"z_j = E_j + P_j",
        ),
        words=(
            "A patch enters the model as what it shows plus where it is. LRP taken back to the pixels loses the part of the "
            "second; here the relevance of the position embedding is added to the pixels of its patch. The answer starts with "
            "relevance 1."
        ),
        trust="Use it when a map of LRP has holes in a thing that the model must have seen: positions often carry the rest of it.",
        fails=(
            "Its rule hands nothing back through attention weights and gives values half, as the authors' code has it, so "
            "relevance is lost (its paper asks that none is). Rotary and relative positions, for which the paper has rules too, "
            "are not split here: models that have only these are refused, and of those that also add an embedding, such as "
            "EVA-02, that alone is shown."
        ),
        line="Credit for the answer, handed back to what a patch shows and to where it is.",
    ),
)
def pa_lrp(trace: Trace, part: str = "both") -> MethodOutput:
    """Relevance of the pixels plus that of each patch's position embedding, spread over its pixels; positive part.

    A token is the sum z = E + P of what its patch shows and where it is; each gets its share of R(z), R(P) = P R(z) / z, and R(E) goes back
    to the pixels. Relevance begins with 1 at the explained number. Each pixel gets its own relevance, summed over colours, and an equal
    part of R(P) of its patch, summed over the width; what is negative is set to 0, as in the authors' code. ``part`` restricts the map to
    "pixels" or "positions".
    """
    positions = trace.recording.structure.positions
    assert positions is not None  # needs
    assert trace.signals.placed is not None
    if trace.recording.structure.rotary and part != "pixels":
        trace.note(ROTARY)
    rows, columns = trace.layout.grid or (0, 0)
    pixel_relevance = (trace.pixel_values * trace.pixel_grads).sum(1)
    position_relevance = (positions[0].detach() * trace.signals.placed).sum(-1)[:, -rows * columns :]
    height, width = pixel_relevance.shape[-2:]
    spread = F.interpolate(position_relevance.view(-1, 1, rows, columns), (height, width), mode="nearest")[:, 0] * (
        rows * columns / (height * width)
    )
    relevance = {"both": pixel_relevance + spread, "pixels": pixel_relevance, "positions": spread}[part]
    account = trace.account()[:, None, None]
    return from_pixels(trace, torch.where(account == 0, 0.0, relevance / torch.where(account == 0, 1.0, account)).clamp(min=0))

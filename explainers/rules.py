"""Backward rules: how a signal travels from the output back to each tensor.

A rule is data: one choice for each kind of operator. No rule changes the forward pass. Under the first four rules the signal at a tensor is
a gradient (of a surrogate that has the same value as the model); under the last two it is a relevance, which is already multiplied
by the tensor and starts as one-hot at the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from explainers.errors import ExplainerError


@dataclass(frozen=True)
class Rule:
    """One choice for each kind of operator.

    attention   softmax and the two matrix products of attention. ``jacobian``; ``constant``: attention weights are constants;
                ``half``: each product gives half to each factor; ``relevance``: each product splits relevance and halves it
    norm        LayerNorm, RMSNorm, L2 normalisation, division. ``jacobian``; ``constant``: the scale is a constant, the centring is not;
                ``constant_mean``: the mean that LayerNorm takes off is one too, as in the published code of Ali et al. as it ships;
                ``identity``: the signal passes unchanged
    activation  ``jacobian``; ``gate``: act(x) is x times the constant act(x)/x; ``identity``
    product     element-wise product of two paths. ``jacobian``; ``half``: half to each factor; ``relevance``: half the relevance to each
    linear      linear maps and sums of two paths. ``jacobian``; ``z_plus``: contributions of positive sign share the relevance (deep
                Taylor, sums normalised); ``z_plus_each``: positive and negative inputs each get it all (the LRP baseline, sums not
                normalised)
    bias        whether FullGrad's read-outs count the bias terms
    """

    attention: Literal["jacobian", "constant", "half", "relevance"] = "jacobian"
    norm: Literal["jacobian", "constant", "constant_mean", "identity"] = "jacobian"
    activation: Literal["jacobian", "gate", "identity"] = "jacobian"
    product: Literal["jacobian", "half", "relevance"] = "jacobian"
    linear: Literal["jacobian", "z_plus", "z_plus_each"] = "jacobian"
    bias: bool = True
    name: str = "custom"
    title: str = "custom rule"
    by: str = ""
    year: int | None = None
    paper: str = ""

    @property
    def is_relevance(self) -> bool:
        """Whether the signal is a relevance (starts one-hot, already multiplied by the tensor) and not a gradient."""
        return self.linear != "jacobian"

    @property
    def is_ordinary(self) -> bool:
        """Whether this is the ordinary gradient."""
        return {self.attention, self.norm, self.activation, self.product, self.linear} == {"jacobian"}

    def __post_init__(self) -> None:
        relevance = {self.attention == "relevance", self.product == "relevance", self.is_relevance}
        if len(relevance) > 1:
            raise ExplainerError(
                "A rule carries either gradients or relevance: attention='relevance', product='relevance' and "
                "linear='z_plus' (or 'z_plus_each') go together."
            )


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(name="gradient", title="ordinary gradient"),
        Rule(
            name="libra",
            title="Libra",
            by="Mehri et al.",
            year=2025,
            paper="LibraGrad, CVPR 2025, arXiv 2411.16760",
            attention="constant",
            norm="constant",
            activation="gate",
            product="half",
        ),
        Rule(
            name="conservative",
            title="conservative",
            by="Ali et al.",
            year=2022,
            paper="XAI for Transformers: Better Explanations through Conservative Propagation, ICML 2022, arXiv 2202.07304",
            attention="constant",
            norm="constant",
        ),
        Rule(
            name="attnlrp",
            title="AttnLRP",
            by="Achtibat et al.",
            year=2024,
            paper="AttnLRP, ICML 2024, arXiv 2402.05602",
            attention="half",
            norm="constant",
            activation="gate",
            product="half",
        ),
        Rule(
            name="deep_taylor",
            title="deep Taylor",
            by="Chefer et al.",
            year=2021,
            paper="Transformer Interpretability Beyond Attention Visualization, CVPR 2021, arXiv 2012.09838",
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus",
        ),
        Rule(
            name="lrp",
            title="LRP",
            by="Chefer et al.",
            year=2021,
            paper="the LRP baseline of arXiv 2012.09838, as its code computes it",
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus_each",
        ),
    )
}
#: LibraGrad's ablation (its Table 5): Libra with one of its choices taken back. Any read-out that takes Libra takes them.
LIBRA_WITHOUT = {
    "attention": {"attention": "jacobian"},
    "norm": {"norm": "jacobian"},
    "activation": {"activation": "jacobian"},
    "product": {"product": "jacobian"},
    "bias": {"bias": False},
}
RULES |= {
    f"libra-{part}": replace(
        RULES["libra"], name=f"libra-{part}", title="Libra without " + ("biases" if part == "bias" else f"its {part} rule"), **change
    )  # type: ignore[arg-type]
    for part, change in LIBRA_WITHOUT.items()
}
GRADIENT_RULES = tuple(name for name, rule in RULES.items() if not rule.is_relevance)

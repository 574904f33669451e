"""Backward rules: how a signal travels from the output back to each tensor.

A rule is data: one choice for each kind of operator. No rule changes the forward pass. Under the first four rules the signal at a tensor is
a gradient (of a surrogate that has the same value as the model); under the last two it is a relevance, which is already multiplied
by the tensor and starts as one-hot at the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from explainers.errors import ExplainerError

Carried = Literal["gradient", "relevance"]


@dataclass(frozen=True)
class Choice:
    """One way back through a kind of operator. ``carries``: what a rule with this choice must carry; None where both will do."""

    value: str | bool
    title: str
    says: str
    carries: Carried | None = None


@dataclass(frozen=True)
class Kind:
    """One kind of operator, and the ways back through it, the ordinary gradient's first."""

    title: str
    covers: str
    choices: tuple[Choice, ...]

    def choice(self, value: object) -> Choice | None:
        """The choice of this value, or None."""
        return next((one for one in self.choices if one.value == value and type(one.value) is type(value)), None)


#: The fields of a rule: every kind of operator with its choices, each in one sentence.
KINDS: dict[str, Kind] = {
    "attention": Kind(
        "Attention",
        "the softmax and the two matrix products of attention",
        (
            Choice("jacobian", "derivative", "The attention weights are differentiated like everything else.", "gradient"),
            Choice(
                "constant", "constant", "The attention weights are constants: the signal goes back through the values alone.", "gradient"
            ),
            Choice("half", "half each", "Each of the two products gives half of the signal to each of its factors.", "gradient"),
            Choice(
                "relevance", "split", "Each product splits the relevance between its factors in proportion, and halves it.", "relevance"
            ),
        ),
    ),
    "norm": Kind(
        "Normalisation",
        "LayerNorm, RMSNorm, L2 normalisation, division",
        (
            Choice("jacobian", "derivative", "Mean and scale are differentiated too."),
            Choice("constant", "constant scale", "The scale is a constant; the mean that is taken off is differentiated."),
            Choice(
                "constant_mean", "constant scale and mean", "Scale and mean are both constants, as in the code of Ali et al. as it ships."
            ),
            Choice("identity", "unchanged", "The signal passes unchanged."),
        ),
    ),
    "activation": Kind(
        "Activation",
        "GELU, SiLU, tanh and other curves",
        (
            Choice("jacobian", "derivative", "The signal is multiplied by the slope of the curve."),
            Choice("gate", "gate", "The signal is multiplied by output over input, act(x)/x, taken as a constant."),
            Choice("identity", "unchanged", "The signal passes unchanged."),
        ),
    ),
    "product": Kind(
        "Product",
        "two paths multiplied element by element, as in gated feed-forward layers",
        (
            Choice("jacobian", "derivative", "Each factor gets the whole signal.", "gradient"),
            Choice("half", "half each", "Each factor gets half of the signal.", "gradient"),
            Choice("relevance", "split", "Each factor gets half of the relevance.", "relevance"),
        ),
    ),
    "linear": Kind(
        "Linear, add",
        "linear layers, and sums of two paths",
        (
            Choice("jacobian", "derivative", "The signal goes back through the weights; both paths of a sum get it whole.", "gradient"),
            Choice("z_plus", "z⁺", "Contributions of positive sign share the relevance; sums keep its total (deep Taylor).", "relevance"),
            Choice(
                "z_plus_each",
                "z⁺, each sign",
                "Positive and negative inputs each get all the relevance; sums do not keep it (LRP).",
                "relevance",
            ),
        ),
    ),
    "bias": Kind(
        "Biases",
        "constants that are added; only the read-outs of FullGrad count them",
        (Choice(True, "counted", "FullGrad's read-outs count them."), Choice(False, "left out", "FullGrad's read-outs leave them out.")),
    ),
}


@dataclass(frozen=True)
class Rule:
    """One choice for each kind of operator; :data:`KINDS` says which there are and what they do.

    Raises ExplainerError for a choice that does not exist, and for choices that do not go together.
    """

    attention: str = "jacobian"
    norm: str = "jacobian"
    activation: str = "jacobian"
    product: str = "jacobian"
    linear: str = "jacobian"
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

    @property
    def choices(self) -> dict[str, str | bool]:
        """Kind of operator -> what was chosen for it."""
        return {field: getattr(self, field) for field in KINDS}

    def __post_init__(self) -> None:
        carried: dict[str, list[str]] = {}
        for field, value in self.choices.items():
            found = KINDS[field].choice(value)
            if found is None:
                raise ExplainerError(f"A rule has no choice {field}={value!r}: there are {_listed(field)}.")
            if found.carries is not None:
                carried.setdefault(found.carries, []).append(f"{field}={value}")
        if len(carried) > 1:
            raise ExplainerError(
                f"A rule carries either gradients or relevance: {', '.join(carried['gradient'])} are for gradients, "
                f"{', '.join(carried['relevance'])} for relevance."
            )


def _listed(field: str) -> str:
    return ", ".join(str(one.value) for one in KINDS[field].choices)


def rule_of(choices: Mapping[str, Any]) -> Rule:
    """The rule of these choices; what is not named is as for the ordinary gradient. The known rule where one has the same.

    Raises ExplainerError for a kind of operator or a choice that does not exist, and for choices that do not go together.
    """
    for field in choices:
        if field not in KINDS:
            raise ExplainerError(f"A rule has no {field!r}: there are {', '.join(KINDS)}.")
    made = Rule(**choices)
    return next((rule for rule in RULES.values() if rule.choices == made.choices), made)


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
LIBRA_WITHOUT: dict[str, dict[str, Any]] = {
    "attention": {"attention": "jacobian"},
    "norm": {"norm": "jacobian"},
    "activation": {"activation": "jacobian"},
    "product": {"product": "jacobian"},
    "bias": {"bias": False},
}
RULES |= {
    f"libra-{part}": replace(
        RULES["libra"], name=f"libra-{part}", title="Libra without " + ("biases" if part == "bias" else f"its {part} rule"), **change
    )
    for part, change in LIBRA_WITHOUT.items()
}
GRADIENT_RULES = tuple(name for name, rule in RULES.items() if not rule.is_relevance)

"""Backward rules: how a signal travels from the output back to each tensor.

A rule is data: one choice for each kind of operator. No rule changes the forward pass. Under most rules the signal at a tensor is a
gradient (of a surrogate that has the same value as the model); under those of LRP (``Rule.is_relevance``) it is a relevance, which is
already multiplied by the tensor and starts as one-hot at the target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from explainers.citation import UNKNOWN, Citation
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
        return next((choice for choice in self.choices if choice.value == value and type(choice.value) is type(value)), None)


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
            Choice(
                "constant_half",
                "constant, values half",
                "The attention weights are constants that take half of the signal, which ends there; the values get the other half.",
                "gradient",
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
            Choice(
                "gamma",
                "γ",
                "In linear layers outside attention, contributions of the output's sign count 1 + γ times (LRP-γ).",
                "gradient",
            ),
            Choice("epsilon", "ε", "Each output is divided by itself plus ε, which damps outputs near zero (LRP-ε).", "gradient"),
            Choice("z_plus", "z⁺", "Contributions of positive sign share the relevance; sums keep its total (deep Taylor).", "relevance"),
            Choice(
                "z_plus_positive",
                "z⁺, positive inputs",
                "Positive inputs with positive weights share the relevance, negative ones get none; sums do not keep it (eq. 4).",
                "relevance",
            ),
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
class Strength:
    """The numbers of the linear choices ``gamma`` and ``epsilon``, as the code of AttnLRP has them.

    gamma              of linear layers; the projections of attention (queries, keys, values, output) get none
    gamma_convolution  of convolutions, the patch embedding among them
    epsilon            of linear layers and LayerNorm
    epsilon_sum        of sums of two paths and of matrix products
    """

    gamma: float = 0.05
    gamma_convolution: float = 0.25
    epsilon: float = 1e-6
    epsilon_sum: float = 1e-8


#: The ways through linear layers that carry relevance. Every method is held against every rule, so it is looked up often.
_OF_RELEVANCE = {choice.value for choice in KINDS["linear"].choices if choice.carries == "relevance"}


@dataclass(frozen=True)
class Rule:
    """One choice for each kind of operator; :data:`KINDS` says which there are and what they do.

    ``strength`` has the numbers of the linear choices that take some.

    Raises ExplainerError for a choice that does not exist, and for choices that do not go together.
    """

    attention: str = "jacobian"
    norm: str = "jacobian"
    activation: str = "jacobian"
    product: str = "jacobian"
    linear: str = "jacobian"
    bias: bool = True
    strength: Strength = Strength()
    name: str = "custom"
    title: str = "custom rule"
    short: str = ""  # what a label or a column calls it; none: its title
    group: str = ""  # what stands before ``short``, once over the columns of the rules that share it
    source: Citation = UNKNOWN

    @property
    def is_relevance(self) -> bool:
        """Whether the signal is a relevance (starts one-hot, already multiplied by the tensor) and not a gradient."""
        return self.linear in _OF_RELEVANCE

    @property
    def is_ordinary(self) -> bool:
        """Whether this is the ordinary gradient."""
        return {self.attention, self.norm, self.activation, self.product, self.linear} == {"jacobian"}

    @property
    def accounts(self) -> bool:
        """Whether tokens times the signal at them, and the bias terms, add up to what the backward pass began with: FullGrad-completeness
        (Mehri et al. 2025). It holds where the surrogate that is differentiated is linear.
        """
        constant_scale = self.norm in ("constant", "constant_mean")
        return constant_scale and (self.attention, self.activation, self.product, self.linear) == ("constant", "gate", "half", "jacobian")

    @property
    def label(self) -> str:
        """What a plate or a list calls it."""
        return f"{self.group} {self.short or self.title}".strip()

    @property
    def choices(self) -> dict[str, str | bool]:
        """Kind of operator -> what was chosen for it."""
        return {field: getattr(self, field) for field in KINDS}

    def __post_init__(self) -> None:
        carried: dict[str, list[str]] = {}
        for field, value in self.choices.items():
            choice = KINDS[field].choice(value)
            if choice is None:
                raise ExplainerError(f"A rule has no choice {field}={value!r}: there are {_listed(field)}.")
            if choice.carries is not None:
                carried.setdefault(choice.carries, []).append(f"{field}={value}")
        if len(carried) > 1:
            raise ExplainerError(
                f"A rule carries either gradients or relevance: {', '.join(carried['gradient'])} are for gradients, "
                f"{', '.join(carried['relevance'])} for relevance."
            )


def _listed(field: str) -> str:
    return ", ".join(str(choice.value) for choice in KINDS[field].choices)


def rule_of(choices: Mapping[str, Any]) -> Rule:
    """The rule of these choices; what is not named is as for the ordinary gradient. The known rule where one has the same.

    Raises ExplainerError for a kind of operator or a choice that does not exist, and for choices that do not go together.
    """
    for field in choices:
        if field not in KINDS:
            raise ExplainerError(f"A rule has no {field!r}: there are {', '.join(KINDS)}.")
    made = Rule(**choices)
    return next((rule for rule in RULES.values() if rule.choices == made.choices), made)


#: Every backward rule by its name.
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(name="gradient", title="ordinary gradient", short="gradient"),
        Rule(
            name="libra",
            title="Libra",
            source=Citation(authors="Mehri et al.", year=2025, title="LibraGrad, CVPR 2025, arXiv 2411.16760"),
            attention="constant",
            norm="constant",
            activation="gate",
            product="half",
        ),
        Rule(
            name="conservative",
            title="conservative",
            source=Citation(
                authors="Ali et al.",
                year=2022,
                title="XAI for Transformers: Better Explanations through Conservative Propagation, ICML 2022, arXiv 2202.07304",
            ),
            attention="constant",
            norm="constant",
        ),
        Rule(
            name="attnlrp",
            title="AttnLRP",
            source=Citation(authors="Achtibat et al.", year=2024, title="AttnLRP, ICML 2024, arXiv 2402.05602"),
            attention="half",
            norm="constant",
            activation="gate",
            product="half",
        ),
        Rule(
            name="deep_taylor",
            title="deep Taylor",
            source=Citation(
                authors="Chefer et al.",
                year=2021,
                title="Transformer Interpretability Beyond Attention Visualization, CVPR 2021, arXiv 2012.09838",
            ),
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus",
        ),
        Rule(
            name="lrp",
            title="LRP",
            source=Citation(authors="Chefer et al.", year=2021, title="the LRP baseline of arXiv 2012.09838, as its code computes it"),
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus_each",
        ),
        Rule(
            name="lrp-eq4",
            title="LRP of eq. 4",
            source=Citation(
                authors="Chefer et al.",
                year=2021,
                title="the LRP baseline of arXiv 2012.09838, as its eq. 4 writes it; the code computes another one",
            ),
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus_positive",
        ),
        Rule(
            name="conservative-attention",
            title="conservative, attention alone",
            source=Citation(
                authors="Ali et al.",
                year=2022,
                title="LRP (AH) of arXiv 2202.07304: the attention rule without the one for LayerNorm; conservative is its LRP (AH+LN)",
            ),
            attention="constant",
        ),
        Rule(
            name="attnlrp-epsilon",
            title="AttnLRP with ε",
            source=Citation(
                authors="Achtibat et al.", year=2024, title="AttnLRP, arXiv 2402.05602, with the ε of its code (LXT's explicit rules)"
            ),
            attention="half",
            norm="constant",
            activation="gate",
            product="half",
            linear="epsilon",
        ),
        Rule(
            name="cp-lrp-gamma",
            title="CP-LRP with γ",
            source=Citation(
                authors="Achtibat et al.",
                year=2024,
                title="what AttnLRP's code (LXT) does with ViTs: attention constant, LRP-γ of 0.25 in convolutions and 0.05 in "
                "linear layers",
            ),
            attention="constant",
            norm="constant",
            activation="gate",
            product="half",
            linear="gamma",
        ),
        Rule(
            name="pa-lrp",
            title="PA-LRP",
            source=Citation(
                authors="Bakish et al.",
                year=2025,
                title="Revisiting LRP: Positional Attribution as the Missing Ingredient for Transformer Explainability, arXiv 2506.02138",
            ),
            attention="constant_half",
            norm="constant",
            activation="gate",
            product="half",
            linear="gamma",
            strength=Strength(gamma_convolution=100),
        ),
    )
}
#: LibraGrad's ablation (its Table 5): Libra with some of its choices taken back. Any read-out that takes Libra takes them.
LIBRA_WITHOUT: dict[str, dict[str, Any]] = {
    "attention": {"attention": "jacobian"},
    "attention-norm": {"attention": "jacobian", "norm": "jacobian"},
    "norm": {"norm": "jacobian"},
    "activation": {"activation": "jacobian"},
    "product": {"product": "jacobian"},
    "bias": {"bias": False},
}
_LEFT_OUT = {"bias": "biases", "attention-norm": "its attention and norm rules"}
RULES |= {
    f"libra-{part}": replace(
        RULES["libra"],
        name=f"libra-{part}",
        title="Libra without " + _LEFT_OUT.get(part, f"its {part} rule"),
        group="Libra without",
        short=part,
        **change,
    )
    for part, change in LIBRA_WITHOUT.items()
}


def add_rule(rule: Rule) -> Rule:
    """Add a rule of one's own: it goes with every read-out that reads what it carries, and stands in every list.

    Raises ExplainerError for a name that cannot stand in a spec, or that another rule has.
    """
    if not re.fullmatch(r"[a-z0-9_-]+", rule.name):
        raise ExplainerError(f"A rule cannot be called {rule.name!r}: send lower-case letters, digits, - and _.")
    if rule.name in RULES or rule.name == "custom":
        raise ExplainerError(f"There is already a rule {rule.name}.")
    RULES[rule.name] = rule
    return rule


def gradient_rules() -> tuple[str, ...]:
    """The names of the rules that carry gradients."""
    return tuple(name for name, rule in RULES.items() if not rule.is_relevance)

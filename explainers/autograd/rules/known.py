"""The rules with a name, and those that others add."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explainers.autograd.rules.kinds import OPERATOR_KINDS
from explainers.autograd.rules.rule import Rule
from explainers.autograd.rules.strength import Strength
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.papers import AGCAM_PAPER, ALI, ATTNLRP, CHEFER, GIM_PAPER, LIBRAGRAD, LRP_PAPER

#: A dict of every backward rule by its name, such as ``libra``.
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(name="gradient", title="ordinary gradient", short="gradient"),
        Rule(
            name="libra",
            title="Libra",
            source=LIBRAGRAD,
            attention="constant",
            norm="constant",
            activation="gate",
            product="half",
        ),
        Rule(
            name="conservative",
            title="conservative",
            source=ALI,
            attention="constant",
            norm="constant",
        ),
        Rule(
            name="attnlrp",
            title="AttnLRP",
            source=ATTNLRP,
            attention="half",
            norm="constant",
            activation="gate",
            product="half",
        ),
        Rule(
            name="deep_taylor",
            title="deep Taylor",
            source=CHEFER,
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus",
        ),
        Rule(
            name="lrp",
            title="LRP",
            source=LRP_PAPER.with_note("as the code of Chefer et al., 2021, arXiv 2012.09838, computes its baseline"),
            attention="relevance",
            norm="identity",
            activation="identity",
            product="relevance",
            linear="z_plus_each",
        ),
        Rule(
            name="lrp-eq4",
            title="LRP of eq. 4",
            source=LRP_PAPER.with_note(
                "as eq. 4 of Chefer et al., 2021, arXiv 2012.09838, writes its baseline; the code computes another one"
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
            source=ALI.with_note("its LRP (AH): the attention rule without the one for LayerNorm; conservative is its LRP (AH+LN)"),
            attention="constant",
        ),
        Rule(
            name="attnlrp-epsilon",
            title="AttnLRP with ε",
            source=ATTNLRP.with_note("with the ε of its code (LXT's explicit rules)"),
            attention="half",
            norm="constant",
            activation="gate",
            product="half",
            linear="epsilon",
        ),
        Rule(
            name="cp-lrp",
            title="CP-LRP",
            source=ALI.with_note(
                "as the code of AttnLRP (Achtibat et al., 2024, arXiv 2402.05602) has it as a baseline: the gates of gated layers are "
                "constant, too"
            ),
            attention="constant",
            norm="constant",
            activation="gate",
            product="constant_curve",
        ),
        Rule(
            name="cp-lrp-gamma",
            title="CP-LRP with γ",
            source=ATTNLRP.with_note(
                "as its code (LXT) does it with ViTs: CP-LRP of Ali et al., 2022, arXiv 2202.07304, with LRP-γ of 0.25 in convolutions "
                "and 0.05 in linear layers"
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
                title="Revisiting LRP: Positional Attribution as the Missing Ingredient for Transformer Explainability",
                arxiv="2506.02138",
            ),
            attention="constant_half",
            norm="constant",
            activation="gate",
            product="half",
            linear="gamma",
            strength=Strength(gamma_convolution=100),
        ),
        Rule(name="gim", title="GIM", source=GIM_PAPER, attention="half_temperature", norm="constant", product="half"),
        Rule(
            name="cut-attention",
            title="attention cut",
            source=AGCAM_PAPER.with_note("whose code detaches what attention takes, so that the gradient passes residuals and MLPs alone"),
            attention="cut",
        ),
    )
}
#: LibraGrad's ablation (its Table 5): Libra with some of its choices taken back. Any method that takes Libra takes them.
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
    """Register ``rule`` under its name and return it: it can be combined with every method that reads what it carries, and is in every list
    of rules.

    Raises ExplainerError for a name that cannot stand in a spec, or that another rule has.
    """
    if not re.fullmatch(r"[a-z0-9_-]+", rule.name):
        raise ExplainerError(f"A rule cannot be called {rule.name!r}: send lower-case letters, digits, - and _.")
    if rule.name in RULES or rule.name == "custom":
        raise ExplainerError(f"There is already a rule {rule.name}.")
    RULES[rule.name] = rule
    return rule


def gradient_rules() -> tuple[str, ...]:
    """List the names of the rules that carry gradients."""
    return tuple(name for name, rule in RULES.items() if not rule.is_relevance)


def rule_of(choices: Mapping[str, Any]) -> Rule:
    """Return the rule with these choices, a known rule if one has them; kinds of operators that are not named follow the ordinary gradient.

    Raises ExplainerError for a kind of operator or a choice that does not exist, and for choices that cannot be combined.
    """
    for field in choices:
        if field not in OPERATOR_KINDS:
            raise ExplainerError(f"A rule has no {field!r}: there are {', '.join(OPERATOR_KINDS)}.")
    made = Rule(**choices)
    return next((rule for rule in RULES.values() if rule.choices == made.choices), made)

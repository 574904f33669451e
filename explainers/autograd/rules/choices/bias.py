"""Whether the methods of FullGrad count biases."""

from __future__ import annotations

from explainers.autograd.rules.choices.base import Choice


class BiasChoice(Choice):
    """What becomes of the bias terms of a backward pass, which does not depend on it."""

    kind = "bias"
    accounts = True
    is_ordinary = True


class Counted(BiasChoice):
    """They are counted."""

    value = True
    title = "counted"
    says = "FullGrad's methods count them."
    has_linear_form = True


class LeftOut(BiasChoice):
    """They are not."""

    value = False
    title = "left out"
    says = "FullGrad's methods leave them out."


CHOICES: tuple[BiasChoice, ...] = (Counted(), LeftOut())

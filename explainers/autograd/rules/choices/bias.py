"""Choices of whether the methods of FullGrad count biases."""

from __future__ import annotations

from explainers.autograd.rules.choices.base import Choice


class BiasChoice(Choice):
    """Base of the choices of whether bias terms are counted in a backward pass; the pass itself does not depend on them."""

    kind = "bias"
    accounts = True
    is_ordinary = True


class Counted(BiasChoice):
    """Choice that counts the bias terms of a backward pass."""

    value = True
    title = "counted"
    says = "FullGrad's methods count them."
    has_linear_form = True


class LeftOut(BiasChoice):
    """Choice that leaves the bias terms of a backward pass out."""

    value = False
    title = "left out"
    says = "FullGrad's methods leave them out."


CHOICES: tuple[BiasChoice, ...] = (Counted(), LeftOut())

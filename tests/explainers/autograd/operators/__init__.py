"""The table of operators: every torch function that has a handler, in some row, with its twin under every rule."""

from tests.explainers.autograd.operators import attention, elementwise, linear, moving, norms, pooling
from tests.explainers.autograd.operators.case import Case

CASES: list[Case] = [*linear.CASES, *attention.CASES, *norms.CASES, *elementwise.CASES, *pooling.CASES, *moving.CASES]

__all__ = ["CASES", "Case"]

"""The table of operators: every torch function that has a handler, in some row, with its twin under every rule."""

from tests.explainers.support.operator_cases import (
    attention,
    contractions,
    data_made,
    elementwise,
    linear,
    moving,
    norms,
    pooling,
    rearranged,
)
from tests.explainers.support.operator_cases.case import Case

CASES: list[Case] = [
    *linear.CASES,
    *attention.CASES,
    *norms.CASES,
    *elementwise.CASES,
    *pooling.CASES,
    *moving.CASES,
    *contractions.CASES,
    *rearranged.CASES,
    *data_made.CASES,
]

__all__ = ["CASES", "Case"]

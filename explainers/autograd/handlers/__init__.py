"""Handlers, which turn torch functions into operators.

Importing this package registers all handlers with ``explainers.autograd.dispatch``.
"""

from explainers.autograd.handlers import attention, contractions, elementwise, linear, norms, pooling, scattering, written_out

__all__ = ["attention", "contractions", "elementwise", "linear", "norms", "pooling", "scattering", "written_out"]

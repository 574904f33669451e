"""Which operators a torch function becomes.

Importing this package registers all handlers with ``explainers.autograd.dispatch``.
"""

from explainers.autograd.handlers import attention, elementwise, linear, norms, pooling

__all__ = ["attention", "elementwise", "linear", "norms", "pooling"]

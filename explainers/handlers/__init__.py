"""The handlers: which operators a torch function becomes. Importing this package registers them all with ``explainers.dispatch``."""

from explainers.handlers import attention, elementwise, linear, norms, pooling

__all__ = ["attention", "elementwise", "linear", "norms", "pooling"]

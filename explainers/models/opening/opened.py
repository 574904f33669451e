"""Keep the model that a module was opened as in the module itself, so that a second opening need not wrap and check it again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import nn

from explainers.models.model import Model

_PLACE = "_vitrine_opened"


@dataclass(eq=False)
class Opened:
    """A model and how it was opened; ``twin`` is the original module, if the model has a copy or a new module, whose answers it must
    reproduce.
    """

    model: Model
    twin: nn.Module | None = None


class _Entry:
    """An entry in the ``__dict__`` of a module, which is freed with the module; in copies and pickles of the module it is None.

    A dictionary with weak keys cannot be used: the model refers to the module, which would then never be freed.
    """

    def __init__(self, opened: Opened, state: tuple[tuple[int, int], ...]) -> None:
        self.opened, self.state = opened, state

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()


def _state(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Return the identities and versions of all tensors of a module; the result changes when a weight is written or replaced."""
    tensors = chain(module.parameters(), module.buffers())
    return tuple((id(tensor), -1 if tensor.is_inference() else tensor._version) for tensor in tensors)


def keep_opened(module: nn.Module, opened: Opened) -> None:
    """Store the record of how a model was opened in its ``module``."""
    module.__dict__[_PLACE] = _Entry(opened, _state(module))


def find_opened(module: nn.Module) -> Opened | None:
    """Return the record of how ``module`` was opened before; None if it was not, or if a weight has changed since."""
    holder = module.__dict__.get(_PLACE)
    return holder.opened if isinstance(holder, _Entry) and holder.state == _state(module) else None

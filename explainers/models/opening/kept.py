"""What a module was opened as, kept with the module and no longer: opened twice, it is wrapped and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import nn

from explainers.models.model import Model

_PLACE = "_vitrine_opened"


@dataclass(eq=False)
class Opened:
    """A model, and the ``twin`` that it must answer like, where that is another object than its module."""

    model: Model
    twin: nn.Module | None = None


class _Kept:
    """Lies in a module's ``__dict__``, so that both go together; a copy of the module, and a file of it, has nothing in its place.

    A dictionary of weak references would not do: the model holds the module, which would then never go.
    """

    def __init__(self, opened: Opened, state: tuple[tuple[int, int], ...]) -> None:
        self.opened, self.state = opened, state

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()


def _state(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Changes whenever a weight of the module is written to, or replaced."""
    tensors = chain(module.parameters(), module.buffers())
    return tuple((id(tensor), -1 if tensor.is_inference() else tensor._version) for tensor in tensors)


def keep(module: nn.Module, opened: Opened) -> None:
    """Keep what ``module`` was opened as."""
    module.__dict__[_PLACE] = _Kept(opened, _state(module))


def kept(module: nn.Module) -> Opened | None:
    """What ``module`` was opened as, if its weights are the same since; else None."""
    holder = module.__dict__.get(_PLACE)
    return holder.opened if isinstance(holder, _Kept) and holder.state == _state(module) else None

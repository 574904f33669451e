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
    """A model; ``twin``: an original whose answers must equal its own, where its module is a copy or a new one."""

    model: Model
    twin: nn.Module | None = None


class _Entry:
    """An entry in the ``__dict__`` of a module, which is freed with the module; in copies and pickles of the module it is None.

    A dictionary with weak keys would not do: the model refers to the module, which would then never be freed.
    """

    def __init__(self, opened: Opened, state: tuple[tuple[int, int], ...]) -> None:
        self.opened, self.state = opened, state

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()


def _state(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Return identities and versions of all tensors of a module: a value that changes when a weight is written or replaced."""
    tensors = chain(module.parameters(), module.buffers())
    return tuple((id(tensor), -1 if tensor.is_inference() else tensor._version) for tensor in tensors)


def keep_opened(module: nn.Module, opened: Opened) -> None:
    """Store the record of how a model was opened in its ``module``."""
    module.__dict__[_PLACE] = _Entry(opened, _state(module))


def find_opened(module: nn.Module) -> Opened | None:
    """Return the record of how ``module`` was opened before; None where it never was, or a weight has changed since."""
    holder = module.__dict__.get(_PLACE)
    return holder.opened if isinstance(holder, _Entry) and holder.state == _state(module) else None

"""The computation before a model's first block, done once for one input: a convolutional stem can cost as much as all blocks."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Stem(TorchFunctionMode):
    """A function mode that keeps every result of torch functions until :meth:`end` is called, and from the second pass on returns these
    results in the same order instead of computing them. It works for passes over the same input in one thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._results: list[tuple[Any, Tensor]] = []
        self._next = 0
        self._is_known, self._is_before = False, True

    def __enter__(self) -> Self:
        self._next, self._is_before = 0, True
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._is_before and self._is_known and self._next < len(self._results) and self._results[self._next][0] is func:
            self._next += 1
            return self._results[self._next - 1][1]
        out = func(*args, **(kwargs or {}))
        if self._is_before and not self._is_known and isinstance(out, Tensor):
            self._results.append((func, out))
        return out

    def end(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """End the shared part: a hook on the first block, with its module and arguments, after which everything is computed in each
        pass.
        """
        self._is_known, self._is_before = True, False

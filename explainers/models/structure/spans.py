"""Blocks that are no module of their own: a loop calls the parts of each one by one, and adds the residual itself, as vit-pytorch's
``[attention, mlp]``.

A span stands for such a block: it begins where its first part is called, and ends where whatever runs next is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from explainers.models.structure.hooks import remove_hooks_after


class Span(nn.Module):
    """A block whose parts, from ``first`` on, a loop calls one by one, until it calls the module ``after``. A hook that is registered on
    the span becomes hooks on these parts. What a hook returns in place of the block's input or output reaches ``first`` or ``after`` alone,
    not the residual path that the loop adds.
    """

    def __init__(self, parts: Sequence[nn.Module], after: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.__dict__["_after"] = after  # no part of this block

    def register_forward_pre_hook(self, hook: Callable[..., Any], **how: Any) -> Any:
        """Register ``hook`` on the input of the first part of the span, called with the span as its module, and return its handle; ``how``
        may hold ``with_kwargs``.
        """
        with_kwargs = how.get("with_kwargs", False)

        def begin(module: nn.Module, args: Any, kwargs: Any) -> Any:
            return hook(self, args, kwargs) if with_kwargs else hook(self, args)

        return self.parts[0].register_forward_pre_hook(begin, with_kwargs=True) if with_kwargs else _plain(self.parts[0], begin)

    def register_forward_hook(self, hook: Callable[..., Any], **how: Any) -> Any:
        """Register ``hook`` on the output of the span, the tensor passed to the module that runs after it, called with the span as its
        module, and return its handle; ``how`` may hold ``with_kwargs``.
        """
        with_kwargs = how.get("with_kwargs", False)

        def end(module: nn.Module, args: Any, kwargs: Any) -> Any:
            output = hook(self, (), {}, args[0]) if with_kwargs else hook(self, (), args[0])
            return None if output is None else ((output, *args[1:]), kwargs)

        after: nn.Module = self.__dict__["_after"]
        return after.register_forward_pre_hook(end, with_kwargs=True)


def _plain(part: nn.Module, begin: Callable[[nn.Module, Any, Any], Any]) -> Any:
    return part.register_forward_pre_hook(lambda module, args: begin(module, args, {}))


def spans_of(module: nn.Module, run: Callable[[], Any]) -> dict[str, list[nn.Module]]:
    """Find blocks that are never called as modules, because a loop calls their parts one by one on one stream of tokens: run one pass,
    ``run()``, and return a list of :class:`Span` for each row of such blocks, by the name of its list.

    A row is left out if its stream is not passed unchanged to any module after the last block, since the end of the block is then unknown.
    """
    lists = {
        name: [list(child.children()) for child in part.children()]
        for name, part in module.named_modules()
        if isinstance(part, nn.ModuleList)
        and len(part)
        and all(isinstance(child, nn.ModuleList | nn.ModuleDict) and len(child) > 1 for child in part.children())
    }
    if not lists:
        return {}
    calls: list[tuple[nn.Module, Tensor | None]] = []  # in the order in which they begin, with their first tensor

    def note(child: nn.Module, args: Any) -> None:
        calls.append((child, args[0] if args and isinstance(args[0], Tensor) else None))

    with remove_hooks_after(part.register_forward_pre_hook(note) for part in module.modules()):
        run()
    rows: dict[str, list[nn.Module]] = {}
    for name, blocks in lists.items():
        places = [next((i for i, (child, _) in enumerate(calls) if child is parts[0]), None) for parts in blocks]
        if any(place is None for place in places) or not blocks:
            continue
        inner = {id(part) for parts in blocks for top in parts for part in top.modules()}
        first = calls[places[0] or 0][1]
        last = max(place or 0 for place in places)
        after = next(
            (
                child
                for child, x in calls[last + 1 :]
                if id(child) not in inner and x is not None and first is not None and x.shape == first.shape
            ),
            None,
        )
        if after is not None:
            ends = [*(parts[0] for parts in blocks[1:]), after]
            rows[name] = [Span(parts, end) for parts, end in zip(blocks, ends, strict=True)]
    return rows

"""What a trial forward pass shows about a Transformer: its blocks, the module that takes x^1, how its tokens lie, what the head reads.

Nothing here knows a class name. A block is one of a row of alike modules that each take tokens (batch, tokens, width) and give
back tokens of the same shape; the longest such row is the Transformer. Prefix tokens are those that do not change with the image.
A classification token is one that the head reads in another way than the patches. The module is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError

Run = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Structure:
    """The blocks in the order they run (a shared block once for each time it runs), and the module whose first argument is x^1."""

    blocks: tuple[nn.Module, ...]
    entry: nn.Module
    tokens: int
    width: int


@contextmanager
def trial(module: nn.Module) -> Iterator[None]:
    """Run ``module`` in eval mode, without gradients and without touching the random state; every module's mode is put back."""
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            yield
    finally:
        for m, training in modes:
            m.training = training


@contextmanager
def _hooks(handles: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(value: Any) -> Tensor | None:
    """The first tensor of a module's arguments or result: hidden states come first everywhere."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return next((found for item in value if (found := first_tensor(item)) is not None), None)
    return None


def _is_row(container: nn.Module) -> bool:
    """A list of modules of one class, each with at least two matrices: attention or mixing, and an MLP."""
    if not isinstance(container, (nn.ModuleList, nn.Sequential)) or len(container) == 0:
        return False
    children = list(container)
    return len({type(child) for child in children}) == 1 and all(sum(p.dim() == 2 for p in child.parameters()) >= 2 for child in children)


@dataclass
class _Row:
    """What was seen of one candidate row: its modules in the order of their calls, and whether they keep the shape of tokens."""

    name: str
    calls: list[nn.Module]
    shape: torch.Size | None = None
    keeps: bool = True
    norm: nn.Module | None = None  # the normalisation that made the first block's input


def find(module: nn.Module, run: Callable[[], Any], batch: int, blocks: Any = None, entry: Any = None) -> Structure:
    """Watch one forward pass of ``batch`` samples, ``run()``, and tell where the blocks are.

    ``blocks`` (a dotted name of a list of modules, or the modules) and ``entry`` (a dotted name or a module) are what the caller knows.
    Raises ExplainerError naming the argument to pass when the blocks cannot be told.
    """
    names = dict(module.named_modules())
    given = _given_blocks(names, blocks)
    containers = {"the blocks that were passed": given} if given else {name: list(c) for name, c in names.items() if _is_row(c)}
    rows = _watch(module, containers, run, batch)
    if given:
        row = rows[0]
        if not row.keeps or row.shape is None or len(row.shape) != 3:
            raise ExplainerError("blocks= must be modules that run and that take and give tokens of one shape (batch, tokens, width)")
    else:
        row = _longest(rows, containers)
    first = row.calls[0]
    return Structure(tuple(row.calls), _entry(names, row, first, entry), row.shape[1], row.shape[2])  # type: ignore[index]


def _given_blocks(names: Mapping[str, nn.Module], blocks: Any) -> list[nn.Module] | None:
    if blocks is None:
        return None
    if isinstance(blocks, str):
        if blocks not in names:
            raise ExplainerError(f"blocks={blocks!r} names no module of this model; pass a name of module.named_modules()")
        blocks = names[blocks]
    if isinstance(blocks, nn.Module) and not isinstance(blocks, (nn.ModuleList, nn.Sequential)):
        raise ExplainerError("blocks= must be a list of modules, or the dotted name of one")
    return list(blocks)


def _watch(module: nn.Module, containers: Mapping[str, Sequence[nn.Module]], run: Callable[[], Any], batch: int) -> list[_Row]:
    rows = [_Row(name, []) for name in containers]
    last_norm: list[Any] = [None, None]  # the normalisation that ran last and its result

    def before(row: _Row) -> Callable[..., None]:
        def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
            tokens = first_tensor(args) if args else first_tensor(kwargs)
            if tokens is None or tokens.dim() != 3 or len(tokens) != batch or (row.shape is not None and tokens.shape != row.shape):
                row.keeps = False
                return
            if row.shape is None:
                row.shape = tokens.shape
                norm, result = last_norm
                if result is not None and result.shape == tokens.shape and (result is tokens or torch.equal(result, tokens)):
                    row.norm = norm
            row.calls.append(child)

        return hook

    def after(row: _Row) -> Callable[..., None]:
        def hook(child: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            tokens = first_tensor(output)
            row.keeps = row.keeps and tokens is not None and tokens.shape == row.shape

        return hook

    def norm_ran(child: nn.Module, args: Any, output: Any) -> None:
        last_norm[:] = [child, output if isinstance(output, Tensor) else None]

    handles = []
    for row, children in zip(rows, containers.values(), strict=True):
        for child in dict.fromkeys(children):
            handles.append(child.register_forward_pre_hook(before(row), with_kwargs=True))
            handles.append(child.register_forward_hook(after(row), with_kwargs=True))
    for m in module.modules():
        weights = list(m.parameters())
        if weights and not list(m.children()) and all(p.dim() == 1 for p in weights):
            handles.append(m.register_forward_hook(norm_ran))
    with _hooks(handles), trial(module):
        run()
    return rows


def _longest(rows: list[_Row], containers: Mapping[str, Sequence[nn.Module]]) -> _Row:
    fit = [row for row in rows if row.calls and row.keeps]
    if not fit:
        raise ExplainerError(
            "no row of blocks that take and give tokens (batch, tokens, width) was found; "
            "pass blocks= (a list of modules or its dotted name)"
        )
    # a row inside one of several blocks (MobileBERT's MLPs) is a part of that block
    rows_of_several = [row.name for row in fit if len(containers[row.name]) > 1]
    fit = [row for row in fit if not any(row.name.startswith(f"{name}.") for name in rows_of_several)]
    # of nested rows that run equally often (a group that holds one shared block), the innermost is the block
    chosen = max(fit, key=lambda row: (len(row.calls), row.name.count(".")))
    for other in rows:
        alike = other.calls and type(containers[other.name][0]) is type(containers[chosen.name][0]) and other.shape != chosen.shape
        inside = other.name.startswith(f"{chosen.name}.")
        larger = not other.keeps and not inside and len(containers[other.name]) > len(containers[chosen.name])
        if other is not chosen and (alike or larger):
            raise ExplainerError(
                f"the blocks lie in stages with different tokens, or not in rows of tokens ({chosen.name}, {other.name}); "
                "pass blocks= (the dotted name of one stage)"
            )
    return chosen


def _entry(names: Mapping[str, nn.Module], row: _Row, first: nn.Module, entry: Any) -> nn.Module:
    if isinstance(entry, str):
        if entry not in names:
            raise ExplainerError(f"entry={entry!r} names no module of this model; pass a name of module.named_modules()")
        return names[entry]
    if isinstance(entry, nn.Module):
        return entry
    if row.norm is not None:
        # A norm beside the blocks (norm_pre, pre_layrnorm) takes x^1; one that belongs to the embeddings (BERT) makes it.
        path = {id(m): name for name, m in names.items()}
        parent = path[id(row.norm)].rpartition(".")[0]
        if path[id(first)].startswith(f"{parent}." if parent else ""):
            return row.norm
    return first


class _Enough(Exception):
    """Ends a trial pass early."""


def changing_tokens(module: nn.Module, entry: nn.Module, run: Run, tensors: Mapping[str, Tensor]) -> Tensor:
    """bool (S,): which tokens of x^1 differ between the two images in ``tensors``: the patches, not the prefix."""
    seen: list[Tensor] = []

    def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
        tokens = first_tensor(args) if args else first_tensor(kwargs)
        if tokens is not None:
            seen.append(tokens)
            raise _Enough

    with _hooks([entry.register_forward_pre_hook(hook, with_kwargs=True)]), trial(module), suppress(_Enough):
        run(tensors)
    return (seen[0][0] != seen[0][1]).any(-1).cpu()


def class_token(module: nn.Module, structure: Structure, run: Run, tensors: Mapping[str, Tensor], prefix: int | None) -> int | None:
    """Index of the classification token, -1 where the head reads one token that is not the first, or None where it pools.

    All tokens that leave the last block are made the same. A mean or attention pooling then hears each of them alike, by symmetry; a head
    that reads a classification token hears token 0 and, in another way or not at all, the first token that is no prefix. In a text it may
    hear one other token alone, the last word or the end of the text, whose place is another in every text.
    ``tensors`` holds one sample. ``prefix`` is None for text, where token 0 may be one, and 0 where there can be none.
    """
    if prefix == 0:
        return None
    last = structure.blocks[-1]
    calls_left = structure.blocks.count(last)  # a shared block runs several times; the last time counts
    leaf: Tensor | None = None

    def hook(child: nn.Module, args: Any, output: Any) -> Any:
        nonlocal calls_left, leaf
        calls_left -= 1
        tokens = first_tensor(output)
        if calls_left or tokens is None:
            return None
        torch.set_grad_enabled(True)  # from here to the output; trial() puts it back
        leaf = tokens[:, :1].expand_as(tokens).clone().requires_grad_()
        return _with_first_tensor(output, leaf)

    with _hooks([last.register_forward_hook(hook)]), trial(module):
        logits = run(tensors)[0]
        assert leaf is not None
        weights = torch.linspace(1, 2, len(logits), dtype=logits.dtype, device=logits.device)
        (gradient,) = torch.autograd.grad((logits * weights).sum(), leaf)
    scale = gradient.abs().max()
    heard = (gradient[0].abs().amax(-1) > 1e-6 * scale).tolist()
    if prefix is None and heard.count(True) == 1:
        return 0 if heard[0] else -1
    first, other = gradient[0, 0], gradient[0, -1 if prefix is None else prefix]
    return 0 if heard[0] and bool((first - other).abs().max() > 1e-3 * scale) else None


def _with_first_tensor(output: Any, tensor: Tensor) -> Any:
    """``output`` of a block with its tokens replaced."""
    if isinstance(output, Tensor):
        return tensor
    if isinstance(output, tuple):
        return (tensor, *output[1:])
    raise ExplainerError(f"a block gives a {type(output).__name__}, not tokens or a tuple that starts with them; pass class_token=")

"""A check for tokens that are dropped or merged before the explained blocks, so that those left are no grid over the picture."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import EarlierCall, Structure, first_tensor, trial
from explainers.models.structure.hooks import remove_hooks_after
from explainers.models.structure.watching import Enough, with_first_tensor

#: How far tokens are moved, in their deviations: so little that a choice of tokens by their size stays the same.
_STEP = 1e-3
#: In how many directions: along one, what several tokens add up to may all but cancel.
_DIRECTIONS = 4
#: Of the strongest answer to it: below this, a token is made of no patch.
_NO_ANSWER = 1e-2
#: How far from where it is drawn a token may come from, in sizes of its patch; and how strongly places must correlate with those drawn,
#: mean of rows and columns, where attention lies between.
_FAR, _ALIKE = 0.45, 0.9


def are_in_place(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], place: slice, grid: tuple[int, int]
) -> bool:
    """Return whether the patches at ``place`` of the first block's tokens are a ``grid`` over the picture, for a model whose ``structure``
    has earlier blocks that take more tokens. ``run`` returns the logits of ``module`` for ``tensors``, two pictures.

    To find out, the tokens of each block are changed in proportion to their row and to their column in the picture; the changes of the next
    block's tokens then tell where these come from. The tokens of the first earlier block must be a grid.
    """
    first = structure.earlier[0]
    taken = _answers(module, run, tensors, None, first)
    if len(taken) < 2 or taken.dim() != 3:
        return True
    patches = (taken[0] != taken[1]).any(-1).cpu()
    height, width = tensors["pixel_values"].shape[-2:]
    rows = round((int(patches.sum()) * height / width) ** 0.5)
    columns = int(patches.sum()) // max(rows, 1)
    if rows * columns != int(patches.sum()):
        return True  # which patches the earlier blocks take is not known
    places = torch.full((len(patches), 2), torch.nan, dtype=torch.float64)
    places[patches] = _centres(rows, columns)
    samples = [{name: tensor[i : i + 1] for name, tensor in tensors.items()} for i in range(2)]  # which are dropped may be another in each
    return all(_is_in_place(module, structure, run, sample, places, place, grid) for sample in samples)


def _is_in_place(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    sample: Mapping[str, Tensor],
    places: Tensor,
    place: slice,
    grid: tuple[int, int],
) -> bool:
    """Return whether the patches at ``place`` of the first block's tokens lie row by row in the ``grid`` over one picture, ``sample``.
    ``run`` returns the logits of ``module``, whose blocks are in ``structure``. ``places`` (S, 2) holds the row and column in the picture
    of each token that the first earlier call takes.
    """
    blurred = False
    for call, after in pairwise(structure.earlier):
        for source, target, inside in ((call, call, True), (call, after, False)):
            if inside and call.keeps_shape:
                continue
            moved = _trace_tokens(module, run, sample, source, target, places, inside)
            if moved is None:
                return True  # the blocks do not follow one another
            places, blurred = moved, blurred or inside
    if len(range(*place.indices(len(places)))) != grid[0] * grid[1]:
        return True
    seen, drawn = places[place], _centres(*grid)
    if not bool(torch.isfinite(seen).all()):
        return False
    if not blurred:  # all by as much to one side, as by a kernel that is not even, is in place
        seen, drawn = seen - seen.mean(0), drawn - drawn.mean(0)
        return bool(((seen - drawn).abs() * torch.tensor(grid) < _FAR).all())
    axes = [axis for axis, count in enumerate(grid) if count > 1]
    alike = [torch.corrcoef(torch.stack([seen[:, axis], drawn[:, axis]]))[0, 1] for axis in axes]
    return not alike or bool(torch.stack(alike).mean() > _ALIKE)


def _centres(rows: int, columns: int) -> Tensor:
    """Return the middle of each patch of a grid, (rows * columns, 2): row and column, the picture being 1 high and 1 wide."""
    down, across = ((torch.arange(count, dtype=torch.float64) + 0.5) / count for count in (rows, columns))
    return torch.stack([down.repeat_interleave(columns), across.repeat(rows)], -1)


def _trace_tokens(
    module: nn.Module, run: Forward, tensors: Mapping[str, Tensor], source: EarlierCall, target: EarlierCall, places: Tensor, inside: bool
) -> Tensor | None:
    """Find from where in the picture the tokens of a later block (the call ``target``) come, by changing those of an earlier one (the call
    ``source``), whose ``places`` (S, 2) in the picture are known.

    Returns the row and column of each token (S, 2), NaN for a token of no patch; None if the later tokens do not depend on the earlier
    ones. ``inside`` traces the tokens that ``target`` returns; else those that it gets. ``run`` returns the logits of ``module`` for
    ``tensors``.
    """
    known = torch.isfinite(places).all(-1)
    codes = torch.stack([torch.zeros_like(places[:, 0]), known.double(), *(1 + places).nan_to_num().unbind(-1)])
    along, size = torch.zeros(()), torch.zeros(())
    for seed in range(_DIRECTIONS):
        x = _answers(module, run, tensors, codes, target, source, inside, seed)
        if len(x) != len(codes) or x.dim() != 3:
            return None
        plain, *coded = (x[1:] - x[0]).double().cpu()
        along = along + torch.stack([(each * plain).sum(-1) for each in coded], -1)
        size = size + plain.square().sum(-1)
    if not bool(size.max()):
        return None
    return (along / size[:, None] - 1).where((size > _NO_ANSWER**2 * size.max())[:, None], torch.nan)


def _answers(
    module: nn.Module,
    run: Forward,
    tensors: Mapping[str, Tensor],
    codes: Tensor | None,
    target: EarlierCall,
    source: EarlierCall | None = None,
    inside: bool = False,
    seed: int = 0,
) -> Tensor:
    """Run ``module`` on ``tensors`` by ``run`` and return the tokens that the call ``target`` takes, or with ``inside`` returns: one sample
    for each row of ``codes`` (N, S), by which the tokens of the call ``source`` are changed. With ``codes`` None nothing is changed.
    ``seed`` draws the direction of the change.
    """
    seen: list[Tensor] = []

    def moved(x: Tensor) -> Tensor:
        assert codes is not None
        direction = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(seed)).to(x)
        step = _STEP * (10 if x.dtype.itemsize < 4 else 1) * x.std()
        return x + step * codes.to(x)[..., None] * direction

    def counted(call: EarlierCall) -> Any:
        left = [call.number]

        def is_it() -> bool:
            left[0] -= 1
            return left[0] == 0

        return is_it

    def capture(value: Any) -> None:
        tokens = first_tensor(value)
        if tokens is not None:
            seen.append(tokens)
        raise Enough

    handles = []
    if source is not None:
        before, after = counted(source), counted(source)

        def enter(child: nn.Module, args: Any, kwargs: Any) -> Any:
            if before() and inside and args and isinstance(args[0], Tensor):
                return (moved(args[0]), *args[1:]), kwargs
            return None

        def leave(child: nn.Module, args: Any, output: Any) -> Any:
            if not after():
                return None
            if inside:
                capture(output)
            tokens = first_tensor(output)
            return None if tokens is None else with_first_tensor(output, moved(tokens))

        handles += [source.block.register_forward_pre_hook(enter, with_kwargs=True), source.block.register_forward_hook(leave)]
    if not inside:
        arrives = counted(target)

        def arrive(child: nn.Module, args: Any, kwargs: Any) -> None:
            if arrives():
                capture(args or kwargs)

        handles.append(target.block.register_forward_pre_hook(arrive, with_kwargs=True))
    pixels = tensors["pixel_values"]
    given = tensors if codes is None else {**tensors, "pixel_values": pixels[:1].repeat(len(codes), 1, 1, 1)}
    with remove_hooks_after(handles), trial(module), suppress(Enough, ExplainerError):
        run(given)
    return seen[0] if seen else pixels.new_zeros(0)

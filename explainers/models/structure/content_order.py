"""Tokens whose order depends on what the input shows: whether a model may have such, and a check of one input.

At opening the order of tokens is tried on a few inputs. A forward that mirrors a dark picture, or turns a text round by its first word, may
keep the order of these and change that of another. Such a model reads numbers of its input in Python, or picks tokens by indices that it
computes from them, which one trial pass sees. Only for such a model each explained input is checked by itself, up to the first block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from explainers.errors import ExplainerError
from explainers.models.layout import Layout
from explainers.models.libraries.recognition import clip_shape
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import Structure
from explainers.models.structure.layouts import check_places
from explainers.models.structure.pixel_patches import PatchesOfPixels
from explainers.models.structure.watching import embed
from explainers.models.structure.word_places import LOOKUPS, find_word_places, tables_of_words

#: How far rows of the embedding table are moved, in deviations of the rows of the text; in 16 bits, where rounding is coarse, more.
_STEP, _STEP_16_BITS = 1e-3, 0.3
#: How many codes tell words apart: where each embedded token is of one word, and where several come together in it.
_CODES, _CODES_OF_MIXED = 3, 16
#: How many times nearer another word's codes must be than those of the word at which a token is drawn, for it to be of that other word.
_NEARER = 2
#: How much an embedded token must change, relative to the one that changes most, to say anything.
_MOVED = 0.01

#: Operators of torch that give numbers of a tensor to Python, or a tensor whose size depends on them.
_READS = frozenset(
    ["_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive"]
)
#: Operators of torch that order numbers by their size, or pick some by it. Those that turn by a fixed amount are none.
_ORDERS = frozenset(["sort", "topk", "kthvalue", "median"])
#: Operators of torch that pick or place numbers of one tensor by those of another.
_PICKS = frozenset(
    [
        *("index", "gather", "take", "index_select", "embedding", "grid_sampler_2d", "grid_sampler_3d", "where", "scatter", "scatter_add"),
        *("scatter_reduce", "index_put", "_index_put_impl", "_unsafe_index", "_unsafe_index_put", "index_add", "index_copy"),
        *("masked_scatter", "repeat_interleave"),
    ]
)
#: Operators of torch whose results are steps: they are constant nearly everywhere, as a choice is.
_STEPS = frozenset(["sign", "sgn", "round", "floor", "ceil", "trunc", "heaviside"])
#: Operators of torch that multiply one tensor by another, by which a choice of 0 or 1, or one number for a whole input, picks one of two
#: orders.
_PRODUCTS = frozenset(["mul", "mm", "bmm", "addmm", "baddbmm", "lerp", "addcmul", "mv", "dot", "convolution"])
#: Methods of tensors that give their numbers to Python without an operator.
_NUMBERS = frozenset(["numpy", "tolist", "__array__", "__dlpack__"])


class _Choices(TorchDispatchMode):
    """A mode of torch for one pass that follows which tensors are made of the ``inputs``. ``is_seen`` is then whether numbers of theirs
    were read in Python, or decided which others are picked.
    """

    def __init__(self, inputs: Iterator[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types there
        self.is_seen = False
        self._samples = 0
        self._made: dict[int, bool] = {}  # by the address of its memory, whether a tensor is made of the inputs by steps alone
        self._kept: list[Tensor] = []  # so that no other tensor gets that memory
        for each in inputs:
            self._add(each, is_step=not each.is_floating_point())
            self._samples = len(each)

    def made_of_input(self, tensor: Tensor) -> bool:
        """Return whether ``tensor`` is made of the inputs."""
        return tensor.untyped_storage().data_ptr() in self._made

    def _add(self, tensor: Tensor, is_step: bool) -> None:
        self._made[tensor.untyped_storage().data_ptr()] = is_step
        self._kept.append(tensor)

    def _is_step(self, tensor: Tensor) -> bool:
        return self._made[tensor.untyped_storage().data_ptr()]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__.rstrip("_")
        taken = [each for each in tree_leaves((args, kwargs or {})) if isinstance(each, Tensor)]
        made = [each for each in taken if each.numel() and self.made_of_input(each)]
        steps = [self._is_step(each) for each in made]
        out = func(*args, **(kwargs or {}))
        if not made:
            return out
        self.is_seen |= name in _READS or name in _ORDERS
        self.is_seen |= name in _PICKS and len(made) > 1
        self.is_seen |= name in _PRODUCTS and any(steps) and not all(steps)
        self.is_seen |= name in _PRODUCTS and len(made) > 1 and any(each.numel() <= self._samples < out.numel() for each in made)
        is_lookup = name in _PICKS and not self.made_of_input(taken[0])
        for each in tree_leaves(out):
            if isinstance(each, Tensor) and each.numel():
                is_step = not each.is_floating_point() or name in _STEPS or (all(steps) and name not in _PRODUCTS and not is_lookup)
                self._add(each, is_step)
        return out


class _NumbersRead(TorchFunctionMode):
    """A mode of torch that notes in ``choices`` where numbers of the inputs become a list or an array."""

    def __init__(self, choices: _Choices) -> None:
        super().__init__()
        self.choices = choices

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _NUMBERS and args and isinstance(args[0], Tensor):
            self.choices.is_seen |= self.choices.made_of_input(args[0])
        return func(*args, **(kwargs or {}))


def may_depend_on_content(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether the order of the embedded tokens x^1 of ``module`` may depend on what its input shows: on the way to its blocks (in
    ``structure``) the pass ``run(tensors)`` reads numbers of pictures or token ids in Python, picks by indices that it makes of them, or
    multiplies by steps of them or by one number for a whole input. True if that cannot be followed.
    """
    choices = _Choices(tensors[name] for name in ("pixel_values", "input_ids") if name in tensors)
    try:
        with _NumbersRead(choices), choices:
            embed(module, structure, run, tensors)
    except (NotImplementedError, RuntimeError, TypeError):  # an operator that no mode can follow
        return True
    return choices.is_seen


@dataclass(frozen=True, eq=False)
class ContentOrder:
    """A check of single inputs for a model whose order of tokens may depend on them.

    module, structure, run  the model, its blocks, and the function that returns its logits
    tables                  the parameters that are its embedding tables, for texts
    """

    module: nn.Module
    structure: Structure
    run: Forward
    tables: tuple[Tensor, ...] = ()

    def first_misplaced(self, tensors: Mapping[str, Tensor], layout: Layout) -> int | None:
        """Return the index of the first sample of ``tensors``, a batch with this ``layout``, whose embedded tokens x^1 do not lie where
        they are drawn; None if all do, as far as can be seen.
        """
        name = "pixel_values" if layout.grid is not None else "input_ids"
        count = len(tensors[name])
        for i in range(count):
            sample = {key: each[i : i + 1] if len(each) == count else each for key, each in tensors.items()}
            if not (self._are_patches_in_place if layout.grid is not None else self._are_words_in_place)(sample, layout):
                return i
        return None

    def _are_patches_in_place(self, sample: Mapping[str, Tensor], layout: Layout) -> bool:
        assert layout.grid is not None
        try:
            covered, footprint = check_places(self.module, self.structure, self.run, sample, layout.patches, layout.grid)
        except ExplainerError:
            return False
        is_of_others = footprint is not None and footprint.is_of_other_pixels
        return covered == layout.covered and (not is_of_others or (layout.footprint is not None and layout.footprint.is_of_other_pixels))

    def _are_words_in_place(self, sample: Mapping[str, Tensor], layout: Layout) -> bool:
        """Return whether the embedded tokens of a text are of the words at which they are drawn. Each different token gets codes, by which
        its row of the embedding table is moved a little, as far as it is looked up; how the embedded tokens then move shows their codes.
        """
        ids = sample["input_ids"][0]
        mask = sample.get("attention_mask")
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None or mask.shape[1:] != ids.shape else mask[0].bool()
        words, place = ids.unique(return_inverse=True)
        count = _CODES if layout.own_word_share is None else _CODES_OF_MIXED
        codes = torch.randn(count, len(words), generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(ids.device)
        moves = torch.cat([torch.zeros_like(codes[:1]), torch.ones_like(codes[:1]), 1 + codes])
        texts = {name: each.expand(len(moves), *each.shape[1:]) if len(each) == 1 else each for name, each in sample.items()}
        with _MovedRows(self.tables, words, moves):
            x = embed(self.module, self.structure, self.run, texts)
        if len(x) != len(moves) or x.shape[1] < len(ids):
            return self._are_changes_in_place(sample)
        plain, *coded = (x[1:] - x[:1])[:, : len(ids)].double()
        size = plain.square().sum(-1)
        if not bool(size.max()):  # the embedding is not looked up in a table that is known
            return self._are_changes_in_place(sample)
        seen = torch.stack([(plain * each).sum(-1) for each in coded], -1) / size.clamp_min(torch.finfo(size.dtype).tiny)[:, None] - 1
        distances = torch.cdist(seen, codes.T)
        to_own, nearest = distances.gather(1, place[:, None])[:, 0], distances.amin(1)
        says = real & (size > _MOVED**2 * size.max())
        return not bool((says & (_NEARER * nearest < to_own)).any())

    def _are_changes_in_place(self, sample: Mapping[str, Tensor]) -> bool:
        """Return whether other tokens in place of some of a text's change the embedded tokens in their places."""
        try:
            find_word_places(self.module, self.structure, self.run, sample)
        except ExplainerError:
            return False
        return True


class _MovedRows(TorchFunctionMode):
    """A mode of torch that moves rows of the embedding ``tables`` where they are looked up: those of the token ids ``words`` (sorted), by
    the ``moves`` (N, words) for each of the N texts of a batch, all in one direction.
    """

    def __init__(self, tables: tuple[Tensor, ...], words: Tensor, moves: Tensor) -> None:
        super().__init__()
        self.tables, self.words, self.moves = {id(table) for table in tables}, words, moves

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rows = func(*args, **(kwargs or {}))
        if func not in LOOKUPS:
            return rows
        tensors = [each for each in (*args, *(kwargs or {}).values()) if isinstance(each, Tensor)]
        ids = next((each for each in tensors if each.dim() == 2 and not each.is_floating_point() and len(each) == len(self.moves)), None)
        if ids is None or not any(id(each) in self.tables for each in tensors) or rows.shape[:2] != ids.shape:
            return rows
        index = torch.searchsorted(self.words, ids.contiguous()).clamp_max(len(self.words) - 1)
        by = self.moves.gather(1, index).where(self.words[index] == ids, 0)
        direction = torch.randn(rows.shape[-1], generator=torch.Generator().manual_seed(1)).to(rows)
        step = (_STEP if rows.dtype.itemsize > 2 else _STEP_16_BITS) * rows.std()
        return rows + step * by.to(rows)[..., None] * direction


def check_of_inputs(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], layout: Layout, in_order: bool
) -> Callable[[Mapping[str, Tensor], Layout], int | None] | None:
    """Return :meth:`ContentOrder.first_misplaced` for ``module``, or None if the order of its tokens cannot depend on its input.
    ``structure`` holds its blocks, ``run`` returns its logits, ``tensors`` is a sample with this ``layout``; ``in_order``: whether the
    tokens of a text must lie in the order of its words. Layouts that no single grid describes are not checked.
    """
    kind = structure.block_kind
    is_grid = layout.grid is not None and clip_shape(module) is None and not kind.patch_places and not isinstance(kind, PatchesOfPixels)
    if not (is_grid or (layout.grid is None and in_order)) or not may_depend_on_content(module, structure, run, tensors):
        return None
    if is_grid:
        return ContentOrder(module, structure, run).first_misplaced
    parameters = {name.removesuffix(".weight"): parameter for name, parameter in module.named_parameters()}
    tables = tuple(parameters[name] for name in tables_of_words(module, structure, run, tensors))
    return ContentOrder(module, structure, run, tables).first_misplaced

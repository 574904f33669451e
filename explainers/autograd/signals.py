"""Records that a recording hands out: the signals of one backward pass, and the parts of one attention."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast, overload

import torch
from torch import Tensor

from explainers.autograd.queued import Stopwatch
from explainers.autograd.rules import Rule

T = TypeVar("T")

#: Fields of :class:`Signals` that a backward pass can be asked for: the name of one, or of one block alone: ``attentions[-1]``.
Fields = frozenset[str]
PER_BLOCK = ("block_inputs", "block_outputs", "attention_inputs", "attentions", "contexts", "class_attentions", "class_contexts")
ALL: Fields = frozenset([*PER_BLOCK, "pooling", "placed", "pixels", "bias"])
#: Those that are read inside of blocks.
INSIDE_BLOCKS: Fields = frozenset(["attention_inputs", "attentions", "contexts"])
#: What the account of a rule is made of: what arrives at x^1, and the bias terms on the way.
ACCOUNT: Fields = frozenset(["block_inputs[0]", "bias"])


def fields_of(names: Iterable[str]) -> Fields:
    """Return ``names`` as a set of fields. Raises ValueError for an unknown name."""
    fields = frozenset(names)
    for field in fields:
        name, _, block = field.partition("[")
        if name not in ALL or (block and (name not in PER_BLOCK or not re.fullmatch(r"-?\d+\]", block))):
            raise ValueError(
                f"Signals have no field {field!r}; there are {', '.join(sorted(ALL))}, and of one block for instance attentions[-1]."
            )
    return fields


def covers(fields: Fields, others: Fields) -> bool:
    """Return whether the set ``fields`` includes all of ``others``; the name of a field includes the field of every single block, such as
    ``attentions[-1]``.
    """
    return all(field in fields or field.partition("[")[0] in fields for field in others)


def is_among(fields: Fields, name: str, block: int, blocks: int) -> bool:
    """Return whether ``fields`` includes the field ``name`` of the block number ``block``, out of this number of ``blocks``."""
    return bool(fields & {name, f"{name}[{block}]", f"{name}[{block - blocks}]"})


@dataclass(frozen=True)
class Signals:
    """The signals of one backward pass for one target. A signal is a gradient, or under a relevance rule a relevance.

    Fields that were not requested are None: see ``fields``.

    block_inputs  per block (B, S, D): signal at x^l; the first is x^1, the embedded tokens
    block_outputs per block (B, S, D)
    attention_inputs  per block (B, S, D): signal at the input of attention; None if queries, keys and values do not come from one tensor
    attentions    per block (B, H, S, S): signal at the attention weights; None if the block has no attention map
    contexts      per block (B, H, S, d): signal at the output of attention, before its projection; None if the block has no attention map
    pooling       (B, H, queries, S): signal at the attention with which the head pools the tokens; None if it does not
    bias          (B, S): FullGrad's bias terms by token; for relevance, the part of constants next to the tokens, such as a class token
    unplaced      (B,): bias terms that belong to no token: those of a head that pools, or inside windows of a map of tokens
    pixels        (B, C, height, width), or None if the recording did not start at the pixels
    unruled       names of functions without a rule that the signal passed by ordinary gradient
    stopwatches   of the pass, or of the passes whose signals these are sums of
    class_attentions  (B, H, 1, 1 + S) each: signal at the attention of class-attention blocks after the others, as recorded
    class_contexts  (B, H, 1, d) each: signal at the output of that attention, before its projection; None if it was not seen
    placed        (B, tokens, D): signal where position embeddings were just added to the tokens; None if none were seen being added
    missing       (B,): for a rule that accounts for the answer, the part of <output gradient, logits> that tokens and biases lack, 0 if it
                  is only rounding; None for other rules, and if the account was not requested
    errors        for relevance in float32 or lower precision, the estimated rounding error of each number, to first order (the same fields,
                  without bias); else None
    fields        the requested fields
    """

    block_inputs: tuple[Tensor, ...]
    block_outputs: tuple[Tensor, ...]
    attentions: tuple[Tensor | None, ...]
    contexts: tuple[Tensor | None, ...]
    pooling: Tensor | None
    bias: Tensor | None
    unplaced: Tensor | None
    pixels: Tensor | None
    unruled: frozenset[str]
    stopwatches: tuple[Stopwatch, ...]
    placed: Tensor | None = None
    attention_inputs: tuple[Tensor | None, ...] = ()
    class_attentions: tuple[Tensor, ...] = ()
    class_contexts: tuple[Tensor | None, ...] = ()
    missing: Tensor | None = None
    errors: Signals | None = None
    fields: Fields = ALL

    @cached_property
    def lacks_some(self) -> bool:
        """Whether the account of the rule misses a part of the answer of any sample; a GPU is waited for once."""
        return self.missing is not None and bool(self.missing.any())

    @property
    def seconds(self) -> float:
        """How long the pass took; on a GPU its end is waited for."""
        return sum(stopwatch.seconds for stopwatch in self.stopwatches)

    def moved(self, seed: int) -> Signals:
        """Return signals whose relevance, when read, is changed by its estimated rounding errors with random signs, drawn from ``seed``.
        Raises ValueError if no errors are known.
        """
        if self.errors is None:
            raise ValueError("No rounding errors were estimated for these signals.")
        return cast(Signals, _Moved(self, self.errors, seed))


class BatchTarget(Protocol):
    """Targets of a batch, which say where a backward pass starts for each sample."""

    def repeat(self, times: int) -> BatchTarget:
        """Return this target for a batch in which each sample is repeated ``times`` times in a row."""

    def output_gradient(self, logits: Tensor, rule: Rule) -> Tensor:
        """Return the gradient (B, C) with which the backward pass under ``rule`` begins at ``logits`` (B, C)."""


class PerBlock(Sequence[T]):
    """A sequence with one element for each block, computed by a function of the block's value and number whenever it is read. Nothing is
    cached, since all elements together are large.
    """

    def __init__(self, values: Sequence[Any], function: Callable[[Any, int], T]) -> None:
        self._values, self._function = values, function

    @overload
    def __getitem__(self, block: int) -> T: ...

    @overload
    def __getitem__(self, block: slice) -> Sequence[T]: ...

    def __getitem__(self, block: int | slice) -> T | Sequence[T]:
        if isinstance(block, slice):
            return [self[each] for each in range(len(self))[block]]
        number = range(len(self))[block]
        return self._function(self._values[number], number)

    def __len__(self) -> int:
        return len(self._values)


class _Moved:
    """Signals with a random rounding error added to each field when it is read, block by block."""

    def __init__(self, signals: Signals, errors: Signals, seed: int) -> None:
        self._signals, self._errors, self._seed = signals, errors, seed

    def __getattr__(self, name: str) -> Any:
        value, error = getattr(self._signals, name), getattr(self._errors, name)
        if name in PER_BLOCK:
            moved: Any = PerBlock(value, lambda v, block: None if v is None else self._move(v, error[block]))
        elif name in ("pooling", "pixels", "placed") and value is not None:
            moved = self._move(value, error, one_sign=name == "pixels")
        else:
            return value
        setattr(self, name, moved)
        return moved

    def _move(self, value: Tensor, error: Tensor, one_sign: bool = False) -> Tensor:
        # Linear maps spread one error over a row, so its signs are alike: they differ between tokens, and at every other draw within
        # attention maps too. Heads and samples have one draw, and a map of pixels one sign: nothing averages out.
        rows, columns = value.shape[-2:]
        shape = (1, 1) if one_sign else (rows, columns) if rows == 1 or (rows == columns and self._seed % 2) else (rows, 1)
        generator = torch.Generator().manual_seed(self._seed)
        signs = torch.randint(0, 2, shape, generator=generator).to(value) * 2 - 1
        return torch.addcmul(value, error, signs)


@dataclass(frozen=True)
class AttentionParts:
    """The tensors of one attention: queries, keys, values and outputs (B, H, S, d), and weights (B, H, S, S)."""

    query: Tensor
    key: Tensor
    value: Tensor
    weights: Tensor
    output: Tensor

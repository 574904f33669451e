"""In which form the blocks of a model take and give tokens, and the one row of them, (B, S, D), that everything else reads.

Most blocks take and give one tensor, a row of tokens or a map of them. The blocks of a Transformer in Transformer (TNT) have two: the
tokens of the patches, (B, S, D), and for each patch those of the pixels in it, (B N, n, d). Each block adds to a patch's token what its
pixels' tokens say, and passes both on, so that neither of the two alone accounts for the answer. A row of such a model is a patch's token
with the tokens of its pixels beside it, D + n d numbers; tokens before the patches have zeros there, which nothing reads.

The blocks of CrossViT take and give a list of branches, (B, S_k, D_k) each: the same image in patches of several sizes, each with tokens of
its own before them. A row has all of their tokens: first those before the patches, then the patches, finest first. Each branch has
columns of its own, D_1 + D_2 in all, for their widths have nothing to do with each other; elsewhere a token has zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Size, Tensor, cat
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.models.tokens import as_given, as_tokens, map_size, tokens_in, with_tokens

MOST_BEFORE = 16  # tokens before the patches: a classification token, registers


@dataclass(frozen=True)
class Form:
    """How tokens lie in what blocks take and give.

    channels  the axis of the width: 2, or of a map of tokens 1 or 3
    tokens_first  whether the tokens of a row lie before the samples: (S, B, D), as torch's layers have it by default
    inner     of blocks with tokens inside patches, which of their two tensors those are: 0 or 1; None of other blocks
    branches  of blocks that take a list of branches, for each how many tokens stand before its patches, and how many patches it has
    """

    channels: int = 2
    tokens_first: bool = False
    inner: int | None = None
    branches: tuple[tuple[int, int], ...] = ()

    @property
    def is_row(self) -> bool:
        """Whether blocks take and give the row itself."""
        return self.channels == 2 and not self.has_streams and not self.tokens_first

    @property
    def is_nested(self) -> bool:
        """Whether there are tokens inside patches."""
        return self.inner is not None

    @property
    def has_streams(self) -> bool:
        """Whether a row is put together from several tensors."""
        return self.inner is not None or bool(self.branches)

    @property
    def places(self) -> list[tuple[slice, slice]]:
        """For each branch, where in a row the tokens before its patches stand, and where its patches."""
        first = 0
        before = []
        for prefix, _ in self.branches:
            before.append(slice(first, first + prefix))
            first += prefix
        patches = {}
        for number in self.finest_first:
            patches[number] = slice(first, first + self.branches[number][1])
            first += self.branches[number][1]
        return [(part, patches[number]) for number, part in enumerate(before)]

    @property
    def finest_first(self) -> list[int]:
        """The branches in the order in which their patches stand in a row."""
        return sorted(range(len(self.branches)), key=lambda number: -self.branches[number][1])

    def taken(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """The row of tokens (B, S, D) among the arguments of a block. Raises ExplainerError where they are not there."""
        return self._joined(args, kwargs) if self.has_streams else self.row_of(tokens_in(args, kwargs))

    def row_of(self, x: Tensor) -> Tensor:
        """The row (B, S, D) of tokens that lie as in the one stream of a block."""
        return as_tokens(x.transpose(0, 1) if self.tokens_first else x, self.channels)

    def check(self, x: Tensor) -> None:
        """Raise ExplainerError for a row (B, S, D) of which samples and tokens could not be told apart inside the model."""
        if self.tokens_first and x.shape[0] == x.shape[1]:
            raise ExplainerError("The model lays tokens before samples, and there are as many of both: explain one input less at a time.")

    def _as_stream(self, x: Tensor, shape: Size) -> Tensor:
        """The inverse: a row as tokens lie in a stream of ``shape``."""
        return x.transpose(0, 1) if self.tokens_first else as_given(x, shape, self.channels)

    def with_taken(self, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor) -> tuple[Any, Any]:
        """The arguments of a block with other tokens (B, S, D), of as many samples and patches as there are, or of others."""
        if not self.has_streams:
            return with_tokens(args, kwargs, self._as_stream(x, tokens_in(args, kwargs).shape))
        parts = iter(self._apart(x, args, kwargs))
        made: tuple[Any, Any] = _replaced((args, kwargs), parts)
        return made

    def given(self, output: Any) -> Tensor:
        """The row of tokens (B, S, D) that a block gives."""
        return self._joined(output) if self.has_streams else self.row_of(output if isinstance(output, Tensor) else output[0])

    def with_given(self, output: Any, x: Tensor) -> Any:
        """What a block gives with other tokens (B, S, D)."""
        if self.has_streams:
            return _replaced(output, iter(self._apart(x, output)))
        first = output if isinstance(output, Tensor) else output[0]
        shown = self._as_stream(x, first.shape)
        return shown if isinstance(output, Tensor) else (shown, *output[1:])

    def streams(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
        """The tensors of tokens among the arguments of a block."""
        return tuple(self._streams(args, kwargs)) if self.has_streams else (tokens_in(args, kwargs),)

    def map_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int] | None:
        """(height, width) of the map of tokens that a block is given; None where tokens lie in a row."""
        return None if self.channels == 2 else map_size(tokens_in(args, kwargs).shape, self.channels)

    def stream_shape(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Size | None:
        """The shape of the one residual stream to which a block adds its attention; None where there are several."""
        return None if self.has_streams else tokens_in(args, kwargs).shape

    def _streams(self, *given: Any) -> list[Tensor]:
        count = len(self.branches) or 2
        streams = floating(given)[:count]
        if len(streams) < count:
            raise ExplainerError(f"A block was called without its {count} tensors of tokens: check blocks= and entry= of wrap().")
        return streams

    def _joined(self, *given: Any) -> Tensor:
        streams = self._streams(*given)
        return branched(streams, self) if self.branches else beside(*(streams[::-1] if self.inner == 0 else streams))

    def _apart(self, x: Tensor, *given: Any) -> tuple[Tensor, ...]:
        """Tokens in tensors, shaped and in the order in which they were given."""
        streams = self._streams(*given)
        if self.branches:
            parts = x.split([stream.shape[-1] for stream in streams], -1)
            return tuple(cat([part[:, before], part[:, patches]], 1) for part, (before, patches) in zip(parts, self.places, strict=True))
        outer, inner = streams[::-1] if self.inner == 0 else streams
        width, before = outer.shape[-1], outer.shape[1] - len(inner) // len(outer)
        # copies: a block may write into what it is given
        parts = x[..., :width].clone(), x[:, before:, width:].reshape(-1, *inner.shape[1:])
        return parts[::-1] if self.inner == 0 else parts


def beside(outer: Tensor, inner: Tensor) -> Tensor:
    """Rows (B, S, D + n d): tokens (B, S, D), and beside those of the N last the tokens (B N, n, d) inside them."""
    within = inner.reshape(len(outer), -1, inner.shape[1] * inner.shape[2])
    return cat([outer, F.pad(within, (0, 0, outer.shape[1] - within.shape[1], 0))], -1)


def branched(streams: Sequence[Tensor], form: Form) -> Tensor:
    """Rows (B, S, D_1 + D_2 ...) of all branches' tokens (B, S_k, D_k)."""
    widths = [stream.shape[-1] for stream in streams]
    padded = [
        F.pad(stream, (sum(widths[:number]), sum(widths[number + 1 :]), 0, 0))  # in columns of its own
        for number, stream in enumerate(streams)
    ]
    before = [rows[:, :prefix] for rows, (prefix, _) in zip(padded, form.branches, strict=True)]
    return cat([*before, *(padded[number][:, form.branches[number][0] :] for number in form.finest_first)], 1)


def floating(value: Any) -> list[Tensor]:
    """The tensors of floating point in arguments or in a result, in order."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for item in value for tensor in floating(item)] if isinstance(value, (tuple, list)) else []


def nested_form(taken: Sequence[Tensor], given: Sequence[Tensor], batch: int) -> Form | None:
    """The form of a block that takes and gives tokens of ``batch`` samples and, for each patch, tokens inside it; None of another block."""
    shapes = [tensor.shape for tensor in taken[:2]]
    if len(shapes) < 2 or shapes != [tensor.shape for tensor in given[:2]] or any(len(shape) != 3 for shape in shapes):
        return None
    for inner in (0, 1):
        outer, within = shapes[1 - inner], shapes[inner]
        patches = within[0] // batch
        if outer[0] == batch < within[0] == batch * patches and 0 <= outer[1] - patches <= min(MOST_BEFORE, patches - 1):
            return Form(inner=inner)
    return None


def branched_form(args: Sequence[Any], output: Any) -> Form | None:
    """The form of a block whose first argument and whose output are lists of branches of tokens, of two different samples or more; None of
    another block. Tokens before the patches are the same in all samples.
    """
    lists = [args[0] if args else None, output]
    if not all(isinstance(value, (tuple, list)) and len(value) > 1 for value in lists):
        return None
    taken, given = (floating(value) for value in lists)
    if [x.shape for x in taken] != [x.shape for x in given] or len(taken) != len(lists[0]) or any(x.dim() != 3 for x in taken):
        return None
    if len(taken[0]) < 2 or any(len(x) != len(taken[0]) for x in taken):
        return None
    changing = [(x[0] != x[1]).any(-1) for x in taken]
    before = [int(tokens.int().argmax()) for tokens in changing]
    counts = [x.shape[1] - first for x, first in zip(taken, before, strict=True)]
    if len({x.shape[1] for x in taken}) < len(taken) or not all(
        bool(tokens[first:].all()) for tokens, first in zip(changing, before, strict=True)
    ):
        return None
    return Form(branches=tuple(zip(before, counts, strict=True)))


def _replaced(value: Any, tensors: Any) -> Any:
    """``value`` with its first tensors of floating point replaced, as long as there are others."""
    if isinstance(value, Tensor):
        return next(tensors, value) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _replaced(item, tensors) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)([_replaced(item, tensors) for item in value])
    return value

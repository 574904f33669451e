"""In which form the blocks of a model take and give tokens, and the one row of them, (B, S, D), that everything else reads.

Most blocks take and give one tensor, a row of tokens or a map of them. The blocks of a Transformer in Transformer (TNT) have two: the
tokens of the patches, (B, S, D), and for each patch those of the pixels in it, (B N, n, d). Each block adds to a patch's token what its
pixels' tokens say, and passes both on, so that neither of the two alone accounts for the answer. A row of such a model is a patch's token
with the tokens of its pixels beside it, D + n d numbers; tokens before the patches have zeros there, which nothing reads.
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
    inner     of blocks with tokens inside patches, which of their two tensors those are: 0 or 1; None of other blocks
    """

    channels: int = 2
    inner: int | None = None

    @property
    def is_row(self) -> bool:
        """Whether blocks take and give the row itself."""
        return self.channels == 2 and self.inner is None

    @property
    def is_nested(self) -> bool:
        """Whether there are tokens inside patches."""
        return self.inner is not None

    def taken(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """The row of tokens (B, S, D) among the arguments of a block. Raises ExplainerError where they are not there."""
        if self.inner is None:
            return as_tokens(tokens_in(args, kwargs), self.channels)
        return beside(*self._outer_first(args, kwargs))

    def with_taken(self, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor) -> tuple[Any, Any]:
        """The arguments of a block with other tokens (B, S, D), of as many samples and patches as there are, or of others."""
        if self.inner is None:
            return with_tokens(args, kwargs, as_given(x, tokens_in(args, kwargs).shape, self.channels))
        parts = iter(self._apart(x, args, kwargs))
        made: tuple[Any, Any] = _replaced((args, kwargs), parts)
        return made

    def given(self, output: Any) -> Tensor:
        """The row of tokens (B, S, D) that a block gives."""
        if self.inner is None:
            return as_tokens(output if isinstance(output, Tensor) else output[0], self.channels)
        return beside(*self._outer_first(output))

    def with_given(self, output: Any, x: Tensor) -> Any:
        """What a block gives with other tokens (B, S, D)."""
        if self.inner is not None:
            return _replaced(output, iter(self._apart(x, output)))
        first = output if isinstance(output, Tensor) else output[0]
        shown = as_given(x, first.shape, self.channels)
        return shown if isinstance(output, Tensor) else (shown, *output[1:])

    def streams(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
        """The tensors of tokens among the arguments of a block."""
        return (tokens_in(args, kwargs),) if self.inner is None else self._outer_first(args, kwargs)

    def map_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int] | None:
        """(height, width) of the map of tokens that a block is given; None where tokens lie in a row."""
        return None if self.channels == 2 else map_size(tokens_in(args, kwargs).shape, self.channels)

    def stream_shape(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Size | None:
        """The shape of the residual stream to which a block adds its attention; None where it first adds something else to some tokens."""
        return tokens_in(args, kwargs).shape if self.inner is None else None

    def _outer_first(self, *given: Any) -> tuple[Tensor, Tensor]:
        pair = floating(given)[:2]
        if len(pair) < 2:
            raise ExplainerError(
                "A block was called without the tokens of patches and those inside them: check blocks= and entry= of wrap()."
            )
        return (pair[1], pair[0]) if self.inner == 0 else (pair[0], pair[1])

    def _apart(self, x: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
        """Tokens in two tensors, shaped and in the order in which they were given."""
        outer, inner = self._outer_first(*given)
        width, before = outer.shape[-1], outer.shape[1] - len(inner) // len(outer)
        # copies: a block may write into what it is given
        parts = x[..., :width].clone(), x[:, before:, width:].reshape(-1, *inner.shape[1:])
        return parts[::-1] if self.inner == 0 else parts


def beside(outer: Tensor, inner: Tensor) -> Tensor:
    """Rows (B, S, D + n d): tokens (B, S, D), and beside those of the N last the tokens (B N, n, d) inside them."""
    within = inner.reshape(len(outer), -1, inner.shape[1] * inner.shape[2])
    return cat([outer, F.pad(within, (0, 0, outer.shape[1] - within.shape[1], 0))], -1)


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


def _replaced(value: Any, tensors: Any) -> Any:
    """``value`` with its first tensors of floating point replaced, as long as there are others."""
    if isinstance(value, Tensor):
        return next(tensors, value) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _replaced(item, tensors) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)([_replaced(item, tensors) for item in value])
    return value

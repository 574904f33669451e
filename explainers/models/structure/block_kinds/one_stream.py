"""Blocks that take and return one tensor of tokens, in a row or in a map of them: nearly all there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Size, Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.structure.block_kinds.base import BlockCall, BlockKind
from explainers.models.tokens import as_given, as_tokens, map_size, tokens_in, with_tokens


@dataclass(frozen=True)
class OneStream(BlockKind):
    """A kind of block with one stream of tokens.

    channels      the axis of the width: 2, or 1 or 3 for a map of tokens
    tokens_first  whether the axis of tokens comes before that of samples: (S, B, D), the default of torch's layers
    in_loop       whether a loop outside of the blocks adds their residual, as in vit-pytorch
    """

    name: ClassVar[str] = "one_stream"
    channels: int = 2
    tokens_first: bool = False
    in_loop: bool = False

    @classmethod
    def find(cls, call: BlockCall) -> OneStream | None:
        """Return None for any ``call``: a block that no other kind finds has one stream, and :meth:`of` tells how its tokens lie."""
        return None

    @classmethod
    def of(cls, block: nn.Module, tokens: Tensor, tokens_first: bool = False, in_loop: bool = False) -> OneStream:
        """Return the kind of ``block``, with the input ``tokens``, samples first; ``tokens_first`` says that its stream has tokens before
        samples, ``in_loop`` that it is called in a loop. In a map of tokens, the axis of the width is the one with the length of the
        block's vectors (normalisations, biases).
        """
        if tokens.dim() == 3:
            return cls(2, tokens_first, in_loop)
        lengths = [len(p) for p in block.parameters() if p.dim() == 1]
        first, last = (lengths.count(tokens.shape[axis]) for axis in (1, 3))
        undecided = first == last or tokens.shape[1] == tokens.shape[3]  # as high or wide as it has channels
        before = any(isinstance(m, nn.Conv2d) for m in block.modules()) if undecided else first > last
        return cls(1 if before else 3, tokens_first, in_loop)

    @property
    def is_row(self) -> bool:
        """True if blocks take and return the row of tokens (B, S, D) itself."""
        return self.channels == 2 and not self.tokens_first

    @property
    def is_map(self) -> bool:
        """True if tokens lie in a map, with axes of their own for height and width."""
        return self.channels != 2

    @property
    def no_forward_decomposition(self) -> str | None:
        """The reason why single tokens cannot be propagated forward through the blocks; None if they can."""
        if self.in_loop:
            return (
                "{name} adds the residual of its blocks in a loop outside of them, so that single tokens cannot be propagated through one"
            )
        return "{name} lays tokens before samples, so that single tokens cannot be propagated through it" if self.tokens_first else None

    def streams(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Tensor]:
        """Return the one tensor of tokens among the arguments of a block, as a tuple."""
        return (tokens_in(args, kwargs),)

    def input_tokens(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        """Return the row of tokens (B, S, D) among the arguments of a block. Raises ExplainerError if there is none."""
        return self.row_of(tokens_in(args, kwargs))

    def with_input_tokens(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Tensor) -> tuple[Any, Any]:
        """Return the arguments of a block with its tokens replaced by ``x`` (B, S, D)."""
        return with_tokens(args, kwargs, self._as_stream(x, tokens_in(args, kwargs).shape))

    def output_tokens(self, output: Any) -> Tensor:
        """Return the tokens in ``output``, what a block returned, as one row (B, S, D)."""
        return self.row_of(output if isinstance(output, Tensor) else output[0])

    def with_output_tokens(self, output: Any, x: Tensor) -> Any:
        """Return the output of a block with its tokens replaced by ``x`` (B, S, D)."""
        first = output if isinstance(output, Tensor) else output[0]
        shown = self._as_stream(x, first.shape)
        return shown if isinstance(output, Tensor) else (shown, *output[1:])

    def patch_width(self, streams: Sequence[Tensor]) -> int:
        """Return the width of a token in the stream that a block takes, the only one of ``streams``."""
        return streams[0].shape[self.channels]

    def map_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return (height, width) of the map of tokens among the arguments ``args`` and ``kwargs`` of a block; None if
        tokens lie in a row.
        """
        return map_size(tokens_in(args, kwargs).shape, self.channels) if self.is_map else None

    def stream_shape(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Size | None:
        """Return the shape of the residual stream, from the arguments ``args`` and ``kwargs`` of a block."""
        return tokens_in(args, kwargs).shape

    def row_of(self, x: Tensor) -> Tensor:
        """Rearrange tokens ``x`` from the layout of the stream to a row (B, S, D)."""
        return as_tokens(x.transpose(0, 1) if self.tokens_first else x, self.channels)

    def _as_stream(self, x: Tensor, shape: Size) -> Tensor:
        """Return ``x``, a row of tokens (B, S, D), in the layout of a stream of this ``shape``; the inverse of :meth:`row_of`."""
        return x.transpose(0, 1) if self.tokens_first else as_given(x, shape, self.channels)

    def check(self, x: Tensor) -> None:
        """Raise ExplainerError for a row ``x`` (B, S, D) whose samples and tokens could not be distinguished inside the model."""
        if self.tokens_first and x.shape[0] == x.shape[1]:
            raise ExplainerError("The model lays tokens before samples, and there are as many of both: explain one input less at a time.")

    def spread(self, by_token: Tensor, y: Tensor, stream: Size | None) -> Tensor | None:
        """Reshape ``by_token``, a number for each token (B, S), so that it multiplies tokens ``y`` in a row, or in a map of the height and
        width of the shape ``stream``; None if ``y`` holds neither.
        """
        is_map = y.dim() == 4 and self.is_map and len(y) == len(by_token) and stream is not None
        if is_map and stream is not None and map_size(y.shape, self.channels) == map_size(stream, self.channels):
            return as_given(by_token[:, :, None], y.shape, self.channels)
        return super().spread(by_token, y, stream)

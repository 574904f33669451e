"""Blocks that take and return several tensors of tokens, which are joined to one row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, cat
from torch.nn.functional import pad

from explainers.errors import ExplainerError
from explainers.models.layout import Layout
from explainers.models.structure.block_kinds.base import BlockKind, floating_tensors


class SeveralStreams(BlockKind):
    """A kind of block whose streams are its first ``count`` floating-point tensors, in its arguments as in its output."""

    no_positions: ClassVar[str | None] = (
        "{name} adds positions to its patches and also to other tokens of the same places: which belong to a patch is not known."
    )

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of streams that a block takes and returns."""

    @abstractmethod
    def join(self, streams: Sequence[Tensor]) -> Tensor:
        """Join the tokens of all ``streams`` to one row (B, S, D)."""

    @abstractmethod
    def split(self, x: Tensor, streams: Sequence[Tensor]) -> Sequence[Tensor]:
        """Split ``x``, a row (B, S, D), back into tensors, in the shapes and order of ``streams``; the inverse of :meth:`join`."""

    def streams(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Tensor]:
        """Return the tensors of tokens among the arguments of a block. Raises ExplainerError if there are too few."""
        return self._streams((args, kwargs))

    def input_tokens(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        """Return the row of tokens (B, S, D) among the arguments of a block. Raises ExplainerError if there are too few tensors."""
        return self.join(self._streams((args, kwargs)))

    def with_input_tokens(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Tensor) -> tuple[Any, Any]:
        """Return the arguments ``args`` and ``kwargs`` of a block with the tokens among them replaced by ``x`` (B, S, D). ``x`` may have
        another batch size and another number of patches than the tokens that it replaces.
        """
        made: tuple[Any, Any] = _replace_tensors((args, kwargs), iter(self.split(x, self._streams((args, kwargs)))))
        return made

    def output_tokens(self, output: Any) -> Tensor:
        """Return the tokens in ``output``, what a block returned, as one row (B, S, D)."""
        return self.join(self._streams(output))

    def with_output_tokens(self, output: Any, x: Tensor) -> Any:
        """Return the output of a block with its tokens replaced by ``x`` (B, S, D)."""
        return _replace_tensors(output, iter(self.split(x, self._streams(output))))

    def _streams(self, given: Any) -> list[Tensor]:
        streams = floating_tensors(given)[: self.count]
        if len(streams) < self.count:
            raise ExplainerError(f"A block was called without its {self.count} tensors of tokens: check blocks= and entry= of wrap().")
        return streams


class StreamsInColumns(SeveralStreams):
    """A kind with streams (B, S_k, D_k) of unrelated widths. In the row (B, S, D) each stream has its own tokens and its own columns, D =
    D_1 + D_2; the other columns of a token are zero.
    """

    @property
    @abstractmethod
    def places(self) -> Sequence[Sequence[slice]]:
        """Return for each stream where its tokens lie in the joined row of tokens: slices of the row, in the order of the stream's
        tokens.
        """

    @property
    def count(self) -> int:
        """The number of streams that a block takes and returns."""
        return len(self.places)

    def join(self, streams: Sequence[Tensor]) -> Tensor:
        """Join the tokens of all ``streams``, each (B, tokens, width), to one row (B, S, D), each stream in columns of its own."""
        widths = [stream.shape[-1] for stream in streams]
        padded = [
            pad(stream, (sum(widths[:number]), sum(widths[number + 1 :]), 0, 0))  # in columns of its own
            for number, stream in enumerate(streams)
        ]
        return cat([padded[number][:, inside] for _, number, inside in sorted(self._parts(), key=lambda part: part[0].start)], 1)

    def split(self, x: Tensor, streams: Sequence[Tensor]) -> Sequence[Tensor]:
        """Split ``x``, a row (B, S, D), back into tensors, in the shapes and order of ``streams``; the inverse of :meth:`join`."""
        columns = x.split([stream.shape[-1] for stream in streams], -1)
        return tuple(cat([tokens[:, place] for place in places], 1) for tokens, places in zip(columns, self.places, strict=True))

    def _parts(self) -> Iterator[tuple[slice, int, slice]]:
        """Yield each slice of the row with the number of its stream, and the slice of that stream that holds the same tokens."""
        for number, places in enumerate(self.places):
            first = 0
            for place in places:
                length = place.stop - place.start
                yield place, number, slice(first, first + length)
                first += length

    def patch_width(self, streams: Sequence[Tensor]) -> int:
        """Return the width of that of ``streams`` with the finest patches."""
        return streams[next(number for number, places in enumerate(self.places) if self.patch_places[0] in places)].shape[2]

    def by_token(self, term: Tensor, tokens: int, layout: Layout) -> Tensor | None:
        """Sum ``term`` (B, n, ...), over the n tokens of one stream, by token of the joined row of ``tokens`` tokens, (B, S); None for a
        term of another shape.
        """
        if term.dim() != 3:
            return None
        lengths = [sum(place.stop - place.start for place in places) for places in self.places]
        if term.shape[1] not in lengths:
            return None
        by_token = torch.zeros(term.shape[0], tokens, dtype=term.dtype, device=term.device)
        for place, number, inside in self._parts():
            if number == lengths.index(term.shape[1]):
                by_token[:, place] += term[:, inside].sum(2)
        return by_token


def _replace_tensors(value: Any, tensors: Iterator[Tensor]) -> Any:
    """Return ``value`` with its first floating-point tensors replaced by ``tensors``, until these are used up."""
    if isinstance(value, Tensor):
        return next(tensors, value) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _replace_tensors(item, tensors) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)([_replace_tensors(item, tensors) for item in value])
    return value

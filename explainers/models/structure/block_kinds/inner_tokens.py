"""Blocks with tokens inside each patch, as a Transformer in Transformer (TNT) has them.

They take and give two tensors: the tokens of the patches, (B, S, D), and for each patch those of the pixels in it, (B N, n, d). Each block
adds to a patch's token what its pixels' tokens say, and passes both on, so that neither of the two alone accounts for the answer. A row is
a patch's token with the tokens of its pixels appended, D + n d numbers; tokens before the patches have zeros there, which nothing reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, cat
from torch.nn.functional import pad

from explainers.models.layout import Layout
from explainers.models.structure.block_kinds.base import BlockCall
from explainers.models.structure.block_kinds.registry import add_block_kind
from explainers.models.structure.block_kinds.several_streams import SeveralStreams

MOST_BEFORE = 16  # tokens before the patches: a classification token, registers


@add_block_kind
@dataclass(frozen=True)
class InnerTokens(SeveralStreams):
    """Blocks with tokens inside patches; ``inner`` is the index, 0 or 1, of the tensor that holds those."""

    name: ClassVar[str] = "inner_tokens"
    no_residual: ClassVar[str | None] = (
        "The blocks of {name} add to each patch what the tokens inside it say before attention is added, so what attention alone does to "
        "the residual stream cannot be read."
    )
    attention_note: ClassVar[str | None] = "Attention is read between patches; that between the tokens inside a patch is not in this map."
    falls_short: ClassVar[tuple[str, str] | None] = (
        "tokens inside patches (TNT)",
        "A row of the residual stream is a patch's token with the tokens inside the patch appended, so that every account is whole; "
        "biases inside a patch are the patch's. Attention is read between patches, and a note on the map says so. TokenTM, GlobEnc and "
        "ALTI are refused, for what attention alone adds cannot be read; so is PA-LRP, since positions are added at both levels.",
    )
    inner: int

    @classmethod
    def find(cls, call: BlockCall) -> InnerTokens | None:
        """Return how a block's tokens lie, as one recorded ``call`` of the block shows; None if it has no tokens inside patches."""
        shapes, batch = [tensor.shape for tensor in call.inputs[:2]], call.batch
        if len(shapes) < 2 or shapes != [tensor.shape for tensor in call.outputs[:2]] or any(len(shape) != 3 for shape in shapes):
            return None
        for inner in (0, 1):
            outer, within = shapes[1 - inner], shapes[inner]
            patches = within[0] // batch
            if outer[0] == batch < within[0] == batch * patches and 0 <= outer[1] - patches <= min(MOST_BEFORE, patches - 1):
                return cls(inner)
        return None

    @property
    def count(self) -> int:
        """The number of streams: 2, patches and the tokens inside them."""
        return 2

    def join(self, streams: Sequence[Tensor]) -> Tensor:
        """Join the two ``streams``, tokens (B, S, D) and the tokens (B N, n, d) inside the last N of them, to rows (B, S, D + n d)."""
        outer, inner = streams[1 - self.inner], streams[self.inner]
        within = inner.reshape(len(outer), -1, inner.shape[1] * inner.shape[2])
        return cat([outer, pad(within, (0, 0, outer.shape[1] - within.shape[1], 0))], -1)

    def split(self, x: Tensor, streams: Sequence[Tensor]) -> Sequence[Tensor]:
        """Split ``x``, a row (B, S, D + n d), back into the outer and the inner stream, in the order and shapes of ``streams``; the inverse
        of :meth:`join`.
        """
        outer, inner = streams[1 - self.inner], streams[self.inner]
        width, before = outer.shape[-1], outer.shape[1] - len(inner) // len(outer)
        # copies: a block may write into what it is given
        parts = x[..., :width].clone(), x[:, before:, width:].reshape(-1, *inner.shape[1:])
        return parts if self.inner == 1 else parts[::-1]

    def patch_width(self, streams: Sequence[Tensor]) -> int:
        """Return the width of a patch's token in ``streams``, without the tokens inside it."""
        return streams[1 - self.inner].shape[2]

    def by_patch(self, term: Tensor, batch: int, layout: Layout) -> Tensor | None:
        """Sum ``term`` over the tokens inside all patches of all ``batch`` samples by patch of ``layout``, (B, patches); None for a term
        with another first axis.
        """
        patches = math.prod(layout.grid or ())
        return term.reshape(batch, patches, -1).sum(2) if term.shape[0] == batch * patches else None

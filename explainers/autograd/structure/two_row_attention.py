"""The attention maps of an encoder-decoder whose two rows of tokens are read as one: those of its encoder and both kinds of its decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from explainers.autograd.nodes import Nodes
from explainers.autograd.operators import Softmax


@dataclass(frozen=True, eq=False)
class TwoRowAttention:
    """The attention weights of an encoder-decoder of S tokens in the encoder and T in the decoder, as they were recorded: where samples and
    heads are one axis (TrOCR), (B H, queries, keys).

    encoder  for each of its layers (B, H, S, S)
    decoder  for each of its layers that of its own tokens, (B, H, T, T), and that from them to the encoder's, (B, H, T, S)
    samples  B
    """

    encoder: Sequence[Tensor]
    decoder: Sequence[tuple[Tensor, Tensor]]
    samples: int

    def mean_over_heads(self, weights: Tensor) -> Tensor:
        """Return the mean over the heads of ``weights``, a map of these or of their shape, as (B, queries, keys)."""
        return (weights if weights.dim() == 4 else weights.unflatten(0, (self.samples, -1))).mean(1)

    @property
    def maps(self) -> list[Tensor]:
        """All maps in the order in which they ran."""
        return [*self.encoder, *(each for pair in self.decoder for each in pair)]

    def with_maps(self, maps: Sequence[Tensor]) -> TwoRowAttention:
        """Return the same with other ``maps`` in their places."""
        layers = len(self.encoder)
        return TwoRowAttention(maps[:layers], list(zip(maps[layers::2], maps[layers + 1 :: 2], strict=True)), self.samples)


def two_row_attention(nodes: Nodes) -> TwoRowAttention | None:
    """Return the attention of the blocks in ``nodes``, layers of an encoder followed by those of a decoder; None if their softmaxes are not
    one in each of the first and two in each of the others.
    """
    blocks = [
        [node.output for node in nodes.nodes_in(block) if node.operator is Softmax and node.output is not None] for block in nodes.blocks
    ]
    encoder = [maps[0] for maps in blocks if len(maps) == 1]
    decoder = [(maps[0], maps[1]) for maps in blocks if len(maps) == 2]
    in_order = [len(maps) for maps in blocks] == [1] * len(encoder) + [2] * len(decoder)
    if not in_order or not encoder or not decoder or any(each.dim() not in (3, 4) for maps in blocks for each in maps):
        return None
    samples = len(nodes.blocks[0].input)
    if any(each.dim() == 3 and len(each) % samples for maps in blocks for each in maps):
        return None
    source, written = encoder[0].shape[-1], decoder[0][0].shape[-1]
    fits = all(each.shape[-2:] == (source, source) for each in encoder) and all(
        among.shape[-2:] == (written, written) and across.shape[-2:] == (written, source) for among, across in decoder
    )
    return TwoRowAttention(encoder, decoder, samples) if fits else None

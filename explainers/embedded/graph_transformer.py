"""A Transformer over the atoms of a molecule, in the form of Graphormer.

Atoms are tokens, and a token of the graph stands before them, which the head reads. What an atom is, how many neighbours it has among it,
is added up at the input; how far two atoms are from each other along bonds, and which bond joins them, is added to their attention, a
number for each head. After Ying et al., "Do Transformers Really Perform Bad for Graph Representation?", NeurIPS 2021, arXiv 2106.05234,
section 3: the degree among the encodings of an atom (eq. 5), the bias of shortest paths (eq. 6), the token of the graph with a distance of
its own. The bias of bonds is of the one bond between two atoms, not the mean along the path (eq. 7).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explainers.models.libraries.molecule_architectures import add_molecule_architecture

NAME = "vitrine_graph_transformer"


class Attention(nn.Module):
    """Self-attention over tokens of this ``width`` with a bias for each pair of tokens and each of its ``heads``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return tokens (B, S, D) after attention among the tokens ``x`` (B, S, D), with ``bias`` (B, heads, S, S) added to its logits."""
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.num_heads, width // self.num_heads).permute(2, 0, 3, 1, 4)
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        out: Tensor = self.proj(read.transpose(1, 2).reshape(batch, tokens, width))
        return out


class Block(nn.Module):
    """A Transformer block of tokens of this ``width``, with its norms before attention (``heads``) and before the feed-forward part
    (``inner`` hidden units).
    """

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.fc1, self.act, self.fc2 = nn.LayerNorm(width), nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return tokens (B, S, D) after the block, from its input ``x`` (B, S, D); ``bias`` (B, heads, S, S) is added to the attention
        logits.
        """
        x = x + self.drop(self.attn(self.norm1(x), bias))
        out: Tensor = x + self.drop(self.fc2(self.act(self.fc1(self.norm2(x)))))
        return out


@add_molecule_architecture(NAME)
class GraphTransformer(nn.Module):
    """A graph Transformer that classifies molecules.

    sizes      number of values of each feature of an atom
    distances  number of values of a distance, without the distance from the token of the graph
    bonds      number of values of a bond, including 0 for none
    """

    def __init__(
        self,
        sizes: Sequence[int],
        distances: int,
        bonds: int,
        *,
        width: int = 96,
        depth: int = 5,
        heads: int = 6,
        inner: int = 192,
        classes: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.features = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.graph_token = nn.Parameter(torch.randn(width) * 0.02)
        self.distance_bias, self.bond_bias = nn.Embedding(distances + 1, heads), nn.Embedding(bonds, heads)
        self.blocks = nn.ModuleList(Block(width, heads, inner, dropout) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        self.drop = nn.Dropout(dropout)

    def forward(self, atoms: Tensor, bonds: Tensor, distances: Tensor, attention_mask: Tensor) -> Tensor:
        """Return logits (B, classes) of molecules of at most N atoms.

        atoms           (B, N, features): for each atom the value of each of its features
        bonds           (B, N, N): kind of bond between two atoms, 0 for no bond
        distances       (B, N, N): number of bonds between two atoms
        attention_mask  (B, 1 + N): 0 for padding and for a masked atom; the token of the graph comes first
        """
        embedded = torch.stack([table(atoms[..., i]) for i, table in enumerate(self.features)]).sum(0)
        x = self.drop(torch.cat([self.graph_token.expand(len(atoms), 1, -1), embedded], 1))
        from_graph = self.distance_bias.num_embeddings - 1
        bias = self.distance_bias(F.pad(distances, (1, 0, 1, 0), value=from_graph)) + self.bond_bias(F.pad(bonds, (1, 0, 1, 0)))
        hidden = ~attention_mask.bool()[:, None, None]
        bias = bias.permute(0, 3, 1, 2).masked_fill(hidden, torch.finfo(bias.dtype).min)
        for block in self.blocks:
            x = block(x, bias)
        logits: Tensor = self.head(self.norm(x[:, 0]))
        return logits

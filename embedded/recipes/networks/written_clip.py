"""The image tower of ``clip``: a Vision Transformer whose weights are written, to be tuned afterwards.

Its first MLP is the last convolution of the trunk's own network, beside detectors of the kinds of scenes, which also read some mixtures of
the trunk's early features: these have seen less of the picture, and tell where an object ends. So each patch holds what that network would
say of it. The second MLP is a memory (Geva et al., "Transformer Feed-Forward Layers Are Key-Value Memories", EMNLP
2021): a unit for each class and kind, which writes the name's direction into the patches that show it. The last block's attention
gathers the names from the patches in which most is found, and its MLP writes the likeliest ones louder. The attention of the first two
blocks does nothing.

A token carries +1 and -1 in two of its numbers, and features so small beside them that every normalisation divides by nearly the same:
so the next layer reads features as they were. Another number balances the features, so that the mean of a token is 0.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from embedded.recipes.networks.trunk import DIRECTIONS, EARLY, STAGES, Teacher
from embedded.recipes.networks.written_weights import RIDGE, blank, directions_of, last_convolution, ridge_regression, token_size

DEPTH, WIDTH, HEADS = 3, 384, 6
FEATURES = 320  # the first numbers of a token: features of the trunk, then of its last layer, then of names
LAST_FEATURES, CLASSES = 1280, 1000  # of the trunk's own network
KINDS_FROM, ACTIVE, EARLY_FROM, BALANCE, PLUS, MINUS = FEATURES, 368, 369, 381, 382, 383
EARLY_FEATURES = BALANCE - EARLY_FROM  # mixtures of the trunk's early features: what detectors need to see where an object ends
FAINT, QUIET, WHISPERED = 1e-4, 1e-3, 2e-4  # size of the trunk's features, of early mixtures and the last layer's, of what detectors say
SHARP = 3.0  # how much is read of a logit: GELU is then nearly a rectifier
CLASS_FROM, KIND_FROM = 4.0, 1.5  # logits from which on units write
LOUD = 0.7  # size of a name in a patch
TOLD_APART = 0.5  # the less, the farther names are moved from those of other things
FOUND, HEED = 0.35, 3.2  # how much a unit adds to what is found in a patch, and how much attention that gets
LIKELY, LOUDER = 5.0, 0.3  # from which likeness on the last MLP writes a name, and how loud
IDLE = -5.0  # bias of units that nothing is written for
SIZE = token_size(WIDTH)


def model_args(side: int) -> dict[str, Any]:
    """What timm needs to know beside the name of the architecture, for pictures ``side`` pixels wide."""
    return {"img_size": side, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "trunk_stages": STAGES, "trunk_early": EARLY}


class Detectors(nn.Module):
    """Logits of ``kinds`` in each place, from its features (..., FEATURES + ``channels``); the last ``channels`` are early ones."""

    def __init__(self, channels: int, units: int, kinds: int) -> None:
        super().__init__()
        self.early = nn.Linear(channels, EARLY_FEATURES, bias=False)
        self.first, self.last = nn.Linear(FEATURES + EARLY_FEATURES, units), nn.Linear(units, kinds)

    def forward(self, features: Tensor) -> Tensor:
        """(..., kinds)."""
        late, early = features[..., :FEATURES], features[..., FEATURES:]
        return self.last(F.gelu(self.first(torch.cat([late, self.early(early)], -1))))  # type: ignore[no-any-return]


@torch.no_grad()
def compose(vit: VisionTransformer, teacher: Teacher, detectors: Detectors, names: Tensor, tokens: Tensor) -> None:
    """Write all weights but the trunk's, in place.

    names   (classes + kinds, FEATURES), length 1, in the order of the teacher's logits and of ``detectors``
    tokens  (N, channels): features of photos, on which the last convolution is fitted to units that know no upper limit
    """
    blank(vit, 1.0)
    projection = vit.patch_embed.proj
    projection.weight[:FEATURES, :FEATURES, 0, 0] = FAINT * torch.eye(FEATURES)
    projection.weight[BALANCE] = -projection.weight.sum(0)
    for constant in (projection.bias, vit.cls_token[0, 0]):
        constant[PLUS], constant[MINUS] = 1.0, -1.0
    vit.blocks[0].norm2.weight[:FEATURES] = SIZE / FAINT
    write_convolution(vit.blocks[0].mlp, teacher, tokens)
    apart = told_apart(names)
    vit.blocks[1].norm2.weight[:FEATURES] = SIZE / QUIET
    write_memory(vit.blocks[1].mlp, teacher, apart[:CLASSES])
    write_detectors(vit, detectors)
    write_kinds(vit.blocks[1], apart[CLASSES:])
    write_gathering(vit.blocks[2], names, apart)


def told_apart(names: Tensor) -> Tensor:
    """Directions, length 1, that lie near their name and far from the other names: (G + TOLD_APART)^-1 N with G = N N^T."""
    return F.normalize(torch.linalg.solve(names @ names.T + TOLD_APART * torch.eye(len(names)), names), dim=-1)


def write_convolution(mlp: Any, teacher: Teacher, tokens: Tensor) -> None:
    """The first MLP: features of the teacher's last layer in its own directions."""
    weight, bias = last_convolution(teacher)
    mlp.fc1.weight[:LAST_FEATURES, :FEATURES], mlp.fc1.bias[:LAST_FEATURES] = SHARP * weight, SHARP * bias
    last_features = F.linear(tokens[:, :FEATURES], weight, bias)
    fitted, level = ridge_regression(F.gelu(SHARP * last_features), directions_of(teacher, last_features), RIDGE)
    written, constant = mlp.fc2.weight, mlp.fc2.bias
    written[:DIRECTIONS, :LAST_FEATURES], constant[:DIRECTIONS] = QUIET * fitted.float(), QUIET * level.float()
    written[BALANCE], constant[BALANCE] = -written.sum(0), -constant.sum()


def write_memory(mlp: Any, teacher: Teacher, apart: Tensor) -> None:
    """The second MLP: a unit for each class, which writes its direction of ``apart`` (classes, FEATURES)."""
    mlp.fc1.bias[:] = IDLE
    mlp.fc1.weight[:CLASSES, :DIRECTIONS] = SHARP * (teacher.readout - teacher.readout.mean(0))
    mlp.fc1.bias[:CLASSES] = SHARP * (teacher.bias - teacher.bias.mean() - CLASS_FROM)
    _write_names(mlp, slice(CLASSES), apart)


def _write_names(mlp: Any, units: slice, apart: Tensor) -> None:
    """What units of the second MLP write: the directions ``apart`` (units, FEATURES), and how much is found."""
    written = mlp.fc2.weight
    written[:FEATURES, units], written[ACTIVE, units] = LOUD / SHARP * apart.T, LOUD / SHARP * FOUND
    written[BALANCE, units] = -written[:, units].sum(0)


@torch.no_grad()
def write_detectors(vit: VisionTransformer, detectors: Detectors) -> None:
    """The early features and the detectors in the first MLP, in place. What else a tower holds stays: also what it learned of kinds from
    the last layer's features, and what its memory does with them.
    """
    mlp, projection, channels = vit.blocks[0].mlp, vit.patch_embed.proj.weight, slice(FEATURES, None)
    projection[:, channels] = 0
    projection[EARLY_FROM:BALANCE, channels, 0, 0] = QUIET * detectors.early.weight
    projection[BALANCE, channels] = -projection[:, channels].sum(0)
    vit.blocks[0].norm2.weight[EARLY_FROM:BALANCE] = SIZE / QUIET
    units, kinds = slice(LAST_FEATURES, None), slice(KINDS_FROM, KINDS_FROM + detectors.last.out_features)
    read = [*range(FEATURES), *range(EARLY_FROM, BALANCE)]
    mlp.fc1.weight[units, read], mlp.fc1.bias[units] = detectors.first.weight, detectors.first.bias
    written, constant = mlp.fc2.weight, mlp.fc2.bias
    constant[BALANCE] += constant[kinds].sum()
    written[:, units] = 0
    written[kinds, units], constant[kinds] = WHISPERED * detectors.last.weight, WHISPERED * detectors.last.bias
    written[BALANCE, units] = -written[:, units].sum(0)
    constant[BALANCE] -= constant[kinds].sum()


def write_kinds(block: Any, apart: Tensor) -> None:
    """The second block's MLP: a unit for each kind, which writes its direction of ``apart`` (kinds, FEATURES)."""
    kinds, known = slice(KINDS_FROM, KINDS_FROM + len(apart)), slice(CLASSES, CLASSES + len(apart))
    block.norm2.weight[kinds] = SIZE / WHISPERED
    block.mlp.fc1.weight[known, kinds] = SHARP * torch.eye(len(apart))
    block.mlp.fc1.bias[known] = -SHARP * KIND_FROM
    _write_names(block.mlp, known, apart)


def about_scenes(kinds: int) -> dict[str, list[Any]]:
    """Which numbers of which parameters of the tower are about kinds of scenes alone: indices for each parameter that has some."""
    units, numbers, known = slice(LAST_FEATURES, None), slice(KINDS_FROM, KINDS_FROM + kinds), slice(CLASSES, CLASSES + kinds)
    return {
        "patch_embed.proj.weight": [(slice(EARLY_FROM, BALANCE), slice(FEATURES, None))],
        "blocks.0.mlp.fc1.weight": [units],
        "blocks.0.mlp.fc1.bias": [units],
        "blocks.0.mlp.fc2.weight": [numbers, (slice(None), units)],
        "blocks.0.mlp.fc2.bias": [numbers],
        "blocks.1.mlp.fc1.weight": [known],
        "blocks.1.mlp.fc1.bias": [known],
        "blocks.1.mlp.fc2.weight": [(slice(None), known)],
    }


def write_gathering(block: Any, names: Tensor, apart: Tensor) -> None:
    """The last block: the class token reads the patches where most is found, and then says the likeliest names louder."""
    queries, keys, values = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    starts = range(0, WIDTH, WIDTH // HEADS)
    queries[starts, PLUS], keys[starts, ACTIVE] = SIZE, HEED
    for matrix in (values, block.attn.proj.weight):
        matrix.copy_(torch.eye(WIDTH))
    values[BALANCE:] = 0
    block.mlp.fc1.weight[: len(apart), :FEATURES], block.mlp.fc1.bias[:] = apart, IDLE
    block.mlp.fc1.bias[: len(apart)] = -LIKELY
    block.mlp.fc2.weight[:FEATURES, : len(names)] = LOUDER * names.T


def tuned(vit: VisionTransformer) -> list[nn.Parameter]:
    """What is tuned: all that reads or writes behind the last convolution."""
    return [*vit.blocks[0].mlp.fc2.parameters(), *vit.blocks[1].mlp.parameters(), *vit.blocks[2].parameters()]


def read(vit: VisionTransformer, features: Tensor, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Features of the trunk (B, places, channels) to the class token (B, WIDTH) and what it gathers of each patch (B, n, FEATURES).

    As the whole Transformer says it, without computing what does nothing: attention of the first blocks, other queries of the last.
    """
    if kept is not None:
        features = features.gather(1, kept[..., None].expand(-1, -1, features.shape[-1]))
    x = F.linear(features, vit.patch_embed.proj.weight.flatten(1), vit.patch_embed.proj.bias)
    x = torch.cat([vit.cls_token.expand(len(x), -1, -1).to(x.dtype), x], 1)
    first, second, last = vit.blocks
    x = x + first.mlp(first.norm2(x))
    x = x + second.mlp(second.norm2(x))
    weight, bias = last.attn.qkv.weight, last.attn.qkv.bias
    normalised = last.norm1(x)
    query = F.linear(normalised[:, :1], weight[:WIDTH], bias[:WIDTH])
    key, value = F.linear(normalised, weight[WIDTH:], bias[WIDTH:]).split(WIDTH, -1)
    q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (query, key, value))
    gathered = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    token = x[:, :1] + last.attn.proj(gathered)
    token = vit.norm(token + last.mlp(last.norm2(token)))
    return token[:, 0], F.linear(value[:, 1:], last.attn.proj.weight[:FEATURES])

"""The image tower of ``clip``: a Vision Transformer whose weights are written, to be tuned afterwards.

Its first MLP is the last convolution of the trunk's own network, with detectors of the kinds of scenes, which also read some mixtures of
the trunk's early features: these have seen less of the picture, and tell where an object ends. So each patch holds what that network would
say of it. The second MLP is a memory (Geva et al., "Transformer Feed-Forward Layers Are Key-Value Memories", EMNLP
2021): a unit for each class and kind, which writes the name's direction into the patches that show it. The last block's attention
gathers the names from the patches in which most is found, and its MLP strengthens the likeliest ones. The attention of the first two
blocks does nothing.

A token carries +1 and -1 in two of its channels, and features so small next to them that every normalisation divides by nearly the same:
so the next layer reads features as they were. Another channel balances the features, so that the mean of a token is 0.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from recipes.networks.trunk import DIRECTIONS, EARLY_STAGE, STAGES, Teacher
from recipes.networks.written_weights import RIDGE, blank_, directions_of, last_convolution, norm_divisor, ridge_regression

DEPTH, WIDTH, HEADS = 3, 384, 6
FEATURES = 320  # the first channels of a token: features of the trunk, then of its last layer, then of names
LAST_FEATURES, CLASSES = 1280, 1000  # of the trunk's own network
KINDS_FROM, ACTIVE, EARLY_FROM, BALANCE, PLUS, MINUS = FEATURES, 368, 369, 381, 382, 383
EARLY_FEATURES = BALANCE - EARLY_FROM  # mixtures of the trunk's early features: what detectors need to see where an object ends
TRUNK_SIZE, LAYER_SIZE, DETECTOR_SIZE = (
    1e-4,
    1e-3,
    2e-4,
)  # size of the trunk's features, of early mixtures and the last layer's, of what detectors say
LOGIT_SCALE = 3.0  # factor of a logit before GELU, which is then nearly a rectifier
CLASS_THRESHOLD, KIND_THRESHOLD = 4.0, 1.5  # thresholds of the logits above which units write
NAME_SIZE = 0.7  # size of a name's direction in a patch
SPREAD_RIDGE = 0.5  # ridge: the smaller it is, the farther names are moved from those of other things
ACTIVE_SIZE, ACTIVE_ATTENTION = 0.35, 3.2  # how much a unit adds to the channel ACTIVE of a patch, and how much attention that channel gets
LIKENESS_THRESHOLD, LIKELY_NAME_SIZE = 5.0, 0.3  # threshold of likeness above which the last MLP writes a name, and the size that it writes
UNUSED_BIAS = -5.0  # bias of unused units, which GELU then sets to about 0
NORM_DIVISOR = norm_divisor(WIDTH)


def model_args(side: int) -> dict[str, Any]:
    """Return timm's arguments for the tower, apart from the name of the architecture, for pictures ``side`` pixels wide."""
    return {"img_size": side, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "trunk_stages": STAGES, "trunk_early": EARLY_STAGE}


class Detectors(nn.Module):
    """A small network that gives logits of ``kinds`` of objects in each place, from its features (..., FEATURES + ``channels``)."""

    def __init__(self, channels: int, units: int, kinds: int) -> None:
        super().__init__()
        self.early = nn.Linear(channels, EARLY_FEATURES, bias=False)
        self.first, self.last = nn.Linear(FEATURES + EARLY_FEATURES, units), nn.Linear(units, kinds)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of the kinds, (..., kinds), from features (..., FEATURES + channels), the last of which are early ones."""
        late, early = features[..., :FEATURES], features[..., FEATURES:]
        return self.last(F.gelu(self.first(torch.cat([late, self.early(early)], -1))))  # type: ignore[no-any-return]


@torch.no_grad()
def compose(vit: VisionTransformer, teacher: Teacher, detectors: Detectors, names: Tensor, tokens: Tensor) -> None:
    """Overwrite all weights of the tower except the trunk's, in place.

    names   (classes + kinds, FEATURES), length 1, in the order of the teacher's logits and of ``detectors``
    tokens  (N, channels): features of photos, on which the last convolution is fitted to units that know no upper limit
    """
    blank_(vit, 1.0)
    projection = vit.patch_embed.proj
    projection.weight[:FEATURES, :FEATURES, 0, 0] = TRUNK_SIZE * torch.eye(FEATURES)
    projection.weight[BALANCE] = -projection.weight.sum(0)
    for constant in (projection.bias, vit.cls_token[0, 0]):
        constant[PLUS], constant[MINUS] = 1.0, -1.0
    vit.blocks[0].norm2.weight[:FEATURES] = NORM_DIVISOR / TRUNK_SIZE
    write_convolution(vit.blocks[0].mlp, teacher, tokens)
    apart = spread_names(names)
    vit.blocks[1].norm2.weight[:FEATURES] = NORM_DIVISOR / LAYER_SIZE
    write_memory(vit.blocks[1].mlp, teacher, apart[:CLASSES])
    write_detectors(vit, detectors)
    write_kinds(vit.blocks[1], apart[CLASSES:])
    write_gathering(vit.blocks[2], names, apart)


def spread_names(names: Tensor) -> Tensor:
    """Return for each name, a row of ``names`` (N, FEATURES), a direction of length 1 near it and far from the other names: (G +
    SPREAD_RIDGE)^-1 N with G = N N^T.
    """
    return F.normalize(torch.linalg.solve(names @ names.T + SPREAD_RIDGE * torch.eye(len(names)), names), dim=-1)


def write_convolution(mlp: Any, teacher: Teacher, tokens: Tensor) -> None:
    """Write the first MLP, in place: it computes the features of the teacher's last layer in their own directions."""
    weight, bias = last_convolution(teacher)
    mlp.fc1.weight[:LAST_FEATURES, :FEATURES], mlp.fc1.bias[:LAST_FEATURES] = LOGIT_SCALE * weight, LOGIT_SCALE * bias
    last_features = F.linear(tokens[:, :FEATURES], weight, bias)
    fitted, level = ridge_regression(F.gelu(LOGIT_SCALE * last_features), directions_of(teacher, last_features), RIDGE)
    written, constant = mlp.fc2.weight, mlp.fc2.bias
    written[:DIRECTIONS, :LAST_FEATURES], constant[:DIRECTIONS] = LAYER_SIZE * fitted.float(), LAYER_SIZE * level.float()
    written[BALANCE], constant[BALANCE] = -written.sum(0), -constant.sum()


def write_memory(mlp: Any, teacher: Teacher, apart: Tensor) -> None:
    """Write the second MLP, in place: one unit for each class, which adds its direction of ``apart`` (classes, FEATURES) to a patch."""
    mlp.fc1.bias[:] = UNUSED_BIAS
    mlp.fc1.weight[:CLASSES, :DIRECTIONS] = LOGIT_SCALE * (teacher.readout - teacher.readout.mean(0))
    mlp.fc1.bias[:CLASSES] = LOGIT_SCALE * (teacher.bias - teacher.bias.mean() - CLASS_THRESHOLD)
    _write_names(mlp, slice(CLASSES), apart)


def _write_names(mlp: Any, units: slice, apart: Tensor) -> None:
    """Write the output weights of some units of the second MLP, in place: the directions ``apart`` (units, FEATURES) and the channel
    ACTIVE.
    """
    written = mlp.fc2.weight
    written[:FEATURES, units], written[ACTIVE, units] = NAME_SIZE / LOGIT_SCALE * apart.T, NAME_SIZE / LOGIT_SCALE * ACTIVE_SIZE
    written[BALANCE, units] = -written[:, units].sum(0)


@torch.no_grad()
def write_detectors(vit: VisionTransformer, detectors: Detectors) -> None:
    """Write the early features and the detectors into the patch embedding and the first MLP, in place.

    The other weights of the tower are not changed, including those that it learned for kinds from the last layer's features.
    """
    mlp, projection, channels = vit.blocks[0].mlp, vit.patch_embed.proj.weight, slice(FEATURES, None)
    projection[:, channels] = 0
    projection[EARLY_FROM:BALANCE, channels, 0, 0] = LAYER_SIZE * detectors.early.weight
    projection[BALANCE, channels] = -projection[:, channels].sum(0)
    vit.blocks[0].norm2.weight[EARLY_FROM:BALANCE] = NORM_DIVISOR / LAYER_SIZE
    units, kinds = slice(LAST_FEATURES, None), slice(KINDS_FROM, KINDS_FROM + detectors.last.out_features)
    read = [*range(FEATURES), *range(EARLY_FROM, BALANCE)]
    mlp.fc1.weight[units, read], mlp.fc1.bias[units] = detectors.first.weight, detectors.first.bias
    written, constant = mlp.fc2.weight, mlp.fc2.bias
    constant[BALANCE] += constant[kinds].sum()
    written[:, units] = 0
    written[kinds, units], constant[kinds] = DETECTOR_SIZE * detectors.last.weight, DETECTOR_SIZE * detectors.last.bias
    written[BALANCE, units] = -written[:, units].sum(0)
    constant[BALANCE] -= constant[kinds].sum()


def write_kinds(block: Any, apart: Tensor) -> None:
    """Write the units of kinds into the second block's MLP, in place: each adds its direction of ``apart`` (kinds, FEATURES) to a patch."""
    kinds, known = slice(KINDS_FROM, KINDS_FROM + len(apart)), slice(CLASSES, CLASSES + len(apart))
    block.norm2.weight[kinds] = NORM_DIVISOR / DETECTOR_SIZE
    block.mlp.fc1.weight[known, kinds] = LOGIT_SCALE * torch.eye(len(apart))
    block.mlp.fc1.bias[known] = -LOGIT_SCALE * KIND_THRESHOLD
    _write_names(block.mlp, known, apart)


def scene_weights(kinds: int) -> dict[str, list[Any]]:
    """Return, by parameter name, the indices of the weights that concern kinds of scenes alone."""
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
    """Write the last block, in place: the class token attends to the patches with the largest value in the channel ACTIVE, and then
    strengthens the most likely names.
    """
    queries, keys, values = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    starts = range(0, WIDTH, WIDTH // HEADS)
    queries[starts, PLUS], keys[starts, ACTIVE] = NORM_DIVISOR, ACTIVE_ATTENTION
    for matrix in (values, block.attn.proj.weight):
        matrix.copy_(torch.eye(WIDTH))
    values[BALANCE:] = 0
    block.mlp.fc1.weight[: len(apart), :FEATURES], block.mlp.fc1.bias[:] = apart, UNUSED_BIAS
    block.mlp.fc1.bias[: len(apart)] = -LIKENESS_THRESHOLD
    block.mlp.fc2.weight[:FEATURES, : len(names)] = LIKELY_NAME_SIZE * names.T


def tuned_parameters(vit: VisionTransformer) -> list[nn.Parameter]:
    """Return the parameters of ``vit`` that are tuned: all that read or write after the last convolution."""
    return [*vit.blocks[0].mlp.fc2.parameters(), *vit.blocks[1].mlp.parameters(), *vit.blocks[2].parameters()]


def read(vit: VisionTransformer, features: Tensor, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Run the Transformer on features of the trunk (B, places, channels), of the places ``kept`` (B, n) if given; return the class token
    (B, WIDTH), and the vector that it gathers from each patch (B, n, FEATURES).

    The result is that of the whole Transformer; what has no effect is not computed: attention of the first blocks, other queries of the
    last.
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

"""The Transformer of ``photos-vit``, whose weights are written, not found by training.

Its patches are the last features of EfficientNet-Lite0's trunk. The first MLP is that network's last convolution: a patch then holds what
the network would say of it. The second MLP is a memory (Geva et al., "Transformer Feed-Forward Layers Are Key-Value Memories", EMNLP
2021): a unit for each class strengthens its logit in patches that surely show it. In the second block the class token gathers what all
patches hold; in the third the strongest patches count more, and a memory makes it surer of what it has gathered; in the last it reads
the patches that agree with it. Each head gathers its own part of the features. Patches read the class token and none of each other. The
attention of the first block and the MLP of the last do nothing.

A token carries 1 and -1 in two of its channels, and features so small next to them that every normalisation divides by nearly the same: the
next layer reads features as they were. Another channel balances the features, so that the mean of a token is 0.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from recipes.networks.trunk import DIRECTIONS, Teacher
from recipes.networks.written_weights import RIDGE, blank_, directions_of, last_convolution, norm_divisor, ridge_regression

DEPTH, WIDTH, HEADS, UNITS = 4, 384, 6, 1280
STRENGTH, BALANCE, CLASS, PLUS, MINUS = range(WIDTH - 5, WIDTH)  # channels of a token after its features
TRUNK_SIZE, LAYER_SIZE, STRENGTH_SIZE = 3e-4, 1.5e-3, 1e-4  # size of the trunk's features, of the last layer's, of the strength
LOGIT_SCALE = 3.0  # factor of a logit before GELU, which is then nearly a rectifier
SURE_LOGIT, SURE_GAIN = 4.0, 2.0  # threshold of the logit above which a patch surely shows a class, and the factor of what lies above it
GATHERED_LOGIT, GATHERED_GAIN = 3.0, 1.0  # the same two for what the class token has gathered
GATHERED_SHARES = (0.1, 0.3, 0.6)  # shares of the features that blocks 2, 3 and 4 gather
STRENGTH_ATTENTION, AGREEMENT_ATTENTION = 1e-3, 5e-4  # how much attention strength gets in block 3, and agreement in block 4
CLASS_TOKEN_ATTENTION = 12.0  # how much higher a patch's attention logit is for the class token than for another patch
CLOSING_WEIGHT = 4e3  # weight that closes units for the class token, or for patches: larger than features can outweigh
UNUSED_BIAS = -5.0  # bias of unused units, which GELU then sets to about 0
MEMORY_RIDGE = 1e-4
NORM_DIVISOR = norm_divisor(WIDTH)


def model_args(side: int, stages: int) -> dict[str, Any]:
    """Return timm's arguments, apart from the name of the architecture, for pictures ``side`` pixels wide and ``stages`` stages of the
    trunk.
    """
    shape = {"embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "mlp_ratio": UNITS / WIDTH}
    return {"img_size": side, **shape, "trunk_stages": stages}


@torch.no_grad()
def compose(vit: VisionTransformer, teacher: Teacher, tokens: Tensor) -> None:
    """Overwrite all weights of the Transformer except the trunk's, in place.

    tokens  (N, channels): features of photos, on which the last convolution is fitted to units that know no upper limit
    """
    blank_(vit, NORM_DIVISOR)
    middle = tokens.mean(0)
    write_patches(vit, middle)
    write_convolution(vit, teacher, tokens, middle)
    readout, bias = teacher.readout - teacher.readout.mean(0), teacher.bias - teacher.bias.mean()
    gathered = sum(GATHERED_SHARES[:2])
    write_memory(vit.blocks[1], readout, bias - SURE_LOGIT, SURE_GAIN, 1.0, CLASS)
    write_memory(vit.blocks[2], readout, bias - GATHERED_LOGIT, GATHERED_GAIN, gathered, PLUS)
    for block, share in zip(vit.blocks[1:], GATHERED_SHARES, strict=True):
        write_gathering(block, share)
    attend_to_strength(vit.blocks[2])
    attend_to_agreement(vit.blocks[3], readout.square().sum(0) / gathered)
    vit.norm.weight[:DIRECTIONS] = NORM_DIVISOR / LAYER_SIZE
    vit.head.weight[:, :DIRECTIONS] = readout / sum(GATHERED_SHARES)
    vit.head.bias.copy_(bias)


def write_patches(vit: VisionTransformer, middle: Tensor) -> None:
    """Write the patch embedding, in place: the trunk's features minus their ``middle`` (channels,), and the two large numbers of all
    tokens.
    """
    projection = vit.patch_embed.proj
    projection.weight[:DIRECTIONS, :, 0, 0] = TRUNK_SIZE * torch.eye(DIRECTIONS)
    projection.bias[:DIRECTIONS] = -TRUNK_SIZE * middle
    for value in (projection.weight, projection.bias):
        value[BALANCE] = -value[:DIRECTIONS].sum(0)
    projection.bias[PLUS] = vit.cls_token[0, 0, CLASS] = 1.0
    projection.bias[MINUS] = vit.cls_token[0, 0, MINUS] = -1.0


def write_convolution(vit: VisionTransformer, teacher: Teacher, tokens: Tensor, middle: Tensor) -> None:
    """Write the MLP of the first block, in place: it replaces the trunk's features by those of the teacher's last layer, in their own
    directions.
    """
    block, (weight, bias) = vit.blocks[0], last_convolution(teacher)
    block.norm2.weight[:DIRECTIONS] = NORM_DIVISOR / TRUNK_SIZE
    block.mlp.fc1.weight[:, :DIRECTIONS], block.mlp.fc1.bias[:] = LOGIT_SCALE * weight, LOGIT_SCALE * (bias + weight @ middle)
    block.mlp.fc1.weight[:, CLASS] = -CLOSING_WEIGHT - block.mlp.fc1.bias
    last = F.linear(tokens, weight, bias)
    wanted = directions_of(teacher, last) - TRUNK_SIZE / LAYER_SIZE * (tokens - middle)
    fitted, level = ridge_regression(F.gelu(LOGIT_SCALE * last), wanted, RIDGE)
    written, constant = block.mlp.fc2.weight, block.mlp.fc2.bias
    written[:DIRECTIONS], constant[:DIRECTIONS] = LAYER_SIZE * fitted.float(), LAYER_SIZE * level.float()
    for value in (written, constant):
        value[BALANCE] = -value[:DIRECTIONS].sum(0)
    vit.cls_token[0, 0] -= constant  # the class token is to hold nothing before it gathers


def write_memory(block: Any, readout: Tensor, bias: Tensor, louder: float, whole: float, shut: int) -> None:
    """Write the MLP of a block, in place: a unit for each class adds ``louder`` times its logit, where that is above 0, to the logit in the
    features.

    readout  (classes, DIRECTIONS), and ``bias`` (classes,), read logits of features
    whole    share of the features that a token holds
    shut     channel of a token that closes all units where it is 1: CLASS or PLUS
    """
    classes = len(readout)
    squares = readout.T @ readout
    squares += MEMORY_RIDGE * squares.diagonal().mean() * torch.eye(DIRECTIONS)
    block.norm2.weight[:DIRECTIONS] = NORM_DIVISOR / LAYER_SIZE
    block.mlp.fc1.weight[:classes, :DIRECTIONS], block.mlp.fc1.bias[:classes] = LOGIT_SCALE / whole * readout, LOGIT_SCALE * bias
    block.mlp.fc1.weight[:classes, shut], block.mlp.fc1.bias[classes:] = -CLOSING_WEIGHT, UNUSED_BIAS
    written = block.mlp.fc2.weight
    written[:DIRECTIONS, :classes] = LAYER_SIZE * louder * whole / LOGIT_SCALE * torch.linalg.solve(squares, readout.T)
    written[STRENGTH, :classes] = STRENGTH_SIZE / LOGIT_SCALE
    written[BALANCE] = -written.sum(0)


def _head_features() -> list[tuple[Tensor, Tensor]]:
    """Return for each head the indices of the features that it gathers, and the channels of all heads that hold them."""
    features_of_heads = [torch.arange(head, DIRECTIONS, HEADS) for head in range(HEADS)]
    return [(features, head * (WIDTH // HEADS) + torch.arange(len(features))) for head, features in enumerate(features_of_heads)]


def write_gathering(block: Any, share: float) -> None:
    """Write the attention of a block, in place: the class token gets ``share`` times the mean of the features of all patches; patches read
    the class token.
    """
    block.norm1.weight[:DIRECTIONS], block.norm1.weight[STRENGTH] = NORM_DIVISOR / LAYER_SIZE, NORM_DIVISOR / STRENGTH_SIZE
    queries, keys, values = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    written, root = block.attn.proj.weight, math.sqrt(WIDTH // HEADS)
    for features, numbers in _head_features():
        values[numbers, features], written[features, numbers] = 1.0, share * LAYER_SIZE
        last = int(numbers[0]) + WIDTH // HEADS - 1
        queries[last, PLUS], keys[last, CLASS] = root, CLASS_TOKEN_ATTENTION
    written[BALANCE] = -written.sum(0)


def attend_to_strength(block: Any) -> None:
    """Write attention weights, in place, so that the class token attends more to patches with more in the strength channel."""
    queries, keys, _ = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    for _, numbers in _head_features():
        queries[numbers[0], CLASS], keys[numbers[0], STRENGTH] = math.sqrt(WIDTH // HEADS), STRENGTH_ATTENTION


def attend_to_agreement(block: Any, weights: Tensor) -> None:
    """Write attention weights, in place, so that the class token attends more to patches whose features agree with its own; ``weights``
    (DIRECTIONS,) are those of the features.
    """
    queries, keys, _ = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    for features, numbers in _head_features():
        queries[numbers, features], keys[numbers, features] = math.sqrt(WIDTH // HEADS) * AGREEMENT_ATTENTION * weights[features], 1.0

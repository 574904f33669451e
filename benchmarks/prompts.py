"""What helps prompts on crowded photos: ``python -m benchmarks.prompts --data DIR [--photos N] [--pairs N]``.

DIR holds ``coco128`` and ``imagen_test``, as ``vitrine evaluate-embedded --data`` has them. Three questions to ``clip``, no weight changed:

- own thing: of the things in a photo, how often a prompt lights its own more than any other (the metric ``own_object``). All things of a
  photo are asked for at once, so that a method that takes the mean over the prompts away has something to take;
- right patches: of the patches that one thing covers by more than half, how many its own prompt wins (what "Regions" paints);
- found: at a line above which lie 5 % of prompts for what is not there, how many prompts for what is there are above it. By the cosine of
  the picture, with one template and with several, and by the cosines of its patches.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import explainers  # before timm and transformers

# isort: split
import numpy as np
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional as F

from embedded.recipes.data.unseen_photos import CategoryMask, coco, coverage, known_classes, side_by_side, single
from embedded.recipes.networks.clip_features import text_features
from explainers.metrics.localisation import own_object
from explainers.models.prompt_words import TEMPLATE

METHODS = (
    "maskclip",
    "maskclip?less=prompts",
    "sclip?less=prompts",
    "gem?layers=1&less=prompts",
    "clip_surgery?layers=1",
    "legrad",
    "grad_eclip",
    "xgradcam_plus",
    "fullgrad_plus:libra",
    "random",
)
TEMPLATES = (TEMPLATE, "a {}", "there is a {} in the picture", "a picture with a {} and other things", "a close-up of a {}")
FALSE = 0.05  # of the prompts for what is not there lie above the line
BEST_PATCHES = 20
Photo = tuple[Image.Image, list[CategoryMask]]


def localised(model: explainers.Model, photos: Iterable[Photo], title: str) -> None:
    """Print for each method on how many prompts it lights its own thing, and how many patches are won by the right one."""
    own: dict[str, list[float]] = {spec: [] for spec in METHODS}
    right, patches = dict.fromkeys(METHODS, 0), 0
    for image, things in photos:
        masks = torch.from_numpy(np.stack([thing.mask for thing in things]))
        result = explainers.explain(model, image, target=[TEMPLATE.format(thing.word) for thing in things], methods=list(METHODS))
        covered = torch.stack([coverage(thing.mask) for thing in things]).flatten(1).max(0)
        is_thing = covered.values > 0.5
        patches += int(is_thing.sum())
        for spec in METHODS:
            maps = torch.stack([one.scores[one.content] for one in result.maps if one.method == spec]).double()
            for i, scores in enumerate(maps.unflatten(1, result.maps[0].patches)):  # type: ignore[arg-type]
                others = masks[[j for j in range(len(masks)) if j != i]]
                own[spec].append(float(own_object(scores[None], masks[i : i + 1], others[None])[0]))
            right[spec] += int((maps.argmax(0) == covered.indices)[is_thing].sum())
    print(f"\n{title}, {len(own['random'])} prompts, {patches} patches")
    for spec in METHODS:
        print(f"  {spec:28} own thing {np.nanmean(own[spec]):.3f}   right patches {right[spec] / patches:.3f}", flush=True)


def found(model: explainers.Model, photos: Sequence[Photo]) -> None:
    """Print how well several scores tell what is in a photo from what is not."""
    words = sorted({thing.word for _, things in photos for thing in things})
    is_there = np.array([[word in {thing.word for thing in things} for word in words] for _, things in photos])
    prompts = [TEMPLATE.format(word) for word in words]
    of_picture, of_patches = [], []
    for image, _ in photos:
        result = explainers.explain(model, image, target=prompts, methods=["maskclip"])
        of_picture.append(result.logits.double() / model.details["logit_scale"])
        of_patches.append(torch.stack([one.scores[one.content] for one in result.maps]).double())
    plain, patches = torch.stack(of_picture), torch.stack(of_patches)  # (photos, words), (photos, words, patches)
    print(f"\nFound: {is_there.sum()} prompts for what is there, {(~is_there).sum()} for what is not")
    _tell("cosine of the picture", plain, is_there)
    _tell(f"cosine with {len(TEMPLATES)} templates", _with_templates(model, [image for image, _ in photos], words), is_there)
    _tell(f"mean of the best {BEST_PATCHES} patches", patches.topk(BEST_PATCHES).values.mean(-1), is_there)
    _tell("best patch", patches.amax(-1), is_there)


def _with_templates(model: explainers.Model, images: Sequence[Image.Image], words: Sequence[str]) -> Tensor:
    texts = F.normalize(sum(text_features(model, [template.format(word) for word in words]) for template in TEMPLATES), dim=-1)
    with torch.no_grad():
        features = [model.module.get_image_features(**model.prepare(image).tensors).pooler_output for image in images]  # type: ignore[operator]
    return (F.normalize(torch.cat(features), dim=-1) @ texts.T).double()


def _tell(title: str, scores: Tensor, is_there: np.ndarray) -> None:
    values = scores.numpy()
    line = np.quantile(values[~is_there], 1 - FALSE)
    print(
        f"  {title:32} found {(values[is_there] >= line).mean():.3f}   AUROC {roc_auc_score(is_there.ravel(), values.ravel()):.3f}",
        flush=True,
    )


def main() -> None:
    """Ask all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with coco128 and imagen_test")
    parser.add_argument("--photos", type=int, default=1000, help="at most so many of COCO's photos")
    parser.add_argument("--pairs", type=int, default=40, help="photos side by side")
    args = parser.parse_args()
    model, known = explainers.load("clip", "cpu"), known_classes()
    named = [(image, [thing for thing in things if thing.word in known]) for image, things in coco(args.data)]
    named = [photo for photo in named if photo[1]][: args.photos]
    localised(model, [photo for photo in named if len(photo[1]) > 1], "Things in COCO's photos")
    localised(model, side_by_side(single(args.data), args.pairs), "Photos side by side")
    found(model, named)


if __name__ == "__main__":
    main()

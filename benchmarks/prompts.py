"""How ``clip`` reads prompts on crowded photos: ``python -m benchmarks.prompts --data DIR [--photos N] [--pairs N]``.

DIR holds ``coco128`` and ``imagen_test``, as ``python -m recipes evaluate --data`` has them. Four questions to ``clip``, no weight changed:

- own thing: of the things in a photo, how often a prompt lights its own more than any other (the metric ``own_object``). All things of a
  photo are asked for at once, so that a method that takes the mean over the prompts away has something to take;
- right patches: of the patches that one thing covers by more than half, how many its own prompt wins (what "Regions" paints);
- found: at a line above which lie 5 % of prompts for what is not there, how many prompts for what is there are above it. By the cosine of
  the picture, with one template and with several, and by the cosines of its patches;
- visible: of `VISIBLE_THINGS`, which a person saw in photos of COCO before any was asked for, how many each of these finds at its
  line, and what the pages say of each.
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

from explainers.metrics.localisation import own_object
from explainers.models.companion_files.prompt_words import TEMPLATE
from recipes.data.pictures import crop_centre
from recipes.data.unseen_photos import CategoryMask, coverage, known_classes, read_coco, read_photos, side_by_side
from recipes.networks.clip_features import text_features

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
#: Things that a person sees in COCO's photos: the number of the photo, the thing, and its place in the middle square that the model sees.
VISIBLE_THINGS = (
    (36, "umbrella", "top left"),
    (74, "dog", "bottom left"),
    (74, "bicycle", "left edge"),
    (110, "pizza", "bottom"),
    (127, "cup", "right"),
    (142, "banana", "bottom"),
    (165, "scissors", "middle"),
    (247, "airplane", "middle"),
    (283, "wine bottle", "left"),
    (283, "wine glass", "middle"),
    (308, "barrel", "top right"),
    (328, "bench", "bottom"),
    (338, "clock", "top right"),
    (349, "train", "middle"),
    (443, "cat", "middle"),
    (510, "fountain", "top"),
    (572, "suitcase", "bottom right"),
    (595, "television", "bottom right"),
    (599, "remote control", "right"),
)
FALSE_SHARE = 0.05  # share of the prompts for what is not there that lie above the threshold
BEST_PATCHES = 20
FOUND = "found"
Photo = tuple[Image.Image, list[CategoryMask]]


def print_localisation(model: explainers.Model, photos: Iterable[Photo], title: str) -> None:
    """Print under ``title``, for each method and ``photos`` of named things, how often the map of a prompt to ``model`` is strongest on its
    own thing, and how many patches the right prompt wins.
    """
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


def print_findings(model: explainers.Model, photos: Sequence[Photo], visible: Sequence[Image.Image]) -> None:
    """Print how well several scores of ``model`` separate what is in each of ``photos`` from what is not, and which of the `VISIBLE_THINGS`
    things they find in the pictures ``visible``.
    """
    words = sorted({thing.word for _, things in photos for thing in things})
    is_there = np.array([[word in {thing.word for thing in things} for word in words] for _, things in photos])
    prompts = [TEMPLATE.format(word) for word in words]
    asked = [_cosines(model, image, prompts)[:2] for image, _ in photos]
    plain, patches = (torch.stack(parts) for parts in zip(*asked, strict=True))  # (photos, words), (photos, words, patches)
    things = [thing for _, thing, _ in VISIBLE_THINGS]
    seen = [_cosines(model, image, [TEMPLATE.format(thing)]) for image, thing in zip(visible, things, strict=True)]
    seen_plain, seen_patches = torch.cat([one[0] for one in seen]), torch.cat([one[1] for one in seen])
    print(
        f"\nFound: {is_there.sum()} prompts for what is there, {(~is_there).sum()} for what is not; visible: {len(VISIBLE_THINGS)} things"
    )
    _print_score("cosine of the picture", plain, is_there, seen_plain)
    templates = _with_templates(model, [image for image, _ in photos], words)
    _print_score(f"cosine with {len(TEMPLATES)} templates", templates, is_there, _with_templates(model, visible, things).diagonal())
    nearest = (values.topk(BEST_PATCHES).values.mean(-1) for values in (patches, seen_patches))
    _print_score(f"mean of the best {BEST_PATCHES} patches", next(nearest), is_there, next(nearest))
    _print_score("best patch", patches.amax(-1), is_there, seen_patches.amax(-1))
    print("\nWhat the pages say of the visible things:")
    for (photo, thing, where), (*_, says) in zip(VISIBLE_THINGS, seen, strict=True):
        print(f"  {photo:3} {thing:15} {where:12} {says}")
    print(f"  found: {sum(says == FOUND for *_, says in seen)} of {len(VISIBLE_THINGS)}", flush=True)


def _cosines(model: explainers.Model, image: Image.Image, prompts: Sequence[str]) -> tuple[Tensor, Tensor, str]:
    """Return the cosines by ``model`` of ``prompts`` with the picture ``image`` (prompts,) and with its patches (prompts, patches), and the
    pages' verdict on the first prompt.
    """
    result = explainers.explain(model, image, target=list(prompts), methods=["maskclip"])
    abstention = result.targets[0].abstention
    patches = torch.stack([one.scores[one.content] for one in result.maps]).double()
    return result.logits.double() / model.details["logit_scale"], patches, FOUND if abstention is None else abstention.says


def _with_templates(model: explainers.Model, images: Sequence[Image.Image], words: Sequence[str]) -> Tensor:
    texts = F.normalize(sum(text_features(model, [template.format(word) for word in words]) for template in TEMPLATES), dim=-1)
    with torch.no_grad():
        features = [model.module.get_image_features(**model.prepare(image).tensors).pooler_output for image in images]  # type: ignore[operator]
    return (F.normalize(torch.cat(features), dim=-1) @ texts.T).double()


def _print_score(title: str, scores: Tensor, is_there: np.ndarray, visible: Tensor) -> None:
    values = scores.numpy()
    line = np.quantile(values[~is_there], 1 - FALSE_SHARE)
    print(
        f"  {title:32} found {(values[is_there] >= line).mean():.3f}   AUROC {roc_auc_score(is_there.ravel(), values.ravel()):.3f}"
        f"   visible {int((visible >= line).sum())}",
        flush=True,
    )


def main() -> None:
    """Ask ``clip`` the four questions, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with coco128 and imagen_test")
    parser.add_argument("--photos", type=int, default=1000, help="at most so many of COCO's photos")
    parser.add_argument("--pairs", type=int, default=40, help="photos side by side")
    args = parser.parse_args()
    model, known = explainers.load("clip", "cpu"), known_classes()
    named = [(image, [thing for thing in things if thing.word in known]) for image, things in read_coco(args.data)]
    named = [photo for photo in named if photo[1]][: args.photos]
    print_localisation(model, [photo for photo in named if len(photo[1]) > 1], "Things in COCO's photos")
    print_localisation(model, side_by_side(read_photos(args.data), args.pairs), "Photos side by side")
    names = [args.data / "coco128" / "train2017" / f"{photo:012d}.jpg" for photo, *_ in VISIBLE_THINGS]
    print_findings(model, named, [Image.fromarray(crop_centre(Image.open(name).convert("RGB"))) for name in names])


if __name__ == "__main__":
    main()

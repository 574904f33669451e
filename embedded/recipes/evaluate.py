"""The figures on the model cards: ``python -m embedded.recipes.evaluate scenes-vit`` (or ``scenes-clip``).

Scenes come from a seed of their own, which no training uses. Energy is the share of a map's positive scores that lies
on an object's mask (a patch half covered counts half).
"""

from __future__ import annotations

import explainers.torchvision_ops

# isort: split
import argparse
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm
from transformers import AutoTokenizer, CLIPModel

import explainers
from embedded.recipes.scenes import KINDS, Scene, SceneObject, render
from embedded.recipes.train_scenes_clip import image_features, text_features
from embedded.recipes.train_scenes_vit import PATCH, SIZE, encode, load, tensors

SEED = 20_250_101
MODELS = Path(__file__).parent.parent / "models"
PROMPT = "a photo of a {}"
PATCHES = (SIZE // PATCH) ** 2


def fresh_scenes(number: int, least: int = 1) -> Iterator[Scene]:
    """Scenes that no training has seen, with at least ``least`` objects each."""
    made = (render(np.random.default_rng([SEED, index]), SIZE) for index in itertools.count())
    return itertools.islice((scene for scene in made if len(scene.objects) >= least), number)


def half(number: int) -> Tensor:
    """(number, PATCHES // 2): a random half of the patches for each scene."""
    return torch.from_numpy(np.random.default_rng(SEED).random((number, PATCHES))).argsort(1)[:, : PATCHES // 2]


Score = Callable[[Tensor, Tensor | None], Tensor]  # pixels (B, 3, H, W), kept patches or None -> (B, kinds)


def vit_scores(folder: Path) -> Score:
    """The logits of a ``scenes-vit``."""
    vit = load(folder)
    return lambda pixels, kept: vit.head(encode(vit, pixels, kept)[:, 0])


def clip_scores(folder: Path) -> Score:
    """The similarities of a ``scenes-clip`` with one prompt for each kind."""
    clip = CLIPModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        texts = text_features(clip, AutoTokenizer.from_pretrained(folder), [PROMPT.format(kind) for kind in KINDS])
    return lambda pixels, kept: image_features(clip, pixels, kept) @ texts.T


def accuracy(score: Score, number: int, batch: int = 100) -> dict[str, float]:
    """How often the top kind is in the scene, whole or with half its patches removed; how many objects rank first."""
    scenes = list(fresh_scenes(number))
    kept = half(number)
    whole, halved, ranked = [], [], []
    for start in tqdm(range(0, number, batch), unit="batch", disable=None):
        some = scenes[start : start + batch]
        pixels = tensors(torch.from_numpy(np.stack([np.asarray(scene.image) for scene in some])), "cpu")
        with torch.inference_mode():
            full = score(pixels, None).argsort(1, descending=True)
            part = score(pixels, kept[start : start + len(some)]).argmax(1)
        for scene, order, top in zip(some, full.tolist(), part.tolist(), strict=True):
            kinds = {KINDS.index(item.kind) for item in scene.objects}
            whole.append((len(kinds), order[0] in kinds))
            halved.append(top in kinds)
            ranked.append(len(kinds & set(order[: len(kinds)])) / len(kinds))
    figures = {"top class in the scene": float(np.mean([right for _, right in whole]))}
    for count in sorted({count for count, _ in whole}):
        figures[f"  of scenes with {count}"] = float(np.mean([right for n, right in whole if n == count]))
    figures["objects among the first k of k"] = float(np.mean(ranked))
    figures["top class, half the patches removed"] = float(np.mean(halved))
    return figures


def coverage(item: SceneObject) -> NDArray[np.float64]:
    """(patches,): the share of each patch that an object covers."""
    side = SIZE // PATCH
    shares: NDArray[np.float64] = item.mask.reshape(side, PATCH, side, PATCH).mean((1, 3)).reshape(-1)
    return shares


def localisation(folder: Path, prompt: str, number: int, methods: list[str]) -> dict[str, float]:
    """Energy on the named object, and how often it is denser there than on every other object, for each method."""
    model = explainers.load(str(folder))
    energy: dict[str, list[float]] = {method: [] for method in methods}
    denser: dict[str, list[bool]] = {method: [] for method in methods}
    for scene in tqdm(fresh_scenes(number, least=2), total=number, unit="scene", disable=None):
        covers = [coverage(item) for item in scene.objects]
        for index, item in enumerate(scene.objects):
            result = explainers.explain(model, scene.image, prompt.format(item.kind), methods)
            for method in methods:
                one = result[method]
                scores = one.scores[one.content].double().clamp(min=0).numpy()
                on = [float((scores * cover).sum()) for cover in covers]
                density = [value / cover.sum() for value, cover in zip(on, covers, strict=True)]
                energy[method].append(on[index] / max(float(scores.sum()), 1e-30))
                denser[method].append(density[index] > max(d for i, d in enumerate(density) if i != index))
    figures = {}
    for method in methods:
        figures[f"{method}: energy on the object"] = float(np.mean(energy[method]))
        figures[f"{method}: denser than on any neighbour"] = float(np.mean(denser[method]))
    return figures


def main() -> None:
    """Print the figures of one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["scenes-vit", "scenes-clip"])
    parser.add_argument("--model", type=Path, help="folder (default: the embedded one)")
    parser.add_argument("--scenes", type=int, default=1000, help="for the accuracy")
    parser.add_argument("--explained", type=int, default=100, help="scenes of two and more objects, for the localisation")
    parser.add_argument("--methods", nargs="+", default=["fullgrad_plus:libra", "random"])
    args = parser.parse_args()
    folder = args.model or MODELS / args.name
    scores, prompt = (vit_scores, "{}") if args.name == "scenes-vit" else (clip_scores, PROMPT)
    figures = accuracy(scores(folder), args.scenes)
    if args.explained:
        figures |= localisation(folder, prompt, args.explained, args.methods)
    for name, value in figures.items():
        print(f"{name:60} {value:.3f}")


if __name__ == "__main__":
    main()

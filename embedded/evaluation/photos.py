"""``photos-vit`` and ``clip`` on the validation photos: is the category right, and do maps point at the object?"""

from __future__ import annotations

import explainers  # before timm

# isort: split
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from embedded.evaluation import CONTROL, LEAD, Figure, Report, Setting, Table
from embedded.recipes.photos_data import FOLDER, NAMES, SIDE, Photos, held_out_photos
from embedded.recipes.train_photos_vit import PATCH
from embedded.recipes.vits import encode, tensors
from explainers.metrics.localisation import energy, grid_pointing
from explainers.models.base import Model

SEED = 20_250_102
EXPLAINED, MOSAICS, WORST = 200, 100, 5
CELLS = 4  # of a mosaic
GRID = SIDE // PATCH
TOP, TOP_5, HALF, ROBUST = "top-1", "top-5", "top-1, half the patches removed", "accuracy, half the patches removed, over the clean one"
ENERGY, POINTING = "energy in the object's box", "grid pointing, positive evidence in the right of 4 cells"
BARS = {TOP: 0.65, TOP_5: 0.9, ROBUST: 0.9, ENERGY: 1.35, POINTING: 0.6}

Score = Callable[[Tensor, Tensor | None], Tensor]  # pixels (B, 3, H, W), kept patches (B, n) or None -> (B, names)


@dataclass(frozen=True)
class Named:
    """What a model made of photos: the order of the categories, best first, (N, categories), whole and with half the patches removed."""

    labels: NDArray[np.int64]
    whole: NDArray[np.int64]
    halved: NDArray[np.int64]

    def right(self) -> NDArray[np.bool_]:
        """Of each photo, whether its category comes first."""
        return self.whole[:, 0] == self.labels

    def figures(self) -> dict[str, float]:
        """How often the category is first, or among the first five."""
        top, halved = float(self.right().mean()), float((self.halved[:, 0] == self.labels).mean())
        among = float((self.whole[:, :5] == self.labels[:, None]).any(1).mean())
        return {TOP: top, TOP_5: among, HALF: halved, ROBUST: halved / top if top else 0.0}

    def worst(self, number: int) -> Table:
        """The categories most often missed, and what each is most often taken for."""
        rows: list[tuple[str, dict[str, float]]] = []
        for place in np.unique(self.labels):
            said = self.whole[self.labels == place, 0]
            wrong = np.bincount(said[said != place], minlength=len(NAMES))
            taken = f", most often taken for {NAMES[wrong.argmax()]}" if wrong.any() else ""
            figures = {"right": float((said == place).mean()), "taken for it": float(wrong.max() / len(said))}
            rows.append((f"{NAMES[place]}{taken}", figures))
        return dict(sorted(rows, key=lambda row: row[1]["right"])[:number])


def sample(photos: Photos, labels: NDArray[np.int64], most: int | None) -> tuple[Photos, NDArray[np.int64]]:
    """A random ``most`` of the photos, always the same; all where that is None or there are no more."""
    if most is None or len(labels) <= most:
        return photos, labels
    chosen = np.zeros(len(labels), bool)
    chosen[np.random.default_rng(SEED).choice(len(labels), most, replace=False)] = True
    return photos.where(chosen), labels[chosen]


@torch.inference_mode()
def orders(score: Score, images: Tensor, kept: Tensor, batch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How a model orders names for pictures, uint8 (N, H, W, 3), best first, (N, names): whole, and of the patches ``kept`` (N, n)."""
    found: tuple[list[Tensor], list[Tensor]] = [], []
    for some, part in zip(
        tqdm(images.split(batch), desc="naming", unit="batch", leave=False, disable=None), kept.split(batch), strict=True
    ):
        pixels = tensors(some, "cpu")
        for order, read in zip(found, (None, part), strict=True):
            order.append(score(pixels, read).argsort(1, descending=True))
    whole, halved = (torch.cat(order).numpy() for order in found)
    return whole, halved


def half(number: int, patches: int, seed: int) -> Tensor:
    """(number, patches // 2): a random half of the patches for each picture."""
    return torch.from_numpy(np.random.default_rng(seed).random((number, patches))).argsort(1)[:, : patches // 2]


def named(score: Score, photos: Photos, labels: NDArray[np.int64], batch: int = 50) -> Named:
    """Ask a model for the category of each photo, whole and with a random half of its patches removed."""
    return Named(labels, *orders(score, torch.from_numpy(photos.images), half(len(labels), GRID**2, SEED), batch))


def box_cover(box: Sequence[int]) -> Tensor:
    """(GRID, GRID): the share of each patch that a box (x0, y0, x1, y1, both ends inside) covers."""
    x0, y0, x1, y1 = box
    inside = torch.zeros(SIDE, SIDE)
    inside[y0 : y1 + 1, x0 : x1 + 1] = 1
    return inside.view(GRID, PATCH, GRID, PATCH).mean((1, 3))


def _map(result: Any, method: str, label: str) -> Tensor:
    one = result[method, label]
    scores: Tensor = one.scores[one.content].view(one.patches)
    return scores


def energies(model: Model, photos: Photos, labels: NDArray[np.int64], methods: Sequence[str], number: int) -> tuple[Table, int]:
    """Of each method the mean energy of the true category's map in the box, and how many photos counted.

    Boxes that are the whole photo or have no area say nothing and are left out.
    """
    x0, y0, x1, y1 = photos.boxes.T
    told = (x0 < x1) & (y0 < y1) & ((x1 - x0 + 1) * (y1 - y0 + 1) < SIDE * SIDE)
    rows = np.random.default_rng(SEED + 1).permutation(np.flatnonzero(told))[:number]
    found: dict[str, list[float]] = {method: [] for method in methods}
    for index, row in enumerate(tqdm(rows, desc="explaining", unit="photo", leave=False, disable=None)):
        label = NAMES[labels[row]]
        result = explainers.explain(model, Image.fromarray(photos.images[row]), label, methods, seed=index)
        cover = box_cover(photos.boxes[row])
        for method in methods:
            found[method].append(energy(_map(result, method, label), cover))
    return {method: {ENERGY: float(np.mean(values))} for method, values in found.items()}, len(rows)


def mosaics(photos: Photos, labels: NDArray[np.int64], number: int) -> Iterator[tuple[Image.Image, list[str]]]:
    """Mosaics of 2 x 2 photos, each halved in size, of four different categories, and these row by row."""
    rng = np.random.default_rng(SEED + 2)
    for _ in range(number):
        rows = [rng.choice(np.flatnonzero(labels == place)) for place in rng.choice(np.unique(labels), CELLS, replace=False)]
        half = [np.asarray(Image.fromarray(photos.images[row]).resize((SIDE // 2, SIDE // 2), Image.Resampling.BOX)) for row in rows]
        picture = np.concatenate([np.concatenate(half[:2], 1), np.concatenate(half[2:], 1)])
        yield Image.fromarray(picture), [NAMES[labels[row]] for row in rows]


def pointing(model: Model, photos: Photos, labels: NDArray[np.int64], methods: Sequence[str], number: int) -> Table:
    """Of each method the mean of grid pointing over all four cells of the mosaics."""
    found: dict[str, list[float]] = {method: [] for method in methods}
    some = tqdm(mosaics(photos, labels, number), desc="explaining", total=number, unit="mosaic", leave=False, disable=None)
    for index, (picture, shown) in enumerate(some):
        result = explainers.explain(model, picture, shown, methods, seed=index)
        for place, label in enumerate(shown):
            for method in methods:
                found[method].append(grid_pointing(_map(result, method, label), divmod(place, 2)))
    return {method: {POINTING: float(np.mean(values))} for method, values in found.items()}


def vit_scores(folder: Path) -> Score:
    """The logits of a ``photos-vit``."""
    vit: Any = explainers.load(folder, device="cpu").module
    return lambda pixels, kept: vit.head(encode(vit, pixels, kept)[:, 0])


def missing(data: Path | None) -> str | None:
    """Why there are no photos to measure on; None where there are."""
    if data is None:
        return "needs --data DIR, the folder that holds tiny_imagenet/"
    return None if (data / FOLDER).is_dir() else f"{data} lacks {FOLDER}/"


def measure(name: str, setting: Setting) -> Report:
    """Categories, maps of single photos and of mosaics; rows that say so where the photos are missing."""
    why = missing(setting.data)
    if why is not None:
        return Report([Figure(name, what, None, bar, note=why) for what, bar in BARS.items()])
    assert setting.data is not None
    photos, labels = sample(*held_out_photos(setting.data), setting.limit)
    answers = named(vit_scores(setting.folder), photos, labels)
    figures = [Figure(name, what, value, BARS.get(what), note=f"{len(labels):,} photos") for what, value in answers.figures().items()]
    tables = {f"Photos that {name} takes for others": answers.worst(WORST)}
    model = explainers.load(setting.folder)
    methods = setting.specs(explainers.default_methods(model))
    table, count = energies(model, photos, labels, methods, setting.limited(EXPLAINED))
    ratio = table[LEAD][ENERGY] / table[CONTROL][ENERGY]
    figures.append(Figure(name, f"{ENERGY} over that of {CONTROL}", ratio, BARS[ENERGY], "times", note=f"{LEAD}, {count} photos"))
    right = answers.right()
    if len(np.unique(labels[right])) < CELLS:
        figures.append(Figure(name, POINTING, None, BARS[POINTING], note="fewer than four categories have a photo that is named right"))
        return Report(figures, {f"Maps of {name}, {count} photos": table, **tables})
    number = setting.limited(MOSAICS)
    cells = pointing(model, photos.where(right), labels[right], methods, number)
    figures.append(Figure(name, POINTING, cells[LEAD][POINTING], BARS[POINTING], note=f"{LEAD}, {number} mosaics of photos named right"))
    maps = {method: table[method] | cells[method] for method in methods}
    return Report(figures, {f"Maps of {name}, {count} photos and {number} mosaics": maps, **tables})

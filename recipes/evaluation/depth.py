"""How much of a Transformer is in an image classifier: ``python -m recipes.evaluation.depth MODEL --data DIR``.

No single figure can tell: an untrained network also has maps that differ, and a network that leaves all work to one block is also right.
So they are read together, and each is one that an untrained or degenerate network does not meet:

- how much the loss rises where one attention or MLP gives its mean output in place of its own;
- how many answers are lost where no patch may attend to another patch;
- how alike the maps of two methods are, next to how alike the maps of the same method are on two late checkpoints, and how much sooner
  than in a random order the answer falls where patches are removed in the order of a map;
- how alike the maps for the two classes of a picture of two photos are, and how much of a map lies in the right quarter of four photos.
"""

from __future__ import annotations

import explainers  # before timm

# isort: split
import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from tqdm import tqdm

from explainers.analysis.depth import Estimate
from explainers.analysis.depth.asker import Asker, Batch
from explainers.analysis.depth.block_calls import find_parts
from explainers.analysis.depth.findings import isolated_answers, median_agreement
from explainers.analysis.depth.replacement import MeanOutputs
from explainers.embedded.datasets import MANY, SEED
from explainers.embedded.datasets import SIDE as SCENE_SIDE
from explainers.embedded.synthetic.scenes import KINDS, render
from explainers.errors import ExplainerError
from explainers.metrics.localisation import grid_pointing
from explainers.metrics.rank_correlation import rank_correlations
from explainers.models.model import Model
from recipes.data.unseen_photos import read_photos
from recipes.networks.vits import pixels

METHODS = (
    "rollout", "raw_attention", "transformer_attribution", "generic_attention", "legrad", "attcat:libra", "input_x_gradient:libra",
    "input_x_gradient:attnlrp", "fullgrad_plus:libra", "gradcam_plus", "pytorch_grad_cam", "occlusion",
)  # fmt: skip
CLASS_METHODS = ("transformer_attribution", "generic_attention", "fullgrad_plus:libra", "input_x_gradient:attnlrp", "pytorch_grad_cam")
PHOTOS, MOSAICS, PAIRS, MAPS = 500, 500, 60, 40  # how many inputs of each kind are measured
STEPS = 10  # steps of a deletion curve
BATCH = 25


@dataclass(frozen=True)
class Collage:
    """A picture composed of several.

    image    the picture
    classes  (row, column) of a cell -> the class that is shown there
    cells    number of rows and of columns of cells
    """

    image: Image.Image
    classes: dict[tuple[int, int], int]
    cells: tuple[int, int]  # rows and columns


@dataclass(frozen=True)
class Inputs:
    """The pictures that a model is measured on.

    images  uint8 (N, H, W, 3)
    truth   bool (N, classes): the right classes
    pairs   pictures of two things
    mosaics  pictures of four things
    """

    images: Tensor
    truth: Tensor
    pairs: list[Collage]
    mosaics: list[Collage]


def photo_inputs(model: Model, data: Path, photos: int, pairs: int, mosaics: int) -> Inputs:
    """Return as inputs ``photos`` photos of ``imagen_test`` in the folder ``data``, ``pairs`` pictures of two photos side by side, and
    ``mosaics`` of four.

    The class of a photo is the likeliest of its right classes by the model's answer to the photo alone. Raises ExplainerError for a
    model of other classes than ImageNet's.
    """
    labelled = read_photos(data)
    truth = labelled.truth()
    if len(model.labels) != truth.shape[1]:
        raise ExplainerError(f"{data} holds photos of {truth.shape[1]} classes and the model has {len(model.labels)}: leave --data out")
    logits = answer(model, labelled.images)
    likeliest = logits.masked_fill(~truth, -torch.inf).argmax(1).tolist()
    rng = np.random.default_rng(SEED)

    def collage(cells: tuple[int, int]) -> Collage:
        rows = draw_unlike(rng, labelled.synsets, math.prod(cells))
        classes = {divmod(number, cells[1]): likeliest[row] for number, row in enumerate(rows)}
        return Collage(paste_photos(labelled.images[rows], cells), classes, cells)

    chosen = rng.permutation(len(truth))[:photos]
    return Inputs(
        labelled.images[chosen], truth[chosen], [collage((1, 2)) for _ in range(pairs)], [collage((2, 2)) for _ in range(mosaics)]
    )


def paste_photos(photos: Tensor, cells: tuple[int, int]) -> Image.Image:
    """Return a picture as large as one of the square ``photos``, uint8 (rows * columns, H, W, 3), that shows them all, row by row in
    ``cells`` (rows, columns); what a narrow cell has no room for is cut off at the sides.
    """
    side = photos.shape[1]
    picture = Image.new("RGB", (side, side))
    height, width = side // cells[0], side // cells[1]
    for number, photo in enumerate(photos):
        place = divmod(number, cells[1])
        left = (side - side * width // height) // 2 if width < height else 0
        cut = Image.fromarray(photo.numpy()).crop((left, 0, side - left, side)).resize((width, height), Image.Resampling.BICUBIC)
        picture.paste(cut, (place[1] * width, place[0] * height))
    return picture


def draw_unlike(rng: np.random.Generator, names: Sequence[str], number: int) -> list[int]:
    """Return the indices of ``number`` random photos, drawn by ``rng``, of different ``names``."""
    while True:
        rows = [int(row) for row in rng.choice(len(names), number, replace=False)]
        if len({names[row] for row in rows}) == number:
            return rows


def scene_inputs(photos: int, pairs: int, mosaics: int) -> Inputs:
    """Render as many scenes of things as ``photos``, and compose ``pairs`` pictures of two and ``mosaics`` of four scenes of one thing
    each, side by side.
    """
    scenes = [render(np.random.default_rng([SEED, number]), SCENE_SIDE) for number in range(photos)]
    truth = torch.zeros(photos, len(KINDS), dtype=torch.bool)
    for row, scene in zip(truth, scenes, strict=True):
        row[[KINDS.index(item.kind) for item in scene.objects]] = True
    rng = np.random.default_rng([SEED, MANY])

    def collage(cells: tuple[int, int]) -> Collage:
        kinds = [int(kind) for kind in rng.choice(len(KINDS), math.prod(cells), replace=False)]
        picture, classes = Image.new("RGB", (SCENE_SIDE, SCENE_SIDE)), {}
        height, width = SCENE_SIDE // cells[0], SCENE_SIDE // cells[1]
        for number, kind in enumerate(kinds):
            place = divmod(number, cells[1])
            scene = render(rng, height, [KINDS[kind]]).image
            left = (height - width) // 2
            picture.paste(scene.crop((left, 0, left + width, height)), (place[1] * width, place[0] * height))
            classes[place] = kind
        return Collage(picture, classes, cells)

    images = torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes]))
    return Inputs(images, truth, [collage((1, 2)) for _ in range(pairs)], [collage((2, 2)) for _ in range(mosaics)])


@torch.inference_mode()
def answer(model: Model, images: Tensor) -> Tensor:
    """Return the logits (N, classes) of ``model`` for pictures, the ``images``, uint8 (N, H, W, 3)."""
    vit: Any = model.module
    return torch.cat([vit(pixels(vit, batch)) for batch in images.split(BATCH)])


def losses(logits: Tensor, truth: Tensor) -> NDArray[np.float64]:
    """Return minus the logarithm of the total probability of the right classes, (N,), in nats. ``logits`` is (N, classes), ``truth`` the
    same in bool.
    """
    probabilities = logits.double().softmax(1)
    values: NDArray[np.float64] = -(probabilities * truth).sum(1).clamp(min=1e-12).log().numpy()
    return values


def asked_of(model: Model, images: Tensor) -> Asker:
    """Return an :class:`Asker` with ``model`` and the pictures, ``images`` uint8 (N, H, W, 3), prepared in batches."""
    vit: Any = model.module
    batches = []
    for batch in images.split(BATCH):
        tensors = {"pixel_values": pixels(vit, batch)}
        layout = model.layout_of(tensors)
        content = torch.zeros(len(batch), layout.image_tokens, dtype=torch.bool)
        content[:, layout.patches] = True
        batches.append(Batch(model, tensors, len(batch), content))
    return Asker(batches)


def part_losses(model: Model, inputs: Inputs) -> dict[str, Estimate]:
    """Return for each attention and MLP of ``model`` how much the loss rises, in nats, when it gives its mean output over the inputs, by
    token, in place of its own.
    """
    asked = asked_of(model, inputs.images)
    means = MeanOutputs(asked, find_parts(model, {"pixel_values": asked.batches[0].tensors["pixel_values"][:1]}))
    intact = losses(torch.cat(means.collect()), inputs.truth)
    found = {}
    for part in tqdm(means.parts, desc="parts", leave=False, disable=None):
        found[part.name] = Estimate.of(losses(torch.cat(means.logits([part])), inputs.truth) - intact)
    return found


def isolated_patches_loss(model: Model, inputs: Inputs) -> tuple[float, Estimate]:
    """Return the top-1 accuracy of ``model`` on the images of ``inputs``, and how much of it is lost where a patch attends to itself and
    the class token alone, in every block.
    """

    def is_right(logits: Tensor) -> NDArray[np.float64]:
        values: NDArray[np.float64] = inputs.truth.gather(1, logits.argmax(1, keepdim=True))[:, 0].double().numpy()
        return values

    intact = is_right(answer(model, inputs.images))
    isolated = is_right(torch.cat(isolated_answers(asked_of(model, inputs.images), lambda batch: None)))
    return float(intact.mean()), Estimate.of(intact - isolated)


def maps(model: Model, image: Image.Image, methods: Sequence[str], target: int | None = None) -> NDArray[np.float64]:
    """Return the scores of the patches of ``image`` by each of ``methods``, (methods, patches), for the class number ``target`` of
    ``model`` or (None) the predicted one.
    """
    explanation = explainers.explain(model, image, target=target, methods=list(methods))
    explanation = explanation[0] if isinstance(explanation, list) else explanation
    return np.stack([found.scores[found.content].double().numpy() for found in explanation.maps])


def agreements(model: Model, images: Sequence[Image.Image], other: Model | None) -> tuple[Estimate, Estimate | None]:
    """Return the rank correlation of the maps of two methods for ``images`` and ``model``, and of one method's maps with those on
    ``other``, a model of the same shape.

    The first is the median over pairs of methods, for each picture; the second, where ``other`` is given, such as an earlier checkpoint, is
    the median over methods.
    """
    between, same = [], []
    for image in tqdm(images, desc="methods", leave=False, disable=None):
        target = int(answer(model, torch.from_numpy(np.array(image))[None]).argmax())
        own = maps(model, image, METHODS, target)
        between.append(median_agreement(own))
        if other is not None:
            theirs = maps(other, image, METHODS, target)
            pairs = [rank_correlations(np.stack(pair))[0, 1] for pair in zip(own, theirs, strict=True)]
            same.append(float(np.nanmedian(pairs)))
    return Estimate.of(between), Estimate.of(same) if same else None


@torch.inference_mode()
def deletion_gains(model: Model, images: Sequence[Image.Image]) -> dict[str, Estimate]:
    """Return for each default method how much sooner the answer of ``model`` to ``images`` falls in a deletion test than in a random order.

    That is the area under the probability of the answer while patches are removed in a random order, minus the same in the order of the
    map. Above 0, the map finds what the answer needs sooner than chance.
    """
    methods = explainers.default_methods(model)
    vit: Any = model.module
    gains: dict[str, list[float]] = {method: [] for method in methods}
    for number, image in enumerate(tqdm(images, desc="deletion", leave=False, disable=None)):
        tensor = model.tensors(image)["pixel_values"]
        scores = [*maps(model, image, methods), np.random.default_rng([SEED, number]).random(vit.patch_embed.num_patches)]
        top = int(vit(tensor).argmax())
        areas = [_deletion_area(vit, tensor, values, top) for values in scores]
        for method, area in zip(methods, areas, strict=False):
            gains[method].append(areas[-1] - area)
    return {method: Estimate.of(values) for method, values in gains.items()}


def _deletion_area(vit: Any, tensor: Tensor, scores: NDArray[np.float64], top: int) -> float:
    grid = vit.patch_embed.grid_size
    order = np.argsort(-scores, kind="stable")
    keep = np.ones((STEPS + 1, len(scores)), np.float32)
    for step in range(STEPS + 1):
        keep[step, order[: round(len(scores) * step / STEPS)]] = 0
    shape = torch.from_numpy(keep).view(-1, 1, *grid)
    mask = nn.functional.interpolate(shape, tensor.shape[-2:], mode="nearest")
    return float(vit(tensor * mask).softmax(1)[:, top].mean())  # 0 is the mean colour


def class_correlations(model: Model, pairs: Sequence[Collage]) -> dict[str, Estimate]:
    """Return by method the rank correlation of the maps of ``model`` for the two classes of a picture of two things, over all ``pairs``."""
    values = []
    for pair in tqdm(pairs, desc="pairs", leave=False, disable=None):
        first, second = (maps(model, pair.image, CLASS_METHODS, target) for target in pair.classes.values())
        values.append([rank_correlations(np.stack(both))[0, 1] for both in zip(first, second, strict=True)])
    return {method: Estimate.of([row[number] for row in values]) for number, method in enumerate(CLASS_METHODS)}


def pointings(model: Model, mosaics: Sequence[Collage]) -> dict[str, Estimate]:
    """Return by method the share of the positive relevance in a map of ``model`` that lies in the quarter of the explained class; chance: 1
    in 4.

    One class a mosaic, at each of the four places in turn.
    """
    vit: Any = model.module
    values = []
    for number, mosaic in enumerate(tqdm(mosaics, desc="mosaics", leave=False, disable=None)):
        cell = divmod(number % 4, 2)
        found = torch.from_numpy(maps(model, mosaic.image, CLASS_METHODS, mosaic.classes[cell])).unflatten(1, vit.patch_embed.grid_size)
        values.append([grid_pointing(scores, cell) for scores in found])
    return {method: Estimate.of([row[number] for row in values]) for number, method in enumerate(CLASS_METHODS)}


def measure(model: Model, inputs: Inputs, other: Model | None = None, count: int = MAPS) -> dict[str, Any]:
    """Return all measures of ``model`` on ``inputs``, by name. ``other`` is another late checkpoint of it; ``count`` pictures are
    explained.
    """
    images = [Image.fromarray(image) for image in inputs.images[:count].numpy()]
    top1, lost = isolated_patches_loss(model, inputs)
    between, same = agreements(model, images, other)
    return {
        "top-1": top1,
        "loss without a part": part_losses(model, inputs),
        "top-1 lost when patches read no other patch": lost,
        "agreement of two methods": between,
        "agreement of one method on two checkpoints": same,
        "deletion, sooner than at random": deletion_gains(model, images),
        "correlation of the maps of two classes": class_correlations(model, inputs.pairs),
        "grid pointing": pointings(model, inputs.mosaics),
    }


def idle_parts(parts: dict[str, Estimate]) -> list[str]:
    """Return the names of the parts without which the loss does not certainly rise: the interval of its rise reaches 0 or lies below it."""
    return [name for name, rise in parts.items() if rise.low <= 0]


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Format the measures in ``found``, by name, as lines of text."""
    for name, value in found.items():
        if isinstance(value, dict):
            yield f"{name}:"
            yield from (f"  {key:<28} {estimate}" for key, estimate in value.items())
        elif value is not None:
            yield f"{name}: {value if isinstance(value, Estimate) else f'{value:.3f}'}"
    idle = idle_parts(found["loss without a part"])
    yield f"idle parts: {', '.join(idle) or 'none'} ({len(idle)} of {len(found['loss without a part'])})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the depth of the model that the command-line ``arguments`` name (by default those of the process), print the figures, and
    write them as JSON if a file is named.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="an embedded model or the folder of a timm Vision Transformer")
    parser.add_argument("--data", type=Path, help="folder that holds imagen_test/; without it the model is measured on rendered scenes")
    parser.add_argument("--other", type=Path, help="folder of another late checkpoint of the same model")
    parser.add_argument("--photos", type=int, default=PHOTOS, help=f"photos for losses and answers (default {PHOTOS})")
    parser.add_argument("--mosaics", type=int, default=MOSAICS, help=f"mosaics of four (default {MOSAICS})")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pictures of two things (default {PAIRS})")
    parser.add_argument("--maps", type=int, default=MAPS, help=f"photos whose maps are compared (default {MAPS})")
    parser.add_argument("--out", type=Path, help="JSON file to write the figures to")
    args = parser.parse_args(arguments)
    model = explainers.load(args.model, device="cpu")
    counts = args.photos, args.pairs, args.mosaics
    inputs = scene_inputs(*counts) if args.data is None else photo_inputs(model, args.data, *counts)
    other = None if args.other is None else explainers.load(args.other, device="cpu")
    found = measure(model, inputs, other, args.maps)
    print("\n".join(lines(found)))
    if args.out is not None:
        args.out.write_text(json.dumps(found, default=asdict, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

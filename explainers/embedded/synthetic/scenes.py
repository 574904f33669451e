"""Scenes of known objects with exact masks, for training small models and for checking where explanations point.

A scene is composed first (``compose``: what stands where, in fractions of the side, over which background) and drawn
after (``draw``), so one composition can be drawn at any size, or again with an object left out. ``render`` does both.
Equal generators give equal scenes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.embedded.synthetic.sprites import file_names, kinds

KINDS: tuple[str, ...] = tuple(kinds())
BACKGROUNDS = ("paper", "gradient", "blobs", "noise", "stripes", "checker")
COUNT_SHARES = (0.3, 0.35, 0.2, 0.15)  # scenes with one, two, three, four objects
MAX_LENGTHS = (0.75, 0.56, 0.48, 0.44)  # greatest length of an object in a scene of one to four, as a share of the side
MIN_LENGTH = 0.27
MIN_VISIBLE = 0.5  # least share of each object that must be visible
MIN_OPACITY = 0.06  # opacity
SIZE_STEP = 2  # pixels; sprites are scaled to multiples of it so that scaled copies can be kept


class SceneObject(NamedTuple):
    """The visible part of one object in a scene: the object's kind, the mask of its visible pixels, and the box around them."""

    kind: str
    mask: NDArray[np.bool_]  # (size, size), true where this object is what one sees
    box: tuple[int, int, int, int]  # left, top, right, bottom of the mask, the last two exclusive


class Scene(NamedTuple):
    """A rendered picture, the visible part of each of its objects, back to front, and the composition that it was drawn from."""

    image: Image.Image  # RGB
    objects: list[SceneObject]
    composition: Composition


@dataclass(frozen=True)
class Placement:
    """One object in a composition: its kind and sprite, its ``centre`` (x, y) and the ``length`` of its longer side, its ``angle``, whether
    it is mirrored, and its saturation and brightness. Lengths are fractions of the scene's side.
    """

    kind: str
    sprite: str
    centre: tuple[float, float]
    length: float  # of the sprite's longer side
    angle: float = 0.0  # degrees, counter-clockwise
    mirrored: bool = False
    saturation: float = 1.0
    brightness: float = 1.0


@dataclass(frozen=True)
class Composition:
    """A complete description of a scene except its size in pixels: its background, with the seed, the two colours and the grain of it, and
    its objects (``placements``, back to front).
    """

    background: str  # one of BACKGROUNDS
    seed: int  # decides the background
    placements: tuple[Placement, ...]  # back to front
    colours: tuple[tuple[int, int, int], ...] | None = None  # the two of the background; drawn from the seed when None
    grain: float | None = None  # pixel noise, standard deviation in grey levels; drawn from the seed when None


@cache
def _read_sprite(name: str) -> Image.Image:
    with resources.files("explainers.embedded").joinpath("sprites", name).open("rb") as file:
        return Image.open(file).convert("RGBA")


@cache
def _scale_sprite(name: str, longest: int) -> Image.Image:
    sprite = _read_sprite(name)
    scale = longest / max(sprite.size)
    size = (max(2, round(sprite.width * scale)), max(2, round(sprite.height * scale)))
    return sprite.resize(size, Image.Resampling.LANCZOS)


def background(name: str, seed: int, size: int, colours: Sequence[Sequence[int]] | None = None,
               grain: float | None = None) -> NDArray[np.float32]:  # fmt: skip
    """Return the background called ``name`` as levels of red, green and blue 0..255, (size, size, 3), in two ``colours`` and with
    ``grain``, the deviation of its noise; those that are None are drawn by ``seed``. The same seed gives the same picture at any size,
    except for its grain, which is random noise in each pixel.
    """
    rng = np.random.default_rng(seed)
    base = rng.uniform(25, 230)
    first, second = np.clip(base + rng.normal(0, 45, (2, 3)), 0, 255) if colours is None else np.asarray(colours, float)
    angle, phase = rng.uniform(0, 2 * math.pi, 2)
    periods = rng.uniform(1.5, 9)
    cells = int(rng.integers(3, 12))
    sigma = rng.uniform(0, 14) if grain is None else grain
    line = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    ramp = math.cos(angle) * line[None, :] + math.sin(angle) * line[:, None]  # (size, size), about -0.7 .. 0.7
    weight: NDArray[np.float32]
    if name == "paper":
        weight = np.zeros((size, size), np.float32)
    elif name == "gradient":
        weight = np.clip(ramp + 0.5, 0, 1).astype(np.float32)
    elif name == "stripes":
        weight = (np.sin(2 * math.pi * periods * ramp + phase) > 0).astype(np.float32)
    elif name == "checker":
        across = -math.sin(angle) * line[None, :] + math.cos(angle) * line[:, None]
        weight = ((np.floor(2 * periods * ramp) + np.floor(2 * periods * across)) % 2).astype(np.float32)
    elif name in ("blobs", "noise"):
        field = rng.random((cells, cells, 3)) if name == "blobs" else rng.random((4 * cells, 4 * cells, 1)).repeat(3, 2)
        small = Image.fromarray((field * 255).astype(np.uint8))
        weight = np.asarray(small.resize((size, size), Image.Resampling.BICUBIC), np.float32) / np.float32(255)
    else:
        raise ValueError(f"no background is called {name!r}; there are {', '.join(BACKGROUNDS)}")
    if weight.ndim == 2:
        weight = weight[..., None]
    picture = first.astype(np.float32) * (1 - weight) + second.astype(np.float32) * weight
    if sigma:
        picture += rng.standard_normal((size, size, 1), np.float32) * np.float32(sigma)
    clipped: NDArray[np.float32] = np.clip(picture, 0, 255)
    return clipped


def compose(rng: np.random.Generator, kinds: Sequence[str] | None = None, count: int | None = None) -> Composition:
    """Return a random composition, drawn from ``rng``, of one object of each of ``kinds``, back to front, or of ``count`` objects of
    different random kinds. Raises ValueError for an unknown kind and for too many objects.
    """
    if kinds is None:
        if count is None:
            count = int(rng.choice(len(COUNT_SHARES), p=COUNT_SHARES)) + 1
        kinds = [KINDS[i] for i in rng.choice(len(KINDS), count, replace=False)]
    if not 1 <= len(kinds) <= len(MAX_LENGTHS):
        raise ValueError(f"a scene holds 1 to {len(MAX_LENGTHS)} objects, not {len(kinds)}")
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise ValueError(f"no sprite of {', '.join(unknown)}; there are {', '.join(KINDS)}")
    placements = []
    for kind in kinds:
        names = file_names(kind)
        name = names[rng.integers(len(names))]
        sprite = _read_sprite(name)
        slender = (max(sprite.size) / min(sprite.size)) ** 0.25  # a fork as long as a ball is wide would be lost
        length = min(0.8, slender * rng.uniform(MIN_LENGTH, MAX_LENGTHS[len(kinds) - 1]))
        angle = rng.uniform(-30, 30)
        reach = [length * side / max(sprite.size) for side in sprite.size]
        cos, sin = abs(math.cos(math.radians(angle))), abs(math.sin(math.radians(angle)))
        half = (reach[0] * cos + reach[1] * sin) / 2, (reach[0] * sin + reach[1] * cos) / 2
        centre = tuple(0.5 + (rng.random() - 0.5) * max(0.0, 1 - 2 * h) for h in half)
        placements.append(Placement(kind, name, (centre[0], centre[1]), length, angle, bool(rng.random() < 0.5),
                                    rng.uniform(0.5, 1.35), rng.uniform(0.65, 1.25)))  # fmt: skip
    return Composition(BACKGROUNDS[rng.integers(len(BACKGROUNDS))], int(rng.integers(2**31)), tuple(placements))


def draw(composition: Composition, size: int) -> tuple[Scene, list[float]]:
    """Draw a composition as a picture, ``size`` pixels a side; return the scene, and for each object the share of it that is visible."""
    if composition.colours is None and composition.grain is None:
        canvas = background(composition.background, composition.seed, size)
    else:
        canvas = background(composition.background, composition.seed, size, composition.colours, composition.grain)
    owner = np.full((size, size), -1, np.int8)
    areas = []
    for index, item in enumerate(composition.placements):
        longest = max(SIZE_STEP, SIZE_STEP * round(item.length * size / SIZE_STEP))
        sprite = _scale_sprite(item.sprite, longest)
        if item.mirrored:
            sprite = sprite.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if item.angle:
            sprite = sprite.rotate(item.angle, Image.Resampling.BICUBIC, expand=True)
        left = round(item.centre[0] * size - sprite.width / 2)
        top = round(item.centre[1] * size - sprite.height / 2)
        x0, y0, x1, y1 = max(0, left), max(0, top), min(size, left + sprite.width), min(size, top + sprite.height)
        if x0 >= x1 or y0 >= y1:
            areas.append(0)
            continue
        pixels = np.asarray(sprite, np.float32)[y0 - top : y1 - top, x0 - left : x1 - left]
        colour, alpha = pixels[..., :3], pixels[..., 3:] / 255
        alpha[alpha < MIN_OPACITY] = 0  # resampling rings a little around an edge, beyond the mask and inside it
        alpha[alpha > 1 - MIN_OPACITY] = 1
        grey = colour.mean(2, keepdims=True)
        colour = np.clip((grey + (colour - grey) * item.saturation) * item.brightness, 0, 255)
        window = canvas[y0:y1, x0:x1]
        window += alpha * (colour - window)
        solid = alpha[..., 0] > 0.5
        owner[y0:y1, x0:x1][solid] = index
        areas.append(int(solid.sum()))
    objects, visible = [], []
    for index, (item, area) in enumerate(zip(composition.placements, areas, strict=True)):
        mask = owner == index
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        seen = len(rows) > 0
        box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1) if seen else (0, 0, 0, 0)
        objects.append(SceneObject(item.kind, mask, box))
        visible.append(float(mask.sum()) / area if area else 0.0)
    image = Image.fromarray(np.rint(canvas).astype(np.uint8))
    return Scene(image, objects, composition), visible


def render(rng: np.random.Generator, size: int, kinds: Sequence[str] | None = None, count: int | None = None) -> Scene:
    """Draw by ``rng`` random compositions of these ``kinds`` (None: random ones) or of ``count`` objects, ``size`` pixels a side, and
    return the first scene in which at least half of every object is visible.
    """
    if kinds is None and count is None:  # before anything is rejected, or crowded scenes would be rarer than they should
        count = int(rng.choice(len(COUNT_SHARES), p=COUNT_SHARES)) + 1
    while True:
        scene, visible = draw(compose(rng, kinds, count), size)
        if min(visible) >= MIN_VISIBLE:
            return scene


def patch_labels(scene: Scene, patch: int, least: float = 0.3) -> NDArray[np.int64]:
    """Return the class of the object that covers most of each patch of a ``scene``: (rows, columns), for square patches of ``patch`` pixels
    a side; ``len(KINDS)`` where no object covers the share ``least`` of the patch.
    """
    size = scene.image.width // patch
    shares = [item.mask.reshape(size, patch, size, patch).mean((1, 3)) for item in scene.objects]
    shares.insert(0, np.full((size, size), least))
    classes = np.array([len(KINDS)] + [KINDS.index(item.kind) for item in scene.objects])
    labels: NDArray[np.int64] = classes[np.argmax(shares, 0)]
    return labels

"""Pictures made by rules that show nothing which a class stands for: line drawings, shaded shapes, charts, soft grey shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from recipes.data.pictures import SIDE

DOUBLE_SIDE = 2 * SIDE  # what is drawn with edges is made smaller afterwards, so that they are smooth
Picture = NDArray[np.uint8]
Box = tuple[float, float, float, float]


def draw_lines(rng: np.random.Generator) -> Picture:
    """Draw boxes, ellipses, polygons, curves and arcs, chosen by ``rng``, in one ink on paper: a picture (SIDE, SIDE, 3)."""
    image = Image.new("RGB", (DOUBLE_SIDE, DOUBLE_SIDE), _paper(rng))
    draw, width = ImageDraw.Draw(image), int(rng.integers(2, 8))
    ink = tuple(int(value) for value in rng.integers(0, 90) + rng.integers(0, 20, 3))
    for _ in range(int(rng.integers(3, 12))):
        x, y = rng.uniform(0.05, 0.7, 2) * DOUBLE_SIDE
        w, h = rng.uniform(0.1, 0.4, 2) * DOUBLE_SIDE
        box = (x, y, min(x + w, 0.97 * DOUBLE_SIDE), min(y + h, 0.97 * DOUBLE_SIDE))
        shape = rng.integers(5)
        if shape == 0:
            draw.rectangle(box, outline=ink, width=width)
        elif shape == 1:
            draw.ellipse(box, outline=ink, width=width)
        elif shape == 2:
            corners = [(x + u * (box[2] - x), y + v * (box[3] - y)) for u, v in rng.uniform(0, 1, (int(rng.integers(3, 7)), 2))]
            draw.line([*corners, corners[0]], fill=ink, width=width, joint="curve")
        elif shape == 3:
            draw.line(_curve(rng, box), fill=ink, width=width, joint="curve")
        else:
            draw.arc(box, int(rng.integers(0, 180)), int(rng.integers(180, 360)), fill=ink, width=width)
    return _shrink(image)


def draw_shaded_shapes(rng: np.random.Generator) -> Picture:
    """Render balls, cylinders and blocks, chosen by ``rng``, in the light of one lamp, before a plain or a graded wall: a picture (SIDE,
    SIDE, 3).
    """
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    first, last = rng.uniform(0, 255, (2, 3))
    picture = first + (last - first) * (y if rng.random() < 0.5 else x)[..., None] * rng.uniform(0, 1)
    light = rng.normal(size=3)
    light[2] = abs(light[2]) + 0.5
    light /= np.linalg.norm(light)
    for _ in range(int(rng.integers(1, 7))):
        (across, down), size, colour = rng.uniform(0.15, 0.85, 2), rng.uniform(0.08, 0.32), rng.uniform(40, 255, 3)
        u, v = (x - across) / size, (y - down) / size
        shape = rng.integers(3)
        if shape == 0:
            inside = u**2 + v**2 < 1
            normals = np.stack([u, v, np.sqrt(np.clip(1 - u**2 - v**2, 0, 1))], -1)
        elif shape == 1:
            inside = (abs(u) < 1) & (abs(v) < rng.uniform(0.6, 2))
            normals = np.stack([u, 0 * u, np.sqrt(np.clip(1 - u**2, 0, 1))], -1)
        else:
            turn = rng.uniform(0, math.pi)
            u, v = u * math.cos(turn) + v * math.sin(turn), v * math.cos(turn) - u * math.sin(turn)
            inside = (abs(u) < 1) & (abs(v) < 1)
            normals = np.stack([0.6 * np.sign(u - v), 0 * u + 0.3, 0 * u + 0.74], -1)
        lit = np.clip(normals @ light, 0, 1)[..., None]
        shine = lit ** rng.uniform(8, 40) * rng.uniform(0, 120)
        picture = np.where(inside[..., None], colour * (0.25 + 0.75 * lit) + shine, picture)
    return np.clip(picture, 0, 255).round().astype(np.uint8)


def draw_chart(rng: np.random.Generator) -> Picture:
    """Draw a chart, chosen by ``rng``: bars, lines or dots over axes with numbers, or a pie. Returns a picture (SIDE, SIDE, 3)."""
    image = Image.new("RGB", (DOUBLE_SIDE, DOUBLE_SIDE), (255, 255, 255) if rng.random() < 0.7 else _paper(rng))
    draw, kind, number = ImageDraw.Draw(image), rng.integers(4), int(rng.integers(4, 12))
    left, top, right, bottom = 60, 40, DOUBLE_SIDE - 30, DOUBLE_SIDE - 50
    if kind == 3:
        begin = 0.0
        for share in rng.dirichlet(np.ones(number)) * 360:
            draw.pieslice((70, 70, DOUBLE_SIDE - 70, DOUBLE_SIDE - 70), begin, begin + share, fill=_ink(rng))
            begin += share
        return _shrink(image)
    draw.line([(left, top), (left, bottom), (right, bottom)], fill=(0, 0, 0), width=3)
    for step in range(6):
        draw.text((20, bottom - (bottom - top) * step / 6 - 6), str(10 * step), fill=(0, 0, 0))
    for place in range(number):
        draw.text((left + (right - left) * (place + 0.3) / number, bottom + 8), f"{place:02}", fill=(0, 0, 0))
    for _ in range(int(rng.integers(1, 4)) if kind else 1):
        ink = _ink(rng)
        if kind == 0:
            for place, height in enumerate(rng.uniform(0.1, 0.95, number)):
                sides = [left + (right - left) * (place + part) / number for part in (0.15, 0.85)]
                draw.rectangle((sides[0], bottom - height * (bottom - top), sides[1], bottom), fill=ink)
        elif kind == 1:
            walk = _to_unit_range(np.cumsum(rng.normal(size=40)))
            draw.line([(left + (right - left) * i / 39, bottom - (bottom - top) * 0.9 * v) for i, v in enumerate(walk)], fill=ink, width=4)
        else:
            for u, v in np.clip(rng.normal(size=(80, 2)) * 0.15 + rng.uniform(0.3, 0.7, 2), 0, 1):
                x, y = left + (right - left) * u, bottom - (bottom - top) * v
                draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=ink)
    return _shrink(image)


def draw_soft_shapes(rng: np.random.Generator) -> Picture:
    """Draw soft grey shapes, chosen by ``rng``, that shine through each other on black, like an X-ray of nothing: a picture (SIDE, SIDE,
    3).
    """
    total = np.full((SIDE, SIDE), float(rng.integers(0, 25)))
    for _ in range(int(rng.integers(4, 14))):
        layer = Image.new("L", (SIDE, SIDE), 0)
        x, y = rng.uniform(0.1, 0.8, 2) * SIDE
        w, h = rng.uniform(0.05, 0.5, 2) * SIDE
        grey = int(rng.integers(20, 120))
        if rng.random() < 0.6:
            ImageDraw.Draw(layer).ellipse((x, y, x + w, y + h), fill=grey)
        else:
            ImageDraw.Draw(layer).line(_curve(rng, (x, y, x + w, y + h)), fill=grey, width=int(rng.integers(3, 14)), joint="curve")
        total += np.asarray(layer.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.5, 5)))))
    return np.repeat(np.clip(total, 0, 255).astype(np.uint8)[..., None], 3, 2)


#: The name of each kind of unknowable picture, and the function that draws one.
UNKNOWABLE: dict[str, Callable[[np.random.Generator], Picture]] = {
    "line drawings": draw_lines,
    "shaded shapes": draw_shaded_shapes,
    "charts": draw_chart,
    "soft grey shapes": draw_soft_shapes,
}


def _curve(rng: np.random.Generator, box: Box) -> list[tuple[float, float]]:
    """Return the points (x, y) of a closed curve of two waves in each direction, drawn by ``rng``, that fills ``box``."""
    t, (m, n), phases = np.linspace(0, 2 * math.pi, 90), rng.integers(1, 4, 2), rng.uniform(0, 6.3, 4)
    x = _to_unit_range(np.sin(m * t + phases[0]) + 0.4 * np.sin((m + 2) * t + phases[2]))
    y = _to_unit_range(np.cos(n * t + phases[1]) + 0.4 * np.sin((n + 1) * t + phases[3]))
    return [(box[0] + u * (box[2] - box[0]), box[1] + v * (box[3] - box[1])) for u, v in zip(x.tolist(), y.tolist(), strict=True)]


def _to_unit_range(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` shifted and stretched so that they run from 0 to 1."""
    stretched: NDArray[np.float64] = (values - values.min()) / (np.ptp(values) + 1e-9)
    return stretched


def _paper(rng: np.random.Generator) -> Any:
    return tuple(int(value) for value in rng.integers(225, 256) + rng.integers(-8, 1, 3))


def _ink(rng: np.random.Generator) -> Any:
    return tuple(int(value) for value in rng.integers(20, 230, 3))


def _shrink(image: Image.Image) -> Picture:
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.LANCZOS))

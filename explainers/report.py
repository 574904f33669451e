"""Pictures of maps, for files and for the ``.png`` of the HTTP face. The pages draw their own from the raw numbers."""

from __future__ import annotations

import textwrap
from functools import cache

import numpy as np
from matplotlib import colormaps, font_manager
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from explainers.errors import ExplainerError
from explainers.models.base import ImageInput
from explainers.result import Attribution, Explanation

FOR, AGAINST = (194, 64, 42), (42, 98, 168)  # red for, blue against
SEQUENCE = "magma"  # perceptually uniform, for maps without a sign; the pages use the same
PAPER, INK = (255, 254, 251), (28, 26, 21)
OPACITY = 0.82
PERCENTILE = 99  # of |score|: one extreme patch does not blank the rest


def scale_of(scores: NDArray[np.float32]) -> float:
    """The score that gets the full colour: the 99th percentile of |score|, or the largest where that is 0."""
    sizes = np.abs(scores)
    return float(np.percentile(sizes, PERCENTILE) or sizes.max(initial=0)) if sizes.size else 0.0


def colours(values: NDArray[np.float32], signed: bool) -> NDArray[np.float32]:
    """Values in units of the scale to RGBA in 0..1, shape (..., 4): opaque where evidence is strong."""
    if signed:
        strength = np.clip(np.abs(values), 0, 1)
        rgb = np.where(values[..., None] >= 0, FOR, AGAINST) / 255
    else:
        strength = np.clip(values, 0, 1)
        rgb = colormaps[SEQUENCE](strength)[..., :3]
    return np.concatenate([rgb, strength[..., None]], -1).astype(np.float32)


def seen_image(record: ImageInput) -> Image.Image:
    """The part of the upright original that the model saw, at the original's resolution. Raises ExplainerError when
    tensors were explained.
    """
    if record.image is None:
        raise ExplainerError("There is no picture to draw on: tensors were explained. Explain an image, or use the scores.")
    return record.image.crop(record.crop)


def render_overlay(explanation: Explanation, attribution: Attribution, size: int = 448) -> Image.Image:
    """One map as a picture, ``size`` pixels along its longer side for an image, ``size`` wide for a text.

    An image is shown in grey, exactly the crop the model saw, with the scores over it, smoothed bilinearly. A text is
    set with each word on its colour and
    underlined in proportion to its score, so that colour is not the only cue.
    """
    if isinstance(explanation.input, ImageInput) and attribution.text is None:
        return _over_image(explanation.input, attribution, size)
    return _over_text(attribution, size)


def _over_image(record: ImageInput, attribution: Attribution, size: int) -> Image.Image:
    if attribution.patches is None:
        raise ExplainerError("This map has no grid of patches to draw.")
    seen = seen_image(record)
    factor = size / max(seen.size)
    width, height = (max(1, round(side * factor)) for side in seen.size)
    base = ImageOps.grayscale(seen.resize((width, height), Image.Resampling.LANCZOS)).convert("RGB")
    scores = attribution.scores[attribution.content].numpy().reshape(attribution.patches)
    scale = scale_of(scores)
    grid = Image.fromarray(scores / scale if scale else scores)
    smooth = np.asarray(grid.resize((width, height), Image.Resampling.BILINEAR))
    rgba = colours(smooth, attribution.signed)
    alpha = OPACITY * (rgba[..., 3:] if attribution.signed else 0.12 + 0.88 * rgba[..., 3:])
    mixed = np.asarray(base, np.float32) / 255 * (1 - alpha) + rgba[..., :3] * alpha
    return Image.fromarray((mixed * 255).round().astype(np.uint8))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """A serif that matplotlib carries, so that no system font is needed."""
    return ImageFont.truetype(font_manager.findfont("DejaVu Serif"), size)


def _over_text(attribution: Attribution, width: int) -> Image.Image:
    words = attribution.words()
    font, margin, leading = _font(17), 16, 32
    scores = np.array([w.score for w in words], np.float32)
    scale = scale_of(scores)
    texts = (attribution.text.text, attribution.text.pair) if attribution.text is not None else (None, None)
    x, y, placed = margin, margin, []
    end, part = 0, 0
    for word, score in zip(words, scores, strict=True):
        if word.part != part:  # the second text of a pair stands below the first
            x, y, end, part = margin, y + leading * 3 // 2, 0, word.part
        text = texts[part]
        gap = text[end : word.start] if text is not None else " "
        end = word.end
        shown = textwrap.shorten(word.text, 60, placeholder="...") or word.text
        x += round(font.getlength(" ")) if gap.strip() != gap or "\n" in gap or gap == " " else 0
        if x + font.getlength(shown) > width - margin and x > margin:
            x, y = margin, y + leading
        placed.append((x, y, shown, float(score) / scale if scale else 0.0))
        x += round(font.getlength(shown))
    picture = Image.new("RGB", (width, y + leading + margin), PAPER)
    draw = ImageDraw.Draw(picture)
    for left, top, shown, value in placed:
        strength = min(1.0, abs(value))
        hue = np.array(FOR if value >= 0 else AGAINST)
        right = left + font.getlength(shown)
        ground = tuple(int(c) for c in np.array(PAPER) * (1 - 0.6 * strength) + hue * 0.6 * strength)
        draw.rectangle((left, top, right, top + 23), fill=ground)
        if strength > 0.05:
            draw.rectangle((left, top + 23, right, top + 23 + round(3 * strength)), fill=tuple(int(c) for c in hue))
        draw.text((left, top), shown, font=font, fill=INK)
    return picture

"""Pictures of maps, for files and for the ``.png`` of the HTTP face, as the pages draw them from the raw numbers unless told otherwise."""

from __future__ import annotations

import textwrap
from functools import cache

import numpy as np
from matplotlib import font_manager
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from explainers.colours import colours, limits, place
from explainers.errors import ExplainerError
from explainers.models.base import ImageInput
from explainers.result import Attribution, Explanation

PAPER, INK = (255, 254, 251), (28, 26, 21)
FOR, AGAINST, STRENGTH = (194, 64, 42), (42, 98, 168), (134, 48, 138)  # under words, as on the page in daylight
OPACITY = 0.8
MIX = 0.48  # of a word's ground at full score


def seen_image(record: ImageInput) -> Image.Image:
    """The part of the upright original that the model saw, at the original's resolution. Raises ExplainerError when
    tensors were explained.
    """
    if record.image is None:
        raise ExplainerError("There is no picture to draw on: tensors were explained. Explain an image, or use the scores.")
    return record.image.crop(record.crop)


def render_overlay(explanation: Explanation, attribution: Attribution, size: int = 448) -> Image.Image:
    """One map as a picture, ``size`` pixels along its longer side for an image, ``size`` wide for a text.

    An image is shown in grey, exactly the crop the model saw, with the scores over it, smoothed bilinearly. A text is set with each
    word on its colour and underlined in proportion to its score.
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
    base = _grey(seen.resize((width, height), Image.Resampling.LANCZOS))
    scores = attribution.scores[attribution.content].numpy().reshape(attribution.patches)
    smooth = np.asarray(Image.fromarray(scores).resize((width, height), Image.Resampling.BILINEAR))
    rgba = colours(place(smooth, limits(scores, attribution.signed), attribution.signed), attribution.signed)
    cover = OPACITY * rgba[..., 3:]
    return Image.fromarray((base[..., None] * (1 - cover) + rgba[..., :3] * cover).round().astype(np.uint8))


def _grey(image: Image.Image) -> NDArray[np.float64]:
    """The picture in calm grey (height, width), 46 to 235: colours above it stay readable and keep their meaning."""
    return 46 + 0.74 * (np.asarray(image.convert("RGB"), np.float64) @ (0.2126, 0.7152, 0.0722))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """A serif that matplotlib carries, so that no system font is needed."""
    return ImageFont.truetype(font_manager.findfont("DejaVu Serif"), size)


def _over_text(attribution: Attribution, width: int) -> Image.Image:
    words = attribution.words()
    font, margin, leading = _font(17), 16, 32
    scores = np.array([w.score for w in words], np.float32)
    places = place(scores, limits(scores, attribution.signed), attribution.signed)
    texts = (attribution.text.text, attribution.text.pair) if attribution.text is not None else (None, None)
    x, y, placed = margin, margin, []
    end, part = 0, 0
    for word, value in zip(words, places, strict=True):
        if word.part != part:  # the second text of a pair stands below the first
            x, y, end, part = margin, y + leading * 3 // 2, 0, word.part
        text = texts[part]
        gap = text[end : word.start] if text is not None else " "
        end = word.end
        shown = textwrap.shorten(word.text, 60, placeholder="...") or word.text
        x += round(font.getlength(" ")) if gap.strip() != gap or "\n" in gap or gap == " " else 0
        if x + font.getlength(shown) > width - margin and x > margin:
            x, y = margin, y + leading
        placed.append((x, y, shown, float(value)))
        x += round(font.getlength(shown))
    picture = Image.new("RGB", (width, y + leading + margin), PAPER)
    draw = ImageDraw.Draw(picture)
    for left, top, shown, value in placed:
        strength = abs(value)
        hue = np.array(STRENGTH if not attribution.signed else FOR if value >= 0 else AGAINST)
        right = left + round(font.getlength(shown))
        ground = tuple(int(c) for c in np.array(PAPER) * (1 - MIX * strength) + hue * MIX * strength)
        draw.rectangle((left, top, right, top + 23), fill=ground)
        _underline(draw, (left, right), top + 23, round(4 * strength), tuple(hue.tolist()), dotted=attribution.signed and value < 0)
        draw.text((left, top), shown, font=font, fill=INK)
    return picture


def _underline(draw: ImageDraw.ImageDraw, span: tuple[int, int], top: int, thick: int, hue: tuple[int, ...], *, dotted: bool) -> None:
    """A line of this thickness below a word; dots under what speaks against, so that colour is not the only cue."""
    left, right = span
    dot = thick if dotted else max(1, right - left)
    for start in range(left, right, max(1, 2 * dot)) if thick else ():
        draw.rectangle((start, top, min(right, start + dot) - 1, top + thick - 1), fill=hue)

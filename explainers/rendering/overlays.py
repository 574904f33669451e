"""Pictures of maps, for files and for the ``.png`` of the HTTP interface, as the pages draw them unless told otherwise."""

from __future__ import annotations

import textwrap
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ImageInput, PicturePromptInput
from explainers.rendering.colours import colours, has_sink, is_two_sided, normalise, scale_ends
from explainers.rendering.drawable import DrawableExplanation, DrawableMap
from explainers.rendering.molecules import is_drawn, over_molecule

At = Literal["patches", "pixels"]
PAPER, INK = (255, 255, 255), (28, 26, 21)
FOR, AGAINST, STRENGTH = (194, 64, 42), (42, 98, 168), (134, 48, 138)  # under words, as on the page in daylight
MAP_OPACITY = 0.8
FRAMES_IN_A_ROW = 4
MIX = 0.48  # of a word's ground at full score


def render_overlay(
    explanation: DrawableExplanation, attribution: DrawableMap, size: int = 448, *, at: At = "patches", sink: bool = True
) -> Image.Image:
    """Draw the map ``attribution`` over the input of ``explanation`` and return a PIL image. ``size`` is its longer side in pixels for an
    image, its width for a text.

    An image is shown in grey, exactly the pixels that the model saw, with the scores over it, smoothed bilinearly. A text is set with each
    word on its colour and underlined in proportion to its score, a molecule drawn with each atom on its colour. A picture with a prompt is
    both, one above the other. ``at="pixels"`` draws the map of the pixels that the model saw, each as it is; raises ExplainerError for a
    method that has none. ``sink=False`` leaves a first word with a far larger score than all others out of the colour scale.
    """
    if isinstance(explanation.input, ImageInput) and attribution.text is None:
        return _over_image(explanation.input, attribution, size, at)
    if at == "pixels":
        raise ExplainerError("A text has no pixels.")
    if is_drawn(attribution):
        return over_molecule(attribution, size, PAPER, (FOR, AGAINST, STRENGTH), MIX)
    words = _over_text(attribution, size, sink)
    return words if not isinstance(attribution.text, PicturePromptInput) else _under_picture(attribution.text, attribution, words)


def _over_image(record: ImageInput, attribution: DrawableMap, size: int, at: At) -> Image.Image:
    scores, resample = _grid_of(attribution, at)
    picture = record.pixels
    if picture is None:
        raise ExplainerError("There is no picture to draw on: tensors were explained. Explain an image, or use the scores.")
    if record.frames is not None:
        return _over_frames(picture, scores, attribution.signed, size, record.frames)
    return lay_over(picture, scores, attribution.signed, size, resample)


def _under_picture(record: PicturePromptInput, attribution: DrawableMap, words: Image.Image) -> Image.Image:
    """Draw the map of each picture in ``record``, by ``attribution``, above ``words``, the drawn map of the prompt's words, and return one
    PIL image. The pictures share a scale, which is not that of the words, because the many patches have small scores each.
    """
    maps = [picture.map_of(attribution.scores).numpy() for picture in record.pictures]
    ends = scale_ends(np.concatenate([scores.ravel() for scores in maps]), attribution.signed)
    drawn = [
        map_picture(scores, attribution.signed, words.width, ends)
        if picture.pixels is None
        else lay_over(picture.pixels, scores, attribution.signed, words.width, ends=ends)
        for picture, scores in zip(record.pictures, maps, strict=True)
    ]
    canvas = Image.new("RGB", (words.width, sum(each.height for each in drawn) + words.height), PAPER)
    top = 0
    for each in drawn:
        canvas.paste(each, ((words.width - each.width) // 2, top))
        top += each.height
    canvas.paste(words, (0, top))
    return canvas


def _over_frames(strip: Image.Image, scores: NDArray[np.float32], signed: bool, size: int, frames: int) -> Image.Image:
    """Draw the ``frames`` frames of a clip in rows, each with its map over it and all maps on one scale; return a PIL image ``size`` pixels
    wide. ``strip`` is the image of all frames below each other, ``scores`` (frames * rows, columns) are their maps, ``signed`` or not.
    """
    across, ends = min(frames, FRAMES_IN_A_ROW), scale_ends(scores, signed)
    height = strip.height // frames
    pictures = [strip.crop((0, i * height, strip.width, (i + 1) * height)) for i in range(frames)]
    drawn = [lay_over(p, part, signed, size // across, ends=ends) for p, part in zip(pictures, np.split(scores, frames), strict=True)]
    wide, tall = drawn[0].width + 2, drawn[0].height + 2
    canvas = Image.new("RGB", (across * wide - 2, -(-frames // across) * tall - 2), PAPER)
    for i, frame in enumerate(drawn):
        canvas.paste(frame, (i % across * wide, i // across * tall))
    return canvas


def map_picture(scores: NDArray[np.float32], signed: bool, size: int, ends: tuple[float, float] | None = None) -> Image.Image:
    """Draw ``scores`` (rows, columns) without a picture, each as a square of colour, and return a PIL image whose longer side has ``size``
    pixels. ``signed``: whether the scores have a sign; ``ends`` are the ends of a scale that several pictures share.
    """
    ends, factor = scale_ends(scores, signed) if ends is None else ends, size / max(scores.shape)
    rgba = colours(normalise(scores, ends, signed), is_two_sided(ends, signed))
    colour = np.array(PAPER) * (1 - rgba[..., 3:]) + rgba[..., :3] * rgba[..., 3:]
    width, height = (max(1, round(side * factor)) for side in scores.shape[::-1])
    return Image.fromarray(colour.round().astype(np.uint8)).resize((width, height), Image.Resampling.NEAREST)


def lay_over(
    picture: Image.Image,
    scores: NDArray[np.float32],
    signed: bool,
    size: int,
    resample: Image.Resampling = Image.Resampling.BILINEAR,
    ends: tuple[float, float] | None = None,
) -> Image.Image:
    """Draw ``scores`` (rows, columns), ``signed`` or not and enlarged by ``resample``, over ``picture`` in grey, and return a PIL image
    whose longer side has ``size`` pixels; ``ends`` are the ends of a scale that several pictures share.
    """
    factor = size / max(picture.size)
    width, height = (max(1, round(side * factor)) for side in picture.size)
    # enlarged pixels stay squares: what the model could not see is not made up
    base = _grey(picture.resize((width, height), Image.Resampling.NEAREST if factor > 1 else Image.Resampling.LANCZOS))
    enlarged_scores = np.asarray(Image.fromarray(scores).resize((width, height), resample))
    ends = scale_ends(scores, signed) if ends is None else ends
    rgba = colours(normalise(enlarged_scores, ends, signed), is_two_sided(ends, signed))
    cover = MAP_OPACITY * rgba[..., 3:]
    return Image.fromarray((base[..., None] * (1 - cover) + rgba[..., :3] * cover).round().astype(np.uint8))


def _grid_of(attribution: DrawableMap, at: At) -> tuple[NDArray[np.float32], Image.Resampling]:
    """Return the scores of ``attribution`` (rows, columns), those of patches, or with ``at`` "pixels" of pixels, and how to enlarge them:
    patches are smoothed, pixels are not.
    """
    if at == "pixels":
        if attribution.pixels is None:
            raise ExplainerError(f"{attribution.method} has one score for each patch and no map of the pixels.")
        return attribution.pixels.numpy(), Image.Resampling.NEAREST
    return patch_scores(attribution), Image.Resampling.BILINEAR


def patch_scores(attribution: DrawableMap) -> NDArray[np.float32]:
    """Return the scores of the patches in the map ``attribution``, float32 (rows, columns); raises ExplainerError for a map without a grid
    of them.
    """
    if attribution.patches is None:
        raise ExplainerError("This map has no grid of patches to draw.")
    scores: NDArray[np.float32] = attribution.scores[attribution.content].numpy().reshape(attribution.patches)
    return scores


def _grey(image: Image.Image) -> NDArray[np.float64]:
    """Convert ``image`` to greys (height, width) between 46 and 235, over which colours can be read."""
    return 46 + 0.74 * (np.asarray(image.convert("RGB"), np.float64) @ (0.2126, 0.7152, 0.0722))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """Return a serif font of this size that comes with matplotlib, so that no system font is needed."""
    from matplotlib import font_manager  # as late as it is needed: analyses import this module

    return ImageFont.truetype(font_manager.findfont("DejaVu Serif"), size)


def _over_text(attribution: DrawableMap, width: int, sink: bool) -> Image.Image:
    words = attribution.words()
    font, margin, leading = _font(17), 16, 32
    scores = np.array([w.score for w in words], np.float32)
    ends = scale_ends(scores[1:] if not sink and has_sink(scores) else scores, attribution.signed)
    values, signed = normalise(scores, ends, attribution.signed), is_two_sided(ends, attribution.signed)
    texts = (None,) * 3 if attribution.text is None else attribution.text.texts
    x, y, placed_words = margin, margin, []
    end, part = 0, 0
    for word, value in zip(words, values, strict=True):
        if word.part != part:  # the second text of a pair, or what the model wrote, stands below the first
            x, y, end, part = margin, y + leading * 3 // 2, 0, word.part
        source = texts[part]
        gap = source[end : word.start] if source is not None else " "
        end = word.end
        text = textwrap.shorten(word.text, 60, placeholder="...") or word.text
        x += round(font.getlength(" ")) if gap.strip() != gap or "\n" in gap or gap == " " else 0
        if x + font.getlength(text) > width - margin and x > margin:
            x, y = margin, y + leading
        placed_words.append((x, y, text, float(value)))
        x += round(font.getlength(text))
    picture = Image.new("RGB", (width, y + leading + margin), PAPER)
    draw = ImageDraw.Draw(picture)
    for left, top, text, value in placed_words:
        strength = abs(value)
        hue = np.array(STRENGTH if not signed else FOR if value >= 0 else AGAINST)
        right = left + round(font.getlength(text))
        ground = tuple(int(c) for c in np.array(PAPER) * (1 - MIX * strength) + hue * MIX * strength)
        draw.rectangle((left, top, right, top + 23), fill=ground)
        _underline(draw, (left, right), top + 23, round(4 * strength), tuple(hue.tolist()), dotted=signed and value < 0)
        draw.text((left, top), text, font=font, fill=INK)
    return picture


def _underline(draw: ImageDraw.ImageDraw, span: tuple[int, int], top: int, thick: int, hue: tuple[int, ...], *, dotted: bool) -> None:
    """Draw a line on ``draw`` in the colour ``hue`` below a word, from ``span[0]`` to ``span[1]`` and from ``top`` down, ``thick`` pixels
    high; with ``dotted`` dots, for a word against the target, so that colour is not the only cue.
    """
    left, right = span
    dot = thick if dotted else max(1, right - left)
    for start in range(left, right, max(1, 2 * dot)) if thick else ():
        draw.rectangle((start, top, min(right, start + dot) - 1, top + thick - 1), fill=hue)


def legend_colours(two_sided: bool, on_words: bool, count: int = 9) -> list[tuple[float, float, float, float]]:
    """Return ``count`` colours of a map's legend, red, green and blue from 0 to 255 and opacity from 0 to 1: from what speaks against the
    target to what speaks for it, or from weak to strong, as they are on pictures or ``on_words``.
    """
    values = np.linspace(-1.0 if two_sided else 0.0, 1.0, count)
    if on_words:
        hues = (STRENGTH if not two_sided else FOR if value >= 0 else AGAINST for value in values)
        return [(*hue, MIX * abs(float(value))) for hue, value in zip(hues, values, strict=True)]
    return [(float(red), float(green), float(blue), float(alpha)) for red, green, blue, alpha in colours(values, two_sided)]


def legend_ends(two_sided: bool) -> tuple[str, str]:
    """Return the words at the two ends of a map's legend."""
    return ("against", "for") if two_sided else ("weak", "strong")


def drawn_scores(attribution: DrawableMap) -> list[float]:
    """Return the scores of a map that are drawn, of its words or patches."""
    is_text = attribution.text is not None
    scores: list[float] = [word.score for word in attribution.words()] if is_text else attribution.scores[attribution.content].tolist()
    return scores

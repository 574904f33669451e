"""Maps as HTML for notebooks: a map over its picture, or coloured words; each patch and word says its score when it is pointed at.

No script, and every text is escaped.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ImageInput, PicturePromptInput
from explainers.rendering.colours import is_two_sided, normalise, one_sign_note, scale_ends
from explainers.rendering.drawable import SAME_FOR_EVERY_CLASS, DrawableMap
from explainers.rendering.molecules import is_drawn, over_molecule
from explainers.rendering.overlays import (
    AGAINST,
    FOR,
    INK,
    MIX,
    PAPER,
    STRENGTH,
    drawn_scores,
    lay_over,
    legend_colours,
    legend_ends,
    patch_scores,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_SIDE = 224  # pixels of a picture
_BOX = "display:inline-block;vertical-align:top;margin:0 12px 12px 0;padding:8px;background:rgb({});color:rgb({});font-family:sans-serif"


def map_html(attribution: DrawableMap, image: ImageInput | None) -> str:
    """Return the HTML of one map, a ``<figure>``: the map ``attribution`` over its picture, on the words of its text, or on the atoms of
    its molecule, with its title, method, target and notes. ``image`` is the record of the picture as the model saw it, None for a text;
    without a picture in it the range of the scores is shown.
    """
    body = _body(attribution, image)
    scores = drawn_scores(attribution)
    same = "" if attribution.class_specific else SAME_FOR_EVERY_CLASS
    order_only = one_sign_note(scores, attribution.signed)
    notes = "".join(f"<br><small>{escape(note)}</small>" for note in (same, order_only, *attribution.notes) if note)
    spec, target = escape(attribution.method), escape(attribution.target)
    two_sided = is_two_sided(scale_ends(np.asarray(scores, np.float32), attribution.signed), attribution.signed)
    legend = _legend(two_sided, attribution.text is not None) if "<img" in body or attribution.text is not None else ""
    caption = f"<figcaption>{legend}<b>{escape(attribution.title)}</b><br><code>{spec}</code> · {target}{notes}</figcaption>"
    style = (
        _BOX.format(_css_colour(PAPER), _css_colour(INK)) + f";max-width:{PICTURE_SIDE if attribution.text is None else 2 * PICTURE_SIDE}px"
    )
    return f'<figure style="{style}">{body}{caption}</figure>'


def _legend(two_sided: bool, on_words: bool) -> str:
    """Return the HTML of a bar of the colours of a map, as they are on pictures or ``on_words``, between the words at its ends."""
    low, high = legend_ends(two_sided)
    stops = [f"rgba({red:.0f},{green:.0f},{blue:.0f},{alpha:.2f})" for red, green, blue, alpha in legend_colours(two_sided, on_words)]
    bar = f'<div style="flex:1;height:6px;background:linear-gradient(90deg,{",".join(stops)})"></div>'
    return f'<div style="display:flex;gap:6px;align-items:center;font-size:80%">{low}{bar}{high}</div>'


def _body(attribution: DrawableMap, image: ImageInput | None) -> str:
    """Return the HTML of the map ``attribution`` without its caption: over the picture of ``image`` (None for a text), on the words of its
    text, or on the atoms of its molecule.
    """
    if attribution.text is None:
        return _picture(attribution, image)
    if isinstance(attribution.text, PicturePromptInput):
        return _prompted_picture(attribution.text, attribution) + _words(attribution)
    if not is_drawn(attribution):
        return _words(attribution)
    picture = over_molecule(attribution, 2 * PICTURE_SIDE, PAPER, (FOR, AGAINST, STRENGTH), MIX)
    return picture_html(picture, f"{attribution.title} for {attribution.target}")


def panel_html(heading: str, lines: Iterable[str], maps: Iterable[str]) -> str:
    """Return the HTML of several maps side by side under a heading and some lines of text; ``maps`` are results of :func:`map_html`."""
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f"<div><h4>{escape(heading)}</h4>{paragraphs}<div>{''.join(maps)}</div></div>"


def text_html(text: str, *below: str) -> str:
    """Return the HTML of ``text`` as ``print`` shows it, with pictures or maps, ``below`` (HTML), under it."""
    return f'<div><pre style="white-space:pre-wrap">{escape(text)}</pre><div>{"".join(below)}</div></div>'


def page_html(title: str, body: str) -> str:
    """Return a self-contained HTML page with this title and ``body``, the HTML that a notebook would show."""
    style = "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font-family:sans-serif}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{style}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n'


def picture_html(picture: Image.Image, about: str) -> str:
    """Return the HTML of ``picture``, a PIL image, which it holds as a PNG; ``about`` is its alternative text."""
    data = io.BytesIO()
    picture.save(data, "PNG")
    return _png_html(data.getvalue(), about, "max-width:100%")


def figure_html(figure: Figure, about: str) -> str:
    """Return the HTML of ``figure``, a figure of matplotlib, which it holds as a PNG; ``about`` is its alternative text."""
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return _png_html(data.getvalue(), about, "max-width:100%")


def _png_html(data: bytes, about: str, style: str) -> str:
    return f'<img alt="{escape(about)}" src="data:image/png;base64,{base64.b64encode(data).decode()}" style="{style}">'


def _picture(attribution: DrawableMap, image: ImageInput | None) -> str:
    about = f"{attribution.title} for {attribution.target}"
    if image is None or image.pixels is None or attribution.patches is None:
        low, high = float(attribution.scores.min()), float(attribution.scores.max())
        return f"<p>{len(attribution.scores)} scores, {low:.3g} to {high:.3g}; there is no picture to draw them on.</p>"
    return _over(image.pixels, patch_scores(attribution), attribution.signed, about)


def _prompted_picture(record: PicturePromptInput, attribution: DrawableMap) -> str:
    """Return the HTML of the pictures in ``record``, pictures with a prompt, each with the map ``attribution`` over its patches, on a scale
    that they share; empty if there is no picture to draw on.
    """
    maps = [picture.map_of(attribution.scores).numpy() for picture in record.pictures]
    ends = scale_ends(np.concatenate([scores.ravel() for scores in maps]), attribution.signed)
    drawn = []
    for number, (picture, scores) in enumerate(zip(record.pictures, maps, strict=True), 1):
        about = f"{attribution.title} for {attribution.target}, on {'the picture' if len(maps) == 1 else f'picture {number}'}"
        if picture.pixels is not None:
            drawn.append(_over(picture.pixels, scores, attribution.signed, about, ends))
    return "".join(drawn)


def _over(pixels: Image.Image, scores: NDArray[np.float32], signed: bool, about: str, ends: tuple[float, float] | None = None) -> str:
    """Return the HTML of the picture ``pixels`` with a map over it: ``scores`` (rows, columns), ``signed`` or not, which are shown when
    pointed at. ``about`` is its alternative text; ``ends`` are the ends of a scale that several pictures share.
    """
    data = io.BytesIO()
    lay_over(pixels, scores, signed, PICTURE_SIDE, ends=ends).save(data, "PNG")
    picture = _png_html(data.getvalue(), about, "display:block;width:100%")
    return f'<div style="position:relative">{picture}{_patches(scores)}</div>'


def _patches(scores: NDArray[np.float32]) -> str:
    """Return an SVG of transparent rectangles, to be laid over a picture: one for each of ``scores`` (rows, columns), which shows its place
    and score when pointed at.
    """
    rows, columns = scores.shape
    places = [(row, column, f"row {row + 1}, column {column + 1}: {scores[row, column]:.3g}") for row, column in np.ndindex(scores.shape)]
    rects = "".join(f'<rect x="{column}" y="{row}" width="1" height="1"><title>{says}</title></rect>' for row, column, says in places)
    style = "position:absolute;inset:0;width:100%;height:100%;fill:transparent"
    return f'<svg viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" style="{style}">{rects}</svg>'


def _words(attribution: DrawableMap) -> str:
    """Return the HTML of the text of the map ``attribution``, each word on its colour: underlined if it speaks for the target, dotted if
    against it. Raises ExplainerError for the map of an image.
    """
    if attribution.text is None:
        raise ExplainerError("An image has no words to show: use its patches.")
    words = attribution.words()
    scores = np.array([word.score for word in words], np.float32)
    texts = attribution.text.texts
    parts: list[list[str]] = [[] for _ in texts]
    ends = [0] * len(texts)
    colour_ends = scale_ends(scores, attribution.signed)
    signed = is_two_sided(colour_ends, attribution.signed)
    for word, value in zip(words, normalise(scores, colour_ends, attribution.signed), strict=True):
        text = texts[word.part]
        gap = " " if text is None else text[ends[word.part] : word.start]
        parts[word.part].append(escape(gap) + _word(word.text, word.score, float(value), signed))
        ends[word.part] = word.end
    rest = [escape(text[end:]) if text is not None else "" for text, end in zip(texts, ends, strict=True)]
    return "".join(f'<p style="line-height:1.8">{"".join(part)}{after}</p>' for part, after in zip(parts, rest, strict=True) if part)


def _word(text: str, score: float, value: float, signed: bool) -> str:
    hue = STRENGTH if not signed else FOR if value >= 0 else AGAINST
    line = "dotted" if signed and value < 0 else "solid"
    ground = f"background:rgba({_css_colour(hue)},{MIX * abs(value):.3f})"
    under = f"border-bottom:{round(4 * abs(value))}px {line} rgb({_css_colour(hue)})"
    return f'<span title="{score:.4g}" style="{ground};{under}">{escape(text)}</span>'


def _css_colour(colour: tuple[int, ...]) -> str:
    return ",".join(map(str, colour))

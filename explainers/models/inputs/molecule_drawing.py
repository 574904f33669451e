"""A molecule drawn by RDKit as a plain SVG: outlines alone, without styles, scripts, links or text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from explainers.models.inputs.types import Drawing

WIDTH, HEIGHT = 420, 320
_SVG = "http://www.w3.org/2000/svg"
#: The elements of RDKit's SVG that are kept, and their attributes. Styles become attributes, as pages forbid them.
_ELEMENTS = {"path", "line", "polygon", "ellipse"}
_ATTRIBUTES = {"class", "d", "points", "x1", "x2", "y1", "y2", "cx", "cy", "rx", "ry"}
_STYLES = {"fill", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "fill-rule", "fill-opacity", "stroke-opacity"}
_VALUE = re.compile(r"[\w\s.,+\-#]*")
_INK = {"#000000": "currentColor"}  # the colour of the page's letters, by day and by night


def draw_molecule(mol: Any) -> Drawing:
    """Return ``mol``, a molecule of RDKit, as a flat drawing: SVG outlines and the positions of its atoms."""
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.padding = 0.09
    options.maxFontSize = 18
    options.useBWAtomPalette()
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    places = [drawer.GetDrawCoords(index) for index in range(mol.GetNumAtoms())]
    return Drawing(plain_svg(drawer.GetDrawingText()), (WIDTH, HEIGHT), tuple((round(p.x, 1), round(p.y, 1)) for p in places))


def plain_svg(text: str) -> str:
    """Return ``text``, an SVG, reduced to its outlines and their colours."""
    reader = _Outlines()
    reader.feed(text)
    reader.close()
    return f'<svg xmlns="{_SVG}" viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(reader.kept)}</svg>'


class _Outlines(HTMLParser):
    """A parser of SVG that keeps only the allowed elements, without their contents."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Append the element ``tag`` to the outlines if it is allowed, with its allowed attributes among ``attrs``."""
        if tag not in _ELEMENTS:
            return
        given = {name: value or "" for name, value in attrs}
        styles = dict(part.split(":", 1) for part in given.get("style", "").split(";") if ":" in part)
        given = {name: value for name, value in given.items() if name in _ATTRIBUTES | _STYLES}
        given |= {name.strip(): value.strip() for name, value in styles.items() if name.strip() in _STYLES}
        kept = (f' {name}="{_INK.get(value, value)}"' for name, value in given.items() if _VALUE.fullmatch(value))
        self.kept.append(f"<{tag}{''.join(kept)}/>")

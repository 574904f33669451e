"""A map of a molecule as a picture: RDKit's drawing, its atoms on the colour of their scores, its bonds on the mean of their two atoms'."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.models.inputs.molecule_drawing import HEIGHT, WIDTH
from explainers.models.inputs.molecules import read_molecule
from explainers.models.inputs.types import MoleculeInput
from explainers.rendering.colours import is_two_sided, normalise, scale_ends
from explainers.rendering.drawable import DrawableMap

ATOM_RADIUS = 0.38  # of an atom's colour, in lengths of a bond
BOND_WIDTH = 14  # of a bond's colour, in widths of its line


def is_drawn(attribution: DrawableMap) -> bool:
    """Return whether the map ``attribution`` is of a molecule that can be drawn; one that was passed as tensors has no known bonds."""
    return isinstance(attribution.text, MoleculeInput) and attribution.text.drawing is not None


def over_molecule(attribution: DrawableMap, width: int, paper: Sequence[int], hues: tuple[Sequence[int], ...], mix: float) -> Image.Image:
    """Draw the molecule of the map ``attribution`` with its atoms coloured by their scores, and return an RGB image, ``width`` pixels wide.

    ``hues`` are three colours: for the target, against it, and of maps without a sign. At full score a share ``mix`` (0 to 1) of the hue is
    mixed into ``paper``, the colour of the background. Raises ExplainerError if RDKit is not installed.
    """
    assert attribution.text is not None
    mol = read_molecule(attribution.text.text).mol
    from rdkit.Chem.Draw import rdMolDraw2D

    scores = np.array([word.score for word in attribution.words()], np.float32)
    ends = scale_ends(scores, attribution.signed)
    values, signed = normalise(scores, ends, attribution.signed), is_two_sided(ends, attribution.signed)
    grounds = np.stack([_ground(float(value), signed, paper, hues, mix) for value in values])
    pairs = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    drawer = rdMolDraw2D.MolDraw2DCairo(width, round(width * HEIGHT / WIDTH))
    options: Any = drawer.drawOptions()
    options.setBackgroundColour(tuple(part / 255 for part in paper))
    options.padding, options.highlightRadius, options.highlightBondWidthMultiplier = 0.09, ATOM_RADIUS, BOND_WIDTH
    options.useBWAtomPalette()
    rdMolDraw2D.PrepareAndDrawMolecule(
        drawer,
        mol,
        highlightAtoms=list(range(len(grounds))),
        highlightAtomColors={i: tuple(ground) for i, ground in enumerate(grounds)},
        highlightBonds=list(range(len(pairs))),
        highlightBondColors={i: tuple((grounds[a] + grounds[b]) / 2) for i, (a, b) in enumerate(pairs)},
    )
    drawer.FinishDrawing()
    return Image.open(io.BytesIO(drawer.GetDrawingText())).convert("RGB")


def _ground(value: float, signed: bool, paper: Sequence[int], hues: tuple[Sequence[int], ...], mix: float) -> NDArray[np.float64]:
    """Return the colour behind an atom with a score of ``value`` (-1 to 1), as red, green and blue from 0 to 1: the hue for its sign, or
    that of strength, mixed into the colour ``paper`` with at most the share ``mix``. ``hues`` are those for, against, and of strength;
    colours are 0 to 255.
    """
    hue = hues[2] if not signed else hues[0] if value >= 0 else hues[1]
    share = mix * abs(value)
    return (np.array(paper) * (1 - share) + np.array(hue) * share) / 255

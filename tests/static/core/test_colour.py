"""Which maps are drawn as strength, and the colours: as Python draws them, and of even steps of lightness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import colormaps
from numpy.typing import NDArray

from explainers.rendering.colours import AGAINST_COLOURS, FOR_COLOURS, one_sign, scale_ends, strength
from tests.support.node import compute, compute_all

SIGN = """(scores) => script('core/colour.js').then(({ limits, oneSign, strengths }) =>
  [limits([scores], true), oneSign(scores), strengths(scores).indexOf(Math.max(...strengths(scores)))])"""
COLOURS = "async () => { const { SEQUENCES, DIVERGING } = await script('core/colour.js'); return { SEQUENCES, DIVERGING }; }"


def test_the_scripts_and_python_draw_the_same_maps_as_strength() -> None:
    drawn = np.random.default_rng(0)
    cases = [
        drawn.uniform(low, high, size).tolist() for low, high, size in ((2, 3, 50), (-9, -7, 50), (0.1, 3, 50), (-1, 1, 50), (5, 6, 8))
    ]
    for scores, (ends, sign, strongest) in zip(cases, compute_all(SIGN, cases), strict=True):
        assert ends == pytest.approx(scale_ends(scores, True))
        assert sign == one_sign(scores)
        assert strongest == np.argmax(scores if sign < 0 else np.abs(scores))
    assert [one_sign(scores) for scores in cases] == [1, -1, 0, 0, 0]


def lightness(colour: Any) -> NDArray[np.float64]:
    """CIE L* of sRGB bytes (..., 3)."""
    share = np.asarray(colour, np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(116 * np.cbrt(linear @ (0.2126, 0.7152, 0.0722)) - 16)


def test_colour_maps_are_perceptual() -> None:
    declared = compute(COLOURS)
    assert set(declared["SEQUENCES"]) == {"magma", "viridis", "cividis"}
    for name, stops in declared["SEQUENCES"].items():
        ends = (0.04, 0.97) if name == "magma" else (0, 1)
        np.testing.assert_allclose(stops, 255 * colormaps[name](np.linspace(*ends, len(stops)))[:, :3], atol=0.51)
        assert (np.diff(lightness(stops)) > 2).all(), name
    np.testing.assert_array_equal(declared["SEQUENCES"]["magma"], strength())
    assert declared["DIVERGING"]["red-blue"] == {
        "for": [list(rgb) for rgb in FOR_COLOURS],
        "against": [list(rgb) for rgb in AGAINST_COLOURS],
    }
    for both in declared["DIVERGING"].values():
        np.testing.assert_allclose(lightness(both["for"]), lightness(both["against"]), atol=9)
        assert (np.diff(lightness(both["for"])) < 0).all()

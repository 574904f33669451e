"""How scores become colours: a map whose scores all lie far on one side of zero is drawn as strength, with a note."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from explainers.rendering.colours import colours, is_two_sided, normalise, one_sign, one_sign_note, scale_ends
from explainers.rendering.overlays import lay_over

SLAB = np.linspace(-13.83, -10.64, 196)  # as GradCAM+ gave of a photo


@pytest.mark.parametrize("scores", [SLAB, -SLAB])
def test_a_map_far_on_one_side_of_zero_is_drawn_over_its_own_range(scores: np.ndarray) -> None:
    ends = scale_ends(scores, signed=True)
    assert ends == pytest.approx(tuple(np.quantile(scores, (0.01, 0.99))))
    assert not is_two_sided(ends, signed=True)
    values = normalise(scores, ends, signed=True)
    assert (values.min(), values.max()) == (0, 1)  # it spans the colours
    assert (np.diff(values[np.argsort(scores)]) >= 0).all()  # in order: the highest is the strongest
    grey = Image.new("RGB", (28, 28), "grey")
    drawn = np.asarray(lay_over(grey, scores.reshape(14, 14).astype(np.float32), True, 28), float)
    as_strength = np.asarray(lay_over(grey, scores.reshape(14, 14).astype(np.float32), False, 28), float)
    np.testing.assert_array_equal(drawn, as_strength)
    assert drawn.std(axis=(0, 1)).max() > 20  # no slab
    unsaid = "against" if scores[0] > 0 else "for"
    assert one_sign_note(scores, True) == f"Nothing here speaks {unsaid}, so the map is drawn as strength: only the order counts."
    assert one_sign_note(scores, False) == ""


@pytest.mark.parametrize(
    "scores",
    [
        np.linspace(0.015, 2.417, 196),  # from near zero: its sizes are seen, and meant
        np.linspace(-1, 3, 196),
        np.linspace(3, 4, 9),  # all words of a short text
        np.zeros(196),
    ],
)
def test_any_other_keeps_its_sign(scores: np.ndarray) -> None:
    assert one_sign(scores) == 0
    ends = scale_ends(scores, signed=True)
    assert is_two_sided(ends, signed=True)
    assert one_sign_note(scores, True) == ""
    rgba = colours(normalise(scores, ends, True), is_two_sided(ends, True))
    assert (rgba[:, 0] >= rgba[:, 2])[scores > 0].all()  # red is for

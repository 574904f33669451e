"""The names next to the curves of the deletion test."""

from __future__ import annotations

from tests.support.node import compute

LINES = "async (name) => (await script('maps/curvepanel.js')).linesOf(name)"
SPREAD = "async (labels) => (await script('maps/curvepanel.js')).spread(...labels)"


def test_a_long_name_is_broken_at_its_spaces_and_never_cut() -> None:
    assert compute(LINES, "Input × Gradient") == ["Input × Gradient"]
    assert compute(LINES, "Grad-CAM (pytorch-grad-cam)") == ["Grad-CAM", "(pytorch-grad-cam)"]
    long = "Transformer Attribution, rule deep Taylor (start_layer=1)"
    lines = compute(LINES, long)
    assert " ".join(lines) == long
    assert all(len(line) <= 24 for line in lines)
    assert compute(LINES, "a" * 40) == ["a" * 40]


def test_labels_of_one_and_of_two_lines_do_not_overlap() -> None:
    """A line is 14 high: the labels begin at 100, 100 and 101, the first has two lines."""
    assert compute(SPREAD, [[100, 100, 101], 30, 300, [2, 1, 1]]) == [100, 128, 142]
    assert compute(SPREAD, [[290, 295], 30, 300, [1, 2]]) == [272, 286]  # the last line of the lower one ends at the bottom

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


def test_ticks_are_round_and_few() -> None:
    ticks = "async ([ends, most]) => (await script('maps/curvepanel.js')).ticksOf(ends, most)"
    assert compute(ticks, [[0, 0.45], 5]) == [0, 0.1, 0.2, 0.3, 0.4]
    assert compute(ticks, [[0, 0.45], 3]) == [0, 0.2, 0.4]
    assert compute(ticks, [[0, 1], 5]) == [0, 0.25, 0.5, 0.75, 1]
    assert compute(ticks, [[0, 1], 3]) == [0, 0.5, 1]
    assert compute(ticks, [[0, 0.05], 5]) == [0, 0.02, 0.04]
    assert compute(ticks, [[-3.7, 6.57], 5]) == [-2, 0, 2, 4, 6]
    assert compute(ticks, [[-37, 12], 3]) == [-20, 0]
    assert compute(ticks, [[12.31, 12.44], 5]) == [12.325, 12.35, 12.375, 12.4, 12.425]
    text = "async ([value, read]) => (await script('maps/curvepanel.js')).tickText(value, read)"
    assert compute(text, [0.1, "probability"]) == "10\u2009%"
    assert compute(text, [12.325, "logit"]) == "12.325"  # else all ticks of it would be 12
    assert compute(text, [-2, "logit"]) == "−2"
    assert compute(text, [2e-7, "logit"]) == "2.0e−7"

"""The line around patches of a grid."""

from __future__ import annotations

from tests.support.node import compute

OUTLINE = "async ([patches, columns]) => (await script('maps/patches.js')).outlineOf(patches, columns)"


def test_the_line_runs_where_no_such_patch_lies_beyond() -> None:
    assert compute(OUTLINE, [[4], 3]) == "M1 1h1M1 2h1M1 1v1M2 1v1"
    pair = compute(OUTLINE, [[4, 5], 3])
    assert pair.count("h1") == 4
    assert pair.count("v1") == 2  # none between the two
    assert compute(OUTLINE, [[2, 3], 3]).count("v1") == 4  # the end of a row and the beginning of the next do not touch
    assert compute(OUTLINE, [[], 3]) == ""

"""Where the patches of a clip lie as its frames stand beside each other, and those of a picture."""

from __future__ import annotations

from tests.support.node import compute

SHEET = """([grid, frames]) => script('maps/patches.js').then(async ({ neighbour, layoutOf, sheetOf }) => {
  const layout = layoutOf(grid, await sheetOf(frames));
  const { rows, columns, place, at } = layout;
  const places = Array.from({ length: grid[0] * grid[1] }, (_, i) => place(i));
  return { size: [rows, columns], places, back: places.map(([row, column]) => at(row, column)),
    none: [at(-1, 0), at(rows, 0), at(rows - 1, columns - 1)], neighbour: [neighbour(0, [1, 0], layout), neighbour(1, [0, 1], layout)] };
})"""
FRAMES = "([weights, grid, frames]) => script('maps/summary.js').then(({ ninths }) => ninths(weights, grid, frames))"


def test_the_patches_of_a_picture_lie_in_raster_order() -> None:
    found = compute(SHEET, [[2, 3], None])
    assert found == {
        "size": [2, 3],
        "places": [[row, column] for row in range(2) for column in range(3)],
        "back": [0, 1, 2, 3, 4, 5],
        "none": [-1, -1, 5],
        "neighbour": [3, 2],
    }


def test_frames_stand_beside_each_other_four_in_a_row() -> None:
    found = compute(SHEET, [[5 * 3, 2], 5])
    assert found["size"] == [6, 8]
    assert found["places"] == [
        [frame // 4 * 3 + row, frame % 4 * 2 + column] for frame in range(5) for row in range(3) for column in range(2)
    ]
    assert found["back"] == list(range(30))
    assert found["none"] == [-1, -1, -1]  # the last place of the second row has no frame
    assert found["neighbour"] == [2, 6]  # down in the same frame, to the right in the next


def test_the_ninths_of_a_clip_are_those_of_its_frames() -> None:
    corner = [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert compute(FRAMES, [corner * 2, [6, 3], 2]) == [1, 0, 0, 0, 0, 0, 0, 0, 0]

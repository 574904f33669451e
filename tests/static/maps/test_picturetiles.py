"""The page joins the tiles of a picture as the engine does."""

from __future__ import annotations

import pytest
import torch

from explainers.models.inputs.picture_tiles import PictureTile, join_tiles
from tests.support.node import compute

JOIN = "async ([scores, tiles, grid]) => (await script('maps/picturetiles.js')).joinTiles(scores, tiles, grid)"


@pytest.mark.parametrize(
    ("tiles", "grid"),
    [
        ([PictureTile(1, 3, 2, 3, (0.0, 0.0, 1.0, 1.0))], (2, 3)),
        ([PictureTile(1, 2, 2, 2, (0.0, 0.0, 1.0, 1.0)), PictureTile(5, 5, 3, 4, (-0.1, 0.0, 1.1, 1.2))], (3, 4)),
        ([PictureTile(0, 2, 1, 2, (0.0, 0.5, 2.0, 1.0))], (2, 2)),
    ],
)
def test_the_map_of_the_page_is_that_of_the_engine(tiles: list[PictureTile], grid: tuple[int, int]) -> None:
    scores = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    given = [scores.tolist(), [tile.to_json() for tile in tiles], list(grid)]
    found = torch.tensor(compute(JOIN, given), dtype=torch.float64).view(grid)
    torch.testing.assert_close(found, join_tiles(scores, tiles, grid))
    of_tiles = torch.cat([scores[tile.tokens.flatten()] for tile in tiles])
    assert float(found.sum()) == pytest.approx(float(of_tiles.sum()))

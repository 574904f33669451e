"""Clusters of maps, the place that a cluster names, and maps rolled to other places."""

from __future__ import annotations

import numpy as np
import pytest

from explainers.collection.slices.clusters import cluster_maps, place_in_words, place_of, share_at_turns


@pytest.mark.parametrize("sizes", [(30, 12), (20, 20, 20)])
def test_groups_of_maps_that_are_far_apart_are_clusters(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    maps = np.eye(8)[truth] + rng.normal(0, 0.05, (len(truth), 8))
    order = rng.permutation(len(truth))
    labels = cluster_maps(maps[order], seed=0)
    assert len(set(labels.tolist())) == len(sizes)
    assert len({(a, b) for a, b in zip(labels.tolist(), truth[order].tolist(), strict=True)}) == len(sizes)


@pytest.mark.parametrize("count", [1, 5, 6])
def test_few_maps_are_one_cluster(count: int) -> None:
    assert cluster_maps(np.eye(6)[:count], seed=0).tolist() == [0] * count


def test_a_place_holds_half_of_what_its_rows_have_more_than_others() -> None:
    cluster = np.array([[0.0, 0.3, 0.2, 0.1, 0.4, 0, 0, 0, 0, 0]] * 3)
    others = np.full((4, 10), 0.1)  # 0.2, 0.1 and 0.3 more at patches 1, 2 and 4: half of 0.6 is patch 4 alone
    assert place_of(cluster, others).tolist() == [4]
    cluster[:, 4], cluster[:, 1] = 0.35, 0.35  # 0.25, 0.1, 0.25: half of 0.6 needs two
    assert place_of(cluster, others).tolist() == [1, 4]


def test_a_place_is_at_most_a_fifth_of_the_picture() -> None:
    cluster = np.array([[0.2, 0.2, 0.2, 0.2, 0.2, 0, 0, 0, 0, 0]])
    assert len(place_of(cluster, np.full((1, 10), 0.0))) == 2


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([(0, 0), (1, 1)], "in the upper left corner"),
        ([(8, 8), (7, 8)], "in the lower right corner"),
        ([(8, 8), (7, 8), (8, 1)], "mostly in the lower right corner"),
        ([(4, 4)], "in the middle"),
        ([(0, 4), (1, 4)], "at the top"),
        ([(4, 8)], "at the right"),
        ([(0, 0), (1, 4), (0, 8)], "at the top"),
        ([(0, 0), (4, 1), (8, 0)], "at the left"),
        ([(4, 4), (4, 3), (0, 0)], "mostly in the middle"),
        ([(0, 0), (1, 4), (8, 8)], "mostly at the top"),  # one in three ninths each
        ([(0, 4), (4, 0), (8, 4), (4, 8)], "along the border"),
        ([(0, 4), (4, 0), (8, 4), (4, 8), (4, 4)], "mostly along the border"),
        ([(0, 0), (4, 4), (8, 8), (2, 7)], "at 4 scattered places"),
    ],
)
def test_places_have_names(places: list[tuple[int, int]], words: str) -> None:
    assert place_in_words(np.array([row * 9 + column for row, column in places]), (9, 9)) == words


def test_rolled_maps_are_those_of_numpy() -> None:
    rng = np.random.default_rng(2)
    maps, grid, patches = rng.random((3, 12)), (3, 4), np.array([1, 2, 7])
    expected = [
        [np.roll(each.reshape(grid), (-down, -right), (0, 1)).reshape(-1)[patches].sum() for down in range(3) for right in range(4)]
        for each in maps
    ]
    assert share_at_turns(maps, patches, grid) == pytest.approx(np.array(expected))

"""The threshold below which maps show another reason."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from explainers.collection.diff.null_correlations import correlation, mirrored, null_correlations
from explainers.datasets import AnnotatedObject, Dataset, Sample


def test_correlation_is_numpys() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 30))
    assert correlation(first, second) == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert correlation(first, -3 * first + 2) == pytest.approx(-1)
    assert correlation(first, np.ones(30)) is None


@pytest.mark.parametrize(("inputs", "rank"), [(58, 0), (59, 1), (92, 1), (93, 2), (124, 3)])  # the tables of tolerance limits, 95 % of 95 %
def test_the_threshold_is_a_tolerance_limit(inputs: int, rank: int) -> None:
    values = np.random.default_rng(inputs).permutation(np.arange(inputs) / inputs)
    null = null_correlations("mirror", values)
    assert null.expected == 0.05
    assert null.threshold == ((rank - 1) / inputs if rank else None)


def test_one_in_twenty_at_most_is_below_it_where_nothing_changed() -> None:
    shares = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        threshold = null_correlations("reference", draw.beta(5, 2, 70), seed).threshold
        shares.append(np.mean(draw.beta(5, 2, 4000) < threshold))
    assert np.mean(np.array(shares) <= 0.05) >= 0.9
    assert np.mean(shares) > 0.005  # and it is not so low that nothing could be found


def test_of_rows_only_those_far_below_the_others_are_found() -> None:
    values = np.concatenate([np.random.default_rng(0).uniform(0.8, 0.9, 97), [0.1, 0.0, -0.2]])
    null = null_correlations("rows", values)
    assert null.expected is None
    assert null.threshold is not None
    assert 0.1 < null.threshold < 0.8
    lower = null_correlations("rows", values - 0.5)
    assert lower.threshold is not None
    assert np.sum(values - 0.5 < lower.threshold) == 3  # that all moved together is not seen


def test_few_inputs_give_no_threshold() -> None:
    null = null_correlations("rows", np.full(19, 0.8))
    assert (null.rows, null.threshold, null.median) == (19, None, 0.8)
    assert null_correlations("mirror", np.zeros(0)).median is None


def test_pictures_are_mirrored_left_to_right() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    objects = (AnnotatedObject(label="ant", mask=np.ones((2, 4), bool)),)
    data = Dataset(
        kind="image",
        length=1,
        read=lambda _: Sample(name="a", image=Image.fromarray(pixels), labels=("ant",), objects=objects),
        name="pictures",
    )
    sample = mirrored(data)[0]
    assert sample.image is not None
    np.testing.assert_array_equal(np.asarray(sample.image), pixels[:, ::-1])
    assert (sample.labels, sample.objects, mirrored(data).name) == (("ant",), (), "pictures, mirrored")

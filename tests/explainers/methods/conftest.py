"""What tests of several methods share."""

from __future__ import annotations

import pytest

from tests.explainers.support.pair import Pair


@pytest.fixture(scope="module", params=["vit", "bert"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """A tiny model and its twin, of pictures and of texts."""
    return Pair(request.param)

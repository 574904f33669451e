"""Made-up data that several test modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedded.support import made_up_data, tiny_encoder


@pytest.fixture(scope="session")
def photo_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as ``--data`` names it."""
    return made_up_data.make(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sentence encoder of random weights."""
    return tiny_encoder.save(tmp_path_factory.mktemp("encoder"))

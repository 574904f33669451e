"""A picture for the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh scene with a zebra in it, as a JPEG file."""
    from embedded.recipes.data.scenes import render

    rng = np.random.default_rng(7)
    scene = next(scene for scene in (render(rng, 224) for _ in range(1000)) if "zebra" in [one.kind for one in scene.objects])
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    scene.image.save(path, quality=95)
    return path

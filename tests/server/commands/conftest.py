"""A picture for the commands, and the embedded models, each loaded once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explainers
from explainers.models.catalogue import CATALOGUE
from explainers.models.loading import device_named
from explainers.models.model import Model
from tests.support.embedded_models import loaded


@pytest.fixture(scope="session")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh scene with a zebra in it, as a JPEG file."""
    from explainers.embedded.synthetic.scenes import render

    rng = np.random.default_rng(7)
    scene = next(scene for scene in (render(rng, 224) for _ in range(1000)) if "zebra" in [one.kind for one in scene.objects])
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    scene.image.save(path, quality=95)
    return path


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    """Commands leave a model as it is: the next one need not load it again."""
    load, embedded = explainers.load, {entry.name for entry in CATALOGUE if entry.embedded}

    def kept(name: str, device: str | None = None, **more: Any) -> Model:
        is_usual = name in embedded and device_named(device).type == "cpu" and "dtype" not in more
        return loaded(name) if is_usual else load(name, device, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explainers, "load", kept)
        patch.setattr("explainers.models.opening.open_model.load", kept)
        yield

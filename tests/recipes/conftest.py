"""What recipes are tested with: networks of random weights, and made-up data that several test modules share."""

from __future__ import annotations

import explainers  # noqa: F401  (before timm)

# isort: split
import copy
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch

from recipes import train_photos_vit
from recipes.networks import trunk
from recipes.networks.trunk import Teacher
from tests.recipes.support import made_up_data, tiny_encoder

NETWORK = "tf_efficientnet_lite0"


def remembered(fit: Callable[[Teacher, list[torch.Tensor]], None]) -> Callable[[Teacher, list[torch.Tensor]], None]:
    """``Teacher.fit_basis`` that fits once for the same pictures, all teachers being alike here."""
    fitted: dict[str, dict[str, torch.Tensor]] = {}

    def fit_basis(teacher: Teacher, images: list[torch.Tensor]) -> None:
        digest = hashlib.sha256(b"".join(batch.numpy().tobytes() for batch in images)).hexdigest()
        if digest not in fitted:
            fit(teacher, images)
            fitted[digest] = {name: getattr(teacher, name) for name in ("basis", "centre", "readout", "bias")}
        for name, value in fitted[digest].items():
            setattr(teacher, name, value.clone())

    return fit_basis


@pytest.fixture(scope="module")
def untrained() -> object:
    """EfficientNets of random weights in place of the trained ones, whose package may not be installed."""
    with pytest.MonkeyPatch.context() as patch:
        torch.manual_seed(0)
        create = timm.create_model
        once = functools.cache(create)
        plain = once(NETWORK).state_dict()

        def copied(name: str, **given: object) -> torch.nn.Module:
            """Drawing random weights takes long, and those of the trunk are replaced at once."""
            return copy.deepcopy(once(name, **given)) if name == NETWORK else create(name, **given)

        def fill(model: torch.nn.Module, path: Path) -> None:
            if path.name == "0":  # a larger network keeps the random weights that it has
                model.load_state_dict(plain)

        patch.setattr(timm, "create_model", copied)
        patch.setattr(trunk, "weights_file", lambda size=0: Path(str(size)))
        patch.setattr(trunk, "load_trained", fill)
        patch.setattr(Teacher, "fit_basis", remembered(Teacher.fit_basis))
        patch.setattr(train_photos_vit, "PICTURES_PER_KIND", 4)
        yield


@pytest.fixture(scope="session")
def photo_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as ``--data`` names it."""
    return made_up_data.make(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sentence encoder of random weights."""
    return tiny_encoder.save(tmp_path_factory.mktemp("encoder"))

"""What the recipes of photos-vit and clip are tested with: networks of random weights."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch

from embedded.recipes import train_photos_vit
from embedded.recipes.networks import trunk
from embedded.recipes.networks.trunk import Teacher

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
            model.load_state_dict(plain)

        patch.setattr(timm, "create_model", copied)
        patch.setattr(trunk, "weights_file", lambda size=0: Path("none"))
        patch.setattr(trunk, "load_trained", fill)
        patch.setattr(Teacher, "fit_basis", remembered(Teacher.fit_basis))
        patch.setattr(train_photos_vit, "FITTED", 2)
        patch.setattr(train_photos_vit, "UNKNOWN", 4)
        patch.setattr(train_photos_vit.Stream, "__call__", functools.partialmethod(train_photos_vit.Stream.__call__, workers=0))
        yield

"""The trunk of photos-vit and its teacher: the tensors of the file, folded normalisations, what the teacher sees."""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F

from recipes.data import pictures
from recipes.data.pictures import SIDE, Pictures
from recipes.networks import trunk
from recipes.networks.trunk import DIRECTIONS, STAGES, Teacher
from tests.recipes.support.made_up_data import photo


@pytest.fixture(scope="module")
def teacher(untrained: None, photo_data: Path) -> Teacher:
    """A teacher of random weights, with a fitted basis."""
    teacher, make = Teacher(STAGES), Pictures(photo_data, 2)
    teacher.fit_basis([make(np.random.default_rng([0, 1, number])) for number in range(2)])
    return teacher


def test_folding_changes_nothing_that_is_answered() -> None:
    torch.manual_seed(0)
    network = timm.create_model("tf_efficientnet_lite0", num_classes=7).eval()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(layer.running_mean, std=0.1)
            torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
    x = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        before = network(x)
        after = explainers.embedded.architectures.fold_batch_norms(network)(x)
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-3)
    assert not [layer for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d)]


def test_files_of_another_network_are_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(ValueError, match=r"other.pth does not have the tensors of Linear"):
        trunk.load_trained(torch.nn.Linear(2, 2), tmp_path / "other.pth")


def test_trained_tensors_are_taken_in_their_order(tmp_path: Path) -> None:
    first, second = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    torch.nn.init.normal_(first.running_mean)
    torch.save({f"other.{name}": value for name, value in first.state_dict().items()}, tmp_path / "some.pth")
    trunk.load_trained(second, tmp_path / "some.pth")
    assert torch.equal(first.running_mean, second.running_mean)


def test_the_teacher_answers_as_the_network_and_nearly_from_its_directions(teacher: Teacher) -> None:
    images = torch.from_numpy(np.stack([pictures.crop_centre(photo(seed), SIDE) for seed in range(3)]))
    seen = teacher.see(images)
    assert [tuple(part.shape) for part in seen] == [(3, 196, 320), (3, 196, DIRECTIONS), (3, 1000)]
    with torch.inference_mode():
        answers = trunk.efficientnet()(trunk.normalise(images))
    assert F.cosine_similarity(seen.logits.float(), answers).min() > 0.99  # bfloat16 against float32
    pooled = teacher.features(images)[2]
    near = (pooled - teacher.centre) @ teacher.basis.T @ teacher.readout.T
    exact = (pooled - teacher.centre) @ (teacher.classifier.weight - teacher.classifier.weight.mean(0)).T
    assert F.cosine_similarity(near, exact).min() > 0.7  # a random classifier reads all directions alike

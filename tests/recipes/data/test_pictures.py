"""Training pictures: which photos are held back, mosaics and colours that follow the generator, patches painted grey."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recipes.data import pictures
from recipes.data.pictures import GREY, SIDE, SMALL_SIDE, Pictures
from tests.recipes.support.made_up_data import photo


def test_every_twentieth_sharp_photo_is_held_back(photo_data: Path) -> None:
    held_back, others = (pictures.sharp_files(photo_data, held_back=flag) for flag in (True, False))
    assert [path.name for path in held_back] == ["000.jpg", "020.jpg", "040.jpg"]
    assert len(others) == 39
    assert not set(held_back) & set(others)


def test_a_wrong_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--data must name a folder that holds sharp/ and tiny_imagenet/"):
        pictures.sharp_files(tmp_path, held_back=False)
    with pytest.raises(FileNotFoundError, match="holds no train"):
        pictures.tiny_photos(tmp_path)


def test_pictures_follow_the_generator_and_come_in_two_sizes(photo_data: Path) -> None:
    make = Pictures(photo_data, 3)
    batches = [make(np.random.default_rng(seed)) for seed in range(8)]
    assert {tuple(batch.shape) for batch in batches} == {(3, side, side, 3) for side in (SIDE, SMALL_SIDE)}
    assert torch.equal(batches[0], make(np.random.default_rng(0)))
    assert all(batch.dtype == torch.uint8 and batch.float().std() > 5 for batch in batches)


def test_some_pictures_have_grey_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "GREY_SHARE", 1.0)
    images = torch.full((2, 32, 32, 3), 250, dtype=torch.uint8)
    found = torch.stack([pictures.recolour(images, np.random.default_rng(seed)) for seed in range(20)])
    patches = found.view(20, 2, 2, 16, 2, 16, 3)
    assert (patches == patches[:, :, :, :1, :, :1]).all()  # of one colour each
    assert (patches == GREY).all(-1).any()
    assert not (patches == GREY).all()


def test_the_middle_of_a_photo_is_cut_out() -> None:
    found = pictures.crop_centre(photo(0, 300, 100), 50)
    assert found.shape == (50, 50, 3)
    wide = np.asarray(photo(0, 300, 100).resize((150, 50), pictures.Image.Resampling.BICUBIC))
    assert np.array_equal(found, wide[:, 50:100])

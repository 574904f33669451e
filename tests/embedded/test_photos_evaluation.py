"""What is measured on photos, with answers known by hand, and the whole command on made-up photos and a tiny model."""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before timm)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from embedded.evaluation import CONTROL, LEAD
from embedded.evaluation.photos import BARS, GRID, POINTING, box_cover, mosaics, named, pointing, sample
from embedded.recipes import train_photos_vit, vits
from embedded.recipes.photos_data import NAMES, SIDE, Photos
from server.cli import main
from tests.embedded.test_photos_recipe import data  # noqa: F401  (a fixture)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained photos-vit."""
    out = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    shape = train_photos_vit.model_args(64, 1)
    vits.save(vits.create(train_photos_vit.ARCHITECTURE, NAMES, shape), out, train_photos_vit.ARCHITECTURE, NAMES, shape)
    return out


def photos(labels: list[int]) -> Photos:
    """Photos of one colour, which names their label."""
    images = np.zeros((len(labels), SIDE, SIDE, 3), np.uint8)
    images[..., 0] = np.array(labels)[:, None, None] * 5
    return Photos(images, np.array(labels), np.tile([0, 0, 9, 9], (len(labels), 1)))


def by_colour(pixels: Tensor, kept: Tensor | None) -> Tensor:
    """Names the label that a photo's colour stands for; with patches removed always the first category."""
    label = ((pixels[:, 0, 0, 0] + 1) * 127.5 / 5).round().long()
    scores = torch.linspace(0, -1, len(NAMES)).repeat(len(pixels), 1)
    return scores if kept is not None else scores.scatter(1, label[:, None], 1.0)


def test_categories_are_counted() -> None:
    labels = np.array([0, 0, 5, 7])
    answers = named(by_colour, photos([0, 2, 5, 1]), labels, batch=3)
    figures = answers.figures()
    assert list(figures.values()) == [0.5, 0.75, 0.5, 1.0]  # the eighth category is not among the first five of the last photo
    assert answers.worst(2) == {
        f"{NAMES[7]}, most often taken for {NAMES[1]}": {"right": 0.0, "taken for it": 1.0},
        f"{NAMES[0]}, most often taken for {NAMES[2]}": {"right": 0.5, "taken for it": 0.5},
    }
    assert answers.worst(3)[NAMES[5]] == {"right": 1.0, "taken for it": 0.0}


def test_half_of_the_patches_are_kept() -> None:
    seen: list[Tensor] = []

    def score(pixels: Tensor, kept: Tensor | None) -> Tensor:
        if kept is not None:
            seen.append(kept)
        return torch.zeros(len(pixels), len(NAMES))

    named(score, photos([0, 1, 2]), np.arange(3), batch=2)
    kept = torch.cat(seen)
    assert kept.shape == (3, GRID**2 // 2)
    assert all(len(row.unique()) == GRID**2 // 2 for row in kept)
    assert not torch.equal(kept[0], kept[1])


def test_a_box_covers_its_share_of_each_patch() -> None:
    cover = box_cover((2, 4, 63, 5))
    assert cover[1].tolist() == [0.25] + [0.5] * (GRID - 1)
    assert float(cover.sum()) == pytest.approx(62 * 2 / 16)


def test_mosaics_hold_four_categories_in_reading_order() -> None:
    some = photos(list(range(6)))
    (picture, shown), again = (next(mosaics(some, some.classes, 1)) for _ in range(2))
    assert shown == again[1]
    assert len(set(shown)) == 4
    pixels = np.asarray(picture)[..., 0]
    corners = [pixels[row, column] for row in (3, 60) for column in (3, 60)]
    assert [NAMES[colour // 5] for colour in corners] == shown


def test_pointing_at_random_finds_a_quarter(folder: Path) -> None:
    some = photos(list(range(6)))
    table = pointing(explainers.load(folder, device="cpu"), some, some.classes, [CONTROL], 3)
    assert table[CONTROL][POINTING] == pytest.approx(0.25, abs=0.03)


def test_samples_are_the_same_each_time() -> None:
    some = photos(list(range(9)))
    first, labels = sample(some, some.classes, 4)
    assert labels.tolist() == sample(some, some.classes, 4)[1].tolist() == first.classes.tolist()
    assert len(labels) == 4
    assert sample(some, some.classes, None)[1].tolist() == list(range(9))


def test_photos_in_a_quick_look(folder: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    asked = ["evaluate-embedded", "--only", "photos-vit", "--folder", str(folder), "--data", str(data), "--limit", "2", "--json"]
    assert main([*asked, "--methods", LEAD]) == 0
    report = json.loads(capsys.readouterr().out)
    figures = {one["what"]: one for one in report["figures"]}
    assert {one["bar"] for one in figures.values()} - {None} == set(BARS.values())
    maps, worst = report["tables"].values()
    assert list(maps) == [LEAD, CONTROL]
    ratio = figures["energy in the object's box over that of random"]["value"]
    assert ratio == pytest.approx(maps[LEAD]["energy in the object's box"] / maps[CONTROL]["energy in the object's box"])
    assert all(0 <= row["right"] <= 1 for row in worst.values())


def test_photos_are_skipped_without_their_data(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["evaluate-embedded", "--only", "photos-vit", "--folder", str(folder)]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == len(BARS)
    assert all("skipped" in line and "needs --data DIR" in line for line in lines)
    assert main([*asked, "--data", str(tmp_path)]) == 0
    assert "lacks tiny_imagenet/" in capsys.readouterr().out

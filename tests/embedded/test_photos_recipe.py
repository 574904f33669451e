"""How photos-vit is made: categories, reading Parquet files, drawing, mixing, and the whole recipe on made-up photos."""

from __future__ import annotations

import explainers.torchvision_ops

# isort: split
import argparse
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import explainers
from embedded.evaluation import photos
from embedded.recipes import train_photos_vit, vits
from embedded.recipes.photos_data import (
    CATEGORIES,
    FOLDER,
    NAMES,
    SIDE,
    Draw,
    categories,
    class_ids,
    cut_mix,
    held_out_photos,
    mosaic,
    read,
    training_photos,
    transplant,
    vary,
)
from server.cli import main

OTHER = "n99999999"  # a class of no category
IDS = [wnid for wnids in CATEGORIES.values() for wnid in wnids] + [OTHER]


def picture(number: int) -> bytes:
    """A picture of one colour of its own, without loss."""
    file = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), (number % 256, number // 256, 7)).save(file, "PNG")
    return file.getvalue()


def write(path: Path, images: list[bytes], ids: list[str]) -> None:
    boxes = pa.array([[1, 2, 30, 40]] * len(ids), pa.list_(pa.int16()))
    pq.write_table(pa.table({"image": images, "wnid": ids, "box": boxes}), path)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photo of every class to train on, in two files, and one to measure on; one picture is in both."""
    folder = tmp_path_factory.mktemp("data")
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "classes.tsv").write_text("wnid\twords\n" + "".join(f"{wnid}\tword\n" for wnid in IDS), "utf-8")
    train = [picture(number) for number in range(len(IDS))]
    write(folder / FOLDER / "train-00000-of-00002.parquet", train[:20], IDS[:20])
    write(folder / FOLDER / "train-00001-of-00002.parquet", train[20:], IDS[20:])
    write(folder / FOLDER / "val.parquet", [train[3], *(picture(500 + number) for number in range(1, len(IDS)))], IDS)
    return folder


def arguments(data: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_photos_vit.add_arguments(parser)
    small = ["--steps", "6", "--batch", "4", "--width", "64", "--depth", "2", "--device", "cpu"]
    return parser.parse_args(["--data", str(data), "--out", str(out), *small, *more])


def test_no_class_is_in_two_categories_and_none_may_be_missing() -> None:
    assert len(IDS) == len(set(IDS))
    found = categories(IDS)
    assert [NAMES[place] for place in found[:7]] == ["dog"] * 6 + ["cat"]
    assert found[-1] == -1
    with pytest.raises(ValueError, match=r"no class of lion, camel$"):
        categories([wnid for wnid in IDS if wnid not in CATEGORIES["lion"] + CATEGORIES["camel"]])


def test_photos_are_read_and_held_out(data: Path) -> None:
    photos = read(data, "train")
    assert photos.images[:, 0, 0].tolist() == [[number, 0, 7] for number in range(len(IDS))]
    assert photos.classes.tolist() == list(range(len(IDS)))
    assert photos.boxes.tolist() == [[1, 2, 30, 40]] * len(IDS)
    assert training_photos(data).classes.tolist() == [0, 1, 2, *range(4, len(IDS))]  # the fourth is also in val
    held_out, labels = held_out_photos(data)
    assert len(held_out.images) == len(labels) == len(IDS) - 1
    assert (categories(class_ids(data))[held_out.classes] == labels).all()


def test_a_wrong_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--data must name a folder that holds tiny_imagenet/"):
        read(tmp_path, "val")


def test_drawing_balances_categories_and_mixes_in_others() -> None:
    labels = np.array([0] * 400 + [1] * 100 + [-1] * 50)
    rows = Draw(labels).rows(np.random.default_rng(0), 40_000, others=0.25)
    shares = [float((labels[rows] == label).mean()) for label in (-1, 0, 1)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.01)  # 400 to 100 photos: twice as often, not four times
    assert len(np.unique(rows)) == len(labels)
    assert (labels[Draw(labels).rows(np.random.default_rng(0), 1000, others=0)] >= 0).all()


def test_mixed_targets_are_the_shares_of_the_area() -> None:
    rng = np.random.default_rng(0)
    number = 8
    pixels = (torch.arange(number) + 0.0).view(-1, 1, 1, 1).expand(-1, 3, SIDE, SIDE)  # photo i is all i
    targets = torch.eye(number)
    for mix in (mosaic, cut_mix, cut_mix):
        mixed, shares = mix(pixels, targets, rng)
        assert mixed.shape == pixels.shape
        area = torch.stack([(mixed[:, 0] == index).float().mean((1, 2)) for index in range(number)], 1)
        torch.testing.assert_close(area, shares)
    tiles = mosaic(pixels, targets, rng)[0][:, 0]
    half = SIDE // 2
    for tile in (tiles[:, :half, :half], tiles[:, :half, half:], tiles[:, half:, :half], tiles[:, half:, half:]):
        assert (tile == tile[:, :1, :1]).all()
        assert sorted(tile[:, 0, 0].tolist()) == list(range(number))  # every photo once in each corner


def test_variations_keep_to_the_range_and_follow_the_generator() -> None:
    pixels = torch.rand(6, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) * 2 - 1
    one, again, other = (vary(pixels, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert one.abs().max() <= 1


def test_a_row_without_a_target_counts_for_nothing() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.eye(5)[:3]
    expected = nn.functional.cross_entropy(logits, targets.argmax(1), label_smoothing=train_photos_vit.SMOOTHING)
    torch.testing.assert_close(train_photos_vit.soft_loss(logits, targets), expected)
    more = torch.cat([logits, torch.randn(2, 5)]), torch.cat([targets, torch.zeros(2, 5)])
    torch.testing.assert_close(train_photos_vit.soft_loss(*more), expected)
    assert train_photos_vit.soft_loss(more[0], torch.zeros(5, 5)) == 0


def test_removed_patches_are_grey_and_the_kept_ones_as_they_were() -> None:
    pixels, kept = torch.ones(1, 3, SIDE, SIDE), torch.tensor([[0, 17]])
    seen = vits.removed(pixels, kept, train_photos_vit.PATCH)[0, 0]
    assert seen[:4, :4].all()
    assert seen[4:8, 4:8].all()
    assert seen.sum() == 2 * 16


def test_an_object_is_moved_into_another_photo() -> None:
    pixels, targets = torch.stack([torch.full((3, 10, 10), value) for value in (1.0, 2.0)]), torch.eye(2)
    boxes = torch.tensor([[0, 0, 4, 1], [0, 0, 1, 9]])  # 10 pixels, and 20 of which the first covers 4
    seed = next(seed for seed in range(9) if np.random.default_rng(seed).permutation(2)[0] == 1)  # the photos change places
    mixed, shares = transplant(pixels, targets, boxes, np.random.default_rng(seed))
    expected = torch.full((10, 10), 2.0)
    expected[:2, :5] = 1
    assert torch.equal(mixed[0, 0], expected)
    torch.testing.assert_close(shares, torch.tensor([[10 / 26, 16 / 26], [6 / 26, 20 / 26]]))


def test_smaller_photos_get_resampled_positions() -> None:
    torch.manual_seed(0)
    vit = vits.create(train_photos_vit.ARCHITECTURE, NAMES, train_photos_vit.model_args(64, 1)).eval()
    pixels = torch.randn(2, 3, SIDE, SIDE)
    small = vits.create(train_photos_vit.ARCHITECTURE, NAMES, train_photos_vit.model_args(64, 1) | {"img_size": SIDE // 2}).eval()
    nn.init.zeros_(vit.pos_embed)
    vit.pos_embed.data[:, 1:] = torch.randn(64)  # the same everywhere, so it is the same in any size
    vit.pos_embed.data[:, :1] = 3.0  # the class token keeps its own
    weights = vit.state_dict()
    small.load_state_dict(weights | {"pos_embed": weights["pos_embed"][:, :65]})
    with torch.inference_mode():
        torch.testing.assert_close(vits.encode(vit, pixels), vit.forward_features(pixels))
        part = pixels[..., : SIDE // 2, : SIDE // 2]
        torch.testing.assert_close(vits.encode(vit, part), small.forward_features(part), atol=1e-5, rtol=1e-4)


def test_the_recipe_writes_a_folder_that_explains_and_goes_on(data: Path, tmp_path: Path) -> None:
    train_photos_vit.train(arguments(data, tmp_path / "vit"))
    assert not list(tmp_path.glob("*/checkpoint*"))
    weights = load_file(tmp_path / "vit/model.safetensors")
    assert {value.dtype for value in weights.values() if value.is_floating_point()} == {torch.float16}
    assert weights["head.weight"].shape == (len(NAMES), 64)
    assert not [name for name in weights if "class_head" in name]
    photo = read(data, "val").images[5]
    result = explainers.explain(explainers.load(str(tmp_path / "vit")), Image.fromarray(photo), "cat", ["legrad"])
    assert int(result["legrad"].content.sum()) == 16 * 16
    train_photos_vit.train(arguments(data, tmp_path / "more", "--start", str(tmp_path / "vit"), "--rate", "0"))
    more = load_file(tmp_path / "more/model.safetensors")
    counted = ("running_mean", "running_var", "num_batches_tracked")  # by batch normalisation, whatever the rate
    assert all(torch.equal(more[name], value) for name, value in weights.items() if not name.endswith(counted))


def test_a_trained_model_is_measured(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(photos, "EXPLAINED", 2)
    monkeypatch.setattr(photos, "MOSAICS", 1)
    given = {"data": data, "out": tmp_path, "steps": 1, "batch": 8, "width": 64, "depth": 1, "device": "cpu"}
    main(["train", "photos-vit", *(str(part) for name, value in given.items() for part in (f"--{name}", value))])
    figures = {row["what"]: row for row in json.loads((tmp_path / "figures.json").read_text("utf-8"))["figures"]}
    assert figures[photos.TOP]["note"] == f"{len(IDS) - 1} photos"
    assert figures[photos.TOP]["bar"] == photos.BARS[photos.TOP]
    assert photos.TOP_5 in capsys.readouterr().out

"""The sample photos: what ships, and how pictures are put together."""

import json

import numpy as np
import pytest
from PIL import Image

from recipes.assets.photo_samples import OUT, PHOTOS, SAMPLES, SIDE, Note, PhotoSample, add_note, compose_picture, notice, stack_pictures


@pytest.fixture
def sources(tmp_path):
    for number, photo in enumerate(PHOTOS.values()):
        Image.new("RGB", (90, 60), (10 * number, 200, 40)).save(tmp_path / photo.file)
    return tmp_path


def test_what_ships_is_what_the_recipe_lists():
    listed = json.loads((OUT / "index.json").read_text("utf-8"))["samples"]
    assert [row["id"] for row in listed if row["kind"] == "image"] == [f"photo-{sample.name}" for sample in SAMPLES]
    assert {row["image"] for row in listed} == {path.name for path in OUT.glob("*.jpg")}
    assert all(row["prompts"] == row["sets"][0]["prompts"] for row in listed if row["kind"] == "clip")
    assert {row["id"] for row in listed if row["trap"] and row["kind"] == "image"} == {
        "photo-bee", "photo-rocket", "photo-coffee-ipod", "photo-cat-dog",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in OUT.iterdir()) < 1_500_000


def test_the_notice_names_author_licence_and_change_of_every_picture():
    text = (OUT / "NOTICE").read_text("utf-8")
    for sample in SAMPLES:
        assert notice(sample) in text
        assert all(PHOTOS[name].author in notice(sample) and PHOTOS[name].licence in notice(sample) for name in sample.photos)
    assert "“iPod”" in text


def test_every_source_is_used_and_every_sample_can_be_made(sources):
    assert {name for sample in SAMPLES for name in sample.photos} == set(PHOTOS)
    for sample in SAMPLES:
        assert max(compose_picture(sources, sample).size) <= SIDE


def test_two_photos_fill_the_halves_of_a_square():
    picture = np.asarray(stack_pictures(Image.new("RGB", (80, 60), "red"), Image.new("RGB", (60, 80), "blue")))
    assert picture.shape == (SIDE, SIDE, 3)
    assert (picture[: SIDE // 2, :, 0] > 200).all()
    assert (picture[SIDE // 2 :, :, 2] > 200).all()


def test_a_note_covers_its_place_alone():
    plain = Image.new("RGB", (200, 100), "green")
    written = np.asarray(add_note(plain, Note("dog", 0.5, 0.5, 0.4, 0.0)))
    changed = (written != np.asarray(plain)).any(-1)
    assert changed[50, 100]
    assert not changed[:25].any()
    assert not changed[:, :40].any()
    assert len(np.unique(written[changed].sum(-1))) > 2  # paper and ink


def test_the_box_is_cut_out(tmp_path):
    picture = np.zeros((100, 100, 3), np.uint8)
    picture[10:80, 5:] = 255
    Image.fromarray(picture).save(tmp_path / PHOTOS["dogs"].file, quality=100, subsampling=0)
    assert np.asarray(compose_picture(tmp_path, PhotoSample("x", "", "", ("dogs",), (), ()))).mean() > 250

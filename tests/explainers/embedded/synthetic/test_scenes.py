"""The renderer: equal seeds, exact masks, no font."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageFont

import explainers.embedded
from explainers.embedded.synthetic import scenes
from explainers.embedded.synthetic.scenes import BACKGROUNDS, KINDS, Composition, Placement, compose, draw, patch_labels, render
from explainers.embedded.synthetic.sprites import file_names, kinds

SPRITES = Path(explainers.embedded.__file__).parent / "sprites"


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([77, seed])


def grown(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask and what is within two pixels of it."""
    return np.asarray(Image.fromarray(mask).convert("L").filter(ImageFilter.MaxFilter(5))) > 0


def test_equal_generators_give_equal_scenes() -> None:
    one, two, other = render(generator(1), 112), render(generator(1), 112), render(generator(2), 112)
    assert one.image.tobytes() == two.image.tobytes()
    assert one.composition == two.composition
    assert all(np.array_equal(a.mask, b.mask) for a, b in zip(one.objects, two.objects, strict=True))
    assert one.image.tobytes() != other.image.tobytes()


@pytest.mark.parametrize("seed", range(12))
def test_masks_are_disjoint_visible_and_boxed(seed: int) -> None:
    scene, visible = draw(render(generator(seed), 112).composition, 112)
    assert 1 <= len(scene.objects) <= 4
    assert len({item.kind for item in scene.objects}) == len(scene.objects)
    assert scene.image.size == (112, 112)
    assert scene.image.mode == "RGB"
    assert np.sum([item.mask for item in scene.objects], 0).max() == 1
    assert min(visible) >= scenes.MIN_VISIBLE
    for item in scene.objects:
        left, top, right, bottom = item.box
        inside = item.mask[top:bottom, left:right]
        assert inside.sum() == item.mask.sum() > 0
        assert inside[0].any()
        assert inside[-1].any()
        assert inside[:, 0].any()
        assert inside[:, -1].any()


@pytest.mark.parametrize("seed", range(6))
def test_leaving_an_object_out_changes_what_its_mask_says(seed: int) -> None:
    scene = render(generator(seed), 112, kinds=["zebra", "apple", "key"])
    for index, item in enumerate(scene.objects):
        kept = tuple(p for i, p in enumerate(scene.composition.placements) if i != index)
        without, _ = draw(dataclasses.replace(scene.composition, placements=kept), 112)
        changed = np.abs(np.asarray(scene.image, int) - np.asarray(without.image, int)).max(2) > 0
        edges = [grown(other.mask) & grown(~other.mask) for other in scene.objects]
        assert not (changed & ~item.mask & ~np.any(edges, 0)).any()  # edges are soft: one sees through them
        assert changed[item.mask].mean() > 0.98  # a pixel may happen to have the colour of what is behind it
        for before, after in zip((o for i, o in enumerate(scene.objects) if i != index), without.objects, strict=True):
            assert not (before.mask & ~after.mask).any()
            assert not (after.mask & ~before.mask & ~item.mask).any()


def test_one_composition_is_the_same_scene_at_any_size() -> None:
    composition = render(generator(3), 112, count=2).composition
    small, large = draw(composition, 112)[0], draw(composition, 336)[0]
    for a, b in zip(small.objects, large.objects, strict=True):
        thinned = b.mask[1::3, 1::3]
        assert (a.mask & thinned).sum() / (a.mask | thinned).sum() > 0.8


def test_the_front_object_covers_the_one_behind() -> None:
    back, front = Placement("pizza", "pizza.png", (0.5, 0.5), 0.6), Placement("clock", "clock.png", (0.5, 0.5), 0.3)
    scene, visible = draw(Composition("paper", 0, (back, front)), 112)
    assert visible[1] == 1.0
    assert 0 < visible[0] < 1
    assert scene.objects[1].mask[56, 56]
    assert not scene.objects[0].mask[56, 56]


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_backgrounds_are_pictures(name: str) -> None:
    picture = scenes.background(name, 5, 64)
    assert picture.shape == (64, 64, 3)
    assert picture.min() >= 0
    assert picture.max() <= 255
    assert np.array_equal(picture, scenes.background(name, 5, 64))


def test_all_backgrounds_and_counts_and_kinds_occur() -> None:
    rng = generator(0)
    some = [compose(rng) for _ in range(400)]
    assert {c.background for c in some} == set(BACKGROUNDS)
    assert {len(c.placements) for c in some} == {1, 2, 3, 4}
    assert {p.kind for c in some for p in c.placements} == set(KINDS)


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="no sprite of unicorn"):
        render(generator(0), 112, kinds=["unicorn"])
    with pytest.raises(ValueError, match="1 to 4 objects, not 5"):
        render(generator(0), 112, kinds=list(KINDS[:5]))
    with pytest.raises(ValueError, match="no background is called 'plaid'"):
        scenes.background("plaid", 0, 8)


def test_no_font_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a font was opened")

    monkeypatch.setattr(ImageFont, "truetype", refuse)
    monkeypatch.setattr(ImageFont, "load_default", refuse)
    scenes._read_sprite.cache_clear()
    scenes._scale_sprite.cache_clear()
    assert len(render(generator(4), 112, count=4).objects) == 4


def test_every_sprite_of_the_table_is_there_and_no_other() -> None:
    assert len(KINDS) >= 44
    assert {"zebra", "elephant", "dog", "cat", "spoon", "fork"} <= set(KINDS)
    assert {name for kind in KINDS for name in file_names(kind)} == {path.name for path in SPRITES.glob("*.png")}
    assert all(len(row["colour"]) == len(row["glyphs"]) for row in kinds().values())
    for path in SPRITES.glob("*.png"):
        with Image.open(path) as picture:
            assert picture.mode == "RGBA"
            assert picture.getbbox() == (0, 0, *picture.size)
    assert "SIL OPEN FONT LICENSE Version 1.1" in (SPRITES / "OFL.txt").read_text("utf-8")
    assert "Noto Color Emoji" in (SPRITES / "NOTICE").read_text("utf-8")


def test_patch_labels_follow_the_masks() -> None:
    scene, _ = draw(Composition("paper", 0, (Placement("book", "book.png", (0.5, 0.5), 0.6),)), 112)
    labels = patch_labels(scene, 8)
    assert labels.shape == (14, 14)
    assert labels[7, 7] == KINDS.index("book")
    assert labels[0, 0] == len(KINDS)
    assert set(np.unique(labels)) == {KINDS.index("book"), len(KINDS)}

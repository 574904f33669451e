"""Birds, and rendered scenes, that come without any of their parts: what is read, and what is calculated of their classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from explainers import ExplainerError
from explainers.datasets import open_dataset
from explainers.datasets.birds import rivals_of, sufficient_sets
from tests.explainers.support.made_up_birds import made_up_birds


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("parts.json", '{"beak": [], "crest": []}', "whose keys are parts: beak, eye, foot, wing, tail"),
        ("classes.json", '[{"class_idx": 0, "parts": {"beak": 1}}]', "with class_idx and parts: beak, eye"),
        ("classes.json", "[]", "with class_idx and parts: beak, eye"),
        ("parts.json", "[]", "whose keys are parts"),
        ("dataset_test.json", '[{"class_idx": 9}]', "lacks the class 9"),
    ],
)
def test_classes_of_birds_that_are_broken_are_refused(file: str, text: str, words: str, tmp_path: Path) -> None:
    made_up_birds(tmp_path, (3,))
    (tmp_path / file).write_text(text, "utf-8")
    for pictures in ("test", "test_part_map"):
        shutil.copytree(tmp_path / pictures / "3", tmp_path / pictures / "9")
    with pytest.raises(ExplainerError, match=words):
        open_dataset("funnybirds", tmp_path)[0]


def test_a_bird_comes_without_any_of_its_parts(tmp_path: Path) -> None:
    made_up_birds(tmp_path, (0, 3))
    data = open_dataset("funnybirds", tmp_path)
    assert (data.gives, [bird.labels for bird in data]) == (("class", "mask", "parts"), [(0,), (3,)])
    bird = data[1]
    parts = bird.removable
    assert parts is not None
    assert parts.without_thing is not None
    assert list(parts.pieces) == ["beak", "eye", "foot", "tail", "wing"]
    for removed in (["beak"], ["foot", "wing"], list(parts.pieces)):
        changed = (np.asarray(parts.without(frozenset(removed))) != np.asarray(bird.image)).any(-1)
        assert (changed == np.logical_or.reduce([mask for part in removed for mask in parts.pieces[part]])).all()
    assert not (np.asarray(parts.without(frozenset())) != np.asarray(bird.image)).any()
    for thing, mask in enumerate(parts.ground):
        assert ((np.asarray(parts.without_thing(thing)) != np.asarray(bird.image)).any(-1) == mask).all()
    assert len(parts.ground) == 2
    (tmp_path / "test_interventions/3/000001/body_beak.png").unlink()
    with pytest.raises(ExplainerError, match=r"lacks .*body_beak\.png"):
        parts.without(frozenset({"eye", "foot", "tail", "wing"}))


def test_parts_that_tell_a_class_from_all_others() -> None:
    """By hand: class 1 is alone with y 1; class 0 shares x with 1 and z with 2, so that x and z together, or y alone, are its own."""
    classes = {0: {"x": 0, "y": 0, "z": 0}, 1: {"x": 0, "y": 1, "z": 1}, 2: {"x": 1, "y": 2, "z": 0}}
    assert set(sufficient_sets(classes, 0)) == {frozenset("y"), frozenset("xz")}
    assert set(sufficient_sets(classes, 1)) == {frozenset("y"), frozenset("z")}
    assert sufficient_sets({**classes, 3: classes[0]}, 0) == ()


def test_rivals_are_the_first_two_that_share_other_parts() -> None:
    forms = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 0, 2, 2), (1, 1, 0, 0)]
    classes = {number: dict(zip("abcd", of_class, strict=True)) for number, of_class in enumerate(forms)}
    assert rivals_of(classes, 0) == ((1, frozenset("ab")), (4, frozenset("cd")))
    assert rivals_of({number: classes[number] for number in (0, 1, 2, 3)}, 0) == ()


def test_a_scene_comes_without_any_of_its_things() -> None:
    scene = open_dataset("scenes-parts")[5]
    parts = scene.removable
    assert parts is not None
    assert (parts.sufficient, [kind for kind, _ in parts.rivals]) == ((frozenset([scene.labels[0]]),), list(scene.labels[1:]))
    image = np.asarray(scene.image).astype(int)
    for kind, (mask,) in parts.pieces.items():
        changed = np.abs(np.asarray(parts.without(frozenset([kind]))).astype(int) - image).max(-1) > 0
        assert changed[mask].mean() > 0.95
        others = np.logical_or.reduce([others for other, (others,) in parts.pieces.items() if other != kind])
        assert changed[~mask & ~others].mean() < 0.02  # its edges
    empty = np.asarray(parts.without(frozenset(parts.pieces)))
    ground = ~np.logical_or.reduce([mask for (mask,) in parts.pieces.values()])
    assert (np.abs(empty.astype(int) - image).max(-1) > 0)[ground].mean() < 0.05

"""FunnyBirds: rendered birds of five parts that decide their class, with pictures in which parts or things of the ground are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from PIL import Image

from explainers.datasets.base import AnnotatedObject, Dataset, Mask, RemovableParts, Sample
from explainers.datasets.registry import Folder, dataset, union
from explainers.papers import FUNNYBIRDS

#: Name of a part -> the colours of its pieces in a map of parts.
_PIECES = {
    "beak": ((255, 255, 0),),
    "eye": ((255, 255, 253), (255, 255, 254)),
    "foot": ((255, 0, 1), (255, 0, 2)),
    "wing": ((0, 255, 1), (0, 255, 2)),
    "tail": ((0, 0, 255),),
}
_FIRST_OF_GROUND = (204, 204, 204)  # colour of the first thing of the ground; the next ones have more blue
_SHARED_WITH_RIVAL = 2  # parts that a class shares with another one for which maps are compared


@dataset(
    "funnybirds",
    title="FunnyBirds",
    kind="image",
    gives=("class", "mask", "parts"),
    layout="""
dataset_test.json
test/0/000000.png ...
test_part_map/0/000000.png ...
classes.json, parts.json (for pictures without parts)
test_interventions/0/000000/body_beak_eye_foot_tail_wing.png ... (named by the parts that are left)
test_interventions/0/000000/background_interventions/0.png ...
""",
    source=FUNNYBIRDS,
    get="https://github.com/visinf/funnybirds",
)
def funnybirds(data: Folder) -> Dataset:
    """500 rendered birds of 50 classes. The mask holds the parts that decide the class: beak, wings, feet, eyes and tail, each known by its
    colour in the map of parts. Body and ground have other colours. Each bird was rendered again without any of its parts, and without each
    thing of the ground; where these pictures are missing, the metrics about them are not measured.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    listing = data.need("dataset_test.json")
    rows = data.json(listing)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("class_idx"), int) for row in rows):
        raise data.error_for(listing, "a list of objects with class_idx is needed")
    classes = _parts_of_classes(data) if (data.path / "test_interventions").is_dir() else {}

    def read(number: int) -> Sample:
        label = rows[number]["class_idx"]
        file = Path(str(label)) / f"{number:06d}.png"
        path = data.path / "test_part_map" / file
        colours = data.plane(path)
        if colours.ndim != 3:
            raise data.error_for(path, "the map of parts must be in colour")
        pieces = {part: tuple((colours[..., :3] == colour).all(-1) for colour in of_pieces) for part, of_pieces in _PIECES.items()}
        obj = AnnotatedObject(label=label, mask=union([mask for masks in pieces.values() for mask in masks]))
        return Sample(
            name=f"{number:06d}",
            image=data.image(data.path / "test" / file),
            labels=(label,),
            objects=(obj,),
            removable=_removable(data, classes, rows[number], number, pieces, colours) if classes else None,
        )

    return Dataset(kind="image", length=len(rows), classes=tuple(map(str, range(50))), read=read, lacks=() if classes else ("parts",))


def _parts_of_classes(data: Folder) -> dict[int, dict[str, int]]:
    """Return for each class which form each of its parts has, parts in the order of ``parts.json``."""
    listing, of_parts = data.need("classes.json"), data.need("parts.json")
    entries, parts = data.json(listing), data.json(of_parts)
    if not isinstance(parts, dict) or not parts or set(parts) - set(_PIECES):
        raise data.error_for(of_parts, f"an object is needed whose keys are parts: {', '.join(_PIECES)}")
    try:
        classes = {int(entry["class_idx"]): {part: int(entry["parts"][part]) for part in parts} for entry in entries}
    except (TypeError, KeyError, ValueError):
        classes = {}
    if not classes:
        raise data.error_for(listing, f"a list of objects is needed with class_idx and parts: {', '.join(parts)}")
    return classes


def _removable(
    data: Folder,
    classes: Mapping[int, dict[str, int]],
    row: Mapping[str, Any],
    number: int,
    pieces: Mapping[str, tuple[Mask, ...]],
    colours: Any,
) -> RemovableParts:
    """Return what can be left out of the bird with this ``number``, ``row`` of the listing, ``pieces`` of parts and map of parts."""
    if row["class_idx"] not in classes:
        raise data.error_for(data.path / "classes.json", f"it lacks the class {row['class_idx']}")
    folder = data.path / "test_interventions" / str(row["class_idx"]) / f"{number:06d}"
    parts = tuple(classes[row["class_idx"]])

    def without(removed: frozenset[str]) -> Image.Image:
        return data.image(folder / f"body_{'_'.join(sorted(set(parts) - removed))}.png")

    def without_thing(thing: int) -> Image.Image:
        return data.image(folder / "background_interventions" / f"{thing}.png")

    things = len(re.findall(r"\d+", str(row.get("bg_objects", ""))))
    blues = [_FIRST_OF_GROUND[2] + thing for thing in range(things)]
    return RemovableParts(
        pieces={part: pieces[part] for part in parts},
        without=without,
        ground=tuple((colours[..., :3] == (*_FIRST_OF_GROUND[:2], blue)).all(-1) for blue in blues),
        without_thing=without_thing,
        sufficient=sufficient_sets(classes, row["class_idx"]),
        rivals=rivals_of(classes, row["class_idx"]),
    )


def sufficient_sets(classes: Mapping[int, Mapping[str, int]], label: int) -> tuple[frozenset[str], ...]:
    """Return the smallest sets of parts that no other class has in the same forms as the class ``label``, so that each tells it from all
    others; a set that holds another one is left out. ``classes`` maps each class to the form of each part.
    """
    forms = classes[label]
    shared = [shared_parts(forms, other) for number, other in classes.items() if number != label]
    smallest: list[frozenset[str]] = []
    for size in range(1, len(forms) + 1):
        for chosen in map(frozenset, combinations(forms, size)):
            if not any(chosen <= of_other for of_other in shared) and not any(smaller <= chosen for smaller in smallest):
                smallest.append(chosen)
    return tuple(smallest)


def rivals_of(classes: Mapping[int, Mapping[str, int]], label: int) -> tuple[tuple[int, frozenset[str]], ...]:
    """Return the first two classes, each with the parts that it shares with the class ``label``, that share two parts with it, and not the
    same ones; empty if there are no two. ``classes`` maps each class to the form of each part.
    """
    shared = [(number, shared_parts(classes[label], other)) for number, other in classes.items() if number != label]
    near: Sequence[tuple[int, frozenset[str]]] = [each for each in shared if len(each[1]) == _SHARED_WITH_RIVAL]
    return next(((first, second) for first, second in combinations(near, 2) if not first[1] & second[1]), ())


def shared_parts(forms: Mapping[str, int], other: Mapping[str, int]) -> frozenset[str]:
    """Return the parts that have the same form in both classes, each given as the form of each part."""
    return frozenset(part for part, form in forms.items() if other[part] == form)

"""What is found of what somebody types for a class."""

from __future__ import annotations

from tests.support.node import compute_all

CLASSES = [
    {"label": "zebra", "group": "hoofed animal", "groups": ["hoofed animal", "animal"]},
    {"label": "elephant", "group": "elephant", "groups": ["elephant", "animal"], "synonyms": ["pachyderm"]},
    {"label": "dog", "group": "dog", "groups": ["dog", "animal"], "synonyms": ["hound"]},
    {"label": "7", "group": "number", "groups": ["number"]},
]
FOUND = """async ([classes, typed]) => (await script("core/search.js")).suggestions(classes, typed)
  .map(({ name, shown, hint }) => `${name} | ${shown} | ${hint}`)"""
ANY_ANIMAL = "any:animal | any animal | 3 classes"


def test_labels_synonyms_and_groups_are_found() -> None:
    expected = {
        "anim": [ANY_ANIMAL, "zebra | zebra | animal", "elephant | elephant | animal", "dog | dog | animal"],
        "pachy": ["elephant | elephant | also pachyderm"],
        "DOG ": ["dog | dog | dog"],
        "hoofed": ["zebra | zebra | hoofed animal"],
        "any anim": [ANY_ANIMAL],
        "any:animal": [ANY_ANIMAL],
        "any": [ANY_ANIMAL],
        "giraffe": [],
        "": ["zebra | zebra | hoofed animal", "elephant | elephant | elephant", "dog | dog | dog", "7 | 7 | number"],
    }
    assert dict(zip(expected, compute_all(FOUND, [[CLASSES, typed] for typed in expected]), strict=True)) == expected


def test_what_begins_with_it_comes_before_what_has_it_inside() -> None:
    labels = ("polecat", "wild cat", "cat", "tomcat", "caterpillar", "bobcat, wild cat")
    classes = [{"label": label} for label in labels]
    (found,) = compute_all(FOUND, [[classes, "cat"]])
    assert [line.split(" | ")[0] for line in found] == [*("cat", "caterpillar", "wild cat", "bobcat, wild cat", "polecat", "tomcat")]


def test_a_list_ends_after_sixty() -> None:
    classes = [{"label": f"class {number}"} for number in range(100)]
    assert [len(found) for found in compute_all(FOUND, [[classes, ""], [classes, "class"]])] == [60, 60]

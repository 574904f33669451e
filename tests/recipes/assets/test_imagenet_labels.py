"""The names of ImageNet's classes: the file that ships, and the recipe on a made-up WordNet."""

import json
import tomllib
from collections import Counter

import pytest

from explainers.models.libraries.torchvision_ops import register_missing_schemas
from recipes.assets.imagenet_labels import LABELS, Synset, groups_of, label_entries, parse_indices, read_nouns

NOUNS = """\
  1 the licence comes first
00000001 05 n 01 animal 0 000 | a living thing
00000002 05 n 02 cat 0 true_cat 0 001 @ 00000001 n 0000 | feline
00000003 05 n 02 tabby 0 tabby_cat 0 002 @ 00000002 n 0000 ~ 00000009 n 0000 | striped
00000004 05 n 02 crane 0 hoist 0 001 @i 00000005 n 0000 | lifts
00000005 06 n 01 machine 0 000 | works
"""
TABLE = {
    "labels": {"0": "tabby cat"},
    "synonyms": {"0": ["striped cat", "cat"]},
    "wrong": {"1": ["hoist"]},
    "groups": {"cat": "0", "machine": "1", "animal": "2"},
    "parents": {"machine": ["thing"], "animal": ["thing"]},
    "further": {"crane": "1"},
    "outside": {},
    "wordnet": {"animal": "00000001"},
}
WNIDS = ["n00000003", "n00000004", "n00000002"]


@pytest.fixture(scope="module")
def shipped():
    return json.loads((LABELS / "imagenet.json").read_text("utf-8"))


@pytest.fixture
def nouns(tmp_path):
    path = tmp_path / "data.noun"
    path.write_text(NOUNS, "utf-8")
    return read_nouns(path)


def test_nouns_are_read_with_their_parents_only(nouns):
    assert nouns["00000003"] == Synset(("tabby", "tabby cat"), ("00000002",))
    assert nouns["00000004"].parents == ("00000005",)  # an instance counts as a kind
    assert len(nouns) == 5


def test_an_entry_has_the_short_name_its_group_wider_groups_and_other_words(nouns):
    tabby, crane, cat = label_entries(WNIDS, nouns, TABLE)
    assert (tabby["label"], tabby["group"], tabby["wnid"]) == ("tabby cat", "cat", WNIDS[0])
    assert tabby["groups"] == ["cat", "animal", "thing"]
    assert tabby["synonyms"] == ["striped cat", "tabby"]  # "cat" is another class
    assert crane["groups"] == ["machine", "thing"]  # a group of one class with its very name says nothing
    assert crane["synonyms"] == []
    assert cat["label"] == "cat"


def test_two_classes_of_one_name_are_refused(nouns):
    with pytest.raises(ValueError, match="several classes are called"):
        label_entries(WNIDS, nouns, TABLE | {"labels": {"0": "Cat"}})


@pytest.mark.parametrize(
    ("groups", "words"), [({"cat": "0-1"}, "without a group: \\[2\\]"), ({"cat": "0-2", "dog": "2"}, "class 2 is in two groups")]
)
def test_a_class_has_exactly_one_everyday_group(nouns, groups, words):
    with pytest.raises(ValueError, match=words):
        groups_of(WNIDS, nouns, TABLE | {"groups": groups})


def test_a_group_of_no_synset_is_refused(nouns):
    with pytest.raises(ValueError, match="not in WordNet"):
        groups_of(WNIDS, nouns, TABLE | {"wordnet": {"tree": "00000077"}})


def test_ranges_of_classes():
    assert parse_indices("3 5-7") == [3, 5, 6, 7]


def test_the_shipped_labels_are_distinct_and_each_has_a_group(shipped):
    assert len(shipped) == 1000
    labels = [row["label"].casefold() for row in shipped]
    assert len(set(labels)) == 1000
    assert all(row["groups"][0] == row["group"] for row in shipped)
    assert all(len(set(row["groups"])) == len(row["groups"]) for row in shipped)
    size = Counter(group for row in shipped for group in row["groups"])
    several = {group for group, classes in size.items() if classes > 1}
    for row in shipped:
        assert not {synonym.casefold() for synonym in row["synonyms"]} & (set(labels) | several), row["label"]


def test_the_shipped_labels_are_in_the_order_of_the_logits(shipped):
    register_missing_schemas()
    from timm.data.imagenet_info import ImageNetInfo

    assert [row["wnid"] for row in shipped] == ImageNetInfo("imagenet-1k").label_names()


def test_the_shipped_labels_say_what_people_say(shipped):
    def of(index):
        return shipped[index]["label"], shipped[index]["group"]

    assert of(281) == ("tabby cat", "cat")
    assert of(207) == ("golden retriever", "dog")
    assert (of(134), of(517)) == (("crane (bird)", "bird"), ("crane (machine)", "machine"))
    assert {of(638)[0], of(639)[0]} == {"maillot (leotard)", "one-piece swimsuit"}
    assert {of(987)[0], of(998)[0]} == {"corn", "ear of corn"}
    assert sum("dog" in row["groups"] for row in shipped) == 118


def test_the_table_only_changes_what_it_names(shipped):
    table = tomllib.loads((LABELS / "imagenet.toml").read_text("utf-8"))
    assert all(shipped[int(index)]["label"] == label for index, label in table["labels"].items())
    groups = [shipped[index]["group"] == group for group, text in table["groups"].items() for index in parse_indices(text)]
    assert len(groups) == 1000
    assert all(groups)

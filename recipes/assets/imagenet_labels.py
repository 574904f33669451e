"""Names of ImageNet's 1,000 classes as people know them: ``python -m recipes.assets.imagenet_labels --wordnet data.noun``.

WordNet 3.0 (Debian's package ``wordnet-base`` puts it at ``/usr/share/wordnet/data.noun``) gives the words and the parents of each
synset, timm the order of the classes, ``explainers/embedded/labels/imagenet.toml`` everyday names and groups.
``explainers/embedded/labels/imagenet.json`` holds one entry a class, in the order of the logits: label, group, groups (that group first,
then the others from small to large), synonyms, wnid. No two labels are the same; no synonym is the label of another class or the name of a
group of several classes.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explainers.models.libraries.torchvision_ops import register_missing_schemas

LABELS = Path(__file__).parents[2] / "explainers" / "embedded" / "labels"
WORDNET = Path("/usr/share/wordnet/data.noun")
_HYPERNYMS = ("@", "@i")


@dataclass(frozen=True)
class Synset:
    """One noun synset of WordNet: its synonymous words, and the offsets of its hypernyms."""

    words: tuple[str, ...]
    parents: tuple[str, ...]


def read_nouns(path: Path) -> dict[str, Synset]:
    """Parse the file ``path``, WordNet's ``data.noun``, into a mapping from offset to synset; its format is described in the manual page
    wndb(5WN).
    """
    synsets = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith(" "):  # the licence
            continue
        fields = line.partition("|")[0].split()
        count = int(fields[3], 16)
        words = tuple(word.replace("_", " ") for word in fields[4 : 4 + 2 * count : 2])
        pointers = fields[5 + 2 * count :]
        parents = tuple(target for kind, target in zip(pointers[::4], pointers[1::4], strict=False) if kind in _HYPERNYMS)
        synsets[fields[0]] = Synset(words, parents)
    return synsets


def ancestors(offset: str, nouns: Mapping[str, Synset]) -> set[str]:
    """Return the offsets of all direct and indirect hypernyms of the synset at ``offset`` in ``nouns``."""
    above: set[str] = set()
    todo = [offset]
    while todo:
        for parent in nouns[todo.pop()].parents:
            if parent not in above:
                above.add(parent)
                todo.append(parent)
    return above


def parse_indices(text: str) -> list[int]:
    """Parse ``text``, class numbers and ranges of them: ``"1 4-6"`` gives [1, 4, 5, 6]."""
    listed: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        listed += range(int(first), int(last or first) + 1)
    return listed


def everyday_groups(table: Mapping[str, str], classes: int) -> list[str]:
    """Return the one everyday group of each of ``classes`` classes, in their order, from ``table``, which gives for each group its class
    numbers as :func:`parse_indices` reads them; raises ValueError if a class has none or two.
    """
    first: dict[int, str] = {}
    for group, text in table.items():
        for index in parse_indices(text):
            if index in first:
                raise ValueError(f"class {index} is in two groups: {first[index]} and {group}")
            first[index] = group
    if missing := sorted(set(range(classes)) - set(first)):
        raise ValueError(f"classes without a group: {missing}")
    return [first[index] for index in range(classes)]


def with_parents(groups: set[str], parents: Mapping[str, Sequence[str]]) -> set[str]:
    """Return ``groups`` together with all wider groups that contain them; ``parents`` gives for each group the next wider ones."""
    all_groups, todo = set(groups), list(groups)
    while todo:
        wider = set(parents.get(todo.pop(), ())) - all_groups
        all_groups |= wider
        todo += wider
    return all_groups


def groups_of(wnids: Sequence[str], nouns: Mapping[str, Synset], table: Mapping[str, Any]) -> list[list[str]]:
    """Return for each class of ``wnids`` (WordNet ids) the names of its groups, from WordNet's ``nouns`` and from the ``table`` of groups:
    its everyday group first, then the others from the fewest classes to the most.
    """
    first = everyday_groups(table["groups"], len(wnids))
    named = {offset: name for name, offset in table["wordnet"].items()}
    if unknown := set(named) - set(nouns):
        raise ValueError(f"not in WordNet: {sorted(unknown)}")
    further = {key: [(group, set(parse_indices(text))) for group, text in table[key].items()] for key in ("further", "outside")}
    every: list[set[str]] = []
    for index, wnid in enumerate(wnids):
        offsets = ancestors(wnid[1:], nouns) | {wnid[1:]}
        groups = {first[index]} | {named[offset] for offset in offsets if offset in named}
        groups |= {group for group, classes in further["further"] if index in classes}
        groups -= {group for group, classes in further["outside"] if index in classes}
        every.append(with_parents(groups, table["parents"]))
    size = Counter(group for groups in every for group in groups)
    return [[label, *sorted(groups - {label}, key=lambda group: (size[group], group))] for label, groups in zip(first, every, strict=True)]


def label_entries(wnids: Sequence[str], nouns: Mapping[str, Synset], table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one entry of ``imagenet.json`` for each class of ``wnids``, from WordNet's ``nouns`` and the corrections in ``table``: label,
    group, groups, synonyms and wnid.

    Raises ValueError if two classes have the same label.
    """
    named, added, wrong = ({int(index): value for index, value in table[key].items()} for key in ("labels", "synonyms", "wrong"))
    words = [nouns[wnid[1:]].words for wnid in wnids]
    labels = [named.get(index, words[index][0]) for index in range(len(wnids))]
    if twice := [label for label, times in Counter(label.casefold() for label in labels).items() if times > 1]:
        raise ValueError(f"several classes are called {twice}")
    every_group = groups_of(wnids, nouns, table)
    size = Counter(group for groups in every_group for group in groups)
    taken = {label.casefold() for label in labels} | {group for group, classes in size.items() if classes > 1}
    rows = []
    for index, (wnid, (first, *others)) in enumerate(zip(wnids, every_group, strict=True)):
        synonyms = []
        for word in (*added.get(index, ()), *words[index]):
            if word.casefold() not in taken and word not in wrong.get(index, ()) and word not in synonyms:
                synonyms.append(word)
        groups = [first, *(group for group in others if size[group] > 1 or group != labels[index])]
        rows.append({"label": labels[index], "group": first, "groups": groups, "synonyms": synonyms, "wnid": wnid})
    return rows


def main() -> None:
    """Write the labels of ImageNet's classes to the file of ``--out`` (default: ``imagenet.json`` of the embedded labels), from WordNet,
    timm's order of the classes and ``imagenet.toml``.
    """
    register_missing_schemas()
    from timm.data.imagenet_info import ImageNetInfo

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=WORDNET, help="WordNet 3.0's data.noun")
    parser.add_argument("--out", type=Path, default=LABELS / "imagenet.json", help="where to write")
    arguments = parser.parse_args()
    table = tomllib.loads((LABELS / "imagenet.toml").read_text("utf-8"))
    rows = label_entries(ImageNetInfo("imagenet-1k").label_names(), read_nouns(arguments.wordnet), table)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    arguments.out.write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()

"""Names of classes as people keep them: a list, a text file with a name a line, a CSV, or a JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError
from explainers.json_files import parse_json

MAX_INDEX_DIGITS = 9  # of the number of a class; longer ones cost Python more time than they have digits, or are refused by it
_NAME_COLUMNS = ("label", "name", "class", "class_name", "classname", "category", "title")
_INDEX_COLUMNS = ("index", "idx", "id", "class_id", "label_id", "number", "")


def class_names(labels: Any) -> list[str]:
    """Return the names in the order of the logits, from ``labels``: a list, a dict (index to name, or name to index), or the path of a file
    with them.

    A CSV file has one name in each row, and an index if a column is called ``index``. Raises ExplainerError for a file of another form.
    """
    if isinstance(labels, str | Path):
        return _of_file(Path(labels).expanduser())
    if isinstance(labels, Mapping):
        return _of_dict(labels, "labels=")
    if not isinstance(labels, Iterable):
        raise ExplainerError(f"labels={labels!r}: send a list of names, or the path of a .txt, .csv or .json file with them")
    return [str(label) for label in labels]


def _of_file(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise ExplainerError(f"there is no file of names {str(path)!r}; labels= takes a list, a .txt, a .csv or a .json") from None
    except (UnicodeDecodeError, IsADirectoryError):
        raise ExplainerError(f"{path.name} is not a text file in UTF-8; send a .txt with a name a line, a .csv or a .json") from None
    return names_in(text, path.name)


def names_in(text: str, name: str) -> list[str]:
    """Return the names in the text of a file called ``name``, whose suffix says which format it has."""
    if name.lower().endswith(".json"):
        names = _of_json(parse_json(text, name), name)
    elif name.lower().endswith((".csv", ".tsv")):
        names = _of_table(text, name, "\t" if name.lower().endswith(".tsv") else None)
    else:
        names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise ExplainerError(f"{name} holds no names")
    if (number := next((number for number, label in enumerate(names) if not _can_be_encoded(label)), None)) is not None:
        raise ExplainerError(f"{name}: name {number} holds half a character, which no text in UTF-8 can; write it again")
    return names


def _of_json(content: Any, name: str) -> list[str]:
    if isinstance(content, Mapping):
        keys = ("id2label", "labels", "classes", "names")
        inner = next((content[key] for key in keys if isinstance(content.get(key), list | Mapping)), content)
        if isinstance(inner, Mapping):
            return _of_dict(inner, name)
        content = inner
    if isinstance(content, list) and all(isinstance(row, str) for row in content):
        return list(content)
    if isinstance(content, list) and all(_has_name(row) for row in content):
        return [str(row.get("label") or row["name"]) for row in content]
    raise ExplainerError(f"{name}: send a list of names, or an object of index to name")


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _index(value: Any) -> int:
    """Parse the number of a class from a file. Raises ValueError for anything but a whole number of at most `MAX_INDEX_DIGITS` digits."""
    if isinstance(value, int):
        return value
    text = str(value).strip()
    if len(text) > MAX_INDEX_DIGITS or not text.isdecimal():
        raise ValueError(text[:MAX_INDEX_DIGITS])
    return int(text)


def _has_name(row: Any) -> bool:
    return isinstance(row, Mapping) and isinstance(row.get("label") or row.get("name"), str)


def _of_dict(names: Mapping[Any, Any], where: str) -> list[str]:
    """Return the names in order from a dict, index to name as in ``id2label`` or name to index as in ``class_to_idx``."""
    for pairs in (names.items(), [(value, key) for key, value in names.items()]):
        try:
            by_index = {_index(index): str(name) for index, name in pairs}
        except (TypeError, ValueError):
            continue
        if sorted(by_index) == list(range(len(names))):
            return [by_index[index] for index in range(len(names))]
    raise ExplainerError(f"{where}: the numbers of the classes must be 0 to {len(names) - 1}, each once, as those of the logits are")


def _of_table(text: str, name: str, delimiter: str | None) -> list[str]:
    lines = text.splitlines()
    first = lines[0] if lines else ""
    delimiter = delimiter or max(",;\t", key=first.count)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error as problem:  # a cell longer than the module takes, for one
        raise ExplainerError(f"{name} cannot be read as a table: {problem}; send a name a row") from None
    if not rows:
        return []
    heads = [cell.casefold() for cell in rows[0]]
    column = next((heads.index(known) for known in _NAME_COLUMNS if known in heads), None)
    if column is not None:
        index = next((heads.index(known) for known in _INDEX_COLUMNS if known in heads and heads.index(known) != column), None)
        rows = rows[1:]
    else:  # no heading: the first column that holds no numbers
        column = next((i for i in range(len(rows[0])) if not rows[0][i].isdecimal()), 0)
        index = next((i for i in range(len(rows[0])) if i != column and all(len(row) > i and row[i].isdecimal() for row in rows)), None)
    if any(len(row) <= max(column, index or 0) for row in rows):
        raise ExplainerError(f"{name}: every row needs as many cells as the first")
    if index is None:
        return [row[column] for row in rows]
    try:
        return _of_dict({_index(row[index]): row[column] for row in rows}, name)
    except ValueError:
        raise ExplainerError(f"{name}: the column of indices must hold whole numbers of at most {MAX_INDEX_DIGITS} digits") from None

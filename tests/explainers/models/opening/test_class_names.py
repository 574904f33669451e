"""Names of classes in the forms that people keep them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explainers import ExplainerError
from explainers.models.opening.class_names import class_names, names_in

NAMES = ["ant", "bee", "cat"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "ant\nbee\n\ncat\n"),
        ("bom.txt", "\ufeffant\nbee\ncat"),
        ("a.csv", "ant\nbee\ncat\n"),
        ("b.csv", "index,name\n1,bee\n0,ant\n2,cat\n"),
        ("c.csv", "2;cat\n0;ant\n1;bee\n"),
        ("d.csv", 'label,about\nant,"small, black"\nbee,x\ncat,y\n'),
        ("a.tsv", "id\tclass\n0\tant\n1\tbee\n2\tcat\n"),
        ("a.json", '["ant", "bee", "cat"]'),
        ("b.json", '{"0": "ant", "2": "cat", "1": "bee"}'),
        ("c.json", '{"cat": 2, "ant": 0, "bee": 1}'),
        ("d.json", '{"id2label": {"0": "ant", "1": "bee", "2": "cat"}, "x": 1}'),
        ("e.json", '[{"label": "ant"}, {"label": "bee"}, {"label": "cat"}]'),
    ],
)
def test_names_are_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert class_names(tmp_path / name) == NAMES
    assert class_names(str(tmp_path / name)) == NAMES


@pytest.mark.parametrize("labels", [NAMES, tuple(NAMES), {0: "ant", 1: "bee", 2: "cat"}, {"ant": 0, "bee": 1, "cat": 2}])
def test_names_are_given(labels: Any) -> None:
    assert class_names(labels) == NAMES


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[1, 2]", "send a list of names, or an object of index to name"),
        ("a.json", "{", "is not JSON"),
        ("a.json", '{"0": "ant", "2": "bee"}', "numbers of the classes must be 0 to 1"),
        ("a.txt", "\n", "holds no names"),
        ("a.csv", "index,name\n0,ant\n1\n", "every row needs as many cells"),
    ],
)
def test_what_holds_no_names_is_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ExplainerError, match=message):
        class_names(tmp_path / name)


def test_a_file_that_is_not_there_and_a_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match=r"no file of names .*gone\.txt"):
        class_names(tmp_path / "gone.txt")
    with pytest.raises(ExplainerError, match="labels=3: send a list"):
        class_names(3)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", f"name,index\nant,{'1' * 5000}\n", "whole numbers of at most 9 digits"),
        ("b.csv", f"ant,{'1' * 5000}\n", "whole numbers of at most 9 digits"),
        ("c.csv", "name,index\nant,²\n", "whole numbers of at most 9 digits"),
        ("d.csv", "name\n" + "a" * 140_000, "cannot be read as a table"),
        ("e.tsv", "name\tindex\n" + "a" * 140_000 + "\t0", "cannot be read as a table"),
        ("a.json", "[" * 100_000, "nested too deep"),
        ("b.json", '{"a":' * 100_000, "nested too deep"),
        ("c.json", f'{{"ant": {"9" * 5000}}}', "a number of too many digits"),
        ("d.json", f'{{"{"9" * 5000}": "ant"}}', "numbers of the classes must be 0 to 0"),
        ("e.json", '{"ant": 1e999}', "numbers of the classes must be 0 to 0"),
        ("f.json", '{"ant": 0.5}', "numbers of the classes must be 0 to 0"),
        ("g.json", '["ant", "\\ud800"]', "name 1 holds half a character"),
    ],
)
def test_what_cannot_be_read_is_said_in_plain_words(name: str, text: str, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        names_in(text, name)

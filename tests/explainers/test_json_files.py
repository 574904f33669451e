"""JSON files that anybody wrote: no more is read of them than is allowed, whatever size they say that they have."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from explainers import ExplainerError, json_files
from explainers.json_files import parse_json, read_json, read_json_object


def test_no_more_is_read_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe says that it is empty, and so do files of the kernel."""
    monkeypatch.setattr(json_files, "MAX_JSON_BYTES", 100)
    os.mkfifo(path := tmp_path / "a.json")
    writer = Thread(target=lambda: path.write_bytes(b" " * 60 + b"[]" + b" " * 39), daemon=True)
    writer.start()
    with pytest.raises(ExplainerError, match="more than the 100 bytes"):
        read_json(path)
    writer.join(10)
    assert not writer.is_alive()
    (tmp_path / "b.json").write_bytes(b"[]".ljust(100))
    assert read_json(tmp_path / "b.json") == []


@pytest.mark.parametrize(
    ("text", "says"), [("[" * 100_000, "nested too deep"), ("9" * 5000, "number of too many digits"), ("{", "is not JSON")]
)
def test_what_cannot_be_read_is_said(text: str, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        parse_json(text, "a.json")


def test_another_value_than_an_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ExplainerError, match="no JSON object, but a list"):
        read_json_object(tmp_path / "a.json")

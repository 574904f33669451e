from __future__ import annotations

import json
import math
from typing import Any

import pytest

from vitrine_server.json_text import NotJsonError, decode_json, encodable, json_text


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [1, -math.inf]}, "\ud800", {"\udfff": 1}, ["a\udc00b"]])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(NotJsonError, match=r"finite|encoded"):
        json_text(value)


@pytest.mark.parametrize("value", [{"title": "é 😀 \x00", "scores": [0.1, -3, None, True]}, "\\ud800", []])
def test_what_is_written_is_read_again(value: Any) -> None:
    assert decode_json(json_text(value).encode()) == value
    assert decode_json(json.dumps(value).encode()) == value  # with escapes: a pair of them is one character


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'"\\ud800"', "encoded"),
        (b'{"\\uDFFF": 1}', "encoded"),
        (b'"\\ude00\\ud83d"', "encoded"),  # a pair the wrong way round
        (b'"\xed\xa0\x80"', "UTF-8 at byte 1"),
        ('"é"'.encode("utf-16"), "UTF-8 at byte 0"),
        (b"[NaN]", "NaN"),
        (b"-Infinity", "-Infinity"),
        (b"1" * 5000, "digits"),
        (b"[" * 200_000, "nested"),
        (b"[1,", "at character 3"),
        (b"", "at character 0"),
    ],
)
def test_what_is_no_json_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(NotJsonError, match=said):
        decode_json(data)


def test_what_an_earlier_version_stored_is_mended() -> None:
    """Half a pair becomes U+FFFD, a whole pair and an escaped backslash stay."""
    stored = json.dumps({"title": "a\ud800b", "\udfff": ["😀", "\\ud800", 1.5]}).encode()
    assert decode_json(stored, mend=True) == {"title": "a�b", "�": ["😀", "\\ud800", 1.5]}
    assert encodable("a\udfff😀") == "a�😀"

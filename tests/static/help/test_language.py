"""The words of the guided visit: a file for each language, all with the same keys."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tests.support.node import compute_all

FILES = sorted(file.stem for file in (ROOT / "static" / "help" / "language").glob("*.js"))
WORDS = "async (name) => (await script(`help/language/${name}.js`)).default"


def test_every_language_has_every_key() -> None:
    languages = dict(zip(FILES, compute_all(WORDS, FILES), strict=True))
    english = languages["en"]
    assert len(english) > 15
    for name, words in languages.items():
        assert list(words) == list(english)
        for key, text in words.items():
            assert text.strip()
            assert re.findall(r"{\w+}", text) == re.findall(r"{\w+}", english[key]), (name, key)
        if name != "en":
            assert not [key for key in words if words[key] == english[key]]

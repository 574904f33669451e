"""The words of the guided visit: a file for each language, all with the same keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visit
from tests.conftest import ROOT

FILES = sorted(file.stem for file in (ROOT / "static" / "help" / "language").glob("*.js"))
WORDS = "async (name) => (await script(`help/language/${name}.js`)).default"


def test_every_language_has_every_key(desk: Visit) -> None:
    page = desk.open("/leaderboard", maps=False)
    # a file is a translation, and nothing else has to be changed
    assert sorted(page.evaluate("async () => (await script('help/language.js')).LANGUAGES")) == FILES
    english = page.evaluate(WORDS, "en")
    assert len(english) > 15
    for name in FILES:
        words = page.evaluate(WORDS, name)
        assert list(words) == list(english)
        for key, text in words.items():
            assert text.strip()
            assert re.findall(r"{\w+}", text) == re.findall(r"{\w+}", english[key]), (name, key)
        if name != "en":
            assert not [key for key in words if words[key] == english[key]]


@pytest.mark.parametrize(
    ("locale", "asked", "language", "title"),
    [
        ("en-GB", "", "en", "Is this your first visit?"),
        ("de-AT", "", "de", "Sind Sie zum ersten Mal hier?"),
        ("de-AT", "&lang=en", "en", "Is this your first visit?"),
        ("fr-FR", "", "en", "Is this your first visit?"),
        ("fr-FR", "&lang=de", "de", "Sind Sie zum ersten Mal hier?"),
    ],
)
def test_the_visit_speaks_the_language_of_the_browser(
    browser: Browser, address: str, locale: str, asked: str, language: str, title: str
) -> None:
    context = browser.new_context(locale=locale)
    page = context.new_page()
    page.goto(f"{address}/image?model=scenes-vit&methods=random{asked}")
    offer = page.get_by_role("region", name=title)
    expect(offer).to_contain_text(title)
    expect(offer).to_have_attribute("lang", language)
    context.close()

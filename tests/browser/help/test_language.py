"""The language of the guided visit."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.visit import Visit
from tests.conftest import ROOT

FILES = sorted(file.stem for file in (ROOT / "static" / "help" / "language").glob("*.js"))


def test_a_file_is_a_translation_and_nothing_else_has_to_be_changed(desk: Visit) -> None:
    page = desk.open("/leaderboard", maps=False)
    assert sorted(page.evaluate("async () => (await script('help/language.js')).LANGUAGES")) == FILES


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

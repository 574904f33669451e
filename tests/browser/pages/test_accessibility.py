"""What axe-core says of each state of the pages that a press opens and no other test of a page or a drawer shows it: by width and colours.

Elsewhere: pages as they open, `test_pages.py`; drawers, menus, the deletion test, large plates, help, crop and exported lines,
`tools/test_tools.py`; what would change the answer, `tools/test_counterfactual.py`; the rows of a collection, `test_collection.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.support.accessibility import no_violation_anywhere
from tests.browser.support.visit import FEW, Visit


def open_notes(page: Page) -> None:
    """Open the rank, the time and the notes of a plate."""
    page.locator(".plate button.about:visible").first.click()


def explain_word(page: Page) -> None:
    """Open the explanation of a word of the field."""
    page.locator("main button.term:visible").first.click()
    expect(page.locator(".term-note")).to_be_visible()


def choose_methods(page: Page) -> None:
    """Open the choice of methods."""
    page.locator("#choose-methods").click()
    expect(page.locator("#chooser")).to_be_visible()


def ask_why_not(page: Page) -> None:
    """Open the choice of another class."""
    page.get_by_text("Why not another class?").click()


def show_numbers(page: Page) -> None:
    """Show the numbers of all plates."""
    page.get_by_role("button", name="Numbers").click()


def begin_visit(page: Page) -> None:
    """Begin the guided visit."""
    page.locator("#help").click()
    page.get_by_role("button", name="Guided visit").click()
    expect(page.locator(".visit")).to_be_visible()


def end_visit(page: Page) -> None:
    """Go to the last step of the guided visit."""
    begin_visit(page)
    for _ in range(4):
        page.locator(".visit").get_by_role("button", name="Next").click()


def give_no_molecule(page: Page) -> None:
    """Send what is no molecule."""
    page.locator("#smiles").fill("C(C)(C)(C)(C)C")
    page.get_by_role("button", name="Explain this molecule").click()
    expect(page.locator(".problem")).to_be_visible()


def wait_for_example(page: Page) -> None:
    """Wait for the example of a method."""
    expect(page.locator(".plate[data-state=done]")).to_be_visible()


def nothing(page: Page) -> None:
    """Leave the page as it opens."""


#: Each state: its page, and what opens it.
STATES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "notes of a picture's map": (f"/image?{FEW}", open_notes),
    "notes of a text's map": (f"/text?{FEW}", open_notes),
    "notes of a molecule's map": (f"/molecule?{FEW}", open_notes),
    "an explained word on Prompt": (f"/prompt?{FEW}", explain_word),
    "the methods of Prompt": (f"/prompt?{FEW}", choose_methods),
    "the methods of Text": (f"/text?{FEW}", choose_methods),
    "the methods of Molecule": (f"/molecule?{FEW}", choose_methods),
    "why not another class of a picture": (f"/image?{FEW}", ask_why_not),
    "why not another class of a text": (f"/text?{FEW}", ask_why_not),
    "numbers on Image": (f"/image?{FEW}", show_numbers),
    "numbers on Prompt": (f"/prompt?{FEW}", show_numbers),
    "numbers on Text": (f"/text?{FEW}", show_numbers),
    "numbers on Molecule": (f"/molecule?{FEW}", show_numbers),
    "the first step of the visit": (f"/image?{FEW}", begin_visit),
    "the last step of the visit": (f"/image?{FEW}", end_visit),
    "a refused molecule": (f"/molecule?{FEW}", give_no_molecule),
    "a page of a method": ("/methods/generic_attention", wait_for_example),
    "a page of a model": ("/models/scenes-vit", nothing),
    "a page that is not there": ("/no-such-page", nothing),
}


@pytest.mark.parametrize("name", STATES)
def test_axe_finds_nothing(desk: Visit, name: str) -> None:
    """At 1440 and 390 pixels, by day and at night."""
    path, reach = STATES[name]
    has_maps = FEW in path
    page = desk.open(path, maps=has_maps, folded=True)
    if path == "/no-such-page":
        desk.refused(404)
    if reach is not wait_for_example:
        desk.settled()
    reach(page)
    no_violation_anywhere(page)

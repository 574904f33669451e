"""What axe-core says of a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import DEFAULT_OPTIONS, Axe
from playwright.sync_api import Page

OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def no_violation(page: Page, colours_alone: bool = False) -> None:
    """No violation of axe-core's rules, or of those of colours alone, on a page as it stands."""
    options = {**DEFAULT_OPTIONS, **(OF_COLOURS if colours_alone else {})}
    violations = Axe().run(page, options=options).response["violations"]
    assert not violations, [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in violations]

"""What axe-core says of a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import DEFAULT_OPTIONS, Axe
from playwright.sync_api import Page

OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}

# Resolves once no part of a page moves but those that never stop, and those that scrolling moves.
AT_REST = """() => Promise.allSettled(document.getAnimations()
  .filter(({ effect, timeline }) => timeline === document.timeline && Number.isFinite(effect.getComputedTiming().endTime))
  .map((animation) => animation.finished))"""


def no_violation(page: Page, colours_alone: bool = False, within: str | None = None) -> None:
    """No violation of axe-core's rules, or of those of colours alone, on a page as it stands, or in one part of it by its selector."""
    options = {**DEFAULT_OPTIONS, **(OF_COLOURS if colours_alone else {})}
    violations = Axe().run(page, context=within, options=options).response["violations"]
    assert not violations, [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in violations]


def no_violation_anywhere(page: Page, within: str | None = None) -> None:
    """No violation of axe-core's rules on a page as it stands, or in one part of it by its selector, at 1440 and at 390 pixels and by day
    and at night, when only colours differ. The page is left by day and as wide as it was.
    """
    size = page.viewport_size
    assert size is not None
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": size["height"]})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.evaluate(AT_REST)
            no_violation(page, colours_alone=scheme == "dark", within=within)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(size)

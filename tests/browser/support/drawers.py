"""The drawers under the plates, and the tables in them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.support.visit import Visit

ROWS = "(rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent))"


def opened(desk: Visit, name: str) -> Any:
    """A drawer under the plates, once it is full."""
    part = desk.page.locator(f"#drawer-{name}")
    part.locator("summary").click()
    expect(part.locator("tbody tr, form option").first).to_be_attached()
    return part

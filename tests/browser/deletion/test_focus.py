"""The deletion bar, which stays in sight while the test is open, hides nothing that has the focus."""

from __future__ import annotations

import pytest

from tests.browser.support.visit import FEW, Visit

HIDDEN = """() => {
  const at = document.activeElement, bar = document.getElementById("deletion-bar");
  if (!at || at === document.body || bar.contains(at)) return null;
  const [box, over] = [at, bar].map((node) => node.getBoundingClientRect());
  const across = Math.min(box.right, over.right) - Math.max(box.left, over.left);
  const down = Math.min(box.bottom, over.bottom) - Math.max(box.top, over.top);
  const shown = box.height - Math.max(0, down);
  return across > 0 && shown < Math.min(box.height, 24) ? `${at.tagName} ${at.className} ${at.textContent.slice(0, 30)}` : null;
}"""


@pytest.mark.parametrize("size", [(1440, 700), (390, 844)])
def test_what_the_keyboard_reaches_is_not_under_the_bar(desk: Visit, size: tuple[int, int]) -> None:
    desk.page.set_viewport_size({"width": size[0], "height": size[1]})
    page = desk.open(f"/image?{FEW}&removed=20")
    page.evaluate("() => scrollTo(0, 0)")
    hidden = []
    for _ in range(90):
        page.keyboard.press("Tab")
        if (found := page.evaluate(HIDDEN)) is not None:
            hidden.append(found)
    assert hidden == []
    for _ in range(90):
        page.keyboard.press("Shift+Tab")
        if (found := page.evaluate(HIDDEN)) is not None:
            hidden.append(found)
    assert hidden == []

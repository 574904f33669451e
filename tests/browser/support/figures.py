"""Figures that are exported from a page: how they are got, and what their texts say."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.support.visit import Visit

SVG = "{http://www.w3.org/2000/svg}"


def take(desk: Visit, menu: Any, item: str, path: Path) -> Path:
    """Choose an item of a menu; the file that it downloads."""
    menu.locator("summary").click()
    with desk.page.expect_download() as waiting:
        menu.get_by_text(item).click()
    expect(menu).not_to_have_attribute("open", "")
    file = path / waiting.value.suggested_filename
    waiting.value.save_as(file)
    return file


def said(root: ET.Element) -> str:
    return "\n".join("".join(node.itertext()) for node in root.iter(f"{SVG}text"))


BOXES = """async (svg) => {
  document.body.style.margin = 0;
  document.body.innerHTML = svg;
  await Promise.all([...document.fonts].map((face) => face.load())); // those of the figure itself
  const { width, height } = document.querySelector("svg").getBoundingClientRect();
  const nodes = [...document.querySelectorAll("svg text")];
  const texts = nodes.map((node) => [node, node.getBoundingClientRect()]).filter(([, box]) => box.width);
  const pair = (a, b) => `${a.textContent} | ${b.textContent}`;
  const cut = (box, other) => Math.min(box.right, other.right) - Math.max(box.left, other.left) > 0.5
    && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 0.35 * Math.min(box.height, other.height);
  return {
    texts: texts.length,
    outside: texts.filter(([, { left, right, top, bottom }]) => left < 0 || right > width || top < 0 || bottom > height)
      .map(([node]) => node.textContent),
    over: texts.flatMap(([a, box], i) => texts.slice(i + 1).filter(([, other]) => cut(box, other)).map(([b]) => pair(a, b))),
  };
}"""


def check_texts(desk: Visit, file: Path) -> None:
    """Drawn by a browser on an empty page, no text of a figure leaves it, lies over another, or is cut."""
    opened = desk.page.context.new_page()
    opened.set_viewport_size({"width": 3000, "height": 900})
    boxes = opened.evaluate(BOXES, file.read_text("utf-8"))
    opened.close()
    assert boxes["texts"] > 3
    assert not boxes["outside"]
    assert not boxes["over"]
    assert not [text for text in said(ET.parse(file).getroot()).splitlines() if text.endswith("…")]

"""What is a note and no error is not in the colour of errors, and can be read in both schemes."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.browser.support.visit import Visit

#: Colours as red, green and blue from 0 to 1, of the text that a class has on the ground of the page.
COLOURS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const shown = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)].map((part) => part / 255);
  };
  const main = document.querySelector("main");
  const of = (html, name) => {
    const holder = document.createElement("div");
    holder.innerHTML = html;
    main.append(holder);
    const colour = shown(getComputedStyle(holder.querySelector(name)).color);
    holder.remove();
    return colour;
  };
  return {
    notes: {
      note: of('<ul class="notes"><li>a</li></ul>', "li"),
      unsubmitted: of('<p class="unsubmitted">a</p>', "p"),
      doubt: of('<p class="note"><span class="warning">a</span></p>', ".warning"),
      button: of('<button class="about warned">!</button>', "button"),
    },
    error: of('<div class="problem"><strong>a</strong></div>', "strong"),
    grounds: ["--paper", "--card"].map((name) => shown(getComputedStyle(main).getPropertyValue(name))),
  };
}"""


def luminance(colour: list[float]) -> float:
    """Relative luminance of WCAG 2.2."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: list[float], second: list[float]) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_notes_are_no_errors_and_can_be_read(desk: Visit, scheme: Literal["light", "dark"]) -> None:
    desk.page.emulate_media(color_scheme=scheme)
    page = desk.open("/image?model=scenes-vit&methods=random")
    colours = page.evaluate(COLOURS)
    for name, colour in colours["notes"].items():
        assert colour != colours["error"], name
        for ground in colours["grounds"]:
            assert contrast(colour, ground) >= 4.5, name
    red, green, _ = colours["error"]
    assert all(colour[0] - colour[1] < red - green for colour in colours["notes"].values())  # none is as red as an error

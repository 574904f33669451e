"""How smoothly the table of a large collection scrolls: ``python -m benchmarks.scrolling``.

A Chromium opens a collection of made-up rows, no model having seen any, and scrolls its table by a script: by a few pixels in each frame,
as a hand does, and by leaps. Several servers, as ``--address before=http://127.0.0.1:8001 after=http://127.0.0.1:8002``, show the
collection that ``--write FOLDER`` writes and are visited by turns. Prints a table.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from tests.browser.support.serving import launched, played
from tests.support.made_up_collection import CLASSES, made_up_map, made_up_row, write_collection, wrong

ROWS = 10_000
GRID = (14, 14)
SPECS = ("fullgrad_plus:libra", "input_x_gradient:attnlrp", "rollout")
#: A script that scrolls the table for some milliseconds, by ``step`` pixels in each of ``every`` frames, and returns what was seen.
SCROLL = """
async ({ step, every, duration, height }) => {
  const holder = document.querySelector(".tabulator-tableholder");
  holder.scrollTop = 0;
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const tasks = [], frames = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)));
  observer.observe({ type: "longtask" });
  let seen = 0, blank = 0, bare = 0, number = 0;
  await new Promise((resolve) => {
    let began = null, last = null;
    const look = (now) => {
      began ??= now;
      if (last !== null) frames.push(now - last);
      last = now;
      const box = holder.getBoundingClientRect();
      let here = 0;
      for (const row of holder.querySelectorAll(".tabulator-row")) {
        const { top, bottom } = row.getBoundingClientRect();
        if (bottom <= box.top || top >= box.bottom) continue;
        const image = row.querySelector("img");
        here++;
        if (row.getAttribute("aria-busy") === "true") blank++;
        else if (image && !(image.getAttribute("src") && image.complete)) bare++;
      }
      const expected = Math.floor(box.height / height) - 1;
      blank += Math.max(0, expected - here);
      seen += Math.max(here, expected);
      if (number++ % every === 0) holder.scrollTop += step;
      if (now - began < duration) requestAnimationFrame(look);
      else resolve();
    };
    requestAnimationFrame(look);
  });
  observer.disconnect();
  frames.sort((a, b) => a - b);
  const at = (share) => frames[Math.min(frames.length - 1, Math.floor(share * frames.length))];
  return { median: at(0.5), late: at(0.95), tasks: tasks.length, longest: Math.max(0, ...tasks), blank: blank / seen, bare: bare / seen };
}
"""


@dataclass(frozen=True)
class Way:
    """A way to scroll: ``step`` pixels in each of ``every`` frames."""

    name: str
    step: int
    every: int


WAYS = (
    Way("12 pixels a frame", 12, 1),
    Way("60 pixels a frame", 60, 1),
    Way("400 pixels a frame", 400, 1),
    Way("a leap a second", 30_000, 60),
)


def write(folder: Path) -> None:
    """Write the collection of made-up rows to ``folder``."""

    def scores(seed: int) -> list[int]:
        drawn: list[int] = np.random.default_rng(seed).integers(-60, 128, GRID[0] * GRID[1]).tolist()
        return drawn

    def rows() -> Iterator[Any]:
        for index in range(ROWS):
            maps = [made_up_map(spec, place, scores=scores(len(SPECS) * index + place)) for place, spec in enumerate(SPECS)]
            if index % 7:
                yield made_up_row(index, grid=list(GRID), maps=maps)
            else:
                yield wrong(index, CLASSES[(index + 1) % len(CLASSES)], 0.5 + index % 97 / 194, grid=list(GRID), maps=maps)

    write_collection(folder, rows(), group=100, methods=list(SPECS))


def scroll(browser: Browser, address: str, way: Way, seconds: float) -> dict[str, float]:
    """Return what a script that scrolls the first collection of the server at ``address`` in this ``way`` sees."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/collection")
    page.locator(".tabulator-row .answer").first.wait_for()
    height = page.locator(".tabulator-row").first.evaluate("(row) => row.getBoundingClientRect().height")
    figures: dict[str, float] = page.evaluate(SCROLL, {"step": way.step, "every": way.every, "duration": 1000 * seconds, "height": height})
    page.close()
    return figures


@contextmanager
def own_server() -> Iterator[dict[str, str]]:
    """Start a server of this checkout with the collection, and yield its name and address."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "collections/many")
        with played(Path(folder) / "home", device="cpu", collections=str(Path(folder) / "collections")) as address:
            yield {"here": address}


def measure(browser: Browser, addresses: dict[str, str], seconds: float) -> None:
    """Scroll in each way on each server in turn, and print a table."""
    print(
        "| way | server | frame, median, ms | 95 % of the frames, ms | tasks over 50 ms | longest, ms | rows without text, % "
        "| rows without pictures, % |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for way in WAYS:
        for name, address in addresses.items():
            row = scroll(browser, address, way, seconds)
            shown = f"{row['median']:.0f} | {row['late']:.0f} | {row['tasks']:.0f} | {row['longest']:.0f}"
            print(f"| {way.name} | {name} | {shown} | {100 * row['blank']:.1f} | {100 * row['bare']:.1f} |", flush=True)


def main() -> None:
    """Scroll, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", nargs="+", metavar="NAME=URL", help="servers that show the collection; default: one of this checkout")
    parser.add_argument("--write", metavar="FOLDER", type=Path, help="write the collection, and do nothing else")
    parser.add_argument("--seconds", type=float, default=6, help="that each scrolling takes (default 6)")
    args = parser.parse_args()
    if args.write is not None:
        write(args.write)
        return
    with sync_playwright() as playwright, launched(playwright) as browser:
        if args.address:
            measure(browser, dict(entry.split("=", 1) for entry in args.address), args.seconds)
        else:
            with own_server() as addresses:
                measure(browser, addresses, args.seconds)


if __name__ == "__main__":
    main()

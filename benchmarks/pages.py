"""How long a person waits on the Image page: ``python -m benchmarks.pages``.

A server of its own, a Chromium, fresh pictures that nothing has seen. Prints medians; the last column is the time over that of the one
answer of the model without any map but random scores, asked over HTTP in the same run.
"""

from __future__ import annotations

import argparse
import io
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Page, sync_playwright

from explainers.embedded.synthetic.scenes import render
from tests.browser.support.serving import VISITED, launched, served, wait_for_maps

SIDE = 512  # side of the pictures in pixels
CURVE_METHODS = 10  # methods whose deletion curves are measured
SLIDER_POSITIONS = 100  # positions of the slider

# A script that returns the milliseconds from the choice of a file to the first newly drawn plate, and to the last.
DROP = """
() => new Promise((resolve) => {
  const plates = () => [...document.querySelectorAll(".plate")];
  const fresh = new Set(); // plates that were done since
  let start, first;
  const input = document.querySelector("input[type=file]");
  input.addEventListener("change", () => { start = performance.now(); }, { once: true, capture: true });
  new MutationObserver((records, observer) => {
    for (const { target } of records) if (start !== undefined && target.dataset.state === "done") fresh.add(target);
    if (fresh.size) first ??= performance.now() - start;
    if (!fresh.size || plates().some((plate) => !fresh.has(plate))) return;
    observer.disconnect();
    resolve([first, performance.now() - start]);
  }).observe(document.getElementById("plates"), { attributeFilter: ["data-state"], subtree: true });
})
"""
# A script that returns the seconds in which the page draws every position of the slider, each in a frame of its own.
DRAG = """
async (positions) => {
  const slider = document.getElementById("removed");
  const frame = () => new Promise(requestAnimationFrame);
  const start = performance.now();
  for (let i = 1; i <= positions; i++) {
    slider.value = String(i);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    do await frame(); while (!document.querySelector(".deletion-bar output").textContent.startsWith(`${i}\\u2009%`));
  }
  return (performance.now() - start) / 1000;
}
"""


def pictures() -> Iterator[bytes]:
    """Yield PNG files of new random scenes without end."""
    seed = time.time_ns()
    while True:
        buffer = io.BytesIO()
        render(np.random.default_rng(seed := seed + 1), SIDE).image.save(buffer, "PNG")
        yield buffer.getvalue()


def seconds(act: Callable[..., object], *arguments: object) -> float:
    """Return how many seconds ``act(*arguments)`` takes."""
    start = time.perf_counter()
    act(*arguments)
    return time.perf_counter() - start


def explanation_of(address: str, picture: bytes, methods: list[str]) -> str:
    """Ask the server at ``address`` for an explanation of ``picture``, the bytes of a PNG, by ``methods``, wait until it is done, and
    return its id.
    """
    form = {"model": "photos-vit", "methods": methods}
    files = {"image": ("p.png", picture, "image/png")}
    answer = httpx.post(f"{address}/api/explanations", params={"wait": 1}, data=form, files=files, timeout=300)
    answer.raise_for_status()
    return str(answer.json()["id"])


def request_curves(address: str, name: str) -> None:
    """Request the deletion curves of the explanation with the id ``name`` from the server at ``address`` and wait for them."""
    httpx.post(f"{address}/api/explanations/{name}/perturbations", json={}, timeout=300).raise_for_status()


def choose_picture(page: Page, picture: bytes) -> tuple[float, float]:
    """Choose a picture on the page; return the seconds to the first map, and to the last."""
    page.evaluate(f"() => {{ window.measured = ({DROP})(); }}")
    page.get_by_label("Picture file").set_input_files({"name": "p.png", "mimeType": "image/png", "buffer": picture})
    first, last = page.evaluate("() => window.measured")
    wait_for_maps(page)
    return first / 1000, last / 1000


def measure(page: Page, address: str, times: int) -> dict[str, float]:
    """Return the median of each figure over ``times`` uses of the ``page`` of the server at ``address``, in seconds except the updates of
    the slider a second.
    """
    fresh = pictures()
    values_by_name: dict[str, list[float]] = {}
    page.goto(f"{address}/image")
    wait_for_maps(page)
    for _ in range(times):
        for_answer, for_page, for_curve = itertools.islice(fresh, 3)
        plain = seconds(explanation_of, address, for_answer, ["random"])
        first, last = choose_picture(page, for_page)
        page.locator("#removed").fill("5")
        page.locator(".said").filter(has_text="asked at").wait_for()
        updates = SLIDER_POSITIONS / page.evaluate(DRAG, SLIDER_POSITIONS)
        specs = page.locator(".plate").evaluate_all("(plates) => plates.map((plate) => plate.dataset.spec)")[:CURVE_METHODS]
        curve = seconds(request_curves, address, explanation_of(address, for_curve, specs))
        row = {
            "answer without maps": plain,
            "first map after a picture is chosen": first,
            f"all {page.locator('.plate').count()} maps": last,
            f"deletion curves of {len(specs)} methods": curve,
            "updates a second of the deletion test": updates,
        }
        for name, value in row.items():
            values_by_name.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in values_by_name.items()}


def main() -> None:
    """Measure the Image page, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="of which the median is printed (default 5)")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        served(Path(home)) as address,
        sync_playwright() as playwright,
        launched(playwright) as chromium,
    ):
        page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        page.add_init_script(VISITED)
        medians = measure(page, address, args.times)
    plain = medians["answer without maps"]
    for name, value in medians.items():
        print(f"{name:45} {value:8.2f}" + ("" if "updates" in name else f" s {value / plain:8.1f} x"))


if __name__ == "__main__":
    main()

"""What the plates of a picture show, against the numbers of the API."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import expect

from tests.browser.support.number_format import end_texts, shown, shown_range
from tests.browser.support.visit import Visit, model_path

# The mean colour of each patch of a plate, rows x columns x (red, green, blue), read from its canvas.
COLOURS = """
([spec, rows, columns]) => {
  const shown = document.querySelector(`.plate[data-spec="${spec}"] canvas`);
  const context = new OffscreenCanvas(shown.width, shown.height).getContext("2d", { willReadFrequently: true });
  context.drawImage(shown, 0, 0);
  const height = shown.height / rows, width = shown.width / columns;
  return Array.from({ length: rows * columns }, (_, i) => {
    const y = Math.floor(i / columns) * height, x = (i % columns) * width;
    const { data } = context.getImageData(Math.ceil(x), Math.ceil(y), Math.floor(width) - 1, Math.floor(height) - 1);
    const sum = [0, 0, 0];
    for (let k = 0; k < data.length; k++) if (k % 4 < 3) sum[k % 4] += data[k];
    return sum.map((value) => (4 * value) / data.length);
  });
}
"""


def colours(desk: Visit, attribution: dict[str, Any]) -> NDArray[np.float64]:
    """(patches, 3)."""
    return np.array(desk.page.evaluate(COLOURS, [attribution["method"], *attribution["grid"]]))


def shown_class(desk: Visit, document: dict[str, Any], label: str) -> str:
    """A class as the list of classes shows it: with its everyday group beside it."""
    classes = desk.get(model_path(document["model"])).get("classes", [])
    group = next((entry["group"] for entry in classes if entry["label"] == label), label)
    return label if group == label else f"{label} {group}"


def in_order(listed: dict[str, Any], specs: list[str]) -> list[str]:
    """``specs`` in their order: of each family the one with the best rank, then by rank up to four; the others by rank, classics last."""
    method_of = {pair["spec"]: method for method in listed["methods"] for pair in method["pairs"]}
    ranks = {} if listed["standing"] is None else {spec: ranked["rank"] for spec, ranked in listed["standing"]["ranks"].items()}
    declared = list(method_of)

    def classics_last(spec: str) -> tuple[Any, ...]:
        return (method_of[spec]["classic"], ranks.get(spec, 999), declared.index(spec))

    by_rank = sorted(specs, key=lambda spec: (ranks.get(spec, 999), classics_last(spec)))
    able = [spec for spec in by_rank if method_of[spec]["family"] != "control"]
    best: dict[str, str] = {}
    for spec in able:
        best.setdefault(method_of[spec]["family"], spec)
    first = list(best.values())[:4]
    first += [spec for spec in able if spec not in first][: 4 - len(first)]
    return [*first, *sorted((spec for spec in specs if spec not in first), key=classics_last)]


def check_plates(desk: Visit, document: dict[str, Any]) -> None:
    """Every plate is there, in the order of the page, and its caption says what the API says."""
    listed = desk.get(f"/api/methods?model={document['model']}")
    specs = in_order(listed, [attribution["method"] for attribution in document["maps"]])
    assert desk.page.locator(".plate").evaluate_all("(plates) => plates.map((plate) => plate.dataset.spec)") == specs
    for attribution in document["maps"]:
        plate = desk.plate(attribution["method"])
        expect(plate.locator("h2")).to_have_text(attribution["title"])
        label = plate.locator(".facts").inner_text()
        assert shown_range(attribution) in label
        assert ("yes" if attribution["class_specific"] else "no") in plate.locator(".facts div", has_text="class-specific").inner_text()
        error = attribution.get("completeness_error")
        off = plate.locator(".facts div", has_text="sum is off by")  # left out where nothing promises a sum
        if error is not None and off.locator("dd").get_attribute("data-promise"):
            assert shown(error, 2) in off.inner_text()
        else:
            assert off.is_hidden()
        said = plate.locator(".note").inner_text()
        assert ("same map for every class" in said.lower()) == (not attribution["class_specific"])
        check_scale(plate, attribution)


def check_scale(plate: Any, attribution: dict[str, Any]) -> None:
    """The values under the colour bar."""
    texts = plate.locator(".ends span:visible").all_inner_texts()
    assert [texts[0], texts[-1]] == end_texts(attribution["scores"], attribution["signed"])

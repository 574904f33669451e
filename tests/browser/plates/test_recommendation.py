"""Which plate is recommended, and the two pairs of maps that are most and least alike."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import expect

from tests.browser.support.visit import Visit


def test_under_the_first_plates_stand_the_pairs_of_the_page_and_a_press_lays_them_over_each_other(desk: Visit) -> None:
    page = desk.open("/image", folded=True)
    document = desk.document()
    alike = desk.get(f"/api/explanations/{document['id']}/agreement")
    titles = {attribution["method"]: attribution["title"] for attribution in document["maps"]}
    pairs = [
        (value, {titles[alike["methods"][row]], titles[alike["methods"][column]]}, {alike["methods"][row], alike["methods"][column]})
        for row, values in enumerate(alike["correlations"])
        for column, value in enumerate(values[:row])
        if value is not None and "random" not in (alike["methods"][row], alike["methods"][column])
    ]
    lines = page.locator(".map-similarity .pair")
    expect(lines).to_have_count(2)
    for line, best in ((lines.first, max), (lines.last, min)):
        end = best(value for value, _, _ in pairs)
        said = line.inner_text().replace("\n", " ")
        assert f"{end:.2f}".replace("-", "\u2212") in said
        assert any(all(title in said for title in names) for value, names, _ in pairs if np.isclose(value, end))
        expect(line.locator("canvas")).to_have_count(2)
        assert all(
            line.locator("canvas").evaluate_all(
                "(all) => all.map((one) => new Set(one.getContext('2d').getImageData(0, 0, 96, 96).data).size > 2)"
            )
        )
    expect(page.locator(".plate").first.locator(".standing .mark")).to_have_text("Recommended")
    expect(page.locator(".standing .mark")).to_have_count(1)
    lines.last.click()
    expect(page.locator("#drawer-swipe")).to_have_attribute("open", "")
    chosen = {page.locator(f"#swipe-{name}").input_value() for name in ("first", "second")}
    least = min(value for value, _, _ in pairs)
    assert chosen in [specs for value, _, specs in pairs if np.isclose(value, least)]

"""Linked looking: value and rank, the lens, the colours, the smoothing, and the address that keeps them."""

from __future__ import annotations

import base64
import io
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Locator, expect
from safetensors.torch import load

from explainers.rendering.colours import colours, is_two_sided, normalise, scale_ends
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import FEW, Visit, view, visit
from tests.browser.support.word_scores import word_scores
from tests.support.node import compute


def canvas(desk: Visit, selector: str) -> NDArray[np.float64]:
    """The pixels of a canvas, (height, width, 3)."""
    data = desk.page.locator(selector).first.evaluate("(node) => node.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))).convert("RGB"), np.float64)


def map_canvas(desk: Visit, spec: str) -> NDArray[np.float64]:
    return canvas(desk, f'.plate[data-spec="{spec}"] .map-canvas canvas')


def fetched(desk: Visit, path: str) -> NDArray[np.float64]:
    data = HTTP.get(f"{desk.address}/api/explanations/{desk.id}/{path}").content
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.float64)


def rank(values: Any, i: int) -> str:
    sizes = np.abs(values)
    return f"{1 + int((sizes > sizes[i]).sum())} of {len(sizes)}"


def hover(desk: Visit, row: int, column: int, grid: tuple[int, int]) -> None:
    """Point at a patch of the first map."""
    where = desk.page.locator(".map-canvas").first
    box = where.bounding_box()
    assert box is not None
    where.hover(position={"x": box["width"] * (column + 0.5) / grid[1], "y": box["height"] * (row + 0.5) / grid[0]})


def one_of_each(document: dict[str, Any]) -> list[dict[str, Any]]:
    """A map that is drawn as for and against, and an unsigned one."""
    return [
        next(
            attribution
            for attribution in document["maps"]
            if attribution["signed"] == signed and is_two_sided(scale_ends(attribution["scores"], signed), signed) == signed
        )
        for signed in (True, False)
    ]


@pytest.mark.trained
def test_a_patch_is_ranked_in_every_plate_and_seen_through_the_lens(desk: Visit) -> None:
    desk.open(f"/image?{FEW}")
    document = desk.document()
    rows, columns = document["maps"][0]["grid"]
    expect(desk.page.locator(".lens")).to_be_hidden()
    seen = fetched(desk, "input.png")
    high, wide = seen.shape[0] // rows, seen.shape[1] // columns
    for row, column in ((5, 3), (0, columns - 1)):
        hover(desk, row, column, (rows, columns))
        for attribution in document["maps"]:
            expect(desk.plate(attribution["method"]).locator(".rank")).to_have_text(rank(attribution["scores"], row * columns + column))
        lens = desk.page.locator(".lens")
        expect(lens).to_be_visible()
        expect(lens).to_contain_text(f"{wide}\u2009×\u2009{high} pixels")
        shown = canvas(desk, ".lens canvas")
        third = len(shown) // 3
        middle = Image.fromarray(shown[third : 2 * third, third : 2 * third].astype(np.uint8)).resize((wide, high), Image.Resampling.BOX)
        np.testing.assert_allclose(np.asarray(middle), seen[row * high : (row + 1) * high, column * wide : (column + 1) * wide], atol=1)
        region, glass = (desk.page.locator(f"#picture .{name}").bounding_box() for name in ("region .patch", "lens"))
        assert region is not None
        assert glass is not None
        apart = glass["x"] >= region["x"] + region["width"] or glass["x"] + glass["width"] <= region["x"]
        assert apart or glass["y"] >= region["y"] + region["height"] or glass["y"] + glass["height"] <= region["y"]
    with view(desk.page):
        desk.page.get_by_label("Lens").uncheck()
    expect(desk.page.locator(".lens")).to_be_hidden()
    assert desk.query["lens"] == ["off"]


@pytest.mark.trained
def test_the_input_panel_and_the_grey_base_show_exactly_the_models_pixels(desk: Visit) -> None:
    """Every pixel of the model is one square on the page, in its own colour; the base of the maps has the same squares in grey."""
    desk.open("/image?opacity=0&lens=off&methods=random")
    before = desk.id
    values = np.random.default_rng(3).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    desk.page.get_by_label("Picture file").set_input_files({"name": "p.png", "mimeType": "image/png", "buffer": buffer.getvalue()})
    desk.next_maps(before)
    document = desk.document()
    tensor = load(HTTP.get(f"{desk.address}/api/explanations/{desk.id}/tensors.safetensors").content)["pixel_values"][0]
    seen = fetched(desk, "input.png")
    assert list(seen.shape[1::-1]) == document["input"]["seen"] == list(tensor.shape[:0:-1])
    # the same up to a factor and an offset for each channel: the normalisation
    for channel in range(3):
        assert np.corrcoef(seen[..., channel].ravel(), tensor[channel].numpy().ravel())[0, 1] > 1 - 1e-6
    picture = desk.page.locator("#picture img")
    assert picture.evaluate("(image) => getComputedStyle(image).imageRendering") == "pixelated"
    assert picture.evaluate("(image) => [image.naturalWidth, image.naturalHeight]") == document["input"]["seen"]
    drawn = canvas(desk, ".map-canvas canvas")
    grey = 46 + 0.74 * (seen[..., :3] @ np.array([0.2126, 0.7152, 0.0722]))
    sides = zip(drawn.shape[1::-1], document["input"]["seen"], strict=True)
    across, down = (((np.arange(size) + 0.5) / size * side).astype(int) for size, side in sides)
    np.testing.assert_allclose(drawn[..., 0], grey[np.ix_(down, across)], atol=1.5)


def test_the_lens_shows_the_original_where_that_is_on_show(desk: Visit) -> None:
    desk.open("/image?methods=random")
    before = desk.id
    values = np.random.default_rng(1).integers(0, 256, (45, 50, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(values).resize((1000, 900), Image.Resampling.NEAREST).save(buffer, "PNG")
    desk.page.get_by_label("Picture file").set_input_files({"name": "p.png", "mimeType": "image/png", "buffer": buffer.getvalue()})
    desk.next_maps(before)
    document = desk.document()
    crop, (rows, columns) = document["input"]["crop"], document["maps"][0]["grid"]
    hover(desk, rows // 2, columns // 2, (rows, columns))
    wide, high = document["input"]["seen"][0] // columns, document["input"]["seen"][1] // rows
    expect(desk.page.locator(".lens")).to_contain_text(f"{wide}\u2009×\u2009{high} pixels")
    desk.page.get_by_label("original").check(force=True)
    hover(desk, rows // 2, columns // 2, (rows, columns))
    pixels = [round((crop[2] - crop[0]) / columns), round((crop[3] - crop[1]) / rows)]
    expect(desk.page.locator(".lens")).to_contain_text(f"{pixels[0]}\u2009×\u2009{pixels[1]} pixels of the original")
    patch = rows // 2 * columns + columns // 2
    left, top = crop[0] + (patch % columns) * pixels[0], crop[1] + patch // columns * pixels[1]
    kept = fetched(desk, "original.jpg")[top : top + pixels[1], left : left + pixels[0]]
    shown = canvas(desk, ".lens canvas")
    third = len(shown) // 3
    np.testing.assert_allclose(shown[third : 2 * third, third : 2 * third].mean((0, 1)), kept.mean((0, 1)), atol=12)


def test_words_are_ranked(desk: Visit) -> None:
    desk.open(f"/text?{FEW}")
    document = desk.document()
    desk.page.locator(".reading [data-w]").nth(4).hover()
    for attribution in document["maps"]:
        expect(desk.plate(attribution["method"]).locator(".rank")).to_have_text(rank(word_scores(document, attribution), 4))
    with view(desk.page):
        desk.page.get_by_label("For, against").select_option("orange-purple")
    signed = next(attribution for attribution in document["maps"] if attribution["signed"])
    strongest = int(np.argmax(word_scores(document, signed)))
    colour = (
        desk.plate(signed["method"])
        .locator(".reading [data-w]")
        .nth(strongest)
        .evaluate("(node) => getComputedStyle(node).borderBottomColor")
    )
    assert colour == "rgb(163, 92, 11)"


@pytest.mark.trained
def test_the_picture_of_the_server_is_the_map_of_the_page(desk: Visit) -> None:
    desk.open(f"/image?{FEW}")
    for attribution in desk.document()["maps"]:
        theirs = fetched(desk, f"maps/{quote(attribution['method'], safe='')}.png")
        difference = np.abs(map_canvas(desk, attribution["method"]) - theirs)
        assert difference.mean() < 2, attribution["method"]
        assert np.quantile(difference, 0.99) < 16, attribution["method"]


@pytest.mark.parametrize(("choice", "twin"), [("patches", Image.Resampling.NEAREST), ("bicubic", Image.Resampling.BICUBIC)])
def test_smoothing(desk: Visit, choice: str, twin: Image.Resampling) -> None:
    desk.open(f"/image?opacity=0&grid={choice}&{FEW}&model=scenes-vit&methods=input_x_gradient:libra&methods=attcat:libra")
    for attribution in one_of_each(desk.document()):
        base = map_canvas(desk, attribution["method"])
        with view(desk.page):
            desk.page.get_by_role("slider", name="Opacity").fill("100")
        shown = map_canvas(desk, attribution["method"])
        with view(desk.page):
            desk.page.get_by_role("slider", name="Opacity").fill("0")
        scores = np.float32(attribution["scores"]).reshape(attribution["grid"])
        fine = np.asarray(Image.fromarray(scores).resize(base.shape[1::-1], twin))
        ends = scale_ends(scores, attribution["signed"])
        rgba = colours(normalise(fine, ends, attribution["signed"]), is_two_sided(ends, attribution["signed"]))
        expected = base * (1 - rgba[..., 3:]) + rgba[..., :3] * rgba[..., 3:]
        inner = (slice(40, -40), slice(40, -40))  # the outermost patches end differently in the twin
        difference = np.abs(shown - expected)[inner]
        assert difference.mean() < 2.5, attribution["method"]
        assert np.quantile(difference, 0.98) < 20, attribution["method"]


DECLARED = "async () => { const { SEQUENCES, DIVERGING } = await script('core/colour.js'); return { SEQUENCES, DIVERGING }; }"


def test_colour_maps_are_chosen_at_once(desk: Visit) -> None:
    desk.open(f"/image?opacity=100&grid=patches&{FEW}&model=scenes-vit&methods=input_x_gradient:libra&methods=attcat:libra")
    declared = compute(DECLARED)
    document = desk.document()
    signed, unsigned = one_of_each(document)
    for attribution, field, names in ((signed, "For, against", declared["DIVERGING"]), (unsigned, "Strength", declared["SEQUENCES"])):
        rows, columns = attribution["grid"]
        best = int(np.argmax(attribution["scores"]))
        assert attribution["scores"][best] >= scale_ends(attribution["scores"], attribution["signed"])[1]  # so it gets the full colour
        for name, stops in names.items():
            with view(desk.page):
                desk.page.get_by_label(field).select_option(name)
            shown = map_canvas(desk, attribution["method"])
            middle = shown[int((best // columns + 0.5) * len(shown) / rows), int((best % columns + 0.5) * shown.shape[1] / columns)]
            np.testing.assert_allclose(middle, (stops["for"] if attribution["signed"] else stops)[-1], atol=2)
            bar = desk.plate(attribution["method"]).locator(".ramp").evaluate("(node) => getComputedStyle(node).backgroundImage")
            assert "rgb({}, {}, {})".format(*(stops["for"] if attribution["signed"] else stops)[-1]) in bar


CONTROLS = "#controls :is(input, select):not(.why *), #picture input"
READ = """(nodes) => nodes.map(({ name, ariaLabel, value, type, checked }) =>
  [name || ariaLabel, value, ["radio", "checkbox"].includes(type) ? checked : null])"""


def change_every_control(desk: Visit) -> None:
    """Give every control of the page another value than it has: first those beside the picture, as a press there closes the menu."""
    change(desk.page.locator("#picture input"))
    with view(desk.page):
        change(desk.page.locator("#controls :is(input, select):not(.why *)"))


def change(controls: Locator) -> None:
    seen = set()
    for i in range(controls.count()):
        control = controls.nth(i)
        kind, name, on = control.evaluate("(node) => [node.type, node.name, node.checked]")
        if kind == "radio" and not on and name not in seen:
            control.check()
            seen.add(name)
        elif kind == "checkbox":
            control.click()
        elif kind == "range":
            control.fill("65")
        elif kind == "select-one":
            control.select_option(index=1 - control.evaluate("(node) => node.selectedIndex"))


def drawn(desk: Visit) -> list[str]:
    """Every map as it is drawn: the pixels, or the words with their colours."""
    read = """(all) => {
      const colour = (word) => [word.className, word.style.cssText, getComputedStyle(word).borderBottomColor].join();
      return all.map((node) => (node.matches(".reading") ? [...node.querySelectorAll("[data-w]")].map(colour).join() : node.toDataURL()));
    }"""
    shown: list[str] = desk.page.locator("#plates :is(.map-canvas canvas, .reading)").evaluate_all(read)
    return shown


@pytest.mark.parametrize("path", ["/image", "/text"])
def test_the_address_is_the_state(desk: Visit, browser: Browser, address: str, path: str) -> None:
    desk.open(f"{path}?{FEW}")
    begun = desk.page.locator(CONTROLS).evaluate_all(READ)
    plain = drawn(desk)
    change_every_control(desk)
    desk.page.locator("#plates :is(.map-canvas, .reading)").nth(1).focus()
    desk.page.keyboard.press("Home")
    desk.page.keyboard.press("ArrowRight")
    url, chosen = desk.page.url, desk.page.locator(CONTROLS).evaluate_all(READ)
    changed = {name for (name, *before), (_, *after) in zip(begun, chosen, strict=True) if before != after}
    assert changed == {name for name, *_ in begun}
    assert len(changed) > 4
    painted, marked = drawn(desk), desk.page.locator(".value-tag").all_inner_texts()
    assert all(before != after for before, after in zip(plain, painted, strict=True))
    for other in visit(browser, address):
        other.open(url.removeprefix(address))
        assert other.page.locator(CONTROLS).evaluate_all(READ) == chosen
        assert other.page.url == url
        assert other.page.locator(".value-tag").all_inner_texts() == marked
        assert drawn(other) == painted


def test_controls_on_a_phone(phone: Visit) -> None:
    phone.open("/image?methods=random")
    expect(phone.page.get_by_label("Smoothing")).to_be_hidden()
    with view(phone.page):
        phone.page.get_by_label("Smoothing").select_option("patches")
    assert phone.query["grid"] == ["patches"]
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
    phone.page.locator(".map-canvas").first.click()
    lens, plates = phone.page.locator(".lens"), phone.page.locator(".plates")
    expect(lens).to_be_visible()
    above, below = lens.bounding_box(), plates.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]  # it covers no plate

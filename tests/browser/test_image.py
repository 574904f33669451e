"""The Image page against the numbers of the API."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Route, expect

from embedded.recipes.scenes import render
from tests.browser.conftest import Visit, model_path, visit
from tests.browser.numbers import colour_ends, percent, shown, shown_range, shown_score

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


def colours(desk: Visit, one: dict[str, Any]) -> NDArray[np.float64]:
    """(patches, 3)."""
    return np.array(desk.page.evaluate(COLOURS, [one["method"], *one["grid"]]))


def scene(seed: int, width: int, height: int) -> tuple[bytes, tuple[str, ...]]:
    """A rendered scene on a wider or higher ground, as a PNG file, and what is in it."""
    found = render(np.random.default_rng(seed), min(width, height), count=2)
    ground = Image.new("RGB", (width, height), "#c8c0b0")
    ground.paste(found.image, ((width - found.image.width) // 2, (height - found.image.height) // 2))
    buffer = io.BytesIO()
    ground.save(buffer, "PNG")
    return buffer.getvalue(), tuple(item.kind for item in found.objects)


def check_plates(desk: Visit, document: dict[str, Any]) -> None:
    """Every plate is there, in the fixed order, and its label says what the API says."""
    methods = desk.get(f"/api/methods?model={document['model']}")["methods"]
    order = [pair["spec"] for one in methods for pair in one["pairs"]]
    specs = sorted((one["method"] for one in document["maps"]), key=order.index)
    assert desk.page.locator(".plate").evaluate_all("(plates) => plates.map((plate) => plate.dataset.spec)") == specs
    for one in document["maps"]:
        plate = desk.plate(one["method"])
        expect(plate.locator("h2")).to_have_text(one["title"])
        label = plate.locator(".facts").inner_text()
        assert shown_range(one) in label
        assert ("yes" if one["class_specific"] else "no") in plate.locator(".facts div", has_text="class-specific").inner_text()
        error = one.get("completeness_error")
        assert (shown(error, 2) if error is not None else "–") in plate.locator(".facts div", has_text="sum off by").inner_text()
        said = plate.locator(".note").inner_text()
        assert ("same map for every class" in said.lower()) == (not one["class_specific"])
        check_scale(plate, one)


def check_scale(plate: Any, one: dict[str, Any]) -> None:
    """The values under the colour bar."""
    ends = colour_ends(one["scores"], one["signed"])
    words = plate.locator(".ends").inner_text().split()
    assert [words[0], words[-1]] == [shown(end, 2) for end in ends]


def test_an_example_is_explained_when_the_page_opens(desk: Visit) -> None:
    desk.open("/image")
    document = desk.document()
    assert document["state"] == "done"
    assert document["model"] == "scenes-vit"
    default = [one["spec"] for one in desk.get("/api/methods?model=scenes-vit")["variants"] if one["default"] and not one["reason"]]
    assert {one["method"] for one in document["maps"]} == set(default)
    assert len(default) > 8
    expect(desk.page.locator("#answer")).to_have_text(document["targets"][0]["label"])
    rows = desk.page.locator("#classes li button")
    for i, one in enumerate(document["top"]):
        expect(rows.nth(i)).to_have_text(f"{one['label']}{percent(one['probability'])}")
    expect(desk.page.locator("#classes [aria-pressed=true]")).to_contain_text(document["targets"][0]["label"])
    check_plates(desk, document)
    moved, what = desk.shift()
    assert moved < 0.01, what


def test_the_colours_are_the_scores(desk: Visit) -> None:
    desk.open("/image?grid=patches&opacity=100")
    for one in desk.document()["maps"]:
        scores = np.array(one["scores"])
        red, _, blue = colours(desk, one).T
        if one["signed"]:
            strong = np.abs(scores) > 0.2 * np.quantile(np.abs(scores), 0.99)
            assert (np.sign(red - blue)[strong] == np.sign(scores)[strong]).all(), one["method"]
        else:  # the sequence goes from nearly black over purple and red to pale yellow: green grows all the way
            low, high = np.quantile(scores, (0.01, 0.99))
            top = scores >= high
            if high > low:
                assert red[top].mean() > red[scores <= np.median(scores)].mean(), one["method"]


def test_evidence_grid_scale_and_opacity_apply_at_once(desk: Visit) -> None:
    desk.open("/image?grid=patches&opacity=100")
    document = desk.document()
    one = next(m for m in document["maps"] if m["signed"] and min(m["scores"]) < 0 < max(m["scores"]))
    scores = np.array(one["scores"])
    strong = np.abs(scores) > 0.2 * np.quantile(np.abs(scores), 0.99)
    for choice, hidden in (("for", scores < 0), ("against", scores > 0)):
        desk.page.get_by_role("radio", name=choice, exact=True).check()
        red, _, blue = colours(desk, one).T
        np.testing.assert_allclose(red[hidden], blue[hidden], atol=1)  # grey: only the picture is left
        assert (np.abs(red - blue)[strong & ~hidden] > 5).all()
        assert desk.query["evidence"] == [choice]
    desk.page.get_by_role("radio", name="both").check()
    desk.page.get_by_role("slider", name="Opacity").fill("0")
    red, green, blue = colours(desk, one).T
    np.testing.assert_allclose(red, green, atol=1)
    np.testing.assert_allclose(red, blue, atol=1)
    desk.page.get_by_role("slider", name="Opacity").fill("100")
    desk.page.get_by_role("radio", name="shared").check()
    families: dict[str, list[Any]] = {}
    for other in document["maps"]:
        families.setdefault(other["readout"], []).append(other)
    assert max(map(len, families.values())) > 1
    for family in families.values():
        high = shown(colour_ends(np.concatenate([m["scores"] for m in family]), family[0]["signed"])[1], 2)
        for other in family:
            assert desk.plate(other["method"]).locator(".ends").inner_text().split()[-1] == high


def test_a_class_is_picked_from_the_list_and_by_typing(desk: Visit) -> None:
    desk.open("/image")
    first = desk.document()
    label = first["top"][1]["label"]
    desk.page.locator("#classes li button", has_text=label).click()
    desk.next_maps(first["id"])
    second = desk.document()
    assert second["targets"][0]["label"] == label
    check_plates(desk, second)

    labels = desk.get(model_path("scenes-vit"))["labels"]
    rare = next(name for name in reversed(labels) if name not in {one["label"] for one in second["top"]})
    field = desk.page.get_by_role("combobox", name="Another class")
    field.press_sequentially(rare[:-1])
    found = desk.page.locator("#class-list [role=option]")
    expect(found.first).to_be_visible()
    options = found.all_inner_texts()
    assert options == sorted((name for name in labels if rare[:-1].lower() in name.lower()), key=options.index)
    while desk.page.locator("#class-list [aria-selected=true]").inner_text() != rare:
        field.press("ArrowDown")
    field.press("Enter")
    desk.next_maps(second["id"])
    third = desk.document()
    assert third["targets"][0]["label"] == rare
    expect(desk.page.locator("#classes [aria-pressed=true]")).to_have_text(f"{rare}{percent(third['targets'][0]['probability'])}")
    for before, after in zip(second["maps"], third["maps"], strict=True):
        if not before["class_specific"]:
            assert before["scores"] == after["scores"]
    assert any(before["scores"] != after["scores"] for before, after in zip(second["maps"], third["maps"], strict=True))
    check_plates(desk, third)


def test_a_picture_is_uploaded_and_its_crop_is_marked(desk: Visit) -> None:
    desk.open("/image")
    data, _ = scene(3, 400, 260)
    before = desk.id
    desk.page.get_by_label("Picture file").set_input_files({"name": "scene.png", "mimeType": "image/png", "buffer": data})
    desk.next_maps(before)
    document = desk.document()
    assert [document["input"]["width"], document["input"]["height"]] == [400, 260]
    check_plates(desk, document)
    expect(desk.page.locator("#samples [aria-pressed=true]")).to_have_count(0)
    seen = document["input"]["seen"]
    expect(desk.page.locator("#picture .caption")).to_contain_text(f"{seen[0]}×{seen[1]}")

    desk.page.get_by_role("radio", name="original").check()
    expect(desk.page.locator("#picture .caption")).to_contain_text("400×260")
    sheet, region = (desk.page.locator(f"#picture .{name}").bounding_box() for name in ("sheet", "region"))
    assert sheet is not None
    assert region is not None
    x0, y0, x1, _ = document["input"]["crop"]
    got = [(region["x"] - sheet["x"]) / sheet["width"], (region["y"] - sheet["y"]) / sheet["height"], region["width"] / sheet["width"]]
    np.testing.assert_allclose(got, [x0 / 400, y0 / 260, (x1 - x0) / 400], atol=0.01)
    assert sheet["width"] / sheet["height"] == pytest.approx(400 / 260, rel=0.02)


def test_each_picture_gets_the_model_that_fits_until_another_is_chosen(desk: Visit) -> None:
    desk.open("/image?methods=rollout")
    brought = {"name": "s.png", "mimeType": "image/png", "buffer": scene(3, 90, 90)[0]}
    sample = desk.page.locator("#samples button")
    for give, model in (
        (lambda: desk.page.get_by_label("Picture file").set_input_files(brought), "photos-vit"),
        (lambda: sample.nth(1).click(), "scenes-vit"),
        (lambda: desk.page.get_by_label("Model", exact=True).select_option("photos-vit"), "photos-vit"),
        (lambda: sample.nth(0).click(), "photos-vit"),
    ):
        before = desk.id
        give()
        desk.next_maps(before)
        assert desk.document()["model"] == model
        expect(desk.page.locator("#model-choice")).to_have_value(model)


def test_a_picture_is_dropped_on_the_page(desk: Visit) -> None:
    desk.open("/image")
    before = desk.id
    data, _ = scene(5, 224, 224)
    carried = desk.page.evaluate_handle(
        """(bytes) => {
          const carried = new DataTransfer();
          carried.items.add(new File([new Uint8Array(bytes)], "scene.png", { type: "image/png" }));
          return carried;
        }""",
        list(data),
    )
    desk.page.dispatch_event("#plates", "dragenter", {"dataTransfer": carried})
    expect(desk.page.locator("body.dropping")).to_have_count(1)
    desk.page.dispatch_event("#plates", "drop", {"dataTransfer": carried})
    desk.next_maps(before)
    expect(desk.page.locator("body.dropping")).to_have_count(0)
    assert desk.document()["input"]["width"] == 224


@pytest.mark.parametrize("broken", ["text", "cut"])
def test_a_broken_file_says_what_to_send_and_changes_nothing(desk: Visit, broken: str) -> None:
    desk.open("/image")
    data = scene(3, 224, 224)[0]
    data = b"this is no picture" if broken == "text" else data[: len(data) // 2]
    refusal = httpx.post(f"{desk.address}/api/explanations", data={"model": "scenes-vit"}, files={"image": ("p.png", data)}).json()
    before = desk.page.url, colours(desk, desk.document()["maps"][0]).tolist()
    desk.page.get_by_label("Picture file").set_input_files({"name": "p.png", "mimeType": "image/png", "buffer": data})
    alert = desk.page.locator("#specimen-problem [role=alert]")
    expect(alert).to_contain_text(refusal["detail"])
    expect(alert).to_contain_text(refusal["send"].rstrip("."))
    assert (desk.page.url, colours(desk, desk.document()["maps"][0]).tolist()) == before
    expect(desk.page.locator('.plate:not([data-state="done"])')).to_have_count(0)
    alert.get_by_role("button", name="Dismiss").click()
    expect(alert).to_have_count(0)
    assert len(desk.complaints) == 1, desk.complaints  # the browser's own line about the status
    assert str(refusal["status"]) in desk.complaints.pop()


def test_a_patch_is_looked_at_in_every_plate(desk: Visit) -> None:
    desk.open("/image")
    maps = desk.document()["maps"]
    rows, columns = maps[0]["grid"]
    face = desk.plate(maps[0]["method"]).locator(".face")
    box = face.bounding_box()
    assert box is not None

    def values(patch: int) -> None:
        for one in maps:
            expect(desk.plate(one["method"]).locator(".value")).to_have_text(shown_score(one["scores"][patch], one["signed"]))

    patch = 5 * columns + 3
    where = {"x": box["width"] * 3.5 / columns, "y": box["height"] * 5.5 / rows}
    face.hover(position=where)
    values(patch)
    expect(desk.page.locator("#picture .region .patch")).to_be_visible()
    face.click(position=where)
    desk.page.mouse.move(2, 2)
    values(patch)  # held
    assert desk.query["focus"] == [str(patch)]
    face.focus()
    face.press("ArrowRight")
    values(patch + 1)
    face.press("ArrowDown")
    values(patch + 1 + columns)
    reached = shown_score(maps[0]["scores"][patch + 1 + columns], maps[0]["signed"])
    expect(desk.page.locator("#reading")).to_contain_text(f"row 7, column 5: {reached}")
    face.press("Home")
    values(int(np.argmax(np.abs(maps[0]["scores"]))))
    face.press("Escape")
    expect(desk.page.locator(".value:not(:empty)")).to_have_count(0)
    assert "focus" not in desk.query


def test_methods_are_chosen(desk: Visit) -> None:
    desk.open("/image")
    before = desk.id
    variants = desk.get("/api/methods?model=scenes-vit")["variants"]
    extra = next(one["spec"] for one in variants if not one["default"] and not one["dear"] and not one["reason"])
    desk.page.locator(".chooser summary").click()
    boxes = desk.page.locator(".chooser .cells input")
    checked = boxes.evaluate_all("(all) => all.filter((one) => one.checked).map((one) => one.value)")
    for spec in checked[1:]:
        desk.page.locator(f'.chooser input[value="{spec}"]').uncheck()
    desk.page.locator(f'.chooser input[value="{extra}"]').check()
    desk.page.get_by_role("button", name="Show these").click()
    desk.next_maps(before)
    document = desk.document()
    assert {one["method"] for one in document["maps"]} == {checked[0], extra}
    check_plates(desk, document)
    expect(desk.page.locator(".chooser summary")).to_contain_text("2 of")


def test_a_link_opens_the_same_view_again(desk: Visit, browser: Browser, address: str) -> None:
    desk.open("/image")
    before = desk.id
    desk.page.locator("#classes li button").nth(1).click()
    desk.next_maps(before)
    desk.page.get_by_label("Smoothing").select_option("patches")
    desk.page.get_by_role("radio", name="for", exact=True).check()
    face = desk.page.locator(".face").first
    face.focus()
    face.press("Home")
    url, document = desk.page.url, desk.document()
    spec = document["maps"][-1]
    painted = colours(desk, spec)
    for other in visit(browser, address):
        sent: list[str] = []
        other.page.on("request", lambda request, sent=sent: sent.append(request.method))
        other.open(url.removeprefix(address))
        assert other.page.url == url
        assert set(sent) == {"GET"}
        expect(other.page.locator("#answer")).to_have_text(document["targets"][0]["label"])
        expect(other.page.get_by_label("Smoothing")).to_have_value("patches")
        check_plates(other, document)
        np.testing.assert_array_equal(colours(other, spec), painted)
        value = other.plate(spec["method"]).locator(".value")
        expect(value).to_have_text(shown_score(spec["scores"][int(other.query["focus"][0])], spec["signed"]))
        # and one can go on from there
        other.page.locator("#classes li button").first.click()
        other.next_maps(document["id"])
        assert other.document()["targets"][0]["label"] == document["top"][0]["label"]
        expect(other.page.locator("#notes")).to_contain_text("copy that the server keeps")


def test_a_link_to_nothing_says_so_and_shows_the_example(desk: Visit) -> None:
    desk.open("/image?id=nothing-of-this-name")
    expect(desk.page.locator("#case-problem")).to_have_count(1)
    assert desk.document()["model"] == "scenes-vit"
    assert len(desk.complaints) == 1
    assert "404" in desk.complaints.pop()


def test_an_answer_that_comes_too_late_is_dropped(desk: Visit) -> None:
    desk.open("/image")
    document = desk.document()
    slow, quick = document["top"][1]["label"], document["top"][2]["label"]
    held: list[Route] = []

    def hold(route: Route) -> None:
        if not held and slow in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    desk.page.route("**/api/explanations", hold)
    with desk.page.expect_request("**/api/explanations"):
        desk.page.locator("#classes li button", has_text=slow).click()
    desk.page.locator("#classes li button", has_text=quick).click()
    desk.next_maps(document["id"])
    assert len(held) == 1
    after = desk.document()
    assert after["targets"][0]["label"] == quick
    expect(desk.page.locator("#answer")).to_have_text(quick)
    check_plates(desk, after)


@pytest.fixture
def night_phone(browser: Browser, address: str) -> Iterator[Visit]:
    yield from visit(browser, address, 390, "dark")


def test_a_phone_at_night(night_phone: Visit) -> None:
    night_phone.open("/image")
    assert night_phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
    check_plates(night_phone, night_phone.document())
    night_phone.page.locator(".chooser summary").click()
    expect(night_phone.page.locator(".chooser .cells label span").first).to_be_visible()
    expect(night_phone.page.locator(".chooser .heads")).to_be_hidden()  # each square has its rule beside it
    assert night_phone.page.evaluate("() => document.documentElement.scrollWidth") == 390

"""What is exported from the pages: pictures made in the page, the numbers, the bundle, the lines that make it again."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from explainers.rendering.colours import colours, is_two_sided, normalise, scale_ends
from tests.browser.support.figures import SVG, check_texts, said, take
from tests.browser.support.number_format import end_texts, percent, probability_end, shown
from tests.browser.support.serving import HTTP
from tests.browser.support.typefaces import TYPEFACES
from tests.browser.support.visit import Visit

THREE = "methods=fullgrad_plus:libra&methods=transformer_attribution&methods=rollout"


def deletion(visit: Visit, **body: Any) -> Any:
    """What the API says of the tokens that go."""
    answer = HTTP.post(f"{visit.address}/api/explanations/{visit.id}/deletion-test", json=body)
    return answer.raise_for_status().json()


def test_one_map_as_svg_is_its_scores_and_so_are_the_numbers_and_the_bundle(desk: Visit, tmp_path: Path) -> None:
    desk.open(f"/image?model=scenes-vit&grid=patches&opacity=100&{THREE}")
    document = desk.document()
    for attribution in (next(m for m in document["maps"] if m["signed"] == signed) for signed in (True, False)):
        file = take(desk, desk.plate(attribution["method"]).locator(".menu"), "SVG", tmp_path)
        root = ET.parse(file).getroot()
        cells = [node for node in root.iter(f"{SVG}rect") if node.get("class") == "patch"]
        ends = scale_ends(attribution["scores"], attribution["signed"])
        expected = colours(normalise(attribution["scores"], ends, attribution["signed"]), is_two_sided(ends, attribution["signed"]))
        assert len(cells) == len(attribution["scores"])
        drawn = [[int(part) for part in re.findall(r"\d+", cell.get("fill", ""))] for cell in cells]
        np.testing.assert_allclose([float(cell.get("fill-opacity", "")) for cell in cells], expected[:, 3], atol=0.006)
        np.testing.assert_allclose(drawn, expected[:, :3], atol=1)
        words = said(root)
        for fact in (attribution["title"], document["model"], document["targets"][0]["label"], document["weights_digest"][:12]):
            assert fact in words
        texts = end_texts(attribution["scores"], attribution["signed"], ends)
        assert texts == [line for line in words.splitlines() if line in texts]
        assert percent(document["targets"][0]["probability"]) in words

    attribution = document["maps"][-1]
    numbers = np.load(take(desk, desk.plate(attribution["method"]).locator(".menu"), ".npy", tmp_path))
    np.testing.assert_array_equal(numbers.ravel(), np.array(attribution["scores"], dtype=np.float32))
    assert json.loads(take(desk, desk.plate(attribution["method"]).locator(".menu"), "JSON", tmp_path).read_text("utf-8")) == document
    with zipfile.ZipFile(take(desk, desk.page.locator("#export .menu"), "Bundle", tmp_path)) as archive:
        assert json.loads(archive.read("explanation.json")) == document


def lowest_text(node: ET.Element, above: float = 0.0) -> float:
    """Where the lowest line of text of a figure stands, in pixels from its upper edge."""
    moved = re.match(r"translate\(\S+ (\S+)\)", node.get("transform", ""))
    top = above + (float(moved[1]) if moved else 0.0)
    own = top + float(node.get("y", 0)) if node.tag == f"{SVG}text" else 0.0
    return max([own, *(lowest_text(child, top) for child in node)])


@pytest.mark.parametrize("desk", TYPEFACES, indirect=True)
def test_the_whole_figure_as_svg(desk: Visit, tmp_path: Path) -> None:
    desk.open("/image?model=scenes-vit")
    document = desk.document()
    file = take(desk, desk.page.locator("#export .menu"), "SVG of the whole figure", tmp_path)
    check_texts(desk, file)
    root = ET.parse(file).getroot()
    words = said(root)
    assert all(attribution["title"].split(" · ")[0] in words for attribution in document["maps"])
    assert "As the model saw it" in words
    rows: dict[float, float] = {}  # where each row of cells begins, and its lowest text
    for cell in (node for node in root if node.get("transform", "").startswith("translate")):
        top = float(cell.get("transform", "").split()[1].rstrip(")"))
        rows[top] = max(rows.get(top, 0.0), lowest_text(cell))
    assert len(rows) > 1
    assert all(below - rows[above] > 30 for above, below in itertools.pairwise(sorted(rows)))  # rows stand apart
    assert len(list(root.iter(f"{SVG}image"))) == len(document["maps"]) + 1


def test_a_figure_and_its_file_say_model_question_class_and_method_on_white(desk: Visit, tmp_path: Path) -> None:
    desk.open("/prompt?prompt=" + quote("a cat!") + "&prompt=" + quote("a cup") + "&methods=rollout")
    single = desk.page.locator(".plate").filter(has_text="a cat!").locator(".menu").first
    file = take(desk, single, "SVG", tmp_path)
    assert file.name == "vitrine-clip-a-cat!-attention-rollout.svg"
    root = ET.parse(file).getroot()
    assert re.search("^clip: (what speaks for|where it may have found|not found:|no finding for) “a cat!”$", said(root).splitlines()[0])
    ground = next(root.iter(f"{SVG}rect"))
    assert (ground.get("fill"), ground.get("width"), ground.get("height")) == ("#ffffff", root.get("width"), root.get("height"))
    whole = take(desk, desk.page.locator("#export .menu"), "PNG of the whole figure", tmp_path)
    assert whole.name == "vitrine-clip-a-cat!-a-cup-attention-rollout.png"
    with Image.open(whole) as picture:
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    bundle = take(desk, desk.page.locator("#export .menu"), "Bundle", tmp_path)
    assert bundle.name == "vitrine-clip-a-cat!-a-cup.zip"


def test_a_figure_has_the_warning_of_a_map_that_cannot_be_trusted(desk: Visit, tmp_path: Path) -> None:
    desk.open("/image?model=scenes-vit&methods=rollout&methods=rise%3Fsamples%3D8")
    document = desk.document()
    doubtful = [attribution for attribution in document["maps"] if attribution.get("doubtful")]
    assert [attribution["readout"] for attribution in doubtful] == ["rise"]
    words = said(ET.parse(take(desk, desk.page.locator("#export .menu"), "SVG of the whole figure", tmp_path)).getroot())
    assert words.count("! ") == 1
    assert f"! {doubtful[0]['title']}" in words
    assert doubtful[0]["notes"][0].split(" ")[0] in words


def test_the_figure_is_named_for_the_methods_in_it(desk: Visit, tmp_path: Path) -> None:
    """Folded methods are not on show: the name says how many are in the file."""
    page = desk.open("/image?model=scenes-vit", folded=True)
    menu = page.locator("#export .menu")
    root = ET.parse(take(desk, menu, "SVG of the 4 methods on show", tmp_path)).getroot()
    assert len(list(root.iter(f"{SVG}image"))) == 4 + 1  # and the picture itself
    menu.locator("summary").click()
    expect(menu.get_by_text("whole figure")).to_have_count(0)
    page.keyboard.press("Escape")
    page.locator(".unfold button").click()
    root = ET.parse(take(desk, menu, "SVG of the whole figure", tmp_path)).getroot()
    assert len(list(root.iter(f"{SVG}image"))) == len(desk.document()["maps"]) + 1 > 5


def test_a_figure_says_what_is_removed_from_it_and_nothing_where_nothing_is(desk: Visit, tmp_path: Path) -> None:
    page = desk.open(f"/image?model=scenes-vit&{THREE}")
    menu = page.locator("#export .menu")
    page.locator("#removed").fill("30")
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=60_000)

    def removal() -> list[str]:
        page.evaluate("() => new Promise(requestAnimationFrame)")
        words = said(ET.parse(take(desk, menu, "SVG of the whole figure", tmp_path)).getroot()).splitlines()
        return [line for line in words if re.search("Removed|without these parts|rank", line)]

    assert len(removal()) == 1 + 3
    page.locator("#removed").fill("0")
    expect(page.locator(".plate .after dt").first).to_have_text("with nothing removed")
    expect(page.locator(".plate .after dd").first).to_have_text(percent(desk.document()["targets"][0]["probability"]))
    assert sorted(removal()) == sorted(f"rank {line}" for line in page.locator(".plate .after div:last-child dd").all_inner_texts())
    page.locator("#removed").fill("30")
    page.get_by_role("button", name="End the test").click()
    assert removal() == []


def test_the_whole_figure_and_one_map_as_png(desk: Visit, tmp_path: Path) -> None:
    desk.open(f"/image?model=scenes-vit&{THREE}")
    menu = desk.page.locator("#export .menu")
    root = ET.parse(take(desk, menu, "SVG of the whole figure", tmp_path)).getroot()
    with Image.open(take(desk, menu, "PNG of the whole figure", tmp_path)) as picture:
        assert picture.size == (2 * int(root.get("width", "")), 2 * int(root.get("height", "")))
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 1000  # more than ink on paper: the pictures in it are drawn
    with Image.open(take(desk, desk.page.locator(".plate .menu").first, "PNG", tmp_path)) as picture:
        assert picture.width > 2 * 448


def test_a_text_as_svg_stays_text_and_lines_are_shown_where_the_browser_does_not_copy(desk: Visit, tmp_path: Path) -> None:
    desk.open("/text")
    document = desk.document()
    attribution = next(m for m in document["maps"] if m["signed"])
    root = ET.parse(take(desk, desk.plate(attribution["method"]).locator(".menu"), "SVG", tmp_path)).getroot()
    written = [node.text or "" for node in root.iter(f"{SVG}text")]
    start = next(i for i, text in enumerate(written) if document["input"]["text"].startswith(text) and i > 2)
    assert "".join("".join(written[start:]).split()).startswith("".join(document["input"]["text"].split()))
    assert [node for node in root.iter(f"{SVG}rect") if node.get("fill-opacity")]
    assert {"against", "for"} <= set(written)
    figure = ET.parse(take(desk, desk.page.locator("#export .menu"), "SVG of the whole figure", tmp_path)).getroot()
    signed = [attribution["signed"] for attribution in document["maps"]]
    words = said(figure).splitlines()
    assert [words.count(word) for word in ("against", "weak")] == [sum(signed), len(signed) - sum(signed)]
    take(desk, desk.page.locator("#export .menu"), "PNG of the whole figure", tmp_path)

    desk.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    desk.page.locator("#export summary").click()
    desk.page.get_by_role("button", name="Copy as curl").click()
    expect(desk.page.get_by_label("curl lines").locator("textarea")).to_have_value(desk.get(f"/api/explanations/{desk.id}/code")["curl"])
    desk.page.get_by_role("button", name="Close").click()
    expect(desk.page.locator("dialog.lines")).to_have_count(0)


def test_no_tile_stands_alone_in_the_last_row(desk: Visit) -> None:
    page = desk.open("/history", maps=False)
    columns = {1: 1, 4: 4, 5: 5, 6: 3, 7: 4, 10: 5, 11: 4, 13: 5, 14: 5, 17: 3, 64: 4}
    balance = "(all) => script('export/drawing.js').then(({ tilesPerRow }) => all.map((tiles) => tilesPerRow(tiles, 4, 5, 3, 6)))"
    assert dict(zip(columns, page.evaluate(balance, list(columns)), strict=True)) == columns
    assert all(tiles % of_a_row != 1 or tiles == 1 for tiles, of_a_row in columns.items())


@pytest.mark.parametrize("desk", TYPEFACES, indirect=True)
def test_the_figure_after_deletion_and_its_curves(desk: Visit, tmp_path: Path) -> None:
    """The figure has what the deletion bar shows: the patches that are removed, what the model says then. The curves make another."""
    methods = ["fullgrad_plus:libra", "random", "rollout"]
    page = desk.open("/image?model=scenes-vit&" + "&".join(f"methods={spec}" for spec in methods))
    menu = page.locator("#export .menu")
    menu.locator("summary").click()
    expect(menu.get_by_text("whole figure")).to_have_count(2)
    expect(menu.get_by_text("curves")).to_have_count(0)  # there are none yet
    page.keyboard.press("Escape")
    page.locator("#removed").fill("30")
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=60_000)
    rows, columns = desk.document()["maps"][0]["grid"]
    tokens = rows * columns
    count = f"{round(0.3 * tokens)} of {tokens}"
    expect(page.locator(".deletion-bar output")).to_contain_text(count)
    file = take(desk, menu, "SVG of the whole figure", tmp_path)
    check_texts(desk, file)
    root = ET.parse(file).getroot()
    words = said(root)
    assert f"Removed: the 30\u2009% most relevant tokens of each map, {count}." in words
    removed = []
    for spec in methods:
        single = deletion(desk, method=spec, fraction=0.3)
        removed.append(set(single["removed"]))
        assert f"without these parts {percent(single['probability'])} · rank " in words
    holes = [node.get("d", "") for node in root.iter(f"{SVG}path") if node.get("class") == "removed"]
    side = 220 / columns
    drawn = [{round(float(y) / side) * columns + round(float(x) / side) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h", d)} for d in holes]
    assert sorted(map(sorted, drawn)) == sorted(map(sorted, removed))

    answer = deletion(desk)
    file = take(desk, menu, "SVG of the deletion curves", tmp_path)
    check_texts(desk, file)
    root = ET.parse(file).getroot()
    words = said(root)
    assert desk.document()["weights_digest"][:12] in words
    end = probability_end(answer)
    assert words.splitlines().count(f"{100 * end:.12g}\u2009%") == 2  # once in each half
    lines = [node for node in root.iter(f"{SVG}polyline") if node.get("class") == "curve"]
    assert len(lines) == len(answer["curves"]) == 6
    assert len({(node.get("stroke"), node.get("stroke-dasharray")) for node in lines}) == 3  # each method has a line of its own
    for order, half in (("most", lines[:3]), ("least", lines[3:])):
        for node in half:
            curve = next(curve for curve in answer["curves"] if (curve["method"], curve["order"]) == (node.get("data-spec"), order))
            points = np.array([pair.split(",") for pair in node.get("points", "").split()], dtype=float)
            np.testing.assert_allclose(points[:, 0], 54 + 398 * np.array(answer["counts"]) / tokens, atol=0.01)
            np.testing.assert_allclose(points[:, 1], 40 + 216 * (1 - np.array(curve["probability"]) / end), atol=0.01)
    for row in answer["ranking"]:
        assert percent(row["most"]) in words
        assert shown(row["gap"], 2) in words
    with Image.open(take(desk, menu, "PNG of the deletion curves", tmp_path)) as picture:
        assert picture.size == (2 * int(root.get("width", "")), 2 * int(root.get("height", "")))


@pytest.mark.parametrize("desk", TYPEFACES, indirect=True)
def test_prompts_as_a_figure(desk: Visit, tmp_path: Path) -> None:
    """A prompt that is longer than its plate is wide stands on several lines."""
    long = "a photo of a zebra that stands beside an elephant on dry grass under a hazy sky, seen from far away"
    desk.open(
        f"/prompt?methods=rollout&methods=fullgrad_plus:libra&prompt={quote(long)}&prompt=donaudampfschifffahrtsgesellschaftskapitaen"
    )
    document = desk.document()
    file = take(desk, desk.page.locator("#export .menu"), "SVG of the whole figure", tmp_path)
    check_texts(desk, file)
    words = said(ET.parse(file).getroot())
    assert long in words
    assert words.count("range ") == len(document["maps"]) + desk.page.locator(".plate.difference").count()
    for target in document["targets"]:
        assert target["label"] in words


@pytest.mark.trained
def test_copied_python_lines_run_and_give_the_same_scores(desk: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each page, run as a module of their own."""
    monkeypatch.chdir(tmp_path)
    desk.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name, model in (("image", "scenes-vit"), ("text", "reviews-bert")):
        desk.open(f"/{name}?model={model}&{THREE}")
        document = desk.document()
        desk.page.locator("#export summary").click()
        desk.page.get_by_role("button", name="Copy as Python").click()
        expect(desk.page.locator("#export [role=status]")).to_have_text("copied")
        lines = desk.page.evaluate("() => navigator.clipboard.readText()")
        assert lines == desk.get(f"/api/explanations/{document['id']}/code")["python"]
        Path(f"copied_{name}.py").write_text(lines, "utf-8")
        repeated = [attribution.to_json() for attribution in runpy.run_path(f"copied_{name}.py")["result"].maps]
        assert [attribution["method"] for attribution in repeated] == [attribution["method"] for attribution in document["maps"]]
        for attribution, other in zip(repeated, document["maps"], strict=True):
            np.testing.assert_allclose(attribution["scores"], other["scores"], rtol=1e-5, atol=1e-6 * max(1e-6, *map(abs, other["scores"])))


def test_the_menu_by_keyboard(desk: Visit) -> None:
    desk.open("/image?methods=random")
    summary = desk.page.locator(".plate .menu summary").first
    summary.focus()
    summary.press("Enter")
    expect(desk.page.get_by_role("button", name="SVG, as drawn")).to_be_visible()
    summary.press("Tab")
    desk.page.keyboard.press("Escape")
    expect(desk.page.get_by_role("button", name="SVG, as drawn")).to_have_count(0)
    expect(summary).to_be_focused()
    summary.press("Enter")
    desk.page.mouse.click(3, 3)
    expect(desk.page.locator(".menu[open]")).to_have_count(0)

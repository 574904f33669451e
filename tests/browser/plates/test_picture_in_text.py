"""A picture with a prompt on the Text page: given, asked about, drawn above the words of each plate, and asked about again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.drawers import opened
from tests.browser.support.serving import played
from tests.browser.support.task_model import TaskModel
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.support.picture_models import silent_qwen
from tests.support.task_models import picture_writer

METHODS = "methods=input_x_gradient:libra&methods=random"


@pytest.fixture
def desk(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Visit]:
    make = getattr(request, "param", picture_writer)
    with played(tmp_path / "server", TaskModel(make), device="cpu", embed="*") as address:
        yield from visit(browser, address, 390)


def test_a_picture_is_asked_about(desk: Visit, tmp_path: Path) -> None:
    page = desk.open(f"/text?model=reviews-bert&{METHODS}", maps=False)
    given = tmp_path / "given.png"
    given.write_bytes(png(size=(64, 48)))
    ask = page.get_by_role("button", name="Ask about this picture")
    expect(ask).to_be_visible()
    page.get_by_label("Picture file", exact=True).set_input_files(given)
    page.get_by_placeholder("What is in this picture?").fill("a good <image> film")
    ask.click()
    desk.next_maps(None)
    document = desk.document()
    expect(page.get_by_text("Sums of the logits of the answer's tokens.")).to_be_visible()
    choose = page.get_by_role("button", name="Choose a picture").bounding_box()
    assert choose is not None
    assert choose["height"] < 50  # one line
    plate = page.locator(".plate[data-spec='input_x_gradient:libra']")
    attribution = next(entry for entry in document["maps"] if entry["method"] == "input_x_gradient:libra")
    patches = attribution["scores"][document["input"]["picture"]["first"] :][:16]
    canvas = plate.locator(".map-canvas")
    expect(canvas).to_have_attribute("data-drawn", "true")
    best = max(range(16), key=lambda patch: abs(patches[patch]))
    label = canvas.get_attribute("aria-label")
    assert label is not None
    assert f"strongest at row {best // 4 + 1}, column {best % 4 + 1}" in label
    assert plate.locator(".reading [data-w]").all_inner_texts() == [word["text"] for word in document["input"]["words"]]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    no_violation(page)
    with page.expect_download() as download:
        plate.locator("details.menu", has_text="export").locator("summary").click()
        plate.get_by_text("SVG, as drawn").click()
    figure = download.value.path().read_text("utf-8")
    assert figure.count('class="patch"') + figure.count("<image") >= 1
    assert ">film<" in figure
    before = desk.id  # another prompt for the same picture, which is not sent again
    page.get_by_placeholder("What is in this picture?").fill("a bad film")
    ask.click()
    desk.next_maps(before)
    again = desk.document()
    assert (again["input"]["text"], again["input"]["picture"]["sha256"]) == ("a bad film", document["input"]["picture"]["sha256"])
    before = desk.id
    page.locator("#place .places button").nth(1).click()
    desk.next_maps(before)
    assert desk.document()["place"] == again["places"][1]
    expect(opened(desk, "answertable").locator("thead th").nth(1)).to_have_text("(picture)")


def test_several_pictures_are_asked_about_together(desk: Visit, tmp_path: Path) -> None:
    page = desk.open(f"/text?model=reviews-bert&{METHODS}", maps=False)
    files = [tmp_path / "1.png", tmp_path / "2.png", tmp_path / "3.png"]
    for seed, file in enumerate(files):
        file.write_bytes(png(seed, (64, 48)))
    field = page.locator("#prompt-picture")
    expect(field.get_by_role("button", name="Add another")).to_be_hidden()
    with page.expect_file_chooser() as chooser:
        field.get_by_role("button", name="Choose a picture").click()
    chooser.value.set_files(files[:2])
    expect(field.locator("li")).to_have_count(2)
    with page.expect_file_chooser() as chooser:
        field.get_by_role("button", name="Add another").click()
    chooser.value.set_files(files[2])
    expect(field.locator("li")).to_have_count(3)
    field.get_by_role("button", name="Leave out picture 2").click()
    expect(field.locator("li .quiet")).to_have_text(["Picture 1", "Picture 2"])
    page.get_by_placeholder("What is in this picture?").fill("a good film")
    page.get_by_role("button", name="Ask about this picture").click()
    desk.next_maps(None)
    document = desk.document()
    pictures = [document["input"]["picture"], *document["input"]["further_pictures"]]
    assert [each["sha256"] for each in pictures] == [hashlib.sha256(files[number].read_bytes()).hexdigest() for number in (0, 2)]
    plate = page.locator(".plate[data-spec='input_x_gradient:libra']")
    scores = next(entry for entry in document["maps"] if entry["method"] == "input_x_gradient:libra")["scores"]
    sums = [sum(scores[each["first"] : each["first"] + 16]) for each in pictures]
    expect(plate.locator(".map-canvas")).to_have_count(2)
    best = max(range(2), key=lambda number: sums[number])
    says = f"Picture {best + 1} speaks most for" if sums[best] > 0 else f"The highest is picture {best + 1}"
    expect(plate.locator(".which-picture")).to_contain_text(says)
    for number, total in enumerate(sums):
        written = plate.locator("figcaption").nth(number).inner_text().replace("\N{MINUS SIGN}", "-")
        assert written.startswith(f"Picture {number + 1}: patches together ")
        assert float(written.split()[-1].rstrip(".")) == pytest.approx(total, rel=6e-3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    no_violation(page)
    with page.expect_download() as download:
        plate.locator("details.menu", has_text="export").locator("summary").click()
        plate.get_by_text("SVG, as drawn").click()
    assert download.value.path().read_text("utf-8").count("data:image/") >= 2
    desk.open(f"/embed/{desk.id}", maps=False)
    expect(page.locator(".plate").first.locator(".map-canvas")).to_have_count(2)


@pytest.mark.parametrize("desk", [silent_qwen], indirect=True)
def test_frames_of_a_video_are_a_strip(desk: Visit, tmp_path: Path) -> None:
    page = desk.open(f"/text?model=reviews-bert&{METHODS}", maps=False)
    files = [tmp_path / f"{seed}.png" for seed in range(8)]
    for seed, file in enumerate(files):
        file.write_bytes(png(seed, (64, 48)))
    field = page.locator("#prompt-picture")
    video = field.get_by_label("these are the frames of a video")
    expect(video).to_be_hidden()
    with page.expect_file_chooser() as chooser:
        field.get_by_role("button", name="Choose a picture").click()
    chooser.value.set_files(files)
    video.check()
    expect(field.locator("li .quiet").last).to_have_text("Frame 8")
    page.get_by_placeholder("What is in this picture?").fill("a good film")
    page.get_by_role("button", name="Ask about this picture").click()
    desk.next_maps(None)
    document = desk.document()
    parts = [document["input"]["picture"], *document["input"]["further_pictures"]]
    assert [part["frame_numbers"] for part in parts] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    plate = page.locator(".plate[data-spec='input_x_gradient:libra']")
    expect(plate.locator(".frames figure")).to_have_count(4)
    expect(plate.locator("figcaption").nth(1)).to_contain_text("Frames 3–4: patches together ")
    bodies = plate.evaluate("node => [...node.querySelectorAll('figure, .frames')].map((one) => one.scrollHeight - one.clientHeight)")
    assert max(bodies) <= 0  # the captions are in sight
    expect(plate.locator(".which-picture")).to_contain_text("rames ")
    expect(field.locator("li .quiet").last).to_have_text("Frames 7–8")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    no_violation(page)


def test_each_token_has_a_map_of_the_picture(desk: Visit) -> None:
    first = desk.explained(png(size=(64, 48)), model="reviews-bert", text="a good film", methods=["input_x_gradient:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    answer = page.request.post(f"{desk.address}/api/explanations/{desk.id}/token-maps", data={}).json()
    maps = page.locator("#drawer-tokenmaps")
    maps.locator("summary").click()
    figures = maps.locator("figure")
    expect(figures.locator("button")).to_have_text([token.strip() for token in answer["tokens"]])
    expect(figures.first.locator(".map-canvas")).to_have_attribute("data-drawn", "true")
    before = desk.id
    figures.locator("button").last.click()
    desk.next_maps(before)
    assert desk.document()["place"]["tokens"] == [len(first["input"]["tokens"]) - 1] * 2
    no_violation(page)


def test_shares_of_the_picture_and_the_prompt_are_shown(desk: Visit, tmp_path: Path) -> None:
    first = desk.explained(png(size=(64, 48)), model="reviews-bert", text="a good film", methods=["input_x_gradient:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    answer = page.request.post(f"{desk.address}/api/explanations/{desk.id}/prior-or-pixels", data={}).json()
    part = opened(desk, "priorpixels")
    expect(part.locator("tbody")).to_have_count(len(answer["words"]))
    assert part.locator("thead th").all_inner_texts() == ["answer", "logit", "picture", "prompt", "answer so far", "constant"]
    for side, row in (("original", 0), ("grey", 1)):
        cells = part.locator("tbody").first.locator("tr").nth(row).locator("td").all_inner_texts()
        numbers = [float(text.replace("\N{MINUS SIGN}", "-")) for text in cells]
        largest = max(map(abs, answer[side]["shares"][0]))
        assert numbers == pytest.approx([answer[side]["logits"][0], *answer[side]["shares"][0]], abs=0.05 * largest)
    changes = [abs(a - b) for a, b in zip(answer["original"]["logits"], answer["grey"]["logits"], strict=True)]
    expect(part.get_by_role("status")).to_contain_text(f"changes “{answer['words'][changes.index(max(changes))]}” most")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with page.expect_download() as download:
        part.get_by_role("button", name="CSV").click()
    lines = download.value.path().read_text("utf-8-sig").splitlines()
    assert len(lines) == 1 + 2 * len(answer["words"])
    before = desk.id
    part.locator("tbody button").last.click()
    desk.next_maps(before)
    assert desk.document()["at"] == answer["places"][-1]
    no_violation(page)


def test_an_embedded_plate_has_the_picture(desk: Visit) -> None:
    first = desk.explained(png(size=(64, 48)), model="reviews-bert", text="a good film", methods=["input_x_gradient:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    desk.open(f"/embed/{desk.id}", maps=False)
    expect(page.locator(".plate").first.locator(".map-canvas")).to_have_attribute("data-drawn", "true")

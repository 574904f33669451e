"""Names of one's own on the page and in the history, and an explanation inside another page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.gated_models import USUAL_METHODS, GatedModels


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder and the address of another site."""
    folder = tmp_path_factory.mktemp("course")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, course: tuple[Path, str]) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("naming"), GatedModels(), embed=course[1]) as address:
        yield address


@pytest.fixture
def desk(browser: Browser, stage: str) -> Iterator[Visit]:
    yield from visit(browser, stage)


def explained(desk: Visit) -> str:
    return str(desk.explained(png(), model="scenes-vit", methods=USUAL_METHODS)["id"])


def test_an_explanation_is_named(desk: Visit) -> None:
    explanation_id = explained(desk)
    page = desk.open(f"/image?id={explanation_id}", maps=False)
    page.get_by_role("button", name="Name it").click()
    field = page.get_by_label("A name of your own")
    expect(field).to_be_focused()
    field.fill("My <b>zebra</b>")
    page.keyboard.press("Enter")
    expect(page.locator(".own-title")).to_have_text("My <b>zebra</b>")
    expect(page).to_have_title("My <b>zebra</b> · Image · Vitrine")
    page.reload()
    expect(page.locator(".own-title")).to_have_text("My <b>zebra</b>")
    expect(page).to_have_title("My <b>zebra</b> · Image · Vitrine")
    page.evaluate("(id) => localStorage.setItem('vitrine.history', JSON.stringify([id]))", explanation_id)
    desk.open("/history", maps=False)
    record = page.locator(".record")
    expect(record.get_by_role("heading")).to_contain_text("My <b>zebra</b>")
    record.get_by_role("button", name="Name ").click()
    record.get_by_label("A name of your own").fill("")
    page.keyboard.press("Enter")
    expect(record.get_by_role("heading")).to_contain_text("zebra")
    expect(record).not_to_contain_text("My")


def test_a_finished_explanation_inside_another_page(desk: Visit, course: tuple[Path, str]) -> None:
    explanation_id = explained(desk)
    page = desk.open(f"/image?id={explanation_id}&methods=rollout&grid=patches", maps=False)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=desk.address)
    page.wait_for_function("() => / in /.test(document.getElementById('status').textContent)")
    page.locator("#export .menu summary").click()
    page.get_by_role("button", name="Copy the code to embed it").click()
    expect(page.locator("#export [role=status]")).to_have_text("copied")
    code = page.evaluate("() => navigator.clipboard.readText()")
    folder, site = course
    (folder / "lesson.html").write_text(f"<!doctype html><title>Lesson</title><link rel=icon href=data:,><h1>Lesson</h1>{code}")
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.method))
    page.goto(f"{site}/lesson.html")
    frame = page.frame_locator("iframe")
    expect(frame.locator("h1")).to_have_text("What made it say “zebra”")
    expect(frame.locator(".plate [data-drawn=true]")).to_have_count(2)
    expect(frame.get_by_role("link", name="Open it in Vitrine")).to_have_attribute("href", f"/image?id={explanation_id}")
    expect(frame.locator("button:not(.enlarge, .about)")).to_have_count(0)  # nothing to change
    assert set(addresses) == {"GET"}
    listed = desk.get("/api/methods?model=scenes-vit")["standing"]
    for plate in frame.locator(".plate").all():
        spec = plate.get_attribute("data-spec") or ""
        rank = (listed or {"ranks": {}})["ranks"].get(spec)
        expected = f"of {rank['of']} with {listed['model']}" if rank else "the control" if spec == "random" else "not measured"
        expect(plate.locator(".standing")).to_contain_text(expected)
    # of maps that are not there the frame says so
    page.goto(f"{desk.address}/embed/{explanation_id}?methods=nothing&methods=rollout")
    expect(page.locator("#problem")).to_contain_text("This explanation has no map nothing. It has: ")
    expect(page.locator(".plate")).to_have_count(1)
    page.goto(f"{desk.address}/embed/{explanation_id}?methods=nothing")
    expect(page.locator("#problem")).to_contain_text("This explanation has no map nothing. It has: ")
    expect(page.locator(".plate")).to_have_count(0)
    # of a model that is not loaded nothing is said of where its methods stand
    page.route("**/api/models", lambda route: route.fulfill(json={"models": []}))
    page.goto(f"{desk.address}/embed/{explanation_id}?methods=rollout")
    expect(page.locator(".plate [data-drawn=true]")).to_have_count(1)
    expect(page.locator(".standing")).to_have_count(0)
    page.unroute("**/api/models")
    with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
        page.goto(site.replace("127.0.0.1", "localhost") + "/lesson.html")  # a site that was not named
    expect(page.get_by_role("heading", name="Lesson")).to_be_visible()
    expect(page.frame_locator("iframe").locator("main.embed")).to_have_count(0)  # the browser's own page says that it is blocked
    desk.complaints.clear()

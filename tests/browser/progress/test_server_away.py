"""A server that goes away while a question waits: the page says so at once, and gives the answer once it is back."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.support.serving import HTTP, played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.gated_models import GatedModels
from vitrine_server.jobs.queue.worker import Worker
from vitrine_server.jobs.recovery import RESUMED
from vitrine_server.store.database import SqliteDatabase
from vitrine_server.store.store import Store

LOST = "Connection lost, trying again"
METHODS = "methods=rollout&methods=fullgrad_plus:libra&methods=rollout?start_layer=1"


class Stage:
    """A server that can be stopped and started again at the same address, and a page of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models = GatedModels()
        self._running = ExitStack()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self) -> str:
        self.models = GatedModels()
        return self._running.enter_context(played(self.home, self.models, grace=1, port=self.port))

    def stop(self) -> None:
        """Stop it; what is held at a gate goes on once it is told to stop."""
        stop = Worker.stop

        def told(worker: Worker) -> None:
            worker.stopping = True
            self.models.open_all()
            stop(worker)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Worker, "stop", told)
            self._running.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    one = Stage(tmp_path)
    one.start()
    yield one
    one.stop()


@pytest.fixture
def desk(browser: Browser, stage: Stage) -> Iterator[Visit]:
    for visitor in visit(browser, f"http://127.0.0.1:{stage.port}"):
        yield visitor
        visitor.page.close()  # what the browser says of requests that failed has come by then
        visitor.complaints[:] = [text for text in visitor.complaints if "Failed to load resource" not in text and "ERR_" not in text]


def give(page: Page, seed: int) -> None:
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(seed)})


def finished(page: Page) -> None:
    expect(page.locator("#status")).to_contain_text(" in ")


def whole(page: Page) -> None:
    """Also the line of similar maps is there, whose script the page fetches last, and would not find on a server that is away."""
    expect(page.locator(".map-similarity .pair").first).to_be_attached()


def about(document: Any) -> Any:
    """What was asked."""
    sent = document["input"]["sha256"]
    return sent, document["model"], [target["label"] for target in document["targets"]], document["methods"]


def test_the_answer_comes_once_the_server_is_back(desk: Visit, stage: Stage) -> None:
    page = desk.open(f"/image?{METHODS}", maps=False)
    give(page, 1)
    finished(page)
    whole(page)
    stage.models.gate("backward")
    page.locator("#classes li button", has_text="elephant").click()
    stage.models.gate("backward").wait()
    expect(page.locator("#answer")).to_have_text("elephant")
    waiting, asked = desk.id, about(desk.document())
    stage.stop()
    expect(page.locator(".over .waits").first).to_contain_text(LOST)
    expect(page.locator("#status")).to_have_text(LOST)
    stage.start()
    finished(page)
    assert desk.id == waiting  # the server makes what it had taken
    HTTP.get(f"{desk.address}/api/explanations/{waiting}/events").raise_for_status()  # to their end
    expect(page.locator("#plates .plate[data-state=done]")).to_have_count(3)
    expect(page.locator(".over .waits").first).to_be_hidden()
    expect(page.locator("#results-problem")).to_be_empty()
    assert about(desk.document()) == asked
    assert "stopp" not in page.locator("body").inner_text()

    # the address of one that two servers ended over, which somebody may have kept
    stage.stop()
    with closing(Store(SqliteDatabase(stage.home), 10)) as store:
        store.put_file(str(waiting), RESUMED, b"")
        store.save({"id": waiting, "created": "2026-01-01", "model": "scenes-vit", "state": "running"})
    stage.start()
    page = desk.open(f"/image?id={waiting}", maps=False)
    expect(page.locator("#results-problem")).to_contain_text("before this was done")
    expect(page.locator("#overview")).not_to_contain_text("One moment")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator("#results-problem")).to_be_empty()
    expect(page.locator("#answer")).to_have_text("elephant")
    finished(page)
    expect(page).not_to_have_url(re.compile(str(waiting)))  # the answer has an address of its own
    assert about(desk.document()) == asked


def test_what_is_asked_while_it_is_away_is_answered_too(desk: Visit, stage: Stage) -> None:
    page = desk.open(f"/image?{METHODS}", maps=False)
    give(page, 1)
    finished(page)
    whole(page)
    before = desk.id
    stage.stop()
    page.locator("#classes li button", has_text="dog").click()
    expect(page.locator("#status")).to_have_text(LOST)
    stage.start()
    page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
    finished(page)
    expect(page.locator("#answer")).to_have_text("dog")


def test_what_waited_in_the_queue_is_answered_as_it_was_asked(desk: Visit, stage: Stage) -> None:
    """Nothing of it was known yet when the server stopped."""
    gate = stage.models.gate("forward")
    files = {"image": ("a.png", png(9))}
    HTTP.post(f"{desk.address}/api/explanations", data={"model": "scenes-vit", "methods": "rollout"}, files=files)
    gate.wait()
    page = desk.open("/text?methods=rollout", maps=False)
    page.locator("#text").fill("one two three")
    page.get_by_role("button", name="Explain this review").click()
    page.wait_for_function("() => new URLSearchParams(location.search).has('id')")
    waiting = desk.id
    stage.stop()
    stage.start()
    expect(page.locator("#plates .plate[data-state=done]")).to_have_count(1)
    assert desk.id == waiting
    assert desk.document()["input"]["text"] == "one two three"

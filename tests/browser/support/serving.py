"""A server of its own and a Chromium to look at it with, for the browser tests and for the screenshots."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
import uvicorn
from playwright.sync_api import Browser, Page, Playwright
from playwright.sync_api import TimeoutError as PageTimeout

from tests.browser.support.typefaces import DEJAVU, only
from vitrine_server.app import create_app
from vitrine_server.jobs.catalogue.model_source import ModelSource
from vitrine_server.settings import load_settings

# read at import: the tests forget the VITRINE_ variables of the person who runs them
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the first has no window to draw
CHROMIUM = os.environ.get("VITRINE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
EMBEDDED = {"image": "scenes-vit", "clip": "clip", "text": "reviews-bert"}
FOR_PHOTOS = "photos-vit"
VISITED = "localStorage.setItem('vitrine-visit', 'offered')"  # run in a page, it keeps the guided visit away
#: Asks servers with patience; each call has a connection of its own, for a server closes those that are idle.
HTTP = httpx.Client(timeout=300, limits=httpx.Limits(max_keepalive_connections=0))


@contextmanager
def launched(playwright: Playwright, typeface: str = DEJAVU) -> Iterator[Browser]:
    """A headless Chromium with a fresh profile that knows only the system's fonts of ``typeface``: the system's, else Playwright's own."""
    with tempfile.TemporaryDirectory() as folder:
        environ: dict[str, str | float | bool] = {**os.environ, "FONTCONFIG_FILE": str(only(typeface, Path(folder)))}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, env=environ)
        yield browser
        browser.close()


class HasModels(Protocol):
    """What has the models of a server."""

    def source(self) -> ModelSource:
        """Where they come from."""


@contextmanager
def played(
    home: Path, models: HasModels | None = None, samples: Iterable[Path] | None = (), *, grace: int = 5, **settings: Any
) -> Iterator[str]:
    """The address of a server in a thread of this process, with these models, or with those of ``explainers`` where none are given.

    ``samples`` are folders, None those that ship; ``grace`` the seconds for which it waits, as it stops, for those who follow events.
    """
    app = create_app(load_settings({"home": home, "log_level": "warning", **settings}), models and models.source(), samples)
    server = uvicorn.Server(uvicorn.Config(app, port=settings.get("port", 0), ws="none", log_config=None, timeout_graceful_shutdown=grace))
    ready = threading.Event()
    started = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await started(sockets)
        ready.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the server did not start")
        address = "http://{}:{}".format(*server.servers[0].sockets[0].getsockname()[:2])
        for name in EMBEDDED.values():
            wait_until_loaded(address, name)
        yield address
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def served(home: Path, models: HasModels | None = None) -> Iterator[str]:
    """The address of a server on the embedded models, with the samples that ship, once all are loaded."""
    with played(home, models, samples=None, device="cpu") as address:
        wait_until_all_loaded(address)
        yield address


def load_models(address: str, *names: str) -> None:
    """Ask a server for further models, and wait for them."""
    for name in names:
        HTTP.post(f"{address}/api/models", json={"name": name}).raise_for_status()
        wait_until_loaded(address, name)


def wait_until_all_loaded(address: str) -> None:
    """Follow the loading of the models that a server has from its start."""
    for model in HTTP.get(f"{address}/api/models").json()["models"]:
        if model["embedded"]:
            wait_until_loaded(address, model["name"])


def wait_until_loaded(address: str, name: str) -> None:
    """Follow the loading of a model to its end; raises RuntimeError if it fails."""
    with HTTP.stream("GET", f"{address}/api/models/events", params={"name": name}) as events:
        ends = (line for line in events.iter_lines() if line in {"event: loaded", "event: failed"})
        if next(ends, None) != "event: loaded":
            raise RuntimeError(f"{name} could not be loaded: {HTTP.get(f'{address}/api/models').text}")


DRAWN = """() => {
  const plates = [...document.querySelectorAll(".plate")];
  const drawn = (plate) => plate.dataset.state === "done" && plate.querySelector("[data-drawn=true], .reading");
  return plates.length > 0 && plates.every(drawn) && / in /.test(document.getElementById("status").textContent);
}"""
UNDRAWN = """() => ({
  status: document.getElementById("status").textContent,
  problem: document.getElementById("results-problem")?.textContent,
  plates: [...document.querySelectorAll(".plate")].map(({ dataset }) => `${dataset.spec} ${dataset.state}`),
  answers: performance.getEntriesByType("resource").filter(({ name }) => name.includes("/api/"))
    .map(({ name, startTime, duration, responseStatus }) => [name, startTime, duration, responseStatus].join(" ")),
})"""


def wait_for_maps(page: Page) -> None:
    """Until every plate of a page is drawn; raises AssertionError that says what the page shows where they do not come."""
    try:
        page.wait_for_function(DRAWN, timeout=120_000)
    except PageTimeout as timeout:
        raise AssertionError(f"the maps of {page.url} do not come: {page.evaluate(UNDRAWN)}") from timeout

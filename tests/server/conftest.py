"""A server of tiny models, and helpers to talk to it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from explainers.models import memory
from tests.server.support.checked_client import CheckedClient, check_event
from tests.server.support.gated_models import USUAL_METHODS, GatedModels
from vitrine_server.app import create_app
from vitrine_server.settings import load_settings

EMBEDDED = ("scenes-vit", "clip", "reviews-bert")


def picture(seed: int = 0, size: tuple[int, int] = (60, 40)) -> Image.Image:
    """A small picture that no other seed gives."""
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values)


def png(seed: int = 0, size: tuple[int, int] = (60, 40)) -> bytes:
    buffer = io.BytesIO()
    picture(seed, size).save(buffer, "PNG")
    return buffer.getvalue()


def without_seconds(document: Any) -> Any:
    """A document without what is another for each time that it is made: its name, the day, and how long its parts took."""
    maps = [{name: value for name, value in one.items() if name != "seconds"} for one in document["maps"]]
    return {name: value for name, value in document.items() if name not in ("id", "created", "seconds")} | {"maps": maps}


def without_costs(events: list[tuple[int, str, Any]]) -> list[tuple[int, str, Any]]:
    """Events but for what maps are expected to take, which is told only while they are made."""
    return [(number, name, {key: value for key, value in data.items() if key != "costs"}) for number, name, data in events]


@dataclass
class Site:
    """A running server, its client and its models."""

    client: TestClient
    models: GatedModels = field(default_factory=GatedModels)

    def ask(self, image: bytes | str | None = None, wait: bool = False, **fields: Any) -> Any:
        """POST /api/explanations for an image (the bytes of a file), by scenes-vit and two methods unless said otherwise; what is None is
        not sent.
        """
        files = {"image": ("photo", image)} if isinstance(image, bytes) else None
        data = {"model": "scenes-vit", "methods": USUAL_METHODS, **fields, **({"image": image} if isinstance(image, str) else {})}
        data = {name: value for name, value in data.items() if value is not None}
        return self.client.post("/api/explanations", params={"wait": 1} if wait else {}, data=data, files=files)

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def events(self, path: str, last_event_id: int | None = None) -> list[tuple[int, str, Any]]:
        """Every event of a stream, to its end."""
        headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        with self.client.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            return read_events(answer.iter_lines(), lambda event: check_event(path, event))

    def events_until(self, path: str, text: str) -> str:
        """Read a stream until a line holds ``text``; gives that line."""
        with self.client.stream("GET", path) as answer:
            return next(line for line in answer.iter_lines() if text in line)

    def finish(self, one: str) -> Any:
        """Wait for the end of an explanation; its document."""
        self.events(f"/api/explanations/{one}/events")
        return self.get(f"/api/explanations/{one}")

    def wait_for_models(self, *names: str) -> None:
        for name in names:
            self.events(f"/api/models/events?name={name}")


def read_events(lines: Iterator[str], check: Callable[[dict[str, str]], None] = lambda event: None) -> list[tuple[int, str, Any]]:
    events: list[tuple[int, str, Any]] = []
    current: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line.startswith(":"):  # a sign of life
            continue
        if line:
            current[name] = value
        elif "event" in current:
            check(current)
            events.append((int(current["id"]), current["event"], json.loads(current["data"])))
            current = {}
    return events


@dataclass
class Sites:
    """Makes servers that share a home."""

    home: Path
    samples: list[Path] = field(default_factory=list)

    @contextmanager
    def __call__(self, models: GatedModels | None = None, /, *, loaded: bool = True, **settings: Any) -> Iterator[Site]:
        with (models or GatedModels()).in_registry() as gated:
            app = create_app(load_settings({"home": self.home, **settings}), gated.source(), self.samples)
            with CheckedClient(app, raise_server_exceptions=False) as client:
                site = Site(client, gated)
                if loaded:
                    site.wait_for_models(*EMBEDDED)
                yield site
                gated.open_all()


@pytest.fixture
def alone_on_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is taken of the machine's memory is this process's own: a share of it is the same number of bytes all the time."""
    monkeypatch.setattr(memory, "_own_memory", lambda: 2**60)


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path / "home")


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites() as one:
        yield one


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What anybody logs during a test, and the server from INFO on. pytest's own plugin for that is off: see pyproject.toml."""
    records: list[logging.LogRecord] = []
    handler, server = logging.Handler(), logging.getLogger("vitrine_server")
    handler.emit = records.append  # type: ignore[method-assign]
    level = server.level
    logging.getLogger().addHandler(handler)
    server.setLevel(logging.INFO)
    yield records
    logging.getLogger().removeHandler(handler)
    server.setLevel(level)


Check = Callable[[Any, int, str], Any]


@pytest.fixture
def refused() -> Check:
    """Assert that an answer is a problem of this status and kind that says what to send; gives the document."""

    def check(answer: Any, status: int, kind: str) -> Any:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        document = answer.json()
        assert document["type"] == f"urn:vitrine:problem:{kind}"
        assert document["status"] == status
        assert document["title"]
        assert document["detail"].endswith((".", "?"))
        return document

    return check

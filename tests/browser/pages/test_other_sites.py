"""What other sites' pages can do to a server on a person's machine, in a real Chromium: nothing is changed, and nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.browser.support.serving import ARGUMENTS, CHROMIUM, HTTP, played
from tests.server.conftest import png
from tests.server.support.gated_models import GatedModels

OURS = "vitrine.example"
# What a page of another site does with the explanation `id` of the server at `address`; what came of it. "read": it was told something.
ATTACK = """async ([address, id]) => {
  const one = `${address}/api/explanations/${id}`;
  const soon = (asked) => Promise.race([asked, new Promise((resolve) => setTimeout(resolve, 5000, "no answer"))]);
  const named = (answer) => (answer.type === "opaque" ? "sent" : answer.status ? `read ${answer.status}` : answer);
  const tried = (asked) => soon(asked).then(named, () => "blocked");
  const form = () => {
    const fields = new FormData();
    fields.append("model", "reviews-bert");
    fields.append("text", "of another site");
    return fields;
  };
  const all = `${address}/api/explanations`;
  const put = (method, body, mode) => fetch(method === "POST" ? all : one, { method, body, mode, credentials: "include" });
  const loads = (node, source) => soon(new Promise((resolve) => {
    node.onload = () => resolve("read");
    node.onerror = () => resolve("blocked");
    node.src = source;
    document.body.append(node);
  }));
  const told = {
    asked: await tried(put("POST", form(), "no-cors")),
    asked_as_text: await tried(fetch(`${one}/again`, { method: "POST", body: "{}", mode: "no-cors" })),
    asked_to_read: await tried(put("POST", form(), "cors")),
    renamed: await tried(fetch(one, { method: "PATCH", body: '{"title": "theirs"}', headers: { "content-type": "application/json" } })),
    read: await tried(fetch(one)),
    picture: await loads(new Image(), `${one}/original.jpg`),
    script: await loads(document.createElement("script"), `${address}/api/models`),
    events: await soon(new Promise((resolve) => {
      const source = new EventSource(`${one}/events`);
      source.onmessage = source.onopen = () => resolve("read");
      source.onerror = () => { source.close(); resolve("blocked"); };
    })),
    deleted: await tried(put("DELETE", undefined, "cors")),
  };
  const frame = document.createElement("iframe");
  frame.name = "frame";
  document.body.append(frame);
  const sent = document.createElement("form");
  Object.assign(sent, { action: `${address}/api/explanations`, method: "POST", enctype: "multipart/form-data", target: "frame" });
  for (const [name, value] of form()) sent.append(Object.assign(document.createElement("input"), { name, value }));
  document.body.append(sent);
  sent.submit();
  return told;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, GatedModels]]:
    """The address of a server, by the name that whoever runs it gave it, the id of what it has, and its models."""
    models = GatedModels()
    with played(tmp_path_factory.mktemp("home"), models, allowed_hosts=OURS, visitors="together") as address:
        files = {"image": ("a.png", png())}
        made = HTTP.post(f"{address}/api/explanations?wait=1", data={"model": "scenes-vit"}, files=files).raise_for_status().json()
        yield f"http://{OURS}:{urlsplit(address).port}", made["id"], models


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server of other pages."""
    folder: Path = tmp_path_factory.mktemp("elsewhere")
    (folder / "index.html").write_text("<!doctype html><title>Elsewhere</title><link rel=icon href=data:,><p>Hello")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def chromium(browser: Browser) -> Iterator[Browser]:
    """One that finds every name of the domain example on this machine, as an attacker's name server has it."""
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with browser.browser_type.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, rules]) as one:
        yield one


def attack(chromium: Browser, page_address: str, target: str, explanation_id: str) -> dict[str, str]:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(page_address)
        told: dict[str, str] = page.evaluate(ATTACK, [target, explanation_id])
        return told


@pytest.mark.parametrize("host", ["evil.example", "other.vitrine.example", OURS], ids=["another site", "a site beside", "another port"])
def test_a_page_of_another_origin(chromium: Browser, site: tuple[str, str, GatedModels], elsewhere: int, host: str) -> None:
    """Over plain http, where a browser does not even say that it is another site: who asks is known by ``Origin`` alone."""
    address, explanation_id, models = site
    before = list(models.calls)
    told = attack(chromium, f"http://{host}:{elsewhere}/", address, explanation_id)
    assert "no answer" not in told.values()
    assert {name for name, result in told.items() if result.startswith("read")} == set()
    assert models.calls == before
    kept = HTTP.get(f"http://127.0.0.1:{urlsplit(address).port}/api/explanations/{explanation_id}").json()
    assert (kept["state"], "title" in kept) == ("done", False)


def test_a_name_that_points_here(chromium: Browser, site: tuple[str, str, GatedModels]) -> None:
    """DNS rebinding: for the browser it is the page's own server."""
    address, explanation_id, models = site
    before = list(models.calls)
    rebound = f"http://rebound.example:{urlsplit(address).port}"
    told = attack(chromium, f"{rebound}/history", rebound, explanation_id)
    assert {told[name] for name in ("asked", "asked_to_read", "asked_as_text", "deleted", "renamed", "read")} == {"read 403"}
    assert {told["picture"], told["script"], told["events"]} == {"blocked"}
    assert models.calls == before


def test_its_own_pages_may(chromium: Browser, site: tuple[str, str, GatedModels]) -> None:
    """The same from where it is allowed: what holds above is no accident of the attack."""
    address, explanation_id, models = site
    gate = models.gate("forward")
    told = attack(chromium, f"{address}/history", address, explanation_id)
    assert told == told | {"asked": "read 202", "renamed": "read 200", "read": "read 200", "picture": "read", "deleted": "read 204"}
    gate.wait()  # a model is asked, once the server comes to it
    gate.open()

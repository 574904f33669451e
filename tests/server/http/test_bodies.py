"""What is sent with a request: how much of it, and as which text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from tests.server.conftest import Check, Site, png
from vitrine_server.app import API
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.limits import MOST_BYTES_OF_FIELDS, MOST_BYTES_OF_JSON, MOST_BYTES_OF_TOKENS

JSON = {"content-type": "application/json"}


def form(*parts: tuple[bytes, bytes], charset: str = "") -> dict[str, Any]:
    """The body and headers of a form whose parts are as they are: the head of each behind its ``name=``, and what is in it."""
    body = b"".join(b"--x\r\nContent-Disposition: form-data; name=" + head + b"\r\n\r\n" + value + b"\r\n" for head, value in parts)
    return {"content": body + b"--x--\r\n", "headers": {"content-type": f"multipart/form-data; boundary=x{charset}"}}


def stored(site: Site) -> str:
    return f"/api/explanations/{site.ask(png(), wait=True).json()['id']}"


def test_every_call_with_json_checks_it() -> None:
    routes = [route for module in API for route in module.router.routes if isinstance(route, APIRoute)]
    assert len([route for route in routes if route.body_field is not None]) > 10
    assert not [route.path for route in routes if not isinstance(route, BodyRoute)]


@pytest.mark.parametrize("title", [b'"\\ud800"', b'"a\\udfffb"', b'"\xed\xa0\x80"', b'"\xff"'])
def test_a_title_that_cannot_be_encoded_is_refused_and_harms_nobody(site: Site, refused: Check, title: bytes) -> None:
    root = stored(site)
    refused(site.client.patch(root, content=b'{"title": %s}' % title, headers=JSON), 422, "invalid-request")
    for path in (root, f"{root}/summary", f"{root}/code"):
        site.get(path)
    assert site.client.patch(root, json={"title": "ein Zebra 🦓"}).json()["title"] == "ein Zebra 🦓"


@pytest.mark.parametrize("changes", [{"methods": ["\ud800"]}, {"metrics": ["\ud800"]}, {"model": "\ud800"}, {"dataset": "\udfff"}])
def test_a_run_that_cannot_be_encoded_is_refused_and_harms_nobody(site: Site, refused: Check, changes: dict[str, Any]) -> None:
    wanted = {"model": "scenes-vit", "dataset": "scenes", "methods": ["rollout"], "metrics": ["mif"], "limit": 2, **changes}
    refused(site.client.post("/api/runs", content=json.dumps(wanted), headers=JSON), 422, "invalid-request")
    assert site.get("/api/runs")["runs"] == []


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("/mix", {"method": "rollout", "rule": {"\ud800": "\ud800"}}),
        ("/layers", {"quantity": "\ud800"}),
        ("/contributions", {"method": "\ud800"}),
        ("/deletion-test", {"target": "\ud800"}),
        ("/deletion-test", {"replace": {"0": "\ud800"}}),
        ("/deletion-test/score", {"scores": [1], "target": "\ud800"}),
        ("/interactions", {"prompt": "\ud800"}),
        ("/alike", {"other": "\ud800"}),
        ("", {"\ud800": "a name that is none"}),
    ],
)
def test_no_question_that_cannot_be_encoded_is_taken(site: Site, refused: Check, call: str, body: dict[str, Any]) -> None:
    method = "POST" if call else "PATCH"
    answer = site.client.request(method, stored(site) + call, content=json.dumps(body), headers=JSON)
    assert "encoded" in refused(answer, 422, "invalid-request")["detail"]


@pytest.mark.parametrize("body", [b'{"fraction": NaN, "method": "rollout"}', b'{"remove": [%s]}' % (b"9" * 5000), b"[" * 100_000, b"{"])
def test_what_is_no_json_is_said(site: Site, refused: Check, body: bytes) -> None:
    refused(site.client.post(f"{stored(site)}/deletion-test", content=body, headers=JSON), 422, "invalid-request")


@pytest.mark.parametrize(
    "charset", ["utf-7", "unicode_escape", "raw_unicode_escape", "undefined", "idna", "punycode", "utf-16", "latin-1", "a%00b", "none"]
)
def test_another_encoding_is_refused(site: Site, refused: Check, charset: str) -> None:
    sent = form((b'"model"', b"reviews-bert"), (b'"text"', b"a \\ud800 +2AA- xn--film"), charset=f"; charset={charset}")
    document = refused(site.client.post("/api/explanations", **sent), 415, "unknown-charset")
    assert charset in document["detail"]
    assert "UTF-8" in document["send"]


@pytest.mark.parametrize("charset", ["", "; charset=utf-8", '; charset="UTF-8"', "; charset=utf8"])
def test_utf8_is_read_as_it_is(site: Site, charset: str) -> None:
    text = "schön 🦓 ça"
    sent = form((b'"model"', b"reviews-bert"), (b'"text"', text.encode()), charset=charset)
    document = site.client.post("/api/explanations?wait=1", **sent).json()
    assert document["input"]["text"] == text
    urlencoded = site.client.post("/api/explanations?wait=1", data={"model": "reviews-bert", "text": text})
    assert urlencoded.json()["input"]["text"] == text


@pytest.mark.parametrize(
    "part",
    [
        (b'"text"', b"a \xed\xa0\x80 film"),  # a surrogate
        (b'"text"', b"a sch\xf6n film"),  # Latin-1
        (b'"text"', b"cut \xf0\x9f\xa6"),
        (b'"te\xffxt"', b"a film"),
        (b'"image"; filename="\xed\xa0\x80.png"', b"a film"),
    ],
)
def test_bytes_that_are_no_utf8_are_refused(site: Site, refused: Check, part: tuple[bytes, bytes]) -> None:
    refused(site.client.post("/api/explanations", **form((b'"model"', b"reviews-bert"), part)), 400, "broken-form")


@pytest.mark.parametrize("text", [b"a+%ED%A0%80", b"a+%ff", b"\xff"])
def test_escapes_that_are_no_utf8_are_refused(site: Site, refused: Check, text: bytes) -> None:
    sent = {"content-type": "application/x-www-form-urlencoded"}
    refused(site.client.post("/api/explanations", content=b"model=reviews-bert&text=" + text, headers=sent), 400, "broken-form")


@pytest.mark.parametrize("boundary", ["", "é", "x" * 71, '"a\\"b"', "a b "])
def test_a_boundary_that_is_none_is_refused(site: Site, refused: Check, boundary: str) -> None:
    sent = {"content-type": f"multipart/form-data; boundary={boundary}".encode("latin-1")}
    refused(site.client.post("/api/explanations", content=b"--x--", headers=sent), 400, "broken-form")


@pytest.mark.parametrize(
    ("call", "most"), [("", MOST_BYTES_OF_JSON), ("/mix", MOST_BYTES_OF_JSON), ("/deletion-test/score", MOST_BYTES_OF_TOKENS)]
)
def test_json_has_a_limit(site: Site, refused: Check, call: str, most: int) -> None:
    path = stored(site) + call
    method = "POST" if call else "PATCH"
    problem = refused(site.client.request(method, path, content=b" " * (most + 1), headers=JSON), 413, "json-too-large")
    assert f"at most {most / 1e6:g} MB" in problem["send"]
    refused(site.client.request(method, path, content=b"{" + b" " * (most - 1), headers=JSON), 422, "invalid-request")


def test_a_form_of_text_alone_has_a_limit(site: Site, refused: Check) -> None:
    sent = {"content-type": "application/x-www-form-urlencoded"}
    refused(site.client.post("/api/explanations", content=b"a" * (MOST_BYTES_OF_FIELDS + 1), headers=sent), 413, "form-too-large")


def test_a_body_is_not_kept_past_its_limit(site: Site) -> None:
    """Of 400 MB in parts of 1 MB the server takes as many as it reads before it answers, and answers 413."""
    part, taken = b'{"title": "' + bytes(1_000_000), 0
    sent: list[Any] = []

    async def receive() -> Any:
        nonlocal taken
        taken += 1
        assert taken <= 400
        return {"type": "http.request", "body": part, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "PATCH",
        "path": "/api/explanations/a",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    asyncio.run(site.client.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 413
    assert taken <= 11


@pytest.mark.parametrize("sent_id", ["9" * 5000, "9" * 16, "²", "-1", "1e5", "", "0x1"])
def test_what_is_no_id_of_an_event_begins_the_story_anew(site: Site, sent_id: str) -> None:
    root = stored(site)
    whole = site.client.get(f"{root}/events").text
    assert site.client.get(f"{root}/events", headers={"Last-Event-ID": sent_id.encode("latin-1")}).text == whole  # type: ignore[dict-item]
    assert site.client.get(f"{root}/events", headers={"Last-Event-ID": "2"}).text in whole


def paths(root: str) -> Iterator[str]:
    for odd in ("%ED%A0%80", "%ff", "%00", "%0a", "a" * 5000, "9" * 5000):
        yield from (f"/{odd}", f"/static/{odd}", f"/api/models/{odd}", f"/api/explanations/{odd}", f"/api/samples/{odd}/image")
        yield from (f"{root}/maps/{odd}.png", f"{root}/agreement?target={odd}", f"{root}/maps/rollout.png?size={odd}")
        yield from (f"{root}?{odd}=1", f"/api/methods?model={odd}", f"/methods/{odd}", f"/embed/{odd}")
        yield from (f"/api/leaderboard/{odd}/map.png?method={odd}&place={odd}", f"{root}/regions?threshold={odd}")


def test_no_address_makes_the_server_fail(site: Site) -> None:
    for path in paths(stored(site)):
        answer = site.client.get(path)
        assert answer.status_code < 500, (path, answer.status_code)
        answer.content.decode()

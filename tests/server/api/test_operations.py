"""Health, metrics, headers, and errors that no call raises itself."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.conftest import EMBEDDED, Check, Site, Sites, png
from tests.server.support.gated_models import GatedModels
from vitrine_server.log import JsonFormatter, OneLineFormatter


def test_alive_and_ready(sites: Sites, refused: Check) -> None:
    models = GatedModels()
    first, second = models.gate("load scenes-vit"), models.gate("load clip")
    with sites(models, loaded=False) as site:
        first.wait()
        assert site.get("/healthz") == {"status": "ok"}
        assert "scenes-vit is loading" in refused(site.client.get("/readyz"), 503, "not-ready")["detail"]
        first.open()
        second.wait()
        assert site.get("/readyz")["models"] == {"scenes-vit": "loaded", "clip": "loading", "reviews-bert": "loading"}
        second.open()
        site.wait_for_models(*EMBEDDED)
        assert site.get("/readyz") == {"status": "ready", "models": dict.fromkeys(EMBEDDED, "loaded")}


def test_a_hub_model_does_not_hold_the_others_up(sites: Sites) -> None:
    models = GatedModels()
    models.gate("fetch timm/listed")
    with sites(models, models="timm/listed") as site:
        assert site.get("/readyz")["status"] == "ready"


def test_a_model_that_hangs_in_a_thread_is_said(site: Site, refused: Check) -> None:
    """Nothing can end it: whoever watches the server has to know."""
    services = site.client.app.state.services  # type: ignore[attr-defined]
    (runner,) = services.worker.runners
    runner.host._waits_since = float("-inf")
    assert "hangs" in refused(site.client.get("/readyz"), 503, "not-ready")["detail"]
    refused(site.client.get("/healthz"), 503, "stuck")
    runner.host._waits_since = None
    assert site.get("/healthz") == {"status": "ok"}


def test_metrics(site: Site) -> None:
    for _ in range(2):  # the second one is there already
        site.ask(png(), wait=True)
    site.client.get("/api/explanations/a")
    site.client.get("/api/explanations/b")
    site.client.get("/nowhere")
    answer = site.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.text))  # type: ignore[no-untyped-call]
    assert all(family.name.startswith("vitrine_") and family.documentation for family in families)
    samples = {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}
    assert samples["vitrine_requests_total", "POST", "/api/explanations", "200"] == 2
    assert samples["vitrine_answers_reused_total",] == 1
    assert samples["vitrine_refusals_total", "no-such-explanation"] == 2
    assert samples["vitrine_server_memory_bytes",] > 0
    assert samples["vitrine_requests_total", "GET", "/api/explanations/{id}", "404"] == 2
    assert samples["vitrine_requests_total", "GET", "(none)", "404"] == 1
    assert samples["vitrine_explanation_seconds_count", "done"] == 1
    assert samples["vitrine_explanation_seconds_sum", "done"] > 0
    assert samples["vitrine_queue_depth",] == 0
    assert samples["vitrine_models_loaded",] == 3
    assert not [name for name, *_ in samples if name.endswith("_created")]


@pytest.mark.parametrize("path", ["/", "/image", "/api/models", "/api/nothing", "/static/core/api.js", "/healthz"])
def test_every_answer_is_guarded(site: Site, path: str) -> None:
    headers = site.client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["img-src"] == "'self' blob: data:"
    assert policy["frame-ancestors"] == policy["object-src"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-request-id"]


def test_long_answers_are_sent_packed_to_who_can_read_that(site: Site) -> None:
    for path in ("/api/methods", "/image"):
        packed, plain = site.client.get(path), site.client.get(path, headers={"Accept-Encoding": "identity"})
        assert packed.content == plain.content  # the client has unpacked it
        assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert int(packed.headers["content-length"]) < len(plain.content) / 2
        assert "content-encoding" not in plain.headers


def test_other_sites_may_not_write(site: Site, refused: Check) -> None:
    for method in ("POST", "DELETE"):
        answer = site.client.request(method, "/api/explanations", headers={"Sec-Fetch-Site": "cross-site"})
        refused(answer, 403, "cross-site")
    assert site.client.get("/api/models", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.fixture
def written(logged: list[logging.LogRecord], request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What the server's log writes with the formatter that a test is parametrised with."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(request.param)
    logging.getLogger("vitrine_server").addHandler(handler)
    yield stream
    logging.getLogger("vitrine_server").removeHandler(handler)


@pytest.mark.parametrize("written", [OneLineFormatter("%(message)s"), JsonFormatter()], ids=["lines", "json"], indirect=True)
def test_a_request_can_be_found_in_the_log(site: Site, written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrine_server.api.models.DocumentResponse", lambda *_: 1 / 0)
    for path in ("/healthz", "/api/quantities"):
        assert site.client.get(path, headers={"X-Request-ID": f"mine{path[-1]}"}).headers["x-request-id"] == f"mine{path[-1]}"
    invented = site.client.get("/healthz", headers={"X-Request-ID": "two words"}).headers["x-request-id"]
    text = written.getvalue()
    assert re.search(r"GET /healthz 200 [0-9.]+s.* \"?minez", text)
    assert re.search(r"This request failed .*mines", text)  # what is said on the way to an answer is found, too
    assert "two words" not in text
    assert invented in text


@pytest.mark.parametrize("written", [JsonFormatter()], indirect=True)
def test_a_log_for_programs_is_an_object_a_line(site: Site, written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrine_server.api.models.DocumentResponse", lambda *_: 1 / 0)
    site.client.get("/nowhere%0a%1b[31m\u2028", headers={"X-Request-ID": "mine"})
    site.client.get("/api/quantities")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    call = next(line for line in lines if line.get("request") == "mine")
    assert (call["level"], call["logger"]) == ("info", "vitrine_server.http.middleware")
    assert (call["method"], call["status"]) == ("GET", 404)
    assert datetime.fromisoformat(call["time"]).tzinfo is UTC
    assert any("ZeroDivisionError" in line.get("traceback", "") for line in lines)


def test_unknown_addresses_and_verbs(site: Site, refused: Check) -> None:
    refused(site.client.get("/nowhere"), 404, "not-found")
    refused(site.client.get("/static/nothing.js"), 404, "not-found")
    answer = site.client.put("/api/models")
    refused(answer, 405, "method-not-allowed")
    assert answer.headers["allow"]


def test_a_bug_is_a_problem_too(site: Site, refused: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrine_server.api.models.DocumentResponse", lambda *_: 1 / 0)
    document = refused(site.client.get("/api/quantities"), 500, "server-error")
    assert "ZeroDivision" not in document["detail"]


def test_the_calls_are_described(site: Site) -> None:
    described = site.get("/api/openapi.json")
    paths = described["paths"]
    assert {"/api/explanations", "/api/explanations/{id}/events", "/api/models", "/healthz"} <= set(paths)
    body = paths["/api/explanations"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    form = described["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"]
    fields = {"model", "image", "text", "text_pair", "source", "crop", "target", "prompt", "against", "read", "side", "methods"}
    assert fields | {"long_texts", "order", "precision", "window"} <= set(form)
    assert form["read"]["enum"] == ["logit", "probability"]

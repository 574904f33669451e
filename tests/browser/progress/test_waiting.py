"""The line of a tool that asks the server: how long, how far, Stop; and what it does while the server is away."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.support.visit import Visit

PATH = "/api/explanations/x/mix"


@pytest.fixture
def page(desk: Visit) -> Page:
    page = desk.open("/history", maps=False)
    page.evaluate(
        """async () => {
          const { Waiting } = await script("progress/waiting.js");
          window.waiting = new Waiting();
          window.waiting.node.id = "line";
          document.body.append(window.waiting.node);
          window.ask = () => {
            window.outcome = null;
            window.waiting.ask("/api/explanations/x/mix", {}).then(
              (answer) => (window.outcome = answer),
              (problem) => (window.outcome = `${problem.name}: ${problem.message}`),
            );
          };
        }"""
    )
    return page


def told(*events: tuple[str, Any]) -> dict[str, Any]:
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return {"status": 200, "headers": {"content-type": "text/event-stream"}, "body": body}


def answers(page: Page, *turns: Callable[[Route], Any]) -> None:
    """The server answers so, one request after the other."""
    left = list(turns)
    page.route(f"**{PATH}", lambda route: left.pop(0)(route))


def outcome(page: Page) -> Any:
    page.wait_for_function("() => window.outcome !== null")
    return page.evaluate("() => window.outcome")


def hold(_: Route) -> None:
    """It waits."""


def test_a_server_that_is_away_is_waited_for(desk: Visit, page: Page) -> None:
    seen: list[bool] = []
    page.route("**/healthz", lambda route: (seen.append(True), route.abort() if len(seen) == 1 else route.continue_())[1])
    answers(page, lambda route: route.abort(), lambda route: route.fulfill(**told(("done", {"value": 7}))))
    page.evaluate("() => window.ask()")
    expect(page.locator("#line")).to_contain_text("Connection lost, trying again")
    assert outcome(page) == {"value": 7}
    assert len(seen) == 2
    desk.refused("ERR_FAILED", "ERR_FAILED")
    expect(page.locator("#line")).to_be_hidden()


def test_what_the_server_did_not_finish_is_asked_again(page: Page) -> None:
    interrupted = {"type": "urn:vitrine:problem:interrupted", "title": "Interrupted", "status": 503, "detail": "It was stopped."}
    answers(page, lambda route: route.fulfill(**told(("failed", interrupted))), lambda route: route.fulfill(**told(("done", 1))))
    page.evaluate("() => window.ask()")
    assert outcome(page) == 1


def test_a_refusal_is_no_loss(desk: Visit, page: Page) -> None:
    problem = {"type": "urn:vitrine:problem:wrong", "title": "Wrong", "status": 422, "detail": "No such rule."}
    answers(page, lambda route: route.fulfill(status=422, headers={"content-type": "application/problem+json"}, body=json.dumps(problem)))
    page.evaluate("() => window.ask()")
    assert outcome(page) == "Error: No such rule."
    desk.refused(422)


def test_who_stops_may_ask_again(page: Page) -> None:
    answers(page, hold, lambda route: route.fulfill(**told(("done", "there"))))
    page.evaluate("() => window.ask()")
    expect(page.locator("#line")).to_contain_text("The model is asked · 2 s so far")
    with page.expect_event("requestfailed"):  # the server hears that nobody waits
        page.get_by_role("button", name="Stop").click()
    expect(page.locator("#line")).to_contain_text("Stopped")
    assert page.evaluate("() => window.outcome") is None
    page.get_by_role("button", name="Ask again").click()
    assert outcome(page) == "there"


def test_nobody_waits_any_more(page: Page) -> None:
    answers(page, hold)
    with page.expect_request(f"**{PATH}"):
        page.evaluate("() => window.ask()")
    with page.expect_event("requestfailed"):
        page.evaluate("() => window.waiting.drop()")
    assert str(outcome(page)).startswith("AbortError")


def test_a_busy_server_is_asked_again_after_as_long_as_it_says(desk: Visit, page: Page) -> None:
    busy = {"type": "urn:vitrine:problem:queue-full", "title": "Queue full", "status": 429, "detail": "Many wait."}
    kind = {"content-type": "application/problem+json"}
    answers(
        page,
        lambda route: route.fulfill(status=429, headers={**kind, "retry-after": "300"}, body=json.dumps(busy)),
        lambda route: route.fulfill(status=429, headers={**kind, "retry-after": "1"}, body=json.dumps(busy)),
        lambda route: route.fulfill(**told(("done", "there"))),
        lambda route: route.fulfill(status=429, headers={**kind, "retry-after": "601"}, body=json.dumps(busy)),
    )
    page.evaluate("() => window.ask()")
    expect(page.locator("#line")).to_contain_text("The server has many questions: asking again in 300 s")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#line")).to_contain_text("Stopped")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator("#line")).to_contain_text("asking again in 1 s")
    assert outcome(page) == "there"
    page.evaluate("() => window.ask()")
    assert outcome(page) == "Error: Many wait."  # longer than anybody waits
    desk.refused(429, 429, 429)

"""A client that holds every JSON answer and every event of a server against the schema of its call."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from httpx import Response
from pydantic import TypeAdapter

from vitrine_server.api.collections import CollectionEvent
from vitrine_server.api.models import LoadingEvent
from vitrine_server.api.runs import RunEvent
from vitrine_server.api.slices import SlicesEvent
from vitrine_server.app import API
from vitrine_server.schemas.base import ProblemDocument
from vitrine_server.schemas.explanations import ExplanationEvent

EVENTS = {
    "/api/explanations/{id}/events": ExplanationEvent,
    "/api/models/events": LoadingEvent,
    "/api/runs/{id}/events": RunEvent,
    "/api/collections/{id}/events": CollectionEvent,
    "/api/slices/{id}/events": SlicesEvent,
}
ROUTES = [route for module in API for route in module.router.routes if isinstance(route, APIRoute)]


def route_of(method: str, path: str) -> APIRoute | None:
    """The call of the API that answers a request."""
    return next((route for route in ROUTES if method in route.methods and route.path_regex.match(path)), None)


@cache
def adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def model_of(route: APIRoute, status: int) -> Any:
    """The schema that a call declares for a status."""
    return route.responses.get(status, {}).get("model", route.response_model)


def check_event(path: str, event: dict[str, str]) -> None:
    """Hold an event, whose data is JSON text, against the schema of the stream at this path."""
    route = route_of("GET", path.partition("?")[0])
    assert route is not None
    adapter(EVENTS[route.path]).validate_python(event, strict=True)


class CheckedClient(TestClient):
    """As its base; raises ValidationError where a JSON answer is not what its call declares. ``checked``: the calls that were."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"client": ("127.0.0.1", 50000), **options})  # somebody at this machine
        self.checked: set[tuple[str, str]] = set()

    def request(self, method: str, url: Any, **options: Any) -> Response:  # type: ignore[override]
        answer = super().request(method, url, **options)
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if kind == "application/problem+json":
            adapter(ProblemDocument).validate_json(answer.content, strict=True)
        elif kind == "application/json":
            self.check(answer)
        return answer

    def check(self, answer: Response) -> None:
        """Hold a JSON answer against the schema of its call."""
        route = route_of(answer.request.method, answer.request.url.path)
        if route is not None:
            adapter(model_of(route, answer.status_code)).validate_json(answer.content, strict=True)
            self.checked.add((answer.request.method, route.path))

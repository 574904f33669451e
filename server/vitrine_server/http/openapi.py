"""Additions to ``/api/openapi.json`` that FastAPI does not find out itself: files, streams of events, and refusals."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import TypeAdapter

from vitrine_server.schemas.base import ProblemDocument

ADDRESS = "/api/openapi.json"
Responses = dict[int | str, dict[str, Any]]
_TO_COMPONENTS = "#/components/schemas/{model}"
#: FastAPI's own answer to what it refuses; ours are problem documents.
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def file_of(media_type: str) -> Responses:
    """Return the OpenAPI ``responses`` of a call that answers with a file of this media type."""
    return {200: {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}}


def events_of(message: Any) -> Responses:
    """Return the OpenAPI ``responses`` of a call that answers with server-sent events of the type ``message``."""
    schema = TypeAdapter(message).json_schema(ref_template=_TO_COMPONENTS)
    return {200: {"content": {"text/event-stream": {"itemSchema": schema}}}}


def complete_openapi(app: FastAPI) -> None:
    """Add what FastAPI does not find out itself to the OpenAPI document of ``app``, when it is first requested, and add the route that
    serves it.
    """
    found_out = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = found_out()
            schemas: dict[str, Any] = document["components"]["schemas"]
            problem = TypeAdapter(ProblemDocument).json_schema(ref_template=_TO_COMPONENTS)
            schemas["ProblemDocument"] = problem
            for call in (call for path in document["paths"].values() for call in path.values()):
                _complete(call, schemas)
            for name in _NOT_OURS:
                schemas.pop(name, None)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    @app.get(ADDRESS, include_in_schema=False)
    async def describe(request: Request) -> Response:  # FastAPI's own call finds it out on the event loop, for seconds
        prefix = request.scope.get("root_path", "").rstrip("/")
        servers = {"servers": [{"url": prefix}]} if prefix else {}
        answer: Response = await request.app.state.services.kept.answer(request, ("openapi", prefix), lambda: {**app.openapi(), **servers})
        return answer


def _complete(call: dict[str, Any], schemas: dict[str, Any]) -> None:
    responses: dict[str, Any] = call["responses"]
    responses.pop("422", None)
    refusal = {"$ref": _TO_COMPONENTS.format(model="ProblemDocument")}
    responses["default"] = {"description": "A refusal.", "content": {"application/problem+json": {"schema": refusal}}}
    for content in (content for response in responses.values() for content in response.get("content", {}).values()):
        for name, schema in content.get("itemSchema", {}).pop("$defs", {}).items():
            schemas.setdefault(name, schema)

"""What ``/api/openapi.json`` says beside what FastAPI finds out itself: files, streams of events, and refusals."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter

from server.schemas.base import ProblemDocument

Responses = dict[int | str, dict[str, Any]]
_TO_COMPONENTS = "#/components/schemas/{model}"
#: FastAPI's own answer to what it refuses; ours are problem documents.
_NOT_OURS = ("HTTPValidationError", "ValidationError")


def file_of(media_type: str) -> Responses:
    """The ``responses`` of a call that answers with a file."""
    return {200: {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}}


def events_of(message: Any) -> Responses:
    """The ``responses`` of a call that answers with server-sent events of the type ``message``."""
    schema = TypeAdapter(message).json_schema(ref_template=_TO_COMPONENTS)
    return {200: {"content": {"text/event-stream": {"itemSchema": schema}}}}


def complete_openapi(app: FastAPI) -> None:
    """Complete the description of ``app``, once it is asked for."""
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


def _complete(call: dict[str, Any], schemas: dict[str, Any]) -> None:
    responses: dict[str, Any] = call["responses"]
    responses.pop("422", None)
    refusal = {"$ref": _TO_COMPONENTS.format(model="ProblemDocument")}
    responses["default"] = {"description": "A refusal.", "content": {"application/problem+json": {"schema": refusal}}}
    for content in (content for response in responses.values() for content in response.get("content", {}).values()):
        for name, schema in content.get("itemSchema", {}).pop("$defs", {}).items():
            schemas.setdefault(name, schema)

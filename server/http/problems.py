"""Errors as ``application/problem+json`` (RFC 9457): what was wrong, and what to send instead."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

log = logging.getLogger(__name__)
_CLIENT_CLOSED_REQUEST = 499  # as nginx logs it; there is no standard status


class Problem(Exception):
    """One refusal. ``slug`` names its type for machines, ``detail`` says what was wrong, ``send`` what to send instead."""

    def __init__(self, status: int, slug: str, detail: str, *, send: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        detail = detail if detail.endswith((".", "?", "!")) else f"{detail}."
        super().__init__(detail)
        self.status, self.slug, self.detail, self.send, self.headers = status, slug, detail, send, dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        """The members of the problem document."""
        document = {
            "type": f"urn:vitrine:problem:{self.slug}",
            "title": self.slug.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
        }
        return document if self.send is None else {**document, "send": self.send}

    def response(self) -> JSONResponse:
        """The HTTP answer."""
        return JSONResponse(self.to_json(), self.status, self.headers, media_type="application/problem+json")


def from_json(document: Mapping[str, Any]) -> Problem:
    """The problem that ``to_json`` wrote."""
    slug = str(document["type"]).rpartition(":")[2]
    return Problem(int(document["status"]), slug, str(document["detail"]), send=document.get("send"))


def nearest(word: str, known: Iterable[str], count: int = 5) -> list[str]:
    """The ``count`` known names that look most like ``word``; case does not matter."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=count, cutoff=0.5)
    inside = [name for name in lowered if len(word) > 2 and word.lower() in name and name not in close]
    return [lowered[name] for name in (close + inside)[:count]]


def suggestion(word: str, known: Iterable[str]) -> str:
    """``did you mean ...? `` where something is near, else nothing."""
    close = nearest(word, known)
    return f"Did you mean {', '.join(close)}? " if close else ""


def _wants_page(request: Request) -> bool:
    """Whether a person's browser asks for a page, and not a program for an answer of the API."""
    elsewhere = request.url.path.startswith(("/api/", "/static/"))
    return request.method == "GET" and not elsewhere and "text/html" in request.headers.get("accept", "")


def _answer(request: Request, problem: Problem) -> Response:
    page = getattr(request.app.state, "problem_page", None)
    return page(problem) if page is not None and _wants_page(request) else problem.response()


async def _on_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return _answer(request, problem)


async def _on_http(request: Request, error: Exception) -> Response:
    """404, 405 and whatever else the framework raises."""
    assert isinstance(error, HTTPException)
    path, status = request.url.path, error.status_code
    slug = HTTPStatus(status).phrase.lower().replace(" ", "-")
    details = {404: f"There is nothing at {path}.", 405: f"{path} does not take {request.method}."}
    send = "The calls are listed at /api/openapi.json." if status in details and not _wants_page(request) else None
    return _answer(request, Problem(status, slug, details.get(status, str(error.detail)), send=send, headers=error.headers))


async def _on_validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    parts = [f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'body'}: {fault['msg']}" for fault in error.errors()]
    return Problem(422, "invalid-request", "; ".join(parts), send="The calls are described at /api/openapi.json.").response()


async def _on_hang_up(_: Request, error: Exception) -> Response:
    """Whoever asked left before the whole request was sent: nobody reads an answer, and nothing went wrong here."""
    assert isinstance(error, ClientDisconnect)
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def _on_crash(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(request, Problem(500, "server-error", "The server failed on this request; its log says why."))


def add_handlers(app: FastAPI) -> None:
    """Answer every error of ``app`` as problem+json; as the page ``app.state.problem_page(problem)`` where a browser asks for a page."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(ClientDisconnect, _on_hang_up)
    app.add_exception_handler(Exception, _on_crash)

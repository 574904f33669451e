"""Errors as ``application/problem+json`` (RFC 9457): what was wrong, and what to send instead."""

from __future__ import annotations

import difflib
import errno
import logging
import secrets
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from explainers.errors import ran_out_of_memory
from vitrine_server.http.prefix import path_within
from vitrine_server.json_text import encodable

log = logging.getLogger(__name__)
LOGIN = "/login"  # the one page that a form is sent to
OUT_OF_MEMORY = "out-of-memory"  # the slug of the Problem for memory that ran out: a later request may find more of it
_CLIENT_CLOSED_REQUEST = 499  # as nginx logs it; there is no standard status


class Problem(Exception):
    """A refusal, answered as problem+json with the HTTP ``status``: ``slug`` names its type for programs, ``detail`` says what was wrong,
    ``send`` what to send instead.

    failure_report for a model that could not be opened, a report that its owner may send to others; it is in no answer
    """

    def __init__(self, status: int, slug: str, detail: str, *, send: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        detail = detail if detail.endswith((".", "?", "!")) else f"{detail}."
        super().__init__(detail)
        self.status, self.slug, self.headers = status, slug, dict(headers or {})
        self.detail, self.send = encodable(detail), None if send is None else encodable(send)
        self.failure_report: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # it goes from one process to another
        return _rebuild, (self.status, self.slug, self.detail, self.send, self.headers, self.failure_report)

    def to_json(self) -> dict[str, Any]:
        """Return the problem document (RFC 9457) as JSON."""
        document = {
            "type": f"urn:vitrine:problem:{self.slug}",
            "title": self.slug.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
        }
        return document if self.send is None else {**document, "send": self.send}

    def response(self) -> JSONResponse:
        """Return the problem as an HTTP response: its JSON, status and headers."""
        return JSONResponse(self.to_json(), self.status, self.headers, media_type="application/problem+json")


def _rebuild(status: int, slug: str, detail: str, send: str | None, headers: dict[str, str], failure_report: str | None) -> Problem:
    problem = Problem(status, slug, detail, send=send, headers=headers)
    problem.failure_report = failure_report
    return problem


def from_json(document: Mapping[str, Any]) -> Problem:
    """Return the problem in ``document``, the JSON that ``to_json`` wrote."""
    slug = str(document["type"]).rpartition(":")[2]
    return Problem(int(document["status"]), slug, str(document["detail"]), send=document.get("send"))


def nearest_names(word: str, known: Iterable[str], count: int = 5) -> list[str]:
    """List up to ``count`` known names that look most like ``word``; case does not matter."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=count, cutoff=0.5)
    inside = [name for name in lowered if len(word) > 2 and word.lower() in name and name not in close]
    return [lowered[name] for name in (close + inside)[:count]]


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return "Did you mean ...? " with the known names similar to ``word``, or "" if there are none."""
    close = nearest_names(word, known)
    return f"Did you mean {', '.join(close)}? " if close else ""


def _wants_page(request: Request) -> bool:
    """Return whether the ``request`` comes from a browser that asks for a page, rather than from a program that asks for an answer of the
    API.
    """
    elsewhere = path_within(request.scope).startswith(("/api/", "/static/"))
    is_page = request.method == "GET" or path_within(request.scope) == LOGIN
    return is_page and not elsewhere and "text/html" in request.headers.get("accept", "")


def answer_to(request: Request, problem: Problem) -> Response:
    """Make the response to ``request``, which is refused with ``problem``: a page for a browser, the problem document for programs."""
    page = getattr(request.app.state, "problem_page", None)
    return page(problem, request.url) if page is not None and _wants_page(request) else problem.response()


async def _on_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    request.app.state.metrics.refused(problem.slug)
    return answer_to(request, problem)


async def _on_http(request: Request, error: Exception) -> Response:
    """Answer ``request`` with ``error``, which the framework raised, such as 404 or 405, as a problem."""
    assert isinstance(error, HTTPException)
    path, status = request.scope["path"], error.status_code
    slug = HTTPStatus(status).phrase.lower().replace(" ", "-")
    details = {404: f"There is nothing at {path}.", 405: f"{path} does not take {request.method}."}
    send = "The calls are listed at /api/openapi.json." if status in details and not _wants_page(request) else None
    return answer_to(request, Problem(status, slug, details.get(status, str(error.detail)), send=send, headers=error.headers))


async def _on_validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    for fault in error.errors():
        if "send" in (says := fault.get("ctx", {})):  # a check of our own: see vitrine_server.schemas.question
            return Problem(422, fault["type"], says["detail"], send=says["send"]).response()
    parts = [f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'body'}: {fault['msg']}" for fault in error.errors()]
    return Problem(422, "invalid-request", "; ".join(parts), send="The calls are described at /api/openapi.json.").response()


async def _on_hang_up(_: Request, error: Exception) -> Response:
    """Answer a client that disconnected before its request was complete (``error``) with status 499, which only the log shows."""
    assert isinstance(error, ClientDisconnect)
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


def unforeseen(error: Exception, what: str, slug: str, *, send: str | None = None, error_id: str | None = None) -> Problem:
    """Make the Problem 500 of the type ``slug`` for an unexpected ``error``: ``what`` failed, and the id under which the log has the
    reason.

    The error's own message goes to the log only, as it may name files, or hold anything else that a model's code knows.
    """
    error_id = error_id or secrets.token_hex(6)
    log.error("%s failed (%s)", what, error_id, exc_info=error)
    return Problem(500, slug, f"{what} failed for an unexpected reason; the server's log has it under {error_id}.", send=send)


def out_of_memory(detail: str, send: str) -> Problem:
    """Return the Problem 503 for memory that ran out, of the GPU or of the machine, with the sentences ``detail`` and ``send`` (what to
    do).
    """
    return Problem(503, OUT_OF_MEMORY, detail, send=send)


def answer_to_crash(request: Request, error: Exception, request_id: str) -> Response:
    """Make the response to a request that ended in an ``error`` which nothing else handles; the log has it under ``request_id``."""
    if ran_out_of_memory(error):
        log.warning("memory ran out (%s)", request_id, exc_info=error)
        return answer_to(
            request, out_of_memory("The server does not have enough memory for this.", "Ask for less, or send a smaller file.")
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        log.error("the disk is full (%s)", request_id, exc_info=error)
        detail = "The disk of the server is full, so this cannot be taken."
        return answer_to(
            request, Problem(507, "disk-full", detail, send="Send the same request again after the operator of the server has made room.")
        )
    return answer_to(request, unforeseen(error, "This request", "server-error", error_id=request_id))


def add_handlers(app: FastAPI) -> None:
    """Answer every refusal of ``app`` as problem+json; to a browser that asks for a page, as
    ``app.state.problem_page(problem, address)``.
    """
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(ClientDisconnect, _on_hang_up)

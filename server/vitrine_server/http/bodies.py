"""Readers of request bodies: JSON and forms, each with a limit on its bytes, and all of it text that can be encoded."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import Request, Response, UploadFile
from fastapi.routing import APIRoute
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, MutableHeaders
from starlette.datastructures import UploadFile as ReadUpload
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.types import Message

from vitrine_server.http.limits import (
    MOST_BYTES_OF_FIELDS,
    MOST_BYTES_OF_JSON,
    MOST_BYTES_OF_TOKENS,
    MOST_FRAMES,
    Limit,
    limits,
    size_limit,
)
from vitrine_server.http.problems import Problem, suggestion
from vitrine_server.http.queries import form_of, refuse_unknown_parameters
from vitrine_server.json_text import NotJsonError, decode_json
from vitrine_server.settings import Settings

_DRAIN_FACTOR = 10  # a body this many times over the limit is read and dropped, so that the client gets to read the answer
_JSON = re.compile(r"application/([\w.-]+\+)?json", re.ASCII | re.IGNORECASE)
_BOUNDARY = re.compile(rb"[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]", re.ASCII)  # RFC 2046, section 5.1.1
_UTF8 = {b"", b"utf-8", b"utf8", b"us-ascii"}  # names of encodings whose bytes are those of UTF-8
_SEND_FORM = "Send a multipart/form-data form, its text as UTF-8."


class BodyRoute(APIRoute):
    """A route whose body, if it has one, is a form or JSON of at most ``most`` bytes; it is read within limits before FastAPI sees it."""

    most = MOST_BYTES_OF_JSON

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler of a route, wrapped so that the body is read first.

        Raises Problem 413 over the limit and 422 for a body that is no JSON; for a form 415 for another type of body, 400 for a broken one,
        and 422 for fields that the call lacks or takes in another way.
        """
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def with_json(request: Request) -> Response:
            kind, _, _ = request.headers.get("content-type", "").partition(";")
            body = await _read(request, size_limit("json-too-large", self.most))
            document = None
            if body and _JSON.fullmatch(kind.strip()):
                try:
                    document = decode_json(body)
                except NotJsonError as error:
                    raise Problem(422, "invalid-request", f"The body cannot be read as JSON: {error}.", send="Send JSON.") from None
            return await handle(_ReadRequest(request, body, document))

        async def with_form(request: Request) -> Response:
            refuse_unknown_parameters(request)
            async with _read_form(request, request.app.state.services.settings) as form:
                _check_fields(form, self)
                return await handle(_ReadRequest(request, form=form))

        return with_form if form_of(self) else with_json


class TokensRoute(BodyRoute):
    """A route whose JSON body may have a number for each token, and is therefore allowed more bytes."""

    most = MOST_BYTES_OF_TOKENS


class _ReadRequest(Request):
    """A request, like ``request``, whose ``body`` has been read, as a ``document`` of JSON or as a ``form`` if it is one."""

    def __init__(self, request: Request, body: bytes = b"", document: Any = None, form: FormData | None = None) -> None:
        super().__init__(request.scope, request.receive)
        self._sent, self._document, self._fields = body, document, form

    async def body(self) -> bytes:
        return self._sent

    async def json(self) -> Any:
        return self._document

    async def form(self, **_: Any) -> FormData:  # type: ignore[override]
        """Return the form, with a space for each empty field: FastAPI treats an empty field as one that was not sent."""
        assert self._fields is not None
        return FormData([(name, value if value != "" else " ") for name, value in self._fields.multi_items()])


def _check_fields(form: FormData, route: APIRoute) -> None:
    """Raise Problem 422 for a field of ``form`` that the call ``route`` lacks, that is sent too often, or that is a file instead of a text
    or a text instead of a file.
    """
    known = form_of(route)
    for name in form:
        if name in (parameter.alias for parameter in route.dependant.query_params) and name not in known:
            send = f"Send it in the address: {', '.join(route.methods or ())} {route.path}?{name}=..."
            raise Problem(422, "unknown-field", f"{name} is a query parameter, not a field of the form.", send=send)
        if name not in known:
            send = f"{suggestion(name, known)}Fields: {', '.join(known)}."
            raise Problem(422, "unknown-field", f"There is no field {name!r}.", send=send)
    for name, field in known.items():
        values, wanted = form.getlist(name), field.annotation
        is_file, is_list = UploadFile in get_args(wanted), get_origin(wanted) in (list, tuple)
        is_text = any(isinstance(value, str) for value in values)
        if is_file and values and (is_text or (len(values) > 1 and not is_list)):
            what = "is text" if is_text else "was sent several times"
            send = f"Send {name} as {'a file' if is_list else 'one file'} of the form; addresses are not fetched."
            raise Problem(422, "not-a-file", f"The field {name} {what}.", send=send)
        if not is_file and any(not isinstance(value, str) for value in values):
            raise Problem(422, "not-text", f"The field {name} is a file.", send=f"Send {name} as text.")
        if len(values) > 1 and not is_list:
            raise Problem(422, "repeated-field", f"The field {name} was sent {len(values)} times.", send=f"Send {name} once.")


async def _read(request: Request, limit: Limit) -> bytes:
    """Read the whole body of a request and return it. Raises the Problem of ``limit`` if it is longer."""
    receive = _count_bytes(request, limit.most, limit.problem)
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _count_bytes(request: Request, most: int, refuse: Callable[[], Exception]) -> Callable[[], Awaitable[Message]]:
    """Return an async function without arguments that gives the next part of the body of ``request`` as an ASGI message; it raises the
    error that ``refuse()`` returns once more than ``most`` bytes have arrived.
    """
    stream = request.stream()
    count = 0

    async def receive() -> Message:
        nonlocal count
        body = await anext(stream, b"")
        count += len(body)
        if count > most:
            async for more in stream:
                count += len(more)
                if count > most * _DRAIN_FACTOR:
                    break
            raise refuse()
        return {"type": "http.request", "body": body, "more_body": bool(body)}

    return receive


@asynccontextmanager
async def _read_form(request: Request, settings: Settings) -> AsyncIterator[FormData]:
    """Read the form of ``request`` within limits, for the time of this context; its temporary files are removed afterwards.

    Raises Problem 413 over the limit, 415 if the body is no form or declares another encoding than UTF-8, 400 if it is broken or holds text
    that is not UTF-8.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind.strip() not in {b"multipart/form-data", b"application/x-www-form-urlencoded"}:
        said = kind.decode("latin-1").strip() or "of no stated type"
        raise Problem(415, "not-a-form", f"The body is {said}.", send="Send a multipart/form-data form.")
    if options.get(b"charset", b"").strip().lower() not in _UTF8:
        detail = f"The form says that it is encoded as {options[b'charset'].decode('latin-1')!r}."
        raise Problem(415, "unknown-charset", detail, send="Send text as UTF-8.")
    fields = 2 * (settings.max_methods + settings.max_targets) + 50  # who sends a little too many is told which
    if kind.strip() == b"application/x-www-form-urlencoded":
        yield await _read_urlencoded(request, fields)
        return
    form = await _read_multipart(request, settings, options.get(b"boundary", b""), fields)
    try:
        yield _decode(form)
    finally:
        await form.close()


def _broken(why: str) -> Problem:
    return Problem(400, "broken-form", f"The form cannot be read: {why}", send=_SEND_FORM)


async def _read_urlencoded(request: Request, fields: int) -> FormData:
    body = await _read(request, size_limit("form-too-large", MOST_BYTES_OF_FIELDS))
    try:
        sent: list[tuple[str, str | ReadUpload]] = []
        sent += parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=fields)
    except UnicodeDecodeError:
        raise _broken("its text is not UTF-8") from None
    except ValueError:
        raise _broken(f"it has more than {fields} fields") from None
    return FormData(sent)


async def _read_multipart(request: Request, settings: Settings, boundary: bytes, fields: int) -> FormData:
    """Return the multipart form in ``request``, of at most ``fields`` fields between lines of ``boundary``. Its texts have one character
    for each byte: the parser would guess at texts that are not UTF-8. Raises a Problem for a form that is broken or too large.
    """
    if not _BOUNDARY.fullmatch(boundary):
        raise _broken("its Content-Type names no boundary" if not boundary else "its boundary is not one of RFC 2046")
    too_large = False

    def refuse() -> Exception:
        nonlocal too_large
        too_large = True
        return MultiPartException("too large")  # the one exception on which the parser drops its temporary files

    limit = settings.max_upload_bytes + MOST_BYTES_OF_FIELDS
    scope = {**request.scope, "headers": list(request.scope["headers"])}
    MutableHeaders(scope=scope)["content-type"] = f'multipart/form-data; charset=latin-1; boundary="{boundary.decode("latin-1")}"'
    try:
        form = Request(scope, _count_bytes(request, limit, refuse)).form(max_files=MOST_FRAMES + 4, max_fields=fields, max_part_size=limit)
        return await form
    except HTTPException as error:
        raise limits(settings)["upload"].problem() if too_large else _broken(error.detail) from None


def _decode(form: FormData) -> FormData:
    """Decode the texts and names in ``form`` as UTF-8 and return the form with them. Raises Problem 400 if one is not UTF-8."""

    def decoded(text: str) -> str:
        return text.encode("latin-1").decode()

    try:
        items: list[tuple[str, str | ReadUpload]] = []
        for name, value in form.multi_items():
            if isinstance(value, ReadUpload):
                value.filename = decoded(value.filename or "")
            items.append((decoded(name), decoded(value) if isinstance(value, str) else value))
    except UnicodeDecodeError:
        raise _broken("its text is not UTF-8") from None
    return FormData(items)

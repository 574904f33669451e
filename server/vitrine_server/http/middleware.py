"""Around every answer: security headers, a request id, one line in the log, one count in the metrics; and who may change anything."""

from __future__ import annotations

import logging
import re
import secrets
import time
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitrine_server.http.gate import SAFE_METHODS
from vitrine_server.http.hosts import check_name, check_origin, is_for_this_machine_alone
from vitrine_server.http.metrics import Metrics
from vitrine_server.http.prefix import path_within, scope_below
from vitrine_server.http.problems import Problem, answer_to, answer_to_crash
from vitrine_server.log import REQUEST
from vitrine_server.settings import Settings

log = logging.getLogger(__name__)

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' blob: data:",
        "style-src 'self'",
        "script-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PLAIN_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Surroundings:
    """ASGI middleware around ``app`` that adds security headers and a request id, checks the origin of changes, logs each request, counts
    it in ``metrics``, and answers errors.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self.app, self.metrics, self.settings = app, metrics, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request in ``scope``, pass it on to the application, and log and count its answer, which gets the security headers and
        an id.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        scope = scope_below(scope, self.settings.path_prefix)
        sent = Headers(scope=scope)
        sent_id = sent.get("x-request-id", "")
        request_id = sent_id if _PLAIN_ID.fullmatch(sent_id) else secrets.token_hex(6)
        token = REQUEST.set(request_id)
        status, is_begun = 500, False

        async def answer(message: Message) -> None:
            nonlocal status, is_begun
            if message["type"] == "http.response.start":
                status, is_begun = message["status"], True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = request_id
                if path_within(scope).startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            is_change = scope["method"] not in SAFE_METHODS
            if is_change or is_for_this_machine_alone(self.settings):
                check_name(scope, self.settings)
            if is_change:
                check_origin(scope, self.settings)
            await self.app(scope, receive, answer)
        except Problem as refusal:  # of these checks and the gate: the application answers its own
            self.metrics.refused(refusal.slug)
            await answer_to(Request(scope), refusal)(scope, receive, answer)
        except Exception as error:
            if is_begun:
                raise  # the connection is cut, so that no client takes half an answer for the whole
            await answer_to_crash(Request(scope), error, request_id)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "(none)")
            self.metrics.request(scope["method"], route, status)
            path = quote(path_within(scope), errors="replace")  # a line break in it would make a line of its own
            seconds = round(time.monotonic() - began, 3)
            facts = {"method": scope["method"], "path": path, "status": status, "seconds": seconds}
            log.info("%s %s %d %.3fs", *facts.values(), extra={"facts": facts})
            REQUEST.reset(token)

"""Before every call: who asks, whether they may come in, whether anything may be asked, and how often."""

from __future__ import annotations

import math
from ipaddress import ip_address, ip_network
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from vitrine_server.http.access import LOGIN_COOKIE, Access, token_needed
from vitrine_server.http.hosts import are_apart, note_peer
from vitrine_server.http.problems import LOGIN, Problem
from vitrine_server.http.rates import Rate
from vitrine_server.http.visitors import COOKIE, HEADER, Visitor, VisitorSecrets, cookie_header, cookie_name, site_of
from vitrine_server.settings import Settings

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OPEN = ("/healthz", "/readyz", LOGIN)  # to whoever has no token
_BEARER = "bearer "


class Gate:
    """ASGI middleware that decides who may ask. It notes the visitor in the scope of the request, raises a Problem for one that is refused,
    and gives a secret to visitors without one.

    access   the check of the token, for a server that has one
    """

    def __init__(self, app: ASGIApp, settings: Settings, visitor_secrets: VisitorSecrets | None, access: Access | None) -> None:
        """Wrap ``app``, the application, in the checks that ``settings`` ask for; ``access`` checks the token, if one is needed;
        ``visitor_secrets`` is needed if visitors are separate, or a browser has to log in.
        """
        self._app, self._settings, self._access = app, settings, access
        self._secrets = visitor_secrets if are_apart(settings) else None
        self._proxies = [ip_network(proxy) for proxy in settings.trusted_proxies]
        self._visitor_rate, self._address_rate = Rate(settings.visitor_rate), Rate(settings.address_rate)
        let_in = cast(Any, self._let_in)  # uvicorn's types of what ASGI passes are not those of starlette
        self._with_client = cast(ASGIApp, ProxyHeadersMiddleware(let_in, list(settings.trusted_proxies)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request in ``scope``, note its visitor in it, and pass it on to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note_peer(scope)
        scope["vitrine.user"] = self._user(scope)
        await self._with_client(scope, receive, send)  # the client's address and TLS, as a proxy tells them

    def _user(self, scope: Scope) -> str | None:
        """Return the user whom a trusted proxy names in the header of the settings, or None. The header is removed from the scope of the
        request in any case, as anybody else could have sent it.
        """
        name = self._settings.user_header.lower().encode()
        if not name:
            return None
        values = [value for header, value in scope["headers"] if header == name and value.strip()]
        scope["headers"] = [(header, value) for header, value in scope["headers"] if header != name]
        if len(values) != 1 or not self._is_proxy((scope.get("client") or ("",))[0]):
            return None
        return str(values[0], "latin-1").strip()

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self._proxies)
        except ValueError:
            return False

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, cookies, path = Headers(scope=scope), Request(scope).cookies, scope["path"].removeprefix(scope.get("root_path", ""))
        address = (scope.get("client") or ("",))[0]
        is_change = scope["method"] not in SAFE_METHODS
        self._check_access(scope, headers, cookies, path, site_of(address))
        if self._settings.read_only and is_change and path != LOGIN:
            detail = "This server only shows stored explanations and takes no questions."
            raise Problem(403, "read-only", detail, send="Run your own server to ask.")
        is_page = scope["method"] == "GET" and not path.startswith(("/api/", "/static/", "/healthz", "/readyz", "/metrics"))
        visitor, secret = self._visitor(scope, headers, cookies, address, is_page or scope["method"] == "POST")
        scope["visitor"] = visitor
        if not visitor.is_alone and scope["method"] == "POST" and path.startswith("/api/"):
            self._check_rate(visitor)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and secret is not None:
                sent = MutableHeaders(scope=message)
                sent.append("Set-Cookie", cookie_header(COOKIE, secret, scope))
                if not is_page:  # scripts read headers, and cookies as these they do not
                    sent[HEADER] = secret
            await send(message)

        await self._app(scope, receive, answer)

    def _check_access(self, scope: Scope, headers: Headers, cookies: dict[str, str], path: str, address: str) -> None:
        """Raise Problem 401 for a request to ``path`` from the IP ``address`` without the token in its ``headers`` or ``cookies``, or
        without the user that a proxy must name.
        """
        if (self._access is None and not self._settings.user_header) or path in _OPEN or path.startswith("/static/"):
            return
        if scope["vitrine.user"] is not None:
            return
        if self._access is None:
            detail = "This server accepts only people who come through its proxy and are logged in there"
            raise Problem(401, "user-needed", detail, send="Use the address that the operator of the server gave you.")
        authorization = headers.get("authorization", "")
        if authorization.lower().startswith(_BEARER):
            self._access.check(authorization[len(_BEARER) :].strip(), address)
        elif not self._access.is_login(cookies.get(cookie_name(LOGIN_COOKIE, scope), "")):
            raise token_needed()

    def _visitor(
        self, scope: Scope, headers: Headers, cookies: dict[str, str], address: str, gets_secret: bool
    ) -> tuple[Visitor, str | None]:
        """Return the visitor of the request in ``scope``, from its ``headers``, its ``cookies`` or the client's IP ``address``, and a new
        secret if the request carried none and ``gets_secret``, else None.
        """
        if self._secrets is None:
            return Visitor(turn=address, address=address, is_alone=True), None
        site, user = site_of(address), scope["vitrine.user"]
        if user is not None:
            return Visitor(f"user {user}", f"user {user}", site), None
        if (sent := headers.get(HEADER)) is not None:
            owner = self._secrets.read(sent)
            if owner is None:
                raise Problem(
                    401,
                    "unknown-visitor",
                    f"{HEADER} holds a secret that this server did not give out.",
                    send=f"Leave {HEADER} out to get one.",
                )
            return Visitor(owner, owner, site), None
        owner = self._secrets.read(cookies.get(cookie_name(COOKIE, scope), ""))
        if owner is not None:
            return Visitor(owner, owner, site), None
        if not gets_secret:
            return Visitor(turn=site, address=site), None
        owner, secret = self._secrets.new()
        return Visitor(owner, site, site), secret  # who drops secrets does not get a turn with each

    def _check_rate(self, visitor: Visitor) -> None:
        """Raise Problem 429 if the visitor, or the visitor's IP address, sends too many requests a minute."""
        seconds = self._visitor_rate.wait(visitor.turn) or self._address_rate.wait(visitor.address)
        if seconds:
            wait = math.ceil(seconds)
            detail = "You, or others at your address, send more requests than this server allows."
            raise Problem(429, "too-many-questions", detail, send=f"Ask again in {wait} s.", headers={"Retry-After": str(wait)})

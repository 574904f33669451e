"""The page that asks for the server's token, and what it is sent to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, FastAPI, Form, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import URL

from vitrine_server.http.access import LOGIN_COOKIE, Access, token_needed
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.problems import LOGIN, Problem
from vitrine_server.http.visitors import cookie_header, site_of

#: Those which a browser is asked for the token after.
LOGIN_PROBLEMS = ("token-needed", "too-many-tries")


class LoginForm(BaseModel):
    """The form that a person sends to log in; ``after`` is the page to open then."""

    model_config = ConfigDict(extra="forbid")

    token: str
    after: str = "/"


def next_page(address: URL) -> str:
    """Return the address on this server to open after the login: the one that was requested."""
    if address.path.endswith(LOGIN):
        return address.path.removesuffix(LOGIN) + "/"
    return f"{address.path}?{address.query}" if address.query else address.path


def _first_page(request: Request) -> str:
    return f"{request.scope.get('root_path', '')}/"


def add_login(app: FastAPI) -> None:
    """Add the page ``/login`` and the route for its form to ``app``; they work only if ``app.state.access`` has a token."""
    router = APIRouter(route_class=BodyRoute)

    def page(request: Request) -> RedirectResponse:
        if request.app.state.access is None:
            return RedirectResponse(_first_page(request), 303)
        raise token_needed()

    def take(request: Request, form: Annotated[LoginForm, Form()]) -> RedirectResponse:
        access: Access | None = request.app.state.access
        if access is None:
            raise Problem(404, "no-token", "This server asks for no token, so there is nothing to log in to.", send="Open its first page.")
        access.check(form.token.strip(), site_of(request.client.host if request.client else ""))
        is_ours = form.after.startswith("/") and not form.after.startswith(("//", "/\\"))
        response = RedirectResponse(form.after if is_ours else _first_page(request), 303)
        response.headers.append("Set-Cookie", cookie_header(LOGIN_COOKIE, access.login(), request.scope))
        return response

    router.add_api_route(LOGIN, page, methods=["GET"], include_in_schema=False)
    router.add_api_route(LOGIN, take, methods=["POST"], include_in_schema=False)
    app.include_router(router)

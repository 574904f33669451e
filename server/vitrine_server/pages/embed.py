"""A finished explanation inside a page of somebody else's: where the setting ``embed`` allows it, and read-only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from vitrine_server.http.middleware import CONTENT_SECURITY_POLICY
from vitrine_server.http.problems import Problem
from vitrine_server.lookup import find_document
from vitrine_server.services import Use
from vitrine_server.settings import Settings


def policy(settings: Settings) -> str:
    """Return the content security policy of an embedded page: that of every page, except that the sites of the setting may frame it."""
    return CONTENT_SECURITY_POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {' '.join(settings.embed)}")


def add_embedding(app: FastAPI, templates: Environment, shared: Callable[[], Mapping[str, Any]]) -> None:
    """Add the page ``/embed/{explanation}`` to ``app``, which other sites may show in a frame."""
    template = templates.get_template("embed.html")

    def page(explanation: str, services: Use) -> HTMLResponse:
        if not services.settings.embed:
            send = "Whoever runs the server can allow it: set VITRINE_EMBED to the sites that may, or to * for all."
            raise Problem(404, "no-embedding", "This server does not let other sites show its explanations.", send=send)
        document = find_document(explanation, services)
        title = document.get("title") or "An explanation"
        headers = {"Content-Security-Policy": policy(services.settings)}
        return HTMLResponse(template.render(shared(), id=explanation, title=title), headers=headers)

    app.add_api_route("/embed/{explanation}", page, methods=["GET"], include_in_schema=False, response_class=HTMLResponse)

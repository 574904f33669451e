"""The pages: plain templates that carry no data, and the static files that fill them from the API."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from server.methodpages import add_method_pages

#: path -> (template, title); the order is the order of the navigation
PAGES: dict[str, tuple[str, str]] = {
    "/": ("home.html", "What the model looked at"),
    "/image": ("image.html", "Image"),
    "/prompt": ("prompt.html", "Prompt"),
    "/text": ("text.html", "Text"),
    "/methods": ("methods.html", "Methods"),
    "/models": ("models.html", "Models"),
    "/history": ("history.html", "History"),
    "/leaderboard": ("leaderboard.html", "Leaderboard"),
}


class _Static(StaticFiles):
    """Static files that a browser asks about again each time, so that a new version is never mixed with an old one."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _folder(name: str) -> Path:
    """The folder ``name`` of the pages: inside the package where it is installed, beside it in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / name, here.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the folder '{name}' of the pages is missing beside {here}; install Vitrine again")


def _version() -> str:
    try:
        return version("vitrine")
    except PackageNotFoundError:
        return "unreleased"


def environment() -> Environment:
    """The template environment, with autoescape on and undefined names left to Jinja's default (empty)."""
    return Environment(loader=FileSystemLoader(_folder("templates")), autoescape=select_autoescape(default=True))


def add_pages(app: FastAPI, settings: Any = None) -> None:
    """Add the pages and ``/static`` to ``app``. ``settings`` is not needed yet: the pages ask the API for everything."""
    templates = environment()
    shared = {"version": _version()}

    def add(path: str, template: str, title: str) -> None:
        def page(request: Request) -> HTMLResponse:
            return HTMLResponse(templates.get_template(template).render(shared, path=path, title=title))

        app.add_api_route(path, page, methods=["GET"], include_in_schema=False, response_class=HTMLResponse)

    for path, (template, title) in PAGES.items():
        add(path, template, title)
    add_method_pages(app, templates, shared)
    app.mount("/static", _Static(directory=_folder("static")), name="static")

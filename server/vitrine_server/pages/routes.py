"""The pages: plain templates that carry no data, and the static files that fill them from the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, select_autoescape
from markupsafe import Markup
from starlette.datastructures import URL

from explainers.installation import DISTRIBUTION, package_version
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import visitor_of
from vitrine_server.method_ranking import recommended_spec
from vitrine_server.metric_truth import models_of_known_truth
from vitrine_server.pages.embed import add_embedding
from vitrine_server.pages.first_answers import first_answers
from vitrine_server.pages.login import LOGIN_PROBLEMS, add_login, next_page
from vitrine_server.pages.method_pages import add_method_pages
from vitrine_server.pages.model_cards import add_model_pages
from vitrine_server.pages.static import StaticFolder
from vitrine_server.samples import SampleInput
from vitrine_server.settings import Settings

#: path -> (template, title); all but the first are in the navigation, in this order
PAGES: dict[str, tuple[str, str]] = {
    "/": ("home.html", "What the model looked at"),
    "/image": ("image.html", "Image"),
    "/prompt": ("prompt.html", "Prompt"),
    "/text": ("text.html", "Text"),
    "/molecule": ("molecule.html", "Molecule"),
    "/collection": ("collection.html", "Collection"),
    "/history": ("history.html", "History"),
    "/methods": ("methods.html", "Methods"),
    "/models": ("models.html", "Models"),
    "/your-model": ("your_model.html", "Your model"),
    "/leaderboard": ("leaderboard.html", "Leaderboard"),
}
#: path -> (template, title, entry of the navigation) of pages to which another page leads
SECOND_PAGES: dict[str, tuple[str, str, str]] = {
    "/leaderboard/figures": ("leaderboard_figures.html", "All figures", "/leaderboard"),
}


_BODY = re.compile(r"<body[^>]*>")


def _folder(name: str) -> Path:
    """Return the folder ``name`` of the pages: inside the installed package, or next to it in a checkout."""
    here = Path(__file__).resolve().parent.parent
    for folder in (here / name, here.parents[1] / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the folder '{name}' of the pages is missing next to {here}; install Vitrine again")


@cache  # it caches compiled templates, and compiles a template again when its file changes
def environment() -> Environment:
    """Make the Jinja environment of the templates, with autoescape on; undefined names are empty, Jinja's default."""
    return Environment(loader=FileSystemLoader(_folder("templates")), autoescape=select_autoescape(default=True))


def _first_picture(samples: Mapping[str, SampleInput], settings: Settings) -> dict[str, Any] | None:
    """Return the sample that the first page shows, as JSON: the first picture; real photos come first if there are any."""
    return next((sample.to_json(settings) for sample in samples.values() if sample.entry["kind"] == "image"), None)


def _recommended(sample: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the methods that the first page shows, as specs: ``picture`` for its ``sample`` (None: there is none), ``text`` for reviews,
    where the map must show what speaks against.
    """
    model = None if sample is None else sample.get("model")
    return {"picture": recommended_spec("image", model), "text": recommended_spec("text", signed=True)}


def _script_tag(static: str, page: str) -> Markup:
    """Return the HTML tag of a page's script, joined with all that it imports; the browser fetches it before fonts and answers."""
    return Markup('<script type="module" src="{}/pages/{}.js?page={}" fetchpriority="high"></script>').format(static, page, page)


def add_pages(app: FastAPI, settings: Settings) -> None:
    """Add the pages and ``/static`` to ``app``. Its state gets ``problem_page``, which makes a page of a problem, and ``with_navigation``,
    which puts the navigation, and a link back, over a report that is a page of its own.
    """
    templates = environment()
    static = StaticFolder(_folder("static"))
    languages = " ".join(sorted(file.stem for file in (_folder("static") / "help" / "language").glob("*.js")))

    navigation = [(path, title) for path, (_, title) in PAGES.items() if path != "/"]

    def shared() -> dict[str, Any]:
        address = settings.address(static.path)
        return {
            "version": package_version(DISTRIBUTION) or "unreleased",
            "embed": bool(settings.embed),
            "root": settings.path_prefix,
            "static": address,
            "script": partial(_script_tag, address),
            "languages": languages,
            "navigation": navigation,
        }

    def add(path: str, template: str, title: str, entry: str) -> None:
        def page(request: Request) -> HTMLResponse:
            services = request.app.state.services
            sample = _first_picture(services.samples, settings)
            addresses = first_answers(path, request.query_params, services)
            text = templates.get_template(template).render(
                shared(),
                path=entry,
                title=title,
                sample=sample,
                first=addresses,
                recommended=_recommended(sample),
                test_models=models_of_known_truth(),
                is_alone=visitor_of(request).is_alone,
            )
            return HTMLResponse(text)

        app.add_api_route(path, page, methods=["GET"], include_in_schema=False, response_class=HTMLResponse)

    for path, (template, title) in PAGES.items():
        add(path, template, title, path)
    for path, (template, title, entry) in SECOND_PAGES.items():
        add(path, template, title, entry)
    add_method_pages(app, templates, shared)
    add_model_pages(app, templates, shared)
    add_embedding(app, templates, shared)
    add_login(app)

    def problem_page(problem: Problem, address: URL) -> HTMLResponse:
        titles = {404: "There is no such page", 401: "Log in"}
        title = titles.get(problem.status, problem.to_json()["title"])
        template = "login.html" if problem.slug in LOGIN_PROBLEMS else "problem.html"
        after = next_page(address)
        text = templates.get_template(template).render(shared(), path=None, title=title, problem=problem, after=after)
        return HTMLResponse(text, problem.status, problem.headers)

    def with_navigation(report: str, entry: str, back: str, back_to: str) -> str:
        bar = templates.get_template("report_bar.html").render(shared(), path=entry, back=back, back_to=back_to)
        return _BODY.sub(lambda begin: begin[0] + bar, report, count=1)

    app.state.problem_page = problem_page
    app.state.with_navigation = with_navigation
    app.mount("/static", static, name="static")

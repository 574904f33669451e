"""The page of a model: its facts, when it says that it does not know, and its card, which is Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup

from explainers.errors import ExplainerError
from explainers.models.loading import card
from vitrine_server.http.visitors import Who
from vitrine_server.services import Use

_METADATA = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_HEADING_SHIFT = 2  # levels by which headings are lowered, so that the first fits under the heading of the card
_EMPTY_HEAD = re.compile(r"<th([^>]*)></th>")  # heads nothing: a cell of a table
_WEB = re.compile(r"https?://")
_NONE = "This model came without a card. The facts above are all that is known."


def card_html(text: str) -> str:
    """Convert the Markdown ``text`` of a model's card to HTML. Its front matter is dropped, and its headings are lowered to fit below the
    page's own.

    As a card may come from anyone, HTML in it is shown as text, a picture becomes a link to it, and only http and https addresses are
    links: the page loads nothing from elsewhere.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    reader.validateLink = lambda url: bool(_WEB.match(url))  # type: ignore[method-assign]
    tokens = reader.parse(_METADATA.sub("", text))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + _HEADING_SHIFT)}"
        for inner in token.children or []:
            if inner.type == "link_open":
                inner.attrs |= {"rel": "noreferrer", "target": "_blank"}
    html: str = reader.renderer.render(tokens, reader.options, {})
    html = _EMPTY_HEAD.sub(r"<td\1></td>", html)
    html = html.replace("<pre>", '<pre tabindex="0">')  # what scrolls is reached by keyboard
    return html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")


def add_model_pages(app: FastAPI, templates: Environment, shared: Callable[[], Mapping[str, Any]]) -> None:
    """Add the page ``/models/{name}`` of every model to ``app``."""
    template = templates.get_template("model.html")

    def page(name: str, services: Use, visitor: Who) -> HTMLResponse:
        entry = services.registry.find(name, visitor)  # raises Problem for one that is not there
        try:
            text = card(name)
        except ExplainerError:  # a name that the hub cannot have: it has no card either
            text = None
        html = Markup(card_html(_NONE if text is None else text))  # nosec B704  # markup in the text is shown as text
        title = entry.title or entry.name
        return HTMLResponse(template.render(shared(), path="/models", title=title, name=entry.name, model_card=html))

    app.add_api_route("/models/{name:path}", page, methods=["GET"], include_in_schema=False, response_class=HTMLResponse)

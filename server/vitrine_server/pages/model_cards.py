"""Model cards, which are Markdown, as HTML for the Models page."""

from __future__ import annotations

import re

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from markdown_it import MarkdownIt

from explainers.errors import ExplainerError
from explainers.models.loading import card
from vitrine_server.http.visitors import Who
from vitrine_server.services import Use

_METADATA = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_HEADING_SHIFT = 3  # levels by which headings are lowered, so that the first fits under the name of its model
_WEB = re.compile(r"https?://")
_NONE = "This model came without a card. The facts above are all that is known."


def card_html(text: str) -> str:
    """Convert the Markdown ``text`` of a card to HTML. As it may come from anyone, markup in it is shown as text, and it loads nothing."""
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
    return html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")


def add_model_cards(app: FastAPI) -> None:
    """Add ``/models/{name}/card`` to ``app``: the card of a model as HTML, a part of a page."""

    def page(name: str, services: Use, visitor: Who) -> HTMLResponse:
        services.registry.find(name, visitor)  # raises Problem for one that is not there
        try:
            text = card(name)
        except ExplainerError:  # a name that the hub cannot have: it has no card either
            text = None
        return HTMLResponse(card_html(_NONE if text is None else text))

    app.add_api_route("/models/{name:path}/card", page, methods=["GET"], include_in_schema=False, response_class=HTMLResponse)

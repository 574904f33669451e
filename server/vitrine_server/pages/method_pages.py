"""A page for each method, made from the registry: formula, plain words, cost, rules, options, and a live example that the page asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from latex2mathml.converter import convert
from markupsafe import Markup, escape

from explainers import METHODS, RULES
from explainers.methods.about import SYMBOLS
from explainers.methods.declaration import Method
from vitrine_server import registries
from vitrine_server.http.problems import Problem, suggestion
from vitrine_server.method_figures import figures_of
from vitrine_server.method_ranking import method_rankings, ranking_for
from vitrine_server.metric_truth import models_of_known_truth
from vitrine_server.run_reports import folders_of_runs, read_run_reports
from vitrine_server.services import Use
from vitrine_server.verdicts import on_photos, verdicts

#: A paper of arXiv in a text.
ARXIV = re.compile(r"arXiv (\d{4}\.\d{4,5})")


# parts of a formula in TeX
_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S")
_BAR = re.compile(r"\\bar\{\w\}")
_TEXT = re.compile(r"\\text\{[^{}]*\}")
_LARGE = re.compile(r"\\(sum|prod)(?=_)")


def symbols(tex: str) -> set[str]:
    r"""Return the letters and signs of the TeX formula ``tex`` that a legend explains, among them those with a bar, ``\bar{x}``."""
    return {*_TOKEN.findall(_TEXT.sub(" ", _BAR.sub(" ", tex))), *_BAR.findall(tex)}


def mathml(tex: str, display: str = "block") -> str:
    """Convert a TeX formula to a ``<math>`` element."""
    # inside brackets latex2mathml puts the limits of a sum at its side unless they are asked for
    return convert(_LARGE.sub(r"\\\1\\limits", tex), display=display)


def link_papers(text: str) -> Markup:
    """Convert a text to HTML in which papers of arXiv are links."""
    link = r'<a href="https://arxiv.org/abs/\1" rel="noreferrer" target="_blank">arXiv \1</a>'
    return Markup(ARXIV.sub(link, str(escape(text))))  # nosec B704  # escaped before


def legend(formula: tuple[str, ...]) -> list[tuple[Markup, str]]:
    """List the symbols of a formula that need an explanation as MathML, with their meanings, in the order of the table of symbols."""
    used = set().union(*(symbols(line) for line in formula))
    return [
        (Markup(mathml(symbol, "inline")), meaning)  # nosec B704  # of the table of symbols
        for symbol, meaning in SYMBOLS.items()
        if symbol in used
    ]


def about(name: str) -> dict[str, Any]:
    """Return the formula, legend and texts about the method ``name`` as its page shows them; empty if nothing was written about it."""
    entry = METHODS[name].about
    if entry is None:
        return {}
    return {
        "formula": [Markup(mathml(line)) for line in entry.formula],  # nosec B704  # a formula that comes with its method's code
        "legend": legend(entry.formula),
        "words": entry.words,
        "trust": entry.trust,
        "fails": link_papers(entry.fails),
    }


def refusals_of(method: Method) -> list[tuple[str, list[str]]]:
    """List the reasons why rules make no sense with ``method``, which has rules, each with the titles of those rules."""
    reasons: dict[str, list[str]] = {}
    for rule in RULES.values():
        if (why := method.why_senseless(rule)) is not None:
            reasons.setdefault(why, []).append(rule.title)
    return list(reasons.items())


def add_method_pages(app: FastAPI, templates: Environment, shared: Callable[[], Mapping[str, Any]]) -> None:
    """Add the page ``/methods/{method}`` for every method to ``app``."""
    template = templates.get_template("method.html")

    def page(name: str, services: Use) -> HTMLResponse:
        listed = {method["name"]: method for method in registries.methods(None)}
        if name not in listed:
            near = suggestion(name, listed)
            raise Problem(404, "no-such-method", f"There is no method {name!r}.", send=f"{near}They are listed at /methods.")
        method = listed[name]
        runs, _ = read_run_reports(folders_of_runs(services.settings.runs, services.runs.folder))
        shipped = [result for result in runs if result.shipped]
        specs = [name, *(f"{name}:{rule}" for rule in method["rules"])]
        measured = verdicts(specs, method_rankings(), shipped)
        papers = list({pair["paper"]: None for pair in method["pairs"] if pair["paper"] and not pair["reason"]})
        return HTMLResponse(
            template.render(
                shared(),
                path="/methods",
                title=method["title"],
                method=method,
                promise=METHODS[name].promise,
                about=about(name),
                verdicts_on_photos={pair["spec"]: on_photos(pair["spec"], specs, ranking_for("image")) for pair in method["pairs"]},
                verdicts=measured,
                test_models=[model for model in models_of_known_truth() if any(model in verdict.text for verdict in measured)],
                refused=refusals_of(METHODS[name]) if method["rules"] else [],
                figures=figures_of(name, method["rules"], runs),
                papers=[link_papers(paper) for paper in papers],
                rules={rule.name: rule.title for rule in RULES.values()},
            )
        )

    app.add_api_route("/methods/{name}", page, methods=["GET"], include_in_schema=False, response_class=HTMLResponse)

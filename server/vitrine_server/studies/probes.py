"""Word probes over HTTP, ``explainers.word_probe``, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import explainers
from explainers.analysis.word_probe import SLOT, fill_template
from explainers.methods import parse
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.catalogue.model_facts import facts_of
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.intake import check_method, find_named
from vitrine_server.schemas.studies import Probe

MOST_TEXTS = 60


def check(probe: Probe) -> None:
    """Raise Problem 422 for mistakes in a probe that do not depend on the model."""
    slots = probe.template.count(SLOT)
    if slots != 1:
        detail = f"The template has {slots or 'no'} slots" if slots else "The template has no slot"
        raise _bad("wrong-template", f"{detail}.", f"Write {SLOT} once, where the words shall stand.")
    names = [group.name for group in probe.groups]
    if len(set(names)) < len(names):
        raise _bad("wrong-groups", "Two groups have the same name.", "Give each group a name of its own.")
    texts = len(fill_template(probe.template, probe.words))
    if texts > MOST_TEXTS:
        raise _bad("too-many", f"These are {texts} texts.", f"Send at most {MOST_TEXTS} words in all groups together.")


def answer(probe: Probe, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Run a word probe and return its outcome as JSON.

    Raises Problem 422 for anything that does not fit the model.
    """
    facts = facts_of(model)
    if facts.kind != "text":
        raise _bad("wrong-input", f"{probe.model} does not read texts.", "Choose a text model.")
    check_method(probe.method, facts)
    method_name = parse(probe.method, blocks=facts.blocks).method.name
    if any(method["slow"] for method in facts.methods if method["name"] == method_name):
        raise _bad("too-slow", f"{probe.method} takes too long for so many texts.", "Choose a method that is not marked slow.")
    target = find_named(probe.target, facts)
    outcome = explainers.word_probe(model, probe.template, probe.words, target, probe.method, progress=tell, cancelled=cancelled)
    return {**outcome.to_json(), "model": probe.model}


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)

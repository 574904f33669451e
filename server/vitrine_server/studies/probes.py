"""Word probes over HTTP, ``explainers.word_probe``, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import ConfigDict, Field

import explainers
from explainers.analysis.word_probe import SLOT, WordProbe, fill_template
from explainers.methods import parse
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.catalogue.model_facts import facts_of
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.intake import check_method, find_named
from vitrine_server.jobs.queue.study import FEW_PASSES
from vitrine_server.schemas.base import Schema
from vitrine_server.settings import Settings
from vitrine_server.studies.registry import study

MOST_TEXTS = 60
MOST_GROUPS, MOST_WORDS = 4, 30
MOST_CHARS = 1000  # of the template of a probe


class ProbeGroup(Schema):
    """A named group of words to put into the slot of the template."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    name: str = Field(min_length=1, max_length=60)
    words: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field(min_length=1, max_length=MOST_WORDS)


class Probe(Schema):
    """A question to a text model about groups of words in a sentence: ``template`` has one slot, ``target`` is a class,
    ``method`` a spec.
    """

    model: str = Field(min_length=1, max_length=200)
    template: str = Field(max_length=MOST_CHARS)
    groups: list[ProbeGroup] = Field(min_length=1, max_length=MOST_GROUPS)
    target: str = Field(min_length=1, max_length=200)
    method: str = Field(default="input_x_gradient:conservative", max_length=200)

    @property
    def words(self) -> dict[str, list[str]]:
        """The words of each group, by the group's name."""
        return {group.name: group.words for group in self.groups}


async def check(probe: Probe, settings: Settings) -> Probe:
    """Raise Problem 422 for mistakes in a probe that do not depend on the model; return it."""
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
    return probe


@study("/api/probes", form=Probe, answer=WordProbe, read=check, cost="probe", weight=FEW_PASSES, tag="probes")
def probe(probe: Probe, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Fill the slot ``{}`` of a template with the words of each group, and ask a text model each time. Returns probability, logit and the
    word's relevance for every text, their means over each group, and the difference of the first two groups.
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

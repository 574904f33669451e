"""The list of methods that an explanation is made with: each once, however it is spelt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.methods.registry import Request, parse

Methods = Sequence[str | tuple[str, Rule]]


def read_methods(methods: Methods | str, blocks: int | None = None) -> tuple[list[Request], dict[str, str]]:
    """What ``methods`` ask for, each once under its first spelling; and for every spelling of them the spec that it is found by.

    A text may name several with commas between, as on the command line. Of different rules of one's own with the same name, the second is
    called ``custom-2`` (and so on), in its spec too. ``blocks`` is how many the model has, where it is known. Raises ExplainerError for an
    empty list and for a wrong spec.
    """
    specs = [spec.strip() for spec in methods.split(",") if spec.strip()] if isinstance(methods, str) else list(methods)
    if not specs:
        raise ExplainerError("The list of methods is empty: name at least one, or none at all for the usual ones.")
    pairs = [(spec, None) if isinstance(spec, str) else spec for spec in specs]
    named_requests = [parse(spec, None, blocks) if custom is None else None for spec, custom in pairs]
    rules = {request.rule.name: request.rule for request in named_requests if request is not None and request.rule is not None}
    distinct_requests: list[Request] = []
    spellings: dict[str, str] = {}
    for (spec, custom), known_request in zip(pairs, named_requests, strict=True):
        request = known_request or parse(spec, custom and _number_rule(custom, rules), blocks)
        same = next((other for other in distinct_requests if other.computes == request.computes), request)
        if same is request:
            distinct_requests.append(request)
        spellings[request.spec] = same.spec
    return distinct_requests, spellings


def distinct_specs(specs: Sequence[str], blocks: int | None = None) -> list[str]:
    """``specs`` without those that ask for the same as one before them."""
    return [request.spec for request in read_methods(specs, blocks)[0]] if specs else []


def _number_rule(rule: Rule, rules: dict[str, Rule]) -> Rule:
    """``rule``, with a number behind its name where another one in ``rules`` is called so; it is added there."""
    result, number = rule, 1
    while rules.setdefault(result.name, result) != result:
        number += 1
        result = replace(rule, name=f"{rule.name}-{number}", title=f"{rule.title} {number}")
    return result

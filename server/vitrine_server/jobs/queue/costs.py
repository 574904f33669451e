"""The table of costs: seconds that each model and method took on this machine, from which waiting times are estimated."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from explainers.methods.specs import Spec

log = logging.getLogger(__name__)
COSTS_FILE = "costs.json"  # in the server's home
#: Seconds from which a method or a study counts as slow: others pass it between two of its passes.
SLOW_SECONDS = 2.0
ANSWER = "answer"  # what the table calls the time until the model has answered
#: A map whose rule has run its backward pass already costs less, and has a row of its own: its spec with this behind it.
_SHARED = " after its rule"
_FRESH = 0.4  # how much the newest measurement counts
_BACKWARD = 2.0  # what a backward pass costs, in forward passes
_READ = 0.2  # what reading a map off costs where its pass is there already, in forward passes
_PART = re.compile(r"(?P<count>[^,]+?) (?P<way>forward|backward)")


class Costs:
    """A table of measured seconds by model and by method, study or answer. The worker's thread writes it; any thread may read.

    With a ``path`` it is kept in that file between runs of the server. The seconds of a method that was never measured here are estimated
    from its declared ``passes`` and from the seconds that the model takes to answer.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._table: dict[str, dict[str, list[float]]] = {}  # model -> what -> [seconds, tokens]
        if path is not None and path.exists():
            try:
                self._table = {
                    model: {what: [float(seconds), float(tokens)] for what, (seconds, tokens) in rows.items()}
                    for model, rows in json.loads(path.read_text("utf-8")).items()
                }
            except (OSError, ValueError, AttributeError, TypeError) as error:
                log.warning("%s cannot be read (%s): costs are measured again", path, error)

    def note(self, model: str, what: str, seconds: float, tokens: int, *, after_its_rule: bool = False) -> None:
        """Record that the method, study or answer ``what`` of ``model`` took ``seconds`` for an input of ``tokens`` tokens.
        ``after_its_rule``: the backward pass of its rule was there already.
        """
        what = what + _SHARED * after_its_rule
        with self._lock:
            rows = self._table.setdefault(model, {})
            before = rows.get(what)
            is_warm = what == ANSWER and before is not None and seconds < before[0]  # the first answer of a process loads what it needs
            fresh = 1.0 if before is None or before[1] != tokens or is_warm else _FRESH
            rows[what] = [seconds if before is None else fresh * seconds + (1 - fresh) * before[0], float(tokens)]

    def save(self) -> None:
        """Write the table to its file, from which the next start reads it; do nothing if it has no file."""
        if self._path is None:
            return
        with self._lock:
            text = json.dumps(self._table, indent=1)
        try:
            beside = self._path.with_suffix(".new")
            beside.write_text(text, "utf-8")
            beside.replace(self._path)
        except OSError as error:
            log.warning("%s cannot be written (%s): costs are measured again after the next start", self._path, error)

    def seconds(self, model: str, what: str, tokens: int) -> float | None:
        """Return the estimated seconds of the study ``what`` of ``model`` for this number of ``tokens``; None if it was never measured
        here.
        """
        with self._lock:
            row = self._table.get(model, {}).get(what)
        return None if row is None else _scale(row, tokens, 1)

    def measured(self, model: str, specs: Iterable[str]) -> list[str]:
        """Return the ``specs`` whose seconds were measured for this model, not only estimated from their passes."""
        with self._lock:
            rows = self._table.get(model, {})
            return [spec for spec in specs if spec in rows or spec + _SHARED in rows]

    def of_methods(
        self,
        model: str,
        specs: Sequence[str],
        methods: Iterable[Mapping[str, Any]],
        tokens: int,
        blocks: int,
        targets: int = 1,
        most_tokens: int | None = None,
    ) -> dict[str, float]:
        """Estimate the seconds that ``model``, of this number of ``blocks``, takes for each of ``specs``, computed in this order for this
        number of ``targets`` and ``tokens``; a spec without any basis is left out.

        ``methods`` are the methods as JSON objects. The first spec of a propagation rule pays for its backward pass, the other specs of
        this rule use that pass again. A text of more than ``most_tokens`` is read in windows of so many: a method that needs a pass for
        each token then pays for each token of a window, in each window.
        """
        by_name = {method["name"]: method for method in methods}
        with self._lock:
            rows = dict(self._table.get(model, {}))
        passed: set[str] = set()  # rules whose pass is there
        estimates = {}
        for spec in specs:
            parts = Spec.parse(spec)
            method = by_name.get(parts.method, {})
            rule = parts.rule or method.get("rule")
            shared = rule is not None and rule in passed
            if rule is not None and not method.get("slow"):
                passed.add(rule)
            passes = _passes(method, parts, min(tokens, most_tokens or tokens), blocks)
            row = rows.get(spec + _SHARED * shared)
            if row is not None:
                estimates[spec] = targets * _scale(row, tokens, 2 if _grows_with_tokens(method) else 1, most_tokens)
            elif ANSWER in rows and passes is not None:
                estimates[spec] = targets * _scale(rows[ANSWER], tokens, 1) * (_READ if shared else passes)
        return estimates


def _scale(row: Sequence[float], tokens: int, power: int, most_tokens: int | None = None) -> float:
    """Return the seconds of a measurement ``row`` (seconds, tokens) scaled to this number of ``tokens``, read in windows of
    ``most_tokens``; ``power`` is the exponent of the tokens within a window, and the number of windows counts linearly.
    """
    seconds, measured = row
    if not tokens or not measured:
        return seconds
    in_window = min(tokens, most_tokens or tokens) / min(measured, most_tokens or measured)
    return seconds * (tokens / measured) * in_window ** (power - 1)


def _grows_with_tokens(method: Mapping[str, Any]) -> bool:
    return "tokens" in str(method.get("passes", ""))


def _passes(method: Mapping[str, Any], spec: Spec, tokens: int, blocks: int) -> float | None:
    """Return how many forward passes the method of a spec costs, computed from its declared ``passes``, such as "1 forward, 1 backward",
    with the spec's options, this number of ``tokens`` and ``blocks``; None if the text cannot be read.
    """
    numbers: dict[str, float] = {"tokens": tokens, "blocks": blocks, "layers": blocks}
    for option in method.get("options", ()):
        if isinstance(option["default"], int | float):
            numbers[option["name"]] = float(option["default"])
    for name, value in spec.options.items():
        try:
            numbers[name] = float(value)
        except ValueError:
            continue
    total = 0.0
    for part in _PART.finditer(str(method.get("passes", ""))):
        try:
            count = sum(_product(term, numbers) for term in part["count"].removeprefix("and ").split(" + "))
        except KeyError:
            return None
        total += count * (_BACKWARD if part["way"] == "backward" else 1.0)
    return max(1.0, numbers.get("integrated", 0.0)) * total + _READ if method else None


def _product(term: str, numbers: Mapping[str, float]) -> float:
    value = 1.0
    for factor in term.strip().split(" x "):
        value *= float(factor) if factor.isdigit() else numbers[factor]
    return value

"""The table of costs: seconds that each model and method took on this machine, from which waiting times are estimated."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

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
    """Seconds by model and by what was made. The worker's thread writes it; any thread may read.

    With a ``path`` it outlives the process. A method that was never made here is judged by its declared ``passes`` and by what the model
    takes to answer.
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
                log.warning("%s cannot be read (%s): costs are measured anew", path, error)

    def note(self, model: str, what: str, seconds: float, tokens: int, *, after_its_rule: bool = False) -> None:
        """``what`` took so long for an input of so many tokens."""
        what = what + _SHARED * after_its_rule
        with self._lock:
            rows = self._table.setdefault(model, {})
            before = rows.get(what)
            is_warm = what == ANSWER and before is not None and seconds < before[0]  # the first answer of a process loads what it needs
            fresh = 1.0 if before is None or before[1] != tokens or is_warm else _FRESH
            rows[what] = [seconds if before is None else fresh * seconds + (1 - fresh) * before[0], float(tokens)]

    def save(self) -> None:
        """Write the table where it is read at the next start."""
        if self._path is None:
            return
        with self._lock:
            text = json.dumps(self._table, indent=1)
        try:
            beside = self._path.with_suffix(".new")
            beside.write_text(text, "utf-8")
            beside.replace(self._path)
        except OSError as error:
            log.warning("%s cannot be written (%s): costs are measured anew after the next start", self._path, error)

    def seconds(self, model: str, what: str, tokens: int) -> float | None:
        """What a study called ``what`` takes, about; None where none was made yet."""
        with self._lock:
            row = self._table.get(model, {}).get(what)
        return None if row is None else _scale(row, tokens, 1)

    def of_methods(
        self, model: str, specs: Sequence[str], methods: Iterable[Mapping[str, Any]], tokens: int, blocks: int, targets: int = 1
    ) -> dict[str, float]:
        """Seconds for each of ``specs``, computed in this order for so many ``targets``; those that nothing is known about are left out.

        ``methods`` are the methods as JSON objects. The first of a rule pays for its pass, the others read maps off it.
        """
        by_name = {method["name"]: method for method in methods}
        with self._lock:
            rows = dict(self._table.get(model, {}))
        passed: set[str] = set()  # rules whose pass is there
        estimates = {}
        for spec in specs:
            name, _, named_rule = spec.partition("?")[0].partition(":")
            method = by_name.get(name, {})
            rule = named_rule or method.get("rule")
            shared = rule is not None and rule in passed
            if rule is not None and not method.get("slow"):
                passed.add(rule)
            passes = _passes(method, spec, tokens, blocks)
            row = rows.get(spec + _SHARED * shared)
            if row is not None:
                estimates[spec] = targets * _scale(row, tokens, 2 if _grows_with_tokens(method) else 1)
            elif ANSWER in rows and passes is not None:
                estimates[spec] = targets * _scale(rows[ANSWER], tokens, 1) * (_READ if shared else passes)
        return estimates


def _scale(row: Sequence[float], tokens: int, power: int) -> float:
    """Seconds for so many tokens, from a measurement."""
    seconds, measured = row
    return seconds * (tokens / measured) ** power if tokens and measured else seconds


def _grows_with_tokens(method: Mapping[str, Any]) -> bool:
    return "tokens" in str(method.get("passes", ""))


def _passes(method: Mapping[str, Any], spec: str, tokens: int, blocks: int) -> float | None:
    """The forward passes that a method is worth, read from its declared ``passes``; None where these cannot be read."""
    numbers: dict[str, float] = {"tokens": tokens, "blocks": blocks, "layers": blocks}
    for option in method.get("options", ()):
        if isinstance(option["default"], int | float):
            numbers[option["name"]] = float(option["default"])
    for name, values in parse_qs(spec.partition("?")[2]).items():
        try:
            numbers[name] = float(values[-1])
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

"""The spelling of a method: ``read-out[:rule][?option=value&option=value]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import parse_qsl

from explainers.errors import ExplainerError


@dataclass(frozen=True)
class Option:
    """One option of a read-out: its type, default, bounds or choices, and what it does, in plain words."""

    kind: type[int] | type[float] | type[bool] | type[str]
    default: int | float | bool | str | None
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    def parse(self, name: str, text: str) -> int | float | bool | str:
        """The value spelt by ``text``; raises ExplainerError that says what is allowed."""
        kind = self.kind
        try:
            if kind is bool:
                value: int | float | bool | str = {"true": True, "1": True, "false": False, "0": False}[text.lower()]
            else:
                value = kind(text)
        except (ValueError, KeyError):
            allowed = "true or false" if kind is bool else {int: "a whole number", float: "a number"}.get(kind, "a word")
            raise ExplainerError(f"Option {name}={text!r} is not {allowed}.") from None
        if self.choices and value not in self.choices:
            raise ExplainerError(f"Option {name}={text!r}: choose one of {', '.join(self.choices)}.")
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value):
                raise ExplainerError(f"Option {name}={text!r} must be a finite number.")
            if self.minimum is not None and value < self.minimum:
                raise ExplainerError(f"Option {name}={text} is too small: at least {self.minimum:g}.")
            if self.maximum is not None and value > self.maximum:
                raise ExplainerError(f"Option {name}={text} is too large: at most {self.maximum:g}.")
        return value


def split_spec(text: str) -> tuple[str, str | None, dict[str, str]]:
    """The three parts of a spec as text: read-out, rule or None, options. Raises ExplainerError where it is not spelt as one."""
    head, _, query = text.strip().partition("?")
    readout, colon, rule = head.partition(":")
    if not readout or (colon and not rule):
        raise ExplainerError(f"{text!r} is no method: write read-out[:rule][?option=value], such as fullgrad_plus:libra.")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ExplainerError(f"{text!r}: write options as ?name=value&name=value.") from None
    options = dict(pairs)
    if len(options) != len(pairs):
        raise ExplainerError(f"{text!r} gives an option twice.")
    return readout, rule or None, options

"""The spelling of a method: ``method[:rule][?option=value&option=value]``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe

BLOCK = "block:"  # what stands before the number of a block in an option that has other choices too


def block_of(place: str) -> int | None:
    """Return the block N at whose input a ``place`` is, if that is "block:N"; None for others, such as "tokens"."""
    return int(place.removeprefix(BLOCK)) if place.startswith(BLOCK) else None


@dataclass(frozen=True)
class Option(Record):
    """One option of a method: its type, default, bounds or choices, and what it does, in plain words.

    ``kind`` is the type, ``default`` the value if none is given, ``minimum`` and ``maximum`` the bounds, ``choices`` the only allowed
    values if there are any. ``blocks`` says that its bounds are those of the model: ``index`` for an option that names a block, ``count``
    for a number of blocks; an option with choices and ``index`` takes ``block:N`` too. ``several``: whether several values, separated by
    commas, are allowed; they give a tuple.
    """

    kind: Annotated[
        type[int] | type[float] | type[bool] | type[str],
        describe(kind=Literal["int", "float", "bool", "str"], write=lambda kind: kind.__name__),
    ]
    default: bool | int | float | str | None
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    blocks: Annotated[Literal["index", "count"] | None, HIDDEN] = None
    several: Annotated[bool, HIDDEN] = False

    def within(self, blocks: int | None) -> Option:
        """Return the option with its bounds for a model of ``blocks`` blocks; unchanged if that is None or the option names no block."""
        if self.blocks is None or blocks is None:
            return self
        return replace(self, minimum=-blocks, maximum=blocks - 1) if self.blocks == "index" else replace(self, maximum=blocks)

    @property
    def allowed(self) -> Annotated[str, describe("In words.")]:
        """The values that the option can have, in plain words."""
        if self.kind is bool:
            return "true or false"
        if self.choices:
            block = f", or {BLOCK}N, with N a block of the model counted from 0" if self.blocks == "index" else ""
            return f"one of {', '.join(self.choices)}{block}"
        kind = {int: "a whole number", float: "a number"}.get(self.kind, "a word")
        if self.blocks == "index" and self.minimum is None:
            return f"{kind}: a block of the model"
        if self.blocks == "count" and self.maximum is None:
            return f"{kind} from {self.minimum:g} to how many blocks the model has"
        ends = [f"{word} {end:g}" for word, end in (("from", self.minimum), ("to", self.maximum)) if end is not None]
        return " ".join((kind, *ends)) + (", or several with commas between them" if self.several else "")

    def parse(self, name: str, text: str) -> Any:
        """Convert ``text`` to a value of this option, called ``name``, and return it: a number, bool or text, or a tuple of several. Raises
        ExplainerError, with the allowed values, if it cannot.
        """
        if self.several and "," in text:
            return tuple(self.parse(name, part.strip()) for part in text.split(","))
        wrong = ExplainerError(f"Option {name}={text!r} is not {self.allowed}.")
        if self.choices and self.blocks == "index" and text.startswith(BLOCK):
            return f"{BLOCK}{replace(self, kind=int, choices=()).parse(name, text.removeprefix(BLOCK))}"
        try:
            if self.kind is bool:
                value: int | float | bool | str = {"true": True, "1": True, "false": False, "0": False}[text.lower()]
            else:
                value = self.kind(text)
        except (ValueError, KeyError):
            raise wrong from None
        if self.choices and value not in self.choices:
            raise wrong
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, high = (-math.inf if self.minimum is None else self.minimum), (math.inf if self.maximum is None else self.maximum)
            if not (low <= value <= high and math.isfinite(value)):
                raise wrong
        return value


@dataclass(frozen=True)
class Spec:
    """A spec split into its parts, as text: nothing is looked up in a registry.

    method   the name of the method
    rule     the name of the backward rule; None if the spec names none
    options  the values of the options by name, in order
    """

    method: str
    rule: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Split ``text``, spelt ``method[:rule][?option=value]``, into a spec and return it. Raises ExplainerError if the text is not spelt
        as one.
        """
        head, _, query = text.strip().partition("?")
        method_name, colon, rule = head.partition(":")
        if not method_name or (colon and not rule):
            raise ExplainerError(f"{text!r} is no method: write method[:rule][?option=value], such as fullgrad_plus:libra.")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError:
            raise ExplainerError(f"{text!r}: write options as ?name=value&name=value.") from None
        options = dict(pairs)
        if len(options) != len(pairs):
            raise ExplainerError(f"{text!r} gives an option twice.")
        return cls(method_name, rule or None, options)

    @property
    def variant(self) -> str:
        """The spec without options: ``method`` or ``method:rule``."""
        return self.method if self.rule is None else f"{self.method}:{self.rule}"

    @property
    def settings(self) -> list[str]:
        """The options as texts ``name=value``, in order."""
        return [f"{name}={value}" for name, value in self.options.items()]

    def title(self, of_method: str) -> str:
        """Return the title ``of_method``, followed by the options in brackets where there are any."""
        return f"{of_method} ({', '.join(self.settings)})" if self.options else of_method

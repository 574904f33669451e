"""The registry of the kinds of targets, and the reading of targets from Python, from text and from JSON."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.target import ClassSet, Target

#: The forms of a target for ``explain``: a class by label, index or prompt, None for the top class, or a target of another kind.
TargetLike = str | int | Target | None
#: A dict of every kind of target, a class, by the name before its colon, such as ``any``.
TARGETS: dict[str, type[Target]] = {OneClass.kind: OneClass}
_Kind = TypeVar("_Kind", bound=type[Target])


def add_target(target: _Kind) -> _Kind:
    """Register ``target``, a frozen dataclass that derives from :class:`Target`, as a kind of target, and return it. It can then be used
    wherever a class can.

    Raises ExplainerError for a name that cannot stand before a colon, or that another kind has.
    """
    if not is_dataclass(target):
        raise ExplainerError(f"{target.__name__} is no dataclass: declare it with @dataclass(frozen=True).")
    kind = getattr(target, "kind", "")
    if not re.fullmatch(r"[a-z0-9_-]+", kind):
        raise ExplainerError(f"A kind of target cannot be called {kind!r}: send lower-case letters, digits, - and _.")
    if kind in TARGETS:
        raise ExplainerError(f"There is already a kind of target {kind}.")
    TARGETS[kind] = target
    return target


def as_targets(target: object, labels: Sequence[str] | None = None) -> list[Target]:
    """Return one target or several as a list; raises ExplainerError for anything else. With the ``labels`` of a model, text that begins
    with a kind of target and a colon, such as ``over:0.5``, is read as :func:`parse_target` reads it; without, as for prompts, it is a
    name.
    """
    several: list[Any] = list(target) if isinstance(target, list | tuple) else [target]
    if not several:
        raise ExplainerError("The list of targets is empty: name at least one class, or None for the top class.")
    if labels is not None:
        several = [parse_target(entry, labels) if isinstance(entry, str) and ":" in entry else entry for entry in several]
    return [as_target(entry) for entry in several]


def as_target(entry: object) -> Target:
    """Return a target from ``entry``, what a caller passed (a target, a label, a class index or a prompt), with class indices of torch and
    numpy as plain integers. Raises ExplainerError if it is no target.
    """
    plain = _with_plain_indices(entry)
    target = plain if isinstance(plain, Target) else OneClass(plain)
    if all(isinstance(name, str | int | ClassSet | None) and not isinstance(name, bool) for name in target.names()):
        return target
    kinds = ", ".join(f"{kind.__name__}(...)" for kind in TARGETS.values() if kind is not OneClass)
    several = " Several targets are a list: x.tolist()." if isinstance(entry, Tensor | np.ndarray) and entry.ndim else ""
    raise ExplainerError(f"{entry!r} is no target: pass a label, a class index, {kinds}, or for CLIP a prompt.{several}")


def _with_plain_indices(value: Any) -> Any:
    """Return a value with the class indices of torch and numpy as plain integers, also where a target names them."""
    if isinstance(value, Target):
        target: Any = value  # a dataclass, which the type does not say
        return replace(target, **{part.name: _with_plain_indices(getattr(target, part.name)) for part in fields(target) if part.init})
    if isinstance(value, tuple):
        return tuple(_with_plain_indices(part) for part in value)
    if getattr(value, "ndim", 0) or isinstance(value, int | np.bool_ | str) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:  # a tensor of another type than whole numbers
        return value


def parse_target(text: str, labels: Sequence[str]) -> str | int | Target:
    """Return the target that ``text`` spells, as the command line and HTTP write it. The first of these that fits holds:

    one of ``labels``                      that text
    a kind and a colon, as in ``any:dog``  a :class:`Target`
    a whole number, if there are labels    an integer, the index of a class
    anything else                          the text, as another name of a class or a prompt

    Without ``labels``, as for a vocabulary where a number may be a word, a whole number stays text.
    """
    written = _parse_if_written(text, labels, partial(parse_target, labels=labels))
    is_index = isinstance(written, str) and labels and written not in labels and written.isascii() and written.isdigit()
    return int(written) if is_index else written  # type: ignore[arg-type]


def _parse_if_written(text: str, labels: Sequence[str], read_name: Any) -> str | Target:
    """Return the target that ``text`` spells as a kind and a colon, such as ``any:dog``; the text itself if it is one of ``labels`` or
    begins with no kind. ``read_name`` turns the text after the colon into a target.
    """
    kind, colon, rest = text.partition(":")
    known = TARGETS.get(kind)
    return text if text in labels or not colon or known is None or not known.has_prefix else known.parse(rest.strip(), read_name)


def target_from_json(info: Mapping[str, Any], labels: Sequence[str] | None) -> Target:
    """Return the target that the JSON ``info`` of an explanation describes; ``labels`` are the names of the classes, None if prompts were
    explained. Raises ExplainerError for an unknown kind.
    """

    def read_name(text: str) -> str | Target:
        return text if labels is None else _parse_if_written(text, labels, read_name)

    inferred = OneClass.kind if info.get("against") is None else "contrast"
    kind = info.get("kind") or ("probability" if info.get("read") == "probability" else inferred)
    if kind not in TARGETS:
        raise ExplainerError(f"{info['label']!r} is of the kind {kind}, which nothing that is installed adds: install what added it.")
    return TARGETS[kind].from_json(info, read_name)


def python_code(value: Any) -> tuple[str, set[str]]:
    """Return ``value``, such as a target, as Python code that makes it, and the modules that the code needs."""
    if isinstance(value, OneClass):
        value = value.name
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False), set()
    if isinstance(value, tuple | list):
        parts = [python_code(part) for part in value]
        inside, modules = ", ".join(code for code, _ in parts), set[str]().union(*(used for _, used in parts))
        end = "," if len(parts) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{end})", modules
    if not isinstance(value, Target):
        return repr(value), set()
    arguments = list(fields(value))  # type: ignore[arg-type]
    while len(arguments) > 1 and getattr(value, arguments[-1].name) == arguments[-1].default:
        arguments.pop()
    parts = [python_code(getattr(value, argument.name)) for argument in arguments]
    home = type(value).__module__
    module = "explainers" if home.partition(".")[0] == "explainers" else home
    return f"{module}.{type(value).__name__}({', '.join(code for code, _ in parts)})", {module}.union(*(used for _, used in parts))

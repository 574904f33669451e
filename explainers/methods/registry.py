"""The registry of read-outs, and the reading of specs against it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.rules import RULES, Rule
from explainers.specs import Option, split_spec
from explainers.trace import Trace

Readout = Callable[..., Tensor]
#: The rules a read-out of gradients takes beside the ordinary one.
GRADIENT_ALSO = ("libra", "conservative", "attnlrp")


@dataclass(frozen=True)
class Name:
    """What a read-out is called with one of its rules, where that pair has a name of its own."""

    title: str
    by: str
    year: int
    paper: str
    default: bool = False


@dataclass(frozen=True)
class Method:
    """A declared read-out. ``rule`` is its default backward rule, None if it reads no backward signal; ``also`` are the
    others that make sense.

    needs     what the model must have: ``attention`` maps, a ``class_token``, ...: keys of :data:`NEEDS`
    passes    what one explanation costs, in words
    complete  whether its scores promise to sum to the explained number
    summed    whether its scores are a sum of what each block adds, and of what belongs to no block
    pixels    whether it goes back to the pixels of an image
    refuses   rules that would otherwise make sense, and why they do not for this one
    """

    name: str
    readout: Readout
    title: str
    by: str
    year: int | None
    paper: str
    rule: str | None
    also: tuple[str, ...]
    signed: bool
    class_specific: bool
    description: str
    needs: frozenset[str]
    passes: str
    dear: bool
    default: bool
    complete: bool
    summed: bool
    pixels: bool
    named: Mapping[str, Name]
    options: Mapping[str, Option]
    refuses: Mapping[str, str]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules it is listed with, the default first. :meth:`refusal` judges all others."""
        return () if self.rule is None else (self.rule, *self.also)

    def refusal(self, rule: Rule) -> str | None:
        """Why this read-out makes no sense with a rule, or None."""
        if self.rule is None:
            return f"{self.name} reads no backward signal, so it has no rule: write {self.name} alone."
        ablation = rule.name.startswith("libra-") and "libra" in self.rules and rule.name not in self.refuses
        if rule.name in self.rules or ablation:
            return None
        choose = f"Choose one of {', '.join(self.rules)}."
        if rule.name in self.refuses:
            return f"{self.name} makes no sense with the rule {rule.name}: {self.refuses[rule.name]}. {choose}"
        carried = {RULES[name].is_relevance for name in self.rules}
        if rule.name == "custom" and rule.is_relevance in carried:
            return None
        if rule.is_relevance and True not in carried:
            why = "it multiplies or weighs a gradient, and relevance is already multiplied by what it belongs to"
        elif not rule.is_relevance and False not in carried:
            why = "it reads relevance, which starts one-hot and is split, and a gradient is not"
        else:
            why = "nobody has given that pair a meaning"
        return f"{self.name} makes no sense with the rule {rule.name}: {why}. {choose}"


@dataclass(frozen=True)
class Request:
    """A spec that was read: a method, a rule, options."""

    spec: str
    method: Method
    rule: Rule | None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> Name:
        """Title, authors, year and paper of this pair of read-out and rule."""
        return name_of(self.method, self.rule)

    @property
    def pixels(self) -> bool:
        """Whether it goes back to the pixels of an image."""
        return self.method.pixels or self.options.get("at") == "pixels"

    def read(self, trace: Trace) -> Tensor:
        """Scores (B, S)."""
        return self.method.readout(trace, **self.options)


@dataclass(frozen=True)
class Variant:
    """A method with a rule, as the pages list it. ``reason``: why the pair makes no sense, or cannot run for the model asked about;
    None if it can.
    """

    spec: str
    readout: str
    rule: str | None
    title: str
    by: str
    year: int | None
    paper: str
    signed: bool
    class_specific: bool
    dear: bool
    default: bool
    description: str
    passes: str
    reason: str | None = None


METHODS: dict[str, Method] = {}
#: What a method may need of a model, in words.
NEEDS = {
    "attention": "attention maps over all tokens",
    "class_token": "a classification token",
    "residual": "attention added to a residual stream",
    "parts": "queries, keys and values of the last block",
    "mask_token": "for texts, a mask token to hide words with",
}


def method(
    name: str,
    *,
    title: str,
    by: str,
    year: int | None,
    paper: str,
    rule: str | None,
    also: tuple[str, ...] = (),
    signed: bool,
    class_specific: bool = True,
    needs: tuple[str, ...] = (),
    passes: str = "1 forward, 1 backward",
    dear: bool = False,
    default: bool = False,
    complete: bool = False,
    summed: bool = False,
    pixels: bool = False,
    named: Mapping[str, Name] | None = None,
    options: Mapping[str, Option] | None = None,
    refuses: Mapping[str, str] | None = None,
) -> Callable[[Readout], Readout]:
    """Declare a read-out: a function from a :class:`Trace` (and its options) to scores (B, S). The first line of its
    docstring describes it.
    """

    def declare(readout: Readout) -> Readout:
        for known in (*(() if rule is None else (rule,)), *also, *(named or {}), *(refuses or {})):
            if known not in RULES:
                raise ExplainerError(f"Method {name} names the rule {known!r}, which does not exist.")
        if unknown := set(needs) - set(NEEDS):
            raise ExplainerError(f"Method {name} needs {', '.join(unknown)}, which no model is asked for; there are {', '.join(NEEDS)}.")
        if name in METHODS:
            raise ExplainerError(f"There is already a method {name}.")
        description = (readout.__doc__ or "").strip().split("\n\n")[0]
        METHODS[name] = Method(
            name,
            readout,
            title,
            by,
            year,
            paper,
            rule,
            also,
            signed,
            class_specific,
            " ".join(description.split()),
            frozenset(needs),
            passes,
            dear,
            default,
            complete,
            summed,
            pixels,
            named or {},
            options or {},
            refuses or {},
        )
        return readout

    return declare


def name_of(what: Method, rule: Rule | None) -> Name:
    """What the pair is called, and whose it is: its own name if it has one, else the read-out's; under Libra, LibraGrad's authors."""
    if rule is None:
        return Name(what.title, what.by, what.year or 0, what.paper, what.default)
    if rule.name in what.named:
        return what.named[rule.name]
    if rule.name == what.rule:
        return Name(what.title, what.by, what.year or 0, what.paper, what.default)
    return Name(f"{what.title} · {rule.title}", rule.by or what.by, rule.year or what.year or 0, rule.paper or what.paper)


def parse(spec: str, custom: Rule | None = None, blocks: int | None = None) -> Request:
    """Read ``read-out[:rule][?option=value]`` against the registry. Raises ExplainerError that says what exists.

    ``custom`` is a rule made in Python, in place of one with a name; the spec then names none. ``blocks`` is how many the model
    has, where it is known: some options name one of them.
    """
    readout, rule_name, given = split_spec(spec)
    if readout not in METHODS:
        near = difflib.get_close_matches(readout, METHODS, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(METHODS)}."
        raise ExplainerError(f"There is no method {readout!r}; {hint}")
    found = METHODS[readout]
    if rule_name is not None and rule_name not in RULES:
        raise ExplainerError(f"There is no rule {rule_name!r}; there are {', '.join(RULES)}.")
    refusal = None if rule_name is None else found.refusal(RULES[rule_name])
    if refusal is not None:
        raise ExplainerError(refusal)
    unknown = sorted(set(given) - set(found.options))
    if unknown:
        known = ", ".join(found.options) or "none"
        raise ExplainerError(f"{readout} has no option {unknown[0]!r}; its options: {known}.")
    options = {name: found.options[name].within(blocks).parse(name, text) for name, text in given.items()}
    if custom is not None:
        refusal = found.refusal(custom) if rule_name is None else f"{spec!r} names a rule, and another was given with it: leave one out."
        if refusal is not None:
            raise ExplainerError(refusal)
        return Request(f"{readout}:{custom.name}" + spec.strip()[len(readout) :], found, custom, options)
    rule = RULES[rule_name or found.rule] if found.rule is not None else None
    return Request(spec.strip(), found, rule, options)


def pairs_of(found: Method) -> list[Variant]:
    """A method with every rule there is, its own first; one without a rule first stands alone."""
    listed = []
    for rule_name in (*(found.rules or (None,)), *(name for name in RULES if name not in found.rules)):
        rule = None if rule_name is None else RULES[rule_name]
        name = name_of(found, rule)
        spec = found.name if rule_name in (None, found.rule) else f"{found.name}:{rule_name}"
        listed.append(
            Variant(
                spec,
                found.name,
                rule_name,
                name.title,
                name.by,
                name.year or None,
                name.paper,
                found.signed,
                found.class_specific,
                found.dear,
                name.default,
                found.description,
                found.passes,
                None if rule is None else found.refusal(rule),
            )
        )
    return listed


def variants_of(found: Method) -> list[Variant]:
    """A method with each of its own rules."""
    return [pair for pair in pairs_of(found) if pair.rule is None or pair.rule in found.rules]

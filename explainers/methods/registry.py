"""The registry of methods, and the reading of specs against it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from torch import Tensor

from explainers.autograd.rules import RULES, Rule
from explainers.autograd.signals import ACCOUNT, ALL, Fields, fields_of
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import ABOUT, About
from explainers.methods.class_attention import ClassAttentionTrace
from explainers.methods.families import METHOD_FAMILIES, OTHER
from explainers.methods.specs import Option, split_spec
from explainers.records.trace import MethodOutput, Trace

MethodFunction = Callable[..., Tensor | MethodOutput]
Refusal = Callable[[Rule], str | None]
ClassAttentionUse = Literal["all", "last", "streams"]
LARGER_PATCHES = "What larger patches of the same image were given is shared among the patches that they cover, in proportion to the area."
#: The rules a method of gradients takes beside the ordinary one.
GRADIENT_ALSO = ("libra", "conservative", "attnlrp")


@dataclass(frozen=True)
class Name:
    """What a method is called with one of its rules, where that pair has a name of its own."""

    title: str
    source: Citation
    default: bool = False


@dataclass(frozen=True)
class Promise:
    """What the scores of a method add up to, and under which rules they do; under any other they promise nothing.

    not_with  values of its options with which they do not
    unplaced  whether what belongs to no token counts too: see :attr:`explainers.records.trace.Trace.unplaced`
    """

    rules: tuple[str, ...]
    total: str
    not_with: Mapping[str, Any] = field(default_factory=dict)
    unplaced: bool = False


@dataclass(frozen=True)
class Method:
    """A declared method. ``rule`` is its default backward rule, None if it reads no backward signal; ``also`` are the
    others that it is listed with. It goes with every rule that carries what these carry, gradients or relevance.

    needs     what the model must have: ``attention`` maps, a ``class_token``, ...: keys of :data:`METHOD_NEEDS`
    passes    what one explanation costs, in words
    promise   what its scores add up to, under some of its rules; None: they are no shares of the explained number
    summed    whether its scores are a sum of what each block adds, and of what belongs to no block
    pixels    whether it goes back to the pixels of an image
    family    what kind of method it is: a key of :data:`explainers.methods.families.METHOD_FAMILIES`
    classic   whether it is a baseline that others are held against
    refuses   why a rule that carries what it reads makes no sense for it all the same, or None
    class_attention  whether it can read the classification token's row in class attention behind the blocks: ``all`` where it multiplies
              the attention of all blocks, ``last`` where it reads the last block alone, ``streams`` where it follows tokens through all
              blocks and reads no attention; None: not
    reads     the fields of the signals that it reads, such as ``attentions[-1]``, of the last block: the backward pass goes no further.
              At the pixels those of the pixels, and along a path all, are read instead
    reads_under  by the names of other rules, those that it reads of a trace under them
    """

    name: str
    function: MethodFunction
    title: str
    family: str
    classic: bool
    source: Citation
    rule: str | None
    also: tuple[str, ...]
    signed: bool
    class_specific: bool
    description: str
    needs: frozenset[str]
    passes: str
    slow: bool
    default: bool
    promise: Promise | None
    summed: bool
    pixels: bool
    named: Mapping[str, Name]
    options: Mapping[str, Option]
    refuses: Refusal | None
    class_attention: ClassAttentionUse | None = None
    reads: Fields = ALL
    reads_under: Mapping[str, Fields] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules it is listed with, the default first. :meth:`refusal` judges all others."""
        return () if self.rule is None else (self.rule, *self.also)

    def adds_up_to(self, rule: Rule | None, options: Mapping[str, Any] | None = None) -> str | None:
        """What its scores promise to add up to under a rule, with these options; None: nothing."""
        if self.promise is None or rule is None or rule.name not in self.promise.rules:
            return None
        values = options or {}
        is_broken = any(values.get(name) == value for name, value in self.promise.not_with.items()) or bool(values.get("integrated"))
        return None if is_broken else self.promise.total

    def read(self, trace: Trace, **options: Any) -> MethodOutput:
        """What the method finds in a trace."""
        output = self.function(trace, **options)
        return output if isinstance(output, MethodOutput) else MethodOutput(output)

    def refusal(self, rule: Rule) -> str | None:
        """Why this method makes no sense with a rule, or None."""
        if self.rule is None:
            return f"{self.name} reads no backward signal, so it has no rule: write {self.name} alone."
        relevance_choices = {RULES[name].is_relevance for name in self.rules}
        why: str | None
        if rule.is_relevance in relevance_choices:
            why = None if self.refuses is None else self.refuses(rule)
        elif rule.is_relevance:
            why = "it multiplies or weighs a gradient, and relevance is already multiplied by what it belongs to"
        else:
            why = "it reads relevance, which starts one-hot and is split, and a gradient is not"
        return why and f"{self.name} makes no sense with the rule {rule.name}: {why}. Choose one of {', '.join(self.rules)}."


@dataclass(frozen=True)
class Request:
    """A spec that was read: a method, a rule, options."""

    spec: str
    method: Method
    rule: Rule | None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> Name:
        """Title, authors, year and paper of this pair of method and rule."""
        return name_of(self.method, self.rule)

    @property
    def computes(self) -> tuple[str, Rule | None, dict[str, Any]]:
        """Method, rule and the value of every option: equal for all spellings of a spec."""
        return self.method.name, self.rule, {name: self.options.get(name, option.default) for name, option in self.method.options.items()}

    @property
    def adds_up_to(self) -> str | None:
        """What its scores promise to add up to; None: nothing."""
        return self.method.adds_up_to(self.rule, self.options)

    @property
    def pixels(self) -> bool:
        """Whether it goes back to the pixels of an image."""
        return self.method.pixels or self.options.get("at") == "pixels"

    @property
    def fields(self) -> dict[Rule, Fields]:
        """What it reads of the signals under each rule."""
        if self.rule is None:
            return {}
        fields = self.method.reads | (frozenset(["pixels"]) if self.pixels else frozenset())
        if self.rule.accounts:
            fields |= ACCOUNT  # a map under such a rule says what the rule misses
        return {self.rule: fields} | {RULES[name]: others for name, others in self.method.reads_under.items()}

    def read(self, trace: Trace) -> MethodOutput:
        """What the method finds in a trace."""
        options = dict(self.options)
        trace.integrated, trace.row = options.pop("integrated", 0), options.pop("row", None)
        if "attention" in self.method.needs and (note := trace.recording.model.block_kind.attention_note) is not None:
            trace.note(note)
        reads = self.method.class_attention
        if reads is None or trace.row == "mean" or not trace.recording.class_attentions:
            return _move_to_grid(self.method.read(trace, **options), trace)
        output = self.method.read(ClassAttentionTrace(trace, reads == "last"), **options)
        return MethodOutput(output.scores[:, 1:])


def _move_to_grid(output: MethodOutput, trace: Trace) -> MethodOutput:
    """With several sizes of patches, a map of the smallest."""
    if not trace.layout.coarser:
        return output
    if bool(output.scores[:, trace.layout.coarser_tokens].any()):
        trace.note(LARGER_PATCHES)
    return output.on_grid(trace.layout)


@dataclass(frozen=True)
class Variant:
    """A method with a rule, as the pages list it. ``adds_up_to``: what its scores promise to add up to, if anything. ``reason``: why the
    pair makes no sense, or cannot run for the model asked about; None if it can. ``remedies``: options, as a spec spells them, with one of
    which it runs for that model all the same.
    """

    spec: str
    method_name: str
    rule: str | None
    title: str
    source: Citation
    signed: bool
    class_specific: bool
    slow: bool
    default: bool
    description: str
    passes: str
    adds_up_to: str | None = None
    reason: str | None = None
    remedies: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the source as ``by``, ``year`` and ``paper``."""
        document: dict[str, Any] = {}
        for declared in fields(self):
            key = _JSON_KEYS.get(declared.name, declared.name)
            document |= self.source.to_json() if declared.name == "source" else {key: getattr(self, declared.name)}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Variant:
        """The variant of a ``document`` of :meth:`to_json`."""
        keys = {declared.name: _JSON_KEYS.get(declared.name, declared.name) for declared in fields(cls) if declared.name != "source"}
        return cls(**{name: document[key] for name, key in keys.items()}, source=Citation.from_json(document))

    @property
    def readout(self) -> str:
        """What ``method_name`` was called in 0.1."""
        return self.method_name


#: Fields of a :class:`Variant` whose keys in JSON are the names of 0.1.
_JSON_KEYS = {"method_name": "readout"}


#: Every method by its name, in the order of every list.
METHODS: dict[str, Method] = {}
#: Of methods of gradients, which take them along a path in place of those at the input (general gradients, in LibraGrad's words).
INTEGRATED = Option(
    int, 0, "average the gradients over so many steps of the path from zero to the embedded tokens; 0: take them at the input", 0, 1000
)
#: Of methods that start from the token that the head reads.
ROW = Option(
    str,
    None,
    "where the head pools all tokens: start from the classification token all the same, or take the mean over all tokens",
    choices=("class_token", "mean"),
)
#: The same, of methods that start from one token alone.
TOKEN_ROW = replace(ROW, help="where the head pools all tokens: start from the classification token all the same", choices=("class_token",))
#: What a method may need of a model, in words.
METHOD_NEEDS = {
    "attention": "attention maps over all tokens",
    "class_token": "a classification token",
    "residual": "attention added to a residual stream",
    "parts": "queries, keys and values of the last block",
    "positions": "position embeddings added to the patches",
    "image": "an image",
    "patch_features": "patches that its head can read in place of a classification token, to compare them with prompts",
    "mask_token": "for texts, a mask token to hide words with",
}


def method(
    name: str,
    *,
    title: str,
    family: str = OTHER,
    classic: bool = False,
    source: Citation | None = None,
    by: str = "",
    year: int | None = None,
    paper: str = "",
    rule: str | None,
    also: tuple[str, ...] = (),
    signed: bool,
    class_specific: bool = True,
    needs: tuple[str, ...] = (),
    passes: str = "1 forward, 1 backward",
    slow: bool = False,
    default: bool = False,
    promise: Promise | None = None,
    summed: bool = False,
    pixels: bool = False,
    named: Mapping[str, Name] | None = None,
    options: Mapping[str, Option] | None = None,
    refuses: Refusal | None = None,
    class_attention: ClassAttentionUse | None = None,
    reads: Iterable[str] = ALL,
    reads_under: Mapping[str, Iterable[str]] | None = None,
    about: About | None = None,
) -> Callable[[MethodFunction], MethodFunction]:
    """Declare a method: a function from a :class:`Trace` (and its options) to scores (B, S). The first line of its
    docstring describes it. ``source`` says where it was published; ``by``, ``year`` and ``paper`` are a short way to write one. ``about``
    is what its page says of it.

    Raises ExplainerError where both are given, for a name that is taken, and for a rule, need or family that does not exist.
    """
    if source is not None and (by or year is not None or paper):
        raise ExplainerError(f"Method {name} has both source= and by=, year= or paper=: write authors, year and title into source alone.")
    published = Citation(authors=by, year=year, title=paper) if source is None else source

    def declare(function: MethodFunction) -> MethodFunction:
        promised = () if promise is None else promise.rules
        for known in (*(() if rule is None else (rule,)), *also, *(named or {}), *promised):
            if known not in RULES:
                raise ExplainerError(f"Method {name} names the rule {known!r}, which does not exist.")
        if unknown := set(needs) - set(METHOD_NEEDS):
            raise ExplainerError(
                f"Method {name} needs {', '.join(unknown)}, which no model is asked for; there are {', '.join(METHOD_NEEDS)}."
            )
        if name in METHODS:
            raise ExplainerError(f"There is already a method {name}.")
        if family not in METHOD_FAMILIES:
            raise ExplainerError(
                f"Method {name} names the family {family!r}, which does not exist; there are {', '.join(METHOD_FAMILIES)}."
            )
        description = (function.__doc__ or "").strip().split("\n\n")[0]
        METHODS[name] = Method(
            name=name,
            function=function,
            title=title,
            family=family,
            classic=classic,
            source=published,
            rule=rule,
            also=also,
            signed=signed,
            class_specific=class_specific,
            description=" ".join(description.split()),
            needs=frozenset(needs),
            passes=passes,
            slow=slow,
            default=default,
            promise=promise,
            summed=summed,
            pixels=pixels,
            named=named or {},
            options={**(options or {}), **({"row": ROW} if "class_token" in needs and "row" not in (options or {}) else {})},
            refuses=refuses,
            class_attention=class_attention,
            reads=fields_of(reads),
            reads_under={rule_name: fields_of(names) for rule_name, names in (reads_under or {}).items()},
        )
        if about is not None:
            ABOUT[name] = about
        return function

    return declare


def name_of(what: Method, rule: Rule | None) -> Name:
    """What the pair is called, and whose it is: its own name if it has one, else the method's; under Libra, LibraGrad's authors."""
    if rule is None:
        return Name(what.title, what.source, what.default)
    if rule.name in what.named:
        return what.named[rule.name]
    if rule.name == what.rule:
        return Name(what.title, what.source, what.default)
    return Name(f"{what.title} · {rule.title}", rule.source if rule.source.title else what.source)


def is_control(spec: str) -> bool:
    """Whether a spec is that of a control, which knows nothing of the input; one that a package brought which is gone is none."""
    method_name = re.split("[:?]", spec, maxsplit=1)[0]
    return method_name in METHODS and METHODS[method_name].family == "control"


def parse(spec: str, custom: Rule | None = None, blocks: int | None = None) -> Request:
    """Read ``method[:rule][?option=value]`` against the registry. Raises ExplainerError that says what exists.

    ``custom`` is a rule made in Python, in place of one with a name; the spec then names none. ``blocks`` is how many the model
    has, where it is known: some options name one of them.
    """
    method_name, rule_name, texts = split_spec(spec)
    _check_known("method", method_name, METHODS)
    _check_known("rule", rule_name, RULES)
    method = METHODS[method_name]
    refusal = None if rule_name is None else method.refusal(RULES[rule_name])
    if refusal is not None:
        raise ExplainerError(refusal)
    unknown = sorted(set(texts) - set(method.options))
    if unknown:
        known = ", ".join(method.options) or "none"
        raise ExplainerError(f"{method_name} has no option {unknown[0]!r}; its options: {known}.")
    options = {name: method.options[name].within(blocks).parse(name, text) for name, text in texts.items()}
    if custom is not None:
        refusal = method.refusal(custom) if rule_name is None else f"{spec!r} names a rule, and another was given with it: leave one out."
        if refusal is not None:
            raise ExplainerError(refusal)
        return Request(f"{method_name}:{custom.name}" + spec.strip()[len(method_name) :], method, custom, options)
    rule = RULES[rule_name or method.rule] if method.rule is not None else None
    return Request(spec.strip(), method, rule, options)


def _check_known(what: str, name: str | None, known: Mapping[str, object]) -> None:
    """Raise ExplainerError, naming near misses, for a name that is not ``known``."""
    if name is not None and name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(known)}."
        raise ExplainerError(f"There is no {what} {name!r}; {hint}")


def all_variants_of(method: Method) -> list[Variant]:
    """A method with every rule there is, its own first; one without a rule first stands alone."""
    return variants_of(method) + [_variant(method, name) for name in RULES if name not in method.rules]


def variants_of(method: Method) -> list[Variant]:
    """A method with each of its own rules."""
    return [_variant(method, name) for name in method.rules or (None,)]


def _variant(method: Method, rule_name: str | None) -> Variant:
    rule = None if rule_name is None else RULES[rule_name]
    name = name_of(method, rule)
    return Variant(
        spec=method.name if rule_name in (None, method.rule) else f"{method.name}:{rule_name}",
        method_name=method.name,
        rule=rule_name,
        title=name.title,
        source=name.source,
        signed=method.signed,
        class_specific=method.class_specific,
        slow=method.slow,
        default=name.default,
        description=method.description,
        passes=method.passes,
        adds_up_to=method.adds_up_to(rule),
        reason=None if rule is None else method.refusal(rule),
    )


def count_methods(variants: Iterable[Variant]) -> dict[str, int]:
    """How many methods these variants are of, as every list of them says it: ``readouts``, the methods themselves; ``methods``, each with
    every rule that makes sense; of these ``listed`` with a rule of their own, and ``parts`` with the other rules, most of them Libra less
    one of its parts.
    """
    possible = [variant for variant in variants if variant.reason is None]
    listed = sum(variant.rule is None or variant.rule in METHODS[variant.method_name].rules for variant in possible)
    names = {variant.method_name for variant in possible}
    return {"readouts": len(names), "methods": len(possible), "listed": listed, "parts": len(possible) - listed}

"""The declaration of a method: its title and source, its rules, what it needs, what its scores add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from torch import Tensor

from explainers.autograd.rules import RULES, Rule
from explainers.autograd.signals import ALL, Fields
from explainers.citation import Citation
from explainers.json_records import HIDDEN, INLINE, Record, describe
from explainers.methods.about import RULES_IN_A_LINE, About
from explainers.methods.class_attention import ClassAttentionUse
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace

MethodFunction = Callable[..., Tensor | MethodOutput]
Refusal = Callable[[Rule], str | None]


@dataclass(frozen=True)
class Name:
    """The title and source of a method under one of its rules, where that pair has a name of its own.

    default     whether the pages ask for the method with this rule if nobody chooses methods
    names_rule  whether the title already contains the rule
    """

    title: str
    source: Citation
    default: bool = False
    names_rule: bool = False


@dataclass(frozen=True)
class Promise(Record):
    """The number that the scores of a method add up to, and the rules under which they do.

    rules     the names of the rules under which they do
    total     the number, in words, such as "the explained number"
    not_with  values of the method's options with which they do not
    only_with  values of the method's options with which alone they do, and without which no sum is compared
    unplaced  whether parts that belong to no token are included in the sum: see :attr:`explainers.records.trace.Trace.unplaced`
    """

    rules: tuple[str, ...]
    total: str
    not_with: Annotated[Mapping[str, Any], HIDDEN] = field(default_factory=dict)
    only_with: Annotated[Mapping[str, Any], HIDDEN] = field(default_factory=dict)
    unplaced: Annotated[bool, HIDDEN] = False

    def is_made_with(self, options: Mapping[str, Any]) -> bool:
        """Return whether these options of the method are such that its scores are shares of a sum at all."""
        return all(options.get(name) == value for name, value in self.only_with.items())


@dataclass(frozen=True)
class Method(Record):
    """A declared method: its function, its rules and what it needs of a model.

    It can run with every rule that carries the same as its own rules, gradients or relevance.

    name             its name in a spec; ``title`` is its name on the pages, ``description`` says what it computes, ``source`` where it is
                     published
    function         from a :class:`Trace` and the method's options to scores (B, S), alone or in a :class:`MethodOutput` with notes and
                     errors
    rule             name of its default backward rule; None if it reads no backward signal
    also             names of further rules that it is listed with
    signed           whether its scores tell evidence for the target from evidence against it
    class_specific   whether another target can have another map
    needs            what the model must have: ``attention`` maps, a ``class_token``, ...: keys of :data:`METHOD_NEEDS`
    passes           what one explanation costs, in words
    slow             whether it is left out of the preset of quick methods
    default          whether the pages ask for it, with its default rule, if nobody chooses methods
    promise          what its scores add up to, under some of its rules; None: they are no shares of the explained number
    summed           whether its scores are a sum of a part of each block, and of a part that belongs to no block
    pixels           whether it goes back to the pixels of an image
    named            name of a rule -> title and source of the method under that rule, if the pair has a name of its own
    options          name of an option -> its type, default and bounds
    family           what kind of method it is: a key of :data:`explainers.methods.families.METHOD_FAMILIES`
    classic          whether it is a baseline with which other methods are compared
    refuses          function from a rule to a clause that says why it makes no sense for this method, or to None; None: it refuses no rule
    class_attention  how it reads the classification token's row in class attention after the blocks; None: it cannot
    two_rows         whether it has a rule for the attention of an encoder-decoder, whose two rows of tokens are read as one
    by_rows          whether it can read attention maps some queries at a time (:meth:`Trace.read_maps`), so that a long text takes little
                     memory
    reads            the fields of the signals that it reads, such as ``attentions[-1]``, of the last block: the backward pass goes no
                     further. At the pixels those of the pixels, and along a path all, are read instead
    reads_under      name of another rule -> the fields that it reads of a trace under that rule
    about            the text of its page; None if nobody has written one
    """

    name: str
    function: Annotated[MethodFunction, HIDDEN]
    title: str
    family: str
    classic: bool
    source: Annotated[Citation, INLINE]
    rule: Annotated[str | None, describe("The usual one.")]
    also: tuple[str, ...]
    signed: bool
    class_specific: bool
    description: str
    needs: Annotated[frozenset[str], HIDDEN]
    passes: str
    slow: bool
    default: bool
    promise: Promise | None
    summed: bool
    pixels: Annotated[bool, HIDDEN]
    named: Annotated[Mapping[str, Name], HIDDEN]
    options: Annotated[Mapping[str, Option], HIDDEN]
    refuses: Annotated[Refusal | None, HIDDEN]
    class_attention: Annotated[ClassAttentionUse | None, describe(kind=str | None)] = None
    two_rows: Annotated[bool, HIDDEN] = False
    by_rows: Annotated[bool, HIDDEN] = False
    reads: Annotated[Fields, HIDDEN] = ALL
    reads_under: Annotated[Mapping[str, Fields], HIDDEN] = field(default_factory=dict)
    about: Annotated[About | None, HIDDEN] = None

    @property
    def rules(self) -> Annotated[tuple[str, ...], describe("The rules that it is listed with.")]:
        """The rules that the method is listed with, the default first; empty where it reads no signal. :meth:`refusal` judges all
        others.
        """
        return () if self.rule is None else (self.rule, *self.also)

    def line_under(self, rule_name: str | None) -> str:
        """Return one line of plain words for the method under the rule ``rule_name`` (None or its default rule: the rule is not mentioned).
        Empty if the method has no text.
        """
        if self.about is None:
            return ""
        if rule_name is None or rule_name == self.rule:
            return self.about.line
        return f"{self.about.line} {RULES_IN_A_LINE.get(rule_name, f'With the rule {rule_name}.')}"

    def adds_up_to(self, rule: Rule | None, options: Mapping[str, Any] | None = None) -> str | None:
        """Return, in words, the number that the scores promise to add up to under a rule with these options; None if they promise no
        sum.
        """
        if self.promise is None or rule is None or rule.name not in self.promise.rules:
            return None
        values = options or {}
        if not self.promise.is_made_with(values):
            return None
        is_broken = any(values.get(name) == value for name, value in self.promise.not_with.items()) or bool(values.get("integrated"))
        return None if is_broken else self.promise.total

    def read(self, trace: Trace, **options: Any) -> MethodOutput:
        """Run the method on a trace with these options and return its scores (B, S), with notes and errors where it has any."""
        output = self.function(trace, **options)
        return output if isinstance(output, MethodOutput) else MethodOutput(output)

    def refusal(self, rule: Rule) -> str | None:
        """Return why this method makes no sense with a rule, as sentences that say what to write instead; None if it makes sense."""
        if self.rule is None:
            return f"{self.name} reads no backward signal, so it has no rule: write {self.name} alone."
        why = self.why_senseless(rule)
        return why and f"{self.name} makes no sense with the rule {rule.name}: {why}. Choose one of {', '.join(self.rules)}."

    def why_senseless(self, rule: Rule) -> str | None:
        """Return why this method, which reads a backward signal, makes no sense with a rule, as a clause such as "it reads relevance"; None
        if it makes sense.
        """
        relevance_choices = {RULES[name].is_relevance for name in self.rules}
        if rule.is_relevance in relevance_choices:
            return None if self.refuses is None else self.refuses(rule)
        if rule.is_relevance:
            return "it multiplies or weighs a gradient, and relevance is already multiplied by what it belongs to"
        return "it reads relevance, which starts one-hot and is split, and a gradient is not"


def name_of(what: Method, rule: Rule | None) -> Name:
    """Return title and source of the method ``what`` under ``rule``: the pair's own name if it has one, else made from the method's; the
    source under another rule is the rule's where it has a paper.
    """
    if rule is None:
        return Name(what.title, what.source, what.default)
    if rule.name in what.named:
        return what.named[rule.name]
    if rule.name == what.rule:
        return Name(what.title, what.source, what.default)
    return Name(f"{what.title} · {rule.title}", rule.source if rule.source.title else what.source, names_rule=True)

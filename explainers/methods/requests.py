"""Requests for methods: specs read against the registry, each once, however it is spelt."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from explainers.autograd.rules import RULES, Rule
from explainers.autograd.signals import ACCOUNT, Fields
from explainers.errors import ExplainerError
from explainers.methods.class_attention import trace_behind
from explainers.methods.declaration import Method, Name, name_of
from explainers.methods.registry import METHODS
from explainers.methods.specs import Spec
from explainers.models.details import BLOCKS_LEFT_OUT
from explainers.models.tasks.several_heads import SeveralHeads
from explainers.records.trace import MethodOutput, Trace

Methods = Sequence[str | tuple[str, Rule]]
#: What a method reads that reads no block but what enters the first.
_OF_FIRST_BLOCK = frozenset(["block_inputs[0]", "bias", *ACCOUNT])
LARGER_PATCHES = "What larger patches of the same image were given is shared among the patches that they cover, in proportion to the area."


@dataclass(frozen=True)
class Request:
    """A parsed spec: a method, the rule that it runs under (None if it reads no signal) and its options."""

    spec: str
    method: Method
    rule: Rule | None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> Name:
        """Return the name of this pair of method and rule: title, authors, year and paper."""
        return name_of(self.method, self.rule)

    @property
    def computes(self) -> tuple[str, Rule | None, dict[str, Any]]:
        """The name of the method, its rule and the value of every option. Requests with equal values compute the same map, however their
        specs are spelt.
        """
        return self.method.name, self.rule, {name: self.options.get(name, option.default) for name, option in self.method.options.items()}

    @property
    def adds_up_to(self) -> str | None:
        """The number, in words, that the scores promise to add up to; None if they promise nothing."""
        return self.method.adds_up_to(self.rule, self.options)

    @property
    def pixels(self) -> bool:
        """True if the backward pass goes down to the pixels of an image."""
        return self.method.pixels or self.options.get("at") == "pixels"

    @property
    def fields(self) -> dict[Rule, Fields]:
        """The fields of the signals that the method reads, by the rule under which it reads them; empty for a method without a rule."""
        if self.rule is None:
            return {}
        fields = self.method.reads | (frozenset(["pixels"]) if self.pixels else frozenset())
        if self.rule.accounts:
            fields |= ACCOUNT  # a map under such a rule says what the rule misses
        return {self.rule: fields} | {RULES[name]: others for name, others in self.method.reads_under.items()}

    def read(self, trace: Trace) -> MethodOutput:
        """Run the method on a trace and return its scores (B, S); for a target of two halves, the positive part of the map of one half
        minus that of the other.
        """
        halves = trace.chosen.halves
        if halves is None:
            return self._read(trace)
        traces = [trace.about(half) for half in halves]
        towards, against = (self._read(each) for each in traces)
        trace.passes += [each for about in traces for each in about.passes]
        return towards.above(against)

    def _read(self, trace: Trace) -> MethodOutput:
        options = dict(self.options)
        trace.integrated, trace.row = options.pop("integrated", 0), options.pop("row", None)
        if "attention" in self.method.needs:
            _note_attention(trace)
        if "class_token" in self.method.needs and trace.row != "mean":
            _note_other_tokens(trace)
        if "token_order" in self.method.needs and "product" not in self.method.needs:
            _note_replaced_tokens(trace)
        if self.rule is not None and not self.pixels:
            _note_blocks_left_out(trace, beyond_first=not self.method.reads <= _OF_FIRST_BLOCK)
        if "places" in self.method.needs and not self.pixels:
            _note_covered_pixels(trace)
            _note_footprint(trace)
            _note_words_that_met(trace)
        behind = trace_behind(trace, self.method.class_attention)
        if behind is None:
            output = _move_to_grid(self.method.read(trace, **options), trace)
            sources = trace.recording.real_tokens.sources
            return output if sources is None else output.at_words(sources, trace.content)
        return MethodOutput(self.method.read(behind, **options).scores[:, 1:])


def _note_attention(trace: Trace) -> None:
    """Add notes to a trace on attention of the model that the method leaves out or reads in an unusual way."""
    if (note := trace.recording.model.block_kind.attention_note) is not None:
        trace.note(note)
    plan = trace.recording.structure.plan
    if plan is None:
        return
    if plan.has_parallel:
        trace.note("Several products of attention and values in a block of this model are read as heads of one attention.")
    if plan.outside:
        where = " and ".join(plan.outside)
        trace.note(f"This model also has attention {where} the blocks that are read here, which this map leaves out.")
    if plan.mixes_elsewhere:
        trace.note(
            "In blocks of this model, or between them, tokens also come together by another way than attention, such as a convolution, a "
            "layer or a mean over tokens: this map reads attention, and leaves that out."
        )
    if plan.has_earlier_values:
        trace.note(
            "In some blocks of this model attention weighs values that an earlier block made, alone or mixed with their own: what "
            "multiplies or adds maps from block to block takes them for values of the tokens that enter the block."
        )
    if plan.has_shortcuts:
        trace.note(
            "In this model a later block or the head also takes what an earlier block took or gave, by a way around the blocks between: "
            "attention that is read block by block leaves that way out."
        )


def _note_blocks_left_out(trace: Trace, beyond_first: bool) -> None:
    """Add notes to a trace if modules in the list of its model's blocks run before those that are read, with another number of tokens; or
    after them, if the method reads ``beyond_first``, more than the tokens that enter the first block.
    """
    before, after = trace.recording.model.details.get(BLOCKS_LEFT_OUT, (0, 0))
    tokens = trace.block_inputs[0].shape[1]
    if before:
        trace.note(
            f"In this model {before} of the blocks in the list run before those that are read here, which take {tokens} tokens each: this "
            "map is of the tokens that enter the first of these, in which other tokens may already have met."
        )
    if after and beyond_first:
        trace.note(
            f"In this model {after} of the blocks in the list run after those that are read here, with another number of tokens: this map "
            "ends before them. Where they give as many tokens as they take, and not the class token alone, blocks= of wrap, with these "
            "modules, reads them instead."
        )


def _note_covered_pixels(trace: Trace) -> None:
    """Add a note to a trace if the model's patches cover less of the picture than they are drawn over."""
    if trace.layout.covered is not None:
        height, width = trace.layout.covered
        trace.note(
            f"The patches of this model cover the upper {height} rows and the left {width} columns of pixels. This map is drawn over the "
            "whole picture, so that its patches lie too far down and to the right, those at the far edges most."
        )


def _note_footprint(trace: Trace) -> None:
    """Add a note to a trace if most of what the model's tokens read of the picture lies elsewhere than where they are drawn."""
    if trace.layout.footprint is not None:
        trace.note(
            f"Of what a token of this model reads of the picture, {trace.layout.footprint.inside:.0%} lies in the square where it is drawn "
            "and half a square around it: what lies elsewhere in the picture is drawn there too.".replace("%", " %")
        )


def _note_words_that_met(trace: Trace) -> None:
    """Add a note to a trace if words have come together in the tokens that the model's first block takes."""
    if trace.layout.own_word_share is not None:
        trace.note(
            "Words come together before the blocks of this model, as in a convolution or attention over its embeddings: of what moves a "
            f"token there, {trace.layout.own_word_share:.0%} is its own word. This map is of these tokens, and is drawn at the words in "
            "their places. What hides words, such as occlusion, is of words.".replace("%", " %")
        )


def _note_replaced_tokens(trace: Trace) -> None:
    """Add a note to a trace if the model throws tokens of patches or words away and puts others in their places."""
    links = trace.recording.structure.token_links
    if links is None:
        return
    replaced = torch.stack([each.replaced for each in links]).any(0) & trace.content
    if bool(replaced.any()):
        parts = "words or atoms" if trace.recording.model.reads_text else "patches"
        trace.note(
            f"On the way through its blocks this model puts other tokens in the places of some {parts}. This map reads tokens by their "
            f"places, and counts what stands there for the {parts}."
        )


def _note_other_tokens(trace: Trace) -> None:
    """Add a note to a trace if the head reads more tokens than the one whose row is read."""
    token, others = trace.layout.class_token, trace.layout.other_tokens
    if token is None or not others:
        return
    names = [f"{others.in_front} other token{'s' if others.in_front > 1 else ''} in front"] if others.in_front else []
    names += [] if others.rest == "none" else [f"{others.rest} of the other tokens"]
    where = f"the class token (token {token})" if token >= 0 else "the token that the head singles out, such as the last word,"
    several = isinstance(trace.recording.model.task, SeveralHeads)  # which of them reads what is not known
    subject = "The heads of this model together also read" if several else "The head of this model also reads"
    trace.note(f"Read at {where} alone. {subject} {' and '.join(names)}, whose rows this map leaves out.")


def _move_to_grid(output: MethodOutput, trace: Trace) -> MethodOutput:
    """Return the output with the scores of larger patches distributed over the grid of the smallest, if the model has patches of several
    sizes; otherwise unchanged. A note is added to the trace if scores were moved.
    """
    if not trace.layout.coarser:
        return output
    if bool(output.scores[:, trace.layout.coarser_tokens].any()):
        trace.note(LARGER_PATCHES)
    return output.on_grid(trace.layout)


def parse(spec: str, custom: Rule | None = None, blocks: int | None = None) -> Request:
    """Read the spec ``method[:rule][?option=value]`` and return the request. Raises ExplainerError, listing what exists, for an invalid
    spec.

    ``custom`` is a rule made in Python; the spec then names no rule. ``blocks`` is the number of blocks of the model, if known: some
    options name a block.
    """
    parts = Spec.parse(spec)
    method_name, rule_name, texts = parts.method, parts.rule, parts.options
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
    """Raise ExplainerError, with similar names, if ``name`` is not among the ``known``; ``what`` is the word for such names. None is
    accepted.
    """
    if name is not None and name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(known)}."
        raise ExplainerError(f"There is no {what} {name!r}; {hint}")


def read_methods(methods: Methods | str, blocks: int | None = None) -> tuple[list[Request], dict[str, str]]:
    """Parse ``methods`` and return the distinct requests, each under its first spelling, and a mapping from every spelling to the spec
    under which its result is found.

    A text may name several, separated by commas, as on the command line. If several of the caller's rules have the same name, the second is
    called ``custom-2`` (and so on), in its spec too. ``blocks`` is the number of blocks of the model, if known. Raises ExplainerError for
    an empty list and for a wrong spec.
    """
    specs = [spec.strip() for spec in methods.split(",") if spec.strip()] if isinstance(methods, str) else list(methods)
    if not specs:
        raise ExplainerError("The list of methods is empty: name at least one method, or leave methods out for the usual ones.")
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
    """Return ``specs`` without each spec whose map equals that of an earlier one; ``blocks`` is the number of blocks of the model, if
    known.
    """
    return [request.spec for request in read_methods(specs, blocks)[0]] if specs else []


def _number_rule(rule: Rule, rules: dict[str, Rule]) -> Rule:
    """Return ``rule``, with a number after its name if another rule in ``rules`` already has that name, and add it to ``rules``."""
    result, number = rule, 1
    while rules.setdefault(result.name, result) != result:
        number += 1
        result = replace(rule, name=f"{rule.name}-{number}", title=f"{rule.title} {number}")
    return result

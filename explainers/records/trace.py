"""The trace that a method reads: values and signals of one recorded pass for one target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.balance import Loss, losses_of
from explainers.autograd.integration import INNER_BATCH, Rerun, mean_signals
from explainers.autograd.recorder import ReadMap
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from explainers.autograd.signals import ALL, AttentionParts, Fields, PerBlock, Signals, covers
from explainers.autograd.structure.token_links import TokenLinks
from explainers.errors import ExplainerError
from explainers.models.grids import on_grid
from explainers.models.layout import Layout
from explainers.models.passes import Passes, rows_per_pass
from explainers.models.token_sources import TokenSources
from explainers.records.targets import ResolvedTarget

INPUTS_PER_PASS = 32  # changed inputs in one pass that records nothing, on a CPU
MEAN_ROW = "This map is the mean over the rows of all tokens."
NO_ATTENTION_INPUT = "one row of tokens of which its queries, keys and values are made"
#: The operators that lost signal in a pass, cached for the notes of all its methods: finding them takes another recording.
_LOSSES: WeakKeyDictionary[Signals, list[Loss]] = WeakKeyDictionary()


class Answer(Protocol):
    """A function that runs the model without recording and returns the logits (repeats, C). It is asked about input number ``sample``,
    repeated ``repeats`` times; ``change`` is a function that may replace an input tensor by name. Another function of the tensors than the
    model's ``forward`` may be run in its place.
    """

    def __call__(
        self,
        sample: int,
        repeats: int,
        change: Callable[[str, Tensor], Tensor],
        forward: Callable[[Mapping[str, Tensor]], Tensor] = ...,
    ) -> Tensor:
        """Return the logits (repeats, C) of one sample repeated, its tensors changed by ``change(name, tensor)``; or what ``forward`` gives
        for these tensors.
        """


@dataclass(frozen=True)
class MethodOutput:
    """The output of a method. A method that has nothing but scores may return them alone.

    scores  (B, S)
    error   (B,): completeness error, if the method computes its own
    pixels  (B, height, width): the map at the pixels, if it has one
    terms   block -> (B, S): its part of the scores, if these are a sum over blocks
    rest    (B, S): the part of that sum that belongs to no block
    sizes   (B, S): for a score that is a sum of terms, the sum of their absolute values, from which its rounding error is estimated
    seed_correlations  for a method that draws at random, the estimated correlation of each sample's map with that of another seed (None:
                       unknown): see :mod:`explainers.methods.seed_correlations`
    own_sum  (B,): for a text whose model adds tokens of its own to the words, the sum of the scores at these, which ``scores`` leaves out
    notes   for each sample the notes on its map only; notes for all samples are added with ``trace.note``
    """

    scores: Tensor
    error: Tensor | None = None
    pixels: Tensor | None = None
    terms: Mapping[int, Tensor] = field(default_factory=dict)
    rest: Tensor | None = None
    sizes: Tensor | None = None
    own_sum: Tensor | None = None
    notes: tuple[tuple[str, ...], ...] = ()
    seed_correlations: tuple[float | None, ...] = ()

    def above(self, other: MethodOutput) -> MethodOutput:
        """Return the positive part of these scores minus those of ``other``, another output; the result is no sum over blocks and promises
        no sum.
        """
        pixels = None if self.pixels is None or other.pixels is None else (self.pixels - other.pixels).clamp(min=0)
        sizes = None if self.sizes is None or other.sizes is None else self.sizes + other.sizes
        notes = tuple((*ours, *theirs) for ours, theirs in zip(self.notes, other.notes, strict=True))
        return MethodOutput((self.scores - other.scores).clamp(min=0), pixels=pixels, sizes=sizes, notes=notes)

    def on_grid(self, layout: Layout) -> MethodOutput:
        """Return the output with the scores of larger patches moved to the grid of the smallest ones, as ``layout`` has them: see
        :func:`explainers.models.grids.on_grid`.
        """

        def move(values: Tensor | None) -> Tensor | None:
            return None if values is None else on_grid(values, layout)

        terms = {block: on_grid(term, layout) for block, term in self.terms.items()}
        return replace(self, scores=on_grid(self.scores, layout), terms=terms, rest=move(self.rest), sizes=move(self.sizes))

    def at_words(self, sources: TokenSources, content: Tensor) -> MethodOutput:
        """Return the output with the scores of second tokens of words added to those of the first, and those of tokens of the model's own
        set to 0, their sum being :attr:`own_sum`. ``sources`` says which these are, ``content`` (B, S) which tokens are words.
        """

        def fold(values: Tensor | None) -> Tensor | None:
            return None if values is None else sources.fold(values, content)[0]

        scores, own_sum = sources.fold(self.scores, content)
        terms = {block: sources.fold(term, content)[0] for block, term in self.terms.items()}
        return replace(self, scores=scores, terms=terms, rest=fold(self.rest), sizes=fold(self.sizes), own_sum=own_sum)


class Trace:
    """The values of ``recording``, a recorded pass, and, under one rule, its signals for the target ``chosen``. Shapes: B batch, S tokens,
    D width, H heads.

    ``block_inputs[l]`` is x^(l+1) of the formulas: the first is x^1, the embedded tokens. Signals are computed when first read, so that a
    method that reads only attention causes no backward pass.
    """

    def __init__(
        self,
        recording: Recording,
        chosen: ResolvedTarget,
        rule: Rule | None,
        *,
        seeds: tuple[int, ...] = (0,),
        rerun: Rerun | None = None,
        answer: Answer | None = None,
        content: Tensor | None = None,
        rows: Callable[[int, int, bool, int], int] | None = None,
        fields: Mapping[Rule, Fields] | None = None,
        before_pass: Callable[[int, int], None] = lambda done, total: None,
        of_gradients: Recording | None = None,
    ) -> None:
        self.recording = recording
        self._of_gradients = recording if of_gradients is None else of_gradients  # where rules are read that carry no relevance
        self.chosen = chosen
        self.rule = rule
        self.seeds = seeds  # one for each sample, for methods that draw at random
        self._rerun = rerun
        self._answer = answer
        self._content = content
        self._rows = rows
        self.before_pass = before_pass  # called by token removal; raises if nobody waits for the map any more
        self._fields_by_rule = {} if fields is None else fields  # what the methods of each rule read together
        self._fields = ALL if rule is None else self._fields_by_rule.get(rule, ALL)
        self._fields = recording.known_fields(self._fields)
        self.integrated = 0  # steps of the path from zero to x^1 over which signals are averaged; 0: those at the input
        self.row: str | None = None  # whose row is read if the head pools: class_token, mean, or None if not specified
        self.draw: int | None = None  # relevance is read moved by its estimated errors, this being their draw; None: as it is
        self.passes: list[tuple[Signals, float]] = []  # each with the seconds that it took here: fewer where another method made it
        self.notes: list[str] = []
        self.notes_of_samples: dict[int, list[str]] = {}  # what holds for the map of one sample alone

    @property
    def layout(self) -> Layout:
        """The layout of the tokens: prefix, classification token and grid of patches."""
        return self.recording.layout

    @property
    def mask(self) -> Tensor:
        """The tokens that are real, not padding: bool (B, S); those that a model of texts appends are among them."""
        return self.recording.mask

    @property
    def cpu_mask(self) -> Tensor:
        """Return which real tokens of each sample are those of its input, bool (B, S), on the CPU: padding is not, nor is what a model of
        texts appends to the words.
        """
        return self.recording.cpu_mask

    @property
    def content(self) -> Tensor:
        """The tokens that stand for patches or words, bool (B, S); if the text is unknown, all tokens but padding and prefix."""
        if self._content is not None:
            return self._content
        content = self.recording.real_tokens.of_input.clone()
        content[:, : self.layout.prefix] = False
        return content

    @property
    def content_rows(self) -> Tensor:
        """The tokens of patches or words, bool (B, S), with the second tokens of words that the model reads twice."""
        sources = self.recording.real_tokens.sources
        return self.content if sources is None else sources.rows_like(self.content) | self.content

    @property
    def block_inputs(self) -> list[Tensor]:
        """The tokens (B, S, D) at the input of each block."""
        return [x.detach() for x in self.recording.block_inputs]

    @property
    def block_outputs(self) -> list[Tensor]:
        """The tokens (B, S, D) at the output of each block."""
        return [x.detach() for x in self.recording.block_outputs]

    @property
    def attention_inputs(self) -> list[Tensor]:
        """The tokens (B, S, D) at the input of each block's attention, LN(x) in most models. Raises ExplainerError if a block has none."""
        inputs = self.recording.structure.attention_inputs
        return [_require_attention(x, i, NO_ATTENTION_INPUT).detach() for i, x in enumerate(inputs)]

    @property
    def attentions(self) -> list[Tensor]:
        """The attention maps (B, H, S, S): one for each block, or several if a block attends several times. Raises ExplainerError if a
        block has none.
        """
        return [_require_attention(a, i).detach().to(self.type_of_attention) for i, a in enumerate(self.recording.attentions)]

    @property
    def token_links(self) -> Sequence[TokenLinks | None]:
        """For each attention map which tokens the model keeps on the way to the next one; None where it throws none away."""
        links = self.recording.structure.links_of_maps
        return [None] * len(self.recording.attentions) if links is None else links

    @property
    def links_after_attention(self) -> Sequence[Tensor | None]:
        """For each block which tokens, bool (B, S), are handed on from the stream after its attention to the next block; None: all."""
        return self.recording.structure.links_after_attention

    @cached_property
    def type_of_attention(self) -> torch.dtype:
        """The dtype in which attention maps are multiplied: the widest among those of the tokens and of the maps, as some softmaxes use
        another dtype.
        """
        maps = [a for a in (*self.recording.attentions, *self.recording.class_attentions) if a is not None]
        return reduce(torch.promote_types, (a.dtype for a in maps), self.recording.block_inputs[0].dtype)

    @cached_property
    def signals(self) -> Signals:
        """The signals of the rule's backward pass, which runs when they are first read. Raises ExplainerError if the method has no rule."""
        if self.rule is None:
            raise ExplainerError("This method has no backward rule, so there are no signals to read.")
        before = time.perf_counter()
        if self.integrated:
            inner = self.repeats_at_once(INNER_BATCH)
            signals = mean_signals(self.rerun, self.chosen, self.rule, len(self.block_inputs[0]), self.integrated, inner)
        else:
            signals = self.recording.cached_backward(self.rule, self.recording.start_of(self.chosen, self.rule), self._fields)
        self.passes.append((signals, time.perf_counter() - before))
        return self._note_losses(signals, self.rule)

    @property
    def has_maps_by_rows(self) -> bool:
        """Return whether attention maps are read by :meth:`read_maps`, since all of them together would take too much memory."""
        return self.recording.has_maps_by_rows and not self.integrated

    def read_maps(self, read: ReadMap, first: int = 0) -> None:
        """Call ``read(block, queries, weights, signal)`` for some queries of a block at a time, from the last block to block ``first``:
        their attention weights, and the signal of the rule's backward pass there, (B, H, queries, S); without a rule that of the gradient.
        """
        rule, before = self.rule or Rule(), time.perf_counter()
        fields = frozenset(field for field in self._fields if not field.startswith("attention")) if self.rule else frozenset[str]()

        def read_in_one_type(block: int, queries: slice, weights: Tensor, signal: Tensor) -> None:
            dtype = torch.promote_types(weights.dtype, self.recording.block_inputs[0].dtype)
            read(block, queries, weights.to(dtype), signal.to(dtype))

        start = self.recording.start_of(self.chosen, rule)
        signals = self.recording.backward(rule, start, fields | {f"block_inputs[{first}]"}, read_map=read_in_one_type)
        self.passes.append((signals, time.perf_counter() - before))
        if self.rule is not None:
            self._note_losses(signals, self.rule)

    def _note_losses(self, signals: Signals, rule: Rule) -> Signals:
        """Add notes on what the ``signals`` of a backward pass under ``rule`` leave out; return them, moved by their errors if a draw says
        so.
        """
        if self.draw is not None and signals.errors is not None:
            signals = signals.moved(self.draw)
        if signals.unruled:
            names = ", ".join(sorted(signals.unruled))
            self.notes.append(
                f"This model uses {names}. The rule {rule.name} has no choice for that, so it used the ordinary gradient there."
            )
        if detached := self.recording.detached:
            self.note(
                f"This model cuts numbers that depend on the input from the gradient ({', '.join(sorted(detached))}). No map made from "
                "gradients shows what they do."
            )
        if signals.missing is not None and signals.lacks_some:
            self._say_missing(signals, signals.missing)
        return signals

    @property
    def waited(self) -> float:
        """The seconds of backward passes that this map uses and that were made earlier, for other methods."""
        return sum(max(0.0, signals.seconds - here) for signals, here in self.passes)

    def signals_with(self, field: str) -> Signals:
        """Return the signals with ``field`` computed too; a field that no method declared takes a backward pass of its own."""
        if not covers(self._fields, frozenset([field])):
            self._fields |= {field}
            self.__dict__.pop("signals", None)
        return self.signals

    def _say_missing(self, signals: Signals, missing: Tensor) -> None:
        """Add a note for each sample whose answer the rule does not account for completely: the missing amount ``missing`` (B,), and the
        operators that lost it. ``signals`` are the signals of the backward pass.
        """
        assert self.rule is not None
        output_gradient = self.chosen.output_gradient(self.recording.logits, self.rule)
        totals, places = (output_gradient * self.recording.logits.detach()).sum(1), ""
        if self._rerun is not None:
            if signals not in _LOSSES:
                _LOSSES[signals] = losses_of(self.rerun, self.rule, output_gradient, missing)
            losses = _LOSSES[signals]
            places = "" if not losses else "; it is lost at " + " and at ".join(loss.words for loss in losses[:2])
        for sample, (difference, total) in enumerate(zip(missing.tolist(), totals.tolist(), strict=True)):
            if difference:
                self.notes_of_samples.setdefault(sample, []).append(
                    f"Under the rule {self.rule.name} the tokens and biases should add up to {total:.3g}, and miss it by "
                    f"{abs(difference):.2g}{places}."
                )

    @property
    def mid_residuals(self) -> list[Tensor]:
        """The residual stream (B, S, D) after each block's attention. Raises ExplainerError if a block has none."""
        residuals = self.recording.mid_residuals
        if any(m is None for m in residuals):
            raise ExplainerError("This model's blocks do not add attention to a residual stream.")
        return [m.detach() for m in residuals if m is not None]

    @property
    def tokens_of_blocks(self) -> list[Tensor]:
        """The tokens that take part in each block, bool (B, S)."""
        return [self.mask] * len(self.recording.block_inputs)

    def last_parts(self, recording: Recording) -> tuple[AttentionParts, tuple[Tensor, Tensor | None]]:
        """Return the queries, keys, values, weights and outputs of the last attention in ``recording``, and the weight and bias of its
        output projection.

        Raises ExplainerError if they cannot be read.
        """
        return parts_of_last(recording.parts, recording.structure.output_projections)

    def last_context(self, signals: Signals) -> Tensor:
        """Return the signal at the output of the last attention, before its projection: (B, H, S, d)."""
        context = signals.contexts[-1]
        assert context is not None
        return context

    @property
    def block_input_grads(self) -> tuple[Tensor, ...]:
        """Return the signal of the rule's backward pass at each block's input, (B, S, D)."""
        return self.signals_with("block_inputs").block_inputs

    @property
    def bias(self) -> Tensor:
        """Return the bias terms of FullGrad, each bias times its signal, summed for each token (B, S); zero under a rule that leaves them
        out.
        """
        assert self.rule is not None
        bias = self.signals_with("bias").bias
        assert bias is not None
        return bias if self.rule.bias else torch.zeros_like(bias)

    @property
    def unplaced(self) -> Tensor:
        """The sum (B,) of the bias terms that belong to no token."""
        assert self.rule is not None
        unplaced = self.signals_with("bias").unplaced
        assert unplaced is not None
        return unplaced if self.rule.bias else torch.zeros_like(unplaced)

    @property
    def pixel_values(self) -> Tensor:
        """The pixels that the model saw (B, C, height, width). Raises ExplainerError for a text."""
        if self.recording.pixels is None:
            raise ExplainerError("There are no pixels here: at=pixels is for images.")
        return self.recording.pixels.detach()

    @property
    def pixel_grads(self) -> Tensor:
        """Return the signal of the rule's backward pass at the pixels (B, C, height, width). Raises ExplainerError for texts and for
        gradients averaged over a path.
        """
        if self.integrated:
            raise ExplainerError("integrated= averages gradients at the embedded tokens; leave at=pixels out, or use integrated_gradients.")
        pixels = self.signals_with("pixels").pixels
        if pixels is None:
            raise ExplainerError("There are no pixels here: at=pixels is for images.")
        return pixels

    @property
    def block_output_grads(self) -> tuple[Tensor, ...]:
        """Return the signal of the rule's backward pass at each block's output, (B, S, D)."""
        return self.signals_with("block_outputs").block_outputs

    @property
    def attention_grads(self) -> Sequence[Tensor]:
        """Return the signal of the rule's backward pass at each block's attention weights, (B, H, S, S), read block by block. Raises
        ExplainerError for a block without them.
        """
        return PerBlock(self.signals_with("attentions").attentions, lambda a, i: _require_attention(a, i).to(self.type_of_attention))

    def block_input_grad(self, block: int) -> Tensor:
        """Return the signal at the input of one block, counted from 0 or from -1 back, (B, S, D)."""
        return self.signals_with(f"block_inputs[{block}]").block_inputs[block]

    def attention_input_grad(self, block: int) -> Tensor:
        """Return the signal at the input of one block's attention, (B, S, D); blocks are counted from 0 or from -1 back."""
        signals = self.signals_with(f"attention_inputs[{block}]").attention_inputs
        return _require_attention(signals[block], block % len(signals), NO_ATTENTION_INPUT)

    def attention_grad(self, block: int) -> Tensor:
        """Return the signal at the attention weights of one block, (B, H, S, S); blocks are counted from 0 or from -1 back."""
        signals = self.signals_with(f"attentions[{block}]")
        return _require_attention(signals.attentions[block], block % len(signals.attentions)).to(self.type_of_attention)

    def under(self, rule: str) -> Trace:
        """Return a trace of the same pass under another rule, named ``rule``; gradients are in the model's own precision if that is enough
        for them.
        """
        return self._like(self.chosen, RULES[rule])

    def about(self, chosen: ResolvedTarget) -> Trace:
        """Return a trace of the same pass for another target, ``chosen``."""
        return self._like(chosen, self.rule)

    def _like(self, chosen: ResolvedTarget, rule: Rule | None) -> Trace:
        other = Trace(
            self.recording if rule is None or rule.is_relevance else self._of_gradients,
            chosen,
            rule,
            seeds=self.seeds,
            rerun=self._rerun,
            answer=self._answer,
            content=self._content,
            rows=self._rows,
            fields=self._fields_by_rule,
            before_pass=self.before_pass,
            of_gradients=self._of_gradients,
        )
        other.notes, other.integrated, other.row, other.draw = self.notes, self.integrated, self.row, self.draw
        other.notes_of_samples = self.notes_of_samples
        return other

    def token_mean(self, x: Tensor) -> Tensor:
        """Return the mean of ``x`` (B, S, ...) over the real tokens, keeping that dimension as 1."""
        weight = self.mask.to(x.dtype).view(*self.mask.shape, *[1] * (x.dim() - 2))
        return (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)

    @property
    def class_tokens(self) -> Tensor:
        """The index (B,) of the token that the head reads; if the head pools and ``row`` is class_token, that of the class token before the
        patches.

        Raises ExplainerError if there is no such token.
        """
        if self.row != "mean" and self.recording.class_tokens is not None:
            return self.recording.class_tokens
        if self.row == "class_token" and self.layout.prefix and self.recording.model.details.get("class_token"):
            self.note("This map is read at the class token, although the head of this model pools all tokens.")
            return torch.zeros(len(self.mask), dtype=torch.long, device=self.mask.device)
        if self.row == "mean":
            raise ExplainerError("This method starts from one token, so it knows no mean over all of them: leave row=mean out.")
        raise ExplainerError("This model has no classification token whose row could be read: its head reads patches or words.")

    def note(self, text: str) -> None:
        """Add ``text`` to the notes on the maps of this trace, unless it is there already."""
        if text not in self.notes:
            self.notes.append(text)

    def notes_on(self, sample: int) -> list[str]:
        """Return all notes on the map of input number ``sample``."""
        return [*self.notes, *self.notes_of_samples.get(sample, ())]

    @property
    def row_weights(self) -> Tensor:
        """The share of each token's row in :meth:`class_row`, (B, S): 1 for the token that the head reads; or all real tokens alike."""
        dtype = self.recording.block_inputs[0].dtype
        if self.row == "mean":
            self.note(MEAN_ROW)
            return self.mask.to(dtype) / self.mask.sum(1, keepdim=True)
        return F.one_hot(self.class_tokens, self.mask.shape[1]).to(dtype)

    def class_row(self, matrix: Tensor) -> Tensor:
        """Return the row (B, ..., N) of the token that the head reads from a matrix (B, ..., S, N); with ``row`` mean, the mean of the rows
        of all real tokens.
        """
        if self.row == "mean":
            self.note(MEAN_ROW)
            weight = self.mask.to(matrix.dtype).view(len(matrix), *[1] * (matrix.dim() - 3), -1, 1)
            return (matrix * weight).sum(-2) / weight.sum(-2)
        rows = torch.arange(len(matrix), device=matrix.device)
        return matrix.movedim(-2, 1)[rows, self.class_tokens]

    def rerun(self, repeats: int = 1, **options: Any) -> Recording:
        """Record the model again, each sample ``repeats`` times in a row, and return the recording.

        ``options`` are as in :class:`Recording`, and ``change(name, tensor)``, a function that may replace an input tensor (already
        repeated).
        """
        assert self._rerun is not None
        return self._rerun(repeats, **options)

    def repeats_at_once(self, most: int, least: int = 1, *, propagated: bool = False, apart: int = 0) -> int:
        """Return how often each sample may be repeated in one pass of :meth:`rerun`: up to ``most`` rows in all, on a GPU as many as fit,
        fewer if memory is short, but at least ``least`` times. ``propagated`` and ``apart`` are as in
        :func:`explainers.autograd.memory.rows_at_once`, which may raise MemoryShortageError.
        """
        batch = len(self.recording.block_inputs[0])
        most = max(rows_per_pass(self.mask.device, most), least * batch)
        rows = most if self._rows is None else self._rows(most, least * batch, propagated, apart)
        return rows // batch

    @cached_property
    def answer_passes(self) -> Passes:
        """The passes of :meth:`answer`, with as many inputs in each as fit."""
        return Passes(rows_per_pass(self.mask.device, INPUTS_PER_PASS))

    def answer(self, sample: int, repeats: int, change: Callable[[str, Tensor], Tensor]) -> Tensor:
        """Return the logits (repeats, C) of one sample repeated, its tensors changed by ``change(name, tensor)``; nothing is recorded."""
        assert self._answer is not None
        return self._answer(sample, repeats, change)

    def likeness(self, sample: int, repeats: int, change: Callable[[str, Tensor], Tensor]) -> Tensor:
        """Return how like the explained box the most similar box is, (repeats,) from 0 to 1, for one sample repeated, its tensors changed
        by ``change(name, tensor)``.
        """
        model = self.recording.model
        reading, run = model.reading, model.raw_forward
        assert self._answer is not None
        assert reading is not None
        assert run is not None
        assert reading.likeness is not None
        of_output = reading.likeness
        return self._answer(sample, repeats, change, lambda tensors: of_output(run(tensors)))

    def value(self, logits: Tensor | None = None) -> Tensor:
        """Return the explained number f(x) (B,), from ``logits`` (B, C), or from the logits of the pass if none are given."""
        return self.chosen.value(self.recording.logits if logits is None else logits).detach()

    def account(self) -> Tensor:
        """Return the number (B,) that the terms of a complete method add up to; see :meth:`ResolvedTarget.account`."""
        return self.chosen.account(self.recording.logits).detach()

    def identity(self) -> Tensor:
        """Return the identity matrix over the tokens, (1, S, S)."""
        x = self.recording.block_inputs[0]
        return torch.eye(x.shape[1], dtype=self.type_of_attention, device=x.device)[None]


def _require_attention(attention: Tensor | None, block: int, lack: str = "attention map over its tokens") -> Tensor:
    if attention is None:
        raise ExplainerError(f"Block {block + 1} of this model has no {lack}.")
    return attention


def parts_of_last(
    parts: Sequence[AttentionParts | None], projections: Sequence[tuple[Tensor, Tensor | None] | None]
) -> tuple[AttentionParts, tuple[Tensor, Tensor | None]]:
    """Return the last of ``parts`` (queries, keys, values, weights and outputs of each attention) and of ``projections``, the output
    projections (weight and bias). Raises ExplainerError if they cannot be read.
    """
    last, projection = parts[-1], projections[-1]
    if last is None or projection is None:
        raise ExplainerError("The queries, keys, values and output projection of this model's last attention cannot be read.")
    return last, projection


def inner_products(tokens: Tensor, signals: Tensor) -> MethodOutput:
    """Return scores (B, S): each token (B, S, D) times its signal, summed over the width, with the sizes of these sums."""
    products = tokens * signals
    return MethodOutput(products.sum(-1), sizes=products.abs().sum(-1))


def over_blocks(terms: Sequence[Tensor], first: int = 0, rest: Tensor | None = None) -> MethodOutput:
    """Return scores (B, S): the sum of the ``terms``, (B, S) for each block from ``first`` on, and of the ``rest``, which belongs to no
    block.
    """
    total = torch.stack(list(terms)).sum(0)
    return MethodOutput(total if rest is None else total + rest, terms=dict(enumerate(terms, first)), rest=rest)


def from_pixels(trace: Trace, pixels: Tensor, prefix: Tensor | None = None, terms: Tensor | None = None) -> MethodOutput:
    """Return a method's output from its map of the pixels (B, height, width), for ``trace``, with the sum over each patch as scores (B, S).
    Prefix tokens get ``prefix`` (B, S), else 0. ``terms`` (B, colours, height, width) sum to each pixel's number; rounding is estimated
    from their sizes. Raises ExplainerError if there is no grid of patches.
    """
    grid = trace.layout.grid
    if grid is None:
        raise ExplainerError("There are no patches to sum pixels over: at=pixels is for images.")
    height, width = pixels.shape[-2:]

    def by_patch(values: Tensor) -> Tensor:
        return (F.adaptive_avg_pool2d(values[:, None], grid)[:, 0] * (height * width / (grid[0] * grid[1]))).flatten(1)

    scores, first = torch.zeros_like(trace.recording.block_inputs[0][..., 0]), trace.layout.prefix
    if prefix is not None:
        scores[:, :first] = prefix[:, :first]
    patches = slice(first, first + grid[0] * grid[1])
    scores[:, patches] = by_patch(pixels).to(scores.dtype)
    if terms is None:
        return MethodOutput(scores, pixels=pixels)
    sizes = torch.zeros_like(scores)
    sizes[:, patches] = by_patch(terms.abs().sum(1)).to(scores.dtype)
    return MethodOutput(scores, pixels=pixels, sizes=sizes)

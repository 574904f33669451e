"""One recorded forward pass, and as many backward passes over it as there are rules to try."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from explainers.autograd.backward_pass import BackwardPass, missing_of
from explainers.autograd.dispatch import give_role
from explainers.autograd.mode import RecordingMode, doubled
from explainers.autograd.observed import projections
from explainers.autograd.observed.biases import BiasTerms
from explainers.autograd.observed.class_attention import ClassAttention
from explainers.autograd.opaque import Insides, mark_seen, on_path, recorded_inside
from explainers.autograd.operators.arithmetic import Add
from explainers.autograd.recorder import Operator
from explainers.autograd.rounding import GATHERED, error_of, seeded, value_of
from explainers.autograd.rules import Rule
from explainers.autograd.saved_values import SavedValues
from explainers.autograd.signals import AttentionParts, Signals
from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.layout import Layout
from explainers.models.model import Model
from explainers.models.structure.spans import Span
from explainers.models.structure.watching import NO_GRADIENT
from explainers.models.tokens import mask_of, rows_mix_tokens

Change = Callable[[Tensor], Tensor]


class Recording:
    """Run ``model`` once on ``tensors`` (batch first) and keep what every operator saw.

    After construction: ``logits`` (B, C), ``layout``, ``mask`` (B, S), ``class_tokens`` (B,), the place of the token that the head read in
    each sample (None where it pools), and per block ``block_inputs``, ``block_outputs`` and ``mid_residuals`` (the residual stream after
    attention), all (B, S, D), ``attentions`` (B, H, S, S) and ``parts``.

    pixels        start the graph at ``pixel_values`` instead of x^1
    entry         changes x^1 on its way in: the path of Integrated Gradients, noise, removal
    exit_block    the head reads ``exit_through`` of that block's output instead of the last block's: LeGrad
    single_head   the last block attends with one head over its whole width: Grad-ECLIP's published code
    double        everything in float64 whatever the weights are in, converted on the way: for rules that amplify rounding

    The model runs as it is written, not compiled. It is as it was afterwards, also when it raises: hooks gone, modes restored,
    ``requires_grad`` never touched.
    """

    is_differentiated = True

    def __init__(
        self,
        model: Model,
        tensors: Mapping[str, Tensor],
        *,
        pixels: bool = False,
        entry: Change | None = None,
        exit_block: int | None = None,
        exit_through: Change | None = None,
        single_head: bool = False,
        double: bool = False,
    ) -> None:
        self.model = model
        self.double = double
        self.layout: Layout = model.layout_of(tensors)
        self.block_inputs: list[Tensor] = []
        self.block_outputs: list[Tensor] = []
        self.attentions: list[Tensor | None] = []
        self.under_way = BackwardPass(Rule())
        self.entered = False  # whether the forward pass has reached x^1: biases before it are part of x^1
        self.parts: list[AttentionParts | None] = []
        self.mid_residuals: list[Tensor | None] = []
        self.projections: list[tuple[Tensor, Tensor | None] | None] = []
        self._entry = entry
        self._exit = (exit_block, exit_through)
        self._single_head = single_head
        self._inside = False
        self.position = 0  # how many operators were applied: up to x^1 counted downwards, from there upwards
        self.rounding: Mapping[int, float] = {}  # by position, the rounding that a value has gathered, where it was measured
        self.class_tokens: Tensor | None = None
        self.positions: tuple[Tensor, Tensor] | None = None  # recorded from the pixels: position embeddings, and tokens with them added
        self.rotary = False  # whether attention in the blocks rotates queries and keys by position
        self.pooling: Tensor | None = None  # (B, H, queries, S): attention with which a head pools the tokens
        self.behind = ClassAttention()  # what was seen of a class token that joins the tokens behind the blocks
        self.over_channels = False  # whether attention in the blocks is over channels
        self.sums: list[list[Tensor]] = []  # per block, the residual stream after each sum of two paths
        self._left: Tensor  # what the block that ran last gives on: at the end, what the head reads
        self._last_attention: Tensor | None = None
        self._thread = threading.get_ident()
        self._cache: dict[tuple[Rule, bytes], Signals] = {}

        tensors = {k: doubled(v) for k, v in tensors.items()} if double else dict(tensors)
        self.pixels: Tensor | None = None
        self.insides, self._saved = Insides(), SavedValues()
        if pixels and "pixel_values" in tensors and not model.reads_text:
            self.pixels = tensors["pixel_values"] = give_role(tensors["pixel_values"].detach().clone().requires_grad_(), "pixels")
            mark_seen(self.pixels)
        with torch.inference_mode(False), torch.enable_grad(), evaluating(model.module), self._hooks(), RecordingMode(self, self._saved):
            tensors = {k: v.clone() if v.is_inference() else v for k, v in tensors.items()}
            self.logits: Tensor = on_path(self, model.forward(tensors))
        self._end_forward()
        if not self.block_inputs:
            raise ExplainerError("None of the model's blocks ran: pass blocks=[...] to wrap() with those of the explained tower.")
        if not self.logits.requires_grad:
            raise ExplainerError(f"{NO_GRADIENT} Else check blocks= and entry= of wrap().")
        x = self.block_inputs[0]
        model.block_io.check(x)
        self.mask: Tensor = mask_of(tensors, x) if model.reads_text else torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        self.class_tokens = self._class_tokens()

    def _end_forward(self) -> None:
        """The forward pass is over: what is kept belongs to its graph alone."""
        self.insides.end(self)
        self._saved.forget()

    # --- forward ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        """Forward hooks on the entry and on the blocks for the time of the pass; they answer only to this thread."""

        def mine(hook: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args: hook(*args) if threading.get_ident() == self._thread else None

        handles = [self.model.entry.register_forward_pre_hook(mine(self._at_entry), with_kwargs=True)]
        of_blocks, of_class_blocks = (self._before_block, self._after_block), (self._before_class_block, self._after_class_block)
        for blocks, (before, after) in ((self.model.blocks, of_blocks), (self.model.class_blocks, of_class_blocks)):
            for block in dict.fromkeys(blocks):  # a block may be used several times
                handles.append(block.register_forward_pre_hook(mine(before), with_kwargs=True))
                handles.append(block.register_forward_hook(mine(after), with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _at_entry(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        if self.entered:
            return None
        block_io, (rows, columns) = self.model.block_io, self.layout.grid or (0, 0)
        grid = block_io.map_of(args, kwargs)
        if grid is not None and rows * columns != math.prod(grid):
            self.layout = replace(self.layout, grid=grid)
        x = recorded_inside(self, block_io.taken(args, kwargs))
        if self.pixels is None:
            x = x.detach()
        if self._entry is not None:
            x = self._entry(x)
        if not x.requires_grad:
            x = x.requires_grad_()
        self.entered, self.position = True, 0
        self._x1: Tensor = x
        return block_io.with_taken(args, kwargs, x.clone())  # what is kept stays as it is where the model writes into its tokens

    def _before_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first, block_io = not self.block_inputs, self.model.block_io
        self._stream, x = block_io.stream_shape(args, kwargs), recorded_inside(self, block_io.taken(args, kwargs))
        self.block_inputs.append(self._x1 if first and self.entered else x)
        self.attentions.append(None)
        self.parts.append(None)
        self.mid_residuals.append(None)
        self.projections.append(None)
        self.sums.append([])
        self._inside = True
        # what is no row of tokens goes into the block by way of the row that is read; a block may write into what it is given
        return None if first or isinstance(module, Span) else block_io.with_taken(args, kwargs, x.clone())

    def _after_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        self._inside = False
        block_io = self.model.block_io
        self.block_outputs.append(recorded_inside(self, block_io.given(output)))
        block, through = self._exit
        shown = self.block_outputs[-1]
        if block is not None and len(self.block_outputs) == len(self.model.blocks):
            shown = self.block_outputs[block]
            shown = shown if through is None else through(shown)
        self._left = shown
        if isinstance(module, Span) and len(self.block_outputs) < len(self.model.blocks):
            return None  # the residual beside the next block's first part is not in reach
        if isinstance(output, Tensor) or type(output) in (tuple, list) or shown is not self.block_outputs[-1] or not block_io.is_row:
            return block_io.with_given(output, shown.clone())
        return None

    def _before_class_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.behind.enter(args, kwargs)
        return None

    def _after_class_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        self.behind.leave(output)

    @property
    def class_attentions(self) -> list[Tensor]:
        """(B, H, 1, 1 + S) each: attention behind the blocks, where a class token joins their S tokens."""
        return self.behind.attentions

    def saw_attention(self, weights: Tensor) -> None:
        """Called by the operators with every softmax over keys: (B, H, queries, keys)."""
        self._last_attention = weights
        if not self._inside and self.block_outputs and weights.dim() == 4 and weights.shape[-2] < weights.shape[-1]:
            self.pooling = weights if weights.shape[-1] == self.block_outputs[-1].shape[1] else None
        if not self._inside or weights.dim() != 4:
            return
        tokens = self.block_inputs[-1].shape[1]
        if weights.shape[-1] == weights.shape[-2] == tokens and weights.shape[0] == self.block_inputs[-1].shape[0]:
            self.attentions[-1] = weights

    def saw_parts(self, query: Tensor, key: Tensor, value: Tensor, weights: Tensor, output: Tensor) -> None:
        """Called by the operators with what one attention was made of."""
        self.saw_values(value)
        parts = AttentionParts(query, key, value, weights, output)
        if self._inside and self.attentions[-1] is weights:
            self.parts[-1] = parts
        elif not self._inside:
            self.behind.saw_parts(parts)

    def saw_product(self, a: Tensor, b: Tensor, product: Tensor, attended: bool) -> None:
        """Called by the operators with every product of two paths: of attention weights and values where ``attended``."""
        if self._inside or not self.block_outputs:
            return
        if attended:
            self.behind.saw_output(b, product)
        else:
            self.behind.saw_factors(a, b)

    def saw_values(self, value: Tensor) -> None:
        """Called by the operators with what attention weights multiply: weights over channels (XCiT's) are none over tokens; of one query
        behind the blocks, over their tokens and one before these that is the same for every image, they are a class token's.
        """
        if not self._inside and self.block_outputs:
            self._saw_behind(value)
            return
        if not self._inside or self.attentions[-1] is None or not value.requires_grad:
            return
        x = self.block_inputs[-1]
        if 1 < x.shape[1] == value.shape[-2] == value.shape[-1]:  # else the shape of the weights has told
            with self.ordinary_gradient():
                mixes = rows_mix_tokens(value, x)
            if mixes:
                self.attentions[-1] = None
                self.over_channels = True

    def _saw_behind(self, value: Tensor) -> None:
        weights, tokens = self._last_attention, 1 + self._left.shape[1]
        if self.model.reads_text or weights is None or weights.dim() != 4 or len(weights) != len(self._left):
            return
        one_query = weights.shape[-2:] == (1, tokens) and value.shape[-2] == tokens
        if one_query and (self.class_attentions or self._is_alone(value[..., 0, :])):
            self.behind.saw_attention(weights)

    def _is_alone(self, value: Tensor) -> bool:
        """Whether a value behind the blocks depends on none of what they gave."""
        signal = self.pull(Rule(), value, self._left, torch.ones_like(value))
        return signal is None or not bool(signal.any())

    def saw_attended(self, *paths: Tensor) -> None:
        """Called by the operators with the factors of attention's products: the linear layers that made them are its projections."""
        rotated = projections.tell(paths, self.block_inputs[-1] if self._inside else self._left if self.block_outputs else None)
        self.rotary = self.rotary or (rotated and self._inside)

    def saw_linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """Called by the operators with every linear layer: the first after attention is its output projection."""
        if not self._inside:
            self.behind.saw_linear(x, weight, bias)
            return
        parts = self.parts[-1]
        if parts is not None and self.projections[-1] is None and x.shape[-1] == parts.output.shape[1] * parts.output.shape[3]:
            self.projections[-1] = (weight, bias)

    def saw_constant(self, constant: Tensor, total: Tensor) -> None:
        """Called by the operators with constants added to a path: before x^1, one for each token, or patch, is the position embedding."""
        self.behind.saw_sum(total, constant)
        tokens = math.prod(self.layout.grid or (0,))
        by_token = total.dim() == 3 and total.shape[1] in (tokens, tokens + self.layout.prefix)
        several = self.model.block_io.has_streams  # each has positions, of which only some are embeddings of the grid's patches
        if not self.entered and by_token and not several and constant.dim() >= 2 and constant.shape[-2] == total.shape[1]:
            self.positions = (constant, total)

    def saw_sum(self, total: Tensor) -> None:
        """Called by the operators with every sum of two paths: the first in a block over all its tokens is the stream after attention."""
        if not self._inside:
            self.behind.saw_sum(total)
        elif total.shape == self._stream:
            self.sums[-1].append(self.model.block_io.row_of(total))
            if self.mid_residuals[-1] is None:
                self.mid_residuals[-1] = self.sums[-1][0]

    @property
    def single_head(self) -> bool:
        """Whether the attention computed now is to have one head."""
        if self.model.class_blocks:
            return self._single_head and self.behind.inside and self.behind.count == len(self.model.class_blocks)
        return self._single_head and self._inside and len(self.block_inputs) == len(self.model.blocks)

    @property
    def last_attention(self) -> Tensor:
        """The attention map computed last."""
        assert self._last_attention is not None
        return self._last_attention

    def run(self, operator: type[Operator], *arguments: Any) -> Tensor:
        """Apply an operator, whose backward will ask this recording for the rule."""
        self.position += 1 if self.entered else -1
        turned = operator is Add and self.entered and self.model.block_io.tokens_first and arguments[0].shape[:2] == self._x1.shape[1::-1]
        if turned:  # relevance of a sum is shared within each sample
            arguments = (*(each.transpose(0, 1) if each.dim() == 3 else each for each in arguments[:2]), *arguments[2:])
        # Weak: the graph belongs to the recording, and a cycle through autograd's nodes is one that nobody collects.
        out: Tensor = operator.apply(*arguments, weakref.proxy(self))  # type: ignore[no-untyped-call]
        return out.transpose(0, 1) if turned else out

    def gathered(self, position: int) -> float:
        """The rounding that what the operator at ``position`` gives has gathered, in units of the last place."""
        known = self.rounding.get(position)
        return known if known is not None else max(self.rounding.values(), default=GATHERED)

    # --- backward -----------------------------------------------------------------------------------------------------

    def _class_tokens(self) -> Tensor | None:
        """Where the head reads one token, and which depends on the text: the one token of the last block that the logits depend on."""
        token, x = self.layout.class_token, self._left
        if token is None or token >= 0:
            return None if token is None else torch.full((len(x),), token, device=x.device)
        weights = torch.linspace(1, 2, self.logits.shape[-1], dtype=x.dtype, device=x.device)
        signal = self.pull(Rule(), self.logits, x, weights.expand_as(self.logits))
        assert signal is not None
        return signal.abs().amax(-1).argmax(-1)

    @property
    def starts(self) -> list[Tensor]:
        """What is explained, as far as the forward pass has come: x^1, and the pixels where it was recorded from them."""
        return [*([] if self.pixels is None else [self.pixels]), *([self._x1] if self.entered else [])]

    def before_write(self, tensor: Tensor) -> None:
        """Called by handlers that write into ``tensor``."""
        self._saved.before_write(tensor)

    def ordinary_gradient(self) -> AbstractContextManager[None]:
        """Follow the ordinary gradient for a while, without accounting for anything."""
        return self._follow(BackwardPass(Rule()))

    @property
    def rule(self) -> Rule:
        """The rule that the backward pass under way follows; beside one, the ordinary gradient."""
        return self.under_way.rule

    @contextmanager
    def _follow(self, backward_pass: BackwardPass) -> Iterator[None]:
        before, self.under_way = self.under_way, backward_pass
        try:
            yield
        finally:
            self.under_way = before

    def pull(self, rule: Rule, output: Tensor, at: Tensor, output_gradient: Tensor, differentiable: bool = False) -> Tensor | None:
        """What comes back to ``at`` under ``rule`` of a signal at ``output``, tensors of this recording; None where nothing does.

        ``differentiable``: what comes back can itself be differentiated with respect to ``output_gradient``.
        """
        with self._follow(BackwardPass(rule)):
            start = output_gradient.to(output.dtype)
            return torch.autograd.grad(output, at, start, retain_graph=True, create_graph=differentiable, allow_unused=True)[0]

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note ``name`` if a signal passes ``tensor`` by ordinary gradient under a rule that wants something else: one that it does not
        fit; None: that is not the ordinary gradient.
        """
        recording = weakref.proxy(self)

        def note(signal: Tensor | None) -> None:
            rule = recording.rule
            if signal is not None and not (rule.is_ordinary if fits is None else fits(rule)):
                recording.under_way.unruled.add(name)

        tensor.register_hook(note)

    def add_bias(self, signal: Tensor, bias: Tensor) -> None:
        """Account for the bias term signal * bias in the backward pass that is under way."""
        if self.under_way.biases is not None:
            self.under_way.biases.add(signal, bias)

    def signals(self, rule: Rule, seed: Tensor) -> Signals:
        """:meth:`backward`, and what it brought back is kept: the same question is answered once."""
        key = (rule, seed.detach().cpu().to(torch.float64).numpy().tobytes())
        if key not in self._cache:
            self._cache[key] = self.backward(rule, seed)
        return self._cache[key]

    def forget_signals(self) -> None:
        """Let go of all signals kept."""
        self._cache.clear()

    def backward(self, rule: Rule, output_gradient: Tensor) -> Signals:
        """Go back once under ``rule`` from ``output_gradient`` (B, C), the signal at the logits."""
        started = self._now()
        under_way = BackwardPass(rule, BiasTerms(self.block_inputs[0], self.layout, self.class_tokens, self.model.block_io))
        attentions = [a for a in self.attentions if a is not None]
        contexts = [p.output for p in (*self.parts, *self.behind.parts) if p is not None]
        placed = None if self.positions is None else self.positions[1]
        ends = [end for end in (self.pooling, placed, self.pixels) if end is not None]
        wanted = [*self.block_inputs, *self.block_outputs, *attentions, *contexts, *self.class_attentions, *ends]
        start, estimated = output_gradient.to(self.logits.dtype), rule.is_relevance and self.logits.dtype != torch.float64
        start = seeded(start) if estimated else start
        with self._follow(under_way):
            grads = torch.autograd.grad(self.logits, wanted, start, retain_graph=True, allow_unused=True)
        seconds = self._now() - started
        values = [torch.zeros_like(w) if f is None else value_of(f) for w, f in zip(wanted, grads, strict=True)]
        signals = self._signals(values, under_way, seconds)
        if rule.accounts:
            begun = (output_gradient * self.logits.detach()).sum(1)
            signals = replace(signals, missing=missing_of(signals, self.block_inputs[0].detach(), begun))
        if not estimated:
            return signals
        errors = [torch.zeros_like(w) if f is None else error_of(f) for w, f in zip(wanted, grads, strict=True)]
        return replace(signals, errors=self._signals(errors, under_way, seconds))

    def _signals(self, filled: list[Tensor], under_way: BackwardPass, seconds: float) -> Signals:
        """Put together from what arrived at the inputs and outputs of blocks, attentions, contexts, and the ends of the graph."""
        blocks = len(self.block_inputs)
        maps = iter(filled[2 * blocks :])
        assert under_way.biases is not None
        return Signals(
            block_inputs=tuple(filled[:blocks]),
            block_outputs=tuple(filled[blocks : 2 * blocks]),
            attentions=tuple(None if a is None else next(maps) for a in self.attentions),
            contexts=tuple(None if p is None else next(maps) for p in self.parts),
            class_contexts=tuple(None if p is None else next(maps) for p in self.behind.parts),
            class_attentions=tuple(next(maps) for _ in self.class_attentions),
            pooling=None if self.pooling is None else next(maps),
            placed=None if self.positions is None else next(maps),
            bias=under_way.biases.by_token,
            unplaced=under_way.biases.unplaced,
            pixels=filled[-1] if self.pixels is not None else None,
            unruled=frozenset(under_way.unruled),
            seconds=seconds,
        )

    def _now(self) -> float:
        """Seconds on a clock, all work on the device done."""
        if self.logits.is_cuda:
            torch.cuda.synchronize(self.logits.device)
        return time.perf_counter()

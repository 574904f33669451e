"""One recorded forward pass, and as many backward passes over it as there are rules to try."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Size, Tensor, nn

from explainers.autograd.attention_trial import attention_plan_of, follows_biases, has_plan
from explainers.autograd.backward_pass import BackwardPass, missing_of, places_of, readers_of, signals_at
from explainers.autograd.detached import DetachedNumbers
from explainers.autograd.detached_trial import functions_that_matter
from explainers.autograd.dispatch import active
from explainers.autograd.forward_pass import Change, ForwardPass
from explainers.autograd.mode import RecordingMode, doubled
from explainers.autograd.nodes import Block, Node, Nodes, Role
from explainers.autograd.opaque import Insides, on_path, record_of
from explainers.autograd.operators import Add, LinearMap, MatMul, Softmax
from explainers.autograd.operators.arithmetic import OF_ATTENTION
from explainers.autograd.own_code import own_code
from explainers.autograd.queued import Stopwatch
from explainers.autograd.recomputation import (
    BlockRun,
    NotKept,
    OutsideOfBlocks,
    Recomputation,
    reason_against_recomputation,
    without_cache,
)
from explainers.autograd.recorder import AttendByRows, Operator, Reader, ReadMap, argument_names
from explainers.autograd.rounding import ACCUMULATED_ROUNDING, error_of, exact, value_of
from explainers.autograd.rowwise_attention import PRODUCTS, STEPS, RowwiseAttention
from explainers.autograd.rules import Rule
from explainers.autograd.rules.without_attention import ALL_BUT_ATTENTION, WITHOUT_ATTENTION
from explainers.autograd.sample_axes import SampleAxis, sample_axis_of
from explainers.autograd.saved_values import KeptRecord
from explainers.autograd.signals import ACCOUNT, ALL, INSIDE_BLOCKS, AttentionParts, BatchTarget, Fields, Signals, covers
from explainers.autograd.structure.attention_kinds import AttentionKind
from explainers.autograd.structure.attention_products import softmaxes_behind
from explainers.autograd.structure.bias_rows import keep_biased
from explainers.autograd.structure.biases import BiasTerms
from explainers.autograd.structure.class_attention import class_token_first, tokens_among
from explainers.autograd.structure.model_structure import ModelStructure
from explainers.autograd.structure.token_codes import Tensors
from explainers.errors import ExplainerError, name_missing_derivative
from explainers.models.autocast import without_autocast
from explainers.models.eval_mode import evaluating
from explainers.models.layout import Layout
from explainers.models.model import Model
from explainers.models.structure.head_reading import NO_GRADIENT
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after
from explainers.models.tf32 import products_in_float32
from explainers.models.token_sources import real_tokens_of


def _has_samples_first(shape: Size, samples: int) -> bool:
    """Return whether the shape of a tensor leaves no doubt that its samples lie along its first axis."""
    return shape[:1] == (samples,) and samples not in shape[1:]


class Recording:
    """The recording of one forward pass of ``model`` on ``tensors`` (batch first), with the values that every operator saw.

    After construction: ``logits`` (B, C), ``layout``, ``mask`` (B, S), ``class_tokens`` (B,), the place of the token that the head read in
    each sample (None if it pools), and per block ``block_inputs`` and ``block_outputs``, (B, S, D). ``structure`` tells the parts of the
    model, some of which are :attr:`attentions`, :attr:`parts` and :attr:`mid_residuals`.

    pixels        start the graph at ``pixel_values`` instead of x^1
    entry         changes x^1 on its way in: the path of Integrated Gradients, noise, removal
    entry_block   ``entry`` changes the tokens at the input of that block instead, counted from 0 or from -1 back; what comes before it
                  gets no signal. At block 0 they are what it is given, where a norm may follow x^1
    exit_block    the head reads ``exit_through`` of that block's output instead of the last block's: LeGrad
    single_head   the last block attends with one head over its whole width: Grad-ECLIP's published code
    keeps_scores  attention scores before the softmax are kept, which is as much memory as the weights: AGCAM
    double        everything in float64 whatever the weights are in, converted on the way: for rules that amplify rounding
    recomputed    the activations inside the blocks are not kept but computed again on the way back, block by block, to save memory:
                  :mod:`explainers.autograd.recomputation`. What is read inside of blocks raises ReadsInsideError then
    moved         a function whose detached numbers are moved a little, to see whether they matter

    The model runs as it is written, not compiled. Afterwards, also after an error, it is unchanged: hooks are removed, modes restored, and
    ``requires_grad`` is never touched.
    """

    is_differentiated = True
    is_own_code = is_differentiated_again = False
    active = staticmethod(active)

    def __init__(
        self,
        model: Model,
        tensors: Mapping[str, Tensor],
        *,
        pixels: bool = False,
        entry: Change | None = None,
        entry_block: int | None = None,
        exit_block: int | None = None,
        exit_through: Change | None = None,
        single_head: bool = False,
        keeps_scores: bool = False,
        double: bool = False,
        recomputed: bool = False,
        moved: str | None = None,
    ) -> None:
        if own_code().blocks:
            raise ExplainerError("A model cannot be explained in a block of backward_rule: ask for the explanation before it or after it.")
        if recomputed and (reason := reason_against_recomputation(model)) is not None:
            raise ExplainerError(reason)
        self.model = model
        self.double = double
        recording = weakref.proxy(self)  # no cycle: see run
        attend = None if single_head else partial(Recording._attend_by_rows, recording)
        self._recomputation = Recomputation(lambda run: Recording._run_again(recording, run), attend, single_head) if recomputed else None
        self.layout: Layout = model.layout_of(tensors)
        self.nodes = Nodes()
        self.backward_pass = BackwardPass(Rule())
        self.rounding: Mapping[int, float] = {}  # by position, the rounding that a value has gathered, where it was measured
        self._cache: dict[tuple[Rule, int | bytes], Signals] = {}
        self._starts: dict[tuple[int, Rule], tuple[BatchTarget, Tensor]] = {}  # with the targets, whose ids are theirs as long as they live
        self._forward: ForwardPass | None = ForwardPass(
            entry,
            None if entry_block is None else entry_block % len(model.blocks),
            exit_block,
            exit_through,
            single_head,
            keeps_scores,
            follows_biases(model),
            detached=DetachedNumbers(moved),
        )

        tensors = {k: doubled(v) for k, v in tensors.items()} if double else dict(tensors)
        self.pixels: Tensor | None = None
        if pixels and "pixel_values" in tensors and not model.reads_text:
            self.pixels = tensors["pixel_values"] = self.nodes.start(tensors["pixel_values"].detach().clone().requires_grad_(), Role.PIXELS)
        mode = RecordingMode(self, self.forward_pass)
        with torch.inference_mode(False), torch.enable_grad(), evaluating(model.module), self._without_rounding(), self._hooks(), mode:
            tensors = {k: v.clone() if v.is_inference() else v for k, v in tensors.items()}
            try:
                answer = model.forward(tensors)
            except NotImplementedError as problem:
                if "FlexAttention" not in str(problem):
                    raise
                raise ExplainerError(
                    f"{problem} Or let the model attend in another way: attn_implementation='eager' or 'sdpa' of transformers, or "
                    "scaled_dot_product_attention in place of flex_attention."
                ) from problem
            self.logits: Tensor = on_path(self, answer)
        self._head = self.forward_pass.head
        self._head.end(answer)
        self._end_forward()
        if not self.nodes.blocks:
            raise ExplainerError("None of the model's blocks ran: pass blocks=[...] to wrap() with those of the explained tower.")
        if not self.logits.requires_grad:
            raise ExplainerError(f"{NO_GRADIENT} Else check blocks= and entry= of wrap().")
        x = self.block_inputs[0]
        model.block_kind.check(x)
        self.real_tokens = real_tokens_of(model, tensors, x, self.layout.has_own_words)
        self.class_tokens: Tensor | None = self._class_tokens()

    def _end_forward(self) -> None:
        """End the forward pass: forget everything but its graph."""
        self.forward_pass.insides.end(self)
        self.forward_pass.saved.forget()
        self.forward_pass.detached.forget()
        detached = self.forward_pass.detached
        self.nodes.detached, self.nodes.has_moved = frozenset(detached.functions), detached.has_moved
        self.nodes.end()
        self._forward = None

    # --- forward ------------------------------------------------------------------------------------------------------

    def as_chosen(self, out: Any, given: Iterable[Tensor]) -> Any:
        """Return ``out``, the result of a call on the tensors ``given``: every input of this pass is explained, and chooses for itself."""
        return out

    def as_constant(self, value: Tensor) -> Tensor:
        """Return ``value``, numbers that were taken out of the gradient, unchanged."""
        return value

    @property
    def recomputed(self) -> bool:
        """True if the activations inside the blocks are not kept but computed again during a backward pass."""
        return self._recomputation is not None

    @property
    def attend_by_rows(self) -> AttendByRows | None:
        """The function that attends some queries at a time on the way back; None where activations are kept, and for a single head."""
        return None if self._recomputation is None else self._recomputation.attend_by_rows

    @property
    def mask(self) -> Tensor:
        """Which tokens are real, bool (B, S), with those that the model adds to a text."""
        return self.real_tokens.all

    @property
    def forward_pass(self) -> ForwardPass:
        """The forward pass that is being recorded now."""
        assert self._forward is not None
        return self._forward

    @property
    def insides(self) -> Insides:
        """The record of what ran inside opaque code during this pass."""
        return self.forward_pass.insides

    @property
    def entered(self) -> bool:
        """Return whether the forward pass has reached the embedded tokens x^1: biases before them are part of x^1."""
        return self.nodes.entry is not None

    @property
    def position(self) -> int:
        """The number of operators applied so far, negative before the embedded tokens: see :class:`ForwardPass`."""
        return self.forward_pass.position

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        """Attach forward hooks to the model's entry and blocks inside this context; they act only in this thread."""
        handles = [self.model.entry.register_forward_pre_hook(in_this_thread(self._at_entry), with_kwargs=True)]
        of_blocks, of_class_blocks = (self._before_block, self._after_block), (self._before_class_block, self._after_class_block)
        for blocks, (before, after) in ((self.model.blocks, of_blocks), (self.model.class_blocks, of_class_blocks)):
            for block in dict.fromkeys(blocks):  # a block may be used several times
                handles.append(block.register_forward_pre_hook(in_this_thread(before), with_kwargs=True))
                handles.append(block.register_forward_hook(in_this_thread(after), with_kwargs=True))
        with remove_hooks_after(handles):
            yield

    def _at_entry(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        if self.entered:
            return None
        block_kind, (rows, columns) = self.model.block_kind, self.layout.grid or (0, 0)
        grid = block_kind.map_of(args, kwargs)
        if grid is not None and rows * columns != math.prod(grid):
            self.layout = replace(self.layout, grid=grid)
        x = record_of(self, block_kind.input_tokens(args, kwargs))
        if self.pixels is None:
            x = x.detach()
        if self.forward_pass.entry is not None and self.forward_pass.entry_block is None:
            x = self.forward_pass.entry(x)
        if not x.requires_grad:
            x = self.nodes.start(x.requires_grad_())
        self.nodes.entry, self.nodes.embedded, self.forward_pass.position = len(self.nodes.ran), self.nodes.of(x), 0
        self.forward_pass.x1 = x
        return block_kind.with_input_tokens(args, kwargs, x.clone())  # what is kept stays as it is where the model writes into its tokens

    def _before_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = self._begin_block(args, kwargs)
        if self._recomputation is not None:
            block_kind = self.model.block_kind
            # a block may write into its argument; what enters the first one may be no x^1 any more
            x = block_kind.input_tokens(args, kwargs).detach().clone() if arguments is None else self.nodes.blocks[-1].input.detach()
            args, kwargs = without_cache(block_kind.with_input_tokens(args, kwargs, x))
            self._recomputation.running = BlockRun(len(self.nodes.blocks) - 1, module, args, kwargs, x, self.position)
            self.forward_pass.saved.begin_log()
        return arguments

    def _begin_block(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note that a block begins with these arguments. Return the arguments that it gets in place of them, with its tokens as they were
        recorded; None if it keeps its own.
        """
        first, block_kind = not self.nodes.blocks, self.model.block_kind
        stream, x = block_kind.stream_shape(args, kwargs), record_of(self, block_kind.input_tokens(args, kwargs))
        is_changed = self.forward_pass.entry is not None and len(self.nodes.blocks) == self.forward_pass.entry_block
        if is_changed:
            x = self._changed(x.detach())
        elif first and self.forward_pass.x1 is not None:
            x1 = self.forward_pass.x1
            self.nodes.blocks.append(Block(len(self.nodes.ran), x1, self.nodes.of(x1), stream))
            return None
        self.nodes.blocks.append(Block(len(self.nodes.ran), x, self.nodes.of(x), stream))
        # what is no row of tokens goes into the block by way of the row that is read; a block may write into what it is given
        is_kept = not is_changed and (first or block_kind.in_loop)
        return None if is_kept else block_kind.with_input_tokens(args, kwargs, x.clone())

    def _changed(self, x: Tensor) -> Tensor:
        """Return the tokens ``x`` at the input of a block, changed as this pass changes them; the graph starts from them anew."""
        assert self.forward_pass.entry is not None
        if self.model.block_kind.in_loop:
            raise ExplainerError(
                f"The residual of {self.model.name} is added outside of its blocks, so that tokens cannot be changed between them: change "
                "them before the first block, as at=tokens does."
            )
        return self.nodes.start(self.forward_pass.entry(x).requires_grad_())

    def _after_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        block_kind, block, forward_pass = self.model.block_kind, self.nodes.blocks[-1], self.forward_pass
        block.end = len(self.nodes.ran)
        block.output = record_of(self, block_kind.output_tokens(output))
        if self._recomputation is not None and self._recomputation.running is not None:
            self._forget_inside(self._recomputation, self._recomputation.running, block)
        shown = block.output
        if forward_pass.exit_block is not None and len(self.nodes.blocks) == len(self.model.blocks):
            shown = self.block_outputs[forward_pass.exit_block]
            shown = shown if forward_pass.exit_through is None else forward_pass.exit_through(shown)
        block.made_by, block.passed_on, block.passed_on_by = self.nodes.of(block.output), shown, self.nodes.of(shown)
        if len(self.nodes.blocks) == len(self.model.blocks):
            forward_pass.head.begin(self, shown)
        if block_kind.in_loop and len(self.nodes.blocks) < len(self.model.blocks):
            return None  # the residual around the next block's first part is not in reach
        if isinstance(output, Tensor) or type(output) in (tuple, list) or shown is not block.output or not block_kind.is_row:
            return block_kind.with_output_tokens(output, shown.clone())
        return None

    def _forget_inside(self, recomputation: Recomputation, run: BlockRun, block: Block) -> None:
        """Release what ``block`` has kept in its ``run``, which is computed again by ``recomputation`` when it is read."""
        run.output, recomputation.running = block.output, None
        log = self.forward_pass.saved.end_log()
        self.forward_pass.saved.drop(log, recomputation.reader(run, len(log)))
        for node in self.nodes.nodes_in(block):
            node.operands, node.output, node.terms = (), None, ()

    def _run_again(self, run: BlockRun) -> tuple[Tensor, Sequence[KeptRecord]]:
        """Run a block again on its input, and return its output and what its operators kept, in order."""
        assert self._recomputation is not None
        block_kind, nodes, forward = self.model.block_kind, self.nodes, self._forward
        x = run.x.detach().requires_grad_()
        self.nodes = Nodes(blocks=nodes.blocks[: run.number], class_blocks=nodes.class_blocks, entry=0)
        self.nodes.start(x)
        self.nodes.blocks.append(Block(1, x, self.nodes.of(x), nodes.blocks[run.number].stream))
        self._forward = ForwardPass(
            position=run.position, x1=x, single_head=self._recomputation.has_single_head, keeps_biased=follows_biases(self.model)
        )
        view = nullcontext() if self.model.view is None else self.model.view()
        try:
            mode = RecordingMode(self, self.forward_pass)
            with torch.inference_mode(False), torch.enable_grad(), view, evaluating(self.model.module), mode:
                args, kwargs = block_kind.with_input_tokens(run.args, run.kwargs, x.clone())
                self.forward_pass.saved.begin_log()
                output = block_kind.output_tokens(run.module(*args, **kwargs))
                return output, self.forward_pass.saved.end_log()
        finally:
            self.nodes, self._forward = nodes, forward

    def _before_class_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = class_token_first(tokens_among(args, kwargs))
        self.nodes.class_blocks.append(Block(len(self.nodes.ran), x, self.nodes.of(x)))
        return None

    def _after_class_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        block = self.nodes.class_blocks[-1]
        block.end = len(self.nodes.ran)
        block.output = output if isinstance(output, Tensor) else output[0]

    def logits_from(self, block: int, through: Change | None = None) -> Tensor | None:
        """Return the logits of the head when it reads the output of a ``block``, changed by ``through``, instead of the last block's.

        This does what ``exit_block`` and ``exit_through`` do, without another recording. None if the calls of the head cannot be repeated.
        """
        if not self._head.is_whole:
            return None
        tokens, nodes = self.block_outputs[block], self.nodes
        forward = ForwardPass(x1=self.block_inputs[0], keeps_biased=follows_biases(self.model))
        self.nodes, self._forward = self._head.nodes(nodes, tokens), forward
        try:
            with torch.inference_mode(False), torch.enable_grad(), RecordingMode(self, self.forward_pass):
                logits = self._head.logits_of(
                    tokens if through is None else through(tokens), partial(setattr, self.forward_pass, "position")
                )
            self._end_forward()
        finally:
            self.nodes, self._forward = nodes, None
        return logits

    @property
    def single_head(self) -> bool:
        """Return whether the attention computed now is to have one head."""
        running = self.nodes.running_class_block if self.model.class_blocks else self.nodes.running
        several = (self.nodes.class_blocks, self.model.class_blocks) if self.model.class_blocks else (self.nodes.blocks, self.model.blocks)
        return self.forward_pass.single_head and running is not None and len(several[0]) == len(several[1])

    def record_calls(self) -> RecordingMode:
        """Return a mode in which torch calls are recorded, as those of the model are."""
        return RecordingMode(self, self.forward_pass)

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply ``operator`` to its arguments, record it with ``role`` and return its output. Its backward pass follows the rule that is
        then in force in this recording.
        """
        self.forward_pass.position += 1 if self.entered else -1
        given, turned = arguments, operator is Add and self.entered and self._has_tokens_first(arguments[0])
        if turned:  # relevance of a sum is shared within each sample
            given = (*(each.transpose(0, 1) if each.dim() == 3 else each for each in arguments[:2]), *arguments[2:])
        # Weak: the graph belongs to the recording, and a cycle through autograd's nodes is one that nobody collects.
        out: Tensor = operator.apply(*given, weakref.proxy(self))  # type: ignore[no-untyped-call]
        if self.forward_pass.keeps_biased:
            keep_biased(self.nodes, self.position, operator, arguments, role, out)
        return self._add_node(operator, arguments, out.transpose(0, 1) if turned else out, role)

    def _attend_by_rows(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        scale: float | None,
        record: Callable[..., tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Return attention of ``query`` to ``key`` and ``value``, which is recorded by ``record``, some queries at a time on the way back;
        its steps have the positions that they would have had here.
        """
        position, nodes = self.position, self.nodes  # self is a weak proxy: see run
        assert self._recomputation is not None
        self._recomputation.products_by_rows |= {position + number if self.entered else position - number for number in PRODUCTS}
        arguments = (mask, is_causal, scale, record, lambda: Recording._attend_again(self, position))
        out: Tensor = RowwiseAttention.apply(query, key, value, *arguments, self)  # type: ignore[no-untyped-call]
        self.forward_pass.position += STEPS if self.entered else -STEPS
        inputs = tuple(nodes.of(each) for each in (query, key, value))
        nodes.add(Node(RowwiseAttention, inputs, {}, out.shape, position=self.position, role=Role.CONTEXT), out)
        return out

    @contextmanager
    def _attend_again(self, position: int) -> Iterator[None]:
        """Record calls that run inside this context apart, from ``position`` on, while a backward pass is under way."""
        nodes, forward, entered = self.nodes, self._forward, position >= 0
        self.nodes = Nodes(blocks=nodes.blocks, class_blocks=nodes.class_blocks, entry=0 if entered else None)
        self._forward = ForwardPass(position=position)
        try:
            yield
        finally:
            self.forward_pass.saved.forget()  # the graph owns what it needs from now on
            self.nodes.let_go()
            self.nodes, self._forward = nodes, forward

    def _has_tokens_first(self, x: Tensor) -> bool:
        """Return whether the tokens of ``x`` lie along its first dimension, its samples along the second."""
        x1 = self.forward_pass.x1
        return self.model.block_kind.tokens_first and x1 is not None and x.shape[:2] == x1.shape[1::-1]

    def _is_turned(self, shape: Size) -> bool:
        """Return whether a sum of this shape was computed with its samples first, see :meth:`run`."""
        return self.model.block_kind.tokens_first and shape[:2] == self.block_inputs[0].shape[1::-1]

    def _add_node(self, operator: type[Operator], arguments: tuple[Any, ...], out: Tensor, role: Role | None) -> Tensor:
        """Append ``operator`` with its arguments, its result ``out`` and the ``role`` of that to the list of nodes, and return the
        result.
        """
        inputs, settings = [], {}
        for name, argument in zip(argument_names(operator), arguments, strict=True):
            is_path = isinstance(argument, Tensor) and argument.requires_grad
            if isinstance(argument, Tensor):
                inputs.append(self.nodes.of(argument) if is_path else None)
            if not is_path:
                settings[name] = argument
        node = Node(operator, tuple(inputs), settings, out.shape, position=self.position, role=role)
        if operator.keeps_operands and (operator is not LinearMap or self._may_be_asked_for(arguments[0])):
            node.operands = tuple(argument for argument in arguments if isinstance(argument, Tensor))
        if operator is Softmax and self.forward_pass.keeps_scores:
            node.operands = (arguments[0],)
        if operator.keeps_output and (operator is not Add or role not in OF_ATTENTION) and (operator is not MatMul or self._weighs(node)):
            node.output = out
        self.nodes.add(node, out)
        return out

    def _may_be_asked_for(self, x: Tensor) -> bool:
        """Return whether the input ``x`` of a linear map must be kept because it may be read later: as the input of attention, or to find
        out how attention is read.
        """
        return self.nodes.may_enter_attention(x) or (self.nodes.has_rows_of_block(x) and not has_plan(self.model))

    def _weighs(self, product: Node) -> bool:
        """Return whether a matrix product may multiply attention weights with values, whatever was done to the weights
        after their softmax.
        """
        running = self.nodes.running
        return product.role == Role.CONTEXT or (running is not None and bool(softmaxes_behind(product.inputs, running)))

    # --- what the model is made of ------------------------------------------------------------------------------------

    @cached_property
    def structure(self) -> ModelStructure:
        """The model's structure, found from the list of nodes."""
        structure = self._structure(None)
        if has_plan(self.model):
            self.nodes.forget_operands(LinearMap, structure.projections)  # of others nobody asks
        return structure

    def _structure(self, attention_kind: AttentionKind | None) -> ModelStructure:
        recording = weakref.proxy(self)  # no cycle: see run

        def gradient(of: Tensor, at: Tensor) -> Tensor | None:
            return Recording.pull(recording, Rule(), of, at, torch.ones_like(of))

        pull, pull_all = (partial(Recording.pull_several, recording, rule) for rule in (WITHOUT_ATTENTION, ALL_BUT_ATTENTION))
        plan = partial(attention_plan_of, self.model, recording, Recording)
        kind = OutsideOfBlocks if self.recomputed else ModelStructure
        return kind(self.nodes, self.layout, self.model.block_kind, self.model.reads_text, attention_kind, gradient, pull, pull_all, plan)

    @cached_property
    def detached(self) -> frozenset[str]:
        """The names of the functions that cut numbers off from the gradient on which the answer depends. A number that a softmax cancels,
        such as the largest that is subtracted before it, does not count.
        """
        return functions_that_matter(self.model, self.nodes.detached, Recording)

    @property
    def block_inputs(self) -> list[Tensor]:
        """The input of each block, (B, S, D); the first is the embedded tokens, x^1."""
        return [block.input for block in self.nodes.blocks]

    @property
    def block_outputs(self) -> list[Tensor]:
        """The output of each block, (B, S, D)."""
        return [block.output for block in self.nodes.blocks if block.output is not None]

    @property
    def attentions(self) -> list[Tensor | None]:
        """The attention weights (B, H, S, S) of all blocks, one each in most models; None for a block without attention over its tokens."""
        return self.structure.attentions

    @cached_property
    def has_maps_by_rows(self) -> bool:
        """Whether the one attention map of each block, over the tokens in their order, is computed some queries at a time on the way back,
        where :meth:`backward` lets it be read.
        """
        plan, tokens = self.structure.plan if self.recomputed else None, self.block_inputs[0].shape[1]
        if plan is None or not plan.has_usual_maps:
            return False
        fused = [[node for node in self.nodes.nodes_in(block) if node.operator is RowwiseAttention] for block in self.nodes.blocks]
        return all(
            len(nodes) == 1 and all(each is not None and len(each.shape) == 4 and each.shape[-2] == tokens for each in nodes[0].inputs)
            for nodes in fused
        )

    @property
    def class_attentions(self) -> tuple[Tensor, ...]:
        """The weights of class attention, (B, H, 1, 1 + S) each: attention after the blocks, where a class token joins their S tokens."""
        return self.structure.class_attention.attentions

    @property
    def parts(self) -> list[AttentionParts | None]:
        """The queries, keys, values, weights and outputs of each block's attention; None if they cannot be found."""
        return self.structure.parts

    @property
    def mid_residuals(self) -> list[Tensor | None]:
        """The residual stream after the attention of each block, (B, S, D); None for a block without one."""
        return self.structure.mid_residuals

    def is_projection(self, position: int) -> bool:
        """Return whether the linear map at ``position`` makes queries, keys or values of attention, or takes what attention gives."""
        return position in self.structure.projections

    def is_of_attention(self, position: int) -> bool:
        """Return whether the matrix product of two paths at ``position`` makes attention weights or multiplies values by them."""
        by_rows = frozenset() if self._recomputation is None else self._recomputation.products_by_rows
        return position in by_rows or position in self.structure.products_of_attention

    def is_normalised(self, position: int) -> bool:
        """Return whether the output of the linear attention at ``position`` is divided by its normaliser."""
        return position in self.structure.normalised

    def accumulated_rounding(self, position: int) -> float:
        """Return the rounding error that the output of the operator at ``position`` has accumulated, in units of the last place."""
        known = self.rounding.get(position)
        return known if known is not None else max(self.rounding.values(), default=ACCUMULATED_ROUNDING)

    # --- backward -----------------------------------------------------------------------------------------------------

    def _class_tokens(self) -> Tensor | None:
        """Return the index (B,) of the token that the head reads, None if it reads several. If it depends on the text, it is the one token
        of the last block with a gradient from the logits.
        """
        token, x = self.layout.class_token, self.nodes.blocks[-1].passed_on
        assert x is not None
        if token is None or token >= 0:
            return None if token is None else torch.full((len(x),), token, device=x.device)
        signal = self._signal_of_head(x)
        assert signal is not None
        return signal.abs().amax(-1).argmax(-1)

    def _signal_of_head(self, x: Tensor) -> Tensor | None:
        """Return the gradient of a weighted sum of the logits at what the last block gives, ``x``; None if there is none."""
        weights = torch.linspace(1, 2, self.logits.shape[-1], dtype=x.dtype, device=x.device)
        return self.pull(Rule(), self.logits, x, weights.expand_as(self.logits))

    @property
    def tokens_read(self) -> Tensor | None:
        """The tokens of the last block that reach the logits, bool (B, S), found by a gradient; None if no gradient tells."""
        x = self.nodes.blocks[-1].passed_on
        signal = None if x is None or not self.logits.requires_grad else self._signal_of_head(x)
        return None if signal is None or signal.shape[:2] != self.mask.shape else (signal != 0).any(-1)

    @property
    def starts(self) -> list[Tensor]:
        """The explained tensors reached so far: the embedded tokens x^1, and the pixels if the recording started from them."""
        return [start for start in (self.pixels, self.forward_pass.x1) if start is not None]

    def before_write(self, tensor: Tensor) -> None:
        """Copy the kept values of ``tensor`` before a handler writes into it."""
        self.forward_pass.saved.before_write(tensor)

    def keep(self, ctx: Any, *tensors: Tensor | None) -> None:
        """Keep tensors in an autograd context ``ctx`` for the backward pass."""
        ctx.kept_tensors = [None if each is None else self.forward_pass.saved.keep(each) for each in tensors]

    def recompute(self, value: Tensor, function: Callable[..., Tensor], *arguments: Any) -> None:
        """Note that ``value`` is ``function`` of the arguments and cheap to recompute, so that it need not be kept."""
        self.forward_pass.saved.recompute(value, function, *arguments)

    def ordinary_gradient(self) -> AbstractContextManager[None]:
        """Return a context in which backward passes follow the ordinary gradient without accounting."""
        return self._follow(BackwardPass(Rule()))

    @property
    def rule(self) -> Rule:
        """The rule of the current backward pass; outside of one, the ordinary gradient."""
        return self.backward_pass.rule

    @property
    def read_map(self) -> ReadMap | None:
        """The function that reads attention maps in the current backward pass; None if nobody reads them."""
        return self.backward_pass.read_map

    @property
    def operand_signals(self) -> dict[Reader, Tensor | None] | None:
        """The signals at operands of matrix products that the current backward pass reads, None until they are there;
        None or empty: it reads none.
        """
        return self.backward_pass.operand_signals

    def note_mean(self, node: Node, operand: int) -> None:
        """Note that a ``node``, a sum, takes off the mean of a normalisation that is written out, or adds a number in the formula of an
        activation that is written out: its operand with this index.
        """
        self.nodes.means[node.position] = operand

    def mean_operand(self, position: int) -> int | None:
        """Return the index of the operand of the sum at ``position`` that is the mean of a normalisation written out, or a number in the
        formula of an activation written out; None if none is.
        """
        return self.nodes.means.get(position)

    def sample_axis(self, position: int, shape: Size) -> SampleAxis | None:
        """Return where the samples lie in a tensor of this ``shape``, of the sum or the linear map at ``position``; None if along its first
        axis. Raises ExplainerError if it is not known.
        """
        samples = len(self.block_inputs[0])
        if samples == 1:
            return None if shape[0] == 1 else SampleAxis(1)
        if _has_samples_first(shape, samples):
            return None
        known = self._sample_axes.get(position)
        if known is None and shape[0] == samples:
            return None
        if known is None:
            raise ExplainerError(
                f"Inside this model are tensors of shape {tuple(shape)}, and which of their numbers belong to which of {samples} samples "
                "cannot be told, so that relevance cannot be shared within each. Explain one input at a time."
            )
        return known

    @cached_property
    def _sample_axes(self) -> dict[int, SampleAxis]:
        """Where the samples lie, by the position of a sum of two paths, in those whose shape does not tell it."""
        samples = len(self.block_inputs[0])
        sums = [node for node in self.nodes.ran if node.operator is Add and len(node.paths) == 2 and node.output is not None]
        sums = [node for node in sums if samples > 1 and not _has_samples_first(node.shape, samples) and not self._is_turned(node.shape)]
        outputs = [node.output for node in sums if node.output is not None]
        if not outputs:
            return {}
        weights = torch.linspace(1, 2, self.logits.shape[-1], dtype=self.logits.dtype, device=self.logits.device).expand_as(self.logits)
        numbers = torch.arange(1, samples + 1, dtype=weights.dtype, device=weights.device)[:, None]
        plain, multiples = (self.pull_several(Rule(), [self.logits], outputs, [seed]) for seed in (weights, weights * numbers))
        axes: dict[int, SampleAxis] = {}
        for node, gradient, multiple in zip(sums, plain, multiples, strict=True):
            axis = None if gradient is None or multiple is None else sample_axis_of(gradient, multiple, samples)
            if axis is not None:
                axes[node.position] = axis
        return axes

    def _without_rounding(self) -> AbstractContextManager[None]:
        """Return a context in which a caller's torch.autocast does not round what is computed in float64."""
        return without_autocast(self.model.device) if self.double else nullcontext()

    @contextmanager
    def _follow(self, backward_pass: BackwardPass) -> Iterator[None]:
        if backward_pass.rule.is_relevance:
            _ = self._sample_axes  # found before the pass, not in the middle of it
        before, self.backward_pass = self.backward_pass, backward_pass
        try:
            with products_in_float32(), self._without_rounding():
                yield
        finally:
            self.backward_pass = before
            if self._recomputation is not None:
                self._recomputation.release()

    def pull(self, rule: Rule, output: Tensor, at: Tensor, output_gradient: Tensor, differentiable: bool = False) -> Tensor | None:
        """Return the signal that reaches ``at`` under ``rule`` from a signal at ``output``; None if no signal does. ``differentiable``: the
        result can itself be differentiated with respect to ``output_gradient``.
        """
        return self.pull_several(rule, [output], [at], [output_gradient.to(output.dtype)], differentiable=differentiable)[0]

    def pull_several(
        self, rule: Rule, outputs: Sequence[Tensor], at: Sequence[Tensor], signals: Sequence[Tensor], *, differentiable: bool = False
    ) -> Tensors:
        """Propagate ``signals`` at several ``outputs`` back to the tensors ``at`` under ``rule``, see :meth:`pull`; None for one that none
        reaches.
        """
        with torch.inference_mode(False), torch.enable_grad(), self._follow(BackwardPass(rule)), name_missing_derivative():
            return torch.autograd.grad(outputs, at, signals, retain_graph=True, create_graph=differentiable, allow_unused=True)

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note the function ``name`` if a signal passes ``tensor`` by the ordinary gradient under a rule for which ``fits`` is false; with
        ``fits`` None, under any rule other than the ordinary gradient.
        """
        recording = weakref.proxy(self)

        def note(signal: Tensor | None) -> None:
            rule = recording.rule
            if signal is not None and not (rule.is_ordinary if fits is None else fits(rule)) and bool(signal.any()):
                recording.backward_pass.unruled.add(name)

        tensor.register_hook(note)

    def add_bias(self, signal: Tensor, bias: Tensor, position: int | None = None) -> None:
        """Add the bias term signal * bias of the operator at ``position`` to the account of the backward pass that is under way."""
        if self.backward_pass.biases is not None:
            self.backward_pass.biases.add(signal, bias, position)

    def cached_backward(self, rule: Rule, output_gradient: Tensor, fields: Fields = ALL) -> Signals:
        """Run :meth:`backward` under ``rule`` from ``output_gradient`` (B, C) and return the signals in ``fields``; they are cached, so
        that the same pass runs only once.
        """
        fields = self.known_fields(fields)
        key = (rule, self._key_of(output_gradient))
        known = self._cache.get(key)
        if known is None or not covers(known.fields, fields):
            known = self._cache[key] = self.backward(rule, output_gradient, fields if known is None else fields | known.fields)
        return known

    def known_fields(self, fields: Fields) -> Fields:
        """Return the fields of signals that a backward pass computes when ``fields`` are requested. A request for all fields leaves out
        those inside blocks if their activations are not kept.
        """
        return fields - INSIDE_BLOCKS if self.recomputed and fields >= ALL else fields

    signals = cached_backward  # its name in 0.2

    @cached_property
    def cpu_mask(self) -> Tensor:
        """Which tokens the mask of the input names, (B, S), on the CPU: a GPU is waited for once."""
        return self.real_tokens.of_input.cpu()

    def forget_signals(self) -> None:
        """Release all cached signals."""
        self._cache.clear()
        self._starts.clear()

    def start_of(self, chosen: BatchTarget, rule: Rule) -> Tensor:
        """Return the gradient (B, C) with which a backward pass under ``rule`` begins for the target ``chosen``; the same tensor for the
        same target.
        """
        key = (id(chosen), rule)
        if key not in self._starts:
            self._starts[key] = (chosen, chosen.output_gradient(self.logits, rule))
        return self._starts[key][1]

    def _key_of(self, output_gradient: Tensor) -> int | bytes:
        """Return a key for ``output_gradient``, the start of a backward pass, under which its signals are cached: the bytes of its numbers;
        or its identity if :meth:`start_of` made it, as reading numbers would wait for a GPU.
        """
        if any(output_gradient is start for _, start in self._starts.values()):
            return id(output_gradient)
        return output_gradient.detach().cpu().to(torch.float64).numpy().tobytes()

    def backward(
        self,
        rule: Rule,
        output_gradient: Tensor,
        fields: Fields = ALL,
        logits: Tensor | None = None,
        read_map: ReadMap | None = None,
    ) -> Signals:
        """Run one backward pass under ``rule`` from ``output_gradient`` (B, C), the signal at the logits, as far as ``fields`` need it, and
        return its signals. Under a rule that accounts for the answer they include the missing part, if
        :data:`~explainers.autograd.signals.ACCOUNT` is among the fields. ``logits``: a result of :meth:`logits_from`, to start there
        instead of at the recording's own. ``read_map`` is called with the attention of some queries at a time, from the last block back as
        far as ``fields`` lie, where :attr:`has_maps_by_rows` is true.
        """
        stopwatch, logits = Stopwatch(self.logits.device), self.logits if logits is None else logits
        fields = self.known_fields(fields)
        biases = None
        if "bias" in fields:
            fields |= ACCOUNT
            biases = BiasTerms(self.block_inputs[0], self.layout, self.class_tokens, self.model.block_kind, self.structure.bias_places)
        backward_pass, places = BackwardPass(rule, biases, read_map), places_of(self.nodes, self.structure, self.pixels, fields)
        ends = [place for several in places.values() for place in several if place is not None]
        readers = readers_of(places, self.structure)
        backward_pass.operand_signals = {reader: None for reader in readers if reader is not None}
        start, estimated = output_gradient.to(logits.dtype), rule.is_relevance and logits.dtype != torch.float64
        start = exact(start) if estimated else start
        with self._follow(backward_pass), name_missing_derivative():
            whole = torch.autograd.grad(logits, ends, start, retain_graph=True, allow_unused=True) if ends else ()
        of_products = backward_pass.operand_signals
        arrived = [g if reader is None else of_products[reader] for g, reader in zip(whole, readers, strict=True)]
        stopwatch.stop()
        values = [torch.zeros_like(end) if g is None else value_of(g) for end, g in zip(ends, arrived, strict=True)]
        signals = signals_at(places, values, fields, backward_pass, stopwatch, self.structure)
        if rule.accounts and covers(fields, ACCOUNT):
            begun = (output_gradient * logits.detach()).sum(1)
            signals = replace(signals, missing=missing_of(signals, self.block_inputs[0].detach(), begun, self.nodes.epsilon))
        if self.recomputed:
            signals = replace(signals, attention_inputs=NotKept(), attentions=NotKept(), contexts=NotKept())
        if not estimated:
            return signals
        errors = [torch.zeros_like(end) if g is None else error_of(g) for end, g in zip(ends, arrived, strict=True)]
        return replace(signals, errors=signals_at(places, errors, fields, backward_pass, stopwatch, self.structure))

"""Every source token propagated forward on its own: what each contributes to every later tensor, the non-linearities held.

A batch holds, for each sample, the real input and copies of it in which x^1 (or the input of one block) is zero but at one
source token. All run through the model together. What is not linear takes its constants from the real one: attention weights,
the scales of normalisations, gates; biases are added to the real one alone. So each copy carries one source's contribution,
and the copies of all sources sum to the real one less its biases. Where the sources are the tokens of one block, a bias that
meets a token before attention mixes it with others belongs to that token: value vectors carry their bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from torch import Size, Tensor, nn

from explainers.autograd.dispatch import role
from explainers.autograd.handlers.written_norm import mean_taken_off
from explainers.autograd.nodes import Block, Move, Node, Role, Unruled, ancestors, users_of
from explainers.autograd.opaque import record_of
from explainers.autograd.operators import Add, Div, LinearMap, Mul, Norm, Scale, Softmax, Weights
from explainers.autograd.operators.arithmetic import has_no_bias
from explainers.autograd.operators.linear import is_bias
from explainers.autograd.recorder import BiasOf, Operator
from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.autograd.structure.attention_kinds import OVER_TOKENS, AttentionKind
from explainers.autograd.structure.attention_products import mixes
from explainers.autograd.structure.class_attention import class_attentions, with_tokens_of_class_block
from explainers.autograd.structure.model_structure import ModelStructure
from explainers.errors import ExplainerError
from explainers.models.model import Model

#: Why a model is refused, with ``{shape}`` for the shape of a tensor inside it.
SAMPLES_ARE_NOT_FIRST = (
    "Inside this model a tensor of shape {shape} does not have its samples first, so that single tokens cannot be propagated through it: "
    "choose a method that goes backward, such as fullgrad_plus:libra."
)
#: Why a model's class attention is refused, whose biases cannot be shared out among its tokens.
BIAS_OF_SOME_TOKENS = (
    "In the class attention of this model a bias is added to rows that are not all its tokens in their order, such as those of the patches "
    "alone, so that it is not known how much of it each token gives: choose a method that goes backward, such as fullgrad_plus:libra, or "
    "one that multiplies attention, such as rollout."
)


def check_block_kind(model: Model) -> None:
    """Raise ExplainerError if single tokens cannot be propagated through blocks of the kind of ``model``."""
    if (refused := model.block_kind.no_forward_decomposition) is not None:
        raise ExplainerError(f"{refused.format(name=model.name)}: choose a method that goes backward, such as fullgrad_plus:libra.")


class ForwardDecomposition(Recording):
    """A forward pass of ``1 + len(sources)`` copies of each sample, sample-major, the real one first.

    ``tensors`` are the input tensors, with each sample already repeated that often; ``sources`` (K,) are token indices. If ``block`` is
    None the sources are embedded tokens (x^1), and ``logits`` holds the contribution of each. Otherwise the sources are the tokens at the
    input of that block, which is the last one to run; with ``class_attention_stage`` it is counted among the blocks of class attention
    after the others. ``attention_kind`` says whether attention in the blocks is over tokens or over channels; finding it out may take a
    backward pass. ``rule`` must have a linear form: hold attention and scales and gates constant. ``shares_biases``: biases are divided
    among the sources, which must all be in one pass, by the size of the product of each one's vector with the bias (DecompX's ``absdot``):
    those of norms and linear maps at once, those in attention and other constants at the next sum of two paths, as its published code does.
    ``row_tokens``: by the position of an operator with a bias, where its rows are not all tokens in their order, the token of each row in
    each sample, (B, rows, ...) with an axis of size 1 for the width; -1 for a row of no token.
    """

    is_differentiated = False

    def __init__(
        self,
        model: Model,
        tensors: Mapping[str, Tensor],
        sources: Tensor,
        rule: Rule,
        block: int | None = None,
        class_attention_stage: bool = False,
        attention_kind: AttentionKind = OVER_TOKENS,
        shares_biases: bool = False,
        row_tokens: Mapping[int, Tensor] = MappingProxyType({}),
        carries_constants: bool = False,
    ) -> None:
        check_block_kind(model)
        self.copies = 1 + len(sources) + carries_constants
        self._sources, self._carries_constants = sources, carries_constants
        self._attention_kind = attention_kind
        self._shares_biases, self._row_tokens = shares_biases, row_tokens
        self._propagated = rule
        self._block = None if class_attention_stage else block
        self._of_classes = block if class_attention_stage else None
        self._taken: tuple[Node | None, ...] = ()  # what gave the operator that runs now what it takes
        self._kept: Tensor | None = None  # (copies, S): the tokens of each copy, from the isolated input of the block on
        # of the last block: input, output, the factor (scale times weight) of the real copy, whether the mean is taken off
        self.norms: list[tuple[Tensor, Tensor, Tensor, bool]] = []
        # each of these to which a weight or a bias was applied apart: its index, what it was before, and the node that gave its output
        self._weighted: list[tuple[int, tuple[Tensor, Tensor, Tensor, bool], Node]] = []
        self._centred: tuple[Tensor, Tensor] | None = None  # numbers less their mean, and the numbers
        self._mark = torch.zeros((), requires_grad=True)  # what depends on the input hangs on it
        self._watched: list[tuple[str, Node | None]] = []
        self._end: Node | None = None  # what gave the last tensor that is read
        self._is_unplaced, self._unplaced = False, list[Node | None]()  # what gave class attention a bias of tokens that are not known
        with suppress(_ReachedError):
            super().__init__(model, tensors, entry=self._isolate if block is None else None)
        if self._forward is not None:  # the last block of interest was reached
            self.forward_pass.saved.forget()
        reached = None if self._end is None else {id(node) for node in ancestors([self._end], until=_is_constant)}
        #: What the copies passed that is not linear and has no constants.
        self.unruled = {name for name, node in self._watched if reached is None or node is None or id(node) in reached}
        is_read = any(node is not None and (reached is None or id(node) in reached) for node in self._unplaced)
        self._watched.clear()
        self._unplaced.clear()
        self.nodes.end()
        self._forward = None  # a method of its own would keep it, and all that it recorded, until cycles are collected
        if is_read:
            raise ExplainerError(BIAS_OF_SOME_TOKENS)

    @property
    def rule(self) -> Rule:
        """The rule whose linear forms are applied."""
        return self._propagated

    def _isolate(self, x: Tensor) -> Tensor:
        """Return ``x`` (rows, S, D) with the rows of each sample replaced by its real input, followed by copies of it in which all tokens
        but one source token are zero.
        """
        if len(x) % self.copies:
            raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(x.shape)))
        real = x.detach().unflatten(0, (-1, self.copies))[:, :1]  # the copies may come without the biases of earlier blocks
        alone: Tensor = real * self._kept_tokens(x)[None, :, :, None]
        return alone.flatten(0, 1)

    def _kept_tokens(self, x: Tensor) -> Tensor:
        """Return (copies, S): 1 at the tokens of ``x`` (copies, S, D) that each copy keeps, which are all tokens for the real copy and none
        for that of constants, and 0 elsewhere.
        """
        kept = torch.zeros(self.copies, x.shape[1], dtype=x.dtype, device=x.device)
        kept[0] = 1
        kept[torch.arange(1, 1 + len(self._sources)), self._sources] = 1
        return kept

    def _before_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        replaced = super()._before_block(module, args, kwargs)
        if self._block is None or len(self.nodes.blocks) - 1 != self._block:
            return replaced
        self.norms, self._weighted = [], []
        block = self.nodes.blocks[-1]
        given = record_of(self, self.model.block_kind.input_tokens(args, kwargs))  # after a norm outside of the blocks, unlike x^1
        x = self.nodes.start(self._isolate(given).requires_grad_())
        self._kept = self._kept_tokens(x)
        block.input, block.start, block.first = x, self.nodes.of(x), len(self.nodes.ran)
        return self.model.block_kind.with_input_tokens(args, kwargs, x.clone())  # a block may write into its input

    def _after_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        replaced = super()._after_block(module, args, kwargs, output)
        if self._block is not None and len(self.nodes.blocks) - 1 == self._block:
            self._end = self.nodes.blocks[-1].made_by
            self._take_weights_back(self.nodes.blocks[-1])
            raise _ReachedError
        # of the blocks before the one of interest nothing is read again, and there is a copy for each source
        self.nodes.let_go()
        self.norms, self._weighted = [], []
        return replaced

    def _before_class_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        super()._before_class_block(module, args, kwargs)
        if self._of_classes is None or len(self.nodes.class_blocks) - 1 != self._of_classes:
            return None
        block = self.nodes.class_blocks[-1]
        x = self.nodes.start(self._isolate(block.input).requires_grad_())
        self._kept = self._kept_tokens(x)
        block.input, block.start = x, self.nodes.of(x)
        return with_tokens_of_class_block(x.clone(), args, kwargs)

    def _after_class_block(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        super()._after_class_block(module, args, kwargs, output)
        if self._of_classes is not None and len(self.nodes.class_blocks) - 1 == self._of_classes:
            self._end = self.nodes.of(self.nodes.class_blocks[-1].output)
            raise _ReachedError

    def _end_forward(self) -> None:
        """Note what gave the logits, and end the forward pass."""
        self._end = self.nodes.of(self.logits)
        super()._end_forward()

    def _class_tokens(self) -> Tensor | None:
        """Return None: finding the class tokens takes a backward pass."""
        return None

    @cached_property
    def structure(self) -> ModelStructure:
        """The model's structure, as the list of nodes shows it, with what is known of its attention."""
        return self._structure(self._attention_kind)

    @property
    def starts(self) -> list[Tensor]:
        """The tensors that everything depending on the input starts from."""
        return [*super().starts, self._mark]

    def real(self, x: Tensor) -> Tensor:
        """Return ``x`` with every copy replaced by the real copy of its sample."""
        rows = self._rows(x)  # tokens or heads may lie with the samples
        if len(x) % (self.copies * rows):
            raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(x.shape)))
        groups = x.detach().unflatten(0, (-1, self.copies, rows))
        repeated: Tensor = groups[:, :1].expand_as(groups)
        return repeated.flatten(0, 2)

    def as_chosen(self, out: Any, given: Iterable[Tensor]) -> Any:
        """Return ``out``, the result of a call on the tensors ``given``, with whole numbers and truth values that it made of numbers of the
        samples, such as the order of sorted tokens or the experts of a router, as the real copies have them, for every copy.
        """
        given = list(given)
        if isinstance(out, tuple | list):
            chosen = [self.as_chosen(each, given) for each in out]
            if len(chosen) == 2 and given and chosen[1] is not out[1]:  # sorted, or the largest: numbers and their places
                chosen[0] = self._at(given[0], out[0], out[1], chosen[1])
            return type(out)(chosen) if any(new is not old for new, old in zip(chosen, out, strict=True)) else out
        if not isinstance(out, Tensor) or out.is_floating_point() or out.is_complex() or not out.dim():
            return out
        made_of = [each for each in given if each.dim() and len(each) == len(out) and each.is_floating_point()]
        return self.as_constant(out) if made_of else out

    def as_constant(self, value: Tensor) -> Tensor:
        """Return ``value``, constants made of numbers of the samples, as the real copies have it; unchanged where samples are not first."""
        return self.real(value) if value.dim() and len(value) and not len(value) % self._samples else value

    def _at(self, x: Tensor, values: Tensor, before: Tensor, places: Tensor) -> Tensor:
        """Return the numbers of ``x`` at ``places``, given its ``values`` at the places ``before`` along some dimension; ``values`` if
        there is no such dimension.
        """
        for dim in range(x.dim()) if x.dim() == before.dim() else ():
            others, of_places = ([size for axis, size in enumerate(each.shape) if axis != dim] for each in (x, before))
            if others == of_places and bool((before < x.shape[dim]).all()) and torch.equal(x.gather(dim, before), values):
                return self.nodes.move(x.gather(dim, places), x, role(self, values))
        return values

    def where_real(self, y: Tensor) -> Tensor:
        """Return a bool tensor that broadcasts with ``y``, True at the rows that belong to real copies."""
        return self._where(y, 0)

    def where_constants(self, y: Tensor) -> Tensor:
        """Return a bool tensor that broadcasts with ``y``, True at the rows to which constants are added: those of real copies, and of the
        copies that carry constants.
        """
        return self._where(y, *((0, -1) if self._carries_constants else (0,)))

    def _where(self, y: Tensor, *copies: int) -> Tensor:
        chosen = torch.zeros(self.copies, dtype=torch.bool, device=y.device)
        for copy in copies:
            chosen[copy] = True
        rows = chosen.repeat_interleave(self._rows(y)).repeat(self._samples // self.copies)
        return rows.view(-1, *[1] * (y.dim() - 1))

    def _rows(self, x: Tensor) -> int:
        """Return the number of rows of ``x`` that belong to each copy. Raises ExplainerError if samples do not come first."""
        if len(x) % self._samples:
            raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(x.shape)))
        return len(x) // self._samples

    def on_real(self, y: Tensor, constant: Tensor) -> Tensor:
        """Return ``y``, a batch of samples and their copies, with ``constant`` added to the real samples and to copies of constants."""
        return y + constant * self.where_constants(y).to(y.dtype)

    def with_bias(self, y: Tensor, bias: Tensor, of: BiasOf) -> Tensor:
        """Add ``bias`` to ``y`` and return the sum. The bias goes to the real copies and, in the block of the sources before its attention,
        to the source token of each copy; if biases are shared, it is divided among the sources instead. ``of`` names the kind of operator
        that the bias belongs to.
        """
        if self._shares_biases:
            is_of_attention = of == "attention" or (of == "linear" and self._before_attention())
            return self.on_real(y, bias) if is_of_attention or not is_bias(bias) else y + bias * self._shares(y, bias)
        if self._kept is None or not self._before_attention():
            return self.on_real(y, bias)
        row_tokens = self._row_tokens.get(self.position)
        if row_tokens is not None:
            if len(y) != self.copies * row_tokens.shape[:2].numel():
                raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(y.shape)))
            return y + bias * self._at_rows(row_tokens).to(y.dtype)
        kept = self._kept.repeat(len(y) // self.copies, 1).to(y.dtype)
        running = self.nodes.running
        factor = self.model.block_kind.spread(kept, y, None if running is None else running.stream)
        self._is_unplaced |= factor is None and self._of_classes is not None
        return self.on_real(y, bias) if factor is None else y + bias * factor

    def _at_rows(self, row_tokens: Tensor) -> Tensor:
        """Return by what a bias is multiplied at each row of the samples and their copies: 1 in each copy at the rows of the tokens that it
        keeps, and at the rows of no token where constants are added; else 0. ``row_tokens`` (B, rows, ...) are the tokens of the rows.
        """
        assert self._kept is not None
        of_tokens = self._kept[:, row_tokens.clamp_min(0)]  # (copies, B, rows, ...)
        takes_constants = torch.zeros(self.copies, dtype=of_tokens.dtype, device=of_tokens.device)
        takes_constants[[0, -1] if self._carries_constants else [0]] = 1
        of_none = takes_constants.view(-1, *[1] * row_tokens.dim())
        return torch.where(row_tokens < 0, of_none, of_tokens).transpose(0, 1).flatten(0, 2)

    def with_constant(self, y: Tensor, constant: Tensor) -> Tensor:
        """Add a constant to ``y``, and return the sum: the bias of a linear map or a norm that is added apart as :meth:`with_bias` adds it
        together with them; any other to the source token of each copy in the block of the sources before its attention, else to the real
        copies.
        """
        of = _owner_of_bias(self._taken)
        if y.shape != torch.broadcast_shapes(y.shape, constant.shape) or (self._shares_biases and of is None):
            return self.on_real(y, constant)
        return self.with_bias(y, constant, of or "linear")

    def with_rest(self, y: Tensor) -> Tensor:
        """Return ``y`` (rows, S, D), a sum of two paths. If biases are shared, what the copies of a sample do not add up to, compared with
        the real sample, is added to the copies first, each by its share; else ``y`` is unchanged.
        """
        if not self._shares_biases or self._takes_mean_off():
            return y
        copies = y.detach().unflatten(0, (-1, self.copies, self._rows(y)))
        rest = (copies[:, :1] - copies[:, 1:].sum(1, keepdim=True)).expand_as(copies).flatten(0, 2)
        shared: Tensor = (rest * self._shares(y, rest)).masked_fill(self.where_real(y), 0.0)
        return y + shared

    def _shares(self, y: Tensor, bias: Tensor) -> Tensor:
        """Return the share of ``bias`` for each copy at the outputs ``y``, with size 1 along the axis of the bias: 1 for the real copies;
        for each source |y . bias| divided by the sum over all sources, or equal parts where that is 0.
        """
        width = next((axis - bias.dim() for axis, size in enumerate(bias.shape) if size > 1), -1) if is_bias(bias) else -1
        products = (y.detach() * bias).sum(width, keepdim=True).abs().unflatten(0, (-1, self.copies, self._rows(y)))
        total = products[:, 1:].sum(1, keepdim=True)
        shares = torch.where(total == 0, 1 / (self.copies - 1), products / torch.where(total == 0, 1.0, total))
        return torch.cat([torch.ones_like(shares[:, :1]), shares[:, 1:]], 1).flatten(0, 2)

    def _takes_mean_off(self) -> bool:
        """Return whether the sum that runs now takes the mean of a normalisation off."""
        return mean_taken_off(Node(Add, self._taken, {}, Size())) is not None

    def _before_attention(self) -> bool:
        if self._of_classes is not None:
            running = self.nodes.running_class_block
            behind = [] if running is None else class_attentions(self.nodes, lambda value, left: True)
            return running is not None and not any(attention.softmax.place >= running.first for attention in behind)
        running = self.nodes.running
        if running is None or not self._attention_kind.mixes_tokens:
            return running is not None
        return not any(mixes(node, running) for node in ancestors(self._taken, [running.start], until=lambda node: mixes(node, running)))

    def watch(self, tensor: Tensor, name: str, fits: Callable[[Rule], bool] | None = None) -> None:
        """Note that ``tensor`` came from the function ``name``, which has no linear form, unless it is a scale or a weight, which are held
        constant.
        """
        if fits is None and self.entered:
            self._watched.append((name, self.nodes.of(tensor)))

    @property
    def _samples(self) -> int:
        """The size of the batch at the embedded tokens x^1: every sample with all of its copies."""
        assert self.forward_pass.x1 is not None
        return len(self.forward_pass.x1)

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply the linear form of ``operator`` to its arguments, record it with ``role`` and return the result. It keeps no graph, so the
        memory of what came before is freed.
        """
        self.forward_pass.position += 1 if self.entered else -1
        self._taken = tuple(self.nodes.of(argument) for argument in arguments)
        self._is_unplaced = False
        out: Tensor = operator.propagate(self, *arguments)
        alone = out.detach() if out._is_view() else out.detach_()  # what was noted of a norm is this very tensor
        path: Tensor = _OnPath.apply(alone, self._mark)  # type: ignore[no-untyped-call]
        self._add_node(operator, arguments, path, role)
        if self._is_unplaced:
            self._unplaced.append(self.nodes.of(path))
        self._note_norm(operator, arguments, path)
        return path

    def _note_norm(self, operator: type[Operator], arguments: tuple[Any, ...], out: Tensor) -> None:
        """Keep the input, the output and the factor of a normalisation that is written out, as those of one in a step are, and let a weight
        or a bias that is applied apart be part of the last one.
        """
        node = self.nodes.of(out)
        if operator is Add and node is not None and (mean := mean_taken_off(node)) is not None:
            self._centred = out, arguments[1 - mean]
        elif operator in (Div, Mul) and (scales := [i for i in (1, 0) if getattr(self._taken[i], "role", None) == Role.SCALE]):
            scale = 1 if operator is Div else scales[0]
            a, by = arguments[1 - scale], self.real(arguments[scale])
            centred = self._centred is not None and self._centred[0] is a
            whole = self._centred[1] if centred and self._centred is not None else a
            self.norms.append((whole, out, 1 / by if operator is Div else by, centred))
        elif operator in (Scale, Add) and self.norms:
            x, normed, factor, centred = self.norms[-1]
            places = [place for place in (0, 1) if arguments[place] is normed]
            given = self._taken[places[0]] if places else None
            if given is not None and not (isinstance(other := arguments[1 - places[0]], Tensor) and other.requires_grad):
                self._weighted.append((len(self.norms) - 1, self.norms[-1], given))
                self.norms[-1] = x, out, factor * other if operator is Scale else factor, centred

    def _take_weights_back(self, block: Block) -> None:
        """Restore each normalisation in ``block`` whose output something else reads too: what it was multiplied by is then no weight of
        it, but the share of a residual, as in (1 - a) x + a h.
        """
        users = users_of(self.nodes.nodes_in(block))
        for index, before, node in reversed(self._weighted):
            if len(users.get(id(node), ())) > 1:
                self.norms[index] = before


def _is_constant(node: Node) -> bool:
    """Return whether the result of a node is held constant, whatever made it: attention weights, a scale, or the inverse of a curve by
    which a path is divided.
    """
    return node.operator in (Softmax, Weights) or node.role == Role.SCALE or (node.role == Role.GATE and node.operator is Unruled)


def _owner_of_bias(taken: tuple[Node | None, ...]) -> BiasOf | None:
    """Return whose bias a constant is that is added to what is ``taken``: a norm's, a linear map's or attention's projection's; None if it
    is none of these.
    """
    node = next((each for each in taken if each is not None), None)
    while node is not None and node.operator in (Move, Scale, Add) and (len(node.paths) == 1 or has_no_bias(node)):
        node = node.paths[0]
    if node is None or node.operator is LinearMap:
        return None if node is None else "attention" if node.settings["role"] == "attention" else "linear"
    is_scaled = node.operator is Div or (node.operator is Mul and Role.SCALE in node.settings["roles"])
    return "norm" if node.operator is Norm or is_scaled else None


class _OnPath(Operator):
    """An autograd function that marks a tensor as on the path, like ``requires_grad``, but without making it a leaf, so that a model may
    write into it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, mark: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise AssertionError("nothing goes back through a propagation")


class _ReachedError(Exception):
    """Raised to end a forward pass after the last block that is needed."""

"""An encoder-decoder as blocks over one row of tokens, so that all that is read and replaced between blocks covers both of its inputs.

The decoder of an encoder-decoder has a row of tokens of its own, and reads the encoder's in every layer. A :class:`TwoRows` runs the same
layers in the same order, as blocks that take and return both rows joined: a layer of the encoder changes the part of the source and passes
on the other; a layer of the decoder reads both and changes its own. x^1 is the embedded source with the embedded tokens of the decoder.

The module itself is not touched: what holds the layers is copied shallowly, and weights and layers are shared.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.libraries.source_writers import PIXELS, WriterSource, writer_source_of
from explainers.models.structure.block_kinds import BlockCall, OneStream, add_block_kind
from explainers.models.structure.blocks import trial

#: The tensor (B, S) that tells the two rows apart: 0 for a token of the source, 1 for a token of the decoder.
DECODER_TOKENS = "decoder_tokens"
#: Ends of the names of transformers' encoder-decoders that write, and of those whose decoder reads the source a second time.
_WRITES, _REREADS = ("ForConditionalGeneration", "MTModel"), ("ForSequenceClassification", "ForQuestionAnswering")
_LOGITS = ("logits", "start_logits", "end_logits")
_WRITTEN = "decoder_input_ids"  # what a decoder reads of its own answer
_SOURCE = "encoder_hidden_states"  # what layers of decoders call the encoder's output


@dataclass(frozen=True)
class Joint:
    """How the rows of encoder and decoder are joined in one pass.

    source_tokens  the number of tokens of the source
    order          None: the decoder's tokens follow those of the source, (B, S + T, D). Else the decoder reads the source again, and each
                   token of the row has both of its embeddings, (B, S, 2 D); the order (B, S) holds the place in the decoder's row of each
                   token of the source
    widths         the width of a token of the source and of one of the decoder, where these or what the source was before differ; zeros
                   follow the narrower ones up to ``width``, the largest of all. None: all have one width
    """

    source_tokens: int
    order: Tensor | None = None
    widths: tuple[int, int] | None = None
    width: int = 0

    def join(self, source: Tensor, written: Tensor) -> Tensor:
        """Join the row of the encoder and that of the decoder."""
        if self.order is None:
            return torch.cat([source, written] if self.widths is None else [self._widened(source), self._widened(written)], 1)
        return torch.cat([source, _in_order(written, self.order)], -1)

    def _widened(self, row: Tensor) -> Tensor:
        lacking = self.width - row.shape[-1]
        return row if not lacking else torch.cat([row, row.new_zeros(*row.shape[:-1], lacking)], -1)

    def split(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Split a joined ``row`` into the row of the encoder and that of the decoder."""
        if self.order is None:
            source, written = row[:, : self.source_tokens], row[:, self.source_tokens :]
            if self.widths is not None:
                source, written = source[..., : self.widths[0]], written[..., : self.widths[1]]
            return source.contiguous(), written.contiguous()  # of which layers take views (GPT-2)
        source, written = row.chunk(2, -1)
        return source, _in_order(written, self.order.argsort(1))


def _in_order(row: Tensor, order: Tensor) -> Tensor:
    """Return the tokens of ``row`` (B, S, D) at the places ``order`` (B, S)."""
    return row.gather(1, order[:, :, None].expand(row.shape))


def order_of(mask: Tensor) -> Tensor:
    """Return the place in the decoder's row of each token that the decoder reads again, (B, S), for texts with this ``mask`` (B, S) of
    real tokens: the next one, and for the last token, which the decoder does not read, the first, where its start is.
    """
    count = mask.shape[1]
    places = torch.arange(count, device=mask.device).expand(mask.shape)
    last = (places * mask).amax(1, keepdim=True)
    return torch.where(places < last, places + 1, torch.where(places == last, 0, places))


@add_block_kind
@dataclass(frozen=True)
class SourceAndWritten(OneStream):
    """Blocks of :class:`TwoRows`: one stream, in which the tokens of encoder and decoder attend apart. ``by_width`` says that a
    token of the row has both of its embeddings: see :class:`Joint`.
    """

    name: ClassVar[str] = "two_rows"
    no_attention: ClassVar[str | None] = (
        "its encoder's tokens attend to each other, and its decoder's to their own and to the encoder's, in maps of three shapes"
    )
    no_residual: ClassVar[str | None] = (
        "The blocks of {name} are those of an encoder and of a decoder, each of which adds attention to a stream of its own."
    )
    falls_short: ClassVar[tuple[str, str] | None] = (
        "encoder-decoders (T5, BART, Marian; TrOCR of a picture, Whisper of a sound)",
        "A row holds the source's tokens, of a picture its patches and of a sound its stretches, and those that the decoder reads; a "
        "classifier whose decoder reads the same text again has both readings of a token in one. What reads one attention map over all "
        "tokens of a block is refused. Raw attention reads the decoder's last layer, and Generic Attention follows its authors' rule for "
        "two rows.",
    )
    by_width: bool = False

    @classmethod
    def find(cls, call: BlockCall) -> SourceAndWritten | None:
        """Return this kind if a :class:`JointBlock` was called, else None."""
        return cls(by_width=call.block.by_width) if isinstance(call.block, JointBlock) else None

    @property
    def tokens_note(self) -> str | None:
        """A note for people on what a token of the row is; None if that needs none."""
        if not self.by_width:
            return None
        return "The model reads the text twice, by its encoder and again by its decoder: a word's score is the sum of both."


@dataclass(frozen=True)
class LayerCall:
    """The arguments of a layer other than its tokens, by name, and how the two rows are joined."""

    arguments: Mapping[str, Any]
    joint: Joint


class JointBlock(nn.Module):
    """A layer of an encoder or a decoder as a block over both rows: it takes a joined row (B, S, D) and the :class:`LayerCall`."""

    def __init__(self, layer: nn.Module, is_of_decoder: bool, by_width: bool) -> None:
        super().__init__()
        self.layer, self.is_of_decoder, self.by_width = layer, is_of_decoder, by_width
        self.training = False

    def forward(self, row: Tensor, call: LayerCall) -> Any:
        """Return the row after the layer; in a tuple with what else the layer returned if it returned one."""
        source, written = call.joint.split(row)
        out = self.layer(written if self.is_of_decoder else source, **self._arguments(call, source))
        changed, *rest = out if isinstance(out, tuple) else (out,)
        joined = call.joint.join(*((source, changed) if self.is_of_decoder else (changed, written)))
        return (joined, *rest) if isinstance(out, tuple) else joined

    def _arguments(self, call: LayerCall, source: Tensor) -> dict[str, Any]:
        """Return the arguments of the layer in ``call``; for a layer of the decoder with ``source`` as what the encoder gives."""
        return {**call.arguments, _SOURCE: source} if self.is_of_decoder else dict(call.arguments)


@dataclass(eq=False)
class _Pass:
    """A pass that is under way.

    joint     how the two rows are joined
    hidden    which tokens of a picture or a sound nothing attends to, bool (B, S); None if none is hidden
    embedded  the decoder's embedded tokens; None while these are looked for
    row       the joined row after the block that ran last; None before the first
    width     the largest width of a token in the pass
    """

    joint: Joint
    hidden: Tensor | None = None
    embedded: Tensor | None = None
    row: Tensor | None = None
    width: int = 0


_PASS: ContextVar[_Pass | None] = ContextVar("the pass over two rows that is under way", default=None)


class _Reached(Exception):
    """An exception that ends a pass at the first layer of an encoder or decoder, with the tokens that it takes."""

    def __init__(self, tokens: Tensor) -> None:
        super().__init__()
        self.tokens = tokens


class _Slot(nn.Module):
    """A stand-in for a layer in the list of its stack: it joins the layer's tokens to the other row, runs the block, and splits again."""

    def __init__(self, layer: nn.Module, is_of_decoder: bool, by_width: bool, is_first: bool) -> None:
        super().__init__()
        self.block, self.is_first = JointBlock(layer, is_of_decoder, by_width), is_first
        self.names = list(inspect.signature(layer.forward).parameters)
        self.training = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the layer returns."""
        named = dict(zip(self.names, args, strict=False)) | kwargs
        tokens, now, block = named.pop(self.names[0]), _PASS.get(), self.block
        assert now is not None
        if now.embedded is None:
            raise _Reached(tokens)
        joint = self._joint(now, tokens, named)
        if now.hidden is not None:
            named |= self._mask_of_source(now.hidden, tokens)
        if now.row is None:
            row = joint.join(tokens, now.embedded)
        else:
            source, written = joint.split(now.row)
            if block.is_of_decoder and self.is_first:  # the encoder may end in a norm
                row = joint.join(named[_SOURCE], written)
            else:
                row = joint.join(source, tokens) if block.is_of_decoder else joint.join(tokens, written)
        out = block(row, LayerCall(named, joint))
        now.row, *rest = out if isinstance(out, tuple) else (out,)
        changed = joint.split(now.row)[block.is_of_decoder]
        return (changed, *rest) if isinstance(out, tuple) else changed

    def _joint(self, now: _Pass, tokens: Tensor, named: Mapping[str, Any]) -> Joint:
        """Return how the rows are joined at this layer, which takes ``tokens`` and the arguments ``named``."""
        assert now.embedded is not None
        source = (named[_SOURCE] if self.block.is_of_decoder else tokens).shape[-1]
        written = now.embedded.shape[-1]
        now.width = now.width or max(source, written)
        return now.joint if source == written == now.width else replace(now.joint, widths=(source, written), width=now.width)

    def _mask_of_source(self, hidden: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """Return the argument by which the layer, which takes ``tokens``, attends to no ``hidden`` token of the source (B, S). Raises
        ExplainerError if it takes none.
        """
        name = "encoder_attention_mask" if self.block.is_of_decoder else "attention_mask"
        if name not in self.names:
            raise ExplainerError(
                f"{type(self.block.layer).__name__} takes no mask ({name}), so that no part of a picture or sound can be hidden from it: "
                "choose a method that hides nothing"
            )
        mask = torch.zeros_like(hidden, dtype=tokens.dtype).masked_fill(hidden, torch.finfo(tokens.dtype).min)
        return {name: mask[:, None, None].expand(-1, 1, tokens.shape[1], -1)}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the layer that the slot itself does not have, such as ``attention_type``."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            block: Any = super().__getattr__("block")
            return getattr(block.layer, name)


class _Encoder:
    """The forward of an encoder that returns its embedded tokens while those of the decoder are looked for: its layers need not run."""

    def __init__(self, stack: nn.Module) -> None:
        self._forward = stack.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        try:
            return self._forward(*args, **kwargs)
        except _Reached as reached:
            return BaseModelOutput(last_hidden_state=reached.tokens)


class TwoRows(nn.Module):
    """An encoder-decoder of transformers, ``inner`` with the layers in slots, as a row of ``blocks``. ``by_width``: its decoder reads the
    source again, and a token of the row has both embeddings. ``source`` is the picture or sound that it writes from; None: a text.
    """

    def __init__(self, inner: nn.Module, blocks: tuple[JointBlock, ...], by_width: bool, source: WriterSource | None) -> None:
        super().__init__()
        self.inner, self.blocks, self.by_width, self.source = inner, blocks, by_width, source

    def tensors_of(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return ``tensors`` of the joined row as the module itself takes them. Without :data:`DECODER_TOKENS` the last token is the
        decoder's.
        """
        ids, mask = tensors["input_ids"], tensors.get("attention_mask")
        if self.by_width:
            return dict(tensors)
        marked = tensors.get(DECODER_TOKENS)
        source = ids.shape[1] - (1 if marked is None else int(marked[0].sum()))
        if self.source is not None:
            shown = {self.source.argument: self.source.from_pixels(tensors[PIXELS]), _WRITTEN: ids[:, source:]}
            return shown if mask is None else {**shown, "decoder_attention_mask": mask[:, source:]}
        given = {"input_ids": ids[:, :source], _WRITTEN: ids[:, source:]}
        return given if mask is None else {**given, "attention_mask": mask[:, :source], "decoder_attention_mask": mask[:, source:]}

    def agrees_with(self, module: nn.Module, tensors: Mapping[str, Tensor]) -> bool:
        """Return whether the logits of ``module`` itself for ``tensors`` of the joined row are the same; False if a pass over the joined
        row fails, as where layers take tokens in another shape.
        """
        with trial(module):
            theirs = module(**self.tensors_of(tensors), use_cache=False)
            try:
                ours = self(tensors)
            except Exception as problem:  # of the module's own code
                if ran_out_of_memory(problem):
                    raise
                return False
        pairs = [(ours[name], theirs[name]) for name in _LOGITS if name in theirs]
        return bool(pairs) and all(_are_alike(*pair) for pair in pairs)

    def forward(self, tensors: Mapping[str, Tensor]) -> Any:
        """Return the module's own output for ``tensors`` of the joined row: ``input_ids`` and ``attention_mask`` (B, S), and the pixels of
        a picture. Where the mask is 0 at tokens of a picture, no token attends to them.
        """
        given = self.tensors_of(tensors)
        ids = tensors["input_ids"]
        source = ids if self.by_width else ids[:, : ids.shape[1] - given[_WRITTEN].shape[1]]
        order = order_of(given.get("attention_mask", torch.ones_like(source))) if self.by_width else None
        hidden = None
        if self.source is not None and "attention_mask" in tensors:
            hidden = tensors["attention_mask"][:, : source.shape[1]] == 0
        now = _Pass(Joint(source.shape[1], order), None if hidden is None or not bool(hidden.any()) else hidden)
        token = _PASS.set(now)
        try:
            try:
                self.inner(**given, use_cache=False)
            except _Reached as reached:
                now.embedded = reached.tokens
                if reached.tokens.shape[1] != given[_WRITTEN if _WRITTEN in given else "input_ids"].shape[1]:
                    raise ExplainerError("the layers of the decoder take more or fewer tokens than it is given") from None
            return self.inner(**given, use_cache=False)
        finally:
            _PASS.reset(token)


def _are_alike(ours: Tensor, theirs: Tensor) -> bool:
    """Return whether two tensors of logits are the same but for rounding."""
    error = 32 * torch.finfo(theirs.dtype).eps * float(theirs.abs().max())
    return ours.shape == theirs.shape and bool((ours - theirs).abs().max() <= error)


def source_of(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return ``tensors`` of a joined row without the tokens of the decoder; unchanged if there are none."""
    if (marked := tensors.get(DECODER_TOKENS)) is None:
        return tensors
    source = marked.shape[1] - int(marked[0].sum())
    rows = {name: tensor[:, :source] if tensor.shape == marked.shape else tensor for name, tensor in tensors.items()}
    return {name: tensor for name, tensor in rows.items() if name != DECODER_TOKENS}


def two_rows_of(module: nn.Module) -> TwoRows | None:
    """Return ``module`` as a row of blocks if it is an encoder-decoder of transformers that writes from a text, a picture or a sound, or
    classifies a text; None if it is none, or if its layers are not found.
    """
    writes, rereads = (type(module).__name__.endswith(ends) for ends in (_WRITES, _REREADS))
    takes, source = inspect.signature(module.forward).parameters, writer_source_of(module)
    if source is None and (not (writes or rereads) or not {"input_ids", _WRITTEN} <= takes.keys()):
        return None
    stacks = [module.get_encoder(), module.get_decoder()]  # type: ignore[operator]  # of transformers
    lists = [_layers_of(stack) for stack in stacks]
    if stacks[0] is stacks[1] or any(stack is module or layers is None for stack, layers in zip(stacks, lists, strict=True)):
        return None
    blocks, inner = list[JointBlock](), _copy_of(module)
    for number, (stack, layers) in enumerate(zip(stacks, lists, strict=True)):
        assert layers is not None
        slots = [_Slot(layer, number == 1, rereads, place == 0) for place, layer in enumerate(layers[1])]
        path = next(name for name, each in module.named_modules() if each is stack)
        inside, _, name = f"{path}.{layers[0]}".rpartition(".")
        _copied_at(inner, inside)._modules[name] = nn.ModuleList(slots)
        if number == 0:
            copied = inner.get_submodule(path)
            copied.__dict__["forward"] = _Encoder(copied)
        blocks += [slot.block for slot in slots]
    if _SOURCE not in inspect.signature(blocks[-1].layer.forward).parameters:
        return None
    return TwoRows(inner, tuple(blocks), rereads, source)


def _layers_of(stack: nn.Module) -> tuple[str, nn.ModuleList] | None:
    """Return the one list of layers in an encoder or decoder, with its name; None if there is not one."""
    lists = {name: child for name, child in stack.named_modules() if isinstance(child, nn.ModuleList) and len(child)}
    outer = [(name, child) for name, child in lists.items() if not any(name.startswith(f"{other}.") for other in lists)]
    return outer[0] if len(outer) == 1 else None


def _copy_of(module: nn.Module) -> Any:
    """Return a copy of ``module`` itself, in eval mode, that shares its parameters, its buffers and all modules in it."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    copied.training = False
    return copied


def _copied_at(inner: nn.Module, path: str) -> nn.Module:
    """Replace the modules on the ``path`` from ``inner`` on by copies, where they are not yet, and return the last."""
    for name in path.split("."):
        child = inner._modules[name]
        assert child is not None
        copied = _copy_of(child)
        inner._modules[name] = copied
        inner = copied
    return inner

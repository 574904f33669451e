"""Class attention after the blocks: the row of a classification token that joins the patches there, as in CaiT, XCiT and VOLO.

The last blocks of such a model, of class attention, have one query: the token itself, over itself and the patches. Together with the blocks
before them they are attention over S + 1 tokens. A token that attends to nothing in a block, the classification token among the patches'
blocks and a patch in class attention, stays what it is: its row is that of the identity, and has no signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.signals import AttentionParts, Signals
from explainers.autograd.structure.class_attention import ClassBlock
from explainers.autograd.structure.token_links import TokenLinks
from explainers.errors import ExplainerError
from explainers.models.layout import Layout
from explainers.records.trace import Trace, parts_of_last

#: How a method reads class attention: ``all`` where it multiplies the attention of all blocks, ``last`` where it reads the last block
#: alone, ``streams`` where it follows tokens through all blocks and reads no attention.
ClassAttentionUse = Literal["all", "last", "streams"]
#: The needs that do not apply to the blocks before class attention, for a method that reads class attention.
_SPARED: dict[ClassAttentionUse, set[str]] = {
    "all": {"class_token", "parts"},
    "last": {"class_token", "parts", "attention", "residual"},
    "streams": {"class_token", "parts", "attention"},
}
#: For a model with class attention after its blocks: the needs that are not met there, with the reasons.
_BEHIND = {"residual": "class_residual", "parts": "class_parts"}
#: The need that a model without a classification token in its blocks lacks if it has none after them either. No method needs only this.
CLASS_ATTENTION = "class_attention"
NOTE = "The classification token joins the patches after the blocks: its row is read in the class attention there."


def lacks_behind(recording: Recording) -> dict[str, str]:
    """Return what methods need of class attention (after the blocks) and the model of ``recording`` does not have: need -> reason. Called
    for models whose blocks have no classification token.
    """
    name, behind = recording.model.name, recording.structure.class_attention
    if not behind.attentions:
        return {CLASS_ATTENTION: f"{name} has no class attention after its blocks."}
    lacks = {
        "class_token": f"The classification token of {name} joins after its blocks, in class attention: it is not yet in the block whose "
        "row is read here. row=mean starts from all patches there."
    }
    if not behind.is_whole:
        lacks[_BEHIND["residual"]] = f"The class attention of {name} is not in blocks that take the class token and add attention to it."
    if behind.parts[-1] is None or behind.projections[-1] is None:
        lacks[_BEHIND["parts"]] = f"The queries, keys, values and output projection of the class attention of {name} cannot be read."
    return lacks


def needs_behind(use: ClassAttentionUse, needs: frozenset[str]) -> frozenset[str]:
    """Return a method's ``needs`` as they apply to class attention after the blocks, which the method reads in the way ``use``."""
    return (needs - _SPARED[use]) | {_BEHIND[need] for need in needs if need in _BEHIND}


def trace_behind(trace: Trace, use: ClassAttentionUse | None) -> ClassAttentionTrace | None:
    """Return the trace of class attention (after the blocks) that a method with this ``use`` of it reads in place of ``trace``; None if the
    method reads ``trace`` itself.
    """
    if use is None or trace.row == "mean" or not trace.recording.class_attentions:
        return None
    return ClassAttentionTrace(trace, use == "last")


class ClassAttentionTrace(Trace):
    """A trace of 1 + S tokens, the classification token first. It holds the attention of all blocks, or with ``last`` of the last one only.

    Shapes of maps are (B, H, 1 + S, 1 + S). Raises ExplainerError if the recording has no class attention.
    """

    def __init__(self, trace: Trace, last: bool) -> None:
        if not trace.recording.class_attentions:
            raise ExplainerError("This model has no class attention after its blocks.")
        self.__dict__.update(trace.__dict__)
        self._trace, self._last = trace, last
        self.note(NOTE)

    @property
    def has_maps_by_rows(self) -> bool:
        """Return False: maps with a classification token are read whole."""
        return False

    @property
    def signals(self) -> Signals:
        """The signals of the trace from which this trace was made, and which has no class attention."""
        return self._trace.signals

    def signals_with(self, field: str) -> Signals:
        """Return the signals of the trace from which this trace was made, with ``field`` computed too."""
        return self._trace.signals_with(field)

    def attention_grad(self, block: int) -> Tensor:
        """Return the signal at the attention weights of one block (B, H, 1 + S, 1 + S); blocks of class attention are counted last."""
        return self.attention_grads[block]

    def under(self, rule: str) -> Trace:
        """Return a trace of the same forward pass and class attention under the rule named ``rule``."""
        return ClassAttentionTrace(self._trace.under(rule), self._last)

    @property
    def layout(self) -> Layout:
        """The layout of the tokens: the classification token first, then the patches."""
        return replace(self.recording.layout, prefix=1, class_token=0)

    @property
    def mask(self) -> Tensor:
        """The mask of real tokens, bool (B, 1 + S): the classification token is always one."""
        return torch.nn.functional.pad(self._trace.mask, (1, 0), value=True)

    @property
    def class_tokens(self) -> Tensor:
        """Return the index of the classification token in each sample, (B,): always 0."""
        return torch.zeros(len(self.mask), dtype=torch.long, device=self.mask.device)

    @property
    def attentions(self) -> list[Tensor]:
        """Return the attention maps (B, H, 1 + S, 1 + S) of the blocks, those of class attention last; each row sums to 1."""
        before = [] if self._last else [add_class_token(a, 1.0) for a in self._trace.attentions]
        behind = (a.detach().to(self.type_of_attention) for a in self.recording.class_attentions)
        return [*before, *(_add_patches(a, 1.0) for a in behind)]

    @property
    def token_links(self) -> Sequence[TokenLinks | None]:
        """For each attention map which tokens, the classification token first, the model keeps; None where it throws none away."""
        before = [] if self._last else [None if each is None else each.with_first_token() for each in self._trace.token_links]
        return [*before, *(None for _ in self.recording.class_attentions)]

    @property
    def links_after_attention(self) -> Sequence[Tensor | None]:
        """For each block which tokens, bool (B, 1 + S), are handed on from the stream after its attention; None if all are."""
        before = [None if each is None else torch.nn.functional.pad(each, (1, 0), value=True) for each in self._trace.links_after_attention]
        return [*before, *(None for _ in self.class_blocks)]

    @property
    def attention_grads(self) -> Sequence[Tensor]:
        """Return the signal of the backward pass at the attention weights of each block, (B, H, 1 + S, 1 + S), class attention last; 0 in
        rows of tokens that attend to nothing.
        """
        before: Sequence[Tensor] = [] if self._last else self._trace.attention_grads
        behind = (a.to(self.type_of_attention) for a in self.signals_with("class_attentions").class_attentions)
        return [*(add_class_token(a, 0.0) for a in before), *(_add_patches(a, 0.0) for a in behind)]

    @property
    def class_blocks(self) -> tuple[ClassBlock, ...]:
        """The records of the blocks of class attention. Raises ExplainerError if their streams are not known."""
        if not self.recording.structure.class_attention.is_whole:
            raise ExplainerError("This model's class attention is not in blocks that take the class token and add attention to it.")
        return self.recording.structure.class_attention.blocks

    @property
    def block_inputs(self) -> list[Tensor]:
        """Return the tokens (B, 1 + S, D) that each block takes, class attention last; the classification token's row is zero in blocks
        that it has not joined yet.
        """
        return [*(_pad_class_token(x) for x in self._trace.block_inputs), *(block.input.detach() for block in self.class_blocks)]

    @property
    def mid_residuals(self) -> list[Tensor]:
        """Return the tokens (B, 1 + S, D) after the attention of each block and its residual; zero in the classification token's row before
        it joins. In class attention patches keep their input, unless the block changes them too.
        """
        behind = [_join_patches(block.mid_residual, block.input) for block in self.class_blocks]
        return [*(_pad_class_token(x) for x in self._trace.mid_residuals), *behind]

    @property
    def block_outputs(self) -> list[Tensor]:
        """Return the tokens (B, 1 + S, D) that each block gives, class attention last; the classification token's row is zero in blocks
        that it has not joined yet.
        """
        behind = [_join_patches(block.output, block.input) for block in self.class_blocks]
        return [*(_pad_class_token(x) for x in self._trace.block_outputs), *behind]

    @property
    def tokens_of_blocks(self) -> list[Tensor]:
        """The tokens that take part in each block, bool (B, 1 + S): the classification token in class attention alone."""
        patches = torch.nn.functional.pad(self._trace.mask, (1, 0), value=False)
        return [*(patches for _ in self._trace.tokens_of_blocks), *(self.mask for _ in self.class_blocks)]

    @property
    def content(self) -> Tensor:
        """The tokens that a map shows, bool (B, 1 + S): the patches."""
        return torch.nn.functional.pad(self._trace.content, (1, 0), value=False)

    def last_parts(self, recording: Recording) -> tuple[AttentionParts, tuple[Tensor, Tensor | None]]:
        """Return queries, keys, values, weights and outputs of the last class attention in ``recording``, which has one query, and weight
        and bias of its output projection.
        """
        return parts_of_last(recording.structure.class_attention.parts, recording.structure.class_attention.projections)

    def last_context(self, signals: Signals) -> Tensor:
        """Return the signal at the output of the heads of the last class attention, (B, H, 1, d)."""
        context = signals.class_contexts[-1]
        assert context is not None
        return context

    def identity(self) -> Tensor:
        """Return the identity matrix over the classification token and the patches, (1, 1 + S, 1 + S)."""
        x = self.recording.block_inputs[0]
        return torch.eye(1 + x.shape[1], dtype=self.type_of_attention, device=x.device)[None]

    def class_row(self, matrix: Tensor) -> Tensor:
        """Return the classification token's row, (B, ..., N), of a matrix (B, ..., 1 + S, N)."""
        return matrix[..., 0, :]


def _pad_class_token(patches: Tensor) -> Tensor:
    """Put a classification token of zeros before the ``patches`` (B, S, D), and return (B, 1 + S, D)."""
    return torch.nn.functional.pad(patches, (0, 0, 1, 0))


def _join_patches(tokens: Tensor | None, former_tokens: Tensor) -> Tensor:
    """Return tokens (B, 1 + S, D): ``tokens`` itself, or if it is the classification token alone (B, 1, D), that token followed by the
    patches of ``former_tokens``.
    """
    assert tokens is not None
    return (tokens if tokens.shape == former_tokens.shape else torch.cat([tokens, former_tokens[:, 1:]], 1)).detach()


def add_class_token(attention: Tensor, itself: float) -> Tensor:
    """Add a first token to the patches' attention (B, H, S, S); return (B, H, 1 + S, 1 + S). The new token has ``itself`` on the diagonal
    and 0 elsewhere.
    """
    padded = torch.nn.functional.pad(attention, (1, 0, 1, 0))
    padded[..., 0, 0] = itself
    return padded


def _add_patches(row: Tensor, itself: float) -> Tensor:
    """Add rows for the patches to the classification token's row (B, H, 1, 1 + S); return (B, H, 1 + S, 1 + S). The new rows have
    ``itself`` on the diagonal and 0 elsewhere.
    """
    patch_rows = itself * torch.eye(row.shape[-1], dtype=row.dtype, device=row.device)[1:]
    return torch.cat([row, patch_rows.expand(*row.shape[:2], *patch_rows.shape)], -2)

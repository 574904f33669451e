"""Attention over the two rows of tokens of an encoder-decoder, by the rules of Chefer et al., ICCV 2021, section 3."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.autograd.structure.two_row_attention import TwoRowAttention
from explainers.errors import ExplainerError
from explainers.models.structure.two_rows import Joint, SourceAndWritten, order_of
from explainers.records.trace import Trace

#: The key among what a model lacks that says that its blocks are those of an encoder and a decoder; no method needs it.
TWO_ROWS = "one_row"


def lacks_of_rows(recording: Recording) -> dict[str, str]:
    """Return the fact that the model of ``recording`` has two rows of tokens whose attention can be read; empty if it has not."""
    if recording.structure.two_row_attention is None:
        return {}
    return {TWO_ROWS: f"{recording.model.name} has the tokens of an encoder and those of a decoder."}


def attention_of_rows(trace: Trace) -> TwoRowAttention | None:
    """Return the attention of both rows of the model in ``trace``; None if it has one row. Raises ExplainerError for an option that is for
    one row.
    """
    attention = trace.recording.structure.two_row_attention
    if attention is not None and trace.row == "mean":
        raise ExplainerError("row=mean is for models with one row of tokens: leave it out for an encoder-decoder.")
    if attention is not None and trace.integrated:
        raise ExplainerError("integrated= reads attention of one row of tokens: leave it out for an encoder-decoder.")
    return attention


def gradients_at(trace: Trace, attention: TwoRowAttention) -> TwoRowAttention:
    """Return the signal of the backward pass of ``trace`` at each of the weights in ``attention``; zero where none arrives."""
    recording, rule = trace.recording, trace.rule
    assert rule is not None
    start = recording.start_of(trace.chosen, rule)
    arrived = recording.pull_several(rule, [recording.logits], attention.maps, [start.to(recording.logits.dtype)])
    return attention.with_maps([torch.zeros_like(a) if g is None else g for a, g in zip(attention.maps, arrived, strict=True)])


def relevance_of_rows(attention: TwoRowAttention, gradients: TwoRowAttention) -> tuple[Tensor, Tensor]:
    """Return the relevance (B, T, T) of the decoder's tokens for each other, without that of a token for itself at the start, and that of
    the encoder's for them, (B, T, S).

    With M the mean over the heads of the positive part of A * grad A, self-attention adds M R to all relevance of its queries (eqs. 5 to
    7), and attention from the decoder's tokens to the encoder's adds N(R_t)^T M N(R_s) to R_ts (eq. 10). N takes off the identity, divides
    each row by its sum, and adds the identity again (eqs. 8 and 9); a row of zeros stays.
    """
    maps = [attention.mean_over_heads((a.detach() * g).clamp(min=0)) for a, g in zip(attention.maps, gradients.maps, strict=True)]
    by_layer = attention.with_maps(maps)
    samples, written, source = by_layer.decoder[0][1].shape
    identity_of_source = torch.eye(source, dtype=maps[0].dtype, device=maps[0].device).expand(samples, -1, -1)
    identity = torch.eye(written, dtype=maps[0].dtype, device=maps[0].device).expand(samples, -1, -1)
    of_source, of_written, across = identity_of_source, identity, maps[0].new_zeros(samples, written, source)
    for each in by_layer.encoder:
        of_source = of_source + each @ of_source
    for among, toward in by_layer.decoder:
        of_written, across = of_written + among @ of_written, across + among @ across
        across = across + _normalised(of_written, identity).mT @ toward @ _normalised(of_source, identity_of_source)
    return of_written - identity, across


def _normalised(relevance: Tensor, identity: Tensor) -> Tensor:
    added = relevance - identity
    total = added.sum(-1, keepdim=True)
    return added / torch.where(total == 0, 1.0, total) + identity


def rows_read(trace: Trace, of_written: Tensor, across: Tensor) -> Tensor:
    """Return scores (B, tokens) of the joined row: the mean over the decoder's tokens from which the explained number is read of the rows
    of ``of_written`` (B, T, T) and ``across`` (B, T, S). A token that has both of its readings in the row gets the sum of both.
    """
    recording = trace.recording
    kind, last = recording.model.block_kind, recording.nodes.blocks[-1].passed_on
    assert isinstance(kind, SourceAndWritten)
    assert last is not None
    joint = Joint(across.shape[-1], order_of(trace.mask.long()) if kind.by_width else None)
    start = trace.chosen.output_gradient(recording.logits, Rule())
    signal = recording.pull(Rule(), recording.logits, last, start)
    assert signal is not None
    is_read = (joint.split(signal)[1].abs().amax(-1) > 0).to(across.dtype)
    weight = (is_read / is_read.sum(1, keepdim=True).clamp(min=1))[:, None]
    source, written = (weight @ across)[:, 0], (weight @ of_written)[:, 0]
    return torch.cat([source, written], 1) if joint.order is None else source + written.gather(1, joint.order)

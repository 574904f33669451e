"""The contribution of each source token after a block, or to the answer: every token is propagated through the model on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from explainers.autograd.forward_decomposition import SAMPLES_ARE_NOT_FIRST, ForwardDecomposition, check_block_kind
from explainers.autograd.rules import RULES
from explainers.errors import ExplainerError
from explainers.methods.class_attention import ClassAttentionTrace, add_class_token
from explainers.models.passes import Passes
from explainers.records.trace import Trace

#: How far one tensor may be from another times a number, relative to its length, to be that: rounding of 16 bits is less.
CLOSE = 1e-3
#: By how much contributions may miss what they are parts of, relative to its length at a token: this, or as many epsilons as follow.
MAX_MISSED_SHARE, MAX_MISSED_EPSILONS = 1e-3, 32
#: Why contributions are not measured, with ``{block}``, counted from 1, and ``{share}``, in percent.
DOES_NOT_ADD_UP = (
    "What the tokens and the constants of block {block} of this model each give to the stream after its attention does not add up to that "
    "stream: {share} % of it are missing or too much at some token. With attention, scales and gates held, something in the block is no "
    "linear function of its tokens alone, as where numbers are padded among values, values come from an earlier block, or rows of several "
    "samples are joined. What multiplies attention runs, such as rollout, and what goes back from the answer, such as input_x_gradient."
)

T = TypeVar("T")
INNER_BATCH = 33  # copies in one forward pass: bounds memory


def propagate(
    trace: Trace,
    block: int | None,
    read: Callable[[ForwardDecomposition, int], T],
    class_attention_stage: bool = False,
    shares_biases: bool = False,
    with_constants: bool = False,
) -> list[T]:
    """Propagate the share of every source token of ``trace`` forward, some tokens in each pass, and return the results of ``read``, one for
    each pass; it is called with the pass and its number of sources.

    ``block`` is the last block to run; None goes on to the logits. Only one pass is in memory at a time. With ``class_attention_stage``
    sources are the tokens of the blocks where a classification token joins. With ``shares_biases``, biases are shared among the sources, so
    that all go through one pass. ``with_constants``: what constants add that no token has is the last source, after the tokens.
    """
    check_block_kind(trace.recording.model)
    _check_sample_axes(trace)
    rule, x = trace.rule or RULES["libra"], trace.recording.block_inputs[0]
    tokens = x.shape[1] + class_attention_stage
    # of one block every contribution is kept, joined to one tensor and measured
    row_tokens = {} if class_attention_stage else _row_tokens(trace)
    apart = 0 if block is None else 4 * x.numel() * tokens * x.element_size()
    least = 1 + tokens if shares_biases else 2
    inner = trace.repeats_at_once(max(INNER_BATCH, least * len(x)), least, propagated=True, apart=apart) - 1

    def part_of(first: int, number: int) -> T:
        sources = torch.arange(first, min(first + number, tokens))
        how = {
            "sources": sources,
            "rule": rule,
            "block": block,
            "class_attention_stage": class_attention_stage,
            "attention_kind": trace.recording.structure.attention_kind,
            "shares_biases": shares_biases,
            "row_tokens": row_tokens,
            "carries_constants": len(sources) < number,
        }
        propagation = trace.rerun(1 + number, kind=ForwardDecomposition, **how)
        assert isinstance(propagation, ForwardDecomposition)
        for name in sorted(propagation.unruled):
            trace.note(f"This model uses {name}, which is not linear: what tokens contribute there does not add up.")
        return read(propagation, number)

    return [part_of(0, tokens)] if shares_biases else list(Passes(inner).run(tokens + with_constants, part_of))


def _check_sample_axes(trace: Trace) -> None:
    """Raise ExplainerError if attention in a recorded pass has its heads before its samples, so that the copies of a sample, each with one
    token, would not lie next to each other. Two copies tell where one axis holds both.
    """
    if not trace.recording.structure.maps_without_sample_axis:
        return
    twice = trace.rerun(2)
    for each in twice.structure.maps_without_sample_axis:
        if not each.has_samples_first:
            raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(each.sources[0].shape)))


def _row_tokens(trace: Trace) -> dict[int, Tensor]:
    """Return, for a recorded pass, by the position of an operator with a bias, the token of each row of its output in each sample, or -1
    for a row of several tokens or of none: (B, rows, ...), with an axis of size 1 for the width. It is empty if all rows are the tokens in
    their order. Raises ExplainerError if rows of one sample are not next to each other.
    """
    plan = trace.recording.structure.plan
    if plan is None or not (plan.has_rows_elsewhere or plan.has_rows_of_some):
        return {}
    twice = trace.rerun(2)
    samples, tokens = twice.block_inputs[0].shape[:2]
    row_tokens: dict[int, Tensor] = {}
    for position, rows in twice.structure.rows_out_of_order().items():
        if len(rows.tokens) % samples:
            raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(rows.tokens.shape)))
        by_sample = rows.by_place.unflatten(0, (samples, -1))
        first = tokens * torch.arange(samples, device=by_sample.device).view(-1, *[1] * (by_sample.dim() - 1))
        whose = torch.where(by_sample < 0, -1, by_sample - first)
        if not bool(((whose >= -1) & (whose < tokens)).all()):
            raise ExplainerError(SAMPLES_ARE_NOT_FIRST.format(shape=tuple(rows.tokens.shape)))
        row_tokens[position] = whose[::2]
    return row_tokens


@dataclass(frozen=True)
class Shares:
    """The contributions of a block's input tokens to the output of its attention sub-layer (residual included) at each token.

    vectors  (B, S to, S from, D): the contribution of every token, without constants that attention does not carry
    whole    (B, S, D): the real output of the sub-layer
    """

    vectors: Tensor
    whole: Tensor


def after_attention(trace: Trace, block: int, norms: int) -> Shares:
    """Return the contributions of the input tokens of block ``block`` in ``trace`` to its tokens after attention and residual; in a
    post-norm block the first ``norms`` of its two LayerNorms act on them, the feed-forward layer between the two left out.
    """
    place = _last_mixing_sum(trace, block)
    recorded = trace.recording.structure.stream_after(block, place)

    def read(propagation: ForwardDecomposition, count: int) -> _Part:
        middle = propagation.structure.stream_after(block, place)
        vectors = middle
        output = propagation.block_outputs[-1]
        last = [(factor, centred) for _, normed, factor, centred in propagation.norms if _is_multiple(normed, output)]
        if last:  # post-norm: the block's output is itself normalised
            after_middle = [normed for x, normed, _, _ in propagation.norms if _is_multiple(x, middle)]
            if not after_middle and not propagation.structure.adds_to_sum(block, place):
                raise ExplainerError(
                    f"What block {block + 1} of this model does to its tokens between its attention and its feed-forward layer is no "
                    "normalisation that can be read, so that single tokens cannot be propagated through it. What multiplies attention "
                    "runs, such as rollout, and what goes back from the answer, such as input_x_gradient."
                )
            vectors = after_middle[-1] if after_middle else middle
            if norms == 2:
                factor, centred = last[0]
                vectors = (vectors - vectors.mean(-1, keepdim=True) if centred else vectors) * factor
        return _part(vectors, count, propagation, _missed_share(middle.detach()[:: 1 + count], recorded))

    return _shares(trace, block, propagate(trace, block, read, with_constants=True))


def _is_multiple(x: Tensor, of: Tensor) -> bool:
    """Return whether ``x``, the tokens of samples and their copies, is ``of`` times a number, by its first row: to rounding, and perhaps in
    memory of its own.
    """
    if x is of or x.shape != of.shape:
        return x is of
    x, of = x[:1], of[:1]
    ratio = (x * of).sum() / of.square().sum()
    return bool((x - ratio * of).norm() <= CLOSE * x.norm())


@dataclass(frozen=True)
class _Part:
    """The contributions of some source tokens (B, sources, S to, D), the whole output (B, S, D), whether all that they passed has a linear
    form (what has none is noted), and by what share the stream after attention misses that of the recorded pass.
    """

    vectors: Tensor
    whole: Tensor
    is_linear: bool
    missed_share: float


def _part(vectors: Tensor, count: int, propagation: ForwardDecomposition, missed_share: float) -> _Part:
    """Return the part that ``propagation`` gives, from ``vectors``, one of its tensors with ``count`` copies after each real sample.
    ``missed_share`` is as in :class:`_Part`.
    """
    groups = vectors.detach().unflatten(0, (-1, 1 + count))
    return _Part(groups[:, 1:], groups[:, 0].clone(), not propagation.unruled, missed_share)  # a view would keep all copies


def _missed_share(x: Tensor, of: Tensor) -> float:
    """Return the largest distance between ``x`` and ``of`` (B, S, D) at a token, relative to the length of ``of`` there."""
    return float(((x - of.detach()).norm(dim=-1) / of.detach().norm(dim=-1).clamp(min=torch.finfo(of.dtype).tiny)).max())


def _shares(trace: Trace, block: int, parts: list[_Part]) -> Shares:
    """Join ``parts``, those of several passes, to one :class:`Shares`; the last of their sources is that of constants. Raises
    ExplainerError if they do not add up to the whole output of ``block``, unless something in the block is known to have no linear form,
    or if its stream is not that of the recorded pass.
    """
    vectors, whole = torch.cat([part.vectors for part in parts], 1), parts[0].whole
    shares = [part.missed_share for part in parts]
    if all(part.is_linear for part in parts):
        shares.append(_missed_share(vectors.sum(1), whole))
    if wrong := [share for share in shares if not share <= max(MAX_MISSED_SHARE, MAX_MISSED_EPSILONS * trace.recording.nodes.epsilon)]:
        raise ExplainerError(DOES_NOT_ADD_UP.format(block=block + 1, share=f"{100 * wrong[0]:.{0 if wrong[0] > 0.1 else 1}f}"))
    return Shares(vectors[:, :-1].transpose(1, 2), whole)


def _last_mixing_sum(trace: Trace, block: int) -> int:
    """Return the index of the sum after which tokens are mixed no further, among the residual sums of block number ``block`` in ``trace``.
    This is the sum after attention between tokens; if attention is between channels (XCiT), the sum at which a token depends on most
    tokens, as convolutions may follow. Raises ExplainerError if the block adds nothing to a residual stream.
    """
    recording = trace.recording
    if not recording.structure.sums[block]:
        raise ExplainerError("This model's blocks do not add attention to a residual stream.")
    if recording.attentions[block] is not None:
        return recording.structure.sums_after_attention[block]
    x, token_counts = recording.block_inputs[block], []
    for total in recording.structure.sums[block]:
        start_signal = torch.zeros_like(total)
        start_signal[:, total.shape[1] // 2] = torch.linspace(1, 2, total.shape[-1], dtype=x.dtype, device=x.device)
        signal = recording.pull(RULES["libra"], total, x, start_signal)
        assert signal is not None
        token_counts.append(int((signal != 0).any(-1).sum()))
    return token_counts.index(max(token_counts))


def after_class_attention(trace: Trace, block: int) -> Shares:
    """Return the contributions of input tokens to the tokens after the attention and residual of ``block``, a class attention block of
    ``trace``, where S includes the classification token; they are (B, 1, S from, D) if the block outputs that token alone.
    """

    recorded = trace.recording.structure.class_attention.blocks[block].mid_residual
    assert recorded is not None

    def read(propagation: ForwardDecomposition, count: int) -> _Part:
        middle = propagation.structure.class_attention.blocks[block].mid_residual
        assert middle is not None
        return _part(middle, count, propagation, _missed_share(middle.detach()[:: 1 + count], recorded))

    number = len(trace.recording.block_inputs) + block
    return _shares(trace, number, propagate(trace, block, read, class_attention_stage=True, with_constants=True))


def measure_blocks(trace: Trace, norms: int, measure: Callable[[Shares], Tensor]) -> list[Tensor]:
    """Return for each block of ``trace`` the matrix (B, S to, S from) that ``measure`` makes of its contributions after attention.

    Where the classification token joins after the blocks, S counts it, and it has a row of its own before it has joined. ``norms`` is as in
    :func:`after_attention`.
    """
    blocks = [measure(after_attention(trace, block, norms)) for block in range(len(trace.recording.block_inputs))]
    if not isinstance(trace, ClassAttentionTrace):
        return blocks
    squares = [add_class_token(matrix, 1.0) for matrix in blocks]
    for i, block in enumerate(trace.class_blocks):
        matrix = measure(after_class_attention(trace, i))
        if matrix.shape[1] == 1:  # each of the others gives itself
            others = block.input.detach()[:, 1:]
            itself = measure(Shares(others[:, :, None], others))[..., 0]
            matrix = torch.cat([matrix, torch.nn.functional.pad(torch.diag_embed(itself), (1, 0))], 1)
        squares.append(matrix)
    return squares

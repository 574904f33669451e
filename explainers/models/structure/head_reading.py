"""Which of a Transformer's tokens its head reads, as trial passes show it. The module is left as it was.

A classification token is one that the head reads in another way than the patches or the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError, name_missing_derivative
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import Structure, first_tensor, trial
from explainers.models.structure.fixed_reads import FixedReads
from explainers.models.structure.hooks import remove_hooks_after
from explainers.models.structure.repeated_work import RecordedBlocks
from explainers.models.structure.watching import with_first_tensor

NO_GRADIENT = (
    "No gradient goes from the model's output back to its blocks: its forward runs them under torch.no_grad, or detaches what they give. "
    "Let it run with gradients: to freeze a backbone, requires_grad_(False) on its weights is enough."
)
_UNREAD_BLOCK = (
    "the answer does not depend on what the last of the blocks gives, though that block runs: pass blocks= (the modules that the answer "
    "is computed from)"
)
#: A token is read if its gradient is more than this share of the largest one.
_READ_SHARE = 1e-6
#: A token is read in another way than others if its gradient differs from theirs by more than this share of the largest one.
_DIFFERENT_SHARE = 1e-3


@dataclass(frozen=True)
class ReadTokens:
    """The tokens that the head reads.

    class_token  index of the classification token; -1 where the head singles out a token whose place differs between inputs, such as the
                 last word of a text; None where the head pools
    place        where that token was in the trial pass
    others       places of further tokens that the head reads, next to that one; none where it pools
    count        how many tokens there were
    """

    class_token: int | None
    place: int | None = None
    others: frozenset[int] = frozenset()
    count: int = 0


def read_tokens(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    tensors: Mapping[str, Tensor],
    prefix: int | None,
    after: int = 0,
    blocks: RecordedBlocks | None = None,
) -> ReadTokens:
    """Find the classification token of a model, ``module``, whose blocks are in ``structure``, and what else its head reads. ``run``
    returns its logits.

    All tokens that leave the last block are made equal, and the gradients of the logits at them are compared. A mean or attention pooling
    gives all tokens the same gradient, by symmetry. A head that reads a classification token (token 0 or one after the patches) gives that
    one another gradient than the patches, which may have none. In a text this may be a token whose place differs from text to text, such as
    the last word or the end of the text. ``tensors`` holds one sample; or several, of which the first counts, where ``blocks`` are the
    outputs of the blocks in an earlier pass of them, which then do not run again. ``prefix`` is None for text, where token 0 may be one; so
    many tokens of a picture are before its patches and ``after`` follow them: where there are none of either, there can be no
    classification token.
    """
    if prefix == after == 0:
        return ReadTokens(None)
    gradients, is_fixed = _gradient_at_last_block(module, structure, run, tensors, lambda tokens: tokens[:, :1].expand_as(tokens), blocks)
    scale = gradients.abs().max()
    if not bool(scale):
        raise ExplainerError(
            "the model's output does not depend on what its blocks give: are the weights of its head zero, as before training? Load those "
            "of a trained one"
        )
    heard = _read_tokens_of(gradients)
    if len(heard) == 1:
        (read,) = heard
        if prefix is None and read > 0:
            return ReadTokens(-1, read, count=len(gradients))
        if is_fixed:
            return ReadTokens(read, read, count=len(gradients))

        def plain_there(tokens: Tensor) -> Tensor:
            return torch.cat([tokens[:, :read], tokens.mean(1, keepdim=True), tokens[:, read + 1 :]], 1)

        # a head that picks the strongest token, or the like, takes no mean of them where it can have another
        picked = _read_tokens_of(_gradient_at_last_block(module, structure, run, tensors, plain_there, blocks)[0])
        if read in picked or not picked:
            return ReadTokens(read, read, picked - {read}, len(gradients))
        return ReadTokens(-1, read, count=len(gradients))
    place, is_first = _distinct_place(gradients, heard, _DIFFERENT_SHARE * scale, prefix, after)
    if place is None:
        return ReadTokens(None)
    return ReadTokens(place if is_first or prefix is not None else -1, place, heard - {place}, len(gradients))


def _read_tokens_of(gradients: Tensor) -> frozenset[int]:
    """Return the indices of the tokens that the head reads: those with a gradient, from the gradients (S, D) of all tokens."""
    sizes = gradients.abs().amax(-1)
    return frozenset((sizes > _READ_SHARE * sizes.max()).nonzero()[:, 0].tolist())


def _distinct_place(gradients: Tensor, heard: frozenset[int], least: Tensor, prefix: int | None, after: int) -> tuple[int | None, bool]:
    """Return the index of the token that the head reads differently from all others, and whether it is token 0. ``gradients`` (S, D) are
    those at equal tokens; the token is one of ``heard`` whose gradient differs by ``least`` or more from that of the patches, or of most
    words. None if there is none, or if there are several and none is token 0. ``prefix`` and ``after`` count the tokens before and after
    the patches; ``prefix`` None means a text.
    """
    if prefix is None:
        alike = torch.cdist(gradients.float(), gradients.float(), p=torch.inf) <= least.float()
        usual = len(gradients) - 1 - int(alike.sum(1).flip(0).argmax())  # of as many the last
        candidates = heard if int(alike[usual].sum()) * 2 >= len(gradients) else frozenset[int]()
    else:
        usual = prefix
        candidates = heard & {*([] if prefix == 0 else [0]), *range(len(gradients) - after, len(gradients))}
    apart = [place for place in sorted(candidates) if bool((gradients[place] - gradients[usual]).abs().max() > least)]
    is_first = apart[:1] == [0]
    return (apart[0] if is_first or len(apart) == 1 else None), is_first


def _gradient_at_last_block(
    module: nn.Module,
    structure: Structure,
    run: Forward,
    tensors: Mapping[str, Tensor],
    change: Callable[[Tensor], Tensor],
    blocks: RecordedBlocks | None,
) -> tuple[Tensor, bool]:
    """Run ``module`` by ``run`` on ``tensors`` with the tokens that leave the last block of ``structure`` replaced by ``change(tokens)``,
    where ``blocks`` give what they gave (None: they run). Return the gradient (S, D) of a weighted sum of the logits at these tokens of the
    first sample, and whether the head was seen to read tokens at fixed places.
    """
    last, block_kind = structure.blocks[-1], structure.block_kind
    by_kind = not (block_kind.is_row or block_kind.is_map)
    calls_left = structure.blocks.count(last)  # a shared block runs several times; the last time counts
    leaf: Tensor | None = None
    reads = FixedReads()

    def hook(child: nn.Module, args: Any, output: Any) -> Any:
        nonlocal calls_left, leaf
        calls_left -= 1
        tokens = block_kind.output_tokens(output) if by_kind else first_tensor(output)
        if calls_left or tokens is None:
            return None
        leaf = change(tokens).clone().requires_grad_()
        torch.set_grad_enabled(True)  # from here to the output; trial() puts it back
        if block_kind.is_row:
            reads.begin(leaf)
        return block_kind.with_output_tokens(output, leaf) if by_kind else with_first_tensor(output, leaf)

    with remove_hooks_after([last.register_forward_hook(hook)]), trial(module):
        with reads, nullcontext() if blocks is None else blocks.replayed():
            logits = run(tensors)
        assert leaf is not None
        if not logits.requires_grad:
            raise ExplainerError(NO_GRADIENT if _is_read(structure, run, tensors) else _UNREAD_BLOCK)
        weights = torch.linspace(1, 2, logits.shape[1], dtype=logits.dtype, device=logits.device)
        with name_missing_derivative():
            (gradient,) = torch.autograd.grad(logits, leaf, weights.expand_as(logits), allow_unused=True)
        if gradient is None:
            raise ExplainerError(_UNREAD_BLOCK)
    return gradient[0], reads.hold


def _is_read(structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether the answer of ``run`` to ``tensors`` depends on what the last block of ``structure`` gives, by changing that."""

    def hook(child: nn.Module, args: Any, output: Any) -> Any:
        tokens = first_tensor(output)
        return None if tokens is None else with_first_tensor(output, tokens.detach() + torch.randn_like(tokens))

    with torch.no_grad():
        plain = run(tensors)
        with remove_hooks_after([structure.blocks[-1].register_forward_hook(hook)]):
            return not torch.equal(run(tensors), plain)

"""Kinds of attention by what it runs over, where its weights have the shape of a map over tokens; a new kind is one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from explainers.autograd.structure.attention import Attention, Gradient
from explainers.models.eval_mode import with_gradients

#: Whether attention in a block with this input, (B, S, D), is of a kind.
IsOfKind = Callable[[Attention, Tensor, Gradient], bool]


@dataclass(frozen=True)
class AttentionKind:
    """A kind of attention.

    name          name of the kind
    is_kind_of    function that tells whether an attention is of this kind
    mixes_tokens  whether it combines different tokens
    no_map        the reason why its weights are no map over tokens, as the end of a sentence; None if they are
    """

    name: str
    is_kind_of: IsOfKind
    mixes_tokens: bool = True
    no_map: str | None = None


def _is_over_channels(attention: Attention, x: Tensor, gradient: Gradient) -> bool:
    """Return whether ``attention`` in a block with the input tokens ``x`` runs over channels: one value depends on all tokens, and one
    place along the last dimension on one token alone. ``gradient`` returns that of the sum of a tensor at another.

    The shape of the weights does not tell if a head has as many channels as there are tokens.
    """
    value = attention.value
    if value is None or not value.requires_grad or not 1 < x.shape[1] == value.shape[-2] == value.shape[-1]:
        return False  # else the shape of the weights has told
    with with_gradients():
        of_channel = gradient(value.select(-2, 0), x)
        if of_channel is None or not bool((of_channel != 0).any(-1).all()):
            return False
        of_token = gradient(value.select(-1, 0), x)
    return of_token is not None and not bool((of_token != 0).any(-1).all())


OVER_TOKENS = AttentionKind("over tokens", lambda attention, x, gradient: True)
OVER_CHANNELS = AttentionKind(  # XCiT's
    "over channels", _is_over_channels, mixes_tokens=False, no_map="their attention is over channels, the same for every token"
)
#: In the order in which they are asked; what is of no other kind is over tokens.
ATTENTION_KINDS = (OVER_CHANNELS, OVER_TOKENS)


def attention_kind_of(attention: Attention, x: Tensor, gradient: Gradient) -> AttentionKind:
    """Return the kind of ``attention`` in a block with input ``x`` (B, S, D): "over tokens" or "over channels". ``gradient`` is a function
    that returns the gradient of one tensor with respect to another.
    """
    return next(kind for kind in ATTENTION_KINDS if kind.is_kind_of(attention, x, gradient))

"""What a recording sees behind the blocks, where a class token joins their tokens in class attention, as in CaiT, XCiT and VOLO.

A block of class attention has one query, the class token itself, over itself and the tokens of the blocks; what it gives is added to the
class token. The other tokens stay what they are, or change each by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.dispatch import factor
from explainers.autograd.signals import AttentionParts


@dataclass(frozen=True)
class ClassBlock:
    """One block of class attention; its tokens are the class token, then those of the blocks.

    input         (B, 1 + S, D)
    mid_residual  (B, 1 + S, D), or (B, 1, D) of the class token alone: the residual stream after attention; None until it is seen
    output        likewise: what the block gives
    attends       whether its attention was seen: until then it is any module behind the blocks
    """

    input: Tensor
    mid_residual: Tensor | None = None
    output: Tensor | None = None
    attends: bool = False


class ClassAttention:
    """The blocks of class attention of one recorded pass, in the order they ran, and of each attention seen in them, or in no block:

    attentions   (B, H, 1, 1 + S)
    parts        its query (B, H, 1, d), keys, values (B, H, 1 + S, d), and output (B, H, 1, d); None where they were not seen
    projections  weight and bias of the linear map after it; None where there was none
    """

    def __init__(self) -> None:
        self.attentions: list[Tensor] = []
        self.parts: list[AttentionParts | None] = []
        self.projections: list[tuple[Tensor, Tensor | None] | None] = []
        self.inside = False
        self.blocks_begun: list[ClassBlock] = []  # modules behind the blocks, whether class attention was seen in them or not
        self._factors: tuple[Tensor, Tensor] | None = None  # of the last product of two paths: queries and keys

    @property
    def blocks(self) -> list[ClassBlock]:
        """Those in which class attention was seen."""
        return [block for block in self.blocks_begun if block.attends]

    @property
    def count(self) -> int:
        """How many modules behind the blocks have begun."""
        return len(self.blocks_begun)

    @property
    def is_whole(self) -> bool:
        """Whether each class attention was in a block whose stream is known."""
        known = [block for block in self.blocks if block.mid_residual is not None and block.output is not None]
        return len(known) == len(self.attentions)

    def enter(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A block begins."""
        self.inside = True
        self.blocks_begun.append(ClassBlock(class_first(tokens_among(args, kwargs))))

    def leave(self, output: Any) -> None:
        """It is done."""
        self.inside = False
        given = output if isinstance(output, Tensor) else output[0]
        self.blocks_begun[-1] = replace(self.blocks_begun[-1], output=given)

    def replace_input(self, x: Tensor) -> None:
        """The block that began takes other tokens."""
        self.blocks_begun[-1] = replace(self.blocks_begun[-1], input=x)

    def saw_attention(self, weights: Tensor) -> None:
        """Attention of one query, the class token."""
        self.attentions.append(weights)
        self.parts.append(None)
        self.projections.append(None)
        if self.inside:
            self.blocks_begun[-1] = replace(self.blocks_begun[-1], attends=True)

    def saw_factors(self, query: Tensor, key: Tensor) -> None:
        """A product of two paths (..., queries, d) and (..., d, keys): of queries and keys, where a softmax follows."""
        self._factors = (query, key)

    def saw_output(self, value: Tensor, output: Tensor) -> None:
        """What the attention seen last gives, written out step by step."""
        if self.attentions and self.parts[-1] is None and self._factors is not None:
            query, key = self._factors
            if query.shape[-2] == 1 and key.shape[-1] == value.shape[-2]:
                # what scores are scaled by is no part of queries and keys, whatever is multiplied by it
                query, key = (of.detach() / factor(of) for of in (query, key))
                self.parts[-1] = AttentionParts(query, key.mT, value, self.attentions[-1], output)

    def saw_parts(self, parts: AttentionParts) -> None:
        """What an attention of one call was made of."""
        if self.attentions and self.attentions[-1] is parts.weights:
            self.parts[-1] = parts

    def saw_linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """A linear layer: the first after class attention is its output projection."""
        parts = self.parts[-1] if self.parts else None
        if parts is not None and self.projections[-1] is None and x.shape[-1] == parts.output.shape[1] * parts.output.shape[3]:
            self.projections[-1] = (weight, bias)

    def saw_sum(self, total: Tensor, constant: Tensor | None = None) -> None:
        """A sum of two paths, or of one and a constant: the first after attention, of the class token itself and what attention gives."""
        block = self.blocks_begun[-1] if self.inside else None
        if block is None or not block.attends or block.mid_residual is not None:
            return
        token = block.input[:, :1]
        if constant is not None and (constant.shape != token.shape or not torch.equal(constant, token.detach())):
            return
        if total.shape in (token.shape, block.input.shape):
            self.blocks_begun[-1] = replace(block, mid_residual=total)


def tokens_among(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The one or two tensors of tokens that a block of class attention takes."""
    return [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.is_floating_point()]


def class_first(given: list[Tensor]) -> Tensor:
    """(B, 1 + S, D) of what a block takes: itself, or a class token and the others in whatever order."""
    return given[0] if len(given) == 1 else torch.cat(sorted(given, key=lambda tokens: tokens.shape[1]), 1)


def as_taken(x: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a block with other tokens (B, 1 + S, D)."""
    several = len(tokens_among(args, kwargs)) > 1

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return (x[:, :1] if value.shape[1] == 1 else x[:, 1:]) if several else x

    return tuple(other(value) for value in args), {name: other(value) for name, value in kwargs.items()}

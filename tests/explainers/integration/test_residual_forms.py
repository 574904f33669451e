"""Residual sums and norms in forms that are no sum and no norm: what reads the stream after attention is the same, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import WIDTH, Attention, Block, Vit, built, of_module, pixels, scores, softmax_of

INSIDE_BLOCKS = ("token_tm", "globenc", "alti")
ELSEWHERE = ("rollout", "attcat", "decompx", "input_x_gradient:libra")
Join = Callable[[Tensor, Tensor], Tensor]
Norm = Callable[[nn.LayerNorm, Tensor], Tensor]
TWO_IDENTITIES = torch.eye(WIDTH).repeat(1, 2)
CENTRED = torch.eye(WIDTH) - 1 / WIDTH


def pooled(x: Tensor, given: Tensor) -> Tensor:
    return 2 * F.avg_pool1d(torch.stack([x, given], -1).flatten(0, 2)[:, None], 2).view_as(x)


#: Joins of the stream with what a part gives, all of which have the value of their sum.
NO_SUMS: dict[str, Join] = {
    "nansum": lambda x, given: torch.stack([x, given]).nansum(0),
    "cumsum": lambda x, given: torch.stack([x, given], -1).cumsum(-1)[..., -1],
    "pool": pooled,
    "linear layer over both": lambda x, given: F.linear(torch.cat([x, given], -1), TWO_IDENTITIES.to(x.dtype)),
    "convolution over both": lambda x, given: F.conv1d(torch.cat([x, given], -1).mT, TWO_IDENTITIES.to(x.dtype)[..., None]).mT,
    "difference": lambda x, given: torch.diff(torch.stack([-x, given]), dim=0)[0],
}
SUMS: dict[str, Join] = {
    "in place": lambda x, given: x.clone().add_(given),
    "lerp": lambda x, given: torch.lerp(x, x + 2 * given, 0.5),
    "lerp between both": lambda x, given: 2 * torch.lerp(x, given, 0.5),
    "where": lambda x, given: torch.where(torch.ones(1, dtype=torch.bool), x + given, x),
    "baddbmm": lambda x, given: torch.baddbmm(x, given, torch.eye(WIDTH, dtype=x.dtype).expand(len(x), -1, -1)),
}


class Joined(Block):
    """A block with its parts joined to the stream by ``join``, attention alone or both; norms before parts or, ``is_post_norm``, after."""

    def __init__(self, join: Join | None, is_post_norm: bool, of_mlp: bool, norm: Norm | None = None) -> None:
        super().__init__(lambda: Attention(of_module))
        plain: Join = torch.add
        self.joins = (join or plain, (join or plain) if of_mlp else plain)
        self.is_post_norm, self.norm = is_post_norm, norm or (lambda module, x: module(x))

    def forward(self, x: Tensor) -> Tensor:
        for join, norm, part in zip(self.joins, (self.n1, self.n2), (self.attn, self.mlp), strict=True):
            x = self.norm(norm, join(x, part(x))) if self.is_post_norm else join(x, part(self.norm(norm, x)))
        return x


def vit_of(block: Callable[[], nn.Module]) -> nn.Module:
    return built(lambda: Vit(lambda: [block(), block()]))


def assert_same_maps(block: Callable[[], nn.Module], plain: Callable[[], nn.Module], specs: tuple[str, ...]) -> None:
    for spec, one, other in zip(specs, scores(vit_of(block), pixels(), 1, *specs), scores(vit_of(plain), pixels(), 1, *specs), strict=True):
        assert float((one - other).abs().max()) < 1e-5 * float(other.abs().max()), spec


@pytest.mark.parametrize("is_post_norm", [False, True])
@pytest.mark.parametrize("join", NO_SUMS.values(), ids=NO_SUMS)
def test_the_sum_after_the_mlp_is_not_taken_for_that_after_attention(join: Join, is_post_norm: bool) -> None:
    for spec in INSIDE_BLOCKS:
        with pytest.raises(ExplainerError, match="do not add attention to a residual stream by a sum"):
            scores(vit_of(lambda: Joined(join, is_post_norm, False)), pixels(), 1, spec)
    assert_same_maps(lambda: Joined(join, is_post_norm, False), lambda: Joined(None, is_post_norm, False), ELSEWHERE)


@pytest.mark.parametrize("of_mlp", [False, True])
@pytest.mark.parametrize("is_post_norm", [False, True])
@pytest.mark.parametrize("join", SUMS.values(), ids=SUMS)
def test_a_sum_in_other_words_is_the_residual_sum(join: Join, is_post_norm: bool, of_mlp: bool) -> None:
    assert_same_maps(lambda: Joined(join, is_post_norm, of_mlp), lambda: Joined(None, is_post_norm, of_mlp), (*INSIDE_BLOCKS, *ELSEWHERE))


def centred_by_a_matrix(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    y = x @ CENTRED.to(x.dtype)
    return y / (y.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def test_tokens_are_not_propagated_through_a_norm_that_cannot_be_read() -> None:
    """After attention such a norm would be left out, as it would if the stream went on without one."""
    for spec in ("globenc", "alti"):
        with pytest.raises(ExplainerError, match="is no normalisation that can be read"):
            scores(vit_of(lambda: Joined(None, True, False, centred_by_a_matrix)), pixels(), 1, spec)
    plain = (lambda: Joined(None, True, False), lambda: Joined(None, False, False))
    assert_same_maps(lambda: Joined(None, True, False, centred_by_a_matrix), plain[0], ("token_tm", *ELSEWHERE))
    assert_same_maps(lambda: Joined(None, False, False, centred_by_a_matrix), plain[1], (*INSIDE_BLOCKS, *ELSEWHERE))


class NormedAtItsEnd(Block):
    """A block with one norm, after both of its sums."""

    def __init__(self, copies: bool) -> None:
        super().__init__(lambda: Attention(of_module))
        self.copies = copies

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        x = self.n2(x + self.mlp(x))
        return x.clone() if self.copies else x


def test_a_norm_at_the_end_of_a_block_may_be_the_only_one_and_its_output_copied() -> None:
    assert_same_maps(lambda: NormedAtItsEnd(True), lambda: NormedAtItsEnd(False), INSIDE_BLOCKS)


def length_by_einsum(x: Tensor) -> Tensor:
    return torch.einsum("bnd,bnd->bn", x, x)[..., None]


def length_by_product(x: Tensor) -> Tensor:
    return (x[..., None, :] @ x[..., None])[..., 0]


class Lengths(nn.Module):
    """A root mean square norm whose square of each token's length is made by ``square``."""

    def __init__(self, square: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.square = square

    def forward(self, x: Tensor) -> Tensor:
        return x / (self.square(x) / WIDTH + 1e-6).sqrt()


class OfLengths(Block):
    def __init__(self, square: Callable[[Tensor], Tensor]) -> None:
        super().__init__(lambda: Attention(of_module))
        self.n1, self.n2 = Lengths(square), Lengths(square)


@pytest.mark.parametrize("square", [length_by_einsum, length_by_product])
def test_the_length_of_a_token_is_no_product_that_brings_tokens_together(square: Callable[[Tensor], Tensor]) -> None:
    specs = ("raw_attention", "rollout", "generic_attention", "input_x_gradient:libra", *INSIDE_BLOCKS)
    plain = lambda x: x.square().sum(-1, keepdim=True)  # noqa: E731
    found, expected = (
        scores(built(lambda f=f: Vit(lambda: [OfLengths(f), OfLengths(f)])), pixels(), 1, *specs)
        for f in (square, plain)  # type: ignore[misc]
    )
    for spec, one, other in zip(specs, found, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-5 * float(other.abs().max()), spec


def changed(before: Tensor, after: Tensor) -> Tensor:
    """The weights of TokenTM: the ratio of lengths times the softmax over tokens of the cosine."""
    return after.norm(dim=-1) / (before.norm(dim=-1) + 1e-8) * F.cosine_similarity(before, after, dim=-1).softmax(-1)


def test_token_tm_of_a_post_norm_block_reads_the_sum_before_its_norm() -> None:
    """By its formula, with gradients by autograd."""
    vit = vit_of(lambda: Joined(None, True, False))
    assert isinstance(vit, Vit)
    x = torch.cat([vit.cls, vit.embed(vit.patch(pixels()))], 1) + vit.pos
    start, blocks = x, list[tuple[Tensor, Tensor, Tensor, Tensor]]()
    for block in vit.blocks:
        assert isinstance(block, Joined)
        assert isinstance(block.attn, Attention)
        q, k, v = block.attn.heads(block.attn.qkv(x), 3)
        weights = softmax_of(q, k)
        weights.retain_grad()
        middle = x + block.attn.proj((weights @ v).transpose(1, 2).flatten(2))
        normed = block.n1(middle)
        y = block.n2(normed + block.mlp(normed))
        blocks.append((x, middle, y, weights))
        x = y
    vit.head(vit.norm(x)[:, 0])[0, 1].backward()
    joint = start[0].norm(dim=-1).diag()
    eye = torch.eye(len(joint), dtype=joint.dtype)
    for taken, middle, y, weights in blocks:
        assert weights.grad is not None
        by_gradient = weights[0].mean(0) * changed(taken[0], middle[0]) * weights.grad[0].clamp(min=0).mean(0)
        joint = (eye + changed(middle[0], y[0]).diag()) @ (eye + by_gradient) @ joint
    (found,) = scores(vit, pixels(), 1, "token_tm")
    torch.testing.assert_close(found[1:], joint[0, 1:].detach(), rtol=1e-5, atol=1e-8)

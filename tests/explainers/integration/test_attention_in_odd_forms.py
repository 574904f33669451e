"""Attention in forms whose queries and keys cannot be read, by sums of products, and over a batch one by one: against plain torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from tests.explainers.support.own_texts import Words
from tests.explainers.support.own_vit import RECIPE, D

TARGET, HEADS = 2, 2
#: From queries, keys and values (B, heads, tokens, width) and the scores of the block before: what attention gives, and its scores.
Form = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


def plain(q: Tensor, k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v, scores


def by_cosine(q: Tensor, k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = 5 * F.cosine_similarity(q[..., :, None, :], k[..., None, :, :], -1)
    return scores.softmax(-1) @ v, scores


def row_by_row(q: Tensor, k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = q.new_zeros(*q.shape[:3], k.shape[2])
    for row in range(q.shape[2]):
        scores[:, :, row] = torch.einsum("bhd,bhjd->bhj", q[:, :, row], k) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v, scores


def with_the_scores_before(q: Tensor, k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    scores = scores if before is None else scores + before
    return scores.softmax(-1) @ v, scores


def number_by_number(q: Tensor, k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = (q[..., :, None, :] * k[..., None, :, :]).sum(-1) / q.shape[-1] ** 0.5
    return (scores.softmax(-1)[..., None] * v[..., None, :, :]).sum(-2), scores


def keys_first_over_both(q: Tensor, k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """Slot attention: a softmax over queries, then shares over keys."""
    weights = (k @ q.mT / q.shape[-1] ** 0.5).softmax(-1) + 1e-8
    return torch.einsum("bhji,bhjd->bhid", weights / weights.sum(-2, keepdim=True), v), weights


class Block(nn.Module):
    def __init__(self, form: Form) -> None:
        super().__init__()
        self.norm1, self.norm2, self.form = nn.LayerNorm(D), nn.LayerNorm(D), form
        self.qkv, self.proj, self.mlp = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))

    def forward(self, x: Tensor, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        context, scores = self.form(q, k, v, before)
        x = x + self.proj(context.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x)), scores


class ViT(nn.Module):
    def __init__(self, form: Form) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.patch, self.cls, self.pos = nn.Conv2d(3, D, 8, 8), nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 17, D))
        self.blocks, self.norm, self.head = nn.ModuleList(Block(form) for _ in range(2)), nn.LayerNorm(D), nn.Linear(D, 3)

    def embed(self, x: Tensor) -> Tensor:
        return torch.cat([self.cls.expand(len(x), -1, -1), self.patch(x).flatten(2).mT], 1) + self.pos

    def forward(self, x: Tensor) -> Tensor:
        x, before = self.embed(x), None
        for block in self.blocks:
            x, before = block(x, before)
        logits: Tensor = self.head(self.norm(x)[:, 0])
        return logits


def made(form: Form) -> tuple[ViT, explainers.Model]:
    module = ViT(form).double().eval()
    with torch.no_grad():
        for block in module.blocks:
            block.qkv.weight.mul_(3)
    return module, explainers.wrap(module, kind=["picture"], labels=["a", "b", "c"], preprocess=RECIPE)


PICTURE = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(4)).double()


def scores_of(model: explainers.Model, spec: str) -> Tensor:
    result = explainers.explain(model, {"pixel_values": PICTURE}, target=TARGET, methods=[spec])
    assert isinstance(result, explainers.Explanation)
    return result[spec].scores.double()


def agcam_by_hand(module: ViT) -> Tensor:
    """Leem & Seo: the gradient of the weights that goes through residuals and MLPs alone, times the sigmoid of the scores."""
    x, total, known, before = module.embed(PICTURE).detach(), torch.zeros(17).double(), [], None
    for block in module.blocks:
        q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        context, before = block.form(q.detach(), k.detach(), v.detach(), None if before is None else before.detach())
        context = context.detach().requires_grad_()
        known.append((context, v.detach(), before.detach()))
        x = x + block.proj(context.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    logit = module.head(module.norm(x)[:, 0])[0, TARGET]
    gradients = torch.autograd.grad(logit, [context for context, _, _ in known])
    for gradient, (_, v, scores) in zip(gradients, known, strict=True):
        total = total + ((gradient @ v.mT).clamp(min=0) * scores.sigmoid())[0, :, 0].sum(0)
    return total


@pytest.mark.parametrize("form", [plain, by_cosine, row_by_row, with_the_scores_before], ids=lambda form: form.__name__)
def test_agcam_needs_no_queries_and_keys(form: Form) -> None:
    module, model = made(form)
    torch.testing.assert_close(scores_of(model, "agcam"), agcam_by_hand(module), rtol=1e-5, atol=1e-7)


def test_relevance_of_attention_number_by_number() -> None:
    """It is that of the matrix products, whose digits other tests hold."""
    (_, odd), (_, usual) = made(number_by_number), made(plain)
    for spec in ("lrp", "lrp:deep_taylor", "input_x_gradient:attnlrp", "input_x_gradient:libra", "input_x_gradient:gim"):
        torch.testing.assert_close(scores_of(odd, spec), scores_of(usual, spec), rtol=1e-4, atol=1e-6, msg=spec)


def test_a_softmax_whose_axis_cannot_be_told_is_not_read_as_queries_and_keys() -> None:
    """Shares over both axes are made of all queries and all keys: which are which is not known, and Grad-ECLIP needs it."""
    _, model = made(keys_first_over_both)
    with pytest.raises(ExplainerError, match="grad_eclip cannot run here"):
        scores_of(model, "grad_eclip")
    assert bool(scores_of(model, "rollout").all())


class OneByOne(Words):
    """A text classifier that runs its blocks on each sample of a batch alone, without its padding."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        masks = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return torch.cat([super(OneByOne, self).forward(ids[None, : int(mask.sum())]) for ids, mask in zip(input_ids, masks, strict=True)])


@pytest.mark.parametrize("spec", ["decompx", "alti", "integrated_gradients"])
def test_a_batch_that_runs_one_by_one_is_refused_in_words(spec: str) -> None:
    model = explainers.wrap(OneByOne().eval(), kind=["text"], labels=["a", "b", "c"])
    ids = torch.tensor([[1, 7, 5, 22, 9, 13, 31, 2]])
    with pytest.raises(ExplainerError, match=r"does not have its samples first|takes the inputs of a batch one by one"):
        explainers.explain(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, target=1, methods=[spec])

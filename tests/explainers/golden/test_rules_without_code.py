"""Rules of which no published numbers exist, over a whole ViT: calculations of their own, without the engine and without its twins."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.autograd.recording import Recording
from tests.explainers.support.wrapped import inputs, trace_of, wrapped

TARGET = 1
Relevance = tuple[list[Tensor], list[Tensor]]


def shared(part: Tensor, whole: Tensor, relevance: Tensor) -> Tensor:
    """part / whole of a relevance; 1e-9 is added below, and nothing is shared where the whole is 0, as in the published code."""
    return torch.where(whole == 0, 0.0, part / (whole + 1e-9) * relevance)


def through_weights(x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """Eq. 4 of Chefer et al.: R_j = sum_i x_j^+ w_ij^+ / (sum_k x_k^+ w_ik^+) R_i, pair by pair."""
    pairs = x.clamp(min=0)[..., None, :] * weight.clamp(min=0)  # (..., i, j)
    return shared(pairs, pairs.sum(-1, keepdim=True), relevance[..., None]).sum(-2)


def through_product(a: Tensor, b: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Of a @ b each term a_ij b_jk of an output takes its share, and gives half of it to each of its factors."""
    terms = a[..., :, :, None] * b[..., None, :, :]  # (..., i, j, k)
    shares = shared(terms, terms.sum(-2, keepdim=True), relevance[..., :, None, :]) / 2
    return shares.sum(-1), shares.sum(-3)


def eq4(module: nn.Module, x: Tensor) -> Relevance:
    """Relevance of x at each block's input, and of each block's attention, of 1 at the target.

    Biases get none; norms, GELU and softmax hand on all that they get; the terms of a sum share it in proportion.
    """
    kept = []
    for block in module.blocks:
        heads = block.attn.num_heads
        normed = block.norm1(x)
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in block.attn.qkv(normed).chunk(3, -1))
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        out = (weights @ v).transpose(1, 2).flatten(2)
        attended = block.attn.proj(out)
        mid = x + attended
        narrow = block.norm2(mid)
        wide = F.gelu(block.mlp.fc1(narrow))
        kept.append((x, normed, q, k, v, weights, out, attended, mid, narrow, wide, block.mlp.fc2(wide)))
        x = mid + kept[-1][-1]
    read = module.norm(x)[:, 0]
    start = F.one_hot(torch.full((len(x),), TARGET), module.num_classes).to(x)
    r = torch.zeros_like(x)
    r[:, 0] = through_weights(read, module.head.weight, start)
    of_inputs, of_attention = [], []
    for block, (x, normed, q, k, v, weights, out, attended, mid, narrow, wide, added) in zip(
        reversed(module.blocks), reversed(kept), strict=True
    ):
        stays, goes = shared(mid, mid + added, r), shared(added, mid + added, r)
        r = stays + through_weights(narrow, block.mlp.fc1.weight, through_weights(wide, block.mlp.fc2.weight, goes))
        stays, goes = shared(x, x + attended, r), shared(attended, x + attended, r)
        of_out = through_weights(out, block.attn.proj.weight, goes).unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2)
        r_weights, r_v = through_product(weights, v, of_out)
        r_q, r_k = through_product(q, k.mT, r_weights)
        of_qkv = torch.cat([t.transpose(1, 2).flatten(2) for t in (r_q, r_k.mT, r_v)], -1)
        r = stays + through_weights(normed, block.attn.qkv.weight, of_qkv)
        of_inputs.insert(0, r)
        of_attention.insert(0, r_weights)
    return of_inputs, of_attention


def test_lrp_of_eq_4_is_its_formula_over_a_vit() -> None:
    model, tensors = wrapped("vit"), inputs("vit")
    recording = Recording(model, tensors)
    trace = trace_of(recording, "lrp-eq4", TARGET)
    with torch.no_grad():
        of_inputs, of_attention = eq4(model.module, recording.block_inputs[0].detach())
    for ours, theirs in zip((*trace.block_input_grads, *trace.attention_grads), (*of_inputs, *of_attention), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9 * float(theirs.abs().max()))
    found = explainers.explain(model, tensors, target=TARGET, methods=["partial_lrp:lrp-eq4"])
    rows = of_attention[-1].clamp(min=0).mean(1)[:, 0]
    torch.testing.assert_close(torch.stack([each.maps[0].scores for each in found]).double(), rows, rtol=1e-5, atol=1e-9)


def test_eq_4_is_another_baseline_than_the_published_code_computes() -> None:
    recording = Recording(wrapped("vit"), inputs("vit"))
    ours, code = (trace_of(recording, rule, TARGET).attention_grads[-1] for rule in ("lrp-eq4", "lrp"))
    assert float((ours - code).abs().max()) > 0.01 * float(code.abs().max())


class HeldGate(nn.Module):
    """GELU as x times a gate that is a constant."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (F.gelu(x) / x).detach()


@pytest.mark.parametrize("name", ["vit", "deit3"])
def test_libra_without_attention_and_norm_is_the_gradient_of_held_gates(name: str) -> None:
    """Libra's other two choices taken back, its gate alone is left in a ViT: torch's gradient of the same model with that gate held."""
    module, tensors = copy.deepcopy(wrapped(name).module), inputs(name)
    for block in module.blocks:
        block.mlp.act = HeldGate()
    seen: list[Tensor] = []

    def keep(block: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        seen.append(given[0].detach().requires_grad_() if not seen else given[0])
        seen[-1].retain_grad()
        return (seen[-1], *given[1:])

    for block in module.blocks:
        block.register_forward_pre_hook(keep)
    module(tensors["pixel_values"])[:, TARGET].sum().backward()
    specs = ["input_x_gradient:libra-attention-norm"]
    found = explainers.explain(wrapped(name), tensors, target=TARGET, methods=specs)
    products = [(x * x.grad).detach().sum(-1) for x in seen]
    for i, result in enumerate(found):
        torch.testing.assert_close(result[specs[0]].scores.double(), products[0][i], rtol=1e-5, atol=1e-8)
    trace = trace_of(Recording(wrapped(name), tensors), "libra-attention-norm", TARGET)
    for ours, x in zip(trace.block_input_grads, seen, strict=True):
        torch.testing.assert_close(ours, x.grad, rtol=1e-7, atol=1e-10)
    libra = trace.under("libra").block_input_grads[0]
    assert float((trace.block_input_grads[0] - libra).abs().max()) > 0.01 * float(libra.abs().max())

"""A ViT and a BERT written out as plain functions of x^1, to differentiate with detach: independent twins of what the engine records."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd.rules import Rule
from tests.explainers.support.formulas import Twin


@dataclass
class Pass:
    """Values of one pass of a twin; ``biases`` are (a copy of a bias for every place it acts at, whether it has a token axis)."""

    rule: Rule
    logits: Tensor
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    attentions: list[Tensor] = field(default_factory=list)
    biases: list[tuple[Tensor, bool]] = field(default_factory=list)

    def gradients(self, of: list[Tensor], target: int) -> list[Tensor]:
        found = torch.autograd.grad(self.logits[:, target].sum(), of, retain_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(of, found, strict=True)]

    def bias_terms(self, target: int) -> Tensor:
        """(B, S): sum over all biases of bias times gradient; those without a token at token 0."""
        total = torch.zeros(self.inputs[0].shape[:2], dtype=torch.float64)
        grads = self.gradients([b for b, _ in self.biases], target)
        for (bias, by_token), grad in zip(self.biases, grads, strict=True):
            term = (bias * grad).detach()
            if by_token:
                total += term.flatten(2).sum(-1)
            else:
                total[:, 0] += term.flatten(1).sum(-1)
        return total


class _Builder:
    """The operators of a twin, noting every bias as a tensor of its own at every token."""

    def __init__(self, rule: Rule) -> None:
        self.twin = Twin(rule)
        self.biases: list[tuple[Tensor, bool]] = []

    def bias(self, y: Tensor, b: Tensor) -> Tensor:
        own = b.detach().expand_as(y).clone().requires_grad_()
        self.biases.append((own, y.dim() == 3))
        return y + own

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return self.bias(x @ layer.weight.detach().mT, layer.bias)

    def norm(self, x: Tensor, layer: nn.LayerNorm) -> Tensor:
        return self.bias(self.twin.layer_norm(x, layer.weight.detach(), eps=layer.eps), layer.bias)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Output (B, S, D) and the weights, a node of the graph also where the rule holds them constant."""
        scores = self.twin.matmul(q, k.mT) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        weights = self.twin.softmax(scores)
        if not weights.requires_grad:
            weights.requires_grad_()
        return self.twin.matmul(weights, v).transpose(1, 2).flatten(2), weights


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def vit(module: nn.Module, x1: Tensor, rule: Rule) -> Pass:
    """timm's VisionTransformer with a classification token, from x^1 (B, S, D)."""
    build = _Builder(rule)
    x = x1.detach().clone().requires_grad_()
    made = Pass(rule, x)
    for block in module.blocks:
        made.inputs.append(x)
        q, k, v = (heads(t, block.attn.num_heads) for t in build.linear(build.norm(x, block.norm1), block.attn.qkv).chunk(3, -1))
        out, weights = build.attend(q, k, v)
        made.attentions.append(weights)
        x = x + build.linear(out, block.attn.proj)
        hidden = build.twin.act(F.gelu, build.linear(build.norm(x, block.norm2), block.mlp.fc1))
        x = x + build.linear(hidden, block.mlp.fc2)
        made.outputs.append(x)
    made.logits = build.linear(build.norm(x, module.norm)[:, 0], module.head)
    made.biases = build.biases
    return made


def bert(module: nn.Module, x1: Tensor, rule: Rule, mask: Tensor) -> Pass:
    """transformers' BertForSequenceClassification from the output of its embeddings."""
    build = _Builder(rule)
    x = x1.detach().clone().requires_grad_()
    made = Pass(rule, x)
    for layer in module.bert.encoder.layer:
        made.inputs.append(x)
        own = layer.attention.self
        q, k, v = (heads(build.linear(x, part), own.num_attention_heads) for part in (own.query, own.key, own.value))
        out, weights = build.attend(q, k, v, mask)
        made.attentions.append(weights)
        after = layer.attention.output
        x = build.norm(x + build.linear(out, after.dense), after.LayerNorm)
        hidden = build.twin.act(F.gelu, build.linear(x, layer.intermediate.dense))
        x = build.norm(x + build.linear(hidden, layer.output.dense), layer.output.LayerNorm)
        made.outputs.append(x)
    pooled = build.twin.act(torch.tanh, build.linear(x[:, 0], module.bert.pooler.dense))
    made.logits = build.linear(pooled, module.classifier)
    made.biases = build.biases
    return made

"""Attention in which no patch or word reads another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import explainers
from explainers.analysis.depth.asker import Asker, Batch
from explainers.analysis.depth.findings import NotMasked, isolated_answers
from explainers.analysis.depth.isolation import IsolatedTokens, allowed_keys
from explainers.models.eval_mode import answering
from tests.explainers.analysis.depth.conftest import MakeVit
from tests.explainers.support.wrapped import inputs, wrapped


def content_of(model: explainers.Model, tensors: dict[str, Tensor]) -> Tensor:
    """The patches, or all words but the first."""
    layout = model.layout_of(tensors)
    if layout.grid is None:
        content = torch.ones(tensors["input_ids"].shape, dtype=torch.bool)
        content[:, : layout.prefix] = False
        return content
    content = torch.zeros(len(tensors["pixel_values"]), layout.image_tokens, dtype=torch.bool)
    content[:, layout.patches] = True
    return content


@pytest.mark.parametrize("name", ["vit", "deit-distilled", "hf-vit", "eva02", "siglip", "bert", "albert", "gpt2", "llama", "deberta-v3"])
def test_a_token_reaches_no_other_within_a_block(name: str) -> None:
    """One patch or word of the first block's input is changed: of the others none moves, except those that may read it."""
    model = wrapped(name, torch.float32)
    tensors = inputs(name, 2, torch.float32)
    content = content_of(model, tensors)
    place = int(content[0].nonzero()[1])

    def change(module: nn.Module, args: Any, kwargs: Any) -> Any:
        x = model.block_kind.input_tokens(args, kwargs).clone()
        x[1] = x[0]
        x[1, place] += torch.linspace(-1, 1, x.shape[-1])  # a norm would take a shift away
        return model.block_kind.with_input_tokens(args, kwargs, x)

    def moved(isolated: bool) -> list[int]:
        seen = list[Tensor]()
        block = model.blocks[0]
        handles = [
            block.register_forward_pre_hook(change, with_kwargs=True),
            block.register_forward_hook(lambda module, args, output: seen.append(model.block_kind.output_tokens(output))),
        ]
        mode = IsolatedTokens(model, allowed_keys(content, None))
        same = {key: value[:1].expand_as(value).contiguous() for key, value in tensors.items()}
        try:
            with answering(model.module):
                if isolated:
                    with mode.over_blocks():
                        model.forward(same)
                    assert mode.blocks == set(range(len(model.blocks)))
                else:
                    model.forward(same)
        finally:
            for handle in handles:
                handle.remove()
        return [i for i in ((seen[0][0] - seen[0][1]).abs().amax(-1) > 1e-5).nonzero()[:, 0].tolist() if content[0, i]]

    assert moved(isolated=True) == [place]
    assert len(moved(isolated=False)) > 1


def test_what_the_head_reads_may_read_everything() -> None:
    content = torch.tensor([[False, True, True, True]])
    own = [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    assert allowed_keys(content, None).int().tolist() == [own]
    assert allowed_keys(content, torch.tensor([3])).int().tolist() == [[*own[:3], [1, 1, 1, 1]]]


class _OwnMask(nn.Module):
    """Attention of a ViT in which patches read themselves and the class token alone."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.inner = attention

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        batch, tokens, width = x.shape
        allowed = torch.eye(tokens, dtype=torch.bool)
        allowed[0] = allowed[:, 0] = True
        query, key, value = self.inner.qkv(x).reshape(batch, tokens, 3, self.inner.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        out: Tensor = self.inner.proj(attended.transpose(1, 2).reshape(batch, tokens, width))
        return out


def test_no_answer_changes_where_patches_read_themselves_alone(make_vit: MakeVit, pictures: list[Image.Image]) -> None:
    module: Any = make_vit()
    for block in module.blocks:
        block.attn = _OwnMask(block.attn)
    found = explainers.depth(explainers.wrap(module, name="vit"), pictures)
    assert found.reading.stay is not None
    assert found.reading.stay.value == 1
    assert "100 % of the answers stay" in found.reading.says


def test_torch_layers_are_masked(make_vit: MakeVit, pictures: list[Image.Image]) -> None:
    """``nn.MultiheadAttention`` with the weights of timm's attention keeps as many answers as that does."""

    class OfTorch(nn.Module):
        def __init__(self, attention: Any) -> None:
            super().__init__()
            width, heads = attention.proj.in_features, attention.num_heads
            self.inner = nn.MultiheadAttention(width, heads, batch_first=True)
            with torch.no_grad():
                self.inner.in_proj_weight.copy_(attention.qkv.weight)
                self.inner.in_proj_bias.copy_(attention.qkv.bias)
                self.inner.out_proj.load_state_dict(attention.proj.state_dict())

        def forward(self, x: Tensor, **_: Any) -> Tensor:
            out: Tensor = self.inner(x, x, x, need_weights=False)[0]
            return out

    usual, module = explainers.wrap(make_vit(), name="vit"), make_vit()
    for block in module.blocks:  # type: ignore[union-attr]
        block.attn = OfTorch(block.attn)  # type: ignore[union-attr]
    tensors = usual.prepare(pictures[:4]).tensors
    content = content_of(usual, tensors)
    answers = [
        isolated_answers(Asker([Batch(model, tensors, 4, content)]), lambda batch: None)[0] for model in (usual, explainers.wrap(module))
    ]
    assert torch.allclose(answers[0], answers[1], atol=1e-4)
    assert not torch.allclose(answers[0], usual.forward(tensors), atol=1e-2)


def test_attention_that_cannot_be_masked_is_said() -> None:
    model = wrapped("mixer", torch.float32)
    tensors = inputs("mixer", 2, torch.float32)
    with pytest.raises(NotMasked):
        isolated_answers(Asker([Batch(model, tensors, 2, content_of(model, tensors))]), lambda batch: None)

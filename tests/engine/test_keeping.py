"""Tokens taken away from an input: twins run the tiny models by hand, without the tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.keeping import Keeping, keeping_patches, keeping_prompt, keeping_words
from tests.engine.models import inputs, wrapped
from tests.families import FAMILIES
from tests.vocabularies import wordpiece

GRID = (4, 3)
SOME = torch.tensor([[True, False, False, True] * 3, [False] * 11 + [True], [True] * 12, [True, False, False, True] * 3])
REMOVED = ("vit", "deit3", "siglip", "dinov2-reg", "hf-vit", "hf-deit-distilled")
PAINTED = ("eva02", "beitv2", "dinov3", "mixer", "swin", "convnext", "hf-beit")


def patches(name: str, grid: tuple[int, int] = GRID) -> tuple[Any, dict[str, Tensor], Keeping]:
    model, tensors = wrapped(name), inputs(name, 1)
    return model, tensors, keeping_patches(model, tensors, grid)


def test_patches_are_dropped_behind_the_position_embedding() -> None:
    model, tensors, keeping = patches("vit")
    assert (keeping.how, keeping.tokens, keeping.least) == ("removed", 12, 0)
    vit = model.module
    with torch.no_grad():
        x = vit.patch_embed(tensors["pixel_values"])
        x = torch.cat([vit.cls_token, x], dim=1) + vit.pos_embed
        for keep, found in zip(SOME, keeping.logits(SOME), strict=True):
            own = x[:, [0, *(1 + i for i in range(12) if keep[i])]]
            for block in vit.blocks:
                own = own + block.attn(block.norm1(own))
                own = own + block.mlp(block.norm2(own))
            torch.testing.assert_close(found, vit.head(vit.norm(own)[:, 0])[0].float())


def test_patches_of_a_clip_model_are_dropped_and_compared_with_the_same_prompts() -> None:
    model, tensors, keeping = patches("hf-clip", (4, 4))
    assert keeping.how == "removed"
    keep = torch.arange(16)[None] % 3 == 0
    clip = model.module
    tower = clip.vision_model
    with torch.no_grad():
        x = tower.embeddings(tensors["pixel_values"])[:, [0, *(1 + i for i in range(16) if keep[0, i])]]
        x = tower.encoder(inputs_embeds=tower.pre_layrnorm(x)).last_hidden_state[:, 0]
        image = clip.visual_projection(tower.post_layernorm(x))
        full = clip(**tensors)
        image = image / image.norm(dim=-1, keepdim=True)
        expected = clip.logit_scale.exp() * image @ full.text_embeds.T
    torch.testing.assert_close(keeping.logits(keep), expected.float())


@pytest.mark.parametrize("name", REMOVED)
def test_all_kept_is_the_models_own_answer(name: str) -> None:
    model, tensors, keeping = patches(name)
    assert keeping.how == "removed"
    torch.testing.assert_close(keeping.logits(SOME)[2], model.forward(tensors)[0].detach().float())


@pytest.mark.parametrize("name", PAINTED)
def test_a_model_that_counts_on_its_patches_gets_them_painted(name: str) -> None:
    grid = wrapped(name).layout_of(inputs(name, 1)).grid
    assert grid is not None
    model, tensors, keeping = patches(name, grid)
    assert (keeping.how, keeping.least) == ("painted", 0)
    keep = torch.arange(grid[0] * grid[1]) % 3 == 0
    pixels = tensors["pixel_values"].clone()
    height, width = pixels.shape[2] // grid[0], pixels.shape[3] // grid[1]
    for i in range(grid[0] * grid[1]):
        row, column = divmod(i, grid[1])
        if not keep[i]:
            pixels[:, :, row * height : (row + 1) * height, column * width : (column + 1) * width] = 0
    with torch.no_grad():
        expected = model.forward({**tensors, "pixel_values": pixels})
    torch.testing.assert_close(keeping.logits(keep[None]), expected.float())


@pytest.mark.parametrize("name", ["siglip-gap", "registers-gap"])
def test_a_model_that_pools_patches_needs_one(name: str) -> None:
    _, _, keeping = patches(name)
    assert (keeping.how, keeping.least) == ("removed", 1)
    assert bool(keeping.logits(SOME).isfinite().all())
    with pytest.raises(ExplainerError, match="at least one token"):
        keeping.logits(torch.zeros(1, 12, dtype=torch.bool))


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "modernbert", "gpt2"])
def test_word_pieces_are_left_out_of_the_text(name: str) -> None:
    model = wrapped(name)
    ids = inputs(name, 1)["input_ids"][:, :6]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    content = torch.tensor([False, True, True, True, True, False])
    keeping = keeping_words(model, tensors, content)
    assert (keeping.how, keeping.tokens, keeping.least) == ("removed", 4, 0)
    keep = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])
    stay = ([0, 1, 3, 4, 5], [0, 5], list(range(6)))
    for found, places in zip(keeping.logits(keep), stay, strict=True):
        shorter = ids[:, places]
        with torch.no_grad():
            expected = model.forward({"input_ids": shorter, "attention_mask": torch.ones_like(shorter)})
        torch.testing.assert_close(found, expected[0].float())


@pytest.mark.parametrize("name", ["hf-clip", "hf-siglip"])
def test_word_pieces_are_left_out_of_one_prompt(name: str) -> None:
    """SigLIP's text tower reads the last position of texts padded to one length, CLIP's the end of the text."""
    model = explainers.wrap(FAMILIES[name].build().double(), tokenizer=wordpiece(16))
    assert model.prompt_inputs is not None
    prompts = ["a bad film", "not a good movie .", "a film"]
    tensors = {"pixel_values": inputs(name, 1)["pixel_values"], **model.prompt_inputs(prompts).tensors}
    content = torch.zeros(tensors["input_ids"].shape[1], dtype=torch.bool)
    content[1:4] = True
    side = model.seen_from("text")
    keeping = keeping_prompt(side, tensors, content, 0)
    assert (keeping.how, keeping.tokens, keeping.least) == ("removed", 3, 0)
    written = {(True, True, True): "a bad film", (True, False, True): "a film", (False, False, True): "film"}
    for keep, prompt in written.items():
        with torch.no_grad():
            expected = model.forward({**tensors, **model.prompt_inputs([prompt, *prompts[1:]]).tensors})[0]
        torch.testing.assert_close(keeping.logits(torch.tensor([keep]))[0], expected.float())
    assert not torch.equal(*keeping.logits(torch.tensor([[True, True, True], [False, False, False]])))


def test_a_text_of_words_alone_keeps_one() -> None:
    ids = inputs("bert", 1)["input_ids"][:, :4]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert keeping_words(wrapped("bert"), tensors, torch.ones(4, dtype=torch.bool)).least == 1


def test_equal_rows_are_asked_once_and_rows_of_one_size_together() -> None:
    _, _, keeping = patches("vit")
    calls: list[None] = []
    found = keeping.logits(SOME, lambda: calls.append(None))
    assert len(calls) == 3  # six patches (twice the same), one, twelve
    torch.testing.assert_close(found[0], found[3], rtol=0, atol=0)
    keeping.logits(torch.eye(12, dtype=torch.bool), lambda: calls.append(None))
    assert len(calls) == 4


def test_the_model_is_as_it_was() -> None:
    model, tensors, keeping = patches("vit")
    before = model.forward(tensors)
    keeping.logits(SOME)
    assert not model.entry._forward_pre_hooks
    torch.testing.assert_close(model.forward(tensors), before, rtol=0, atol=0)

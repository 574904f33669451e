"""Tokens taken away from an input: twins run the tiny models by hand, without the tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import explainers
from explainers import ExplainerError
from explainers.models.removal.patches import patch_removal
from explainers.models.removal.token_removal import TokenRemoval
from explainers.models.removal.words import prompt_removal, word_removal
from tests.explainers.support.explained import text_model
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

GRID = (4, 3)
SOME = torch.tensor([[True, False, False, True] * 3, [False] * 11 + [True], [True] * 12, [True, False, False, True] * 3])
REMOVED = ("vit", "deit3", "siglip", "dinov2-reg", "hf-vit", "hf-deit-distilled", "eva02", "dinov3")
PAINTED = ("beitv2", "mixer", "swin", "convnext", "hf-beit")


def patches(name: str, grid: tuple[int, int] = GRID) -> tuple[Any, dict[str, Tensor], TokenRemoval]:
    model, tensors = wrapped(name), inputs(name, 1)
    return model, tensors, patch_removal(model, tensors, grid)


def test_patches_are_dropped_behind_the_position_embedding() -> None:
    model, tensors, removal = patches("vit")
    assert (removal.how, removal.tokens, removal.least) == ("removed", 12, 0)
    vit = model.module
    with torch.no_grad():
        x = vit.patch_embed(tensors["pixel_values"])
        x = torch.cat([vit.cls_token, x], dim=1) + vit.pos_embed
        for keep, found in zip(SOME, removal.logits(SOME), strict=True):
            own = x[:, [0, *(1 + i for i in range(12) if keep[i])]]
            for block in vit.blocks:
                own = own + block.attn(block.norm1(own))
                own = own + block.mlp(block.norm2(own))
            torch.testing.assert_close(found, vit.head(vit.norm(own)[:, 0])[0].float())


def test_patches_of_an_eva_take_their_rotary_positions_with_them() -> None:
    model, tensors, removal = patches("eva02")
    eva = model.module
    with torch.no_grad():
        x, rotary = eva._pos_embed(eva.patch_embed(tensors["pixel_values"]))
        for keep, found in zip(SOME, removal.logits(SOME), strict=True):
            own = x[:, [0, *(1 + i for i in range(12) if keep[i])]]
            for block in eva.blocks:
                own = block(own, rope=rotary[keep])
            torch.testing.assert_close(found, eva.forward_head(eva.norm(own))[0].float())


@pytest.mark.parametrize("name", ["mixer", "beitv2", "vit", "convnext"])
def test_embedded_patches_are_set_to_zero(name: str) -> None:
    model, tensors, plain = patches(name, wrapped(name).layout_of(inputs(name, 1)).grid or GRID)
    removal = patch_removal(model, tensors, wrapped(name).layout_of(inputs(name, 1)).grid or GRID, "zeroed")
    assert (removal.how, removal.least, removal.tokens) == ("zeroed", 0, plain.tokens)
    keep = torch.arange(plain.tokens) % 3 == 0
    prefix = model.layout_of(tensors).prefix

    def zero(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0].clone()
        if name == "convnext":  # (B, D, H, W)
            x.flatten(2)[:, :, ~keep] = 0
        else:
            x[:, prefix:][:, ~keep] = 0
        return (x, *args[1:])

    handle = model.entry.register_forward_pre_hook(zero)
    with torch.no_grad():
        expected = model.forward(tensors)
    handle.remove()
    torch.testing.assert_close(removal.logits(keep[None]), expected.float())
    assert not torch.allclose(removal.logits(keep[None]), removal.logits(torch.ones_like(keep)[None]))


def test_a_way_that_does_not_go_says_so() -> None:
    model, tensors, _ = patches("vit")
    assert patch_removal(model, tensors, GRID, "painted").how == "painted"
    assert patch_removal(model, tensors, GRID, "removed").how == "removed"
    with pytest.raises(ExplainerError, match="how='masked' is for texts"):
        patch_removal(model, tensors, GRID, "masked")
    with pytest.raises(ExplainerError, match="counts on all of its patches"):
        patch_removal(wrapped("beitv2"), inputs("beitv2", 1), GRID, "removed")
    ids = inputs("bert", 1)["input_ids"][:, :4]
    text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    content = torch.ones(4, dtype=torch.bool)
    with pytest.raises(ExplainerError, match="is for images"):
        word_removal(wrapped("bert"), text, content, "zeroed")
    with pytest.raises(ExplainerError, match="no token for how=masked"):
        word_removal(wrapped("bert"), text, content, "masked")
    unknown: Any = "zzz"
    with pytest.raises(ExplainerError, match="how='zzz' is not a way to remove patches: patches are removed, zeroed, painted or black"):
        patch_removal(model, tensors, GRID, unknown)
    with pytest.raises(ExplainerError, match="how='zzz' is not a way to remove word pieces: word pieces are removed, masked or unknown"):
        word_removal(wrapped("bert"), text, content, unknown)


@pytest.mark.parametrize("how", ["masked", "unknown"])
def test_word_pieces_are_replaced_where_they_stand(how: Any) -> None:
    model = text_model()
    tensors = model.tensors("not a good movie .")
    length = tensors["input_ids"].shape[1]
    content = torch.tensor([False, *[True] * (length - 2), False])
    removal = word_removal(model, tensors, content, how)
    assert (removal.how, removal.least) == (how, 0)
    tokenizer = wordpiece()
    token = tokenizer.mask_token_id if how == "masked" else tokenizer.unk_token_id
    for keep in (torch.tensor([i != 1 for i in range(length - 2)]), torch.zeros(length - 2, dtype=torch.bool)):
        ids = tensors["input_ids"].clone()
        for i, stays in enumerate(keep.tolist()):
            if not stays:
                ids[0, 1 + i] = token
        with torch.no_grad():
            expected = model.forward({**tensors, "input_ids": ids})
        torch.testing.assert_close(removal.logits(keep[None]), expected)


def test_patches_of_a_clip_model_are_dropped_and_compared_with_the_same_prompts() -> None:
    model, tensors, removal = patches("hf-clip", (4, 4))
    assert removal.how == "removed"
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
    torch.testing.assert_close(removal.logits(keep), expected.float())


@pytest.mark.parametrize("name", REMOVED)
def test_all_kept_is_the_models_own_answer(name: str) -> None:
    model, tensors, removal = patches(name)
    assert removal.how == "removed"
    torch.testing.assert_close(removal.logits(SOME)[2], model.forward(tensors)[0].detach().float())


@pytest.mark.parametrize("name", PAINTED)
def test_a_model_that_counts_on_its_patches_gets_them_painted(name: str) -> None:
    grid = wrapped(name).layout_of(inputs(name, 1)).grid
    assert grid is not None
    model, tensors, removal = patches(name, grid)
    assert (removal.how, removal.least) == ("painted", 0)
    keep = torch.arange(grid[0] * grid[1]) % 3 == 0
    pixels = tensors["pixel_values"].clone()
    height, width = pixels.shape[2] // grid[0], pixels.shape[3] // grid[1]
    for i in range(grid[0] * grid[1]):
        row, column = divmod(i, grid[1])
        if not keep[i]:
            pixels[:, :, row * height : (row + 1) * height, column * width : (column + 1) * width] = 0
    with torch.no_grad():
        expected = model.forward({**tensors, "pixel_values": pixels})
    torch.testing.assert_close(removal.logits(keep[None]), expected.float())


@pytest.mark.parametrize("name", ["siglip-gap", "registers-gap"])
def test_a_model_that_pools_patches_needs_one(name: str) -> None:
    _, _, removal = patches(name)
    assert (removal.how, removal.least) == ("removed", 1)
    assert bool(removal.logits(SOME).isfinite().all())
    with pytest.raises(ExplainerError, match="at least one token"):
        removal.logits(torch.zeros(1, 12, dtype=torch.bool))


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "modernbert", "gpt2"])
def test_word_pieces_are_left_out_of_the_text(name: str) -> None:
    model = wrapped(name)
    ids = inputs(name, 1)["input_ids"][:, :6]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    content = torch.tensor([False, True, True, True, True, False])
    removal = word_removal(model, tensors, content)
    assert (removal.how, removal.tokens, removal.least) == ("removed", 4, 0)
    keep = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])
    stay = ([0, 1, 3, 4, 5], [0, 5], list(range(6)))
    for found, places in zip(removal.logits(keep), stay, strict=True):
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
    removal = prompt_removal(side, tensors, content, 0)
    assert (removal.how, removal.tokens, removal.least) == ("removed", 3, 0)
    written = {(True, True, True): "a bad film", (True, False, True): "a film", (False, False, True): "film"}
    for keep, prompt in written.items():
        with torch.no_grad():
            expected = model.forward({**tensors, **model.prompt_inputs([prompt, *prompts[1:]]).tensors})[0]
        torch.testing.assert_close(removal.logits(torch.tensor([keep]))[0], expected.float())
    assert not torch.equal(*removal.logits(torch.tensor([[True, True, True], [False, False, False]])))


def test_a_text_of_words_alone_keeps_one() -> None:
    ids = inputs("bert", 1)["input_ids"][:, :4]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert word_removal(wrapped("bert"), tensors, torch.ones(4, dtype=torch.bool)).least == 1


def test_equal_rows_are_asked_once_and_rows_of_one_size_together() -> None:
    _, _, removal = patches("vit")
    calls: list[None] = []
    found = removal.logits(SOME, lambda *_: calls.append(None))
    assert len(calls) == 3  # six patches (twice the same), one, twelve
    torch.testing.assert_close(found[0], found[3], rtol=0, atol=0)
    removal.logits(torch.eye(12, dtype=torch.bool), lambda *_: calls.append(None))
    assert len(calls) == 4


class Convolutions(TorchDispatchMode):
    """Counts the images that are convolved."""

    def __init__(self) -> None:
        super().__init__()
        self.images = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.images += len(args[0])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["vit", "eva02", "hf-clip"])
def test_the_patches_are_embedded_once(name: str) -> None:
    _, _, removal = patches(name, GRID if name != "hf-clip" else (4, 4))
    with Convolutions() as counted:
        removal.logits(torch.eye(removal.tokens, dtype=torch.bool))
    assert counted.images == 0  # they were when it was found out how tokens can be taken away


@pytest.mark.parametrize("most", [1, 40, None])
def test_answers_are_the_same_in_passes_of_any_length(most: int | None) -> None:
    _, _, removal = patches("vit")
    keep = torch.rand(30, 12, generator=torch.Generator().manual_seed(0)) > 0.4
    told: list[tuple[int, int]] = []
    found = replace(removal, _most_tokens=most).logits(keep, lambda *progress: told.append(progress))
    one_by_one = torch.cat([removal.logits(row[None]) for row in keep])
    torch.testing.assert_close(found, one_by_one, rtol=1e-5, atol=1e-5)
    distinct = len(keep.unique(dim=0))
    assert {total for _, total in told} == {distinct}
    done = [count for count, _ in told]
    assert done[0] == 0
    assert sorted(set(done)) == done  # each pass answers some
    if most == 1:
        assert len(told) == distinct


def test_the_model_is_as_it_was() -> None:
    model, tensors, removal = patches("vit")
    before = model.forward(tensors)
    removal.logits(SOME)
    assert not model.entry._forward_pre_hooks
    torch.testing.assert_close(model.forward(tensors), before, rtol=0, atol=0)

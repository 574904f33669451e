"""Models that compare images with prompts, seen from the prompt: which of its words made the similarity."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers import Contrast, ExplainerError, Probability, explain
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.models.model import Model
from explainers.rendering.overlays import render_overlay
from tests.explainers.support.wrapped import chosen, inputs, read, specs_for, trace_of
from tests.families import FAMILIES, SEPARATOR
from tests.support.vocabularies import wordpiece

DUAL = [name for name, family in FAMILIES.items() if family.kind == "clip"]
PROMPTS = ["a bad film", "not a good movie ."]


@cache
def model_of(name: str = "hf-clip") -> Model:
    return explainers.wrap(FAMILIES[name].build().double(), tokenizer=wordpiece(16))


def text_side(name: str = "hf-clip") -> Model:
    return model_of(name).seen_from("text")


def picture(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (40, 40, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", DUAL)
def test_the_blocks_are_those_of_the_text_tower(name: str) -> None:
    side = text_side(name)
    names = {id(part): name for name, part in side.module.named_modules()}
    assert [names[id(block)] for block in side.blocks] == ["text_model.encoder.layers.0", "text_model.encoder.layers.1"]
    assert side.entry is side.blocks[0]
    assert (side.kind, side.side, side.text_side, side.details["heads"]) == ("clip", "text", None, 2)
    assert side.layout_of({}).class_token == -1
    assert text_side(name) is side


@pytest.mark.parametrize("name", DUAL)
def test_prompts_are_the_samples_and_images_their_classes(name: str) -> None:
    """Value, gradient and Libra's account of the similarity of each prompt to each image."""
    tensors = inputs(name, 3)
    tensors["pixel_values"] = tensors["pixel_values"][:2]
    side = text_side(name)
    recording = Recording(side, tensors)
    with torch.no_grad():
        torch.testing.assert_close(recording.logits.detach(), model_of(name).forward(tensors).T, rtol=1e-10, atol=1e-10)
    for image in range(2):
        total = read(recording, "fullgrad", "libra", image).sum(1) + trace_of(recording, "libra", image).signals.unplaced
        assert float((total - recording.logits[:, image].detach()).abs().max()) < 1e-10
    seed = chosen(recording, 1).output_gradient(recording.logits, RULES["gradient"])
    seen: list[torch.Tensor] = []

    def enter(module: Any, args: Any, kwargs: Any) -> Any:
        seen.append(args[0].detach().requires_grad_())
        return (seen[0], *args[1:]), kwargs

    handle = side.entry.register_forward_pre_hook(enter, with_kwargs=True)
    with torch.enable_grad():
        logits = side.forward(tensors)
    handle.remove()
    (expected,) = torch.autograd.grad(logits, seen[0], seed)
    found = recording.cached_backward(RULES["gradient"], seed).block_inputs[0]
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_the_end_of_each_prompt_is_what_is_read() -> None:
    tensors = inputs("hf-clip", 3)
    recording = Recording(text_side(), tensors)
    assert recording.class_tokens is not None
    assert recording.class_tokens.tolist() == [row.tolist().index(SEPARATOR) for row in tensors["input_ids"]]


@pytest.mark.parametrize("name", DUAL)
def test_scores_are_those_of_the_words_of_each_prompt(name: str) -> None:
    specs = ["fullgrad_plus:libra", "generic_attention", "rollout"]
    result = explain(model_of(name), picture(), PROMPTS, specs, side="text")
    assert [one.target for one in result.maps] == [prompt for _ in specs for prompt in PROMPTS]
    image_side = explain(model_of(name), picture(), PROMPTS, "input_x_gradient")
    torch.testing.assert_close(result.logits, image_side.logits)
    assert result.targets == image_side.targets
    assert result.input == image_side.input
    for prompt in PROMPTS:
        one = result["fullgrad_plus:libra", prompt]
        assert one.patches is None
        assert len(one.tokens) == len(one.scores)
        assert [word.text for word in one.words()] == prompt.split()
        assert one.text == result.prompts[prompt]


@pytest.mark.slow
def test_every_method_gives_each_prompt_what_it_gets_alone_and_each_image_its_own() -> None:
    specs = specs_for(text_side())
    assert {"transformer_attribution:lrp", "fullgrad:libra", "lrp:deep_taylor", "token_tm:libra"} <= set(specs)
    together = explain(model_of(), [picture(), picture(1)], PROMPTS, specs, side="text")
    for seed, result in enumerate(together):
        for place, prompt in enumerate(PROMPTS):
            alone = explain(model_of(), picture(seed), prompt, specs, side="text", seed=place)
            for spec in specs:
                a, b = result[spec, prompt], alone[spec]
                assert len(a.scores) == len(b.scores), spec
                assert float((a.scores - b.scores).abs().max()) <= 1e-5 * float(b.scores.abs().max()) + 1e-12, spec
    assert not torch.equal(together[0]["input_x_gradient:libra"].scores, together[1]["input_x_gradient:libra"].scores)


def test_completeness_of_a_prompt() -> None:
    result = explain(model_of(), [picture(), picture(1)], PROMPTS[::-1], "fullgrad:libra", side="text")[1]
    assert result.completeness("libra") < 1e-10
    assert result.completeness("gradient") > 1e-3
    error = result["fullgrad:libra", PROMPTS[0]].completeness_error
    assert error is not None
    assert error < 1e-10


def test_json_and_picture_of_a_prompts_words() -> None:
    result = explain(model_of(), picture(), PROMPTS, "input_x_gradient:libra", side="text")
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["input"]["kind"] == "image"
    assert [one["prompt"] for one in data["prompts"]] == PROMPTS
    for one, shown in zip(data["prompts"], data["maps"], strict=True):
        assert len(one["tokens"]) == len(shown["scores"])
        assert "grid" not in shown
        assert [one["text"][w["start"] : w["end"]] for w in one["words"]] == one["prompt"].split()
    assert "prompts" not in explain(model_of(), picture(), PROMPTS, "random").to_json()
    assert render_overlay(result, result.maps[0], size=200).width == 200


@pytest.mark.parametrize("target", [Contrast(*PROMPTS), Probability(PROMPTS[0]), None])
def test_what_is_no_single_prompt_is_refused(target: Any) -> None:
    with pytest.raises(ExplainerError, match="one prompt"):
        explain(model_of(), picture(), target, "random", side="text")


def test_what_has_no_such_side_is_refused() -> None:
    bert = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    with pytest.raises(ExplainerError, match="no text side"):
        explain(bert, "a film", methods="random", side="text")
    with pytest.raises(ExplainerError, match="no image side"):
        explain(text_side(), picture(), PROMPTS, "random", side="image")
    with pytest.raises(ExplainerError, match="compare images with texts"):
        explainers.wrap(FAMILIES["bert"].build(), side="text")
    with pytest.raises(ExplainerError, match="no pixels"):
        explain(model_of(), picture(), PROMPTS, "saliency?at=pixels", side="text")

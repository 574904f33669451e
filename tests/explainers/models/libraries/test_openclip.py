"""Models of open_clip, with the package itself: tiny ones with random weights, and its own tokenizer and preprocessing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods.requirements import variants
from explainers.models.libraries import hub, openclip
from tests.explainers.support.wrapped import read, trace_of
from tests.support.vocabularies import wordpiece

open_clip = pytest.importorskip("open_clip", reason="the extra openclip is not installed: pip install -e '.[openclip]'")

TOWERS = {
    "plain": {"vision_cfg": {"layers": 2, "width": 24, "head_width": 12}},
    "attention pooling": {"vision_cfg": {"layers": 2, "width": 24, "head_width": 12, "attentional_pool": True, "attn_pooler_queries": 4}},
    "quick gelu": {"vision_cfg": {"layers": 2, "width": 24, "head_width": 12, "pool_type": "avg"}, "quick_gelu": True},
}


def build(towers: str = "plain", vocabulary: int = 64, **more: Any) -> nn.Module:
    config = {**TOWERS[towers], **more}
    vision = {"image_size": (32, 24), "patch_size": 8, **config.pop("vision_cfg")}
    text = {"context_length": 16, "vocab_size": vocabulary, "width": 24, "heads": 2, "layers": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = open_clip.CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text, **config)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 60, (3, 16), generator=generator)
    ids[:, 9] = 63  # the end of the text, the largest id
    return {"pixel_values": torch.randn(2, 3, 32, 24, generator=generator).double(), "input_ids": ids}


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (57, 43, 3), dtype=np.uint8))


@pytest.mark.parametrize("towers", TOWERS)
def test_logits_are_the_models_own_and_libra_accounts_for_them(towers: str) -> None:
    module = build(towers, init_logit_bias=-3.0).double()
    model = explainers.wrap(module)
    images, texts, scale, bias = module(tensors()["pixel_values"], tensors()["input_ids"])
    recording = Recording(model, tensors())
    torch.testing.assert_close(recording.logits, scale * images @ texts.T + bias, rtol=1e-12, atol=1e-12)
    assert model.kind == "clip"
    assert list(model.blocks) == list(module.visual.transformer.resblocks)
    assert recording.layout.grid == (4, 3)
    assert recording.layout.prefix == 1
    assert (recording.layout.class_token == 0) == (towers == "plain")
    assert model.details["heads"] == 2
    signals = trace_of(recording, "libra").signals
    total = read(recording, "fullgrad", "libra").sum(1) + signals.unplaced
    torch.testing.assert_close(total, recording.logits[:, 1].detach(), rtol=0, atol=1e-10 * float(recording.logits.detach().abs().max()))
    for rule in RULES:
        assert not trace_of(recording, rule).signals.unruled


def test_the_gradient_is_autograds() -> None:
    module, given = build().double(), tensors()
    recording = Recording(explainers.wrap(module), given, pixels=True)
    pixels = given["pixel_values"].clone().requires_grad_()
    images, texts, scale = module(pixels, given["input_ids"])
    (expected,) = torch.autograd.grad((scale * images @ texts.T)[:, 1].sum(), pixels)
    found = trace_of(recording, "gradient").signals.pixels
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def worded() -> nn.Module:
    """With the vocabulary of open_clip's own tokenizer."""
    return build(vocabulary=49408)


@pytest.mark.slow
def test_prompts_go_through_its_own_tokenizer_and_are_explained(worded: nn.Module) -> None:
    model = explainers.wrap(worded)
    assert model.prompt_inputs is not None
    prompts = ["a photo of a Zebra, isn't it?", "naïve café"]
    ids = model.prompt_inputs(prompts).tensors["input_ids"]
    own = open_clip.SimpleTokenizer(context_length=16)(prompts)
    for ours, theirs in zip(ids.tolist(), own.tolist(), strict=True):
        end = theirs.index(49407) + 1
        assert ours[:end] == theirs[:end]
    methods = [v.spec for v in variants(model) if v.reason is None and v.rule in (None, "libra", "deep_taylor") and "steps" not in v.passes]
    result = explainers.explain(model, picture(), target=prompts, methods=[m for m in methods if m not in ("kernel_shap", "lime", "rise")])
    images = worded.encode_image(model.tensors(picture())["pixel_values"], normalize=True)
    expected = (worded.logit_scale.exp() * images @ worded.encode_text(own, normalize=True).T)[0]
    torch.testing.assert_close(result.logits, expected.detach(), rtol=1e-4, atol=1e-4)
    assert result["transformer_attribution"].patches == (4, 3)
    assert {m.target for m in result.maps} == set(prompts)


def test_the_words_of_a_prompt_can_be_explained(worded: nn.Module) -> None:
    model = explainers.wrap(worded).seen_from("text")
    assert list(model.blocks) == list(worded.transformer.resblocks)
    result = explainers.explain(model, picture(), target="two small dogs", methods=["input_x_gradient:libra", "raw_attention"])
    one = result["input_x_gradient:libra"]
    assert [word.text for word in one.words()] == ["two", "small", "dogs"]


@pytest.mark.parametrize("clean", ["canonicalize", "lower", "whitespace"])
def test_a_tokenizer_of_transformers_cleans_texts_as_open_clip_does(clean: str, tmp_path: Path) -> None:
    wordpiece(16).save_pretrained(tmp_path)
    given = open_clip.tokenizer.HFTokenizer(str(tmp_path), context_length=16, clean=clean)
    module = build()
    model = explainers.wrap(module, tokenizer=given)
    assert model.prompt_inputs is not None
    texts = ["A  good, bad-film!", "not_a movie."]
    prepared = model.prompt_inputs(texts)
    assert torch.equal(prepared.tensors["input_ids"], given(texts))
    assert [word.text for word in prepared.inputs[0].words][:2] == ["A", "good"]


def test_another_vocabulary_needs_a_tokenizer() -> None:
    model = explainers.wrap(build())
    with pytest.raises(ExplainerError, match="tokenizer="):
        explainers.explain(model, picture(), target="a zebra")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("size", [(57, 43), (20, 90), (32, 32)])
def test_images_are_prepared_as_open_clip_does(mode: str, size: tuple[int, int]) -> None:
    from open_clip.transform import PreprocessCfg, image_transform_v2

    module = build(vision_cfg={"layers": 2, "width": 24, "head_width": 12, "image_size": 32})
    config = {"size": (32, 32), "mode": "RGB", "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4), "interpolation": "bicubic"}
    module.visual.preprocess_cfg = {**config, "resize_mode": mode, "fill_color": 0}
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    model = explainers.wrap(module)
    prepared = model.prepare(image)
    theirs = image_transform_v2(PreprocessCfg(**module.visual.preprocess_cfg), is_train=False)(image)
    torch.testing.assert_close(prepared.tensors["pixel_values"][0], theirs, rtol=0, atol=1e-5)
    assert prepared.notes == ((),)
    assert "OpenAI" in explainers.wrap(build()).prepare(image).notes[0][0]


def test_names_that_open_clip_does_not_know() -> None:
    with pytest.raises(ExplainerError, match=r"no pretrained model 'ViT-B-32/opneai'.*openclip/ViT-B-32/openai"):
        explainers.load("openclip/ViT-B-32/opneai")
    assert openclip.repository("openclip/ViT-B-32/openai") == "timm/vit_base_patch32_clip_224.openai"


def test_no_network_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "is_offline_mode", lambda: True)
    with pytest.raises(ExplainerError, match="not on this machine, and offline mode is on"):
        explainers.load("openclip/ViT-B-32/laion2b_s34b_b79k")


def test_loads_by_name(monkeypatch: pytest.MonkeyPatch, worded: nn.Module) -> None:
    """The weights are stood in for; the way to them, and what is made of them, is not."""
    asked: list[Any] = []
    monkeypatch.setattr(hub, "fetch_one", lambda place, names, progress=None: asked.append((place, names)))
    monkeypatch.setattr(open_clip, "create_model", lambda name, pretrained, require_pretrained: asked.append((name, pretrained)) or worded)
    model = explainers.load("openclip/ViT-B-32/openai", "cpu")
    assert asked == [("timm/vit_base_patch32_clip_224.openai", openclip.WEIGHTS), ("ViT-B-32", "openai")]
    assert model.name == "openclip/ViT-B-32/openai"
    assert model.prompt_inputs is not None
    assert model.prompt_inputs(["a dog"]).tensors["input_ids"][0].tolist()[:4] == [49406, 320, 1929, 49407]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(ExplainerError, match=r"-e '\.\[openclip\]'"):
        explainers.load("openclip/ViT-B-32/openai")

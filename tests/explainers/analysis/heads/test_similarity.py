"""A cosine by head, and the model without one, against a tiny CLIP of which a hook silences the head."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers import Contrast, ExplainerError, HeadWords, Session, decompose_similarity, similarity_without_head
from explainers.autograd.recording import Recording
from explainers.methods.embedding_parts import EmbeddingParts
from explainers.models.companion_files.head_words import HeadText, WordsOfHead
from explainers.models.encoders import encoder
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.server.support.tiny_models import make_tiny
from tests.support.vocabularies import wordpiece

PROMPTS = ["a good film", "a bad movie"]
BLOCK, HEAD = 0, 1


@cache
def model() -> explainers.Model:
    return make_tiny("clip", "cpu")


def asked(target: Any = PROMPTS[0], **how: Any) -> Session:
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return Session(model(), {"pixel_values": pixels}, target, prompts=PROMPTS, **how)


def test_the_parts_add_up_to_the_cosine_and_to_a_difference_of_two() -> None:
    first, second, contrast = (decompose_similarity(asked(target)) for target in (*PROMPTS, Contrast(*PROMPTS)))
    cosines = asked().double.logits[0].detach() / model().module.logit_scale.detach().double().exp()
    for part, cosine in ((first, cosines[0]), (second, cosines[1]), (contrast, cosines[0] - cosines[1])):
        assert abs(part.cosine - float(cosine)) < 1e-12
        assert abs(float(part.heads.sum() + part.mlps.sum()) - float(cosine)) < 1e-12
    torch.testing.assert_close(contrast.heads, first.heads - second.heads, rtol=0, atol=1e-12)
    told = first.to_json()
    assert told["blocks"][BLOCK]["heads"][HEAD]["total"] == float(first.totals[BLOCK, HEAD])
    shown = torch.tensor(told["blocks"][BLOCK]["heads"][HEAD]["scores"]).sum() + told["blocks"][BLOCK]["heads"][HEAD]["outside"]
    assert float(shown) == pytest.approx(float(first.totals[BLOCK, HEAD]), abs=1e-4)
    assert f"is {first.cosine:.4f}" in str(first)


def test_without_a_head_is_what_a_hook_makes_of_the_model() -> None:
    found = similarity_without_head(asked(), BLOCK, HEAD)
    projection = model().module.vision_model.encoder.layers[BLOCK].self_attn.out_proj  # type: ignore[union-attr, index]
    width = projection.in_features // 2

    def silence(module: Any, args: tuple[Tensor]) -> tuple[Tensor]:
        heads = args[0].clone()
        heads[..., HEAD * width : (HEAD + 1) * width] = 0
        return (heads,)

    handle = projection.register_forward_pre_hook(silence)
    silenced = asked().answers[0] / model().details["logit_scale"]
    handle.remove()
    assert [name for name, _, _ in found.prompts] == PROMPTS
    torch.testing.assert_close(torch.tensor([without for _, _, without in found.prompts]), silenced.float(), rtol=0, atol=1e-6)
    assert found.without == pytest.approx(float(silenced[0]), abs=1e-6)
    assert abs(found.without - found.cosine) > 1e-4
    assert found.cosine - found.direct == pytest.approx(float(decompose_similarity(asked()).totals[BLOCK, HEAD]), abs=1e-6)
    after = asked().answers[0] / model().details["logit_scale"]
    assert float(after[0]) == pytest.approx(found.cosine, abs=1e-6)  # nothing is left of it


def test_what_is_no_such_sum_is_refused() -> None:
    siglip = explainers.wrap(FAMILIES["hf-siglip"].build(), tokenizer=wordpiece(), device="cpu")
    session = Session(siglip, {"pixel_values": inputs("hf-siglip", 1)["pixel_values"].float()}, PROMPTS[0])
    with pytest.raises(ExplainerError, match="pools its patches by attention"):
        decompose_similarity(session)
    with pytest.raises(ExplainerError, match="no sum of cosines"):
        decompose_similarity(asked(explainers.Probability(PROMPTS[0])))
    with pytest.raises(ExplainerError, match="does not compare an image with prompts"):
        decompose_similarity(Session(wrapped("vit"), inputs("vit", 1), 0))
    with pytest.raises(ExplainerError, match="There is no head 2: there are 2"):
        similarity_without_head(asked(), BLOCK, 2)


def test_words_are_those_of_these_weights(tmp_path: Path) -> None:
    heads = tuple(tuple(WordsOfHead((HeadText("a dog", 0.5),), 0.1) for _ in range(2)) for _ in range(2))
    own = make_tiny("clip", "cpu")
    own.head_words = HeadWords(own.weights_digest, "9 pictures", 1, heads)
    session = Session(own, {"pixel_values": torch.zeros(1, 3, 32, 32)}, PROMPTS[0])
    told = decompose_similarity(session).to_json()
    assert told["blocks"][1]["heads"][1]["words"] == [{"text": "a dog", "share": 0.5}]
    assert (told["pictures"], told["notes"]) == ("9 pictures", [])
    own.head_words = HeadWords("other", "9 pictures", 1, heads)
    decomposition = decompose_similarity(session)
    assert decomposition.words is None
    assert "belong to other weights" in decomposition.notes[0]
    decomposition.save(tmp_path / "parts.json")
    assert json.loads((tmp_path / "parts.json").read_text())["blocks"][0]["heads"][0]["words"] is None


def _of_two_layers() -> explainers.Model:
    """A CLIP whose projection is two linear maps with a curve between."""
    made = make_tiny("clip", "cpu")
    module: Any = made.module
    torch.manual_seed(0)
    width, embedded = module.visual_projection.in_features, module.visual_projection.out_features
    module.visual_projection = torch.nn.Sequential(torch.nn.Linear(width, embedded), torch.nn.GELU(), torch.nn.Linear(embedded, embedded))
    return explainers.wrap(module, tokenizer=wordpiece(), device="cpu")


def _dual_encoder(embedded: int) -> explainers.Model:
    """A ViT and a BERT as transformers joins them: the ViT's pooler ends in tanh."""
    import transformers as hf

    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    vision = hf.ViTConfig(image_size=32, patch_size=8, **sizes)
    words = hf.BertConfig(vocab_size=len(wordpiece()), max_position_embeddings=24, **sizes)
    config = hf.VisionTextDualEncoderConfig.from_vision_text_configs(vision, words, projection_dim=embedded)
    torch.manual_seed(0)
    module = hf.VisionTextDualEncoderModel(config).eval()
    with torch.no_grad():
        for parameter in module.vision_model.pooler.parameters():
            parameter.mul_(20)
    return explainers.wrap(module, kind="clip", tokenizer=wordpiece(), device="cpu")


@pytest.mark.parametrize("make", [_of_two_layers, lambda: _dual_encoder(32), lambda: _dual_encoder(16)])
def test_a_head_that_is_no_single_linear_map_is_refused(make: Any) -> None:
    other = make()
    pixels = {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))}
    with pytest.raises(ExplainerError, match="not made by one linear map"):
        decompose_similarity(Session(other, pixels, PROMPTS[0], prompts=PROMPTS))
    with pytest.raises(ExplainerError, match="not made by one linear map"):
        explainers.explain(other, pixels, list(PROMPTS), ["clip_decomposition"])
    with pytest.raises(ExplainerError, match="not made by one linear map"):
        EmbeddingParts(Recording(encoder(other, "image"), pixels))

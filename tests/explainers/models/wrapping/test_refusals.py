"""What cannot be explained says why, and what works in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import explainers
from explainers import ExplainerError, Preprocessing
from tests.support.own_models.case import text_model, vit
from tests.support.vocabularies import wordpiece

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def letters() -> nn.Module:
    convolutions = {"conv_dim": (8, 8), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2}
    config = hf.Wav2Vec2Config(**SMALL, **convolutions, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, vocab_size=12)
    return hf.Wav2Vec2ForCTC(config).eval()


def squeezed() -> nn.Module:
    config = hf.SEWConfig(**SMALL, conv_dim=(8,) * 13, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2)
    return hf.SEWForSequenceClassification(config).eval()


def series() -> nn.Module:
    config = hf.PatchTSTConfig(
        num_input_channels=2, context_length=32, patch_length=8, d_model=16, num_attention_heads=2, num_hidden_layers=1, ffn_dim=16
    )
    return hf.PatchTSTForClassification(config)


def fused() -> nn.Module:
    return hf.ViltForMaskedLM(hf.ViltConfig(**SMALL, vocab_size=30, image_size=32, patch_size=8))


def retrieval() -> Any:
    text, vision = {**SMALL, "vocab_size": 30, "encoder_hidden_size": 16}, {**SMALL, "image_size": 32, "patch_size": 8}
    return hf.BlipForImageTextRetrieval(hf.BlipConfig(text_config=text, vision_config=vision, projection_dim=8, image_text_hidden_size=8))


def masks_of_words() -> Any:
    text, vision = {**SMALL, "vocab_size": 30, "max_position_embeddings": 16}, {**SMALL, "image_size": 32, "patch_size": 8}
    decoder: Any = {"extract_layers": [0], "reduce_dim": 8, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 16}
    return hf.CLIPSegForImageSegmentation(hf.CLIPSegConfig(text_config=text, vision_config=vision, projection_dim=8, **decoder))


def page() -> Any:
    boxes: Any = {"coordinate_size": 4, "shape_size": 2, "max_2d_position_embeddings": 64}
    return hf.LayoutLMv3ForSequenceClassification(hf.LayoutLMv3Config(**SMALL, vocab_size=30, input_size=32, patch_size=8, **boxes))


def sounds_and_texts() -> Any:
    sounds: Any = {"hidden_size": 32, "patch_embeds_hidden_size": 4, "depths": [1, 1], "num_attention_heads": [1, 2], "spec_size": 32}
    text = {**SMALL, "vocab_size": 30, "max_position_embeddings": 32, "pad_token_id": 1}
    return hf.ClapModel(hf.ClapConfig(text_config=text, audio_config={**sounds, "num_mel_bins": 16, "window_size": 4})).eval()


def detector_of_words() -> Any:
    text, vision = {**SMALL, "vocab_size": 30, "max_position_embeddings": 16}, {**SMALL, "image_size": 32, "patch_size": 8}
    return hf.OwlViTForObjectDetection(hf.OwlViTConfig(text_config=text, vision_config=vision, projection_dim=8))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "letters": (letters, r"reads sounds \(input_values\), and is no classifier that answers once.*AST"),
    "squeezed": (squeezed, r"reads sounds \(input_values\), by another way than those that are known"),
    "series": (series, r"reads series of numbers \(past_values\)"),
    "fused": (fused, r"pictures \(pixel_values\) and texts \(input_ids\) together and answers once: what the pictures gave"),
    "crossed": (retrieval, "answers once.*its words read the patches by cross-attention"),
    "masks": (masks_of_words, r"gives a mask of what the text names.*can be opened: model\.clip"),
    "page": (page, r"places of words on a page \(bbox\) together and answers once: places of words on a page are not read here"),
    "sounds and texts": (sounds_and_texts, r"sounds \(input_features\) and texts.*its sounds are not read here.*opened: model\.text_model"),
    "retrieval": (retrieval, r"pictures alone can be opened: model\.vision_model"),
    "detector": (detector_of_words, "finds what texts name: pass them as labels="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_is_refused_with_the_true_reason(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(ExplainerError, match=said):
        explainers.open(make(), check="none")


@pytest.mark.parametrize("name", ["letters", "squeezed", "series", "fused"])
def test_a_folder_is_refused_with_the_true_reason_and_not_for_a_tokenizer(name: str, tmp_path: Path) -> None:
    make, said = REFUSED[name]
    make().save_pretrained(tmp_path)  # type: ignore[operator]
    with pytest.raises(ExplainerError, match=said):
        explainers.open(tmp_path, check="none")


def test_what_the_refusals_say_works() -> None:
    assert explainers.open(retrieval().vision_model, check="none").task is not None
    assert explainers.open(sounds_and_texts().text_model, check="none").reads == ("text",)
    assert explainers.open(detector_of_words().owlvit, preprocess=Preprocessing((32, 32)), check="none").kind == "clip"


def test_models_of_masks_and_of_packed_pictures_say_so() -> None:
    backbone = hf.SwinConfig(image_size=32, embed_dim=8, depths=[1, 1], num_heads=[1, 1], window_size=2, patch_size=2)

    class Mask2FormerForUniversalSegmentation(hf.PreTrainedModel):  # type: ignore[misc]
        config_class = hf.SwinConfig

        def forward(self, pixel_values: Tensor) -> Any:
            raise AssertionError

    with pytest.raises(ExplainerError, match="gives masks, each with a class of its own"):
        explainers.open(Mask2FormerForUniversalSegmentation(backbone), check="none")


class OwnNames(nn.Module):
    """A model of texts that calls its arguments as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = text_model()

    def forward(self, tokens: Tensor, masks: Tensor) -> Tensor:
        logits: Tensor = self.inner(tokens, attention_mask=masks).logits
        return logits


def test_a_forward_may_call_its_arguments_as_it_likes() -> None:
    ours, plain = (explainers.wrap(module, kind="text", tokenizer=wordpiece()) for module in (OwnNames(), text_model()))
    texts = ["a film", "a fine film and a bad one"]  # of which one is padded
    found = explainers.explain(ours, texts, 0, ["input_x_gradient"])
    expected = explainers.explain(plain, texts, 0, ["input_x_gradient"])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.maps[0].scores, b.maps[0].scores)  # type: ignore[union-attr]


class TwoTexts(OwnNames):
    def forward(self, query: Tensor, article: Tensor) -> Tensor:  # type: ignore[override]
        raise AssertionError


class Meta(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = vit()

    def forward(self, picture: Tensor, meta: Tensor) -> Tensor:
        raise AssertionError


@pytest.mark.parametrize(
    ("make", "arguments", "said"),
    [
        (TwoTexts, {"kind": "text", "tokenizer": wordpiece()}, r"forward also takes article.*forward\(input_ids\)"),
        (Meta, {"kind": "image", "preprocess": Preprocessing((160, 160))}, r"forward also takes meta.*forward\(pixel_values\)"),
    ],
)
def test_a_forward_that_takes_more_is_refused(make: Callable[[], nn.Module], arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        explainers.wrap(make(), **arguments)


def test_files_of_other_kinds_say_what_they_are(tmp_path: Path) -> None:
    program = torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),))
    torch.export.save(program, tmp_path / "model.pt2")
    (tmp_path / "model.bin").write_bytes(b"\x08\x07\x12\x07pytorch" + bytes(100))
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04\x95" + bytes(100))
    torch.save(nn.Linear(2, 2), tmp_path / "whole.pt")
    for file, said in {
        "model.pt2": "a program of torch.export",
        "model.bin": "a file of ONNX",
        "model.pkl": "a pickle that torch.save did not write",
        "whole.pt": r"torch\.save\(model\.state_dict\(\)",
    }.items():
        with pytest.raises(ExplainerError, match=said) as refusal:
            explainers.open(tmp_path / file, check="none")
        assert "weights_only" not in str(refusal.value)


def test_pairs_of_a_backbone_say_what_to_ask() -> None:
    config = hf.BertConfig(**SMALL, vocab_size=len(wordpiece()), max_position_embeddings=32)
    model = explainers.wrap(hf.BertModel(config).eval(), tokenizer=wordpiece())
    with pytest.raises(ExplainerError, match="at='similar', reference=second"):
        explainers.input_interaction(model, "a film", "a bad film")
    assert explainers.explain(model, "a film", at="similar", reference="a bad film", methods=["input_x_gradient"])


class MeanToken(nn.Module):
    """A model of 4 x 6 patches with a token of the mean of its patches: before them, or after them."""

    def __init__(self, is_before: bool) -> None:
        super().__init__()
        self.is_before, self.patch, self.cls = is_before, nn.Conv2d(3, 16, 8, 8), nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True, norm_first=True)
        self.blocks, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 3)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.patch(pixel_values).flatten(2).mT
        added = (x.mean(1, keepdim=True), x) if self.is_before else (x, x.mean(1, keepdim=True))
        logits: Tensor = self.head(self.blocks(torch.cat([self.cls.expand(len(x), -1, -1), *added], 1))[:, 0])
        return logits


def test_a_token_of_the_whole_picture_is_counted_and_must_stand_before_the_patches() -> None:
    how: Any = {"kind": "image", "preprocess": Preprocessing((32, 48))}
    with pytest.raises(ExplainerError, match=r"25 tokens of 26, without 1 before them, .* \(4 x 6\).* the mean of its patches, must stand"):
        explainers.wrap(MeanToken(is_before=False).eval(), **how)
    assert explainers.wrap(MeanToken(is_before=True).eval(), prefix=2, **how).details["grid"] == (4, 6)

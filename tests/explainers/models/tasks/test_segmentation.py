"""The class of a region: values equal to the model's own pixels, full accounts, and areas held as they are for the whole picture."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import explainers
from explainers import ExplainerError
from explainers.models.model import Model
from tests.explainers.support.explained import picture

# isort: split
from transformers import (
    BeitConfig,
    BeitForSemanticSegmentation,
    DetrConfig,
    Dinov2Config,
    DPTConfig,
    DPTForSemanticSegmentation,
    MaskFormerConfig,
    MaskFormerForInstanceSegmentation,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SwinConfig,
    UperNetConfig,
    UperNetForSemanticSegmentation,
)

NAMES = {0: "background", 1: "dog", 2: "grass", 3: "sky"}
VIT: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}


def _segformer() -> nn.Module:
    sizes = {"depths": [2, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 2]}
    return SegformerForSemanticSegmentation(SegformerConfig(**sizes, decoder_hidden_size=16, image_size=64, id2label=NAMES))


def _beit() -> nn.Module:
    config = BeitConfig(**VIT, image_size=64, out_indices=[1, 2, 3, 4], use_relative_position_bias=True, id2label=NAMES)
    return BeitForSemanticSegmentation(config)


def _dpt() -> nn.Module:
    sizes = {"backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16}
    return DPTForSemanticSegmentation(DPTConfig(**VIT, **sizes, image_size=64, id2label=NAMES))


def _upernet() -> nn.Module:
    stages = ["stage1", "stage2", "stage3", "stage4"]
    size = {name: value for name, value in VIT.items() if name != "intermediate_size"}
    backbone = Dinov2Config(**size, mlp_ratio=2, image_size=64, patch_size=16, out_features=stages)
    return UperNetForSemanticSegmentation(UperNetConfig(backbone_config=backbone, hidden_size=16, use_auxiliary_head=False, id2label=NAMES))


def wrapped(make: Any) -> Model:
    """With weights so large that patches differ in their class."""
    torch.manual_seed(0)
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
        elif isinstance(part, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, std=part.weight[0].numel() ** -0.5)
    return explainers.wrap(module, preprocess=explainers.Preprocessing(resize=(64, 64), fit="squash"))


@pytest.fixture(scope="module")
def model() -> Model:
    return wrapped(_segformer)


def own(model: Model, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return model.module(**tensors).logits[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("make", "grid"),
    [(_segformer, (16, 16)), (_beit, (4, 4)), (_dpt, (4, 4)), (_upernet, (4, 4))],
    ids=["segformer", "beit", "dpt", "upernet"],
)
def test_the_numbers_are_the_models_own_and_add_up(make: Any, grid: tuple[int, int]) -> None:
    model = wrapped(make)
    result = explainers.explain(model, picture(), "dog", "fullgrad:libra", at="region:0.5,0,1,0.25")
    logits = own(model, result.tensors)
    height, width = logits.shape[-2:]
    region = logits[:, : height // 4, width // 2 :]
    torch.testing.assert_close(result.logits, region.mean((1, 2)), rtol=1e-4, atol=1e-5)
    assert result.target.logit == pytest.approx(float(region[1].mean()), abs=1e-5)
    assert result["fullgrad:libra"].patches == grid
    assert result["fullgrad:libra"].notes == ()  # each of its functions has a choice under the rule
    assert result.completeness("libra") < 1e-5 * (1 + abs(result.target.logit))


def test_the_classes_that_are_seen_are_offered_with_their_share(model: Model) -> None:
    result = explainers.explain(model, picture(), methods="random")
    logits = own(model, result.tensors)
    seen = logits.argmax(0)
    areas = {NAMES[i]: float((seen == i).float().mean()) for i in seen.unique().tolist()}
    offered = {place.says: place.area for place in result.places if place.area is not None}
    assert len(offered) > 1
    assert offered == pytest.approx(areas)
    assert list(offered.values()) == sorted(offered.values(), reverse=True)
    usual = next(name for name in offered if name != "background")
    assert (result.place.at, result.target.label) == (f"class:{usual}", usual)
    index = list(NAMES.values()).index(usual)
    torch.testing.assert_close(result.logits, logits[:, seen == index].mean(-1))
    assert any("stays the same" in note for note in result.notes)
    whole = explainers.explain(model, picture(), methods="random", at="whole")
    torch.testing.assert_close(whole.logits, logits.mean((1, 2)))


def test_patches_are_painted_and_the_area_stays(model: Model) -> None:
    result = explainers.explain(model, picture(), methods=["fullgrad:libra", "random"])
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    assert (test.how, test.explains) == ("painted", "probability")
    whole = own(model, result.tensors)
    index = list(NAMES.values()).index(result.target.label)
    area = whole.argmax(0) == index
    empty = own(model, {"pixel_values": torch.zeros_like(result.tensors["pixel_values"])})
    gone = empty[:, area].mean(-1).softmax(0)[index]
    assert test.curves[0].values["probability"][-1] == pytest.approx(float(gone), abs=1e-6)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("region:0,0,2,1", "0 <= x0 < x1 <= 1"),
        ("region:a,0,1,1", "is no part of the picture"),
        ("class:cat", "names no place"),
        ("box:1", "names no place"),
    ],
)
def test_what_is_refused(model: Model, at: str, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        explainers.explain(model, picture(), methods="random", at=at)


def test_a_class_that_is_not_seen_is_said() -> None:
    model = wrapped(_segformer)
    classifier: Any = model.module.decode_head.classifier  # type: ignore[union-attr]
    nn.init.constant_(classifier.bias, 0)
    classifier.bias.data[3] = -100
    with pytest.raises(ExplainerError, match=r"no part of this picture to that class; it sees .* Send region"):
        explainers.explain(model, picture(), methods="random", at="class:sky")


def test_masks_with_classes_of_their_own_are_refused_with_their_reason() -> None:
    backbone = SwinConfig(
        image_size=64, embed_dim=16, depths=[1] * 4, num_heads=[1, 1, 2, 2], window_size=4, out_features=[f"stage{i}" for i in range(1, 5)]
    )
    decoder = DetrConfig(d_model=32, decoder_layers=1, decoder_ffn_dim=32, decoder_attention_heads=2, num_queries=3)
    module = MaskFormerForInstanceSegmentation(
        MaskFormerConfig(backbone_config=backbone, decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32)
    )
    with pytest.raises(ExplainerError, match="gives masks, each with a class of its own"):
        explainers.wrap(module.eval(), preprocess=explainers.Preprocessing(resize=(64, 64), fit="squash"))

"""Features without a head, against what the backbones themselves give."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.models.model import Model
from explainers.models.tasks.features import principal_components
from tests.explainers.support.explained import picture
from tests.support.vocabularies import wordpiece

# isort: split
import timm
from transformers import BertConfig, BertModel, Dinov2Config, Dinov2Model, ViTConfig, ViTImageProcessorPil, ViTModel

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture(scope="module", params=["timm", "dinov2"])
def model(request: pytest.FixtureRequest) -> Model:
    torch.manual_seed(0)
    recipe = explainers.Preprocessing(resize=(56, 56), fit="squash")
    if request.param == "timm":
        return explainers.wrap(
            timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=56, patch_size=14, depth=2), preprocess=recipe
        )
    return explainers.wrap(Dinov2Model(Dinov2Config(image_size=56, patch_size=14, mlp_ratio=2, **SIZE)), preprocess=recipe)


def hidden(model: Model, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        module = model.module.eval()
        if hasattr(module, "forward_features"):
            return module.forward_features(tensors["pixel_values"])[0]  # type: ignore[operator,no-any-return]
        return module(tensors["pixel_values"]).last_hidden_state[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("at", ["features", "mean", "patch:1,2", "component:1"])
def test_values_and_full_accounts(model: Model, at: str) -> None:
    result = explainers.explain(model, picture(), methods=["fullgrad:libra", "input_x_gradient"], at=at)
    tokens = hidden(model, result.tensors)
    patches = tokens[1:]
    assert result.output == "regression"
    if at == "features":
        torch.testing.assert_close(result.logits, tokens[0])
        assert result.target.label == f"feature {int(tokens[0].argmax())}"
    elif at == "mean":
        assert float(result.logits) == pytest.approx(float(tokens[0].mean()), abs=1e-6)
    elif at == "patch:1,2":
        assert float(result.logits) == pytest.approx(1, abs=1e-5)
        assert bool(result["input_x_gradient"].scores.any())
    else:
        mean, axes = principal_components(patches, 1)
        projections = (patches - mean) @ axes[0]
        assert float(result.logits) == pytest.approx(float(projections[projections > 0].mean()), abs=1e-5)
    assert result.completeness("libra") < 1e-5 * (1 + float(result.logits.abs().max()))


def test_similarity_to_another_picture(model: Model) -> None:
    result = explainers.explain(model, picture(), methods=["fullgrad:libra"], at="similar", reference=picture(1))
    theirs = hidden(model, model.tensors(picture(1)))[0]
    expected = F.cosine_similarity(hidden(model, result.tensors)[0], theirs, dim=0)
    assert float(result.logits) == pytest.approx(float(expected), abs=1e-5)
    test = explainers.deletion_test(model, result, fractions=(0.0, 0.5))
    assert (test.explains, test.curves[0].values["value"][0]) == ("value", pytest.approx(float(expected), abs=1e-5))
    alone = explainers.explain(model, picture(), methods="random", reference=picture())
    assert (alone.place.at, float(alone.logits)) == ("similar", pytest.approx(1, abs=1e-5))


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("similar", "send it as the reference"),
        ("patch:9,0", "patch:0,0 to patch:3,3"),
        ("component:0", "component:1 to"),
        ("tail", "names no place"),
    ],
)
def test_what_is_refused(model: Model, at: str, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        explainers.explain(model, picture(), methods="random", at=at)


def test_a_component_points_to_the_fewer_and_farther_patches() -> None:
    rows = torch.tensor([[0.0, 1], [0, -1], [0.5, 0], [-0.5, 0.1], [9, 0]])
    mean, axes = principal_components(rows, 2)
    assert torch.allclose(axes @ axes.mT, torch.eye(2), atol=1e-6)
    assert ((rows - mean) @ axes[0]).argmax() == 4


def test_texts_have_features_too() -> None:
    tokenizer = wordpiece(30)
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=32, **SIZE)
    model = explainers.wrap(BertModel(config).eval(), tokenizer=tokenizer)
    result = explainers.explain(model, "the good movie", methods="fullgrad:libra", reference="not a bad film")
    with torch.no_grad():
        ours, theirs = (model.module(**model.tensors(text)).last_hidden_state[0, 0] for text in ("the good movie", "not a bad film"))
    assert float(result.logits) == pytest.approx(float(F.cosine_similarity(ours, theirs, dim=0)), abs=1e-5)


def test_backbones_are_loaded_from_folders_and_files(tmp_path: Path) -> None:
    config = ViTConfig(image_size=32, patch_size=8, intermediate_size=64, **SIZE)
    without_pooler = ViTModel(config, add_pooling_layer=False)
    without_pooler.save_pretrained(tmp_path / "vit")
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "vit")
    loaded = explainers.load(tmp_path / "vit", "cpu")
    result = explainers.explain(loaded, picture(), methods="random", at="features")
    torch.testing.assert_close(result.logits, hidden(loaded, result.tensors)[0])  # the class token: its pooler has no weights
    module = timm.create_model("test_vit", num_classes=0)
    torch.save(module.state_dict(), tmp_path / "backbone.pth")
    opened = explainers.open(tmp_path / "backbone.pth", architecture="timm/test_vit", check="none")
    assert opened.details["task"] == "features"

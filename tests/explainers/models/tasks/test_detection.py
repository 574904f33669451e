"""The class and the sides of a box: values equal to the model's own, full accounts, and the same query where patches are gone."""

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
    ConditionalDetrConfig,
    ConditionalDetrForObjectDetection,
    DetrConfig,
    DetrForObjectDetection,
    DetrImageProcessorPil,
    ResNetConfig,
    YolosConfig,
    YolosForObjectDetection,
)

NAMES = {0: "dog", 1: "cat", 2: "bird"}
TRUNK = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"}
SIZE: dict[str, Any] = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
HEADS: dict[str, Any] = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 5, "id2label": NAMES}


def _with_trunk(config: Any, stages: list[str], **more: Any) -> Any:
    own = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    return config(backbone_config=ResNetConfig(**TRUNK, out_features=stages), **own, **SIZE, **HEADS, **more)


def _detr() -> nn.Module:
    return DetrForObjectDetection(_with_trunk(DetrConfig, ["stage4"]))


def _conditional() -> nn.Module:
    return ConditionalDetrForObjectDetection(_with_trunk(ConditionalDetrConfig, ["stage4"]))


def _yolos(positions: bool = True) -> nn.Module:
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": [64, 48]}
    config = YolosConfig(**size, num_detection_tokens=5, use_mid_position_embeddings=positions, id2label=NAMES)
    return YolosForObjectDetection(config)


def wrapped(make: Any, preprocess: Any = None) -> Model:
    """With weights so large that boxes differ."""
    torch.manual_seed(0)
    module = make().eval()
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1 or name.endswith("detection_tokens"):
            nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return explainers.wrap(module, preprocess=preprocess or explainers.Preprocessing(resize=(64, 48), fit="squash"))


@pytest.fixture(scope="module")
def yolos() -> Model:
    return wrapped(_yolos)


def own(model: Model, tensors: dict[str, torch.Tensor]) -> Any:
    with torch.no_grad():
        return model.module(tensors["pixel_values"])


@pytest.mark.parametrize(
    ("make", "grid", "output"),
    [(_detr, (2, 2), "softmax"), (_conditional, (2, 2), "sigmoid"), (_yolos, (4, 3), "softmax")],
    ids=["detr", "conditional", "yolos"],
)
def test_the_numbers_are_the_models_own_and_add_up(make: Any, grid: tuple[int, int], output: str) -> None:
    model = wrapped(make)
    box = explainers.explain(model, picture(), "cat", ["fullgrad:libra"], at="box:3")
    theirs = own(model, box.tensors)
    torch.testing.assert_close(box.logits, theirs.logits[0, 3])
    assert (box.output, box["fullgrad:libra"].patches) == (output, grid)
    assert box.labels == [*NAMES.values(), "no object"][: theirs.logits.shape[-1]]
    assert box.completeness("libra") < 1e-5 * (1 + abs(box.target.logit))
    x, y, width, height = theirs.pred_boxes[0, 3].tolist()
    expected = {"left": x - width / 2, "top": y - height / 2, "right": x + width / 2, "bottom": y + height / 2}
    for side, value in expected.items():
        result = explainers.explain(model, picture(), methods=["fullgrad:libra", "fullgrad"], at=f"box:3/{side}")
        assert float(result.logits) == pytest.approx(value, abs=1e-6)
        assert result.output == "regression"
        assert result.completeness("libra") < 1e-5
        assert all(one.notes == () for one in result.maps)


def test_the_map_of_a_side_is_its_gradient(yolos: Model) -> None:
    """Held against autograd through the model's own boxes."""
    result = explainers.explain(yolos, picture(), methods="input_x_gradient", at="box:2/right")
    module: Any = yolos.module
    x = module.vit.embeddings(result.tensors["pixel_values"]).detach()

    def side(x: torch.Tensor) -> torch.Tensor:
        tokens = module.vit.layernorm(module.vit.encoder(x, height=64, width=48).last_hidden_state)
        boxes = module.bbox_predictor(tokens[:, -5:]).sigmoid()
        return boxes[0, 2, 0] + boxes[0, 2, 2] / 2

    gradient = torch.autograd.functional.jacobian(side, x)
    torch.testing.assert_close(result["input_x_gradient"].scores, (gradient * x).sum(-1)[0], rtol=1e-3, atol=1e-7)


def test_boxes_are_offered_with_their_place_and_the_surest_is_meant(yolos: Model) -> None:
    result = explainers.explain(yolos, picture(), methods="random")
    theirs = own(yolos, result.tensors)
    p = theirs.logits[0].softmax(-1)[:, :3].amax(-1)
    assert result.place.at == f"box:{int(p.argmax())}"
    assert [place.score for place in result.places] == pytest.approx(sorted(p.tolist(), reverse=True))
    x, y, width, height = theirs.pred_boxes[0, int(p.argmax())].tolist()
    corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    assert result.place.box == pytest.approx([min(max(side, 0), 1) for side in corners])


def test_attention_of_a_box_is_that_of_its_token(yolos: Model) -> None:
    """YOLOS has a token for each box, after its patches."""
    first, second = (explainers.explain(yolos, picture(), methods="raw_attention", at=f"box:{i}")["raw_attention"] for i in (1, 4))
    eager = _yolos().eval()
    eager.load_state_dict(yolos.module.state_dict())
    eager.set_attn_implementation("eager")  # type: ignore[operator]
    with torch.no_grad():
        tensors = yolos.tensors(picture())
        weights = eager(**tensors, output_attentions=True).attentions[-1][0].mean(0)
    torch.testing.assert_close(first.scores[first.content], weights[1 + 12 + 1, 1:13])
    torch.testing.assert_close(second.scores[second.content], weights[1 + 12 + 4, 1:13])
    assert int(first.content.sum()) == 12


def test_patches_go_and_the_boxes_tokens_stay() -> None:
    """Without positions inside its blocks YOLOS does without tokens; the class token and those of the boxes stay."""
    model = wrapped(lambda: _yolos(positions=False))
    result = explainers.explain(model, picture(), methods=["random", "gradcam_attention"], at="box:1/top")
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    assert (test.how, test.explains) == ("removed", "value")
    module: Any = model.module
    x = module.vit.embeddings(result.tensors["pixel_values"])
    with torch.no_grad():
        tokens = module.vit.encoder(torch.cat([x[:, :1], x[:, -5:]], 1), height=64, width=48).last_hidden_state
        box = module.bbox_predictor(module.vit.layernorm(tokens)[:, -5:]).sigmoid()[0, 1]
    assert test.curves[0].values["value"][-1] == pytest.approx(float(box[1] - box[3] / 2), abs=1e-6)


def test_a_detector_takes_the_size_that_proportions_give(yolos: Model) -> None:
    """And pads what is left over of a patch of its trunk, so that there is a row or a column more."""
    processor = DetrImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 100})
    model = wrapped(_detr, processor)
    result = explainers.explain(model, picture(size=(90, 60)), methods="fullgrad:libra", at="box:0")
    assert tuple(result.tensors["pixel_values"].shape[-2:]) == (64, 96)
    assert result["fullgrad:libra"].patches == (2, 3)
    wide = explainers.explain(model, picture(size=(80, 60)), methods="fullgrad:libra", at="box:0")
    assert tuple(wide.tensors["pixel_values"].shape[-2:]) == (64, 85)
    assert wide["fullgrad:libra"].patches == (2, 3)


@pytest.mark.parametrize(
    ("at", "says"), [("box:5", "box:0 to box:4"), ("box:1/middle", "names no place"), ("dog", "names no place .* Send box:3")]
)
def test_what_is_refused(yolos: Model, at: str, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        explainers.explain(yolos, picture(), methods="random", at=at)

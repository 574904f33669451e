"""Explanations as JSON and as pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from explainers import Contrast, ExplainerError, explain
from explainers.records.result import Attribution
from explainers.rendering.overlays import FOR, render_overlay
from tests.explainers.support.explained import TEXT, clip_model, image_model, picture, text_model


def test_json_of_an_image() -> None:
    specs = ["fullgrad:libra", "rollout"]
    result = explain(image_model(), picture(size=(50, 40)), target=["dog", Contrast("dog", "fork")], methods=specs)
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert {"model", "weights_digest", "versions", "input", "targets", "top", "maps", "notes"} <= set(data)
    assert data["input"]["kind"] == "image"
    assert (data["input"]["width"], data["input"]["height"]) == (50, 40)
    x0, y0, x1, y1 = data["input"]["crop"]
    assert 0 <= x0 < x1 <= 50
    assert 0 <= y0 < y1 <= 40
    assert data["input"]["seen"] == [24, 32]
    assert data["targets"][0] == {
        "label": "dog",
        "index": 4,
        "logit": pytest.approx(float(result.logits[4])),
        "probability": pytest.approx(float(result.probabilities[4])),
        "read": "logit",
    }
    contrast = data["targets"][1]
    difference = float(result.logits[4] - result.logits[3])
    assert contrast == {"label": "dog − fork", "logit": pytest.approx(difference), "read": "logit", "of": "dog", "against": "fork"}
    assert "read" not in data["top"][0]
    assert len(data["top"]) == 5
    assert len(data["maps"]) == 4
    for shown, one in zip(data["maps"], result.maps, strict=True):
        assert {
            "method",
            "readout",
            "rule",
            "title",
            "target",
            "scores",
            "grid",
            "range",
            "signed",
            "class_specific",
            "seconds",
            "notes",
        } <= set(shown)
        assert shown["grid"] == [4, 3]
        assert shown["scores"] == pytest.approx(one.scores[one.content].tolist())
        assert shown["range"] == pytest.approx([min(shown["scores"]), max(shown["scores"])])
        assert ("completeness_error" in shown) == (shown["method"] == "fullgrad:libra")
    assert data["maps"][1]["rule"] is None


def test_json_of_a_text() -> None:
    result = explain(text_model(), TEXT, methods=["attcat:libra"])
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["input"]["kind"] == "text"
    assert data["input"]["text"] == TEXT
    tokens = data["input"]["tokens"]
    assert all(set(t) == {"text", "start", "end", "special"} for t in tokens)
    assert tokens[0]["special"]
    assert tokens[-1]["special"]
    assert all(set(w) == {"text", "start", "end", "tokens"} for w in data["input"]["words"])
    (shown,) = data["maps"]
    assert len(shown["scores"]) == len(tokens)
    assert "grid" not in shown


def test_json_of_prompts() -> None:
    data = json.loads(
        json.dumps(explain(clip_model(), picture(), target=["a film", "a movie"], methods="random").to_json(), allow_nan=False)
    )
    assert [t["prompt"] for t in data["targets"]] == ["a film", "a movie"]
    assert len(data["top"]) == 2


def test_overlay_of_an_image_shows_the_crop_and_evidence_where_it_is() -> None:
    result = explain(image_model(), picture(size=(60, 80)), methods="fullgrad_plus:libra")
    drawn = render_overlay(result, result.maps[0], size=160)
    assert drawn.mode == "RGB"
    assert max(drawn.size) == 160
    x0, y0, x1, y1 = result.input.crop
    assert drawn.width / drawn.height == pytest.approx((x1 - x0) / (y1 - y0), abs=0.02)
    # a made-up map with one strong patch: the picture is coloured there and grey far from it
    scores = torch.zeros(13)
    scores[1] = 1.0
    made = Attribution(**{**vars(result.maps[0]), "scores": scores, "signed": True})
    pixels = np.asarray(render_overlay(result, made, size=160), np.int16)
    corner, far = pixels[5, 5], pixels[-5, -5]
    assert abs(corner - np.array(FOR)).max() < 60
    assert far.max() - far.min() <= 1
    flat = Attribution(**{**vars(result.maps[0]), "scores": torch.zeros(13)})
    render_overlay(result, flat, size=32)


def test_overlay_of_a_text_and_of_tensors() -> None:
    result = explain(text_model(), TEXT, methods="attcat")
    drawn = render_overlay(result, result.maps[0], size=300)
    assert drawn.width == 300
    assert len(np.unique(np.asarray(drawn).reshape(-1, 3), axis=0)) > 20
    model = image_model()
    unseen = explain(model, model.tensors(picture()), methods="random")
    with pytest.raises(ExplainerError, match="tensors were explained"):
        render_overlay(unseen, unseen.maps[0])

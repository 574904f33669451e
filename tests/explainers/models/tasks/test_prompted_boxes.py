"""Detectors that are asked with texts: of the picture and of a text the numbers are the model's own, and so are maps at their places."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError, Explanation
from explainers.methods.requirements import missing_requirements
from explainers.models.model import Model
from tests.explainers.support.explained import picture
from tests.support.detectors import ASKED_WITH_TEXTS, detector, words_of

TEXTS = ["a good film", "not bad"]
TEXT = "not a good film"
RECIPE = explainers.Preprocessing(resize=(64, 64), fit="squash")
DINO = "GroundingDinoForObjectDetection"
OF_PIXELS = "input_x_gradient?at=pixels"


@cache
def of_picture(name: str) -> Model:
    return explainers.wrap(detector(name), labels=TEXTS, tokenizer=words_of(name), preprocess=RECIPE)


@cache
def of_text(name: str) -> Model:
    return explainers.wrap(detector(name), picture=picture(), tokenizer=words_of(name), preprocess=RECIPE)


def texts_of(name: str, texts: list[str]) -> dict[str, Tensor]:
    """The tensors of texts, put together by hand: a row each, or all in one row with a full stop after each."""
    tokenizer = words_of(name)
    if name != DINO:
        rows = [tokenizer(text)["input_ids"] for text in texts]
        return {
            "input_ids": torch.tensor([row + [tokenizer.pad_token_id] * (16 - len(row)) for row in rows]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (16 - len(row)) for row in rows]),
        }
    row = [tokenizer.convert_tokens_to_ids("[CLS]")]
    for text in texts:
        row += [*tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)), tokenizer.convert_tokens_to_ids(".")]
    ids = torch.tensor([[*row, tokenizer.convert_tokens_to_ids("[SEP]")]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def by_hand(name: str, model: Model, pixels: Tensor, texts: list[str]) -> tuple[Tensor, Tensor]:
    """Logits (boxes, texts) and boxes by the plain module."""
    tensors = texts_of(name, texts)
    output: Any = model.module(pixel_values=pixels, **tensors)
    logits = output.logits[0]
    if name == DINO:  # "a good film" and "not bad" are single tokens each
        words = [words_of(name).tokenize(text) for text in texts]
        ends = [1 + sum(len(word) + 1 for word in words[: i + 1]) for i in range(len(words))]
        logits = torch.stack([logits[:, end - 1 - len(word) : end - 1].max(1).values for word, end in zip(words, ends, strict=True)], 1)
    return logits, output.pred_boxes[0]


def assert_adds_up(name: str, result: Explanation, of_words: bool) -> None:
    """But for attention weights of Grounding DINO that weigh the constant side, in the first layer that joins both. That is said of words;
    of a picture it is less than what its parts in float32 may round.
    """
    if name != DINO:
        assert result.completeness("libra") < 1e-7 * (1 + abs(result.target.logit))
        return
    assert 0 < result.completeness("libra") < 1e-3
    said = "a softmax in model.encoder.layers.0.fusion_layer.attn" in " ".join(result["fullgrad:libra"].notes)
    assert said == of_words


def iou(a: Any, b: Any) -> float:
    a, b = ([x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in (a.tolist(), b.tolist()))
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


@pytest.mark.parametrize("name", ASKED_WITH_TEXTS)
def test_of_a_picture_texts_are_classes_and_maps_lie_where_they_are_drawn(name: str) -> None:
    model = of_picture(name)
    result = explainers.explain(model, picture(), TEXTS[1], [OF_PIXELS, "fullgrad:libra", "occlusion?compare=false"], at="box:3")
    pixels = result.tensors["pixel_values"].detach().clone().requires_grad_()
    logits, boxes = by_hand(name, model, pixels, TEXTS)
    assert result.labels == TEXTS
    torch.testing.assert_close(result.logits, logits[3].detach().float())
    x, y, width, height = boxes.detach()[3].tolist()
    corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    assert result.place.box == pytest.approx([min(max(side, 0.0), 1.0) for side in corners])
    assert_adds_up(name, result, of_words=False)
    (gradient,) = torch.autograd.grad(logits[3, 1], pixels)
    expected = F.avg_pool2d((gradient * pixels).detach().sum(1), 16).flatten() * 16 * 16
    content = slice(1, None) if name != DINO else slice(None)
    scores = result[OF_PIXELS].scores[content].to(expected)
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    for patch in (0, 6, 15):
        row, column = divmod(patch, 4)
        hidden = pixels.detach().clone()
        hidden[:, :, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = 0
        with torch.no_grad():
            theirs, found = by_hand(name, model, hidden, TEXTS)
        shared = [iou(each, boxes.detach()[3]) for each in found]
        place = shared.index(max(shared)) if name == DINO and max(shared) else 3
        fall = float(logits[3, 1].detach() - theirs[place, 1])
        assert float(result["occlusion?compare=false"].scores[content][patch]) == pytest.approx(fall, abs=1e-6), patch


@pytest.mark.parametrize("name", ASKED_WITH_TEXTS)
def test_of_a_text_the_picture_stays_and_words_are_explained(name: str) -> None:
    model = of_text(name)
    result = explainers.explain(model, TEXT, methods=["input_x_gradient", "saliency", "fullgrad:libra"], at="box:2")
    module: Any = model.module
    pixels = of_picture(name).prepare(picture()).tensors["pixel_values"]
    ids = torch.tensor([words_of(name)(TEXT)["input_ids"]])
    embeddings = module.model.text_backbone.embeddings if name == DINO else module.get_submodule(model_prefix(name)).embeddings
    x: list[Tensor] = []

    def start(part: nn.Module, args: Any, output: Tensor) -> Tensor:
        x.append(output.detach().requires_grad_())
        return x[-1]

    handle = embeddings.register_forward_hook(start)
    output = module(pixel_values=pixels, input_ids=ids, attention_mask=torch.ones_like(ids))
    handle.remove()
    logit = output.logits[0, 2, 1 : ids.shape[1] - 1].max() if name == DINO else output.logits[0, 2, 0]
    assert float(result.logits) == pytest.approx(float(logit.detach()), rel=1e-6)
    assert_adds_up(name, result, of_words=True)
    (gradient,) = torch.autograd.grad(logit, x[0])
    expected = {"saliency": gradient.abs().sum(-1)[0], "input_x_gradient": (gradient * x[0].detach()).sum(-1)[0]}
    if name == DINO:  # whose first layer of this size normalises each token: the sum of the products is zero
        assert float(expected.pop("input_x_gradient").abs().max()) < 1e-10
    for method, scores in expected.items():
        given = result[method].scores.to(scores)
        torch.testing.assert_close(given, scores, rtol=1e-5, atol=1e-5 * float(scores.abs().max()))
    assert result.input.tokens[1].text == "not"
    assert model.labels == ["the text"]
    with pytest.raises(ExplainerError, match="this is for images"):
        explainers.explain(model, TEXT, methods="d_rise", at="box:2")


def model_prefix(name: str) -> str:
    return "owlvit.text_model" if name == "OwlViTForObjectDetection" else "owlv2.text_model"


def test_a_box_of_owl_vit_is_read_from_its_patch() -> None:
    """So that methods that read the attention of one token read that of the box's own patch."""
    model = of_picture("OwlViTForObjectDetection")
    placed = model.at("box:6", model.prepare(picture()))
    layout = placed.layout_of(model.prepare(picture()).tensors)
    assert (layout.class_token, layout.other_tokens.in_front) == (7, 1)
    result = explainers.explain(model, picture(), methods=["raw_attention", "rollout"], at="box:6")
    assert result["raw_attention"].patches == (4, 4)
    lacks = missing_requirements(of_picture(DINO))
    assert "at points that it chooses (deformable attention)" in lacks["attention"]


def test_one_text_is_one_class() -> None:
    model = explainers.wrap(
        detector("OwlViTForObjectDetection"), labels=["a good film"], tokenizer=words_of("OwlViTForObjectDetection"), preprocess=RECIPE
    )
    assert explainers.explain(model, picture(), methods="random", at="box:3").labels == ["a good film"]


def test_what_is_missing_is_named() -> None:
    module = detector("OwlViTForObjectDetection")
    with pytest.raises(ExplainerError, match=r'pass them as labels=\["a cat", "a remote control"\]'):
        explainers.wrap(module, tokenizer=words_of("OwlViTForObjectDetection"), preprocess=RECIPE)
    with pytest.raises(ExplainerError, match="and tokenizer= if none was saved"):
        explainers.wrap(module, labels=TEXTS, preprocess=RECIPE)
    with pytest.raises(ExplainerError, match="is for detectors that are asked with texts"):
        explainers.wrap(detector("RTDetrForObjectDetection"), picture=picture(), preprocess=RECIPE)
    with pytest.raises(ExplainerError, match="have 62 tokens together, and the model takes 40"):
        explainers.wrap(detector(DINO), labels=["a good film"] * 15, tokenizer=words_of(DINO), preprocess=RECIPE)


@pytest.mark.parametrize("name", ["OwlViTForObjectDetection", DINO])
def test_opened_the_checks_pass(name: str) -> None:
    """But for what Libra misses of Grounding DINO: see above."""
    for asked in ({"labels": TEXTS}, {"picture": picture()}):
        report = explainers.open(detector(name, torch.float32), tokenizer=words_of(name), preprocess=RECIPE, **asked).report  # type: ignore[arg-type]
        assert report is not None
        failed = {check.name: check.detail for check in report.checks if check.state == "failed"}
        assert not failed if name != DINO else failed.keys() <= {"completeness"}
        assert not failed or "a softmax in model.encoder.layers.0.fusion_layer.attn" in failed["completeness"]


def test_words_without_a_full_stop_are_said_to_attend_to_themselves_alone() -> None:
    model = explainers.wrap(detector(DINO), picture=picture(), tokenizer=words_of(DINO), preprocess=RECIPE)
    bare, stopped = (explainers.explain(model, text, methods="input_x_gradient") for text in ("a good dog", "a good dog."))
    assert [any("Put a full stop after the text" in note for note in result.notes) for result in (bare, stopped)] == [True, False]
    zero, scores = (float(result["input_x_gradient"].scores.abs().max()) for result in (bare, stopped))
    assert zero < 1e-6  # without biases a row of words that never meet does not change with their size
    assert scores > 1e-3

"""What a vision-language model writes: read in one pass over picture, prompt and answer, equal to the model's own logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.methods.registry import METHODS
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.models.inputs.types import ANSWER, PICTURE, PicturePromptInput
from explainers.records.input_json import input_from_json
from explainers.rendering.overlays import render_overlay
from tests.support.task_models import picture_writer
from vitrine_server.cli import main

PROMPT = "a good <image> film, not bad"
PATCHES, WRITTEN = 16, 4
FAST = ("attcat:libra", "fullgrad:libra", "input_x_gradient:libra")


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def asked(picture: Image.Image) -> explainers.PicturePrompt:
    return explainers.PicturePrompt(picture, PROMPT)


@pytest.fixture(scope="module")
def result(asked: explainers.PicturePrompt) -> Any:
    return explainers.explain(picture_writer(), asked, methods=FAST)


def own(tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The model's own logits (S, V), and the ids."""
    with torch.no_grad():
        logits: Tensor = picture_writer().module(**tensors).logits[0]
    return logits, tensors["input_ids"][0]


def test_the_answer_is_what_the_model_writes(result: Any, asked: explainers.PicturePrompt) -> None:
    module: Any = picture_writer().module
    prompt = picture_writer().tensors(asked)
    with torch.no_grad():
        ids = prompt["input_ids"]
        for _ in range(WRITTEN):
            ids = torch.cat([ids, module(input_ids=ids, pixel_values=prompt["pixel_values"]).logits[:, -1:].argmax(-1)], 1)
    assert result.tensors["input_ids"].tolist() == ids.tolist()
    start = prompt["input_ids"].shape[1]
    logits, _ = own(result.tensors)
    expected = sum(float(logits[i - 1, ids[0, i]]) for i in range(start, start + WRITTEN))
    assert result.target.logit == pytest.approx(expected, rel=1e-5)
    assert result.completeness("libra") < 1e-4
    assert result.task == "image-text-to-text"


def test_maps_lie_on_the_patches_and_on_the_words(result: Any) -> None:
    record = result.input
    assert isinstance(record, PicturePromptInput)
    parts = [token.part for token in record.tokens]
    assert parts == [0] * 4 + [PICTURE] * PATCHES + [0] * (len(parts) - 4 - PATCHES - WRITTEN) + [ANSWER] * WRITTEN
    assert [word.text for word in record.words] == ["a", "good", "film", ",", "not", "bad"]
    for attribution in result.maps:
        on_picture = record.on_picture(attribution.scores)
        assert on_picture.shape == (4, 4)
        assert bool(on_picture.abs().sum() > 0)
        assert attribution.content.tolist() == [not token.special for token in record.tokens]
    read = input_from_json(record.to_json())
    assert read == record
    whole, plain = result["fullgrad:libra"], render_overlay(result, result["fullgrad:libra"])
    assert plain.height > plain.width  # the picture above the words
    assert "<svg" in whole._repr_html_()
    assert whole._repr_html_().count("<span") == len(record.words)


def test_patches_carry_the_gradient_of_the_pixels(result: Any) -> None:
    """Input x gradient of each patch's token, by torch alone: what the vision tower gave at its place."""
    module, record = picture_writer().module, result.input
    embedded: list[Tensor] = []
    inner: Any = module.get_decoder()  # type: ignore[operator]

    def take(_: Any, __: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        embedded.append(kwargs["inputs_embeds"].detach().requires_grad_())
        return (), {**kwargs, "inputs_embeds": embedded[0]}

    handle = inner.register_forward_pre_hook(take, with_kwargs=True)
    try:
        logits = module(**result.tensors).logits[0]
    finally:
        handle.remove()
    ids, (first, last) = result.tensors["input_ids"][0], result.place.tokens
    (gradient,) = torch.autograd.grad(sum(logits[i - 1, ids[i]] for i in range(first, last + 1)), embedded[0])
    expected = (embedded[0] * gradient).sum(-1)[0].detach()
    found = explainers.explain(picture_writer(), explainers.PicturePrompt(record.picture.pixels, PROMPT), methods="input_x_gradient")
    torch.testing.assert_close(record.on_picture(found["input_x_gradient"].scores), record.on_picture(expected), rtol=1e-3, atol=1e-5)


def test_one_token_is_asked_against_the_vocabulary(asked: explainers.PicturePrompt, result: Any) -> None:
    token = result.place.tokens[0] + 1
    placed = explainers.explain(picture_writer(), asked, [None, explainers.Contrast(None, "film")], "fullgrad:libra", at=f"token:{token}")
    logits, ids = own(placed.tensors)
    torch.testing.assert_close(placed.logits, logits[token - 1])
    assert placed.targets[0].index == int(ids[token])
    assert placed.completeness("libra", 1) < 1e-4


def test_a_patch_is_no_part_of_the_answer(asked: explainers.PicturePrompt) -> None:
    with pytest.raises(ExplainerError, match="is no part of the answer"):
        explainers.explain(picture_writer(), asked, methods="random", at="token:5")


def test_what_is_removed_gets_no_attention(result: Any) -> None:
    test = explainers.deletion_test(picture_writer(), result, fractions=(0.0, 1.0))
    assert (test.how, test.explains, test.tokens) == ("removed", "value", int(result.maps[0].content.sum()))
    mask = result.tensors["attention_mask"] * ~result.maps[0].content
    logits, ids = own({**result.tensors, "attention_mask": mask})
    first, last = result.place.tokens
    expected = sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1))
    assert test.curves[0].values["value"][-1] == pytest.approx(expected, rel=1e-4)
    with pytest.raises(ExplainerError, match="patches and words are removed"):
        explainers.deletion_test(picture_writer(), result, how="masked")


def test_every_method_runs_or_says_why(asked: explainers.PicturePrompt, result: Any) -> None:
    lacks = missing_requirements(picture_writer())
    reasons = {name: reason_against(method, lacks) for name, method in METHODS.items()}
    able = [name for name, reason in reasons.items() if reason is None]
    assert {"occlusion", "rise", "kernel_shap", "lrp", "alti", "integrated_gradients", "attention_flow"} <= set(able)
    assert all("picture-writer" in str(reasons[name]) for name in ("maskclip", "vit_cx", "pa_lrp"))
    able = [name for name in able if not METHODS[name].slow or name in ("occlusion", "integrated_gradients")]
    token = result.place.tokens[0]
    found = explainers.explain(picture_writer(), asked, methods=able, at=f"token:{token}")  # one token, whose attention some read
    for attribution in found.maps:
        assert bool(attribution.scores.isfinite().all()), attribution.method
    hidden = found["occlusion"]
    content = hidden.content.nonzero().flatten().tolist()
    mask = found.tensors["attention_mask"].clone()
    mask[0, content[5]] = 0  # a patch
    logits, ids = own({**found.tensors, "attention_mask": mask})
    left = float(logits[token - 1, ids[token]])
    assert float(hidden.scores[content[5]]) == pytest.approx(found.target.logit - left, abs=1e-3)


def test_a_picture_is_a_column_of_the_table(asked: explainers.PicturePrompt) -> None:
    table = explainers.answer_table(picture_writer(), asked, "input_x_gradient:libra")
    assert table.columns[0] == "(picture)"
    row = explainers.explain(picture_writer(), asked, methods="input_x_gradient:libra", at="words", target=0)
    patches = row.input.on_picture(row["input_x_gradient:libra"].scores)
    assert float(table.scores[0, 0]) == pytest.approx(float(patches.sum()), abs=1e-4)


def test_the_command_takes_a_picture_and_a_text(picture: Image.Image, tmp_path: Path, capsys: Any) -> None:
    folder, model = tmp_path / "model", picture_writer()
    module: Any = model.module
    module.save_pretrained(folder)
    model.task.tokenizer.save_pretrained(folder)  # type: ignore[union-attr]
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}'
    )
    picture.save(tmp_path / "picture.png")
    capsys.readouterr()
    question = ["explain", str(tmp_path / "picture.png"), "--text", PROMPT, "--model", str(folder), "--methods", "input_x_gradient:libra"]
    assert main([*question, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "of the picture; " in printed
    assert (tmp_path / "out" / "input_x_gradient-libra.png").stat().st_size
    assert main([*question[:2], *question[4:]]) == 2
    assert "give an image file and --text" in capsys.readouterr().err
    table = ["answer-table", PROMPT, "--image", str(tmp_path / "picture.png"), "--model", str(folder), "--json"]
    assert main(table) == 0
    assert json.loads(capsys.readouterr().out)["columns"][0] == "(picture)"
    maps = ["token-maps", str(tmp_path / "picture.png"), PROMPT, "--model", str(folder), "--out", str(tmp_path / "maps.png")]
    assert main(maps) == 0
    assert "picture-writer" not in (printed := capsys.readouterr().out)  # a folder has its own name
    assert printed.count("row ") == WRITTEN
    assert (tmp_path / "maps.png").stat().st_size
    assert main([*maps, "--chat"]) == 2
    assert "chat template" in capsys.readouterr().err
    (tmp_path / "call.wav").touch()
    assert main(["explain", str(tmp_path / "call.wav"), "--text", PROMPT, "--model", str(folder)]) == 2
    assert "reads no sounds: name a model that does" in capsys.readouterr().err

"""``vitrine explain --at``: a place of each task's output, of a model in a folder as people have it, equals what the library says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import explainers
from tests.server.conftest import picture, png
from tests.support import task_models
from tests.support.detectors import detector, words_of
from tests.support.task_models import TEXT
from vitrine_server.cli import main

# isort: split
from transformers import ViTImageProcessorPil

PAIR = ("good film?", "the good movie, not the bad film")


def saved(make: Callable[[], explainers.Model], folder: Path) -> Path:
    """The folder that transformers would write of a model."""
    model: Any = make()
    model.module.save_pretrained(folder)
    tokenizer = getattr(model.task, "tokenizer", None)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    else:
        height, width = model.details["input"]
        size = {"height": height // (model.details["frames"] or 1), "width": width}
        ViTImageProcessorPil(size=size).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("make", "given", "at", "unit"),
    [
        (task_models.token_classifier, TEXT, "movie", "softmax"),
        (task_models.masked, "the [MASK] film", "mask", "softmax"),
        (task_models.question_answerer, explainers.TextPair(*PAIR), "start", "softmax"),
        (task_models.question_answerer, explainers.TextPair(*PAIR), "good movie", "regression"),
        (task_models.backbone, picture(), "patch:1,2", "regression"),
        (task_models.segmenter, picture(), "region:0,0,0.5,0.5", "softmax"),
        (task_models.detector, picture(), "box:3/left", "regression"),
        (task_models.points_detector, picture(), "box:3", "sigmoid"),
        (task_models.points_detector, picture(), "box:3/left", "regression"),
        (task_models.clip_classifier, explainers.Clip([picture(seed) for seed in range(4)]), None, "softmax"),
    ],
)
def test_a_place_is_asked_about(make: Any, given: Any, at: str | None, unit: str, tmp_path: Path, capsys: Any) -> None:
    folder = saved(make, tmp_path / "model")
    asked = ["--text", given] if isinstance(given, str) else [str(tmp_path / "picture.png")]
    if isinstance(given, explainers.TextPair):
        asked = ["--text", given.first, "--text-pair", given.second]
    elif isinstance(given, explainers.Clip):
        (tmp_path / "frames").mkdir()
        for seed in range(4):
            (tmp_path / "frames" / f"{seed}.png").write_bytes(png(seed))
        asked = [str(tmp_path / "frames")]
    elif not isinstance(given, str):
        (tmp_path / "picture.png").write_bytes(png())
    place = [] if at is None else ["--at", at]
    assert main(["explain", *asked, "--model", str(folder), "--methods", "input_x_gradient", "--json", *place]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = explainers.explain(explainers.load(folder), given, methods="input_x_gradient", at=at)
    assert (document["output"], document.get("at")) == (unit, expected.place and expected.place.at)
    assert document["targets"][0]["logit"] == pytest.approx(expected.target.logit, rel=1e-4, abs=1e-5)
    scores = expected.maps[0].scores[expected.maps[0].content] if expected.maps[0].patches else expected.maps[0].scores
    assert document["maps"][0]["scores"] == pytest.approx(scores.tolist(), rel=1e-3, abs=1e-6)


def test_the_frame_of_the_strongest_patch_is_named(tmp_path: Path, capsys: Any) -> None:
    folder = saved(task_models.clip_classifier, tmp_path / "model")
    frames = [picture(seed) for seed in range(8)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:])
    assert main(["explain", str(tmp_path / "clip.gif"), "--model", str(folder), "--methods", "random"]) == 0
    one = explainers.explain(explainers.load(folder), tmp_path / "clip.gif", methods="random").maps[0]
    frame, inside = divmod(int(one.scores[one.content].argmax()), 4 * 4)
    assert f"frame {frame + 1}, row {inside // 4 + 1}, column {inside % 4 + 1}" in capsys.readouterr().out


def test_a_detector_is_asked_with_the_texts_in_a_file(tmp_path: Path, capsys: Any) -> None:
    module: Any = detector("OwlViTForObjectDetection", torch.float32)
    module.save_pretrained(tmp_path / "model")
    words_of("OwlViTForObjectDetection").save_pretrained(tmp_path / "model")
    ViTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("a good film\nbad dog\n")
    (tmp_path / "picture.png").write_bytes(png())
    asked = ["explain", str(tmp_path / "picture.png"), "--model", str(tmp_path / "model"), "--labels", str(tmp_path / "texts.txt")]
    assert main([*asked, "--at", "box:3", "--target", "bad dog", "--methods", "fullgrad:libra", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    model = explainers.open(tmp_path / "model", labels=["a good film", "bad dog"], check="none")
    expected = explainers.explain(model, picture(), "bad dog", "fullgrad:libra", at="box:3")
    assert document["targets"][0]["logit"] == pytest.approx(expected.target.logit, abs=1e-5)
    assert document["maps"][0]["scores"] == pytest.approx(expected.maps[0].scores[expected.maps[0].content].tolist(), rel=1e-3, abs=1e-6)
    words = explainers.open(tmp_path / "model", picture=tmp_path / "picture.png", check="none")
    same = explainers.explain(words, "bad dog", methods="random", at="box:3")
    assert same.target.logit == pytest.approx(expected.target.logit, abs=1e-4)
    assert main(["explain", str(tmp_path / "picture.png"), "--model", str(tmp_path / "model"), "--methods", "random"]) == 2
    assert 'pass them as --labels "a cat,a remote control"' in capsys.readouterr().err
    assert main([*asked[:-1], "a good film, bad dog", "--at", "box:3", "--target", "bad dog", "--methods", "fullgrad:libra", "--json"]) == 0
    by_commas = json.loads(capsys.readouterr().out)
    assert by_commas["maps"][0]["scores"] == pytest.approx(document["maps"][0]["scores"], rel=1e-4, abs=1e-6)

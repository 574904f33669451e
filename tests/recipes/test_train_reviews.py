"""Fine-tuning on ERASER's reviews, tried on a tiny BERT from the hub's cache: what is learned, kept, and gone on with."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants

import explainers
from explainers import ExplainerError
from explainers.models.inputs.texts import BOTH_ENDS
from recipes import train_reviews
from recipes.__main__ import main
from recipes.train_reviews import FineTuning, read_reviews
from tests.explainers.support.saved_models import cache_folder, save_transformers

REVIEWS = {"NEG": "a bad film , not the plot", "POS": "the good movie"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reviews of two kinds, laid out as ERASER's movies; one is longer than the tiny BERT reads."""
    folder = tmp_path_factory.mktemp("eraser")
    (folder / "movies/docs").mkdir(parents=True)
    for split, count in (("train", 10), ("val", 4), ("test", 2)):
        rows = []
        for number in range(count):
            label = ("NEG", "POS")[number % 2]
            name = f"{split}_{number}.txt"
            (folder / "movies/docs" / name).write_text(f"{REVIEWS[label]} .\n{'good ' * 30 * (number == 1)}", "utf-8")
            marked = {"docid": name, "start_token": 1, "end_token": 2}
            rows.append(json.dumps({"annotation_id": name, "classification": label, "evidences": [[marked]]}))
        (folder / f"movies/{split}.jsonl").write_text("\n".join(rows), "utf-8")
    return folder


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tiny BERT with a head of three classes in the hub's cache, and no network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    folder = cache_folder(tmp_path / "cache", "someone/tiny-bert")
    save_transformers(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "long_texts": BOTH_ENDS}), "utf-8")
    return "hf/someone/tiny-bert"


def arguments(*given: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_reviews.add_arguments(parser)
    return parser.parse_args([str(one) for one in given])


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return explainers.load(folder, "cpu").module.state_dict()


def test_the_command_leaves_a_model_that_tells_the_reviews_apart(
    data: Path, cached: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "reviews", "--from", cached, "--data", data, "--out", tmp_path / "out", "--epochs", 12, "--rate", 0.02, "--batch", 4]
    assert main([str(word) for word in [*words, "--device", "cpu"]]) == 0
    printed = capsys.readouterr()
    assert "accuracy on ERASER movies, test" in printed.out
    assert "epoch 12: " in printed.err
    told = {figure["what"]: figure for figure in json.loads((tmp_path / "out/figures.json").read_text("utf-8"))["figures"]}
    assert told["accuracy on ERASER movies, test"]["value"] == 1.0
    assert told["accuracy on ERASER movies, validation"]["note"] == "4 reviews"
    assert not (tmp_path / "out/checkpoint.pt").exists()
    assert "long_texts" not in json.loads((tmp_path / "out/tokenizer_config.json").read_text("utf-8"))  # it learned the beginnings
    model = explainers.load(tmp_path / "out", "cpu")
    assert list(model.labels) == ["negative", "positive"]
    result = explainers.explain(model, REVIEWS["NEG"], methods=["transformer_attribution"])
    assert result.target.label == "negative"
    assert explainers.open(tmp_path / "out", device="cpu").labels == model.labels


def test_a_training_that_was_stopped_ends_with_the_same_weights(
    data: Path, cached: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_reviews, "CHECKPOINT_SECONDS", -1.0)  # after each step
    given = ("--from", cached, "--data", data, "--epochs", 2, "--rate", 0.01, "--batch", 4, "--device", "cpu")
    train_reviews.train(arguments(*given, "--out", tmp_path / "whole"))
    learn, steps = FineTuning.learn, 0

    def stop(tuning: FineTuning) -> float:
        nonlocal steps
        steps += 1
        if steps == 5:  # in the second epoch of three steps each
            raise KeyboardInterrupt
        return learn(tuning)

    monkeypatch.setattr(FineTuning, "learn", stop)
    with pytest.raises(KeyboardInterrupt):
        train_reviews.train(arguments(*given, "--out", tmp_path / "stopped"))
    monkeypatch.setattr(FineTuning, "learn", learn)
    train_reviews.train(arguments(*given, "--out", tmp_path / "stopped", "--resume"))
    once, resumed = weights(tmp_path / "whole"), weights(tmp_path / "stopped")
    assert once.keys() == resumed.keys()
    assert all(torch.equal(value, resumed[name]) for name, value in once.items())


def test_the_weights_of_the_best_epoch_are_kept(data: Path, cached: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal accuracy the one with the least loss; here the second of three."""
    figures = iter([(0.5, 0.7), (0.75, 0.6), (0.75, 0.65)])
    after: list[dict[str, Any]] = []

    def measured(model: Any, tokenizer: object, reviews: object) -> tuple[float, float]:
        after.append({name: value.clone() for name, value in model.state_dict().items()})
        return next(figures)

    monkeypatch.setattr(train_reviews, "measure_reviews", measured)
    given = ("--from", cached, "--data", data, "--out", tmp_path / "out", "--epochs", 3, "--rate", 0.01, "--device", "cpu")
    train_reviews.train(arguments(*given))
    kept = weights(tmp_path / "out")
    assert all(torch.equal(value, after[1][name]) for name, value in kept.items())
    assert any(not torch.equal(value, after[2][name]) for name, value in kept.items())


def test_a_step_is_adam_on_the_summed_loss_of_the_first_tokens(data: Path, cached: str) -> None:
    args = arguments("--from", cached, "--data", data, "--out", "unused", "--batch", 10, "--device", "cpu")
    reviews = read_reviews(data, "train")
    assert sorted({review.label for review in reviews}) == [0, 1]
    tuning = FineTuning(train_reviews.pretrained_folder(cached), reviews, args)
    for part in tuning.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    before = {name: value.clone() for name, value in tuning.model.named_parameters()}
    encoded = tuning.tokenizer([review.text for review in reviews], truncation=True, max_length=20, padding=True, return_tensors="pt")
    assert encoded["input_ids"].shape == (10, 20)  # the long one is cut to what the model takes
    loss = torch.nn.functional.cross_entropy(tuning.model(**encoded).logits, torch.tensor([review.label for review in reviews])) * 10
    gradients = dict(zip(before, torch.autograd.grad(loss, list(tuning.model.parameters()), allow_unused=True), strict=True))
    norm = torch.stack([gradient.norm() for gradient in gradients.values() if gradient is not None]).norm()
    assert tuning.learn() == pytest.approx(float(loss.detach()) / 10, rel=1e-4)
    for name, value in tuning.model.named_parameters():
        gradient = gradients[name]
        if gradient is not None:
            clipped = gradient / max(1.0, float(norm))
            step = 1e-5 * clipped / (clipped.abs() + 1e-8)  # Adam's first
            torch.testing.assert_close(value.detach(), before[name] - step, rtol=0, atol=2e-6)


def test_what_cannot_be_trained_is_refused(data: Path, cached: str, tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="must be at least 1"):
        train_reviews.train(arguments("--from", cached, "--data", data, "--out", tmp_path, "--epochs", 0))
    with pytest.raises(ExplainerError, match=r"There is no .*nowhere"):
        train_reviews.train(arguments("--from", cached, "--data", tmp_path / "nowhere", "--out", tmp_path))
    with pytest.raises(ExplainerError, match="there is no encoder 'bert'; send hf/<organisation>/<name>"):
        train_reviews.pretrained_folder("bert")
    with pytest.raises(ExplainerError, match="someone/other is not on this machine, and offline mode is on"):
        train_reviews.pretrained_folder("hf/someone/other")

"""Directions in the space of the tokens that a text classifier ends with: what they are asked of, and where an explanation says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import explainers
from explainers import ExplainerError, explain
from explainers.models.companion_files.calibration import AbstentionThreshold, Calibration
from explainers.models.feature_scores import FEATURE_SCORES_FILE, feature_score, read_directions, token_means
from tests.explainers.support.explained import TEXT, text_model
from tests.explainers.support.saved_models import save_transformers

LONG = "not a bad movie, the plot is well-made! i don't like the film. " * 8


def test_the_mean_is_of_the_last_blocks_tokens_without_padding() -> None:
    model = text_model()
    both = token_means(model, model.tensors([TEXT, "movie"]))
    alone = model.tensors("movie")
    hidden = model.module(**alone, output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(both[1], hidden[0].mean(0).detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(both[:1], token_means(model, model.tensors(TEXT)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", [TEXT, LONG])
def test_a_text_without_evidence_for_an_opinion_holds_none(text: str) -> None:
    model = text_model()
    windows = model.windows(text)
    features = token_means(model, model.tensors(text) if windows is None else windows.prepared.tensors).mean(0)  # of windows the mean
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(len(features) + 1, generator=generator)
    score = float(features @ direction[:-1] + direction[-1])
    for line, kind in ((score + 1e-3, "no_opinion"), (score - 1e-3, None)):
        calibration = Calibration(1.0, (AbstentionThreshold("no_opinion", "opinion_evidence", line, True, "On nothing."),))
        said = explain(
            replace(model, calibration=calibration, directions={"opinion_evidence": direction}), text, methods="random"
        ).abstention
        assert (said.kind if said else None) == kind
    assert (windows is None) == (text == TEXT)


def test_directions_lie_beside_the_weights(tmp_path: Path) -> None:
    save_transformers(tmp_path)
    assert explainers.load(tmp_path).directions == {}
    save_file({"opinion_evidence": torch.tensor([1.0, 2.0]).half()}, tmp_path / FEATURE_SCORES_FILE)
    directions = explainers.load(tmp_path).directions
    assert directions["opinion_evidence"].tolist() == [1, 2]
    assert feature_score("opinion_evidence", directions, torch.tensor([3.0])) == 5
    with pytest.raises(ExplainerError, match="send 5 numbers"):
        feature_score("opinion_evidence", directions, torch.ones(4))
    (tmp_path / FEATURE_SCORES_FILE).write_bytes(b"nothing")
    with pytest.raises(ExplainerError, match="is not a safetensors file"):
        read_directions(tmp_path / FEATURE_SCORES_FILE)

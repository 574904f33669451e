"""Many inputs summed up, against sums made here from single explanations."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers.models.companion_files.calibration import Calibration
from explainers.models.inputs.images import Preprocessing
from explainers.models.model import Model
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

TEXTS = ["A good film", "not a bad movie, a good film", "the plot is bad", "a bad bad movie"]
METHOD = "input_x_gradient:libra"


@pytest.fixture(scope="module")
def reader() -> Model:
    return explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["against", "for", "unsure"])


@pytest.fixture(scope="module")
def looker() -> Model:
    return explainers.wrap(FAMILIES["vit"].build(), preprocess=Preprocessing(resize=(32, 24), crop=(32, 24)))


def pictures(folder: Path, count: int = 3) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = [folder / f"{i}.png" for i in range(count)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)).save(path)
    return paths


def gain_by_hand(model: Model, text: str, scores: torch.Tensor, index: int) -> float:
    """Areas under the logit while word pieces leave the text, at quarters: least first less most first."""
    ids = model.tensors(text)["input_ids"][0].tolist()
    pieces = list(range(1, len(ids) - 1))
    areas = []
    for sign in (1, -1):
        order = sorted(pieces, key=lambda i: (sign * float(scores[i]), i))  # least relevant first, then most
        counts = [int(share * len(pieces) + 0.5) for share in (0, 0.25, 0.5, 0.75, 1)]
        values = []
        for count in counts:
            row = [i for place, i in enumerate(ids) if place not in order[:count]]
            own = torch.tensor([row])
            with torch.no_grad():
                values.append(float(model.forward({"input_ids": own, "attention_mask": torch.ones_like(own)})[0, index]))
        areas.append(np.trapezoid(values, np.array(counts) / len(pieces)))
    return float(areas[0] - areas[1])


def test_words_are_ranked_by_their_total(reader: Model) -> None:
    found = explainers.summarise(reader, TEXTS, "for", METHOD)
    own: dict[str, list[float]] = defaultdict(list)
    for text in TEXTS:
        for word in explainers.explain(reader, text, "for", METHOD).maps[0].words():
            if word.text.isalpha():
                own[word.text.lower()].append(word.score)
    expected = sorted(own, key=lambda word: -sum(own[word]))
    assert [word.word for word in found.words] == expected
    for word in found.words:
        assert (word.count, word.total, word.mean) == pytest.approx(
            (len(own[word.word]), sum(own[word.word]), np.mean(own[word.word])), rel=1e-5
        )
    assert next(word.count for word in found.words if word.word == "bad") == 4
    assert found.mean is None


def test_trust_is_the_symmetric_relevance_gain(reader: Model) -> None:
    found = explainers.summarise(reader, TEXTS, "for", METHOD)
    for row, text in zip(found.rows, TEXTS, strict=True):
        scores = explainers.explain(reader, text, "for", METHOD).maps[0].scores
        assert row.trust == pytest.approx(gain_by_hand(reader, text, scores, 1), rel=1e-3, abs=1e-6)
    ranked = sorted(found.rows, key=lambda row: row.trust)
    assert found.least_trusted(2) == ranked[:2]
    assert found.most_trusted(2) == ranked[:1:-1][:2]
    assert all(len(repr(row)) < 200 for row in ranked)  # it is read when printed


def test_the_mean_map_weighs_every_picture_alike(looker: Model, tmp_path: Path) -> None:
    paths = pictures(tmp_path)
    found = explainers.summarise(looker, paths, None, METHOD)
    maps = []
    for path in paths:
        one = explainers.explain(looker, path, None, METHOD).maps[0]
        scores = one.scores[one.content].reshape(one.patches)
        maps.append(scores / scores.abs().sum())
    assert found.mean is not None
    torch.testing.assert_close(found.mean, torch.stack(maps).mean(0), rtol=1e-4, atol=1e-6)
    assert found.target == "the top class"
    assert [row.name for row in found.rows] == [path.name for path in paths]
    assert json.loads(json.dumps(found.to_json()))["inputs"] == 3


def test_a_run_goes_on_where_it_was(reader: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explainers.summarise(reader, TEXTS, "for", METHOD)
    rows, asked = tmp_path / "run" / "rows.jsonl", []
    explain = explainers.explain

    def counted(*args: Any, **how: Any) -> Any:
        asked.append(args[1])
        return explain(*args, **how)

    monkeypatch.setattr("explainers.analysis.summary.explain", counted)
    explainers.summarise(reader, TEXTS[:2], "for", METHOD, rows=rows)
    with rows.open("a") as file:
        file.write('{"name": "cut off wh')
    seen: list[str] = []
    found = explainers.summarise(reader, TEXTS, "for", METHOD, rows=rows, progress=lambda row: seen.append(row.name))
    assert asked == TEXTS
    assert seen == TEXTS
    assert found.to_json() == whole.to_json()
    assert len(rows.read_text().splitlines()) == 1 + len(TEXTS)
    with pytest.raises(explainers.ExplainerError, match="another summary"):
        explainers.summarise(reader, TEXTS, "against", METHOD, rows=rows)
    with pytest.raises(explainers.ExplainerError, match="another summary"):
        explainers.summarise(replace(reader, calibration=Calibration(2.0)), TEXTS, "for", METHOD, rows=rows)
    lines = rows.read_text().splitlines(keepends=True)
    for damaged, problem in (
        ([lines[0][:30]], "the first line of .* is damaged"),
        ([lines[0][:30] + "\n", *lines[1:]], "the first line of .* is damaged"),
        ([lines[0], lines[1][:30] + "\n", *lines[2:]], "line 2 of .* is damaged"),
    ):
        rows.write_text("".join(damaged))
        with pytest.raises(explainers.ExplainerError, match=problem):
            explainers.summarise(reader, TEXTS, "for", METHOD, rows=rows)


def test_what_cannot_be_read_is_said_and_left_out(looker: Model, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    found = explainers.summarise(looker, [*pictures(tmp_path), broken], 1, METHOD)
    assert [row.name for row in found.problems] == ["broken.png"]
    assert found.to_json()["problems"][0]["problem"]
    assert len(found.rows) == 3
    with pytest.raises(explainers.ExplainerError, match="none of the 1 inputs"):
        explainers.summarise(looker, [broken], 1, METHOD)
    with pytest.raises(explainers.ExplainerError, match="no inputs"):
        explainers.summarise(looker, [], 1, METHOD)


def test_a_question_that_fits_no_input_is_refused_before_the_first(
    reader: Model, looker: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained: list[Any] = []
    monkeypatch.setattr("explainers.analysis.summary.explain", lambda *args, **how: explained.append(args))
    clip = explainers.wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(16), preprocess=Preprocessing(resize=(32, 32), crop=(32, 32)))
    questions: list[tuple[Model, Any, Any, Any, str]] = [
        (reader, TEXTS, ["for", "against"], METHOD, "one target is summed up at a time"),
        (reader, TEXTS, "furr", METHOD, "no class 'furr'"),
        (reader, TEXTS, 3, METHOD, "Class 3 does not exist"),
        (reader, TEXTS, "for", "nonsense", "no method 'nonsense'"),
        (reader, TEXTS, "for", [METHOD], "one method is summed up at a time"),
        (reader, TEXTS, explainers.Probability("for"), "lrp", "not from a probability"),
        (reader, TEXTS, "for", "pa_lrp", "pa_lrp cannot run here"),
        (reader, TEXTS[0], "for", METHOD, "inputs is a list"),
        (looker, tmp_path / "a.png", None, METHOD, "inputs is a list"),
        (clip, [tmp_path / "a.png"], None, METHOD, "asked with prompts"),
    ]
    for model, inputs, target, method, problem in questions:
        rows = tmp_path / "rows.jsonl"
        with pytest.raises(explainers.ExplainerError, match=problem):
            explainers.summarise(model, inputs, target, method, rows=rows)
        assert not rows.exists()
    assert explained == []


def test_prompts_are_summed_up_too(tmp_path: Path) -> None:
    clip = explainers.wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(16), preprocess=Preprocessing(resize=(32, 32), crop=(32, 32)))
    found = explainers.summarise(clip, pictures(tmp_path, 2), "a good film", METHOD)
    assert found.target == "a good film"
    assert found.mean is not None
    assert found.mean.shape == found.rows[0].grid


def test_names_are_ranked_by_the_capitals_of_the_texts(reader: Model) -> None:
    """The tokenizer makes all letters small; the words of the ranking are picked here by hand."""
    texts = [
        "Good Mara made a film.",
        "The bad movie of Dr. Ned, not of Mara!",
        "Film is not a film.  Ned made the Film",
        'A film: "Bad" not good... I like Mara',
        "NOT A GOOD FILM",
    ]
    summary = explainers.summarise(reader, texts, "for", METHOD)
    scores: dict[str, list[float]] = defaultdict(list)
    for text in texts:
        for word in explainers.explain(reader, text, "for", METHOD).maps[0].words():
            scores[word.text.lower()].append(word.score)
    names = sorted(["mara", "ned"], key=lambda name: -sum(scores[name]))
    assert [(word.word, word.count) for word in summary.names()] == [(name, len(scores[name])) for name in names]
    assert [word.total for word in summary.names()] == pytest.approx([sum(scores[name]) for name in names], rel=1e-4, abs=1e-6)
    assert [word["word"] for word in summary.to_json()["names"]] == names
    assert summary.rank(["FILM", "Mara", "elsewhere"]) == [word for word in summary.words if word.word in ("film", "mara")]
    assert summary.rank([]) == []
    with pytest.raises(explainers.ExplainerError, match="a list of words"):
        summary.rank("Mara")
    with pytest.raises(explainers.ExplainerError, match="'mara film' is not one word"):
        summary.rank(["Mara Film"])

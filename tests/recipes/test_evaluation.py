"""``python -m recipes evaluate`` at a quick look, and what its rows say. Reviews: test_reviews_recipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explainers.models.catalogue import embedded_names
from recipes.__main__ import main
from recipes.commands.evaluate import by_method
from recipes.evaluation import CONTROL, EVALUATIONS, JUDGED_METHOD, Figure, Report, clip, reviews, scenes
from recipes.evaluation.maps import table_of
from recipes.reviews.questions import read_questions

LIMIT = 3


def test_every_embedded_model_is_measured() -> None:
    assert set(embedded_names()) | {"all"} == set(EVALUATIONS)


@pytest.mark.parametrize("name", ["scenes-vit", "clip"])
def test_scenes_in_a_quick_look(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip, "SCENES_PER_KIND", 1)
    monkeypatch.setattr(clip, "KINDS", clip.KINDS[:16])
    monkeypatch.setattr(scenes, "MADE_UP_PICTURES", 20)
    assert main(["evaluate", "--only", name, "--limit", str(LIMIT), "--methods", "generic_attention", "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert f"at most {LIMIT} scenes" in printed.err
    table = next(iter(report["tables"].values()))
    assert list(table) == ["generic_attention", JUDGED_METHOD, CONTROL]
    assert 0.02 < table[CONTROL]["average precision"] < 0.2  # about the share of the picture that an object covers
    assert table[JUDGED_METHOD]["average precision"] > 0.5
    assert table[JUDGED_METHOD][scenes.OWN_MASK] >= 0.85
    figures = {one["what"]: one for one in report["figures"]}
    assert {one["model"] for one in report["figures"]} == {name}
    ratio = figures["energy on the object over that of random"]["value"]
    assert ratio == pytest.approx(table[JUDGED_METHOD]["energy on the object"] / table[CONTROL]["energy on the object"])
    assert ratio > 4
    assert {one["bar"] for one in report["figures"]} == {
        None,
        *({0.98, 0.9, 0.7} if name == "scenes-vit" else {0.9, 0.45, 0.3, 0.7, 0.75, 0.6}),
    }
    assert figures["segmentation average precision of the best method"]["value"] == max(row["average precision"] for row in table.values())


def first_three(probes: Any) -> Any:
    """The first few of every list."""
    if isinstance(probes, dict):
        return {name: first_three(part) for name, part in probes.items()}
    return probes[:3] if isinstance(probes, list) else probes


def test_reviews_are_skipped_without_their_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews.reviews_probes, "read_questions", lambda: first_three(read_questions()))
    assert main(["evaluate", "--only", "reviews-bert"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "needs --data DIR" in line]
    assert len(lines) == 5
    assert all("skipped" in line for line in lines)
    monkeypatch.setattr(reviews.reviews_probes, "measure", lambda name, setting: Report([]))  # as they were a moment ago
    assert main(["evaluate", "--only", "reviews-bert", "--data", str(tmp_path)]) == 0
    assert "lacks sst2.jsonl.xz, imdb.jsonl.xz, eraser_movies.jsonl.xz" in capsys.readouterr().out


def test_all_models_are_small_and_load(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--only", "all", "--json"]) == 0
    size, *loads = json.loads(capsys.readouterr().out)["figures"]
    assert 10 < size["value"] <= size["bar"] == 94
    assert [one["what"] for one in loads] == [f"load time of {name}" for name in embedded_names()]
    assert all(one["value"] > 0 for one in loads)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--limit", "0"], "at least 1"),
        (["--folder", "."], "say which with one --only MODEL"),
        (["--data", "no/such"], "there is no folder no/such"),
        (["--only", "gpt"], "invalid choice: 'gpt'"),
    ],
)
def test_what_cannot_be_measured(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["evaluate", *arguments])
    except SystemExit as stop:  # what the parser itself refuses
        code = int(str(stop.code))
    assert code == 2
    assert said in capsys.readouterr().err


def test_a_row_says_by_how_much_it_falls_short() -> None:
    share = Figure("m", "accuracy", 0.863, 0.9)
    assert share.verdict == "short by 3.7 points"
    assert replace(share, value=0.9).verdict == "met"
    assert replace(share, bar=None).verdict == ""
    assert replace(share, value=None).verdict == "skipped"
    assert Figure("m", "F1", 1.5, 2, "times").verdict == "short by 0.50 x"
    assert Figure("m", "size", 71.5, 70, "megabytes", at_most=True).verdict == "over by 1.5 MB"
    assert Figure("m", "size", 60, 70, "megabytes", at_most=True).verdict == "met"


def test_a_method_without_a_value_is_not_in_its_column() -> None:
    """As GradCAM+ on photos-vit, whose maps have no positive score: not the first method's count, and no 0."""
    values = {"gradcam_plus": (None, None), "random": (0.5, 1.5), "lrp": (None, 2.0)}
    rows = [{"index": i, "energy_ratio": values[method][i], "pointing": 1.0} for i in range(2) for method in values]
    table, counts = table_of(rows, list(values), {"energy": "energy_ratio", "pointing": "pointing"})
    assert table == {"gradcam_plus": {"pointing": 1.0}, "random": {"energy": 1.0, "pointing": 1.0}, "lrp": {"energy": 2.0, "pointing": 1.0}}
    assert counts == {"energy": 2, "pointing": 2}
    assert by_method(table).splitlines()[2].split() == ["gradcam_plus", "1.000", "–"]


def test_annotations_are_spans_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        {"split": "train", "text": "left out", "rationales": [], "rationales_alt": []},
        {"split": "test", "text": "it's so-so . \n bad !!", "rationales": [[1, 2], [4, 5]], "rationales_alt": [[0, 2]]},
    ]
    monkeypatch.setattr(reviews, "rows", lambda data, name: iter(listed))
    found = reviews.read_annotated(Path())
    assert [len(samples) for samples in found.values()] == [1, 1]
    marked = {name: [samples[0].text[start:end] for start, end in samples[0].rationale] for name, samples in found.items()}
    assert marked == {"first": ["so-so", "!!"], "second": ["it's so-so"]}

"""The word probe against explanations of each filled text, asked for one at a time."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

import explainers
from explainers import ExplainerError
from tests.explainers.support.explained import image_model, text_model

TEMPLATE = "not a {} movie, the plot is well-made."
GROUPS = {"kind": ["good", "bad"], "odd": ["well-made", "\u03b2"]}
METHOD = "input_x_gradient"


@pytest.fixture(scope="module")
def probe() -> explainers.WordProbe:
    return explainers.word_probe(text_model(), TEMPLATE, GROUPS, "positive", METHOD)


def test_each_text_is_what_explain_says_of_it(probe: explainers.WordProbe) -> None:
    assert [(text.group, text.word) for text in probe.texts] == [(name, word) for name, words in GROUPS.items() for word in words]
    for text in probe.texts:
        alone = explainers.explain(text_model(), TEMPLATE.replace("{}", text.word), "positive", [METHOD])
        stop = TEMPLATE.index("{}") + len(text.word)
        words = [word.score for word in alone.maps[0].words() if word.start < stop and word.end > TEMPLATE.index("{}")]
        assert text.relevance == pytest.approx(sum(words), rel=1e-3, abs=1e-6)
        assert text.probability == pytest.approx(alone.target.probability, rel=1e-4)
        assert text.logit == pytest.approx(alone.target.logit, rel=1e-3, abs=1e-5)
    assert probe.attribution.method == probe.method.method == METHOD


def test_means_and_what_divides_the_groups(probe: explainers.WordProbe) -> None:
    first, second = ([text.logit for text in probe.texts if text.group == name] for name in GROUPS)
    assert [group["logit"] for group in probe.groups] == pytest.approx([fmean(first), fmean(second)])
    assert probe.difference is not None
    assert probe.difference["between"] == list(GROUPS)
    assert probe.difference["logit"] == pytest.approx(fmean(first) - fmean(second))
    alone = explainers.word_probe(text_model(), TEMPLATE, {"kind": ["good"]}, "positive", METHOD)
    assert alone.difference is None


def test_it_prints_and_saves(probe: explainers.WordProbe, tmp_path: Path) -> None:
    printed = str(probe).splitlines()
    assert printed[1].split() == ["group", "word", "probability", "logit", "relevance"]
    assert [line.split()[1] for line in printed[2:6]] == [text.word for text in probe.texts]
    assert f"{probe.difference['logit']:+.4f}" in printed[8]  # type: ignore[index]
    assert printed[9] == "note: The model cannot read \u201c\u03b2\u201d: not in its vocabulary."
    probe.save(tmp_path / "probe.json")
    assert json.loads((tmp_path / "probe.json").read_text("utf-8")) == probe.to_json()
    with pytest.raises(ExplainerError, match=r"\.json"):
        probe.save(tmp_path / "probe.png")


@pytest.mark.parametrize(
    ("template", "groups", "says"),
    [
        ("no slot", GROUPS, "no slot"),
        ("{} and {}", GROUPS, "2 slots"),
        (TEMPLATE, {}, "no word"),
        (TEMPLATE, {"kind": []}, "no word"),
    ],
)
def test_what_cannot_be_probed(template: str, groups: dict[str, list[str]], says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        explainers.word_probe(text_model(), template, groups, "positive", METHOD)


def test_a_model_of_pictures_has_no_words() -> None:
    with pytest.raises(ExplainerError, match="does not read texts"):
        explainers.word_probe(image_model(), TEMPLATE, GROUPS, "Zebra", METHOD)


def test_progress_counts_the_texts() -> None:
    calls: list[tuple[int, int]] = []
    groups = {"kind": [f"good {i}" for i in range(12)]}
    explainers.word_probe(text_model(), TEMPLATE, groups, "positive", METHOD, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 12), (10, 12)]

"""Bias probes, on a tiny random model: what is sent is what ``explain`` says of each filled text."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest

import explainers
from tests.server.conftest import Check, Site
from tests.server.support.tiny_models import tiny, tiny_site

TEMPLATE = "not a {} movie, the plot is well-made"
GROUPS = [{"name": "one", "words": ["good", "bad", "films"]}, {"name": "other", "words": ["well-made", "β"]}]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def ask(site: Site, **changes: Any) -> Any:
    probe = {"model": "reviews-bert", "template": TEMPLATE, "groups": GROUPS, "target": "for", **changes}
    return site.client.post("/api/probes", json=probe)


@pytest.mark.parametrize("method", ["input_x_gradient:conservative", "generic_attention", "transformer_attribution"])
def test_each_row_is_what_explain_says_of_the_filled_text(site: Site, method: str) -> None:
    found = ask(site, method=method).json()
    model = tiny("reviews-bert")
    assert [(row["group"], row["word"]) for row in found["rows"]] == [(group["name"], word) for group in GROUPS for word in group["words"]]
    for row in found["rows"]:
        text = TEMPLATE.replace("{}", row["word"])
        assert row["text"] == text
        alone = explainers.explain(model, text, target="for", methods=[method])
        start = TEMPLATE.index("{}")
        words = [word for word in alone.maps[0].words() if word.start < start + len(row["word"]) and word.end > start]
        merge = sum if alone.maps[0].signed else max
        assert row["relevance"] == pytest.approx(merge(word.score for word in words), rel=1e-3, abs=1e-6)
        assert row["probability"] == pytest.approx(alone.target.probability, rel=1e-4)
        assert row["logit"] == pytest.approx(alone.target.logit, rel=1e-3, abs=1e-5)
        assert "".join(row["pieces"]) == row["word"]
    assert found["method"]["spec"] == method
    assert found["method"]["signed"] == (method == "input_x_gradient:conservative")


def test_means_and_difference(site: Site) -> None:
    found = ask(site).json()
    assert found["method"]["title"] == "Conservative LRP"
    for key in ("probability", "logit", "relevance"):
        means = [fmean(row[key] for row in found["rows"] if row["group"] == group["name"]) for group in GROUPS]
        assert [group[key] for group in found["groups"]] == pytest.approx(means)
        assert found["difference"][key] == pytest.approx(means[0] - means[1])
    assert found["difference"]["between"] == ["one", "other"]
    assert [group["words"] for group in found["groups"]] == [3, 2]
    assert ask(site, groups=GROUPS[:1]).json()["difference"] is None


def test_a_word_that_the_model_does_not_know_is_said(site: Site) -> None:
    found = ask(site).json()
    assert [row["word"] for row in found["rows"] if row["unknown"]] == ["β"]
    assert found["notes"] == ["The model cannot read “β”: not in its vocabulary."]
    assert [row["pieces"] for row in found["rows"]][2:4] == [["film", "s"], ["well", "-", "made"]]


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"template": "no slot"}, "wrong-template", "no slot"),
        ({"template": "a {} and a {}"}, "wrong-template", "2 slots"),
        ({"groups": [GROUPS[0], GROUPS[0]]}, "wrong-groups", "same name"),
        ({"groups": []}, "invalid-request", "groups"),
        ({"groups": [{"name": "a", "words": []}]}, "invalid-request", "words"),
        ({"groups": [{"name": "a", "words": ["x" * 61]}]}, "invalid-request", "words"),
        ({"groups": [{"name": g, "words": [f"{g}{i}" for i in range(30)]} for g in "abc"]}, "too-many", "90 texts"),
        ({"template": "x" * 1001}, "invalid-request", "template"),
        ({"target": "maybe"}, "unknown-class", "maybe"),
        ({"method": "roll"}, "unknown-method", "roll"),
        ({"method": "kernel_shap"}, "too-slow", "kernel_shap"),
        ({"model": "scenes-vit"}, "wrong-input", "does not read texts"),
        ({"model": "nothing here"}, "unknown-model", "nothing here"),
        ({"template": f"{'not a bad movie ' * 20}{{}}{' the plot' * 20}"}, "cannot-answer", "did not read"),
        ({"more": 1}, "invalid-request", "more"),
    ],
)
def test_what_cannot_be_asked(site: Site, refused: Check, changes: dict[str, Any], kind: str, says: str) -> None:
    assert says in refused(ask(site, **changes), 422, kind)["detail"]

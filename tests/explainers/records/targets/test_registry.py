"""A kind of target that another package adds, the one of docs/extending.md: in Python, over HTTP, on the command line, and in the lines
that make an explanation again. No other file knows of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

import explainers
from explainers import Contrast, ExplainerError, Probability, Target
from explainers.autograd.rules import RULES
from explainers.records import targets
from explainers.records.targets import Classes, add_target, parse_target, resolve, target_from_json
from tests.conftest import ROOT
from tests.explainers.support.explained import LABELS, clip_model, image_model, picture
from tests.server.conftest import png
from tests.support.example_package import installed_example
from vitrine_server import cli
from vitrine_server.app import create_app
from vitrine_server.export.reproduce import python_lines
from vitrine_server.settings import load_settings

SPEC, RELEVANCE, WRITTEN = "input_x_gradient", "transformer_attribution", "mean:Zebra + fork"


@pytest.fixture(scope="module")
def mean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with installed_example(tmp_path_factory.mktemp("example")) as module:
        yield module.Mean


def test_its_number_and_output_gradient(mean: Any) -> None:
    logits = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = resolve(mean((0, "fork")), Classes(LABELS), logits)
    torch.testing.assert_close(found.value(logits), (logits[:, 0] + logits[:, 3]) / 2)
    expected = torch.tensor([0.5, 0, 0, 0.5, 0], dtype=torch.float64).expand(3, -1)
    for rule in ("gradient", "deep_taylor"):
        torch.testing.assert_close(found.output_gradient(logits, RULES[rule]), expected)
    torch.testing.assert_close(found.account(logits), found.value(logits))
    assert found.labels == ("mean of Zebra, fork",) * 3
    torch.testing.assert_close(found.repeat(2).only(3).value(logits[1:2]), found.value(logits)[1:2])


def test_in_python(mean: Any) -> None:
    model = image_model()
    targets = [mean(("zebra", torch.tensor(3))), Contrast(mean((0, 3)), "dog"), "Zebra", "fork", "dog"]
    result = explainers.explain(model, picture(), targets, [SPEC, RELEVANCE])
    assert [info.label for info in result.targets[:2]] == ["mean of Zebra, fork", "mean of Zebra, fork − dog"]
    zebra, fork, dog = (result[SPEC, label].scores for label in ("Zebra", "fork", "dog"))
    torch.testing.assert_close(result[SPEC, 0].scores, (zebra + fork) / 2, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(result[SPEC, 1].scores, (zebra + fork) / 2 - dog, rtol=1e-3, atol=1e-6)
    assert result.target.logit == pytest.approx(float(result.logits[[0, 3]].mean()))
    assert result.completeness("libra") < 1e-4
    test = explainers.deletion_test(model, result, draws=1)
    assert (test.explains, set(test.curves[0].values)) == ("logit", {"logit"})
    assert test.curves[0].values["logit"][0] == pytest.approx(result.target.logit, rel=1e-4)
    prompts = explainers.explain(clip_model(), picture(), mean(("a film", "a movie")), SPEC)
    assert prompts.labels == ["a film", "a movie"]
    assert prompts.target.label == "mean of a film, a movie"


def test_as_text_and_in_json(mean: Any) -> None:
    assert parse_target(WRITTEN, LABELS) == mean(("Zebra", "fork"))
    assert parse_target("mean:0 + any:animal", LABELS) == mean((0, explainers.AnyOf("animal")))
    assert parse_target(WRITTEN, [*LABELS, WRITTEN]) == WRITTEN
    info = explainers.explain(image_model(), picture(), mean((0, 3)), "random").target.to_json()
    assert {name: info[name] for name in ("kind", "read", "of", "label")} == {
        "kind": "mean", "read": "logit", "of": WRITTEN, "label": "mean of Zebra, fork",
    }  # fmt: skip
    assert target_from_json(json.loads(json.dumps(info)), LABELS) == mean(("Zebra", "fork"))


def test_what_it_cannot_be(mean: Any) -> None:
    model = image_model()
    for target, said in (
        (mean(("Zebra", "okapi")), "no class 'okapi'"),
        (mean((mean((0, 1)),)), "is no target"),
        (Probability(mean((0, 1))), "has no probability"),
        (Contrast(mean((0, 1)), mean((0, 1))), "with itself"),
        ([mean((0, 1)), mean(("Zebra", "elephant"))], "named twice"),
    ):
        with pytest.raises(ExplainerError, match=said):
            explainers.explain(model, picture(), target, "random")
    with pytest.raises(ExplainerError, match="already a kind of target mean"):
        add_target(mean)


def test_a_stored_target_of_a_package_that_is_gone_says_so() -> None:
    with pytest.raises(ExplainerError, match="kind gone, which nothing that is installed adds"):
        target_from_json({"label": "gone", "kind": "gone", "of": "gone:x", "logit": 1.0}, LABELS)


def test_what_is_no_kind_of_target_is_refused() -> None:
    class Bare(Target):
        kind = "bare"

    with pytest.raises(ExplainerError, match="Bare is no dataclass"):
        add_target(Bare)


def test_over_http_and_again_by_the_lines_that_the_server_gives(mean: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(load_settings({"home": str(tmp_path)}))) as client:
        form = {"model": "scenes-vit", "methods": ["input_x_gradient"]}
        labels = explainers.load("scenes-vit").labels
        written = f"mean:{labels[0]} + {labels[2]}"

        def ask(**fields: str) -> Any:
            return client.post("/api/explanations?wait=1", data={**form, **fields}, files={"image": ("photo", png())})

        document = ask(target=written).json()
        (info,) = document["targets"]
        assert (info["kind"], info["of"], info["label"]) == ("mean", written, f"mean of {labels[0]}, {labels[2]}")
        of_clrp = ask(target=f"clrp:{labels[0]}").json()  # one that ships is asked for in the same way
        assert [(info["kind"], info["label"]) for info in of_clrp["targets"]] == [("clrp", f"{labels[0]} (CLRP)")]
        assert f'target=explainers.CLRP("{labels[0]}"),' in python_lines(of_clrp)
        assert ask(target="mean:okapi").json()["detail"].startswith("There is no class 'okapi'")
        assert "has no probability" in ask(target=written, read="probability").json()["detail"]
        path = f"/api/explanations/{document['id']}"
        deletion = client.post(f"{path}/deletion-test", json={}).json()
        assert (deletion["read"], deletion["target"]) == ("logit", info["label"])
        mixed = client.post(f"{path}/mix", json={"method": "input_x_gradient", "rule": {}}).json()
        assert mixed["map"]["scores"] == pytest.approx(document["maps"][0]["scores"], abs=1e-6)
        lines = client.get(f"{path}/code").json()["python"]
        (tmp_path / "tensors.safetensors").write_bytes(client.get(f"{path}/tensors.safetensors").content)
    assert "import vitrine_example\n" in lines
    assert f'target=vitrine_example.Mean(("{labels[0]}", "{labels[2]}")),' in lines
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(python_lines(document), made)
    (again,) = made["result"].maps
    assert again.scores[again.content].tolist() == document["maps"][0]["scores"]


def test_on_the_command_line(mean: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture(size=(64, 64)).save(tmp_path / "photo.png")
    labels = explainers.load("scenes-vit").labels
    target = f"mean:{labels[0]} + 2"
    command = ["explain", str(tmp_path / "photo.png"), "--model", "scenes-vit", "--target", target, "--methods", "rollout", "--json"]
    assert cli.main(command) == 0
    (info,) = json.loads(capsys.readouterr().out)["targets"]
    assert (info["of"], info["label"]) == (f"mean:{labels[0]} + {labels[2]}", f"mean of {labels[0]}, {labels[2]}")
    command[command.index(target)] = f"sglrp:{labels[0]}"
    assert cli.main(command) == 0
    assert json.loads(capsys.readouterr().out)["targets"][0]["label"] == f"{labels[0]} (SGLRP)"


MARGIN = """
from dataclasses import dataclass

from explainers.records.targets import AnyOf, add_target


@add_target
@dataclass(frozen=True)
class Margin(AnyOf):
    kind = "margin"
"""


def test_a_kind_that_a_file_of_the_folder_adds_is_asked_for_and_written_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """One file: no other one imports or exports it."""
    file = ModuleType("explainers.records.targets.margin")
    monkeypatch.setitem(sys.modules, file.__name__, file)
    try:
        exec(MARGIN, vars(file))
        code, modules = targets.python_code(parse_target("margin:Zebra", LABELS))
        assert (code, modules) == ('explainers.Margin("zebra")', {"explainers"})
        assert eval(code, {"explainers": explainers}) == file.Margin("zebra")
    finally:
        targets.TARGETS.pop("margin", None)
    with pytest.raises(AttributeError, match="no attribute 'Margin'"):
        _ = explainers.Margin


@pytest.mark.parametrize("kind", sorted(targets.TARGETS))
def test_every_kind_is_found_in_the_package(kind: str) -> None:
    target = targets.TARGETS[kind]
    if target.__module__.startswith("explainers."):
        assert getattr(explainers, target.__name__) is target


def test_no_other_file_knows_a_kind_of_target() -> None:
    """Outside ``records/targets/`` no module asks whether a target is a contrast or a probability."""
    asks = re.compile(r"isinstance\([^)]*\b(Contrast|Probability|AnyOf)\b")
    folder = ROOT / "explainers" / "records" / "targets"
    modules = [path for room in ("explainers", "server") for path in (ROOT / room).rglob("*.py") if not path.is_relative_to(folder)]
    assert modules
    assert not [str(path.relative_to(ROOT)) for path in modules if asks.search(path.read_text("utf-8"))]

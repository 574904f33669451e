"""The command line, as it is typed: what it prints, what it writes, and what it says when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explainers
from embedded.recipes import RECIPES
from explainers.models.catalogue import CATALOGUE
from server.cli import main
from server.names import file_stem, folder_names
from tests.conftest import ROOT

REVIEW = "A dull and lifeless film. The first hour is a mess, and the ending is even worse."
METHODS = ["rollout", "transformer_attribution", "fullgrad_plus:libra"]


@pytest.fixture(scope="session")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh scene with a zebra in it, as a JPEG file."""
    from embedded.recipes.scenes import render

    rng = np.random.default_rng(7)
    scene = next(scene for scene in (render(rng, 224) for _ in range(1000)) if "zebra" in [one.kind for one in scene.objects])
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    scene.image.save(path, quality=95)
    return path


def test_explain_writes_maps_and_numbers(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert (
        main(
            [
                "explain",
                str(photo),
                "--model",
                "scenes-vit",
                "--target",
                "zebra",
                "--methods",
                *METHODS,
                "--out",
                str(out),
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    result = json.loads((out / "result.json").read_text("utf-8"))

    expected = explainers.explain(explainers.load("scenes-vit"), photo, "zebra", METHODS)
    assert [target["label"] for target in result["targets"]] == ["zebra"]
    assert [one["method"] for one in result["maps"]] == METHODS
    for one in result["maps"]:
        picture, numbers = one["files"]
        assert one["method"] in printed
        with Image.open(out / picture) as image:
            assert min(image.size) >= 200
        scores = np.load(out / numbers)
        assert list(scores.shape) == one["grid"]
        same = expected[one["method"]]
        np.testing.assert_allclose(scores, same.scores[same.content].view(same.patches), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(scores.reshape(-1), one["scores"], rtol=1e-4, atol=1e-6)
    for target in result["top"]:
        assert f"{target['probability']:.1%}" in printed


def test_several_targets_get_a_folder_each(photo: Path, tmp_path: Path) -> None:
    arguments = [
        "explain",
        str(photo),
        "--target",
        "zebra",
        "--target",
        "1",
        "--methods",
        "fullgrad_plus:libra",
        "--out",
        str(tmp_path),
    ]
    assert main(arguments) == 0
    result = json.loads((tmp_path / "result.json").read_text("utf-8"))
    second = explainers.load("scenes-vit").labels[1]
    assert [target["label"] for target in result["targets"]] == ["zebra", second]
    maps = [np.load(tmp_path / one["files"][1]) for one in result["maps"]]
    assert result["maps"][0]["files"][1] == "zebra/fullgrad_plus-libra.npy"
    assert not np.allclose(maps[0], maps[1])


def test_prompts_go_to_clip(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(photo), "--prompt", "a zebra", "--prompt", "an elephant", "--methods", "rollout", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["model"] == "clip"
    assert [target["prompt"] for target in result["targets"]] == ["a zebra", "an elephant"]
    assert result["targets"][0]["logit"] > result["targets"][1]["logit"]


def test_two_texts_are_read_together(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--text", "A dull film.", "--text-pair", "It was bad.", "--methods", "rollout", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["input"]["text"], result["input"]["text_pair"]) == ("A dull film.", "It was bad.")
    assert [word["text"] for word in result["input"]["words"] if word["part"]] == ["It", "was", "bad", "."]
    assert main(["explain", str(photo), "--text-pair", "It was bad."]) == 2
    assert "second of two texts" in capsys.readouterr().err


def test_the_words_of_a_prompt_are_explained_on_the_text_side(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = "input_x_gradient:libra"
    assert main(["explain", str(photo), "--prompt", "a photo of a zebra", "--side", "text", "--methods", spec, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (read,), (shown,) = result["prompts"], result["maps"]
    scores = {word["text"]: sum(shown["scores"][i] for i in word["tokens"]) for word in read["words"]}
    assert set(scores) == {"a", "photo", "of", "zebra"}
    assert max(scores, key=lambda word: scores[word]) == "zebra"
    assert main(["explain", "--text", "A dull film.", "--side", "text"]) == 2
    assert "leave --side out" in capsys.readouterr().err


def test_a_text_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "review.txt"
    path.write_text(REVIEW, "utf-8")
    assert main(["explain", "--model", "reviews-bert", "--text-file", str(path), "--methods", "input_x_gradient:libra"]) == 0
    printed = capsys.readouterr().out
    expected = explainers.explain(explainers.load("reviews-bert"), REVIEW, methods=["input_x_gradient:libra"])
    strongest = max(expected.maps[0].words(), key=lambda word: abs(word.score))
    assert f"why {expected.target.label}?" in printed
    assert strongest.text in printed


def test_a_text_writes_pictures_too(tmp_path: Path) -> None:
    assert main(["explain", "--text", REVIEW, "--methods", "rollout", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "result.json").read_text("utf-8"))
    scores = np.load(tmp_path / "rollout.npy")
    assert len(scores) == len(result["input"]["tokens"])
    with Image.open(tmp_path / "rollout.png") as image:
        assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 10


def test_a_contrast_and_a_probability(capsys: pytest.CaptureFixture[str]) -> None:
    model = explainers.load("reviews-bert")
    one, other = model.labels
    command = ["explain", "--text", REVIEW, "--methods", "input_x_gradient:libra", "--json", "--target", one]
    logits = {}
    for extra in ([], ["--against", other], ["--probability"]):
        assert main([*command, *extra]) == 0
        logits[tuple(extra)] = json.loads(capsys.readouterr().out)
    plain, against, probability = (np.array(result["maps"][0]["scores"]) for result in logits.values())
    assert not np.allclose(plain, against)
    assert not np.allclose(plain, probability)
    said = [{key: result["targets"][0].get(key) for key in ("read", "of", "against")} for result in logits.values()]
    assert said == [
        {"read": "logit", "of": None, "against": None},
        {"read": "logit", "of": one, "against": other},
        {"read": "probability", "of": one, "against": None},
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "nothing to explain"),
        (["explain", "missing.jpg"], "there is no file missing.jpg"),
        (["explain", "photo.jpg", "--text", "a film"], "more than one thing to explain"),
        (["explain", "--text", "a film", "--model", "scenes-vit"], "looks at images"),
        (["explain", "photo.jpg", "--model", "reviews-bert"], "reads text"),
        (["explain", "photo.jpg", "--model", "clip"], "--prompt"),
        (["explain", "photo.jpg", "--model", "scenes-vit", "--prompt", "a zebra"], "--target"),
        (["explain", "photo.jpg", "--against", "zebra"], "--target"),
        (["explain", "photo.jpg", "--methods", "rollout?start_layer=99"], "a whole number from -"),
        (["explain", "photo.jpg", "--target", "zebre"], "zebra"),
        (["explain", "photo.jpg", "--methods", "rolout"], "rollout"),
        (["explain", "photo.jpg", "--methods", "rollout?start=1"], "start"),
        (["explain", "photo.jpg", "--model", "scenes-vot"], "scenes-vit"),
        (["explain", "broken.jpg"], "broken.jpg"),
        (["explain", "--text", "  "], "text"),
        (["explain", "photo.jpg", "--device", "nonsense"], "nonsense"),
        (["serve", "--port", "none"], "port"),
        (["serve", "--log-level", "shout"], "log_level"),
        (["serve", "--port", "0", "--device", "nonsense"], "nonsense"),
        (["serve", "--port", "0", "--home", "photo.jpg"], "photo.jpg"),
        (["train", "scenes-vat"], "scenes-vit"),
        (["dance"], "explain"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str],
    said: str,
    photo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(photo.read_bytes())
    Path("broken.jpg").write_bytes(photo.read_bytes()[:300])
    try:
        code = main(arguments)
    except SystemExit as leaving:  # argparse leaves by itself
        code = leaving.code
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("vitrine: ")
    assert said in lines[0]


def test_a_taken_port_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


def test_models_are_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    printed = capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == [entry.name for entry in CATALOGUE]
    assert all(entry.name in printed for entry in CATALOGUE)


def test_methods_are_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    specs = [variant.spec for variant in explainers.variants()]
    assert main(["methods", "--json"]) == 0
    assert [one["spec"] for one in json.loads(capsys.readouterr().out)] == specs
    assert main(["methods"]) == 0
    printed = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in printed] == specs


@pytest.mark.parametrize("columns", [80, 120])
def test_all_there_is_about_the_methods(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--all", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == list(explainers.METHODS)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["methods", "--all"]) == 0
    printed = capsys.readouterr().out
    assert columns - 20 < max(map(len, printed.splitlines())) <= columns
    sheets = [" ".join(sheet.split()) for sheet in printed.split("\n\n")]
    for sheet, one in zip(sheets, listed, strict=True):
        assert sheet.startswith(f"{one['name']} {one['title']} {one['description']} paper ")
        assert one["paper"] in sheet
        assert f"costs {one['passes']}" in sheet
        assert f"scores {'signed' if one['signed'] else 'unsigned'}, {'class-specific' if one['class_specific'] else 'the same'}" in sheet
        assert all(need in sheet for need in one["needs"].values())
        runs = [pair["rule"] for pair in one["pairs"] if pair["rule"] and pair["reason"] is None]
        assert ("rules " + (", ".join(runs) or "none")) in sheet
        for pair in one["pairs"]:
            if one["rules"] and pair["reason"]:
                assert pair["reason"].split(": ")[1].split(". ")[0] in sheet
        for option in one["options"]:
            assert f"{option['help']} ({option['allowed']})" in sheet
    assert "it is AttnLRP (Achtibat et al., 2024)" in next(sheet for sheet in sheets if sheet.startswith("input_x_gradient "))


def test_a_probability_names_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--text", REVIEW, "--probability", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    model = explainers.load("reviews-bert")
    assert result["targets"][0]["read"] == "probability"
    left_out = set(explainers.default_methods(model)) - set(result["methods"])
    assert "transformer_attribution" in left_out
    assert all(spec in result["notes"][-1] for spec in left_out)


def test_file_names_are_safe_and_different() -> None:
    specs = [variant.spec for variant in explainers.variants()]
    specs += [
        "rollout?start_layer=1",
        "rollout?start_layer=-1",
        "a?x=1&y=2",
        "a?x=1%26y=2",
        "a?x=1+y=2",
        "a?path=../../x",
    ]
    stems = [file_stem(spec) for spec in specs]
    assert len(set(stems)) == len(specs)
    assert not any(set(stem) & set('/\\:*?"<>| ') for stem in stems)
    assert file_stem("fullgrad_plus:libra") == "fullgrad_plus-libra"
    assert file_stem("rollout?start_layer=1") == "rollout+start_layer=1"


def test_folder_names_are_safe_and_different() -> None:
    assert folder_names(["a zebra", "A zebra!", "../etc", "???", "c++", "c"]) == [
        "a-zebra",
        "a-zebra-2",
        "etc",
        "target",
        "c",
        "c-2",
    ]


def test_help_needs_no_torch() -> None:
    code = "import sys; from server.cli import build_parser; build_parser(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_asked_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["train", name, "--help"])
    assert leaving.value.code == 0
    assert f"vitrine train {name}" in capsys.readouterr().out


def test_the_server_says_where_it_is_and_stops(tmp_path: Path) -> None:
    """``vitrine serve`` on a free port: it prints its address, answers there, and ends when interrupted."""
    import signal
    import urllib.request

    command = [sys.executable, "-m", "server.cli", "serve", "--port", "0", "--home", str(tmp_path), "--device", "cpu"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            line = next(line for line in server.stdout if "http://" in line)
            address = line.split()[3]
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as answer:
                assert answer.status == 200
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(240) == 0

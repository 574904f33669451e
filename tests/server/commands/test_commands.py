"""What the command line says when something is wrong."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest
from PIL import Image

from explainers.errors import ExplainerError
from vitrine_server.cli import main, run
from vitrine_server.commands import in_flags

#: A run of two scenes; what comes after it counts.
SCENES = ("--model", "scenes-vit", "--dataset", "scenes", "--methods", "random", "--limit", "2", "--device", "cpu", "--out", "run")


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
        (["deletion-test"], "nothing to explain"),
        (["probe", "no slot", "--group", "a=b", "--target", "positive"], "no slot"),
        (["probe", "{}", "--group", "a=b", "--group", "a=c", "--target", "positive"], "same name"),
        (["regions", "photo.jpg", "--out", "mask.txt"], ".png or .json"),
        (["interaction", "photo.jpg", "--prompt", "a zebra", "--out", "pairs.txt"], ".json or .npy"),
        (["interaction", "none.jpg", "--prompt", "a zebra"], "there is no file none.jpg"),
        (["alike", "photo.jpg", "none.jpg"], "there is no file none.jpg: give two image files, or two texts"),
        (["alike", "photo.jpg", "photo.jpg", "--model", "reviews-bert"], "reviews-bert compares texts"),
        (["regions", "photo.jpg", "--methods", "rollout", "attcat"], "give one method"),
        (["deletion-test", "photo.jpg", "--out", "curves.txt"], ".svg"),
        (["deletion-test", "photo.jpg", "--steps", "0", "--methods", "rollout"], "at least 1"),
        (["deletion-test", "photo.jpg", "--steps", "100000", "--methods", "rollout"], "at most 1000"),
        (["deletion-test", "photo.jpg", "--draws", "0"], "ask for 1 to 1000 random orders"),
        (
            ["regions", "photo.jpg", "--prompt", "a zebra", "--prompt", "an ant", "--methods", "rollout"],
            "the same for every prompt or class",
        ),
        (["regions", "photo.jpg", "--prompt", "a zebra", "--prompt", "a zebra"], "'a zebra' is there twice"),
        (["regions", "photo.jpg", "--model", "scenes-vit", "--target", "zebra", "--target", "Zebra"], "'zebra' is named twice"),
        (["regions"], "nothing to explain: give an image file"),
        (["regions", "photo.jpg", "--model", "reviews-bert"], "choose a model that looks at images"),
        (["explain", "masked"], "masked is a folder: give an image file"),
        (["explain", "photo.jpg", "--out", "photo.jpg"], "--out photo.jpg is a file: name a folder"),
        (["explain", "photo.jpg", "--out", "photo.jpg/out"], "cannot be made"),
        (["explain", "photo.jpg", "--out", "other"], "a result.json that 'vitrine explain' did not write"),
        (["explain", "--text-file", "masked"], "masked is a folder: give a text file"),
        (["explain", "photo.jpg", "--crop", "-5,0,100,100"], "'-5,0,100,100' does not name a part of the picture"),
        (
            ["explain", "--text", "a film", "--probability", "--methods", "transformer_attribution"],
            "explain the logit of the class instead",
        ),
        (["explain", "photo.jpg", "--methods", ""], "name at least one method, or leave methods out for the usual ones"),
        (["explain", "photo.jpg", "--prompt", ""], "write one, such as 'a photo of a zebra'"),
        (["explain", "photo.jpg", "--methods", "fullgrad_plus:lbra"], "did you mean libra"),
        (["deletion-test", "photo.jpg", "--out", "nowhere/x.png"], "there is no folder nowhere"),
        (["deletion-test", "photo.jpg", "--out", "folder.png"], "folder.png is a folder: name a file in it"),
        (["regions", "photo.jpg", "--out", "photo.jpg/x.png"], "photo.jpg is a file"),
        (["probe", "{}", "--group", "a=b", "--target", "positive", "--out", "nowhere/x.json"], "there is no folder nowhere"),
        (["summarise", "--texts", "nope.txt", "--out", "run"], "there is no file nope.txt"),
        (["summarise", "--texts", "masked", "--out", "run"], "masked is a folder: give a text file"),
        (["summarise", "photo.jpg", "--out", "photo.jpg"], "--out photo.jpg is a file: name a folder"),
        (["serve", "--port", "none"], "port"),
        (["serve", "--log-level", "shout"], "log_level"),
        (["serve", "--port", "0", "--device", "nonsense"], "nonsense"),
        (["serve", "--port", "0", "--home", "photo.jpg"], "photo.jpg"),
        (["dance"], "explain"),
        (["evaluate", *SCENES, "--metrics", "auac"], "it is for texts and molecules, and scenes holds images"),
        (["evaluate", *SCENES, "--metrics", "apx"], "did you mean ap"),
        (["evaluate", *SCENES, "--metrics", "all,grid_pointing"], "scenes gives no cell"),
        (["evaluate", *SCENES, "--methods", "rolout"], "rollout"),
        (["evaluate", *SCENES, "--methods", "rollout:libra"], "write rollout alone"),
        (["evaluate", *SCENES, "--limit", "0"], "at least 1 input"),
        (["evaluate", *SCENES, "--how", "burnt"], "choose removed, zeroed, painted, black"),
        (["evaluate", *SCENES, "--data", "."], "leave out --data"),
        (["evaluate", *SCENES, "--out", "photo.jpg"], "photo.jpg is a file: name a folder"),
        (["evaluate", *SCENES, "--out", "photo.jpg/run"], "No folder can be made at photo.jpg/run"),
        (["evaluate", *SCENES, "--out", "."], "holds other things than a run"),
        (["evaluate", *SCENES, "--workers", "2"], "--engine ray"),
        (["evaluate", *SCENES, "--dataset", "voc"], "Get it from http://host.robots.ox.ac.uk"),
        (["evaluate", *SCENES, "--dataset", "voc", "--data", "nowhere"], "There is no nowhere"),
        (["evaluate", *SCENES, "--dataset", "voc", "--data", "."], "lacks VOCdevkit/VOC2012"),
        (["evaluate", *SCENES, "--dataset", "sample-reviews"], "choose another data set"),
        (["evaluate", *SCENES, "--model", "reviews-bert", "--dataset", "texts", "--data", "photo.jpg"], "a .csv or a .jsonl file"),
        (["evaluate", *SCENES, "--dataset", "pictures", "--data", "masked", "--metrics", "ap"], "a mask has (3, 4) pixels"),
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
    Path("masked/masks").mkdir(parents=True)
    Path("folder.png").mkdir()
    Path("other").mkdir()
    Path("other/result.json").write_text('{"maps": [{"files": ["../photo.png"]}]}')
    Path("masked/photo.jpg").write_bytes(photo.read_bytes())
    Image.new("L", (4, 3)).save("masked/masks/photo.png")
    try:
        code = main(arguments)
    except SystemExit as leaving:  # argparse leaves by itself
        code = leaving.code
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("vitrine: ")
    assert said in lines[0]


@pytest.mark.parametrize("command", ["explain", "deletion-test", "summarise"])
def test_each_example_of_the_help_has_a_line_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    lines = capsys.readouterr().out.partition("Examples:\n")[2].splitlines()
    assert len(lines) >= 2
    assert all(line.startswith(f"  vitrine {command} ") or line.startswith("    ") for line in lines)


def test_regions_offer_no_texts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["regions", "--help"])
    shown = capsys.readouterr().out
    assert "--prompt" in shown
    assert not any(option in shown for option in ("--text", "--side", "--long-texts"))


@pytest.mark.parametrize(("told", "waiting"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_wait_asleep_unless_the_environment_says_otherwise(told: str | None, waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", told or "")  # so that it is as it was afterwards
    if told is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    seen: list[str] = []
    parser = argparse.ArgumentParser()
    parser.set_defaults(run=lambda args: seen.append(os.environ["OMP_WAIT_POLICY"]))
    monkeypatch.setattr("vitrine_server.cli.build_parser", lambda: parser)
    assert main([]) == 0
    assert seen == [waiting]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no chat template: leave chat= out", "no chat template: leave --chat out"),
        ("Put it around the prompt with chat=True.", "Put it around the prompt with --chat."),
        ("at='similar' compares with something", "--at similar compares with something"),
        ("choose batch_size=2", "choose --batch-size 2"),
        ("batch_size=-1.5 is no number of inputs.", "--batch-size -1.5 is no number of inputs."),
        ('pass them as labels=["a cat", "a remote"], please', 'pass them as --labels "a cat,a remote", please'),
        ("pass preprocess= to wrap", "pass preprocess= to wrap"),  # no option of the command
        ("input_x_gradient?at=pixels", "input_x_gradient?at=pixels"),  # a spec, as it is typed
    ],
)
def test_arguments_become_flags(message: str, said: str) -> None:
    assert in_flags(message, ("chat", "at", "batch_size", "labels")) == said


def test_a_refusal_speaks_of_the_flags_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: argparse.Namespace) -> None:
        raise ExplainerError("it has no chat template: leave chat= out")

    parser = argparse.ArgumentParser()
    parser.add_argument("--chat", action="store_true")
    parser.set_defaults(run=refuse)
    assert run(parser, ["--chat"]) == 2
    assert capsys.readouterr().err == "vitrine: it has no chat template: leave --chat out\n"

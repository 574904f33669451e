"""What the command line says when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from server.cli import main

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
        (["test"], "nothing to explain"),
        (["probe", "no slot", "--group", "a=b", "--target", "positive"], "no slot"),
        (["probe", "{}", "--group", "a=b", "--group", "a=c", "--target", "positive"], "same name"),
        (["regions", "photo.jpg", "--out", "mask.txt"], ".png or .json"),
        (["regions", "photo.jpg", "--methods", "rollout", "attcat"], "give one method"),
        (["test", "photo.jpg", "--out", "curves.txt"], ".svg"),
        (["test", "photo.jpg", "--steps", "0", "--methods", "rollout"], "at least 1"),
        (["serve", "--port", "none"], "port"),
        (["serve", "--log-level", "shout"], "log_level"),
        (["serve", "--port", "0", "--device", "nonsense"], "nonsense"),
        (["serve", "--port", "0", "--home", "photo.jpg"], "photo.jpg"),
        (["train", "scenes-vat"], "scenes-vit"),
        (["dance"], "explain"),
        (["evaluate", *SCENES, "--metrics", "auac"], "it is for texts, and scenes holds images"),
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

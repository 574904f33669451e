"""``vitrine explain``, as it is typed: what it prints and what it writes."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explainers
from explainers.models.companion_files.calibration import AbstentionThreshold, Calibration
from tests.explainers.support.explained import clip_model, picture
from tests.explainers.support.saved_models import save_timm
from tests.families import FAMILIES
from tests.support.vocabularies import whole_text_unigram
from vitrine_server.cli import main
from vitrine_server.commands import Listed
from vitrine_server.commands.one_input.explain import table
from vitrine_server.commands.one_input.regions import REGIONS_METHOD

REVIEW = "A dull and lifeless film. The first hour is a mess, and the ending is even worse."
METHODS = ["rollout", "transformer_attribution", "fullgrad_plus:libra"]


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
    assert (sentence := explainers.agreement_sentence(expected))
    assert sentence in printed


def test_a_set_of_methods_is_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--text", "a fine film", "--model", "reviews-bert", "--methods", "lrp-family", "rollout", "--json"]) == 0
    methods = [each["method"] for each in json.loads(capsys.readouterr().out)["maps"]]
    assert methods[-1] == "rollout"
    assert set(methods[:-1]) == {
        "lrp",
        "partial_lrp",
        "transformer_attribution",
        "input_x_gradient:conservative",
        "input_x_gradient:attnlrp",
    }


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
    second = explainers.load("photos-vit").labels[1]  # the model for photos, where none is named
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


def test_a_window_shows_greys_of_12_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan = tmp_path / "scan.png"
    Image.fromarray(np.linspace(0, 4095, 64 * 64).reshape(64, 64).astype(np.uint16)).save(scan)
    asked = ["explain", str(scan), "--model", "scenes-vit", "--methods", "rollout", "--json"]
    assert main([*asked, "--window", "1000,200"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["input"]["window"] == {"level": 1000, "width": 200, "source": "set"}
    expected = explainers.explain(explainers.load("scenes-vit"), explainers.WindowedPicture(scan, 1000, 200), None, ["rollout"])
    assert found["maps"][0]["scores"] == pytest.approx(expected.maps[0].to_json()["scores"], rel=1e-5)
    with pytest.raises(SystemExit):
        main([*asked, "--window", "20"])
    assert "give its level and its width, such as 40,400" in capsys.readouterr().err
    assert main(["explain", "--text", "a film", "--window", "5,5"]) != 0
    assert "--window is for images" in capsys.readouterr().err


def test_a_crop_is_what_the_model_sees(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", str(photo), "--model", "scenes-vit", "--methods", "rollout", "--json"]
    assert main([*asked, "--crop", "20,30,132,142"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["input"]["crop"] == found["input"]["frame"] == [20, 30, 132, 142]
    expected = explainers.explain(explainers.load("scenes-vit"), explainers.Crop(photo, (20, 30, 132, 142)), None, ["rollout"])
    assert found["maps"][0]["scores"] == pytest.approx(expected.maps[0].to_json()["scores"], rel=1e-5)
    assert main([*asked, "--crop", "20,30,400,142"]) != 0
    assert "does not lie in the picture, which is 224 x 224 pixels" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*asked, "--crop", "20,30"])
    assert "give four whole pixels x0,y0,x1,y1, such as 40,0,240,200" in capsys.readouterr().err
    assert main(["explain", "--text", "a film", "--crop", "0,0,5,5"]) != 0
    assert "--crop is for images" in capsys.readouterr().err


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


def test_weights_are_loaded_in_half_precision(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(photo), "--model", "scenes-vit", "--dtype", "bfloat16", "--methods", "rollout", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    assert found["precision"] == {"dtype": "bfloat16", "why": "The model's weights are bfloat16.", "rounding": None}


def test_double_precision_is_asked_for(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(photo), "--methods", "partial_lrp", "--precision", "double", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    assert found["precision"] == {"dtype": "float64", "why": "precision=double was asked for.", "rounding": None}


def test_a_text_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "review.txt"
    path.write_text(REVIEW, "utf-8")
    assert main(["explain", "--model", "reviews-bert", "--text-file", str(path), "--methods", "input_x_gradient:libra"]) == 0
    printed = capsys.readouterr().out
    expected = explainers.explain(explainers.load("reviews-bert"), REVIEW, methods=["input_x_gradient:libra"])
    strongest = max(expected.maps[0].words(), key=lambda word: abs(word.score))
    assert f"why {expected.target.label}?" in printed
    assert strongest.text in printed


def test_a_tokenizer_that_calls_the_text_one_word_names_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    FAMILIES["bert"].build().save_pretrained(tmp_path)
    whole_text_unigram().save_pretrained(tmp_path)
    command = ["explain", "--model", str(tmp_path), "--text", "a good film, not 好看", "--methods", "input_x_gradient:libra"]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    words = ["a", "good", "film,", "not", "好", "看"]
    assert [word["text"] for word in printed["input"]["words"]] == words
    assert main(command) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "input_x_gradient:libra" in line)
    assert len([part for part in row.split() if part.lstrip("+-") in words]) == 5


def test_maps_drawn_at_random_say_how_much_two_seeds_correlate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_timm(tmp_path)
    picture = tmp_path / "picture.png"
    Image.linear_gradient("L").convert("RGB").save(picture)
    command = ["explain", str(picture), "--model", str(tmp_path), "--methods", "rise?samples=12", "input_x_gradient"]
    assert main([*command, "--json"]) == 0
    drawn, exact = json.loads(capsys.readouterr().out)["maps"]
    assert "seed_correlation" not in exact
    assert main(command) == 0
    printed = capsys.readouterr().out.splitlines()
    row = next(line for line in printed if "rise?samples=12" in line)
    assert any("two seeds" in line for line in printed)
    assert f" {drawn['seed_correlation']:.2f} " in row
    if drawn["seed_correlation"] < 0.5:
        assert "This map is mostly noise" in row


def test_half_a_character_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--text", "a film \udcff", "--methods", "random"]) != 0
    assert "surrogate without its partner" in capsys.readouterr().err


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


def test_a_group_is_a_target_and_an_abstention_is_said_first(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_timm(tmp_path)
    line = {"score": "max_probability", "line": 1.1, "below": True, "measured": "On nothing: the model is random."}
    (tmp_path / "calibration.json").write_text(json.dumps({"lines": {"something_else": line}}))
    pets = ({"label": name, **({"group": "pet"} if name in ("cat", "dog") else {})} for name in ("ant", "bee", "cat", "dog", "eel"))
    (tmp_path / "labels.json").write_text(json.dumps(list(pets)))
    command = ["explain", str(photo), "--model", str(tmp_path), "--methods", "random", "--target", "any:pet"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert re.match(r"(ant|bee|cat|dog|eel)\? it may be something that the model does not know \(It may be none of the 5 things", printed)
    assert "why any pet?" in printed
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["targets"][0]["group"], document["abstention"]["line"]) == ("pet", 1.1)


@pytest.mark.parametrize(("line", "is_said"), [(1.01, True), (-1.01, False)])
def test_a_probability_of_prompts_that_were_not_found_is_no_certainty(line: float, is_said: bool) -> None:
    calibration = Calibration(1.0, (AbstentionThreshold("not_in_picture", "cosine", line, True, "On nothing."),))
    model = replace(clip_model(), calibration=calibration)
    result = explainers.explain(model, picture(), target=["a bad movie", "the plot"], methods="random")
    assert ("none of these was found for sure" in table(result)) == is_said


def test_a_probability_names_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--text", REVIEW, "--probability", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    model = explainers.load("reviews-bert")
    assert result["targets"][0]["read"] == "probability"
    left_out = set(explainers.default_methods(model)) - set(result["methods"])
    assert "transformer_attribution" in left_out
    assert all(spec in result["notes"][-1] for spec in left_out)


@pytest.mark.parametrize("given", [["rollout", "attcat:libra"], ["rollout,attcat:libra"], ["rollout,", "attcat:libra"]])
def test_methods_are_listed_with_spaces_or_commas(given: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", nargs="+", action=Listed)
    assert parser.parse_args(["--methods", *given]).methods == ["rollout", "attcat:libra"]


def test_maps_of_an_earlier_run_do_not_stay_beside_the_new_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", "--text", REVIEW, "--out", str(tmp_path)]
    assert main([*command, "--target", "positive", "--target", "negative", "--methods", "rollout", "input_x_gradient"]) == 0
    (tmp_path / "negative" / "note.txt").write_text("mine")
    assert "removed" not in capsys.readouterr().out
    assert main([*command, "--methods", "rollout"]) == 0
    printed = capsys.readouterr().out
    assert "2 files of maps next to it" in printed
    assert "removed 8 files of maps that an earlier run left there" in printed
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert there == {"result.json", "rollout.png", "rollout.npy", "negative/note.txt"}
    assert not (tmp_path / "positive").exists()
    assert main([*command, "--methods", "rollout", "--json"]) == 0
    assert "removed" not in capsys.readouterr().err


def test_a_molecule_is_explained_and_asked_for_where_it_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["explain", "--molecule", "c1ccccc1[N+](=O)[O-]", "--methods", "fullgrad_plus:libra", "--out", str(out)]) == 0
    assert "mutagenic" in capsys.readouterr().out
    result = json.loads((out / "result.json").read_text("utf-8"))
    assert result["model"] == "molecules"
    assert result["input"]["molecule"]["toxicophores"][0]["name"] == "aromatic nitro"
    with Image.open(out / result["maps"][0]["files"][0]) as drawn:
        assert drawn.size == (448, 341)
    assert main(["explain", "--text", "CCO", "--model", "molecules"]) == 2
    assert "molecules reads molecules: give --molecule SMILES" in capsys.readouterr().err
    assert main(["explain", "--molecule", "CCO", "--model", "reviews-bert"]) == 2
    assert "reviews-bert reads no molecules" in capsys.readouterr().err
    assert main(["explain", "--molecule", "C1CC"]) == 2
    assert "the ring that begins at character 2 is not closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("explain", [variant.spec for variant in explainers.variants() if variant.default]),
        ("regions", [REGIONS_METHOD]),
        ("sparse-interactions", ["random"]),
    ],
)
def test_the_help_names_the_methods_that_are_used_where_none_are(command: str, says: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = " ".join(capsys.readouterr().out.split())
    named = re.search(r"see 'vitrine methods' \(default: (.*?)\)", options)
    assert named is not None
    known = {variant.spec for variant in explainers.variants()}
    assert [word for word in re.findall(r"[\w:]+", named[1]) if word in known] == says

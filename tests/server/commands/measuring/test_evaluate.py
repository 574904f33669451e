"""``vitrine evaluate``: what it measures and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.explainers.support.made_up_datasets import made_up
from vitrine_server.cli import main


def test_evaluate_measures_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "--model", "scenes-vit", "--dataset", "scenes", "--methods", "random,rollout", "--metrics", "mif,ap,completeness"]
    assert main([*words, "--limit", "1", "--device", "cpu", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "rollout" in printed
    assert "ap %" in printed
    assert "–: no value: the method promises no sum" in printed
    report = json.loads((tmp_path / "run/report.json").read_text("utf-8"))
    assert report["command"].endswith("--methods random,rollout --metrics mif,ap,completeness --limit 1 --out DIR")
    assert str(tmp_path) not in json.dumps(report)
    assert main([*words, "--limit", "1", "--device", "cpu", "--out", str(tmp_path / "run"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["results"] == report["results"]
    assert again["seconds"] is None


def test_a_name_of_a_method_is_that_method_and_no_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "--model", "scenes-vit", "--dataset", "scenes", "--methods", "lrp", "--metrics", "ap", "--limit", "1"]
    assert main([*words, "--device", "cpu", "--out", str(tmp_path / "run"), "--json"]) == 0
    assert [method["spec"] for method in json.loads(capsys.readouterr().out)["methods"]] == ["lrp"]


def test_evaluate_with_defaults_reads_a_text_that_is_too_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "texts.csv"
    file.write_text(f"text,label\n{'A dull film without end. ' * 110},negative\n", "utf-8")  # 660 word pieces
    words = ["evaluate", "--model", "reviews-bert", "--dataset", "texts", "--data", str(file), "--methods", "random", "--device", "cpu"]
    assert main([*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["plan"]["long_texts"] == "cut"
    assert report["results"]["mif"]["random"]["inputs"] == 1
    assert "Texts longer than the model takes are cut" in (tmp_path / "run/report.html").read_text("utf-8")


def test_evaluate_says_which_split_is_read_and_which_files_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_up("coco", tmp_path)
    words = ["evaluate", "--model", "scenes-vit", "--methods", "random", "--metrics", "ap", "--device", "cpu", "--limit", "1"]
    assert main([*words, "--dataset", "coco", "--data", str(folder), "--split", "val2017", "--out", str(tmp_path / "run")]) == 0
    assert "1 input of val2017" in capsys.readouterr().out
    report = json.loads((tmp_path / "run/report.json").read_text("utf-8"))
    assert report["dataset"]["title"] == "COCO 2017, val2017"
    assert "--dataset coco --split val2017" in report["command"]
    assert main([*words, "--dataset", "coco", "--data", str(folder), "--split", "train2017", "--out", str(tmp_path / "other")]) == 2
    assert "instances_train2017.json" in capsys.readouterr().err
    pictures = made_up("pictures", tmp_path)
    (pictures / "notes.txt").write_text("nothing", "utf-8")
    assert main([*words, "--dataset", "pictures", "--data", str(pictures), "--out", str(tmp_path / "pictures-run")]) == 0
    printed = capsys.readouterr()
    assert "1 file in the folder of the data set not read: notes.txt" in printed.err
    assert "1 file in the folder of the data set not read" in printed.out


def test_evaluate_leaves_broken_inputs_out_where_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "texts.csv"
    file.write_text('text,label\nA dull film,negative\n"",positive\n', "utf-8")
    words = ["evaluate", "--model", "reviews-bert", "--dataset", "texts", "--data", str(file), "--methods", "random", "--device", "cpu"]
    words += ["--metrics", "class_correlation", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "Input 1 of texts cannot be measured: " in capsys.readouterr().err
    assert main([*words, "--skip-broken"]) == 0
    printed = capsys.readouterr().out
    assert "1 input; 1 broken and left out (number (1): A file of texts: texts.csv cannot be read: row 2 has no text" in printed
    report = json.loads((tmp_path / "run/report.json").read_text("utf-8"))
    assert report["command"].endswith("--data DIR --skip-broken --out DIR")


def test_a_typo_in_a_name_of_timm_is_one_line_with_near_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, near in (
        ("vit_tiny_patch16_224.augreg_in21k_ft_in1kk", "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"),
        ("vit_tinny_patch16_224.augreg_in21k_ft_in1k", "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"),
        ("resnet18.a1_in1k.x", "timm/resnet18.a1_in1k"),
    ):
        assert main(["evaluate", "--model", f"timm/{name}", "--dataset", "scenes", "--out", str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"no pretrained model '{name}'" in line
        assert near in line


def test_evaluate_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--model", "scenes-vit"]) == 2
    assert "--dataset, --out" in capsys.readouterr().err
    assert main(["evaluate", "--model", "scenes-vit", "--dataset", "voc", "--out", str(tmp_path)]) == 2
    assert "--data DIR" in capsys.readouterr().err
    assert main(["evaluate", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "imagenet-s" in printed
    assert "srg" in printed

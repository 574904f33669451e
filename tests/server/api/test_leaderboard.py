"""The calls behind the Leaderboard page."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Check, Sites
from tests.support.made_up_run import FIGURES, report, texts, write_run
from vitrine_server.run_reports import read_run_reports, shipped_folder


def own(document: Any) -> list[Any]:
    return [one for one in document["runs"] if not one["shipped"]]


def test_runs_are_those_of_the_named_folders(sites: Sites, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "My Run")
    write_run(tmp_path / "runs" / "other")
    alone = write_run(tmp_path / "alone", "photos-vit")
    with sites(runs=(str(tmp_path / "runs"), str(alone), str(tmp_path / "nothing"))) as site:
        document = site.get("/api/leaderboard")
    runs = own(document)
    assert [one["id"] for one in runs] == ["my-run", "other", "alone"]
    assert [one["plan"]["model"] for one in runs] == ["scenes-vit", "scenes-vit", "photos-vit"]
    assert "apart" not in runs[0]
    first = [run["plan"]["model"] for run in document["runs"][:3]]
    assert first == ["photos-vit", "clip", "reviews-bert"]  # those by which the pages rank, of photos before all
    assert runs[0]["results"]["mif"]["fullgrad:libra"]["value"] == FIGURES["fullgrad:libra"][0][0]
    assert [str(tmp_path / "nothing") in problem for problem in document["problems"]] == [True]


def test_each_metric_says_how_it_agrees_with_the_truth(sites: Sites, tmp_path: Path) -> None:
    write_run(tmp_path / "pictures")
    with sites(runs=(str(tmp_path),)) as site:
        document = site.get("/api/leaderboard")
    kinds = {metric["name"]: metric["kinds"] for metric in document["truth"]["metrics"]}
    for run in document["runs"]:
        for metric in run["metrics"]:
            assert metric["truth"] == kinds.get(metric["name"], {}).get(run["kind"])
    (mine,) = own(document)
    assert {metric["name"]: metric["truth"] for metric in mine["metrics"]}["mif"]["worlds"] == 3


def test_a_figure_has_examples(sites: Sites, refused: Check, tmp_path: Path) -> None:
    write_run(tmp_path / "pictures")
    write_run(tmp_path / "texts", of=texts())
    with sites(runs=(str(tmp_path),)) as site:
        found = site.get("/api/leaderboard/pictures/examples?metric=ap&method=fullgrad:libra")
        assert [one["place"] for one in found["best"] + found["worst"]] == [4, 5]
        assert (found["best"][0]["name"], found["best"][0]["value"]) == ("scene 4", 0.9)
        picture = site.client.get(found["best"][0]["image"])
        assert picture.headers["content-type"] == "image/png"
        assert picture.content.startswith(b"\x89PNG")
        words = site.get("/api/leaderboard/texts/examples?metric=ap&method=random")["best"][0]["words"]
        assert [one["text"] for one in words] == ["A", "lovely", "film"]
        assert words[1]["score"] == 1
        client = site.client
        assert "pictures" in refused(client.get("/api/leaderboard/picture/examples?metric=ap&method=random"), 404, "no-such-run")["send"]
        refused(client.get("/api/leaderboard/pictures/examples?metric=srg&method=random"), 404, "no-such-figure")
        refused(client.get("/api/leaderboard/pictures/map.png?method=random&place=9"), 404, "no-such-example")
        refused(client.get("/api/leaderboard/pictures/map.png?method=rolout&place=4"), 404, "no-such-example")


def test_a_run_without_examples_says_so(sites: Sites, refused: Check, tmp_path: Path) -> None:
    (write_run(tmp_path / "without") / "examples.json").unlink()
    (write_run(tmp_path / "broken") / "examples.json").write_text("{", "utf-8")
    with sites(runs=(str(tmp_path),)) as site:
        wanted = "examples?metric=ap&method=random"
        assert "--no-examples" in refused(site.client.get(f"/api/leaderboard/without/{wanted}"), 404, "no-examples")["send"]
        refused(site.client.get(f"/api/leaderboard/broken/{wanted}"), 422, "broken-examples")


def test_a_report_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "report.json").write_text("{", "utf-8")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "report.json").write_text(json.dumps({"format": 2, "plan": 0, "results": 0, "methods": 0, "metrics": 0}), "utf-8")
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "report.json").write_text("[]", "utf-8")
    write_run(tmp_path / "whole")
    found, wrong = read_run_reports([str(tmp_path)])
    assert [one.id for one in found if not one.shipped] == ["whole"]
    assert len(wrong) == 3
    assert any("format 2" in one for one in wrong)
    assert any("no report" in one for one in wrong)


@pytest.mark.parametrize("part", ["plan", "methods", "metrics", "results", "interval", "dataset"])
def test_a_damaged_report_is_named_and_spoils_no_page(sites: Sites, tmp_path: Path, part: str) -> None:
    for name, spoilt in (("gone", 0), ("empty", {}), ("strange", [{}])):
        document = report()
        if part == "results" and name == "strange":
            del document["results"]["ap"]["rollout"]["low"]
        else:
            document[part] = spoilt
        (write_run(tmp_path / "runs" / name) / "report.json").write_text(json.dumps(document), "utf-8")
    with sites(loaded=False, runs=(str(tmp_path / "runs"),)) as site:
        document = site.get("/api/leaderboard")
        assert not own(document)
        assert ["report.json is damaged" in problem for problem in document["problems"]] == [True] * 3
        assert site.client.get("/methods/rollout").status_code == 200


def test_what_ships_can_be_read() -> None:
    assert shipped_folder() is not None
    found, wrong = read_run_reports([])
    assert not wrong
    assert any(one.shows_inputs for one in found)
    for one in found:
        drawn = one.report["plan"]["dataset"].startswith("scenes")  # by us: photos and reviews may not be passed on
        assert one.shows_inputs == (drawn and not re.search("ablations|sanity|truth|black-box|claims", one.id))
        if one.shows_inputs:
            assert set(one.examples()["chosen"]) == set(one.report["results"])
        assert all(set(of_metric) == {method["spec"] for method in one.report["methods"]} for of_metric in one.report["results"].values())


def not_a_number(of: dict[str, Any]) -> None:
    of["results"]["mif"]["rollout"]["value"] = float("nan")


def a_word(of: dict[str, Any]) -> None:
    of["results"]["mif"]["rollout"]["value"] = "good"


def half_a_figure(of: dict[str, Any]) -> None:
    of["results"]["mif"]["another"] = {"value": 1.0}


def figures_in_a_row(of: dict[str, Any]) -> None:
    of["results"]["mif"] = [1, 2]


def methods_by_name(of: dict[str, Any]) -> None:
    of["methods"] = ["rollout"]


@pytest.mark.parametrize("damage", [not_a_number, a_word, half_a_figure, figures_in_a_row, methods_by_name])
def test_one_bad_report_breaks_no_other(sites: Sites, tmp_path: Path, damage: Callable[[dict[str, Any]], None]) -> None:
    write_run(tmp_path / "good")
    bad = report()
    damage(bad)
    (write_run(tmp_path / "bad") / "report.json").write_text(json.dumps(bad), "utf-8")
    with sites(runs=(str(tmp_path),), loaded=False) as site:
        document = site.get("/api/leaderboard")
        assert [run["id"] for run in own(document)] == ["good"]
        assert ["bad" in problem for problem in document["problems"]] == [True]
        assert site.client.get("/methods/rollout").status_code == 200


def test_names_that_cannot_be_encoded_break_no_list(sites: Sites, tmp_path: Path) -> None:
    """A title in a report is mended; a folder is named as well as it can be."""
    write_run(tmp_path / "good")
    odd = report()
    odd["dataset"]["title"] = "a\ud800b"
    (write_run(tmp_path / "odd") / "report.json").write_text(json.dumps(odd), "utf-8")
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "report.json").write_text("{", "utf-8")
    with sites(runs=(str(tmp_path),), loaded=False) as site:
        document = site.get("/api/leaderboard")
    assert [run["dataset"]["title"] for run in own(document)] == ["Scenes", "a�b"]
    assert len(document["problems"]) == 1

"""Collections that visitors begin: watched, stopped, gone on with, deleted; whose they are, and what of the data stays."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explainers
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.collecting import WANTED, begun, ended, packed, sent
from tests.server.support.gated_models import STEPS, GatedModels
from tests.support.made_up_collection import made_up_row, write_collection
from vitrine_server.jobs.runs.collecting import COLLECTING
from vitrine_server.services import Services

MANY = 150  # inputs: more than go through the model together


def listed(site: Site) -> list[str]:
    return [each["id"] for each in site.get("/api/collections")["collections"]]


def test_what_was_sent_stays_with_the_collection_until_it_is_deleted(sites: Sites, tmp_path: Path, refused: Check) -> None:
    pictures = packed({"my/zebra/a.png": png(), "my/dog/b.png": png(1), "my/masks/dog/b.png": png(2)})
    with sites() as site:
        name = begun(site, dataset=sent(site, "my.zip", pictures))
        now = ended(site, name)
        assert (now["state"], now["done"], now["title"]) == ("done", 2, "my.zip"), now
        assert listed(site) == [name]
        rows = site.get(f"/api/collections/{name}/rows?order=input")["rows"]
        assert [(row["input"], row["labels"]) for row in rows] == [("dog/b.png", ["dog"]), ("zebra/a.png", ["zebra"])]
        assert rows[0]["object_area"] is not None
        assert site.client.get(f"/api/collections/{name}/inputs/{rows[1]['index']}").content == png()
    with sites() as site:  # after a restart too, and when the data that was sent is forgotten
        shutil.rmtree(tmp_path / "home/run-data")
        assert site.client.get(f"/api/collections/{name}/inputs/{rows[1]['index']}").content == png()
        assert site.client.delete(f"/api/collections/{name}").status_code == 204
        assert listed(site) == []
        refused(site.client.get(f"/api/collections/{name}"), 404, "no-such-collection")
        assert not list((tmp_path / "home/collections").iterdir())


def test_texts_come_with_their_own_columns(sites: Sites) -> None:
    with sites() as site:
        data = sent(site, "films.csv", b"text,label,year\na fine film,positive,1999\na bad film,negative,2001\n")
        name = begun(site, model="reviews-bert", dataset=data)
        assert ended(site, name)["state"] == "done"
        rows = site.get(f"/api/collections/{name}/rows?column=year%3D2001")["rows"]
        assert [row["text"] for row in rows] == ["a bad film"]


def test_a_table_that_is_sent_names_no_files_of_this_machine(sites: Sites, tmp_path: Path, refused: Check) -> None:
    (tmp_path / "secret.png").write_bytes(png())
    with sites() as site:
        data = sent(site, "films.csv", f"text,label,path\na film,zebra,{tmp_path / 'secret.png'}\n".encode())
        answer = site.client.post("/api/collections", json={**WANTED, "model": "reviews-bert", "dataset": data})
        document = refused(answer, 422, "cannot-answer")
        assert "cannot name picture files" in document["detail"]
        assert str(tmp_path) not in str(document)


def test_one_that_was_stopped_goes_on_after_a_restart(sites: Sites, refused: Check) -> None:
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 0")
    with sites(models) as site:
        name = begun(site, limit=MANY)
        gate.wait()
        refused(site.client.post("/api/collections", json=WANTED | {"seed": 1}), 409, "run-going")
        site.client.post(f"/api/collections/{name}/stop")
        gate.open()
        now = ended(site, name)
        assert now["state"] == "stopped"
        assert listed(site) == []
    with sites() as site:
        before = site.get(f"/api/collections/{name}/progress")
        assert before["state"] == "stopped"
        assert site.client.post(f"/api/collections/{name}/again").status_code == 202
        after = ended(site, name)
        assert (after["state"], after["done"]) == ("done", MANY)
        assert site.get(f"/api/collections/{name}")["entry"]["is_own"]


def test_one_of_another_version_is_not_gone_on_with(sites: Sites, refused: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    with sites(GatedModels(errors={STEPS[0]: [explainers.ExplainerError("A picture is broken.")]})) as site:
        name = begun(site)
        assert ended(site, name)["state"] == "failed"
        monkeypatch.setattr("vitrine_server.jobs.runs.runs.engine_digest", lambda: "another")
        refused(site.client.post(f"/api/collections/{name}/again"), 409, "run-outdated")


def test_one_that_fails_says_why_and_may_go_on(sites: Sites) -> None:
    models = GatedModels(errors={STEPS[0]: [explainers.ExplainerError("A picture is broken.")]})
    with sites(models) as site:
        name = begun(site)
        now = ended(site, name)
        assert now["state"] == "failed"
        assert "broken" in now["problem"]["detail"]
        site.client.post(f"/api/collections/{name}/again")
        assert ended(site, name)["state"] == "done"


def test_it_is_the_visitors_own_alone(sites: Sites, refused: Check) -> None:
    with sites(visitors="apart", allow_runs=True) as site:
        name = begun(site)
        assert ended(site, name)["state"] == "done"
        site.client.cookies.clear()
        assert listed(site) == []
        for way in ("", "/rows", "/selection", "/points", "/slices", "/thumbnails/0.jpg", "/inputs/0"):
            refused(site.client.get(f"/api/collections/{name}{way}"), 404, "no-such-collection")
        for answer in (
            site.client.get(f"/api/collections/{name}/progress"),
            site.client.post(f"/api/collections/{name}/stop"),
            site.client.post(f"/api/collections/{name}/again"),
            site.client.delete(f"/api/collections/{name}"),
        ):
            refused(answer, 404, "no-run")


def test_those_that_the_operator_named_are_read_by_all_and_changed_by_none(sites: Sites, tmp_path: Path, refused: Check) -> None:
    write_collection(tmp_path / "named/photos", [made_up_row(0)])
    with sites(visitors="apart", allow_runs=True, collections=str(tmp_path / "named")) as site:
        for _ in range(2):
            site.client.cookies.clear()
            (name,) = listed(site)
            about = site.get(f"/api/collections/{name}")
            assert (about["entry"]["rows"], about["entry"]["is_own"]) == (1, False)
            refused(site.client.delete(f"/api/collections/{name}"), 404, "no-run")
            refused(site.client.post(f"/api/collections/{name}/stop"), 404, "no-run")


def test_a_running_one_that_is_deleted_is_stopped_first(sites: Sites, tmp_path: Path, refused: Check) -> None:
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 0")
    with sites(models) as site:
        name = begun(site, limit=MANY)
        gate.wait()
        services: Services = site.client.app.state.services  # type: ignore[attr-defined]
        study, over = services.collecting._runs[name].study, threading.Event()
        assert study is not None
        study.future.add_done_callback(lambda _: over.set())  # called after that which removes it
        assert site.client.delete(f"/api/collections/{name}").status_code == 204
        gate.open()
        assert over.wait(60)
        refused(site.client.get(f"/api/collections/{name}/progress"), 404, "no-run")
    assert not [path.name for path in (tmp_path / "home/collections").iterdir() if path.name.startswith(name)]


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"read_only": True}])
def test_where_runs_are_allowed_no_more_own_ones_are_read_and_not_deleted(sites: Sites, refused: Check, settings: dict[str, Any]) -> None:
    with sites(visitors="apart", allow_runs=True) as site:
        name = begun(site)
        assert ended(site, name)["state"] == "done"
        secret = site.client.cookies
    with sites(visitors="apart", **settings) as site:
        site.client.cookies = secret
        assert listed(site) == [name]
        assert site.get(f"/api/collections/{name}/rows")["total"] == 3
        for answer in (
            site.client.post("/api/collections", json=WANTED | {"seed": 1}),
            site.client.post(f"/api/collections/{name}/stop"),
            site.client.post(f"/api/collections/{name}/again"),
            site.client.delete(f"/api/collections/{name}"),
        ):
            assert answer.status_code == 403, answer.text


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"model": "scenes-vt"}, 404, "unknown-model"),
        ({"dataset": "sent/0123456789abcdef"}, 404, "data-gone"),
        ({"dataset": "sample-reviews"}, 422, "unsuitable-dataset"),
        ({"limit": 2001}, 422, "too-many-inputs"),
        ({"limit": 0}, 422, "invalid-request"),
        ({"methods": ["rolout"]}, 422, "cannot-answer"),
        ({"odd": 1}, 422, "invalid-request"),
    ],
)
def test_what_is_refused(site: Site, refused: Check, changes: dict[str, Any], status: int, kind: str) -> None:
    refused(site.client.post("/api/collections", json={**WANTED, **changes}), status, kind)


def test_few_are_kept(sites: Sites, refused: Check) -> None:
    assert 0 < COLLECTING.most_of_one < COLLECTING.most_kept <= 32
    with sites() as site:
        services: Services = site.client.app.state.services  # type: ignore[attr-defined]
        services.collecting.kind = replace(COLLECTING, most_of_one=1)
        assert ended(site, begun(site))["state"] == "done"
        refused(site.client.post("/api/collections", json=WANTED | {"seed": 1}), 429, "too-many-runs")


def test_where_runs_are_not_allowed_nothing_begins(sites: Sites, refused: Check) -> None:
    with sites(host="0.0.0.0") as site:
        assert site.get("/api/collections")["models"] == []
        refused(site.client.post("/api/collections", json=WANTED), 403, "runs-not-allowed")

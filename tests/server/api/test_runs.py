"""Runs that are begun, watched and stopped by the calls behind the Leaderboard page."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import explainers
from server.jobs.measuring import evaluate
from server.schemas.leaderboard import MOST_INPUTS
from server.services import Services
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import PATIENCE, STEPS, GatedModels

WANTED = {"model": "scenes-vit", "dataset": "scenes", "methods": [STEPS[0]], "metrics": ["mif", "ap"], "limit": 3}


def ended(site: Site) -> Any:
    """How the run stands once it has ended."""
    services: Services = site.client.app.state.services  # type: ignore[attr-defined]
    run = services.runs.current()
    assert run is not None
    with suppress(CancelledError):
        run.study.future.exception(PATIENCE)
    return site.get("/api/runs/current")


def begun(site: Site, **changes: Any) -> Any:
    answer = site.client.post("/api/runs", json={**WANTED, **changes})
    assert answer.status_code == 202, answer.text
    return answer.json()


def test_what_can_be_measured_without_a_download(site: Site) -> None:
    document = site.get("/api/runs")
    assert document["current"] is None
    assert document["most"] == MOST_INPUTS
    datasets = {model["name"]: {dataset["name"]: dataset for dataset in model["datasets"]} for model in document["models"]}
    assert list(datasets["scenes-vit"]) == ["scenes", "scenes-pairs", "scenes-mosaic", "sample-photos"]
    assert list(datasets["clip"]) == ["scenes", "scenes-pairs", "scenes-mosaic"]  # it needs names to compare pictures with
    assert list(datasets["reviews-bert"]) == ["sample-reviews"]
    metrics = [metric["name"] for metric in datasets["scenes-vit"]["scenes"]["metrics"]]
    assert "ap" in metrics
    assert "grid_pointing" not in metrics
    assert "ap" not in [metric["name"] for metric in datasets["scenes-vit"]["sample-photos"]["metrics"]]
    assert "default" in [preset["name"] for preset in document["sets"]]


def test_a_run_is_watched_to_its_end_and_is_on_the_leaderboard(sites: Sites) -> None:
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 1")
    with sites(models) as site:
        run = begun(site)
        gate.wait()
        now = site.get("/api/runs/current")
        assert (now["state"], now["done"], now["total"]) == ("running", 1, 3)
        assert isinstance(now["seconds_left"], float)
        assert now["methods"] == [STEPS[0]]
        gate.open()
        assert (ended(site)["state"], site.get("/api/runs")["current"]["done"]) == ("done", 3)
        assert run["id"] in [listed["id"] for listed in site.get("/api/leaderboard")["runs"]]


def test_a_run_that_was_stopped_goes_on_where_it_was(sites: Sites, refused: Check) -> None:
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 2")
    with sites(models) as site:
        refused(site.client.get("/api/runs/current"), 404, "no-run")
        refused(site.client.delete("/api/runs/current"), 404, "no-run")
        first = begun(site)
        gate.wait()
        assert first["id"] in refused(site.client.post("/api/runs", json=WANTED), 409, "run-going")["detail"]
        assert site.client.delete("/api/runs/current").status_code == 204
        gate.open()
        assert ended(site)["state"] == "stopped"
        refused(site.client.delete("/api/runs/current"), 404, "no-run")
        assert first["id"] not in [listed["id"] for listed in site.get("/api/leaderboard")["runs"]]
        models.calls.clear()
        assert begun(site)["id"] == first["id"]
        assert ended(site)["state"] == "done"
        assert models.calls.count(STEPS[0]) == 1


def test_a_run_that_waits_can_be_stopped(sites: Sites) -> None:
    models = GatedModels()
    gate = models.gate("forward")
    with sites(models) as site:
        site.ask(png(), methods="rollout")
        gate.wait()
        assert begun(site)["state"] == "waiting"
        site.client.delete("/api/runs/current")
        assert ended(site)["state"] == "stopped"
        gate.open()
        assert STEPS[0] not in models.calls


def test_a_run_that_fails_says_why(sites: Sites) -> None:
    models = GatedModels(errors={STEPS[0]: [explainers.ExplainerError("There is no method 'rolout'.")]})
    with sites(models) as site:
        begun(site)
        now = ended(site)
        assert now["state"] == "failed"
        assert "rolout" in now["problem"]["detail"]
        begun(site)  # the next one is not kept from beginning
        assert ended(site)["state"] == "done"


@pytest.mark.parametrize(
    ("changes", "status", "kind", "says"),
    [
        ({"model": "scenes-vt"}, 404, "unknown-model", "scenes-vit"),
        ({"model": "timm/listed"}, 404, "unknown-model", "vitrine evaluate"),
        ({"dataset": "imagenet"}, 422, "unknown-dataset", "vitrine evaluate"),
        ({"dataset": "sample-reviews"}, 422, "unknown-dataset", "scenes"),
        ({"metrics": ["grid_pointing"]}, 422, "unknown-metric", "pointing"),
        ({"limit": MOST_INPUTS + 1}, 422, "invalid-request", None),
        ({"methods": []}, 422, "invalid-request", None),
        ({"seed": 1}, 422, "invalid-request", None),
    ],
)
def test_what_cannot_be_measured_is_refused(
    site: Site, refused: Check, changes: dict[str, Any], status: int, kind: str, says: str | None
) -> None:
    problem = refused(site.client.post("/api/runs", json={**WANTED, **changes}), status, kind)
    assert says is None or says in problem["send"]


def test_the_engine_measures_and_goes_on(tmp_path: Path) -> None:
    """The real engine, on a real model."""
    model = explainers.load("scenes-vit", "cpu")
    wanted = {"dataset": "scenes", "methods": ["rollout", "random"], "metrics": ["ap", "srg"], "limit": 3}
    told: list[int] = []

    def tell(done: int, total: int) -> None:
        assert total == 3
        told.append(done)

    asked = 0

    def cancelled() -> bool:  # in the midst of the second input
        nonlocal asked
        asked += told[-1:] == [1]
        return asked > 2

    assert not evaluate(model, wanted, tmp_path / "run", tell, cancelled)
    assert told == [0, 1]
    assert evaluate(model, wanted, tmp_path / "run", tell, lambda: False)
    assert told == [0, 1, 1, 2, 3]
    assert (tmp_path / "run" / "report.html").is_file()

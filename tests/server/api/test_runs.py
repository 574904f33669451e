"""Runs that are begun, watched, stopped, gone on with and removed by the calls behind the Leaderboard page; the data sets that are sent."""

from __future__ import annotations

import io
import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explainers
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import PATIENCE, STEPS, Gate, GatedModels
from tests.support.made_up_run import report, write_run
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.runs import runs
from vitrine_server.jobs.runs.data_sources import DataSource
from vitrine_server.jobs.runs.measuring import check, evaluate
from vitrine_server.schemas.runs import RunRequest
from vitrine_server.services import Services

WANTED = {"model": "scenes-vit", "dataset": "scenes", "methods": [STEPS[0]], "metrics": ["mif", "ap"], "limit": 3}
OTHER = Visitor("another", "another")
TEXTS = b"text,label\nA fine film,positive\nA bad film,negative\n"


def services_of(site: Site) -> Services:
    services: Services = site.client.app.state.services  # type: ignore[attr-defined]
    return services


def ended(site: Site, run_id: str) -> Any:
    """How a run stands once it has ended."""
    events = site.events(f"/api/runs/{run_id}/events")
    assert events[-1][1] == "ended"
    return site.get(f"/api/runs/{run_id}")


def begun(site: Site, **changes: Any) -> Any:
    answer = site.client.post("/api/runs", json={**WANTED, **changes})
    assert answer.status_code == 202, answer.text
    return answer.json()


def packed(files: dict[str, bytes]) -> bytes:
    """A zip of files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def sent(site: Site, name: str, content: bytes) -> Any:
    return site.client.post("/api/runs/data", params={"name": name}, content=content)


def begun_by_another(site: Site, gate: Gate) -> str:
    """Another visitor's run, begun while the worker is at a gate: it is checked as soon as the gate is open."""
    services = services_of(site)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(services.runs.begin, RunRequest(**{**WANTED, "methods": [STEPS[1]]}), OTHER)
        with services.worker.change:
            assert services.worker.change.wait_for(lambda: services.worker._queue.studies, PATIENCE)
        gate.open()
        return run.result(PATIENCE).id


def on_board(site: Site) -> dict[str, bool]:
    return {listed["id"]: listed["begun_here"] for listed in site.get("/api/leaderboard")["runs"]}


def test_what_can_be_measured_says_why_where_it_cannot(site: Site) -> None:
    document = site.get("/api/runs")
    assert document["runs"] == []
    assert (document["most"], document["most_mb"]) == (2000, 200)
    datasets = {model["name"]: {dataset["name"]: dataset for dataset in model["datasets"]} for model in document["models"]}
    assert list(datasets) == ["scenes-vit", "clip", "reviews-bert"]  # those that are loaded

    def suitable(model: str) -> list[str]:
        return [name for name, dataset in datasets[model].items() if dataset["reason"] is None]

    made_up = ["scenes", "scenes-pairs", "scenes-parts", "scenes-mosaic", "marked-scenes", "votes"]
    assert suitable("scenes-vit") == [*made_up, "sample-photos"]
    assert suitable("clip") == made_up
    assert "names no classes" in datasets["clip"]["sample-photos"]["reason"]
    assert suitable("reviews-bert") == ["sample-reviews"]
    assert "a model of the task fill-mask" in datasets["reviews-bert"]["subject-verb"]["reason"]
    assert datasets["scenes-vit"]["scenes"]["gives"][:2] == ["classes", "masks of objects"]
    assert "default" in [preset["name"] for preset in document["sets"]]


def test_what_a_model_and_a_data_set_leave_to_choose(site: Site, refused: Check) -> None:
    scenes = site.get("/api/runs/choices?model=scenes-vit&dataset=scenes")
    metrics = {metric["name"]: metric for metric in scenes["metrics"]}
    assert metrics["ap"]["reason"] is None
    assert metrics["ap"]["needs"] == ["masks of objects"]
    assert "gives no cell" in metrics["grid_pointing"]["reason"]
    assert "auprc" not in metrics  # which is for texts
    assert [choice["value"] for choice in scenes["options"]["how"]] == [None, "removed", "zeroed", "painted", "black"]
    photos = site.get("/api/runs/choices?model=scenes-vit&dataset=sample-photos")
    reasons = {choice["value"]: choice["reason"] for choice in photos["options"]["target"]}
    assert reasons["predicted"] is None
    assert reasons["gold"] is None or "names no classes" in reasons["gold"]
    reviews = site.get("/api/runs/choices?model=reviews-bert&dataset=sample-reviews")
    assert "resize" not in reviews["options"]
    assert [choice["value"] for choice in reviews["options"]["long_texts"]] == [None, "windows", "cut"]
    sends = refused(site.client.get("/api/runs/choices?model=clip&dataset=sample-reviews"), 422, "unsuitable-dataset")["send"]
    assert "scenes" in sends


def test_a_protocol_fills_the_fields_of_a_run(site: Site) -> None:
    """Each entry is a request that the schema takes; a protocol of several targets has an entry each."""
    protocols = site.get("/api/runs/choices?model=scenes-vit&dataset=scenes")["protocols"]
    for form in protocols:
        RunRequest(model="scenes-vit", dataset="scenes", **form["options"], **{key: form[key] for key in ("methods", "metrics", "limit")})
    chefer = [form for form in protocols if form["name"].startswith("chefer-table1")]
    assert [(form["options"]["target"], form["options"]["resize"], form["options"]["right"]) for form in chefer] == [
        ("predicted", "squashed", "first"),
        ("gold", "squashed", "first"),
    ]
    assert chefer[0]["metrics"] == ["negative_auc", "positive_auc"]
    libra = [form for form in protocols if form["name"].startswith("libragrad-mif")]
    assert {form["options"]["explains"] for form in libra} == {"probability", "logit"}  # rules of relevance start from a logit
    reviews = site.get("/api/runs/choices?model=reviews-bert&dataset=sample-reviews")["protocols"]
    ali = next(form for form in reviews if form["name"] == "ali-sst2")
    assert ali["options"]["long_texts"] == "cut"
    assert ali["left_out"] == []
    assert not any(form["name"].startswith("chefer-table1") for form in reviews)
    entry = services_of(site).registry.find("reviews-bert")
    assert entry.facts is not None
    refused_pair = {"reason": "No attention."}
    without = [{**method, "pairs": [refused_pair]} if method["name"] == "raw_attention" else method for method in entry.facts.methods]
    entry.facts = replace(entry.facts, methods=tuple(without))
    reviews = site.get("/api/runs/choices?model=reviews-bert&dataset=sample-reviews")["protocols"]
    ali = next(form for form in reviews if form["name"] == "ali-sst2")
    assert ali["left_out"] == ["raw_attention?row=mean: No attention."]
    assert "raw_attention?row=mean" not in ali["methods"]


def test_a_run_is_watched_to_its_end_and_is_on_the_leaderboard(sites: Sites) -> None:
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 1")
    with sites(models) as site:
        run = begun(site)
        gate.wait()
        now = site.get(f"/api/runs/{run['id']}")
        assert (now["state"], now["done"], now["total"]) == ("running", 1, 3)
        assert isinstance(now["seconds_left"], float)
        assert now["methods"] == [STEPS[0]]
        gate.open()
        assert (ended(site, run["id"])["state"], site.get("/api/runs")["runs"][0]["done"]) == ("done", 3)
        assert on_board(site)[run["id"]]
        assert sum(on_board(site).values()) == 1
        assert site.client.delete(f"/api/runs/{run['id']}").status_code == 204
        assert run["id"] not in on_board(site)
        assert site.get("/api/runs")["runs"] == []


def test_a_run_says_how_long_it_will_take_before_it_begins(sites: Sites, tmp_path: Path, refused: Check) -> None:
    """By an earlier run of the model, and while its first input is measured too."""
    document = report()
    document["methods"].append({"spec": STEPS[0], "title": "Made up", "by": "", "year": None, "signed": True})
    for figures in document["results"].values():
        figures[STEPS[0]] = figures["random"]
    document["apart"] = {name: [[1.0] * 4] * 4 for name in document["apart"]}
    document |= {"seconds": 280.0, "inputs": 7}  # 10 s a map
    (write_run(tmp_path / "runs" / "mine") / "report.json").write_text(json.dumps(document), "utf-8")
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 0")
    with sites(models, runs=(str(tmp_path / "runs"),)) as site:
        time = site.client.post("/api/runs/time", json=WANTED).json()
        assert time == {"seconds": 30.0, "methods": 1, "runs": ["mine"]}
        several = site.client.post("/api/runs/time", json={**WANTED, "methods": [STEPS[0], STEPS[0], "made-up"]}).json()
        assert (several["seconds"], several["methods"]) == (60.0, 2)  # one that nobody measured counts like the others
        refused(site.client.post("/api/runs/time", json={**WANTED, "model": "nobody"}), 404, "unknown-model")
        run = begun(site)
        gate.wait()
        now = site.get(f"/api/runs/{run['id']}")
        assert (now["done"], now["total"]) == (0, 3)
        assert 0 < now["seconds_left"] <= 30
        gate.open()
        assert ended(site, run["id"])["seconds_left"] is None


def test_a_run_that_was_stopped_goes_on_where_it_was_after_a_restart(sites: Sites, refused: Check) -> None:
    models = GatedModels()
    gate = models.gate(f"{STEPS[0]} 2")
    with sites(models) as site:
        refused(site.client.get("/api/runs/none"), 404, "no-run")
        first = begun(site)["id"]
        gate.wait()
        assert first in refused(site.client.post("/api/runs", json=WANTED), 409, "run-going")["detail"]
        assert site.client.post(f"/api/runs/{first}/stop").status_code == 204
        gate.open()
        assert ended(site, first)["state"] == "stopped"
        refused(site.client.post(f"/api/runs/{first}/stop"), 409, "run-over")
        assert first not in on_board(site)
    models = GatedModels()
    with sites(models) as site:
        kept = site.get(f"/api/runs/{first}")
        assert (kept["state"], kept["done"], kept["total"]) == ("stopped", 2, 3)
        assert site.client.post(f"/api/runs/{first}/again").status_code == 202
        assert ended(site, first)["state"] == "done"
        assert models.calls.count(STEPS[0]) == 1


def test_a_run_that_waits_can_be_stopped(sites: Sites) -> None:
    models = GatedModels()
    with sites(models) as site:
        gate, later = models.gate(f"{STEPS[0]} 0"), models.gate(f"{STEPS[0]} 1")
        first = begun(site)["id"]
        gate.wait()
        second = begun_by_another(site, gate)
        controller = services_of(site).runs
        assert controller.find(second, OTHER).state == "waiting"
        controller.stop(second, OTHER)
        assert ended(site, second)["state"] == "stopped"
        later.open()
        assert ended(site, first)["state"] == "done"


def test_runs_of_two_people_take_turns(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "TURN_SECONDS", 0.0)
    models = GatedModels()
    gate, later = models.gate(f"{STEPS[0]} 0"), models.gate(f"{STEPS[0]} 1")
    with sites(models) as site:
        first = begun(site)["id"]
        gate.wait()
        second = begun_by_another(site, gate)
        later.open()
        assert ended(site, first)["state"] == ended(site, second)["state"] == "done"
    # each lets the other go on after an input; the first after its first, or, where the second came later, after its second
    order = "".join(str(STEPS.index(call)) for call in models.calls if call in STEPS)
    assert order in ("010101", "001011")


def test_a_run_that_fails_says_why(sites: Sites, refused: Check) -> None:
    models = GatedModels(errors={STEPS[0]: [explainers.ExplainerError("A picture is broken.")]})
    with sites(models) as site:
        run = begun(site)["id"]
        now = ended(site, run)
        assert now["state"] == "failed"
        assert "broken" in now["problem"]["detail"]
        site.client.post(f"/api/runs/{run}/again")
        assert ended(site, run)["state"] == "done"
        unknown = refused(site.client.post("/api/runs", json={**WANTED, "methods": ["rolout"]}), 422, "cannot-answer")
        assert "rollout" in unknown["detail"]


@pytest.mark.parametrize(
    ("changes", "status", "kind", "says"),
    [
        ({"model": "scenes-vt"}, 404, "unknown-model", "scenes-vit"),
        ({"model": "timm/listed"}, 409, "model-not-loaded", "POST /api/models"),
        ({"dataset": "imagenet"}, 404, "unknown-dataset", "vitrine evaluate"),
        ({"dataset": "sample-reviews"}, 422, "unsuitable-dataset", "scenes"),
        ({"dataset": "sent/0123456789abcdef"}, 404, "data-gone", "same file"),
        ({"limit": 2001}, 422, "too-many-inputs", "vitrine evaluate"),
        ({"methods": []}, 422, "invalid-request", None),
        ({"steps": 1}, 422, "invalid-request", None),
        ({"target": "third"}, 422, "invalid-request", None),
    ],
)
def test_what_cannot_be_measured_is_refused(
    site: Site, refused: Check, changes: dict[str, Any], status: int, kind: str, says: str | None
) -> None:
    problem = refused(site.client.post("/api/runs", json={**WANTED, **changes}), status, kind)
    assert says is None or says in problem["send"]


def test_folders_that_the_operator_named_are_offered_without_their_paths(sites: Sites, tmp_path: Path, logged: list[Any]) -> None:
    folder = tmp_path / "secret" / "mine"
    (folder / "zebra").mkdir(parents=True)
    (folder / "zebra" / "one.png").write_bytes(png())
    named = (f"pictures={folder}", f"imagenet={tmp_path / 'nowhere'}", f"imagnet={folder}")
    with sites(datasets=named) as site:
        datasets = {dataset["name"]: dataset for dataset in site.get("/api/runs")["models"][0]["datasets"]}
        assert datasets["pictures"]["gives"] == ["classes"]
        assert (datasets["pictures"]["inputs"], datasets["pictures"]["shipped"]) == (1, False)
        assert "imagenet" not in datasets
        reasons = {m["name"]: m["reason"] for m in site.get("/api/runs/choices?model=scenes-vit&dataset=pictures")["metrics"]}
        assert "gives no mask" in reasons["ap"]
        answers = [site.client.get(path).text for path in ("/api/runs", "/api/runs/choices?model=scenes-vit&dataset=pictures")]
        assert not any("secret" in answer for answer in answers)
    said = [record.getMessage() for record in logged if "is not offered" in record.getMessage()]
    assert ["nowhere" in said[0], "Did you mean imagenet" in said[1]] == [True, True]


def test_a_data_set_that_is_sent_is_kept_until_its_run_is_done(sites: Sites, tmp_path: Path) -> None:
    pictures = packed({"my/zebra/a.png": png(), "my/dog/b.png": png(1), "my/masks/dog/b.png": png(2), "my/notes.txt": b"x"})
    kept = tmp_path / "home" / "run-data"
    models = GatedModels(errors={STEPS[0]: [explainers.ExplainerError("It stops here.")]})
    with sites(models) as site:
        about = sent(site, "my.zip", pictures).json()
        assert (about["title"], about["inputs"], about["gives"]) == ("my.zip", 2, ["classes", "masks of objects"])
        assert sent(site, "again.zip", pictures).json()["name"] == about["name"]
        assert [path.name for path in kept.iterdir()] == [about["name"].removeprefix("sent/")]
        run = begun(site, dataset=about["name"], metrics=["ap"])["id"]
        assert ended(site, run)["state"] == "failed"
        assert list(kept.iterdir())  # the run may go on
        site.client.post(f"/api/runs/{run}/again")
        assert ended(site, run)["state"] == "done"
        assert on_board(site)[run]
        assert not list(kept.iterdir())
        texts = sent(site, "C:\\films.csv", TEXTS).json()
        assert (texts["title"], texts["inputs"], texts["gives"]) == ("films.csv", 2, ["classes"])
        models.errors[STEPS[0]] = [explainers.ExplainerError("It stops here.")]
        run = begun(site, model="reviews-bert", dataset=texts["name"], metrics=["mif"])["id"]
        assert ended(site, run)["state"] == "failed"
        site.client.delete(f"/api/runs/{run}")
        assert not list(kept.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "status", "kind"),
    [
        ("photo.png", png(), 415, "unknown-data"),
        ("a.zip", b"", 422, "empty-file"),
        ("a.zip", b"no zip", 422, "broken-zip"),
        ("a.zip", packed({"../a.png": png()}), 422, "unsafe-name"),
        ("a.zip", packed({"notes.txt": b"x"}), 422, "no-pictures"),
        ("a.zip", packed({f"{n}.png": b"" for n in range(9)}), 413, "too-many-inputs"),
        ("a.zip", packed({"bomb.png": bytes(60_000)}), 413, "data-too-large"),
        ("a.zip", packed({"wide.png": png(size=(101, 100))}), 413, "too-many-pixels"),
        ("a.csv", b"text\n" + b"word\n" * 5, 413, "too-many-inputs"),
        ("a.csv", b"words\nA film\n", 422, "broken-data"),
        ("a.jsonl", b'{"text": ""}\n', 422, "broken-data"),
        ("a.jsonl", json.dumps({"text": "long " * 100}).encode(), 413, "text-too-long"),
        ("a.csv", b"x" * 60_000, 413, "data-too-large"),
    ],
)
def test_what_cannot_be_taken_in_is_refused_and_nothing_of_it_stays(
    sites: Sites, refused: Check, tmp_path: Path, name: str, content: bytes, status: int, kind: str
) -> None:
    with sites(loaded=False, max_run_inputs=4, max_data_mb=0.05, max_megapixels=0.01, max_text_chars=100) as site:
        problem = refused(sent(site, name, content), status, kind)
        assert str(tmp_path) not in json.dumps(problem)
    assert not list((tmp_path / "home" / "run-data").glob("*"))


def test_the_engine_measures_and_goes_on(tmp_path: Path) -> None:
    """The real engine, on a real model; what it refuses names no path."""
    model = explainers.load("scenes-vit", "cpu")
    request = RunRequest(model="scenes-vit", dataset="scenes", methods=["rollout", "random"], metrics=["ap", "srg"], limit=3)
    wanted = {**request.model_dump(), "examples": True, "source": DataSource("scenes", "scenes").to_json()}
    told: list[int] = []

    def tell(done: int, total: int) -> None:
        assert total == 3
        told.append(done)

    asked = 0

    def cancelled() -> bool:  # in the midst of the second input
        nonlocal asked
        asked += told[-1:] == [1]
        return asked > 2

    assert check(model, wanted)["methods"] == ["rollout", "random"]
    assert not evaluate(model, wanted, tmp_path / "run", tell, cancelled)
    assert told == [0, 1]
    assert evaluate(model, wanted, tmp_path / "run", tell, lambda: False)
    assert told == [0, 1, 1, 2, 3]
    assert (tmp_path / "run" / "report.html").is_file()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "broken.png").write_bytes(b"no picture")
    broken = {**wanted, "metrics": ["srg"], "source": DataSource("pictures", "pictures", tmp_path / "mine").to_json()}
    with pytest.raises(explainers.ExplainerError, match=r"broken\.png") as refusal:
        evaluate(model, broken, tmp_path / "other", lambda *_: None, lambda: False)
    assert str(tmp_path) not in str(refusal.value)
    with pytest.raises(explainers.ExplainerError, match="gives no mask"):
        check(model, {**broken, "metrics": ["ap"]})


def test_data_makes_room_and_a_run_goes_on_once_the_same_is_sent_again(sites: Sites, refused: Check) -> None:
    models = GatedModels(errors={STEPS[0]: [explainers.ExplainerError("It stops here.")]})
    with sites(models) as site:
        first = sent(site, "films.csv", TEXTS).json()["name"]
        run = begun(site, model="reviews-bert", dataset=first, metrics=["mif"])["id"]
        assert ended(site, run)["state"] == "failed"
        others = [sent(site, "more.csv", TEXTS + b"Dull %d,negative\n" % number).json()["name"] for number in range(8)]
        address = "/api/runs/choices?model=reviews-bert&dataset="
        assert site.client.get(address + first).status_code == 200  # which a run needs
        refused(site.client.get(address + others[0]), 404, "data-gone")
        for name in others[1:]:
            services_of(site).sent_data.forget(name)
        services_of(site).sent_data.forget(first)
        assert "same file" in refused(site.client.post(f"/api/runs/{run}/again"), 404, "data-gone")["send"]
        assert sent(site, "films.csv", TEXTS).json()["name"] == first
        site.client.post(f"/api/runs/{run}/again")
        assert ended(site, run)["state"] == "done"

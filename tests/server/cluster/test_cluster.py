"""Explanations over several processes that share a store, without Ray: over HTTP all is as on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sqlalchemy import text

from explainers.errors import NotInstalledError
from explainers.models.memory import bytes_of_weights, total_memory
from tests.server.cluster.conftest import Begin
from tests.server.conftest import EMBEDDED, Check, Sites, png, without_seconds
from tests.server.support.gated_models import MAKES, SLOW_STEP, STEPS, image_model
from tests.server.support.hostile import until

pytestmark = pytest.mark.usefixtures("alone_on_machine")


def test_any_process_answers_for_any_explanation_as_one_server_does(cluster: Begin, sites: Sites, tmp_path: Path) -> None:
    questions: list[dict[str, Any]] = [
        {"image": png(1), "target": ["dog", "zebra"], "methods": ["random", "rollout"], "crop": "2,3,30,31"},
        {"model": "clip", "image": png(2), "prompt": ["a dog", "a cat"]},
        {"model": "reviews-bert", "text": "a dull film", "long_texts": "cut"},
    ]
    begun = cluster()
    here, there = begun.sites
    made = [here.ask(**question).json()["id"] for question in questions]
    stories = [there.events(f"/api/explanations/{one}/events") for one in made]
    documents = [there.get(f"/api/explanations/{one}") for one in made]
    assert [there.ask(**question).json()["id"] for question in questions] == made  # what one has made, all know
    assert here.ask(png(9), wait=True).json()["state"] == "done"
    for one, document, story in zip(made, documents, stories, strict=True):
        names = [name for _, name, _ in story]
        assert names[names.index("started") :] == ["started", *["method"] * len(document["maps"]), "done"]
        told = [data for _, name, data in story if name == "method"]
        assert [document["maps"][place] for place in document.get("made", range(len(told)))] == told
        after = there.events(f"/api/explanations/{one}/events", last_event_id=1)
        assert after == [entry for entry in story if entry[0] > 1]
    study = there.client.post(f"/api/explanations/{made[0]}/layers", json={"target": "dog"})
    assert study.status_code == 200, study.text
    wrong = there.client.post(f"/api/explanations/{made[0]}/layers", json={"target": "cow"})
    assert wrong.status_code in (404, 422), wrong.text
    single = Sites(tmp_path / "single")
    with single() as site:
        alone = [site.ask(**question, wait=True).json() for question in questions]
    assert [without_seconds(document) for document in documents] == [without_seconds(document) for document in alone]


def test_what_a_process_had_that_is_gone_is_made_by_another_once(cluster: Begin) -> None:
    begun = cluster()
    here, there = begun.sites
    gate = begun.models.gate("forward 0")
    one = here.ask(png(1), methods=STEPS[:2]).json()["id"]
    gate.wait()
    with begun.database.begin(writes=False) as db:
        name = db.execute(text("SELECT claimed_by FROM explanations")).scalar_one()
    lost = next(replica for replica in begun.direct.replicas if replica._store.name == name)
    begun.gone(lost)
    document = there.finish(one)
    assert (document["state"], len(document["maps"])) == ("done", 2)
    gate.open()  # the first one was only held up, and writes what it has made
    until(lambda: not lost.worker.live(), "it has finished")
    assert there.get(f"/api/explanations/{one}") == document
    with begun.database.begin(writes=False) as db:
        assert db.execute(text("SELECT attempts, claimed_by != :name FROM explanations"), {"name": name}).one() == (2, True)


def test_it_is_cancelled_stopped_and_put_in_order_from_anywhere(cluster: Begin, refused: Check) -> None:
    begun = cluster()
    here, there = begun.sites
    gate = begun.models.gate(STEPS[0])
    stopped = here.ask(png(1), methods=STEPS[:3]).json()["id"]
    gate.wait()
    assert there.client.put(f"/api/explanations/{stopped}/order", json={"methods": [STEPS[2]]}).status_code == 204
    job = next(job for replica in begun.direct.replicas for job in replica.worker.live() if job.id == stopped)
    until(lambda: job.next_of(STEPS[:3]) == STEPS[2], "the order is known")
    assert there.client.post(f"/api/explanations/{stopped}/stop").status_code == 204
    until(job.stopped.is_set, "the wish is known")
    gate.open()
    assert [entry["method"] for entry in here.finish(stopped)["maps"]] == STEPS[:1]
    held = begun.models.gate("pass 0")
    cancelled = here.ask(png(2), methods=[SLOW_STEP]).json()["id"]
    held.wait()
    assert there.client.patch(f"/api/explanations/{cancelled}", json={"title": "mine"}).status_code == 200
    assert there.client.delete(f"/api/explanations/{cancelled}").status_code == 204
    until(lambda: any(job.cancelled.is_set() for replica in begun.direct.replicas for job in replica.worker.live()), "it is known")
    held.open()
    document = there.finish(cancelled)
    assert (document["state"], document["title"]) == ("cancelled", "mine")
    refused(there.client.get("/api/explanations/none/events"), 404, "no-such-explanation")


def test_a_model_that_is_not_installed_on_the_replicas_keeps_nobody_waiting(cluster: Begin, refused: Check) -> None:
    one = cluster(errors={"load clip": [NotInstalledError("It needs a package.") for _ in range(8)]})
    for site in one.sites:
        states = {"scenes-vit": "loaded", "clip": "not-installed", "reviews-bert": "loaded"}
        assert site.get("/readyz") == {"status": "ready", "models": states}
        assert {model["name"]: model["state"] for model in site.get("/api/models")["models"] if model["embedded"]} == states
        assert "It needs a package." in refused(site.ask(png(), model="clip", prompt="a dog"), 422, "not-installed")["detail"]


def test_a_full_queue_is_that_of_all(cluster: Begin, refused: Check) -> None:
    begun = cluster(queue_size=2)
    here, there = begun.sites
    gate = begun.models.gate("forward")
    here.ask(png(1))
    gate.wait()
    for replica in begun.direct.replicas:  # nobody takes anything
        replica._store.claim = lambda _: None  # type: ignore[method-assign]
    here.ask(png(2))
    there.ask(png(3))
    answer = there.ask(png(4))
    assert int(answer.headers["Retry-After"]) > 0
    assert "2 explanations are waiting" in refused(answer, 429, "queue-full")["detail"]
    assert "vitrine_queue_depth 2.0" in here.client.get("/metrics").text


def test_what_a_cluster_does_not_do_is_said(cluster: Begin, refused: Check) -> None:
    (here, _) = cluster().sites
    detail = refused(here.client.post("/api/models", json={"name": "timm/some"}), 403, "models-not-allowed")["detail"]
    assert "VITRINE_MODELS" in detail
    run = {"model": "scenes-vit", "dataset": "scenes", "methods": ["rollout"], "metrics": ["mif"], "limit": 2}
    assert "cluster" in refused(here.client.post("/api/runs", json=run), 403, "runs-not-allowed")["detail"]


def test_a_replica_keeps_as_many_models_as_fit_into_memory(cluster: Begin) -> None:
    """Where there is room for the largest alone, each is loaded again when it is asked, and all that is asked is answered."""
    total, sizes = total_memory(torch.device("cpu")), {name: bytes_of_weights(MAKES.get(name, image_model)().module) for name in EMBEDDED}
    assert total is not None
    room = max(sizes.values()) + min(sizes.values()) // 2
    begun = cluster(replicas=1, model_memory=room / total)
    (replica,), here = begun.direct.replicas, begun.sites[0]
    (runner,) = replica.worker.runners
    largest = max(sizes, key=lambda name: sizes[name])
    at_start = begun.models.calls.count(f"load {largest}")
    for turn in range(2):
        questions: list[dict[str, Any]] = [
            {"image": png(turn), "model": "scenes-vit"},
            {"text": f"A dull film {turn}.", "model": "reviews-bert"},
            {"image": png(turn), "model": "clip", "prompt": ["a dog", "a cat"]},
        ]
        for question in questions:
            assert here.ask(**question, methods=["random"], wait=True).json()["state"] == "done"
            assert question["model"] in runner.host.models
            assert sum(sizes[name] for name in runner.host.models) <= room
    (weights,) = (each.values for each in replica.gauges() if each.name == "model_device_bytes")
    assert weights == {("cpu",): sum(sizes[name] for name in runner.host.models)}
    assert begun.models.calls.count(f"load {largest}") == at_start + 2  # once in each round

"""The registries, the loading of models, the samples."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import torch
from PIL import Image

from explainers import METHODS, RULES, ExplainerError
from explainers.models.loading import card
from explainers.models.memory import bytes_of_weights, total_memory
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import LABELS, MAKES, GatedModels, image_model
from vitrine_server.app import create_app
from vitrine_server.samples import THUMBNAIL
from vitrine_server.settings import load_settings

pytestmark = pytest.mark.usefixtures("alone_on_machine")


def model(site: Site, name: str) -> Any:
    return next(one for one in site.get("/api/models")["models"] if one["name"] == name)


def load(site: Site, name: str) -> list[str]:
    """Load a model; the names of the events."""
    answer = site.client.post("/api/models", json={"name": name})
    assert answer.status_code == 202, answer.text
    return [event for _, event, _ in site.events(answer.json()["events"])]


def test_models_are_listed(site: Site) -> None:
    models = site.get("/api/models")["models"]
    assert [one["name"] for one in models if one["embedded"]] == ["scenes-vit", "clip", "reviews-bert"]
    assert [one["name"] for one in models if one["default"]] == ["scenes-vit", "clip", "reviews-bert"]
    assert not any(one["photos"] for one in models)
    assert [one["state"] for one in models] == ["loaded"] * 3 + ["available"] * 2
    details = {name: value for name, value in image_model().details.items() if name != "missing_requirements"}
    assert models[0]["details"] == json.loads(json.dumps({"blocks": 3, **details}))
    assert (models[0]["details"]["heads"], models[0]["device"]) == (2, "cpu")
    assert models[0]["weights_digest"] == image_model().weights_digest


def test_one_model(site: Site, refused: Check) -> None:
    document = site.get("/api/models/scenes-vit")
    assert document["labels"] == list(LABELS)
    assert document["card"] == card("scenes-vit")
    assert {one["spec"] for one in document["variants"]} >= {"rollout", "fullgrad_plus:libra"}
    hub = site.get("/api/models/timm/listed")
    assert (hub["state"], hub["labels"], hub["card"], "variants" in hub) == ("available", [], None, False)
    assert "scenes-vit" in refused(site.client.get("/api/models/scenes-vitt"), 404, "unknown-model")["send"]


@pytest.mark.parametrize("name", ["timm/listed", "timm/new.one", "hf/some/where"])
def test_a_hub_model_is_fetched_and_loaded(site: Site, name: str) -> None:
    assert load(site, name) == ["progress", "progress", "progress", "loaded"]
    assert model(site, name)["state"] == "loaded"
    assert model(site, name)["kind"] == "image"
    assert site.ask(png(), model=name, wait=True).json()["model"] == name
    assert load(site, name)[-1] == "loaded"
    assert site.models.calls.count(f"load {name}") == 1


def test_a_model_is_inside_or_of_the_hub_or_ones_own_and_says_whether_it_is_on_the_disk(sites: Sites) -> None:
    with sites(GatedModels(downloaded={"timm/other"})) as site:
        for thread in threading.enumerate():
            if thread.name == "find downloads":
                thread.join()
        load(site, "hf/some/where")
        listed = {one["name"]: (one["origin"], one["downloaded"]) for one in site.get("/api/models")["models"]}
        assert listed == {
            **dict.fromkeys(EMBEDDED, ("inside", True)),
            "timm/listed": ("hub", False),
            "timm/other": ("hub", True),
            "hf/some/where": ("yours", True),
        }
        load(site, "timm/listed")
        assert model(site, "timm/listed")["downloaded"]


def test_progress_is_told(site: Site) -> None:
    gate = site.models.gate("fetch timm/listed")
    answer = site.client.post("/api/models", json={"name": "timm/listed"})
    assert answer.json()["state"] == model(site, "timm/listed")["state"] == "loading"
    assert site.ask(png(), wait=True).json()["state"] == "done"  # everything else goes on
    gate.open()
    data = [data for _, _, data in site.events(answer.json()["events"])]
    assert data[:2] == [{"text": "Asking the hub"}, {"text": "Downloading", "fraction": 0.5}]
    assert data[-1]["name"] == "timm/listed"


def test_a_model_that_cannot_be_had(site: Site) -> None:
    site.models.errors["fetch timm/listed"] = [ExplainerError("There is no network.")]
    site.models.errors["load hf/a/b"] = [RuntimeError("odd weights")]
    site.models.errors["load hf/c/d"] = [OSError("/home/me/token is gone")]
    assert load(site, "timm/listed")[-1] == load(site, "hf/a/b")[-1] == load(site, "hf/c/d")[-1] == "failed"
    assert model(site, "timm/listed")["state"] == "failed"
    assert model(site, "timm/listed")["problem"]["detail"] == "There is no network."
    for name in ("hf/a/b", "hf/c/d"):  # their words are in the log alone
        problem = model(site, name)["problem"]
        assert re.fullmatch(rf"Loading {name} failed.* the server's log has it under [0-9a-f]{{12}}\.", problem["detail"])
        assert "another model" in problem["send"]
    assert load(site, "timm/listed")[-1] == "loaded"
    assert "problem" not in model(site, "timm/listed")


def test_a_model_that_cannot_be_described_fails(sites: Sites) -> None:
    odd = replace(image_model(), details={**image_model().details, "heads": {1, 2}})  # no JSON
    with sites(GatedModels(makes={**MAKES, "timm/listed": lambda: odd})) as site:
        assert load(site, "timm/listed")[-1] == "failed"
        assert model(site, "timm/listed")["state"] == "failed"
        assert site.ask(png(), wait=True).status_code == 200


def test_a_question_to_a_model_that_is_not_loaded_loads_it(site: Site) -> None:
    assert site.ask(png(), model="timm/listed", wait=True).json()["model"] == "timm/listed"


def memory_of(*names: str) -> float:
    """Return the share of this machine's memory that the weights of these models take, and a hundredth of a model more."""
    total, sizes = total_memory(torch.device("cpu")), [bytes_of_weights(MAKES.get(name, image_model)().module) for name in names]
    assert total is not None
    return (sum(sizes) + 0.01 * min(sizes)) / total


EMBEDDED = ("scenes-vit", "clip", "reviews-bert")


def test_the_model_unused_for_longest_makes_room(sites: Sites) -> None:
    """Embedded models too, and whoever asks for one has it loaded again."""
    with sites(model_memory=memory_of(*EMBEDDED, "timm/listed")) as site:
        load(site, "timm/listed")
        site.ask(png(), wait=True)
        load(site, "timm/other")
        states = {name: model(site, name)["state"] for name in (*EMBEDDED, "timm/listed", "timm/other")}
        assert states == {**dict.fromkeys(states, "loaded"), "clip": "available"}
        assert site.ask(png(), model="clip", prompt=["a zebra", "a big dog"], wait=True).status_code == 200
        states = {name: model(site, name)["state"] for name in (*EMBEDDED, "timm/listed", "timm/other")}
        assert states["clip"] == states["scenes-vit"] == states["timm/other"] == "loaded"
        assert states["reviews-bert"] == "available"


def test_what_is_resident_is_shown(sites: Sites) -> None:
    size = bytes_of_weights(image_model().module)
    with sites(model_memory=memory_of(*EMBEDDED)) as site:
        assert model(site, "scenes-vit")["resident"] == {"place": "device", "device": "cpu", "bytes": size}
        metrics = site.client.get("/metrics").text
        taken = sum(bytes_of_weights(MAKES.get(name, image_model)().module) for name in EMBEDDED)
        assert f'vitrine_model_device_bytes{{device="cpu"}} {float(taken)}' in metrics
        assert 'vitrine_model_host_bytes{device="cpu"} 0.0' in metrics
        (room,) = re.findall(r'^vitrine_model_room_bytes\{device="cpu"\} (\S+)$', metrics, re.MULTILINE)
        assert taken < float(room) < 1.02 * taken
        load(site, "timm/listed")
        assert "resident" not in model(site, "scenes-vit")


def test_a_model_that_made_room_is_loaded_again_for_who_waits(sites: Sites) -> None:
    with sites(model_memory=memory_of(*EMBEDDED, "timm/listed")) as site:
        load(site, "timm/listed")
        site.ask(png(), model="clip", prompt=["a zebra", "a big dog"], wait=True)
        site.ask(text="A fine film.", model="reviews-bert", wait=True)
        gate = site.models.gate("forward")
        site.ask(png(0))
        gate.wait()
        waiting = site.ask(png(1), model="timm/listed").json()["id"]
        assert site.client.post("/api/models", json={"name": "timm/other"}).status_code == 202
        fetched = site.events_until("/api/models/events?name=timm/other", "Loading timm/other")
        assert fetched
        gate.open()
        assert site.finish(waiting)["state"] == "done"
        assert site.models.calls.count("load timm/listed") == 2


def test_only_so_many_load_at_once(sites: Sites, refused: Check) -> None:
    with sites() as site:
        names = [f"timm/new{number}" for number in range(5)]
        for name in names:
            site.models.gate(f"fetch {name}")
        for name in names[:-1]:
            assert site.client.post("/api/models", json={"name": name}).status_code == 202
        answer = site.client.post("/api/models", json={"name": names[-1]})
        refused(answer, 429, "too-many-loading")
        assert "retry-after" in answer.headers


@pytest.mark.parametrize("name", ["/etc", "../models", "scenes", "timm/../../x", "hf/a", "http://example.org/a", "timm/", "hf/a/b/c"])
def test_only_names_of_the_hub_are_loaded(site: Site, refused: Check, name: str) -> None:
    refused(site.client.post("/api/models", json={"name": name}), 422, "unknown-model")
    assert all(one["name"] != name for one in site.get("/api/models")["models"])


def test_a_folder_may_be_named_at_the_start(sites: Sites, tmp_path: Path) -> None:
    with sites(models=(str(tmp_path),)) as site:
        site.wait_for_models(str(tmp_path))
        assert model(site, str(tmp_path))["state"] == "loaded"
        assert site.get(f"/api/models/{tmp_path}")["labels"] == list(LABELS)


def test_made_up_names_do_not_pile_up(site: Site) -> None:
    for number in range(30):
        name = f"hf/made/up{number}"
        site.models.errors[f"fetch {name}"] = [ExplainerError("No such model.")]
        load(site, name)
    made_up = [one["name"] for one in site.get("/api/models")["models"] if one["name"].startswith("hf/made")]
    assert made_up == [f"hf/made/up{number}" for number in range(9, 30)]


def test_requests_that_are_wrong(site: Site, refused: Check) -> None:
    refused(site.client.post("/api/models", json={}), 422, "invalid-request")
    refused(site.client.post("/api/models", json={"name": "timm/a", "force": 1}), 422, "invalid-request")
    refused(site.client.post("/api/models", content=b"{"), 422, "invalid-request")
    refused(site.client.get("/api/models/events?name=timm/listed"), 409, "not-loading")
    refused(site.client.get("/api/models/events?name=nothing"), 404, "unknown-model")
    refused(site.client.get("/api/methods?model=timm/listed"), 409, "not-loaded")
    refused(site.client.get("/api/methods?model=nothing"), 404, "unknown-model")
    refused(site.client.get("/api/methods?model=scenes-vit&side=text"), 422, "wrong-side")
    refused(site.client.get("/api/methods?model=clip&side=back"), 422, "invalid-request")


def test_methods_are_the_registry(site: Site) -> None:
    document = site.get("/api/methods")
    assert [one["name"] for one in document["methods"]] == list(METHODS)
    for one in document["methods"]:
        own = [variant for variant in document["variants"] if variant["readout"] == one["name"]]
        assert [variant["rule"] for variant in own] == (one["rules"] or [None])
        assert own[0]["spec"] == one["name"]
    rollout = next(one for one in document["methods"] if one["name"] == "rollout")
    assert {"name", "kind", "default", "help", "minimum", "maximum", "choices", "allowed"} == set(rollout["options"][0])
    for one in document["methods"]:
        assert [pair["rule"] for pair in one["pairs"] if pair["rule"]] == [
            *one["rules"],
            *(name for name in RULES if name not in one["rules"]),
        ]
    reasons = {one["spec"]: one["reason"] for one in site.get("/api/methods?model=reviews-bert")["variants"]}
    assert "this is for images" in reasons[next(name for name, one in METHODS.items() if "image" in one.needs)]
    assert reasons["rollout"] is None


def test_rules_are_the_registry(site: Site) -> None:
    rules = site.get("/api/rules")["rules"]
    assert [one["name"] for one in rules] == list(RULES)
    assert set(rules[0]) == {"label", "by", "year", "paper", *(field.name for field in fields(RULES["gradient"]))} - {"source"}
    assert [(rule["by"], rule["year"]) for rule in rules if rule["name"] == "libra"] == [("Mehri et al.", 2025)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "samples"
    made.mkdir()
    entries = [
        {
            "id": "pair",
            "kind": "image",
            "model": "scenes-vit",
            "title": "A pair",
            "image": "pair.png",
            "mask": "pair.mask.png",
            "target": "dog",
        },
        {"id": "review", "kind": "text", "model": "reviews-bert", "title": "A review", "text": "dull"},
    ]
    (made / "index.json").write_text(json.dumps({"samples": entries}))
    (made / "pair.png").write_bytes(png())
    return made


def test_samples(sites: Sites, folder: Path, refused: Check) -> None:
    sites.samples = [folder]
    with sites(loaded=False) as site:
        pair, review = site.get("/api/samples")["samples"]
        with Image.open(io.BytesIO(base64.b64decode(pair.pop("thumbnail").removeprefix("data:image/webp;base64,")))) as image:
            assert image.size == THUMBNAIL
        assert pair == {
            "id": "pair", "kind": "image", "model": "scenes-vit", "title": "A pair", "target": "dog", "image": "/api/samples/pair/image"
        }  # fmt: skip
        assert review["text"] == "dull"
        answer = site.client.get(pair["image"])
        assert (answer.headers["content-type"], answer.content) == ("image/png", png())
        refused(site.client.get("/api/samples/review/image"), 404, "no-such-sample")
        assert "pair" in refused(site.client.get("/api/samples/pears/image"), 404, "no-such-sample")["send"]


def test_two_samples_of_one_name_are_refused(sites: Sites, folder: Path) -> None:
    with pytest.raises(ValueError, match="two samples are called 'pair'"):
        create_app(load_settings({"home": sites.home}), GatedModels().source(), [folder, folder])


def test_a_device_that_is_not_there_is_said(sites: Sites) -> None:
    with pytest.raises(ExplainerError, match="cpu"):
        create_app(load_settings({"home": sites.home, "device": "abacus"}), GatedModels().source(), [])


def test_specs_are_taken_apart(site: Site, refused: Check) -> None:
    specs = ["rollout?start_layer=1", "fullgrad_plus:libra", "input_x_gradient", "nothing", "smoothgrad?draws=2&sigma=0.5"]
    found = site.get(f"/api/methods?{urlencode([('spec', spec) for spec in specs])}")["specs"]
    assert found == [
        {"spec": specs[0], "pair": "rollout", "readout": "rollout", "rule": None, "options": {"start_layer": 1}},
        {"spec": specs[1], "pair": "fullgrad_plus:libra", "readout": "fullgrad_plus", "rule": "libra", "options": {}},
        {"spec": specs[2], "pair": "input_x_gradient", "readout": "input_x_gradient", "rule": "gradient", "options": {}},
        {"spec": specs[4], "pair": "smoothgrad", "readout": "smoothgrad", "rule": "gradient", "options": {"draws": 2, "sigma": 0.5}},
    ]
    pairs = {variant["spec"] for variant in site.get("/api/methods")["variants"]}
    assert {parts["pair"] for parts in found} <= pairs
    assert "specs" not in site.get("/api/methods")
    refused(site.client.get(f"/api/methods?spec={'a' * 1001}"), 422, "too-long")

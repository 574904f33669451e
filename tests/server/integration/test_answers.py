"""What the server answers with tiny models, call by call, is what each call declares: the client checks every answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import ValidationError
from safetensors.torch import save

import explainers
from tests.families import FAMILIES
from tests.server.conftest import Site, png
from tests.server.support import collecting
from tests.server.support.checked_client import ROUTES, CheckedClient, adapter, check_event, model_of, route_of
from tests.server.support.tiny_models import KINDS, TEXT, make_tiny, tiny_site
from tests.support.made_up_run import texts, write_run
from tests.support.task_models import picture_writer, writer
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.explanations import Explanation
from vitrine_server.studies.deletion_test import DeletionCurves, EditedAnswer
from vitrine_server.studies.inspection import HeadMaps

#: Of each family that adds something to a map: options, pixels, seeds, relevance, a control.
METHODS = [
    "rollout?start_layer=1",
    "fullgrad_plus:libra",
    "input_x_gradient:attnlrp?at=pixels",
    "transformer_attribution",
    "smoothgrad?draws=2",
    "random",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("home")
    write_run(home / "runs" / "pictures")
    write_run(home / "runs" / "words", of=texts())
    with tiny_site(home, load, {**KINDS, "writer": "text", "picture-writer": "text"}) as one:
        yield one


def load(place: str | Path, device: str | None = None, /, **ways: Any) -> explainers.Model:
    own, name = {"writer": writer, "picture-writer": picture_writer}, str(place)
    return own[name]() if name in own else make_tiny(name, device)


def asked(site: Site, *arguments: Any, **fields: Any) -> Any:
    answer = site.ask(*arguments, wait=True, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def posted(site: Site, path: str, **body: Any) -> Any:
    answer = site.client.post(path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


def ask_about_prompts(site: Site, of: str) -> None:
    """Ask all that is asked of a picture and its prompts alone."""
    posted(site, f"{of}/interactions")
    posted(site, f"{of}/faithful-interactions", budget=16, parts=2)
    posted(site, f"{of}/similarity")
    posted(site, f"{of}/without-head", block=0, head=0)


def ask_about_answers(site: Site) -> None:
    """Ask all that is asked of what a model wrote alone."""
    written = asked(site, model="writer", text="a good film", methods=["random"])
    posted(site, f"/api/explanations/{written['id']}/answer-table")
    about = asked(site, png(), model="picture-writer", text="a good film", methods=["random"])
    posted(site, f"/api/explanations/{about['id']}/token-maps")
    posted(site, f"/api/explanations/{about['id']}/prior-or-pixels")


def measure(site: Site) -> None:
    """Ask all that is asked of runs."""
    site.get("/api/runs/choices?model=scenes-vit&dataset=scenes")
    site.client.post("/api/runs/data?name=a.csv", content=b"text\nA film\n")
    asked_for = {"model": "scenes-vit", "dataset": "scenes", "methods": ["random"], "metrics": ["mif"], "limit": 2}
    posted(site, "/api/runs/time", **asked_for)
    run = posted(site, "/api/runs", **asked_for)
    site.events(f"/api/runs/{run['id']}/events")
    site.client.post(f"/api/runs/{run['id']}/again")
    site.events(f"/api/runs/{run['id']}/events")
    site.get(f"/api/runs/{run['id']}")
    site.get("/api/runs")


def collect(site: Site) -> None:
    """Ask all that is asked of collections."""
    wanted = {"model": "scenes-vit", "dataset": "scenes", "methods": ["rollout"], "limit": 3, "removal": False, "labels": False}
    root = f"/api/collections/{posted(site, '/api/collections', **wanted)['id']}"
    site.events(f"{root}/events")
    site.client.post(f"{root}/again")
    site.events(f"{root}/events")
    for part in ("", "/progress", "/rows", "/selection", "/points", "/words"):
        site.get(f"{root}{part}")
    site.get("/api/collections")
    labelled = collecting.packed({"ant/a.png": png(), "bee/b.png": png(1), "bee/c.png": png(2)})
    name = collecting.begun(site, dataset=collecting.sent(site, "my.zip", labelled), labels=True, methods=["rollout"])
    site.events(f"/api/collections/{name}/events")
    search = f"/api/slices/{posted(site, f'/api/collections/{name}/slices')['id']}"
    site.events(f"{search}/events")
    site.client.post(f"{search}/again")
    site.events(f"{search}/events")
    site.get(search)
    site.get("/api/slices")


def streamed(site: Site, path: str, **body: Any) -> list[dict[str, str]]:
    """The events of a study."""
    answer = site.client.post(path, json=body, headers={"Accept": "text/event-stream"})
    lines = [line.partition(": ") for line in re.split(r"\r?\n", answer.text)]
    names, data = ([value for field, _, value in lines if field == wanted] for wanted in ("event", "data"))
    return [{"event": name, "data": text} for name, text in zip(names, data, strict=True)]


def bring_a_model(site: Site) -> None:
    """Ask all that is asked of a model of one's own, from the server's own machine."""
    root = "http://127.0.0.1:8000/api/opening"
    file = save(dict(FAMILIES["vit"].build().state_dict()))
    site.client.get(root)
    upload = site.client.post(root).json()["id"]
    for answer in (
        site.client.put(f"{root}/{upload}/file?name=mine.safetensors", content=file),
        site.client.post(f"{root}/look", json={"upload": upload}),
        site.client.post(f"{root}/open", json={"upload": upload, "name": "mine"}),
        site.client.get(f"{root}/report?name=scenes-vit"),
    ):
        assert answer.is_success, answer.text


def ask_for_depth(site: Site) -> None:
    sent = [("model", (None, "scenes-vit")), *(("image", (f"{seed}.png", png(seed), "image/png")) for seed in range(8))]
    assert site.client.post("/api/depth", files=sent).status_code == 200


def test_every_call_answers_what_it_declares(site: Site) -> None:
    image = asked(site, png(), methods=METHODS, target=["ant", "any:pet"])
    against = asked(site, png(1), methods=["rollout"], target="ant", against="bee", crop="0,0,30,30")
    prompts = asked(site, png(), model="clip", methods=["fullgrad_plus:libra"], prompt=["a good film", "a bad movie"])
    words = asked(site, png(), model="clip", methods=["input_x_gradient"], prompt=["a good film"], side="text")
    text = asked(site, model="reviews-bert", methods=METHODS[:2], text=TEXT, read="probability")
    other = asked(site, model="reviews-bert", methods=["random"], text="a good film.")
    root = {document["id"]: f"/api/explanations/{document['id']}" for document in (image, against, prompts, words, text, other)}
    for document, path in zip((image, against, prompts, words, text, other), root.values(), strict=True):
        Explanation.model_validate_json(json.dumps(document), strict=True)
        for part in ("", "/summary", "/code", "/agreement"):
            site.get(f"{path}{part}")
        site.events(f"{path}/events")
    of = root[image["id"]]
    for spec in METHODS:
        site.get(f"{of}/maps/{quote(spec, safe='')}.json")
    site.get(f"{of}/maps/{quote(METHODS[2], safe='')}.json?at=pixels")
    site.get(f"{root[prompts['id']]}/regions")
    posted(site, f"{of}/mix", method="input_x_gradient", rule={"attention": "constant"})
    for quantity in ("attention", "gradient"):
        posted(site, f"{of}/layers", quantity=quantity, block=0)
    posted(site, f"{root[text['id']]}/layers", token=2)
    posted(site, f"{of}/contributions", method="fullgrad_plus:libra")
    posted(site, f"{root[text['id']]}/alike", other=other["id"])
    ask_about_prompts(site, root[prompts["id"]])
    posted(site, f"{of}/registers")
    posted(site, f"{of}/patch-similarity", patch=3)
    ask_about_answers(site)
    posted(site, f"{of}/deletion-test", fractions=[0, 0.5, 1])
    for document in (image, text):
        posted(site, f"{root[document['id']]}/claim", method=METHODS[0])
    posted(site, f"{root[text['id']]}/counterfactual", to=next(entry["label"] for entry in text["top"][1:]))
    posted(site, f"{root[text['id']]}/deletion-test", remove=[1], replace={"1": "fine"})
    scores = image["maps"][0]["scores"]
    posted(site, f"{of}/deletion-test/score", scores=scores)
    group = {"name": "good", "words": ["good", "lovely"]}
    probe = {"model": "reviews-bert", "template": "a {} film", "target": "for"}
    posted(site, "/api/probes", **probe, groups=[group])
    posted(site, "/api/probes", **probe, groups=[group, {"name": "bad", "words": ["bad"]}])
    site.client.patch(of, json={"title": "Mine"})
    again = site.client.post(f"{of}/again").json()
    site.finish(again["id"])
    queued = site.ask(png(7), methods=["random"]).json()
    site.finish(queued["id"])

    for model in ("scenes-vit", "clip", "reviews-bert"):
        site.get(f"/api/models/{model}")
        site.get(f"/api/methods?model={model}")
    site.get("/api/methods?model=clip&side=text")
    site.get("/api/methods?spec=rollout%3Fstart_layer=1")
    for path in (
        "models",
        "methods",
        "rules",
        "quantities",
        "samples",
        "limits",
        "leaderboard",
        "leaderboard/table",
        "leaderboard/choices",
        "leaderboard/rankings",
        "runs",
    ):
        site.get(f"/api/{path}")
    examples = "/examples?metric=mif&method=rollout"
    for path in (f"/api/leaderboard/pictures{examples}", f"/api/leaderboard/words{examples}", "/healthz", "/readyz"):
        site.get(path)
    for ask_all in (ask_for_depth, bring_a_model, measure, collect):
        ask_all(site)
    posted(site, "/api/models", name="clip")

    assert isinstance(site.client, CheckedClient)
    with_json = {(method, route.path) for route in ROUTES if route.response_model is not None for method in route.methods}
    assert with_json == site.client.checked


def test_the_events_of_studies(site: Site) -> None:
    document = asked(site, png(), methods=["rollout", "random"])
    root = f"/api/explanations/{document['id']}"
    studies = {"deletion-test": ({"fractions": [0, 1]}, DeletionCurves | EditedAnswer), "layers": ({"block": 0}, HeadMaps)}
    for path, (body, answer) in studies.items():
        events = streamed(site, f"{root}/{path}", **body)
        assert events[-1]["event"] == "done"
        for event in events:
            adapter(study_events(answer)).validate_python(event, strict=True)
    *_, failed = streamed(site, f"{root}/layers", block=99)
    assert failed["event"] == "failed"
    adapter(study_events(HeadMaps)).validate_python(failed, strict=True)


def test_what_is_stored_is_an_explanation(site: Site) -> None:
    document = asked(site, png(3), methods=METHODS[:2])
    stored = site.client.app.state.services.store.document(document["id"])  # type: ignore[attr-defined]
    Explanation.model_validate_json(json.dumps(stored), strict=True)
    assert stored == document


@pytest.mark.parametrize("change", [{"unheard": 1}, {"notes": None}, {"state": "finished"}, {"top": [{"label": "ant"}]}])
def test_the_check_finds_what_is_not_declared(site: Site, change: dict[str, Any]) -> None:
    document = asked(site, png(3), methods=METHODS[:2])
    with pytest.raises(ValidationError):
        Explanation.model_validate_json(json.dumps({**document, **change}), strict=True)


def test_the_check_of_events_finds_what_is_not_declared() -> None:
    check_event("/api/explanations/a/events", {"event": "queued", "id": "0", "data": '{"position":0}'})
    for event in ({"event": "queued", "data": "{}"}, {"event": "unheard", "data": "{}"}, {"event": "cancelled", "data": '{"why":1}'}):
        with pytest.raises(ValidationError):
            check_event("/api/explanations/a/events", event)


def test_the_schema_of_an_answer_is_that_of_its_call() -> None:
    route = route_of("POST", "/api/explanations")
    assert route is not None
    assert model_of(route, 200) is Explanation
    assert model_of(route, 202) is not Explanation
    assert route_of("GET", "/image") is None

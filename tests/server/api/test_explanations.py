"""The calls around one explanation."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

import explainers
from explainers.models.inputs.types import ImageInput
from tests.server.conftest import Check, Site, Sites, picture, png, without_costs
from tests.server.support.gated_models import USUAL_METHODS, image_model


def test_an_image_is_explained(site: Site) -> None:
    document = site.ask(png(), wait=True).json()
    assert document["state"] == "done"
    assert document["model"] == "scenes-vit"
    seen = {"kind": "image", "width": 60, "height": 40, "crop": [10, 0, 50, 40], "seen": [32, 32]}
    assert document["input"] == {**seen, "sha256": hashlib.sha256(png()).hexdigest()}
    assert [one["label"] for one in document["targets"]] == ["zebra"]
    assert [one["label"] for one in document["top"]][:2] == ["zebra", "elephant"]
    assert [one["method"] for one in document["maps"]] == USUAL_METHODS
    assert document["maps"][0]["grid"] == [4, 4]
    own = explainers.explain(image_model(), picture(), methods=USUAL_METHODS).to_json()
    assert [one["scores"] for one in document["maps"]] == [one["scores"] for one in own["maps"]]
    assert document == site.get(f"/api/explanations/{document['id']}")


def test_without_waiting_the_answer_says_where_to_look(site: Site) -> None:
    answer = site.ask(png())
    assert answer.status_code == 202
    document = answer.json()
    assert answer.headers["location"] == document["url"] == f"/api/explanations/{document['id']}"
    assert document["events"] == document["url"] + "/events"
    assert site.finish(document["id"])["state"] == "done"


def test_a_text_is_explained(site: Site) -> None:
    document = site.ask(model="reviews-bert", text="a dull film", target="positive", wait=True).json()
    assert document["input"]["words"][2] == {"text": "film", "start": 7, "end": 11, "tokens": [3]}
    assert len(document["maps"][0]["scores"]) == len(document["input"]["tokens"]) == 5
    assert document["targets"][0]["index"] == 1


def test_prompts_are_explained(site: Site) -> None:
    document = site.ask(png(), model="clip", prompt=["a zebra", "an elephant"], wait=True).json()
    assert [one["prompt"] for one in document["targets"]] == ["a zebra", "an elephant"]
    assert [(one["target"], one["method"]) for one in document["maps"]] == [
        (target, method) for target in ("a zebra", "an elephant") for method in USUAL_METHODS
    ]


@pytest.mark.parametrize(
    ("target", "indices"),
    [("dog", [2]), ("1", [1]), ("7", [3]), ("DOG", [2]), (["dog", "zebra"], [2, 0]), (["dog", "2", " dog "], [2])],
    ids=["label", "index", "a label that is a number", "case", "two", "the same thrice"],
)
def test_a_class_is_a_label_or_an_index(site: Site, target: Any, indices: list[int]) -> None:
    document = site.ask(png(), target=target, wait=True).json()
    assert [one["index"] for one in document["targets"]] == indices


def test_methods_are_those_asked_for(site: Site) -> None:
    wanted = ["rollout?start_layer=1", "random", "rollout?start_layer=1", "rollout?start_layer=01"]
    document = site.ask(png(), methods=wanted, wait=True).json()
    assert [one["method"] for one in document["maps"]] == document["methods"] == wanted[:2]


def test_a_contrast_is_explained(site: Site) -> None:
    document = site.ask(png(), target=["zebra", "dog"], against="1", wait=True).json()
    assert [(one["label"], one["of"], one["against"], one["read"]) for one in document["targets"]] == [
        ("zebra − elephant", "zebra", "elephant", "logit"),
        ("dog − elephant", "dog", "elephant", "logit"),
    ]
    assert document["id"] != site.ask(png(), target=["zebra", "dog"], wait=True).json()["id"]
    assert document["id"] == site.ask(png(), target=["zebra", "dog"], against="elephant", wait=True).json()["id"]
    prompts = site.ask(png(), model="clip", prompt="a cat, asleep", against="7", wait=True).json()["targets"]
    assert (prompts[0]["of"], prompts[0]["against"]) == ("a cat, asleep", "7")


def test_a_probability_is_explained_by_what_can_explain_it(site: Site) -> None:
    document = site.ask(png(), target="dog", read="probability", wait=True).json()
    assert [(one["label"], one["of"], one["read"]) for one in document["targets"]] == [("p(dog)", "dog", "probability")]
    assert document["methods"] == USUAL_METHODS
    assert document["notes"] == []
    assert site.ask(png(), read="probability", wait=True).json()["targets"][0]["label"] == "p(zebra)"


def test_methods_that_know_no_probability_are_left_out_and_named(site: Site) -> None:
    usual = site.ask(png(), methods=None, wait=True).json()["methods"]
    assert "transformer_attribution" in usual  # whose relevance begins at a logit
    answer = site.ask(png(), methods=None, read="probability").json()
    document = site.finish(answer["id"])
    left = [spec for spec in usual if spec in document["methods"]]
    assert document["methods"] == [one["method"] for one in document["maps"]] == left
    assert set(usual) - set(left) >= {"transformer_attribution"}
    assert len(document["notes"]) == 1
    assert all(spec in document["notes"][0] for spec in set(usual) - set(left))
    started = site.events(answer["events"])[1][2]
    assert (started["notes"], started["expected"]) == (document["notes"], left)


BAD: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "no model": ({"model": ""}, 404, "unknown-model", "scenes-vit"),
    "unknown model": ({"model": "scene-vit"}, 404, "unknown-model", "Did you mean scenes-vit"),
    "folder as a model": ({"model": "/etc"}, 404, "unknown-model", "Known: "),
    "unknown class": ({"target": "zebr"}, 422, "unknown-class", "from 0 to 3"),
    "index too high": ({"target": "4"}, 422, "unknown-class", "from 0 to 3"),
    "option out of its bounds": ({"methods": "rollout?start_layer=3"}, 422, "unknown-method", "GET /api/methods"),
    "nothing set against": ({"against": "dog"}, 422, "wrong-target", "Send target"),
    "set against itself": ({"target": "dog", "against": "2"}, 422, "wrong-target", "another one"),
    "set against nobody": ({"target": "dog", "against": "cat"}, 422, "unknown-class", "from 0 to 3"),
    "set against two": ({"target": "dog", "against": ["zebra", "elephant"]}, 422, "repeated-field", "once"),
    "probability of the words of a prompt": (
        {"model": "clip", "prompt": "a zebra", "side": "text", "read": "probability"},
        422,
        "wrong-target",
        "Leave against and read out",
    ),
    "unknown number": ({"read": "likelihood"}, 422, "unknown-read", "logit, probability"),
    "probability of a contrast": ({"target": "dog", "against": "zebra", "read": "probability"}, 422, "wrong-target", "not both"),
    "relevance of a probability": ({"methods": ["random", "lrp"], "read": "probability"}, 422, "method-cannot-run", "only: random"),
    "unknown method": ({"methods": "rolout"}, 422, "unknown-method", "GET /api/methods"),
    "unknown rule": ({"methods": "fullgrad:nothing"}, 422, "unknown-method", "GET /api/methods"),
    "unknown option": ({"methods": "rollout?colour=red"}, 422, "unknown-method", "GET /api/methods"),
    "prompt for classes": ({"prompt": "a zebra"}, 422, "wrong-target", "Send target"),
    "class for prompts": ({"model": "clip", "target": "zebra"}, 422, "wrong-target", "Send prompt"),
    "no prompt": ({"model": "clip"}, 422, "no-prompt", "Send prompt"),
    "image for text": ({"model": "reviews-bert"}, 422, "wrong-input", "Send text"),
    "image and text": ({"text": "a film"}, 422, "one-input", "Send image or text"),
    "unknown field": ({"method": "rollout"}, 422, "unknown-field", "Did you mean methods"),
    "no such side": ({"side": "left"}, 422, "unknown-side", "Send image"),
    "a side of a model that has none": ({"side": "text"}, 422, "wrong-side", "CLIP"),
    "a second text with an image": ({"text_pair": "so it is"}, 422, "one-input", "second of two"),
    "two models": ({"model": ["scenes-vit", "scenes-vit"]}, 422, "repeated-field", "once"),
    "too many targets": ({"target": [str(i) for i in range(9)]}, 422, "too-many", "at most 8"),
    "too many methods": ({"methods": [f"random?{i}" for i in range(257)]}, 422, "too-many", "at most 256"),
    "endless name": ({"target": "z" * 1001}, 422, "too-long", "at most 1000"),
}


@pytest.mark.parametrize("fields, status, kind, send", BAD.values(), ids=BAD)  # noqa: PT006
def test_a_bad_request_is_told_what_to_send(site: Site, refused: Check, fields: dict[str, Any], status: int, kind: str, send: str) -> None:
    assert send in refused(site.ask(png(), **fields), status, kind)["send"]


def test_a_query_parameter_is_no_field(site: Site, refused: Check) -> None:
    answer = site.client.post("/api/explanations", data={"model": "reviews-bert", "text": "a film", "wait": "1"})
    assert "POST /api/explanations?wait=" in refused(answer, 422, "unknown-field")["send"]


BAD_TEXTS: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "empty": ({"text": " \n"}, 422, "empty-text", "at least one word"),
    "too long": ({"text": "a" * 20_001}, 413, "text-too-long", "at most 20000"),
    "text for an image model": ({"text": "a film", "model": "scenes-vit"}, 422, "wrong-input", "Send image"),
    "nothing": ({}, 422, "one-input", "Send one of"),
    "image as text": ({"image": "http://example.org/a.png"}, 422, "not-a-file", "not fetched"),
    "method that cannot run": ({"text": "a film", "methods": "maskclip"}, 422, "method-cannot-run", "These can: raw_attention, rollout"),
}


@pytest.mark.parametrize("fields, status, kind, send", BAD_TEXTS.values(), ids=BAD_TEXTS)  # noqa: PT006
def test_a_bad_text_is_told_what_to_send(site: Site, refused: Check, fields: dict[str, Any], status: int, kind: str, send: str) -> None:
    assert send in refused(site.ask(**{"model": "reviews-bert", **fields}), status, kind)["send"]


def test_what_the_engine_refuses_is_told_in_its_words(site: Site, refused: Check) -> None:
    document = refused(site.ask(model="reviews-bert", text="\u200b", wait=True), 422, "cannot-explain")
    assert document["detail"].startswith("the tokenizer finds no words in")


def test_bodies_that_are_no_form(site: Site, refused: Check) -> None:
    post = site.client.post
    refused(post("/api/explanations", json={"model": "scenes-vit"}), 415, "not-a-form")
    refused(post("/api/explanations", content=b"nonsense", headers={"content-type": "multipart/form-data"}), 400, "broken-form")
    as_file = {"model": ("a.txt", b"scenes-vit")}
    refused(post("/api/explanations", files=as_file), 422, "not-text")


def test_uploads_are_counted_while_they_arrive(sites: Sites, refused: Check) -> None:
    with sites(max_upload_mb=0.01, loaded=False) as site:
        for size in (20_000, 1_100_000, 30_000_000):
            document = refused(site.ask(bytes(size)), 413, "upload-too-large")
            assert "at most 0.01 MB" in document["send"]


def test_a_broken_file_is_refused_before_it_waits(site: Site, refused: Check) -> None:
    refused(site.ask(png()[:2000]), 422, "broken-image")
    refused(site.ask(b"<svg/>"), 415, "unknown-image-format")


def test_the_story_is_told_live_and_again(site: Site) -> None:
    gate = site.models.gate("backward")
    one = site.ask(png()).json()["id"]
    gate.wait()
    halfway = site.get(f"/api/explanations/{one}")
    assert halfway["state"] == "running"
    assert [found["method"] for found in halfway["maps"]] == USUAL_METHODS[:1]
    gate.open()
    events = without_costs(site.events(f"/api/explanations/{one}/events"))
    document = site.get(f"/api/explanations/{one}")
    assert [(number, name) for number, name, _ in events] == [(0, "queued"), (1, "started"), (2, "method"), (3, "method"), (4, "done")]
    assert events[0][2] == {"position": 0}
    assert events[1][2] == {"expected": USUAL_METHODS, **{name: document[name] for name in ("output", "input", "targets", "top", "notes")}}
    assert [data for _, name, data in events if name == "method"] == document["maps"]
    assert events[4][2] == {"seconds": document["seconds"]}
    assert without_costs(site.events(f"/api/explanations/{one}/events")) == events
    assert site.events(f"/api/explanations/{one}/events", last_event_id=2) == events[3:]


def test_the_same_question_has_the_same_answer(site: Site) -> None:
    first = site.ask(png(), target="dog", wait=True).json()["id"]
    calls = len(site.models.calls)
    assert site.ask(png(), target="2").json()["id"] == first
    assert site.ask(png(), target="dog", methods=USUAL_METHODS, wait=True).json()["id"] == first
    assert len(site.models.calls) == calls
    others = [{"target": "zebra"}, {"target": "dog", "methods": "random"}, {}]
    ids = {site.ask(png(), wait=True, **other).json()["id"] for other in others} | {site.ask(png(1), target="dog", wait=True).json()["id"]}
    assert len(ids) == 4
    assert first not in ids
    assert site.client.delete(f"/api/explanations/{first}").status_code == 204
    assert site.ask(png(), target="dog", wait=True).json()["id"] != first


def test_pictures_and_numbers(site: Site) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    picture(0, (90, 30)).save(buffer, "PNG", exif=exif)
    document = site.ask(buffer.getvalue(), target=["zebra", "elephant"], wait=True).json()
    root = f"/api/explanations/{document['id']}"

    def image(path: str) -> Image.Image:
        answer = site.client.get(root + path)
        assert answer.status_code == 200, answer.text
        return Image.open(io.BytesIO(answer.content))

    upright = picture(0, (90, 30)).transpose(Image.Transpose.ROTATE_270)
    seen = image("/input.png")
    assert seen.format == "PNG"
    (given,) = image_model().prepare(upright).inputs
    assert isinstance(given, ImageInput)
    assert given.pixels is not None
    assert seen.tobytes() == given.pixels.tobytes()
    assert (image("/original.jpg").format, image("/original.jpg").size) == ("JPEG", (30, 90))
    assert image("/maps/rollout.png").size == (448, 448)
    first, second = (image(f"/maps/fullgrad_plus%3Alibra.png?target={name}&size=128") for name in ("zebra", "elephant"))
    assert first.size == second.size == (128, 128)
    for number, label in enumerate(("zebra", "elephant")):
        answer = site.client.get(f"{root}/maps/fullgrad_plus%3Alibra.npy", params={"target": label})
        values = np.load(io.BytesIO(answer.content))
        assert (values.dtype, values.shape) == (np.float32, (4, 4))
        assert values.ravel().tolist() == document["maps"][1 + 2 * number]["scores"]


def test_a_text_has_pictures_of_its_words(site: Site, refused: Check) -> None:
    text = "a film, <b>bold</b> & dull"
    document = site.ask(model="reviews-bert", text=text, methods="rollout?start_layer=1", wait=True).json()
    root = f"/api/explanations/{document['id']}"
    answer = site.client.get(f"{root}/maps/rollout%3Fstart_layer%3D1.png")
    assert Image.open(io.BytesIO(answer.content)).width == 448
    values = np.load(io.BytesIO(site.client.get(f"{root}/maps/rollout%3Fstart_layer%3D1.npy").content))
    assert values.tolist() == document["maps"][0]["scores"]
    refused(site.client.get(f"{root}/input.png"), 404, "no-such-picture")


def test_what_is_not_there(site: Site, refused: Check) -> None:
    one = site.ask(png(), wait=True).json()["id"]
    for path in ("", "/events", "/input.png", "/original.jpg", "/maps/rollout.png", "/maps/rollout.npy"):
        refused(site.client.get(f"/api/explanations/nothing{path}"), 404, "no-such-explanation")
    refused(site.client.delete("/api/explanations/nothing"), 404, "no-such-explanation")
    assert "rollout" in refused(site.client.get(f"/api/explanations/{one}/maps/random.png"), 404, "no-such-map")["send"]
    missing = site.client.get(f"/api/explanations/{one}/maps/rollout.npy?target=dog")
    assert "zebra" in refused(missing, 404, "no-such-target")["send"]
    refused(site.client.get(f"/api/explanations/{one}/maps/rollout.png?size=9"), 422, "invalid-request")
    refused(site.client.get(f"/api/explanations/{one}/secret.png"), 404, "no-such-picture")


def test_a_query_parameter_that_a_call_does_not_know_is_refused(site: Site, refused: Check) -> None:
    one = site.ask(png(), wait=True).json()["id"]
    root = f"/api/explanations/{one}"
    for method, path, said in (
        ("POST", "/api/explanations?presicion=double", "Did you mean precision? Query parameters: wait, precision."),
        ("POST", "/api/explanations?wait=1&methods=rollout", "Send methods as a field of the form."),
        ("POST", f"{root}/deletion-test?order=most", "Send order in the JSON body."),
        ("GET", f"{root}/maps/rollout.png?sise=100", "Did you mean size?"),
        ("GET", "/api/models?name=x", "This call takes no query parameters: leave it out."),
    ):
        found = refused(site.client.request(method, path), 422, "unknown-parameter")
        assert said in found["send"], path
    assert site.client.get("/healthz?now=1").status_code == 200  # what probes of others add means nothing there

"""What is taken away of an explanation: the bundle, the lines that make it again, the summary."""

from __future__ import annotations

import io
import itertools
import json
import shlex
import zipfile
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.server.conftest import Check, Site, Sites, picture, png, without_seconds
from vitrine_server.export.bundle import map_stems

TEXT = 'a "bold" film,\nit\'s not @all dull; \\n is no line $HOME'
PICTURE = png()


def asked_of(curl: str) -> tuple[str, list[tuple[str, str]]]:
    """The address and the fields that the last call of shell lines sends."""
    words = shlex.split(curl[curl.rindex("curl ") :] if "\ncurl" in curl else curl)
    fields = [tuple(value.split("=", 1)) for flag, value in itertools.pairwise(words) if flag in ("--form", "--form-string")]
    return next(word for word in words if word.startswith("http")), fields  # type: ignore[return-value]


def code_of(site: Site, one: str) -> dict[str, str]:
    code: dict[str, str] = site.get(f"/api/explanations/{one}/code")
    compile(code["python"], "reproduce.py", "exec")
    return code


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "reviews-bert", "text": TEXT},
        {"model": "reviews-bert", "text": TEXT, "target": "negative", "against": "positive"},
        {"model": "reviews-bert", "text": TEXT, "read": "probability", "methods": ["fullgrad_plus:libra"]},
        {"image": PICTURE, "target": ["zebra", "7"], "methods": ["random", "rollout?start_layer=1"]},
        {"image": PICTURE, "target": "zebra", "against": "dog"},
        {"image": PICTURE, "model": "clip", "prompt": ["a 'zebra'", "12"]},
        {"image": PICTURE, "model": "clip", "prompt": ["a zebra"], "against": "a dog"},
    ],
    ids=lambda fields: " ".join(name for name in fields),
)
def test_the_lines_of_curl_ask_the_same_again(site: Site, fields: dict[str, Any]) -> None:
    first = site.ask(wait=True, **fields).json()
    address, sent = asked_of(code_of(site, first["id"])["curl"])
    assert address.endswith("/api/explanations?wait=1")
    again: dict[str, Any] = {}
    for name, value in sent:
        again.setdefault(name, []).append(value)
    assert ("source" in again) == ("image" in fields)  # the server keeps the picture
    second = site.ask(wait=True, **again)
    assert second.status_code == 200, second.text
    again_made = without_seconds(second.json())
    for part in ("model", "input", "targets", "methods", "maps"):
        assert again_made[part] == without_seconds(first)[part]


def test_a_bundle_of_a_picture(site: Site) -> None:
    document = site.ask(png(), target=["zebra", "dog"], wait=True).json()
    root = f"/api/explanations/{document['id']}"
    answer = site.client.get(f"{root}/bundle.zip")
    assert answer.headers["content-disposition"].startswith('attachment; filename="vitrine-scenes-vit-zebra-dog.zip"')
    assert site.client.get(root).headers["content-disposition"].startswith('inline; filename="vitrine-scenes-vit-zebra-dog.json"')
    numbers = site.client.get(f"{root}/maps/rollout.npy", params={"target": "dog"})
    assert numbers.headers["content-disposition"].startswith('attachment; filename="vitrine-scenes-vit-dog-attention-rollout.npy"')
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    assert json.loads(archive.read("explanation.json")) == document
    for name in ("input.png", "original.jpg"):
        assert archive.read(name) == site.client.get(f"{root}/{name}").content
    stems = map_stems(document)
    assert len(set(stems)) == len(document["maps"]) == 4
    for one, stem in zip(document["maps"], stems, strict=True):
        values = np.load(io.BytesIO(archive.read(f"{stem}.npy")))
        assert values.tolist() == np.float32(one["scores"]).reshape(one["grid"]).tolist()
        drawn = Image.open(io.BytesIO(archive.read(f"{stem}.png")))
        shown = site.client.get(f"{root}/maps/{one['method'].replace(':', '%3A')}.png", params={"target": one["target"]})
        assert drawn.tobytes() == Image.open(io.BytesIO(shown.content)).tobytes()
    readme = archive.read("README.txt").decode()
    for fact in (document["weights_digest"], document["model"], "vitrine 0", "zebra", archive.read("reproduce.py").decode(), "curl "):
        assert fact in readme
    listed = {line.split()[0] for line in readme.partition("Files\n")[2].partition("\n\n")[0].splitlines()}
    assert listed - {"maps/*.npy", "maps/*.png"} == {name for name in archive.namelist() if "/" not in name and name != "README.txt"}


def test_a_bundle_of_a_text(site: Site) -> None:
    document = site.ask(model="reviews-bert", text=TEXT, wait=True).json()
    archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/bundle.zip").content))
    assert archive.read("input.txt").decode() == TEXT
    assert "tensors.safetensors" in archive.namelist()
    assert not [name for name in archive.namelist() if name.endswith(".jpg")]
    assert json.dumps(TEXT) in archive.read("reproduce.py").decode()


def test_what_is_not_done_is_not_taken_away(site: Site, refused: Check) -> None:
    gate = site.models.gate("forward")
    one = site.ask(png()).json()["id"]
    gate.wait()
    for path in ("bundle.zip", "code"):
        refused(site.client.get(f"/api/explanations/{one}/{path}"), 409, "not-done")
        refused(site.client.get(f"/api/explanations/nothing/{path}"), 404, "no-such-explanation")
    gate.open()
    site.finish(one)
    assert site.client.get(f"/api/explanations/{one}/bundle.zip").status_code == 200


def test_a_summary_says_what_a_list_shows(site: Site, refused: Check) -> None:
    document = site.ask(png(0, (400, 200)), target="dog", wait=True).json()
    short = site.get(f"/api/explanations/{document['id']}/summary")
    assert {name: short[name] for name in ("id", "state", "created", "model", "targets")} == {
        name: document[name] for name in ("id", "state", "created", "model", "targets")
    }
    assert (short["page"], short["maps"]) == ("/image", len(document["maps"]))
    assert (short["methods"], short["controls"]) == (len(document["methods"]), 0)
    small = Image.open(io.BytesIO(site.client.get(short["thumbnail"]).content))
    assert (small.format, small.size) == ("JPEG", (160, 80))
    text = site.ask(model="reviews-bert", text="word " * 100, wait=True).json()
    short = site.get(f"/api/explanations/{text['id']}/summary")
    assert short["page"] == "/text"
    assert short["excerpt"].startswith("word word")
    assert len(short["excerpt"]) <= 120
    refused(site.client.get(f"/api/explanations/{text['id']}/thumbnail.jpg"), 404, "no-such-picture")
    prompted = site.ask(png(), model="clip", prompt=["a", "b"], wait=True).json()
    assert site.get(f"/api/explanations/{prompted['id']}/summary")["page"] == "/prompt"
    mixed = site.ask(png(), model="clip", prompt=["a", "b"], methods=["fullgrad_plus:libra", "random"], wait=True).json()
    short = site.get(f"/api/explanations/{mixed['id']}/summary")
    assert (short["maps"], short["methods"], short["controls"]) == (4, 1, 1)
    refused(site.client.get("/api/explanations/nothing/summary"), 404, "no-such-explanation")


def test_a_summary_has_the_map_of_the_best_method_and_knows_its_input(site: Site) -> None:
    """The first by rank of those that were asked, the control never; of a text its words with scores over the largest."""
    picture = png(7)
    two = site.ask(picture, methods=["random", "rollout", "fullgrad_plus:libra"], wait=True).json()
    short = site.get(f"/api/explanations/{two['id']}/summary")
    assert f"/api/explanations/{two['id']}/maps/fullgrad_plus%3Alibra.png" in short["map"]
    drawn = Image.open(io.BytesIO(site.client.get(short["map"]).content))
    assert max(drawn.size) == 160
    again = site.get(f"/api/explanations/{site.ask(picture, methods=['random'], wait=True).json()['id']}/summary")
    assert again["about"] == short["about"]
    assert "map" not in again
    other = site.get(f"/api/explanations/{site.ask(png(8), methods=['random'], wait=True).json()['id']}/summary")
    assert other["about"] != short["about"]
    text = site.ask(model="reviews-bert", text="A warm and wonderful film.", methods=["fullgrad_plus:libra"], wait=True).json()
    words = site.get(f"/api/explanations/{text['id']}/summary")["words"]
    (scores,) = (entry["scores"] for entry in text["maps"])
    by_hand = [sum(scores[token] for token in word["tokens"]) for word in text["input"]["words"]]
    largest = max(map(abs, by_hand))
    assert [word["score"] for word in words] == pytest.approx([score / largest for score in by_hand], abs=1e-3)
    assert words[0]["text"] == "A"


def test_a_summary_of_what_failed(sites: Sites) -> None:
    with sites() as site:
        site.models.errors["forward"] = [RuntimeError("broken")]
        one = site.ask(png()).json()["id"]
        site.finish(one)
        short = site.get(f"/api/explanations/{one}/summary")
        assert short["state"] == "failed"
        assert short["problem"]["type"].endswith("explanation-failed")


@pytest.mark.parametrize("size", [(40, 40), (60, 40), (1100, 700)])
def test_a_bundle_holds_the_picture_itself(site: Site, size: tuple[int, int]) -> None:
    document = site.ask(png(5, size), wait=True).json()
    archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/bundle.zip").content))
    readme, shell = archive.read("README.txt").decode(), archive.read("reproduce.sh").decode()
    assert f"A picture of {size[0]} x {size[1]} pixels" in readme
    assert "picture.png is that picture, pixel for pixel" in readme
    assert "can differ" not in readme + shell
    assert "--form image=@picture.png" in shell
    assert shell in readme
    again = site.ask(archive.read("picture.png"), wait=True).json()
    assert [one["scores"] for one in again["maps"]] == [one["scores"] for one in document["maps"]]


def test_a_bundle_keeps_what_else_stood_in_the_file_to_itself(site: Site) -> None:
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x010F] = "Maker of the camera"
    picture(3).save(buffer, "JPEG", exif=exif)
    document = site.ask(buffer.getvalue(), wait=True).json()
    archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/bundle.zip").content))
    assert not [name for name in archive.namelist() if b"Maker of the camera" in archive.read(name)]


def test_a_picture_that_the_server_would_not_take_again_is_named_and_not_sent(sites: Sites) -> None:
    buffer = io.BytesIO()
    picture(3, (200, 200)).save(buffer, "JPEG", quality=60)
    with sites(max_upload_mb=0.06) as site:
        document = site.ask(buffer.getvalue(), wait=True).json()
        archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/bundle.zip").content))
    assert len(archive.read("picture.png")) > 60_000
    assert f"source={document['id']}" in archive.read("reproduce.sh").decode()

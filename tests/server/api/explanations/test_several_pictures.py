"""Prompts with several pictures over HTTP: a map on each of them, files of each, and what is too many."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

import explainers
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.task_models import clip_classifier, picture_writer

FILES = [png(1, (64, 48)), png(2, (40, 40))]
PROMPT = "a good <image> film, not a bad <image> movie"
METHODS = ["input_x_gradient:libra", "random"]


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, "timm/listed": picture_writer, "timm/other": clip_classifier})) as one:
        yield one


def ask(site: Site, files: list[bytes], **fields: Any) -> Any:
    form = {"model": "timm/listed", "text": PROMPT, "methods": METHODS, **fields}
    sent = [("image", (f"{number}.png", file)) for number, file in enumerate(files)]
    return site.client.post("/api/explanations", params={"wait": 1}, data=form, files=sent)


def test_each_picture_has_a_map_and_files_of_its_own(site: Site) -> None:
    document = ask(site, FILES).json()
    prompt = explainers.PicturePrompt([Image.open(io.BytesIO(file)) for file in FILES], PROMPT)
    expected: Any = explainers.explain(picture_writer(), prompt, methods=METHODS[0])
    assert document["maps"][0]["scores"] == pytest.approx(expected.maps[0].scores.tolist(), rel=1e-3, abs=1e-6)
    pictures = [document["input"]["picture"], *document["input"]["further_pictures"]]
    assert [(each["width"], each["height"]) for each in pictures] == [(64, 48), (40, 40)]
    assert [each["sha256"] for each in pictures] == [hashlib.sha256(file).hexdigest() for file in FILES]
    root = f"/api/explanations/{document['id']}"
    for number, name in enumerate(("", "-2")):
        seen = Image.open(io.BytesIO(site.client.get(f"{root}/input{name}.png").content))
        assert seen.tobytes() == expected.input.pictures[number].pixels.tobytes()
        assert Image.open(io.BytesIO(site.client.get(f"{root}/original{name}.jpg").content)).size == [(64, 48), (40, 40)][number]
    drawn = Image.open(io.BytesIO(site.client.get(f"{root}/maps/input_x_gradient%3Alibra.png").content))
    alone = ask(site, FILES[:1], text="a good <image> film").json()
    one = Image.open(io.BytesIO(site.client.get(f"/api/explanations/{alone['id']}/maps/input_x_gradient%3Alibra.png").content))
    assert drawn.height > one.height + 400  # the second lies below the first


def test_studies_and_files_are_of_all_pictures(site: Site) -> None:
    document = ask(site, FILES).json()
    root = f"/api/explanations/{document['id']}"
    assert site.client.post(f"{root}/prior-or-pixels", json={}).json()["parts"][:3] == ["picture 1", "picture 2", "prompt"]
    assert site.client.post(f"{root}/answer-table", json={}).json()["columns"][:2] == ["(picture 1)", "(picture 2)"]
    again = ask(site, [], source=document["id"], text="a bad film").json()
    assert again["input"]["text"] == "a bad film"
    assert [each["sha256"] for each in again["input"]["further_pictures"]] == [hashlib.sha256(FILES[1]).hexdigest()]
    code = site.get(f"{root}/code")
    assert 'explainers.PicturePrompt(["original.jpg", "original-2.jpg"], ' in code["python"]
    assert "original-2.jpg" in code["python"].split("result =")[0]
    bundle = zipfile.ZipFile(io.BytesIO(site.client.get(f"{root}/bundle.zip").content))
    assert {"input.png", "input-2.png", "original-2.jpg", "picture.png", "picture-2.png"} <= set(bundle.namelist())
    assert "--form image=@picture.png \\\n  --form image=@picture-2.png" in bundle.read("reproduce.sh").decode()
    assert Image.open(io.BytesIO(bundle.read("picture-2.png"))).tobytes() == Image.open(io.BytesIO(FILES[1])).convert("RGB").tobytes()
    resent = ask(site, [bundle.read("picture.png"), bundle.read("picture-2.png")]).json()
    assert resent["maps"][0]["scores"] == document["maps"][0]["scores"]


def test_what_several_pictures_cannot_be(site: Site, refused: Check) -> None:
    assert "at most 16 pictures" in refused(ask(site, FILES * 9), 422, "too-many")["send"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(17):
            archive.writestr(f"{number:02}.png", FILES[0])
    assert "17 pictures" in refused(ask(site, [packed.getvalue()]), 422, "too-many")["detail"]
    refused(ask(site, FILES, crop="0,0,10,10"), 422, "wrong-crop")
    refused(ask(site, [FILES[0], b"no picture"]), 415, "unknown-image-format")
    assert "1 place for a picture, and 2 were sent" in refused(ask(site, FILES, text="a <image> film"), 422, "cannot-explain")["detail"]
    refused(ask(site, FILES, model="scenes-vit"), 422, "one-input")
    assert ask(site, [FILES[0]] * 2, text="a film").status_code == 200


def test_sizes_are_of_all_pictures_together(sites: Sites, refused: Check) -> None:
    models, plain = GatedModels(makes={**MAKES, "timm/listed": picture_writer}), io.BytesIO()
    Image.new("RGB", (60, 60)).save(plain, "PNG")
    most = sum(map(len, FILES)) - 1  # one byte too few, and pixels for each but not for both
    with sites(models, max_upload_mb=most / 1e6, max_megapixels=0.004) as site:
        refused(ask(site, FILES), 413, "upload-too-large")
        assert "together" in refused(ask(site, [plain.getvalue()] * 2), 413, "too-many-pixels")["detail"]
        assert ask(site, [plain.getvalue()], text="a film").status_code == 200

"""Videos in a prompt over HTTP: frames as files or as an animation, a map for each time, and what is no video."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import explainers
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.picture_models import silent_qwen
from tests.support.task_models import picture_writer

FRAMES = [Image.open(io.BytesIO(png(seed, (96, 64)))).convert("RGB") for seed in range(4)]
FILES = [png(seed, (96, 64)) for seed in range(4)]
PROMPT = "a good film, not a bad movie"


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, "timm/listed": silent_qwen, "timm/other": picture_writer})) as one:
        yield one


def ask(site: Site, files: list[bytes], **fields: Any) -> Any:
    form = {"model": "timm/listed", "text": PROMPT, "methods": ["input_x_gradient:libra"], "video": "true", **fields}
    sent = [("image", (f"{number}.png", file)) for number, file in enumerate(files)]
    return site.client.post("/api/explanations", params={"wait": 1}, data=form, files=sent)


def test_each_time_has_a_map_and_a_file(site: Site) -> None:
    document = ask(site, FILES).json()
    prompt = explainers.PicturePrompt(explainers.Clip(FRAMES), PROMPT)
    expected: Any = explainers.explain(silent_qwen(), prompt, methods="input_x_gradient:libra")
    assert document["maps"][0]["scores"] == pytest.approx(expected.maps[0].scores.tolist(), rel=1e-3, abs=1e-6)
    parts = [document["input"]["picture"], *document["input"]["further_pictures"]]
    assert [part["frame_numbers"] for part in parts] == [[1, 2], [3, 4]]
    root = f"/api/explanations/{document['id']}"
    for name, frame in (("input.png", 0), ("input-2.png", 2)):
        seen = Image.open(io.BytesIO(site.client.get(f"{root}/{name}").content))
        assert np.array_equal(np.asarray(seen), np.asarray(FRAMES[frame]))
    assert site.client.post(f"{root}/prior-or-pixels", json={}).json()["parts"][:2] == ["frames 1-2", "frames 3-4"]
    again = ask(site, [], source=document["id"], text="a bad film").json()
    assert [part["frame_numbers"] for part in again["input"]["further_pictures"]] == [[3, 4]]
    bundle = zipfile.ZipFile(io.BytesIO(site.client.get(f"{root}/bundle.zip").content))
    assert 'explainers.PicturePrompt(explainers.Clip("clip.tiff"), ' in bundle.read("reproduce.py").decode()
    shell = bundle.read("reproduce.sh").decode()
    assert shell.count("--form image=@clip.tiff") == shell.count("video=true") == 1
    resent = ask(site, [bundle.read("clip.tiff")]).json()
    assert resent["maps"][0]["scores"] == pytest.approx(document["maps"][0]["scores"], rel=1e-4, abs=1e-6)
    assert "clip.tiff, its frames, is in" in site.get(f"{root}/code")["python"]
    assert site.get("/api/models/timm/listed")["details"]["reads_videos"] is True


def test_without_the_field_frames_are_pictures(site: Site) -> None:
    document = ask(site, FILES[:2], video="false").json()
    assert "frame_numbers" not in document["input"]["picture"]
    assert len(document["input"]["further_pictures"]) == 1


def test_what_is_no_video(site: Site, refused: Check) -> None:
    refused(ask(site, FILES[:1]), 422, "no-clip")
    assert "33 frames" in refused(ask(site, FILES[:1] * 33), 422, "too-many")["detail"]
    animation = io.BytesIO()
    still = [Image.new("L", (8, 8), shade) for shade in range(33)]
    still[0].save(animation, "TIFF", save_all=True, append_images=still[1:])
    assert "33 frames" in refused(ask(site, [animation.getvalue()]), 422, "too-many")["detail"]
    refused(ask(site, FILES, crop="0,0,10,10"), 422, "wrong-crop")
    assert "send its frames as a list" in refused(ask(site, FILES, model="timm/other"), 422, "cannot-explain")["detail"]
    refused(ask(site, [*FILES, png(0, (20, 20))]), 422, "frames-of-sizes")
    refused(ask(site, FILES, model="scenes-vit"), 422, "one-input")
    refused(ask(site, []), 422, "wrong-input")

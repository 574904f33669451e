"""Clips over HTTP: an animation or a file for each frame, explained, kept, asked about again and exported; and what is no clip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import explainers
from tests.server.conftest import Check, Site, Sites, picture, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.task_models import clip_classifier
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import open_clip, pack_files
from vitrine_server.settings import load_settings

FRAMES = [picture(seed) for seed in range(6)]


def animation(kind: str, frames: list[Image.Image] = FRAMES) -> bytes:
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {}))
    return buffer.getvalue()


def frame_files(count: int = len(FRAMES)) -> list[tuple[str, tuple[str, bytes]]]:
    return [("image", (f"{seed}.png", png(seed))) for seed in range(count)]


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, "scenes-vit": clip_classifier})) as one:
        yield one


def ask(site: Site, files: Any, **fields: Any) -> Any:
    form = {"model": "scenes-vit", "methods": ["fullgrad_plus:libra", "random"], **fields}
    return site.client.post("/api/explanations", params={"wait": 1}, data=form, files=files)


def test_a_clip_is_explained_kept_and_exported(site: Site) -> None:
    document = ask(site, frame_files()).json()
    expected = explainers.explain(clip_classifier(), explainers.Clip(FRAMES), methods="fullgrad_plus:libra")
    one = document["maps"][0]
    assert (document["input"]["frames"], one["grid"]) == (4, [16, 4])
    np.testing.assert_allclose(one["scores"], expected.maps[0].scores[expected.maps[0].content], rtol=1e-4, atol=1e-6)
    assert any("8 frames, chosen evenly among the 6" in note for note in document["notes"])
    path = f"/api/explanations/{document['id']}"
    seen = Image.open(io.BytesIO(site.client.get(f"{path}/input.png").content))
    assert seen.size == (64, 4 * 64)
    drawn = Image.open(io.BytesIO(site.client.get(f"{path}/maps/fullgrad_plus:libra.png").content))
    assert drawn.width > 3 * drawn.height  # frames side by side
    again = site.ask(wait=True, source=document["id"], methods=["input_x_gradient"]).json()
    assert again["top"] == document["top"]
    assert again["input"]["sha256"] == document["input"]["sha256"]
    test = site.client.post(f"{path}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["curves"][0]["probability"][0] == pytest.approx(document["targets"][0]["probability"], abs=1e-6)
    bundle = zipfile.ZipFile(io.BytesIO(site.client.get(f"{path}/bundle.zip").content))
    sent = Image.open(io.BytesIO(bundle.read("clip.tiff")))
    assert sent.n_frames == len(FRAMES)
    resent = ask(site, {"image": ("clip.tiff", bundle.read("clip.tiff"))}).json()
    assert resent["maps"][0]["scores"] == one["scores"]
    assert "--form image=@clip.tiff" in bundle.read("reproduce.sh").decode()


@pytest.mark.parametrize("kind", ["WEBP", "PNG", "TIFF"])
def test_an_animation_is_the_same_clip(site: Site, kind: str) -> None:
    assert ask(site, {"image": ("clip", animation(kind))}).json()["top"] == ask(site, frame_files()).json()["top"]


def test_what_is_no_clip(site: Site, refused: Check) -> None:
    assert "animated GIF" in refused(ask(site, {"image": ("photo", png())}), 422, "no-clip")["send"]
    refused(ask(site, frame_files(), crop="0,0,10,10"), 422, "wrong-crop")
    refused(ask(site, [*frame_files(), ("image", ("other", png(0, (20, 20))))]), 422, "frames-of-sizes")
    refused(ask(site, frame_files(257)), 422, "too-many")
    refused(ask(site, {"image": ("clip.mp4", b"\0\0\0\x18ftypmp42" + bytes(40))}), 415, "unknown-image-format")
    refused(ask(site, {"image": ("clip.zip", b"PK\x03\x04" + bytes(40))}), 422, "broken-zip")
    refused(ask(site, [*frame_files(), ("image", ("text", b"no picture"))]), 415, "unknown-image-format")


def test_a_model_of_pictures_takes_one(sites: Sites, refused: Check) -> None:
    with sites() as site:
        refused(ask(site, frame_files()), 422, "wrong-input")
        assert ask(site, {"image": ("clip", animation("GIF"))}).status_code == 200  # of which it sees the first frame


def test_all_frames_together_keep_the_limits() -> None:
    settings = load_settings({"max_megapixels": 60 * 40 * 5 / 1_000_000})
    for data in (animation("GIF"), pack_files([file for _, (_, file) in frame_files()])):
        with pytest.raises(Problem, match="together"):
            open_clip(data, settings)
        assert len(open_clip(data, load_settings({}))) == len(FRAMES)

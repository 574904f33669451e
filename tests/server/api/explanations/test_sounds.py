"""Sounds over HTTP: explained, kept, asked about again, drawn and taken away from; and what is no sound."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

import explainers
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.task_models import sound_classifier

RATE = 16000


def wav(seconds: float = 1.0) -> bytes:
    time = np.arange(round(seconds * RATE)) / RATE
    buffer = io.BytesIO()
    wavfile.write(buffer, RATE, (0.5 * np.sin(2 * np.pi * 900 * time)).astype(np.float32))
    return buffer.getvalue()


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, "scenes-vit": sound_classifier})) as one:
        yield one


def ask(site: Site, sent: bytes, **fields: Any) -> Any:
    form = {"model": "scenes-vit", "methods": ["fullgrad_plus:libra", "random"], **fields}
    return site.client.post("/api/explanations", params={"wait": 1}, data=form, files={"image": ("sound.wav", sent)})


def test_a_sound_is_explained_kept_and_drawn(site: Site) -> None:
    document = ask(site, wav()).json()
    _, samples = wavfile.read(io.BytesIO(wav()))
    expected = explainers.explain(sound_classifier(), explainers.Sound(samples, RATE), methods="fullgrad_plus:libra")
    one = document["maps"][0]
    assert one["grid"] == [4, 9]
    np.testing.assert_allclose(one["scores"], expected.maps[0].scores[expected.maps[0].content], rtol=1e-4, atol=1e-6)
    assert document["input"]["sound"] == {"start": 0.03, "end": 0.93, "whole": 1.0}
    path = f"/api/explanations/{document['id']}"
    seen = Image.open(io.BytesIO(site.client.get(f"{path}/input.png").content))
    assert list(seen.size) == document["input"]["seen"]
    assert np.asarray(seen.convert("L")).std() > 5  # a picture of the sound, not of one colour
    assert site.client.get(f"{path}/maps/fullgrad_plus:libra.png").status_code == 200
    again = site.ask(wait=True, source=document["id"], methods=["input_x_gradient"]).json()
    assert again["top"] == document["top"]
    test = site.client.post(f"{path}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["curves"][0]["probability"][0] == pytest.approx(document["targets"][0]["probability"], abs=1e-6)


def test_what_is_no_sound(site: Site, refused: Check) -> None:
    assert "sounds, not pictures" in refused(ask(site, png()), 422, "wrong-input")["detail"]
    refused(ask(site, wav()[:30]), 422, "broken-sound")
    refused(ask(site, wav(), crop="0,0,10,10"), 422, "wrong-crop")


def test_a_model_of_pictures_takes_no_sound(sites: Sites, refused: Check) -> None:
    with sites() as site:
        assert "not at sounds" in refused(ask(site, wav()), 422, "wrong-input")["detail"]

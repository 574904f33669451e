"""Greys of more than 8 bits on the server: the field ``window``, sent and asked about again."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tests.server.conftest import Check, Site, png

SCAN = np.linspace(0, 4095, 40 * 40).reshape(40, 40).astype(np.uint16)


def file() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(SCAN).save(buffer, "PNG")
    return buffer.getvalue()


def seen(site: Site, explanation_id: str) -> np.ndarray:
    return np.asarray(
        Image.open(io.BytesIO(site.client.get(f"/api/explanations/{explanation_id}/original.jpg").content)).convert("L"), float
    )


def test_a_scan_is_shown_from_its_smallest_to_its_largest_value(site: Site) -> None:
    document = site.ask(file(), wait=True).json()
    assert document["input"]["window"] == {"level": 2047.5, "width": 4095, "source": "range"}
    assert np.abs(seen(site, document["id"]) - SCAN / 4095 * 255).max() < 12  # a JPEG


def test_the_window_is_moved_kept_and_let_go_of_by_reference(site: Site) -> None:
    plain = site.ask(file(), wait=True).json()
    moved = site.ask(source=plain["id"], window="1000,200", wait=True).json()
    assert moved["id"] != plain["id"]
    assert moved["input"]["window"] == {"level": 1000, "width": 200, "source": "set"}
    assert np.abs(seen(site, moved["id"]) - ((SCAN - 900.0) / 200).clip(0, 1) * 255).mean() < 6
    assert site.ask(source=moved["id"], target="dog", wait=True).json()["input"]["window"]["level"] == 1000
    assert site.ask(source=moved["id"], crop="0,0,20,20", wait=True).json()["input"]["window"]["level"] == 1000
    assert site.ask(source=moved["id"], window="", wait=True).json()["input"]["window"]["source"] == "range"


@pytest.mark.parametrize("window", ["1", "a,b", "5,0", "5,-1", "nan,3", "1,2,3"])
def test_what_is_no_window_is_refused(site: Site, refused: Check, window: str) -> None:
    refused(site.ask(file(), window=window), 422, "wrong-window")


def test_colours_and_texts_have_none(site: Site, refused: Check) -> None:
    refused(site.ask(png(0, (60, 40)), window="100,50"), 422, "wrong-window")
    refused(site.ask(model="reviews-bert", text="a film", window="100,50"), 422, "wrong-window")

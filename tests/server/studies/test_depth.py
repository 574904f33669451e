"""The depth of a model over HTTP, on tiny random models: what the engine says, its progress, and what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import explainers
from tests.server.conftest import Check, Site
from tests.server.support.tiny_models import tiny, tiny_site

TEXTS = [
    "a good film",
    "not a bad movie",
    "the plot is well-made",
    "films",
    "a bad plot",
    "good",
    "the movie is not bad",
    "a well-made plot",
]
rng = np.random.default_rng(0)
PICTURES = [Image.fromarray(rng.integers(0, 256, (32, 24, 3), dtype=np.uint8)) for _ in range(9)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def ask(site: Site, pictures: list[bytes] | None = None, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    files = [("image", (f"{number}.png", data, "image/png")) for number, data in enumerate(pictures or [])]
    sent = [(name, (None, str(value))) for name, values in fields.items() for value in (values if isinstance(values, list) else [values])]
    return site.client.post("/api/depth", files=[*files, *sent], headers=headers or {})


def test_it_is_what_the_engine_says_of_the_pictures(site: Site) -> None:
    found = ask(site, [png(picture) for picture in PICTURES], model="scenes-vit", limit=8)
    assert found.status_code == 200
    wanted = explainers.depth(tiny("scenes-vit"), PICTURES, limit=8).to_json()
    document = found.json()
    assert document["parts"]["parts"][0]["rise"]["value"] == pytest.approx(wanted["parts"]["parts"][0]["rise"]["value"], rel=1e-3)
    assert document["reading"] == wanted["reading"]
    assert document["notes"] == ["8 of 9 inputs were measured, taken evenly."]


def test_texts_are_one_a_line_and_progress_is_told(site: Site) -> None:
    answer = ask(site, model="reviews-bert", text="\n".join(TEXTS), headers={"accept": "text/event-stream"})
    lines = [line.partition(": ")[2] for line in answer.text.splitlines() if line.startswith(("event: ", "data: "))]
    events = list(zip(lines[::2], map(json.loads, lines[1::2]), strict=True))
    told = [data for name, data in events if name == "progress"]
    assert told[0] == {"asked": 0, "total": told[0]["total"]}
    assert told[-1]["asked"] == told[-1]["total"]
    assert events[-1][0] == "done"
    assert events[-1][1]["inputs"] == 8
    again = ask(site, model="reviews-bert", text="\n".join(TEXTS), headers={"accept": "text/event-stream"})
    assert "event: expected" in again.text  # of as many inputs of this model the seconds are known now


def test_prompts_for_clip(site: Site) -> None:
    document = ask(site, [png(picture) for picture in PICTURES], model="clip", prompt=["a film", "a plot"]).json()
    assert len(document["parts"]["parts"]) == 4


@pytest.mark.parametrize(
    ("pictures", "fields", "kind", "says"),
    [
        (2, {}, "too-few", "2 pictures"),
        (0, {"text": "one"}, "too-few", "1 text"),
        (0, {}, "one-input", "neither"),
        (9, {"text": "one"}, "one-input", "both"),
        (9, {"limit": 7}, "invalid-request", "limit"),
        (9, {"limit": 65}, "invalid-request", "limit"),
        (9, {"model": "reviews-bert"}, "wrong-input", "reads texts"),
        (0, {"text": "\n".join(TEXTS)}, "wrong-input", "looks at pictures"),
        (9, {"model": "clip"}, "cannot-answer", "at least two"),
        (9, {"methods": "rollout"}, "unknown-field", "methods"),
    ],
)
def test_what_cannot_be_asked(site: Site, refused: Check, pictures: int, fields: dict[str, Any], kind: str, says: str) -> None:
    sent = [png(picture) for picture in PICTURES[:pictures]]
    assert says in refused(ask(site, sent, **{"model": "scenes-vit", **fields}), 422, kind)["detail"]


def test_a_file_that_is_no_picture(site: Site, refused: Check) -> None:
    refused(ask(site, [b"no picture"] * 8, model="scenes-vit"), 415, "unknown-image-format")
    refused(ask(site, [png(PICTURES[0])] * 8, model="no-such-model"), 422, "unknown-model")

"""Questions that cost little: for tests of what a page does with any answer."""

from __future__ import annotations

from typing import Any

from tests.browser.support.visit import Visit
from tests.server.conftest import png

SCENES = "/image?model=scenes-vit&methods=random"  # the cheapest page with maps
ASKED: dict[str, dict[str, Any]] = {
    "image": {"model": "scenes-vit"},
    "prompt": {"model": "clip", "prompt": ["a red ball on grass", "a dog"]},
    "text": {"model": "reviews-bert", "text": "A warm and wonderful film."},
}


def explained(visit: Visit, kind: str, image: bytes | None = None, **fields: Any) -> str:
    """The id of an explanation of this kind that is made now, by a quick method; of a made-up picture unless an ``image`` is given."""
    picture = None if kind == "text" else image or png(1)
    return str(visit.explained(picture, **{"methods": "random", **ASKED[kind], **fields})["id"])

"""A server whose models are tiny, for what the tools do on any model: what a page shows is compared with what that server says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Visit, visit
from tests.browser.serving import played
from tests.server.conftest import png
from tests.server.turnstile import Gated

SCENES = "/image?model=scenes-vit&methods=random"  # the cheapest page of a trained model
ASKED: dict[str, dict[str, Any]] = {
    "image": {"model": "scenes-vit"},
    "prompt": {"model": "clip", "prompt": ["a red ball on grass", "a dog"]},
    "text": {"model": "reviews-bert", "text": "A warm and wonderful film."},
}


@pytest.fixture(scope="package")
def tiny_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("tiny"), Gated(), device="cpu") as address:
        yield address


@pytest.fixture
def tiny(browser: Browser, tiny_address: str) -> Iterator[Visit]:
    """A desktop, 1440 pixels wide, at the server whose models are tiny and know no samples."""
    yield from visit(browser, tiny_address)


def explained(visit: Visit, kind: str, image: bytes | None = None, **fields: Any) -> str:
    """The id of an explanation of this kind that is made now, by a quick method; of a made-up picture unless an ``image`` is given."""
    picture = None if kind == "text" else image or png(1)
    return str(visit.explained(picture, **{"methods": "random", **ASKED[kind], **fields})["id"])

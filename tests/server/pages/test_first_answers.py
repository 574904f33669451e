"""What the head of a page names: what can be had, and what everybody may know of. That it is what pages ask is a test of the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests.server.conftest import Site, Sites

ALWAYS = ["/api/models", "/api/samples", "/api/limits"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Sites(Path(tmp_path_factory.mktemp("home")))() as running:
        yield running


def named(site: Site, path: str) -> list[str]:
    links = re.findall(r'<link rel="preload" href="([^"]+)" as="fetch" crossorigin>', site.client.get(path).text)
    return [unescape(address) for address in links]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/image", "model=scenes-vit"),
        ("/prompt?side=text", "model=clip&side=text"),
        ("/text?source=abc", "model=reviews-bert"),
        ("/image?model=scenes-vit", "model=scenes-vit"),
        ("/image?model=timm/listed", None),  # it is not loaded: the page says so
        ("/image?model=no%22such%3Cone", None),
        ("/image?model=clip", None),  # it is of another page
        ("/image?id=abc", None),  # the explanation says which model it was
        ("/methods", None),
    ],
)
def test_the_head_names_what_the_page_can_have(site: Site, path: str, model: str | None) -> None:
    addresses = named(site, path)
    assert addresses[:3] == ([] if path == "/methods" else ALWAYS)
    name = model and re.findall(r"model=([\w-]+)", model)[0]
    assert addresses[3:] == ([f"/api/methods?{model}", f"/api/models/{name}"] if model else [])
    for address in addresses:
        assert site.client.get(address).status_code == 200

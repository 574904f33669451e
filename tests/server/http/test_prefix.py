from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest

from explainers.errors import ExplainerError
from tests.server.conftest import Check, Site, Sites, png
from vitrine_server.app import create_app
from vitrine_server.settings import load_settings

PREFIX = "/class/vitrine"
#: An address of ours in a page; those of scripts and style sheets are relative.
LINK = re.compile(r'(?:href|src)="(/[^"]*)"')


@pytest.fixture(params=["", PREFIX], ids=["cut off", "kept"])
def below(request: pytest.FixtureRequest, sites: Sites) -> Site:
    """A server behind a proxy that shows it below a path, which arrives here or does not."""
    with sites(path_prefix=PREFIX) as site:
        site.client.base_url = site.client.base_url.join(f"{request.param}/")
        yield site


@pytest.mark.parametrize("page", ["/", "/image", "/methods", "/methods/rollout", "/nowhere"])
def test_what_a_page_names_lies_below_the_prefix(below: Site, page: str) -> None:
    answer = below.client.get(page, headers={"Accept": "text/html"})
    links = LINK.findall(answer.text)
    assert len(links) > 10
    assert all(link.startswith(f"{PREFIX}/") for link in links), links
    static = next(link for link in links if link.endswith(".js"))
    assert below.client.get(static.removeprefix(PREFIX)).headers["cache-control"].startswith("public")


def test_the_addresses_of_answers_lie_below_the_prefix(below: Site) -> None:
    answer = below.ask(png())
    told = answer.json()
    assert told["url"] == answer.headers["location"] == f"{PREFIX}/api/explanations/{told['id']}"
    assert told["events"] == f"{told['url']}/events"
    below.finish(told["id"])
    summary = below.get(f"/api/explanations/{told['id']}/summary")
    for address in (summary["thumbnail"], summary["map"]):
        assert urljoin(PREFIX, address).startswith(f"{PREFIX}/api/")
        assert below.client.get(address.removeprefix(PREFIX)).headers["content-type"].startswith("image/")
    lines = below.get(f"/api/explanations/{told['id']}/code")
    assert f"http://testserver{PREFIX}/api/explanations" in lines["curl"]
    assert {"url": PREFIX} in below.get("/api/openapi.json")["servers"]


def test_refusals_and_the_log_are_as_without(below: Site, refused: Check) -> None:
    refused(below.client.get("/api/nothing", headers={"Accept": "text/html"}), 404, "not-found")
    refused(below.client.get("/static/nothing.js", headers={"Accept": "text/html"}), 404, "not-found")
    assert below.client.get("/api/quantities").headers["cache-control"] == "no-store"
    assert 'route="/api/quantities"' in below.client.get("/metrics").text


def test_a_prefix_that_could_be_a_path_of_the_server_is_refused(sites: Sites) -> None:
    with pytest.raises(ExplainerError, match="choose another"):
        create_app(load_settings({"home": sites.home, "path_prefix": "/api/v1"}))
    for wrong in ("vitrine", "/vitrine/", "/", "/a b", "//a", "/../a"):
        with pytest.raises(ValueError, match="must be a path"):
            load_settings({"path_prefix": wrong})

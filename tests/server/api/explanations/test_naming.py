"""Names of one's own, and explanations inside other pages."""

from __future__ import annotations

import io
import zipfile

import pytest

from tests.server.conftest import Check, Site, Sites, png
from vitrine_server.settings import load_settings


def test_a_name_is_kept_and_goes_wherever_the_explanation_goes(sites: Sites) -> None:
    with sites() as site:
        one = site.ask(png(), wait=True).json()["id"]
        root = f"/api/explanations/{one}"
        assert site.client.patch(root, json={"title": "  The zebra\n of  Monday "}).json() == {"id": one, "title": "The zebra of Monday"}
        assert site.get(root)["title"] == site.get(f"{root}/summary")["title"] == "The zebra of Monday"
        assert '"title":"The zebra of Monday"' in site.client.get(f"{root}/events").text.replace('": "', '":"')
        archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"{root}/bundle.zip").content))
        assert archive.read("README.txt").decode().startswith("The zebra of Monday\n")
    with sites() as site:
        assert site.get(root)["title"] == "The zebra of Monday"
        assert site.client.patch(root, json={"title": " "}).json()["title"] is None
        assert "title" not in site.get(root)


def test_one_that_is_still_made_can_be_named(site: Site) -> None:
    gate = site.models.gate("forward")
    one = site.ask(png()).json()["id"]
    gate.wait()
    site.client.patch(f"/api/explanations/{one}", json={"title": "early"})
    assert site.get(f"/api/explanations/{one}")["title"] == "early"
    gate.open()
    site.finish(one)
    assert site.get(f"/api/explanations/{one}")["title"] == "early"


def test_what_is_wrong_with_a_name_is_said(site: Site, refused: Check) -> None:
    one = site.ask(png(), wait=True).json()["id"]
    told = refused(site.client.patch(f"/api/explanations/{one}", json={"title": "x" * 121}), 422, "title-too-long")
    assert (told["detail"], told["send"]) == ("The title has 121 characters.", "Send at most 120 characters.")
    refused(site.client.patch("/api/explanations/nothing", json={"title": "x"}), 404, "no-such-explanation")
    for body in ({}, {"title": 3}, {"title": "x", "model": "y"}):
        refused(site.client.patch(f"/api/explanations/{one}", json=body), 422, "invalid-request")


def test_nobody_may_embed_unless_the_server_says_who(sites: Sites, refused: Check) -> None:
    with sites() as site:
        one = site.ask(png(), wait=True).json()["id"]
        refused(site.client.get(f"/embed/{one}"), 404, "no-embedding")
        assert "data-embed" not in site.client.get("/image").text
    for embed, ancestors in (("*", "*"), ("https://a.example,http://b.example:81", "https://a.example http://b.example:81")):
        with sites(embed=embed) as site:
            answer = site.client.get(f"/embed/{one}")
            assert answer.status_code == 200
            assert f"frame-ancestors {ancestors}" in answer.headers["content-security-policy"]
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            for path in ("/image", f"/api/explanations/{one}"):
                assert "frame-ancestors 'none'" in site.client.get(path).headers["content-security-policy"]
            assert 'data-embed="yes"' in site.client.get("/image").text
            refused(site.client.get("/embed/nothing"), 404, "no-such-explanation")


@pytest.mark.parametrize("embed", ["school.example", "https://a.example; script-src *", "https://a.example/path"])
def test_a_site_is_named_by_its_origin(embed: str) -> None:
    with pytest.raises(ValueError, match="embed has"):
        load_settings({"embed": embed}, {})

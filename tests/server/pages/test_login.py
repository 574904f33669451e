"""The page that asks for the token."""

from __future__ import annotations

import pytest

from tests.server.conftest import Check, Sites

TOKEN = "a-token-of-many-letters"
BROWSER = {"Accept": "text/html"}


def test_a_browser_gives_the_token_once_and_gets_to_the_page_it_wanted(sites: Sites, refused: Check) -> None:
    with sites(token=TOKEN, loaded=False) as site:
        page = site.client.get("/image?id=7", headers=BROWSER)
        assert page.status_code == 401
        assert 'value="/image?id=7"' in page.text
        assert 'type="password"' in page.text
        wrong = site.client.post("/login", data={"token": "wrong", "after": "/image"}, headers=BROWSER)
        assert (wrong.status_code, "The token is wrong" in wrong.text, 'type="password"' in wrong.text) == (401, True, True)
        assert not site.client.cookies
        right = site.client.post("/login", data={"token": TOKEN, "after": "/image?id=7"}, headers=BROWSER, follow_redirects=False)
        assert (right.status_code, right.headers["location"]) == (303, "/image?id=7")
        assert "HttpOnly; SameSite=Lax" in right.headers["set-cookie"]
        assert TOKEN not in right.headers["set-cookie"]
        assert site.client.get("/image?id=7", headers=BROWSER).status_code == 200
        assert site.client.get("/api/models").status_code == 200
    with sites(token=TOKEN + "2", loaded=False) as changed:
        changed.client.cookies = site.client.cookies
        refused(changed.client.get("/api/models"), 401, "token-needed")


@pytest.mark.parametrize("after", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", ""])
def test_nobody_is_sent_elsewhere(sites: Sites, after: str) -> None:
    with sites(token=TOKEN, loaded=False) as site:
        answer = site.client.post("/login", data={"token": TOKEN, "after": after}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_without_a_token_there_is_nothing_to_give(sites: Sites, refused: Check) -> None:
    with sites(loaded=False) as site:
        assert site.client.get("/login", follow_redirects=False).headers["location"] == "/"
        refused(site.client.post("/login", data={"token": TOKEN}), 404, "no-token")

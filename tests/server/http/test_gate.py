"""Who asks, as the gate finds out, over HTTP: cookies, secrets, tokens, proxies, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.checked_client import CheckedClient
from tests.server.support.gated_models import STEPS, GatedModels
from vitrine_server.app import create_app
from vitrine_server.settings import load_settings

COOKIE, HEADER = "vitrine-visitor", "X-Vitrine-Visitor"
TOKEN = "a-token-of-many-letters"
SITE = {"Origin": "http://testserver"}


@contextmanager
def from_address(sites: Sites, address: str, **settings: Any) -> Iterator[Site]:
    """A server that is asked from this address."""
    with GatedModels().in_registry() as models:
        app = create_app(load_settings({"home": sites.home, "visitors": "apart", **settings}), models.source(), [])
        with CheckedClient(app, client=(address, 50000)) as client:
            yield Site(client, models)


def test_a_browser_gets_its_cookie_with_its_first_page(sites: Sites) -> None:
    with sites(visitors="apart", loaded=False) as site:
        assert "set-cookie" not in site.client.get("/api/models").headers
        assert "set-cookie" not in site.client.get("/healthz").headers
        first = site.client.get("/history")
        assert {part.strip().partition("=")[0] for part in first.headers["set-cookie"].split(";")} == {
            COOKIE,
            "Path",
            "Max-Age",
            "HttpOnly",
            "SameSite",
        }
        assert "SameSite=Lax" in first.headers["set-cookie"]
        assert HEADER not in first.headers  # which a script of the page could read
        assert "set-cookie" not in site.client.get("/history").headers
        site.client.cookies.clear()
        site.client.cookies.set(COOKIE, "forged.value")
        assert COOKIE in site.client.get("/history").headers["set-cookie"]
    with sites(loaded=False) as site:  # on loopback one person is assumed
        assert "set-cookie" not in site.client.get("/history").headers
        assert sorted(path.name for path in sites.home.iterdir() if "key" in path.name) == ["visitors.key"]  # of before


def test_one_person_needs_no_key(sites: Sites) -> None:
    with sites(loaded=False) as site:
        assert HEADER not in site.ask(png()).headers
    assert not (sites.home / "visitors.key").exists()


def test_a_program_keeps_the_secret_that_its_answer_carries(sites: Sites, refused: Check) -> None:
    with sites(visitors="apart") as site:
        answer = site.ask(png(), wait=True)
        site.client.cookies.clear()
        path = f"/api/explanations/{answer.json()['id']}"
        refused(site.client.delete(path), 403, "not-yours")
        refused(site.client.delete(path, headers={HEADER: "forged.secret"}), 401, "unknown-visitor")
        mine = {HEADER: answer.headers[HEADER]}
        again = site.client.post(f"{path}/again", headers=mine)
        assert (again.status_code, HEADER in again.headers) == (202, False)
        assert site.client.delete(path, headers=mine).status_code == 204


def test_secure_and_for_this_host_alone_where_tls_is(sites: Sites) -> None:
    """Also where a trusted proxy ends it; nobody else is believed. Browsers take ``__Host-`` with Secure, Path=/ and no Domain alone."""
    for address, believed in (("127.0.0.1", True), ("10.0.0.7", False)):
        with from_address(sites, address, allowed_hosts="testserver") as site:
            cookie = site.client.get("/", headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
            assert ("; Secure" in cookie, cookie.startswith(f"__Host-{COOKIE}=")) == (believed, believed)
            site.client.cookies.clear()
            site.client.base_url = "https://testserver"  # type: ignore[assignment]
            cookie = site.client.get("/").headers["set-cookie"]
            assert cookie.startswith(f"__Host-{COOKIE}=")
            assert {"Secure", "Path=/", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
            assert "Domain" not in cookie
            assert "set-cookie" not in site.client.get("/").headers  # it is known again
            secret = cookie.partition("=")[2].partition(";")[0]
            site.client.cookies.clear()
            site.client.cookies.set(COOKIE, secret, domain="testserver.local")  # as another host of the domain may set it
            assert "set-cookie" in site.client.get("/").headers


def test_two_servers_of_one_host_have_cookies_of_their_own(sites: Sites) -> None:
    with sites(visitors="apart", path_prefix="/vitrine", loaded=False) as site:
        site.client.base_url = "https://testserver"  # type: ignore[assignment]
        assert site.client.get("/vitrine/").headers["set-cookie"].startswith(f"__Host-{COOKIE}.vitrine=")
        assert "set-cookie" not in site.client.get("/vitrine/history").headers


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_other_sites_do_nothing_with_a_visitors_cookie(sites: Sites, refused: Check, method: str) -> None:
    """What a browser sends along to a form of another site: none of it by SameSite, and none is taken if it does."""
    with sites(visitors="apart") as site:
        one = site.ask(png(), wait=True).json()["id"]
        path = {"POST": "/api/explanations", "PUT": f"/api/explanations/{one}/order"}.get(method, f"/api/explanations/{one}")
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            refused(site.client.request(method, path, headers=headers), 403, "cross-site")
        refused(site.client.request(method, path, headers={"Host": "evil.example", "Origin": "http://evil.example"}), 403, "unknown-host")
        assert site.get(f"/api/explanations/{one}")["state"] == "done"
        assert site.client.request(method, path, headers=SITE).status_code != 403


def test_the_token_lets_programs_in(sites: Sites, refused: Check) -> None:
    with sites(token=TOKEN, loaded=False) as site:
        for headers in ({}, {"Authorization": "Basic eA=="}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}):
            answer = site.client.get("/api/models", headers=headers)
            refused(answer, 401, "token-needed")
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/metrics", "/api/openapi.json", "/api/limits", "/nowhere"):
            assert site.client.get(path).status_code == 401
        assert site.client.get("/api/models", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200
        assert site.client.get("/healthz").status_code == 200


def test_who_guesses_at_the_token_is_not_heard_any_more(sites: Sites, refused: Check) -> None:
    with sites(token=TOKEN, loaded=False) as site:
        for number in range(30):
            assert site.client.get("/api/models", headers={"Authorization": f"Bearer guess-{number}"}).status_code == 401
        answer = site.client.get("/api/models", headers={"Authorization": f"Bearer {TOKEN}"})
        refused(answer, 429, "too-many-tries")
        assert 1 <= int(answer.headers["retry-after"]) <= 2


def test_a_trusted_proxy_names_the_user(sites: Sites, refused: Check) -> None:
    settings: dict[str, Any] = {"user_header": "X-Remote-User", "trusted_proxies": "10.0.0.0/24"}
    anna, ben = {"X-Remote-User": "anna"}, {"X-Remote-User": "ben"}
    with from_address(sites, "10.0.0.7", **settings) as site:
        for headers in ({}, {"X-Remote-User": " "}):
            refused(site.client.get("/api/models", headers=headers), 401, "user-needed")
        refused(site.client.get("/api/models", headers=[("X-Remote-User", "anna"), ("X-Remote-User", "ben")]), 401, "user-needed")  # type: ignore[arg-type]
        site.client.headers.update(anna)
        answer = site.ask(png(), wait=True)
        path = f"/api/explanations/{answer.json()['id']}"
        assert "set-cookie" not in answer.headers
        refused(site.client.delete(path, headers=ben), 403, "not-yours")
        assert site.client.patch(path, json={"title": "anna's"}).status_code == 200
    with from_address(sites, "10.0.1.7", **settings) as site:  # no proxy: what it says is dropped
        refused(site.client.get("/api/models", headers=anna), 401, "user-needed")
    with from_address(sites, "10.0.1.7", **settings, token=TOKEN) as site:
        refused(site.client.delete(path, headers={**anna, "Authorization": f"Bearer {TOKEN}"}), 403, "not-yours")


def test_one_visitor_and_one_address_ask_only_so_often(sites: Sites, refused: Check) -> None:
    with sites(visitors="apart", visitor_rate=3, address_rate=5, loaded=False) as site:

        def ask() -> Any:
            return site.client.post("/api/runs", json={})

        site.client.get("/")
        assert [ask().status_code for _ in range(3)] == [422] * 3
        answer = ask()
        refused(answer, 429, "too-many-questions")
        assert 1 <= int(answer.headers["retry-after"]) <= 20
        assert site.client.get("/api/models").status_code == 200
        for status in (422, 422, 429):  # with a new secret each time, until the address has had its share
            site.client.cookies.clear()
            site.client.get("/")
            assert ask().status_code == status
    with sites(visitor_rate=1, address_rate=1, loaded=False) as site:  # one person asks as often as they like
        assert [site.client.post("/api/runs", json={}).status_code for _ in range(3)] == [422] * 3


def test_who_drops_secrets_gets_no_turn_with_each(sites: Sites, refused: Check) -> None:
    """They are one visitor, the address: so is their share of the queue."""
    with sites(visitors="apart", queue_size=4, queue_share=2) as site:
        gate = site.models.gate(STEPS[0])
        site.ask(png(0), methods=[STEPS[0]])
        gate.wait()
        for seed, status in ((1, 202), (2, 202), (3, 429)):
            site.client.cookies.clear()
            assert site.ask(png(seed)).status_code == status
        for seed, status in ((4, 202), (5, 202), (6, 429)):  # and with secrets, no more than the queue holds
            site.client.cookies.clear()
            site.client.get("/")
            assert site.ask(png(seed)).status_code == status
        gate.open()


def test_models_are_their_visitors(sites: Sites, refused: Check) -> None:
    """One that was brought, and the files of one on their way: others do not learn that it is there."""
    with sites(visitors="apart", own_models="uploads", host="0.0.0.0", allowed_hosts="testserver") as site:
        upload = site.client.post("/api/opening").json()["id"]
        site.client.put(f"/api/opening/{upload}/file", params={"name": "a.safetensors"}, content=b"x")
        name = site.client.post("/api/opening/open", json={"upload": upload, "name": "secret"}).json()["name"]
        site.wait_for_models(name)
        assert name in [entry["name"] for entry in site.get("/api/models")["models"]]
        assert site.ask(png(), model=name, wait=True).json()["state"] == "done"
        site.client.cookies.clear()
        site.client.get("/")
        assert "secret" not in site.client.get("/api/models").text
        calls = [
            site.ask(png(), model=name),
            site.client.get(f"/api/models/{name}"),
            site.client.get(f"/models/{name}"),
            site.client.get("/api/methods", params={"model": name}),
            site.client.get("/api/models/events", params={"name": name}),
            site.client.get("/api/opening/report", params={"name": name}),
        ]
        for answer in calls:
            refused(answer, 404, "unknown-model")
            assert "secret" not in answer.json()["send"]
        assert site.client.post("/api/models", json={"name": name}).status_code == 404
        files = [
            site.client.put(f"/api/opening/{upload}/file", params={"name": "b.json"}, content=b"{}"),
            site.client.post("/api/opening/look", json={"upload": upload}),
            site.client.post("/api/opening/open", json={"upload": upload}),
            site.client.delete(f"/api/opening/{upload}"),
        ]
        for answer in files:
            refused(answer, 404, "no-such-upload")


def test_an_explanation_keeps_its_owner_through_a_restart(sites: Sites, refused: Check) -> None:
    with sites(visitors="apart") as site:
        answer = site.ask(png(), wait=True)
        mine, one = {HEADER: answer.headers[HEADER]}, f"/api/explanations/{answer.json()['id']}"
    with sites(visitors="apart", loaded=False) as site:
        refused(site.client.delete(one), 403, "not-yours")
        assert site.client.patch(one, json={"title": "kept"}, headers=mine).status_code == 200
    with sites(loaded=False) as site:  # one person: everything is theirs
        assert site.client.delete(one).status_code == 204
    with sites() as site:
        nobodys = f"/api/explanations/{site.ask(png(), wait=True).json()['id']}"
    with sites(visitors="apart", loaded=False) as site:
        site.client.get("/")
        assert site.get(nobodys)["shared"] is True
        refused(site.client.delete(nobodys), 403, "not-yours")

"""Who may change anything: pages of other sites may not, by whichever name they reach the server."""

from __future__ import annotations

import pytest

from tests.server.conftest import Check, Site, Sites

OURS = ("localhost", "localhost:80", "LOCALHOST:8000", "localhost.:8000", "127.0.0.1:8000", "127.3.2.1", "[::1]:8000", "[::1]")
OTHERS = (
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.7:8000",
    "0.0.0.0:8000",
    "[fe80::1]:8000",
    "evil@localhost",
    "localhost:8000:8000",
    "[",
    "a b",
    "",
)


def change(site: Site, **headers: str) -> int:
    """The status of a request that would change something if it were let in: 404 where it was."""
    return int(site.client.delete("/api/explanations/a", headers=headers).status_code)


@pytest.mark.parametrize("host", OURS)
def test_the_machine_itself_may(site: Site, host: str) -> None:
    assert change(site, Host=host) == 404
    assert change(site, Host=host, Origin=f"http://{host}") == 404


@pytest.mark.parametrize("host", OTHERS)
def test_another_name_may_not(site: Site, refused: Check, host: str) -> None:
    """A site that points its own name at this machine: for the browser the page and the server are of one origin."""
    headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    calls = (("POST", "/api/explanations"), ("POST", "/api/runs"), ("PATCH", "/api/explanations/a"), ("DELETE", "/api/runs/a"))
    for method, path in calls:
        document = refused(site.client.request(method, path, headers=headers), 403, "unknown-host")
        assert "VITRINE_ALLOWED_HOSTS" in document["send"]
    assert site.client.get("/api/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://localhost.evil.example",
        "http://testserver:3000",
        "http://localhost:3000",
        "file://",
        "",
        "http://[",
    ],
)
def test_a_page_of_another_site_may_not(site: Site, refused: Check, origin: str) -> None:
    """Also where the browser is too old to say so itself."""
    document = refused(site.client.post("/api/runs", json={}, headers={"Origin": origin}), 403, "cross-site")
    assert "VITRINE_ALLOWED_HOSTS" in document["send"]
    assert site.client.get("/api/models", headers={"Origin": origin}).status_code == 200


def test_two_names_are_none(site: Site, refused: Check) -> None:
    headers = [("Host", "localhost"), ("Host", "evil.example")]
    refused(site.client.delete("/api/explanations/a", headers=headers), 403, "unknown-host")  # type: ignore[arg-type]


def test_the_settings_allow_names(sites: Sites, refused: Check) -> None:
    with sites(allowed_hosts="Vitrine.example, lab.example:8443", loaded=False) as site:
        assert change(site, Host="vitrine.example") == 404
        assert change(site, Host="vitrine.example", Origin="https://vitrine.example") == 404
        assert change(site, Host="vitrine.example:443", Origin="https://vitrine.example") == 404
        assert change(site, Host="lab.example:8443", Origin="https://lab.example:8443") == 404
        # a proxy that puts its own address in the place of the name
        assert change(site, Host="127.0.0.1:8000", Origin="https://vitrine.example") == 404
        assert change(site, Host="127.0.0.1:8000", Origin="https://lab.example:8443") == 404
        # what else is served under that name is another site
        assert change(site, Host="vitrine.example", Origin="http://vitrine.example:3000") == 403
        assert change(site, Host="vitrine.example", Origin="https://lab.example") == 403
        assert change(site, Host="evil.vitrine.example") == 403


def test_the_address_listened_on_is_a_name(sites: Sites) -> None:
    with sites(host="Lab.example", loaded=False) as site:
        assert change(site, Host="lab.example:8000", Origin="http://lab.example:8000") == 404
        assert change(site, Host="evil.example:8000") == 403


def test_programs_need_no_origin(site: Site) -> None:
    assert change(site) == 404
    assert change(site, **{"Sec-Fetch-Site": "same-origin"}) == 404
    assert change(site, **{"Sec-Fetch-Site": "cross-site"}) == 403

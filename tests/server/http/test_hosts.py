"""Who may change anything: pages of other sites may not, by whichever name they reach the server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Check, Site, Sites
from vitrine_server.http import hosts

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


@pytest.mark.parametrize("host", OTHERS)
@pytest.mark.parametrize("names", [{}, {"allowed_hosts": "vitrine.example"}])
def test_another_name_reads_nothing_of_a_server_for_this_machine(sites: Sites, refused: Check, host: str, names: dict[str, str]) -> None:
    """Whose page it is that asks, the server cannot tell: it would read what the person at the machine may."""
    with sites(loaded=False, **names) as site:
        for path in ("/", "/api/models", "/api/explanations", "/api/runs", "/healthz", "/static/core/dom.js", "/nowhere"):
            answer = site.client.get(path, headers={"Host": host})
            assert answer.status_code == 403, path
        refused(site.client.get("/api/runs", headers={"Host": host}), 403, "unknown-host")
        assert site.client.get("/api/models", headers={"Host": "localhost:8000"}).status_code == 200


@pytest.mark.parametrize("listened", ["0.0.0.0", "::"])
def test_a_server_for_the_network_is_used_by_address_and_by_name(
    sites: Sites, refused: Check, monkeypatch: pytest.MonkeyPatch, listened: str
) -> None:
    """Without a setting. By other names it is read, as everybody on the network may read it, and nothing is changed."""
    hosts._machine_names.cache_clear()
    monkeypatch.setattr(hosts, "gethostname", lambda: "Lab-PC.example.org")
    with sites(host=listened, loaded=False) as site:
        site.client.base_url = "http://192.168.1.5:8000"  # type: ignore[assignment]
        for host in ("192.168.1.5:8000", "lab-pc:8000", "Lab-PC.local:8000", "lab-pc.example.org", "lab-pc.", "localhost:8000"):
            assert site.client.get("/api/models", headers={"Host": host}).status_code == 200
            assert change(site, Host=host, Origin=f"http://{host}") == 404, host
        for host in ("192.168.1.6:8000", "evil.example", "other-pc:8000", "lab-pc.evil.example", ".local"):
            assert site.client.get("/api/models", headers={"Host": host}).status_code == 200
            refused(site.client.delete("/api/explanations/a", headers={"Host": host}), 403, "unknown-host")
    with sites(host="192.168.1.5", loaded=False) as site:
        assert change(site, Host="lab-pc:8000") == 403  # that name may lead elsewhere
    hosts._machine_names.cache_clear()


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"])
@pytest.mark.parametrize("settings", [{}, {"host": "0.0.0.0"}, {"allowed_hosts": "vitrine.example"}, {"trusted_proxies": "10.0.0.7"}])
def test_a_proxy_that_nobody_named_is_refused(sites: Sites, refused: Check, header: str, settings: dict[str, Any]) -> None:
    """Whatever it passes on as Host, and whether there is another one that was named."""
    with sites(loaded=False, **settings) as site:
        for host in ("localhost", "127.0.0.1:8000", "testserver", "evil.example"):
            headers = {"Host": host, header: "203.0.113.9"}
            refused(site.client.delete("/api/explanations/a", headers=headers), 403, "unknown-proxy")
            read = site.client.get("/api/models", headers=headers).status_code
            assert read == (200 if settings.get("host") else 403)  # as any other on the network
            assert not site.client.get("/api/opening", headers=headers).json().get("paths")
        if "allowed_hosts" in settings:
            assert change(site, Host="vitrine.example", **{header: "203.0.113.9"}) == 404
            assert site.client.get("/api/models", headers={"Host": "vitrine.example", header: "203.0.113.9"}).status_code == 200


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

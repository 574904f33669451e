"""Vitrine behind nginx as deploy/nginx.conf has it: TLS, a path of its own, pages, events and exports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import shutil
import signal
import ssl
import subprocess
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.support.serving import VISITED, launched, wait_for_maps
from tests.browser.support.tiny_models import tiny_server
from tests.browser.support.visit import FEW
from tests.conftest import ROOT
from tests.server.conftest import png
from tests.server.support.hostile import until
from tests.system.support.attacked import free_port
from vitrine_server.pages.routes import PAGES

pytestmark = pytest.mark.system
MISSING = [name for name in ("nginx", "openssl") if shutil.which(name) is None]
PREFIX = "/vitrine"


def configuration(folder: Path, port: int, tls_port: int, server: str) -> str:
    """deploy/nginx.conf at other ports, with another certificate, inside a whole configuration."""
    site = (ROOT / "deploy" / "nginx.conf").read_text("utf-8")
    changes = {
        "127.0.0.1:8000": server,
        "listen 80;": f"listen 127.0.0.1:{port};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{tls_port} ssl http2;",
        "vitrine.example": "localhost",
        "https://$host$request_uri": f"https://$host:{tls_port}$request_uri",
        "/etc/ssl/vitrine": str(folder),
    }
    for before, after in changes.items():
        assert before in site, before
        site = site.replace(before, after)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.geteuid() == 0 else ""
    return (
        f"{user}daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n"
        "worker_rlimit_nofile 12000;\nevents { worker_connections 11000; }\n"
        f"http {{\naccess_log off;\n{temporary}{site}\n}}\n"
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where browsers find the server."""
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} cannot be found: `apt-get install nginx-light openssl` on Debian")
    folder = tmp_path_factory.mktemp("nginx")
    ask = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    subprocess.run([*ask, *names], check=True, capture_output=True)
    port, tls_port = free_port(), free_port()
    with tiny_server(tmp_path_factory.mktemp("tiny"), path_prefix=PREFIX, allowed_hosts=f"localhost:{tls_port}") as server:
        (folder / "nginx.conf").write_text(configuration(folder, port, tls_port, urlsplit(server).netloc), "utf-8")
        with subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]) as nginx:
            try:
                with client(f"https://localhost:{tls_port}") as asked:
                    until(lambda: nginx.poll() is None and is_there(asked), "nginx answers")
                    moved = httpx.get(f"http://localhost:{port}{PREFIX}/image")
                    assert moved.headers["location"] == f"https://localhost:{tls_port}{PREFIX}/image"
                yield f"https://localhost:{tls_port}"
            finally:
                nginx.send_signal(signal.SIGTERM)


#: The people of a course behind one address, and how many requests a page has under way at once while it opens.
PEOPLE, REQUESTS = 200, 24
#: How many requests a page sends in all while it opens, and how many a second a person sends in the long run.
REQUESTS_OF_A_PAGE, REQUESTS_PER_SECOND = 34, 4


async def _asked_at_once(folder: Path, count: int) -> Counter[int]:
    """How often each status is answered to ``count`` requests that are all under way at once, from one address, through nginx.conf."""
    arrived = [asyncio.Event() for _ in range(count)]  # at the upstream
    all_are_sent, sent = asyncio.Event(), 0
    few = asyncio.Semaphore(100)  # connections that are being made: the kernel resets some where hundreds begin in one moment

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        arrived[int(head.split()[1].rpartition(b"/")[2])].set()
        await all_are_sent.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def ask(port: int, number: int) -> int:
        nonlocal sent
        async with few:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {PREFIX}/{number} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            status = asyncio.ensure_future(reader.readline())
            here = asyncio.ensure_future(arrived[number].wait())
            await asyncio.wait({status, here}, return_when=asyncio.FIRST_COMPLETED)  # it waits, or is refused
            here.cancel()
        sent += 1
        if sent == count:
            all_are_sent.set()
        code = int((await status).split()[1])
        writer.close()
        return code

    async with _nginx(folder, answer) as port, asyncio.timeout(120):
        return Counter(await asyncio.gather(*(ask(port, number) for number in range(count))))


@contextlib.asynccontextmanager
async def _nginx(
    folder: Path, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], changes: Mapping[str, str] | None = None
) -> AsyncIterator[int]:
    """nginx with nginx.conf, whose upstream is ``answer``, without TLS; the port at which it answers."""
    port, tls_port = free_port(), free_port()
    async with await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096) as server:
        upstream = "{}:{}".format(*server.sockets[0].getsockname()[:2])
        text = configuration(folder, port, tls_port, upstream).replace(" ssl http2;", ";")  # one request a connection, without TLS
        for before, after in (changes or {}).items():
            assert before in text, before
            text = text.replace(before, after)
        (folder / "nginx.conf").write_text(re.sub(r"ssl_certificate.*;", "", text), "utf-8")
        nginx = await asyncio.create_subprocess_exec("nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log"))
        try:
            async with asyncio.timeout(10):
                while True:
                    with contextlib.suppress(OSError):
                        _, writer = await asyncio.open_connection("127.0.0.1", tls_port)
                        writer.close()
                        break
                    await asyncio.sleep(0)
            yield tls_port
        finally:
            nginx.terminate()
            await nginx.wait()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx cannot be found")
@pytest.mark.parametrize("over", [0, 40])
def test_a_course_behind_one_address_is_answered_whole(tmp_path: Path, over: int) -> None:
    """All pages of 200 people that open at once; more than that from one address is refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 20_000:
        pytest.skip(f"{hard} file descriptors are too few for this test")
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, hard))
    try:
        statuses = asyncio.run(_asked_at_once(tmp_path, PEOPLE * REQUESTS + over))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert statuses == Counter({200: PEOPLE * REQUESTS, **({503: over} if over else {})})


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx cannot be found")
def test_who_asks_too_often_is_told_when_to_ask_again(tmp_path: Path) -> None:
    """With smaller numbers than nginx.conf has: 21 requests, and then one a minute."""
    changes = {"rate=800r/s": "rate=1r/m", "burst=6800": "burst=20"}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def ask() -> list[httpx.Response]:
        async with _nginx(tmp_path, answer, changes) as port, httpx.AsyncClient(base_url=f"http://localhost:{port}") as client:
            return [await client.get(f"{PREFIX}/") for _ in range(24)]

    answers = asyncio.run(ask())
    assert [one.status_code for one in answers] == [200] * 21 + [429] * 3
    assert [one.headers.get("retry-after") for one in answers] == [None] * 21 + ["2"] * 3


def test_the_limits_follow_the_arithmetic_of_the_page() -> None:
    """docs/operations.md, nginx.conf and nginx-main.conf have the same numbers."""
    site, main = ((ROOT / "deploy" / name).read_text("utf-8") for name in ("nginx.conf", "nginx-main.conf"))
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert f"limit_conn            vitrine {PEOPLE * REQUESTS};" in site
    assert f"{PEOPLE} people × {REQUESTS} requests at once" in page
    assert f"rate={PEOPLE * REQUESTS_PER_SECOND}r/s;" in site
    assert f"burst={PEOPLE * REQUESTS_OF_A_PAGE} nodelay;" in site
    assert f"{PEOPLE * REQUESTS_OF_A_PAGE:,} is {PEOPLE} people × {REQUESTS_OF_A_PAGE} requests of a page" in page
    assert f"{PEOPLE * REQUESTS_PER_SECOND} is {PEOPLE} people × {REQUESTS_PER_SECOND} a second" in page
    assert f"{40 * REQUESTS} requests at once and {40 * REQUESTS_OF_A_PAGE:,} in the second" in page
    for name in ("worker_connections", "worker_rlimit_nofile"):
        (number,) = re.findall(rf"{name} (\d+);", main)
        assert int(number) * 15 / 16 > 2 * PEOPLE * REQUESTS
        assert f"| `{name}` | {int(number):,} |" in page
        assert f"{name} {number};" in page
    assert f"ulimits: {{nofile: {number}}}" in (ROOT / "deploy" / "compose.yaml").read_text("utf-8")


def client(address: str) -> httpx.Client:
    """Certificates are our own: nobody is asked whether they are good."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return httpx.Client(base_url=address, verify=trusting, timeout=60)


def is_there(asked: httpx.Client) -> bool:
    try:
        return asked.get(f"{PREFIX}/readyz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:8000", "localhost.evil.example", "vitrine", ""])
def test_nginx_answers_for_its_own_name_alone(address: str, host: str) -> None:
    """Vitrine never hears of another: a name of this machine would look like a person at it."""
    with client(address) as asked:
        for path in (f"{PREFIX}/api/opening", f"{PREFIX}/healthz"):
            with pytest.raises(httpx.HTTPError):
                asked.get(path, headers={"Host": host}).raise_for_status()
        assert asked.get(f"{PREFIX}/api/opening").json()["paths"] is False  # though nginx asks from this machine, by its name


def test_the_api_behind_nginx(address: str) -> None:
    with client(address) as asked:
        assert asked.get(PREFIX).headers["location"].endswith(f"{PREFIX}/")
        answer = asked.post(f"{PREFIX}/api/explanations", data={"model": "scenes-vit", "methods": ["rollout"]}, files={"image": png()})
        told = answer.raise_for_status().json()
        with asked.stream("GET", told["events"]) as events:  # as they are: below the prefix
            names = [line for line in events.iter_lines() if line.startswith("event: ")]
        assert (names[0], names[-1]) == ("event: queued", "event: done")
        assert f"{address}{PREFIX}/api/explanations" in asked.get(f"{told['url']}/code").json()["curl"]
        with zipfile.ZipFile(BytesIO(asked.get(f"{told['url']}/bundle.zip").raise_for_status().content)) as bundle:
            assert "explanation.json" in bundle.namelist()
        too_large = asked.post(f"{PREFIX}/api/explanations", data={"model": "scenes-vit"}, files={"image": bytes(22_000_000)})
        assert too_large.status_code == 413
        assert asked.get(f"{PREFIX}/metrics").status_code == 200  # from this machine
        assert asked.get(f"{PREFIX}/healthz").headers["strict-transport-security"]
        assert asked.get(f"{PREFIX}/api/methods").headers["content-encoding"] == "gzip"
        from_elsewhere = asked.post(f"{PREFIX}/api/models", json={"name": "x"}, headers={"Origin": "https://evil.example"})
        assert from_elsewhere.status_code == 403
        over_http = asked.post(f"{PREFIX}/api/models", json={"name": "x"}, headers={"Origin": address.replace("https", "http") + "1"})
        assert over_http.status_code == 403


def test_every_page_events_and_exports_in_a_browser(address: str, tmp_path: Path) -> None:
    failed: list[str] = []
    with sync_playwright() as playwright, launched(playwright) as browser:
        context = browser.new_context(ignore_https_errors=True, accept_downloads=True)
        context.add_init_script(VISITED)
        page = context.new_page()
        page.on("response", lambda answer: failed.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
        page.on("requestfailed", lambda request: failed.append(f"{request.failure} {request.url}"))
        page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
        for path in PAGES:
            page.goto(address + PREFIX + path)
            page.wait_for_load_state("networkidle")
        page.goto(f"{address}{PREFIX}/image?model=scenes-vit&more=shown&{FEW}")
        wait_for_maps(page)
        page.locator("#export .menu summary").click()
        with page.expect_download() as download:
            page.locator("#export").get_by_text("Bundle").click()
        download.value.save_as(tmp_path / "bundle.zip")
        assert zipfile.is_zipfile(tmp_path / "bundle.zip")
        page.locator("header nav").get_by_role("link", name="Text").click()
        expect(page.locator("#text")).to_be_visible()
        wait_for_maps(page)
        assert urlsplit(page.url).path == f"{PREFIX}/text"
    assert [line for line in failed if "ERR_ABORTED" not in line] == []  # a page that is left asks no more

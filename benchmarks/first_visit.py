"""How long the first page takes far away, on a phone: ``python -m benchmarks.first_visit``.

A Chromium that has nothing of the page opens Image, each answer as late as ``--latency`` says and the processor as much slower as ``--cpu``
says; then once more, with what it has kept. Several servers, as ``--address before=http://127.0.0.1:8001 after=http://127.0.0.1:8002``, are
visited by turns, so that what else the machine does falls on all of them. Prints medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Response, sync_playwright

from tests.browser.support.serving import VISITED, launched, played, wait_until_loaded

PHONE = {"width": 390, "height": 844}
#: A script that returns the time of the first paint and of the first map, in milliseconds of the page's clock.
TIMES = """
() => new Promise((resolve) => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const look = () => {
    const is_there = document.querySelector(".plate[data-state=done] [data-drawn=true]");
    if (is_there && painted()) resolve([painted(), performance.now()]);
    else requestAnimationFrame(look);
  };
  look();
})
"""


def visit(context: BrowserContext, address: str, path: str, latency: float, slower: float) -> dict[str, float]:
    """Open the page ``path`` of the server at ``address`` in a new tab of ``context``, with ``latency`` milliseconds to each answer and a
    processor ``slower`` times as slow: return the seconds to the first paint and to the first map, and the requests and kilobytes until
    then.
    """
    page = context.new_page()
    answers: list[Response] = []

    def note(answer: Response) -> None:  # the library marks what it calls, and cannot mark a list's own
        answers.append(answer)

    page.on("response", note)
    protocol = context.new_cdp_session(page)
    protocol.send("Network.enable")
    network = {"offline": False, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1}
    protocol.send("Network.emulateNetworkConditions", network)
    protocol.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    received = 0.0

    def count(event: dict[str, float]) -> None:
        nonlocal received
        received += event["encodedDataLength"]

    protocol.on("Network.loadingFinished", count)
    page.goto(f"{address}{path}", wait_until="commit")
    painted, mapped = page.evaluate(TIMES)
    asked = [answer for answer in answers if answer.url.startswith("http")]
    scripts = sum(urlsplit(answer.url).path.endswith(".js") for answer in asked)
    page.close()
    return {
        "first paint, s": painted / 1000,
        "first map, s": mapped / 1000,
        "requests": len(asked),
        "of these scripts": scripts,
        "received, kB": received / 1000,
    }


def measure(browser: Browser, addresses: dict[str, str], args: argparse.Namespace) -> dict[tuple[str, str], dict[str, float]]:
    """Return the median of each figure of several visits in ``browser``, by server (``addresses``, by name) and kind of visit; ``args``
    hold the page, the latency and the number of visits.
    """
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    for number in range(args.times + 1):
        for name, address in addresses.items():
            context = browser.new_context(viewport=PHONE, ignore_https_errors=True)
            context.add_init_script(VISITED)
            for kind in ("first visit", "next visit"):
                row = visit(context, address, args.path, args.latency, args.cpu)
                if number:  # of the first one the server has the answer to make
                    rows.setdefault((name, kind), []).append(row)
            context.close()
    return {key: {what: statistics.median(row[what] for row in of) for what in of[0]} for key, of in rows.items()}


@contextmanager
def own_server() -> Iterator[dict[str, str]]:
    """Start a server of this checkout, and yield its name and address."""
    with tempfile.TemporaryDirectory() as home, played(Path(home), samples=None, device="cpu") as address:
        wait_until_loaded(address, "photos-vit")
        yield {"here": address}


def main() -> None:
    """Measure first and next visits, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", nargs="+", metavar="NAME=URL", help="servers that run already; default: one of this checkout")
    parser.add_argument("--path", default="/image", help="the page (default /image)")
    parser.add_argument("--latency", type=float, default=50, help="milliseconds by which each answer is later (default 50)")
    parser.add_argument("--cpu", type=float, default=4, help="how much slower the processor is (default 4)")
    parser.add_argument("--times", type=int, default=5, help="of which the median is printed (default 5)")
    args = parser.parse_args()
    with sync_playwright() as playwright, launched(playwright) as browser:
        if args.address:
            table = measure(browser, dict(entry.split("=", 1) for entry in args.address), args)
        else:
            with own_server() as addresses:
                table = measure(browser, addresses, args)
    print("| server | visit |", " | ".join(next(iter(table.values()))), "|")
    for (name, kind), row in table.items():
        print(
            f"| {name} | {kind} |",
            " | ".join(f"{value:.2f}" if what.endswith(", s") else f"{value:.0f}" for what, value in row.items()),
            "|",
        )


if __name__ == "__main__":
    main()

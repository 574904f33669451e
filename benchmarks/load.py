"""Load test: many clients ask a running server, each one question at a time, and their waiting times are reported.

``python -m benchmarks.load --address http://127.0.0.1:8000 --clients 32 --seconds 60``. It asserts nothing: how long is too long is for
whoever runs the server to say. Everything asked is stored there, as if people had asked it.

With ``--read /api/methods /api/leaderboard/table`` the clients ask no model: each fetches one of these addresses over and over, and what is
reported is how long ``/healthz`` takes meanwhile, which another process asks for. Give the server and this a core each (``taskset``).
"""

from __future__ import annotations

import argparse
import http.client
import io
import multiprocessing
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import numpy as np
from PIL import Image

SIDE = 224  # pixels
QUANTILES = (0.5, 0.9, 0.99, 1.0)
PROBE_SECONDS = 0.05  # pause between two requests of /healthz


@dataclass
class Report:
    """The answers that clients got: how many by status (``statuses``), and the seconds that each took from the first try on, refusals and
    waits for room included (``waits``).
    """

    statuses: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)


def picture(client: int, turn: int) -> bytes:
    """Return the bytes of a JPEG that nobody else sends, for turn number ``turn`` of ``client``: coarse noise, which compresses."""
    coarse = np.random.default_rng((client, turn)).integers(0, 256, (14, 14, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(coarse).resize((SIDE, SIDE)).save(buffer, "JPEG")
    return buffer.getvalue()


def ask(client: int, arguments: argparse.Namespace, over: threading.Event, report: Report) -> None:
    """Send one question after the other to the server that ``arguments`` name, as client number ``client``, until ``over`` is set; count
    answers and waits in ``report``.
    """
    turn = 0
    with httpx.Client(base_url=arguments.address, timeout=3600) as http:
        while not over.is_set():
            turn, began = turn + 1, time.monotonic()
            fields = {"model": arguments.model, "methods": arguments.methods}
            while not over.is_set():
                try:
                    answer = http.post("api/explanations?wait=1", data=fields, files={"image": picture(client, turn)})
                except httpx.TransportError as error:
                    report.statuses[type(error).__name__] += 1
                    over.wait(1)
                    continue
                report.statuses[str(answer.status_code)] += 1
                if answer.status_code == 429:
                    over.wait(float(answer.headers.get("retry-after", 1)))
                    continue
                if answer.status_code == 200:
                    report.waits.append(time.monotonic() - began)
                break


def fetch(connection: http.client.HTTPConnection, path: str) -> int:
    """GET ``path`` over ``connection`` as browsers do, with gzip, read all of it, and return the status."""
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def read_over_and_over(host: str, paths: list[str], clients: int, seconds: float, counts: multiprocessing.Queue[Counter[str]]) -> None:
    """Read ``paths`` of ``host`` with ``clients`` clients at once for ``seconds``, and put the number of answers of each kind into
    ``counts``.
    """
    until = time.monotonic() + seconds

    def read(client: int) -> Counter[str]:
        path, found = paths[client % len(paths)], Counter[str]()
        connection = http.client.HTTPConnection(host, timeout=120)
        while time.monotonic() < until:
            try:
                found[f"{fetch(connection, path)} of {path}"] += 1
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                found[f"{type(error).__name__} of {path}"] += 1
        return found

    with ThreadPoolExecutor(clients) as pool:
        counts.put(sum(pool.map(read, range(clients)), Counter[str]()))


def probe(host: str, path: str, seconds: float) -> list[float]:
    """Request ``path`` of ``host`` again and again for ``seconds``, and return how many seconds each request took. Raises SystemExit if one
    fails.
    """
    until, waits = time.monotonic() + seconds, []
    connection = http.client.HTTPConnection(host, timeout=120)
    while (began := time.monotonic()) < until:
        status = fetch(connection, path)
        waits.append(time.monotonic() - began)
        if status != 200:
            raise SystemExit(f"{path} answers {status}")
        time.sleep(PROBE_SECONDS)
    return waits


def load_with_reading(arguments: argparse.Namespace) -> None:
    """Measure the seconds of /healthz of the server in ``arguments`` alone and then while clients read, and print both."""
    parts = urlsplit(arguments.address)
    prefix = parts.path.rstrip("/")
    health, paths = f"{prefix}/healthz", [prefix + path for path in arguments.read]
    alone = probe(parts.netloc, health, min(5.0, arguments.seconds))
    counts: multiprocessing.Queue[Counter[str]] = multiprocessing.Queue()
    readers = multiprocessing.Process(
        target=read_over_and_over, args=(parts.netloc, paths, arguments.clients, arguments.seconds, counts), daemon=True
    )
    readers.start()
    waits = probe(parts.netloc, health, arguments.seconds)
    found = counts.get()
    readers.join()
    print(f"{arguments.clients} readers, {arguments.seconds:g} s:", ", ".join(f"{n} x {what}" for what, n in sorted(found.items())))
    for when, values in (("alone", alone), ("meanwhile", waits)):
        quantiles = zip(QUANTILES, np.quantile(values, QUANTILES) * 1000, strict=True)
        print(f"ms until /healthz, {when} ({len(values)} times):", ", ".join(f"{q:.0%} {value:.0f}" for q, value in quantiles))


def main() -> None:
    """Run the clients, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="http://127.0.0.1:8000", help="where the server is, with its path")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--model", default="scenes-vit", help="a model of images")
    parser.add_argument("--methods", nargs="+", default=["rollout", "fullgrad_plus:libra"])
    parser.add_argument("--read", nargs="+", metavar="PATH", help="addresses that the clients fetch, in place of asking a model")
    arguments = parser.parse_args()
    if arguments.read:
        load_with_reading(arguments)
        return
    report, over = Report(), threading.Event()
    with ThreadPoolExecutor(arguments.clients) as pool:
        clients = [pool.submit(ask, client, arguments, over, report) for client in range(arguments.clients)]
        over.wait(arguments.seconds)
        over.set()
        for client in clients:
            client.result()
    print(f"{arguments.clients} clients, {arguments.seconds:g} s:", ", ".join(f"{n} x {status}" for status, n in report.statuses.items()))
    if report.waits:
        values = np.quantile(report.waits, QUANTILES)
        print("seconds until the answer:", ", ".join(f"{q:.0%} {value:.2f}" for q, value in zip(QUANTILES, values, strict=True)))


if __name__ == "__main__":
    main()

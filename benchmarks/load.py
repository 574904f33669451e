"""Load test: many clients ask a running server, each one question at a time, and their waiting times are reported.

``python -m benchmarks.load --address http://127.0.0.1:8000 --clients 32 --seconds 60``. It asserts nothing: how long is too long is for
whoever runs the server to say. Everything asked is stored there, as if people had asked it.
"""

from __future__ import annotations

import argparse
import io
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import numpy as np
from PIL import Image

SIDE = 224  # pixels
QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass
class Report:
    """What clients were answered, and how many seconds each answer took from the first try on, refusals and waits for room included."""

    statuses: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)


def picture(client: int, turn: int) -> bytes:
    """A picture that nobody else sends: coarse noise, which compresses."""
    coarse = np.random.default_rng((client, turn)).integers(0, 256, (14, 14, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(coarse).resize((SIDE, SIDE)).save(buffer, "JPEG")
    return buffer.getvalue()


def ask(client: int, arguments: argparse.Namespace, over: threading.Event, report: Report) -> None:
    """Ask one question after the other until it is ``over``."""
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


def main() -> None:
    """Ask, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="http://127.0.0.1:8000", help="where the server is, with its path")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--model", default="scenes-vit", help="a model of images")
    parser.add_argument("--methods", nargs="+", default=["rollout", "fullgrad_plus:libra"])
    arguments = parser.parse_args()
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

"""How long one waits for a command, for the package and for a server: ``python -m benchmarks.start``.

Each is a process of its own. Prints medians of the seconds that pass, and of those that a processor works, which what else the machine does
lengthens less; ``import torch`` is what of ``import explainers`` is torch's.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import psutil

COMMANDS = {
    "vitrine --help": ["-m", "vitrine_server.cli", "--help"],
    "import torch": ["-c", "import torch"],
    "import explainers": ["-c", "import explainers"],
}


def command(arguments: list[str]) -> tuple[float, float]:
    """Run Python with ``arguments`` to its end; return the seconds that pass, and the seconds of work."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def run_server(device: str = "cpu") -> Iterator[tuple[int, int]]:
    """Start a server of this checkout, whose models run on ``device``, in a process and a home of its own, and yield its process id and its
    port.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        serve = [sys.executable, "-m", "vitrine_server.cli", "serve", "--port", str(port), "--home", home, "--device", device]
        with subprocess.Popen([*serve, "--log-level", "error"], stdout=subprocess.DEVNULL) as server:
            try:
                yield server.pid, port
            finally:
                server.send_signal(signal.SIGTERM)


def until_ready(status: str) -> tuple[float, float]:
    """Start a server, and return the seconds until it is ready, and the seconds of work of its processes until then.

    Ready means that ``/readyz`` answers 200, or, for ``status`` "all", that it has all its models.
    """
    start = time.perf_counter()
    with run_server() as (pid, port):
        while not is_ready(port, status):
            time.sleep(0.05)
        passed = time.perf_counter() - start
        server = psutil.Process(pid)
        times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
        return passed, sum(one.user + one.system for one in times)


def is_ready(port: int, status: str) -> bool:
    """Return whether the server at ``port`` of this machine answers that it is ready, and with ``status`` "all" that it has its models."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30)
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and (status == "ready" or set(answer.json()["models"].values()) == {"loaded"})


def main() -> None:
    """Measure commands and the start of a server, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="of which the median is printed (default 5)")
    args = parser.parse_args()
    acts: dict[str, Callable[[], tuple[float, float]]] = {name: partial(command, arguments) for name, arguments in COMMANDS.items()}
    acts["server ready"] = partial(until_ready, "ready")
    acts["server with all embedded models"] = partial(until_ready, "all")
    rows = {name: [act() for _ in range(args.times)] for name, act in acts.items()}
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n\n| what | seconds | of work |\n|---|---|---|")
    for name, pairs in rows.items():
        passed, worked = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"| `{name}` | {passed:.2f} | {worked:.2f} |")


if __name__ == "__main__":
    main()

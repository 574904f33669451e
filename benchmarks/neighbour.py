"""How much slower an explanation is beside a neighbour that burns all cores: ``python -m benchmarks.neighbour``.

Prints the median seconds of the usual methods of a model, quiet and beside as many busy processes as there are cores, with the threads
that ``explainers.Threads`` chooses and, with ``--fixed``, with one thread a core. Exits with 1 where the chosen threads are more than
``--most`` times slower beside the neighbour. Only ratios within one run say something on a machine that others use too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from PIL import Image

import explainers


@contextmanager
def neighbour(processes: int) -> Iterator[None]:
    """Processes that do nothing but compute."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def seconds(model: explainers.Model, fit: Callable[[], bool], runs: int) -> list[float]:
    """Of so many explanations of one picture, after one that warms up; ``fit`` is called between passes."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8))
    taken = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        explainers.explain(model, picture, cancelled=fit)
        taken.append(time.perf_counter() - start)
    return taken[1:]


def main() -> None:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="An explanation beside a busy neighbour.")
    parser.add_argument("--model", default="scenes-vit")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--most", type=float, default=2.5)
    parser.add_argument("--fixed", action="store_true", help="also with one thread a core, whatever the neighbour does")
    args = parser.parse_args()
    threads, cores = explainers.Threads(), os.cpu_count() or 1
    model = explainers.load(args.model, device="cpu")

    def chosen() -> bool:
        threads.fit(model)
        return False

    def fixed() -> bool:
        torch.set_num_threads(cores)
        return False

    slower = {}
    for name, fit in {"chosen threads": chosen, **({f"{cores} threads": fixed} if args.fixed else {})}.items():
        quiet = seconds(model, fit, args.runs)
        with neighbour(cores):
            busy = seconds(model, fit, args.runs)
        slower[name] = statistics.median(busy) / statistics.median(quiet)
        print(f"{name:16} quiet {statistics.median(quiet):7.2f} s   busy {statistics.median(busy):7.2f} s   {slower[name]:5.1f} times")
    sys.exit(slower["chosen threads"] > args.most)


if __name__ == "__main__":
    main()

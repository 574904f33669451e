"""How much slower an explanation is while another program uses all cores: ``python -m benchmarks.neighbour``.

Prints the median seconds of the usual methods of a model, on a quiet machine and with as many busy processes as there are cores, with the
threads that ``explainers.Threads`` chooses and, with ``--fixed``, with one thread a core. Exits with 1 where the chosen threads are more
than ``--most`` times slower with the neighbour. Only ratios within one run say something on a machine that others use too, and these only
where it is quiet: with n busy processes on c cores and a fair scheduler, one thread takes (n + 1)/c times its quiet time, and more where
yet others compute. The CPU seconds next to it do not grow with that; they do where threads wait for each other.
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
    """Run ``processes`` processes that only burn CPU, inside this context."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def seconds(model: explainers.Model, fit: Callable[[], bool], runs: int) -> tuple[float, float]:
    """Return the median seconds of explaining one picture by ``model``, after one run that warms up: on the clock, and of the CPU.

    ``fit`` is called between passes.
    """
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8))
    taken = []
    for _ in range(runs + 1):
        start, used = time.perf_counter(), time.process_time()
        explainers.explain(model, picture, cancelled=fit)
        taken.append((time.perf_counter() - start, time.process_time() - used))
    clock, cpu = (statistics.median(column) for column in zip(*taken[1:], strict=True))
    return clock, cpu


def main() -> None:
    """Measure explanations quiet and with busy neighbours, print both, and exit with 1 where they slow down too much."""
    parser = argparse.ArgumentParser(description="An explanation next to a busy process.")
    parser.add_argument("--model", default="scenes-vit")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--most", type=float, default=2.5)
    parser.add_argument("--fixed", action="store_true", help="also with one thread a core, whatever the neighbour does")
    args = parser.parse_args()
    threads, cores = explainers.Threads(), os.cpu_count() or 1
    model = explainers.load(args.model, device="cpu")
    load = f"load before it {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    print(f"{args.model}, {args.runs} runs, {cores} cores, {cores} busy neighbours, {load}, at most {threads.most} threads")

    def chosen() -> bool:
        threads.fit(model)
        return False

    def fixed() -> bool:
        torch.set_num_threads(cores)
        return False

    slower = {}
    for name, fit in {"chosen threads": chosen, **({f"{cores} threads": fixed} if args.fixed else {})}.items():
        quiet, used = seconds(model, fit, args.runs)
        with neighbour(cores):
            busy, used_busy = seconds(model, fit, args.runs)
        slower[name] = busy / quiet
        print(
            f"{name:16} quiet {quiet:7.2f} s (CPU {used:.2f})   busy {busy:7.2f} s (CPU {used_busy:.2f})   {slower[name]:5.1f} times,"
            f" {torch.get_num_threads()} threads at the end"
        )
    sys.exit(slower["chosen threads"] > args.most)


if __name__ == "__main__":
    main()

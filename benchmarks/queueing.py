"""How long explanations wait, and how many are refused: ``python -m benchmarks.queueing --seconds 0.8 --rates 1 10 1000``.

Questions arrive by chance (a Poisson process), wait in one line, and are made by the first process that is free, as on one server or a
cluster. What one takes varies as the exponential distribution does, which is more than it mostly is. For each rate the fewest processes are
looked for with which 95 of 100 questions wait less than ``--wait`` seconds, and of which no more than nine tenths are in use: closer to
all, a queue that has once grown long stays so for hours, whatever its mean.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections import deque
from dataclasses import dataclass

ARRIVALS = 100_000


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation: ``mean`` and ``p95`` of the seconds that accepted questions waited, and the share of ``refused`` ones."""

    mean: float
    p95: float
    refused: float


def simulate(rate: float, seconds: float, processes: int, room: float = math.inf, arrivals: int = ARRIVALS, seed: int = 0) -> Outcome:
    """Simulate a queue of questions that come at random, and return the waits.

    ``rate`` questions come a second and take ``seconds`` of one of ``processes`` each, on average; ``room`` of them may wait, others are
    refused. ``arrivals`` questions are drawn by ``seed``.
    """
    chance, now, waits = random.Random(seed), 0.0, []
    free = [0.0] * processes  # the time from which on each process is free
    begins: deque[float] = deque()  # the times at which waiting questions begin
    for _ in range(arrivals):
        now += chance.expovariate(rate)
        while begins and begins[0] <= now:
            begins.popleft()
        if free[0] > now and len(begins) >= room:
            continue
        begin = max(now, free[0])
        heapq.heapreplace(free, begin + chance.expovariate(1 / seconds))
        begins.append(begin)
        waits.append(begin - now)
    waits.sort()
    return Outcome(sum(waits) / len(waits), waits[int(0.95 * len(waits))], 1 - len(waits) / arrivals)


def erlang_c(rate: float, seconds: float, processes: int) -> float:
    """Return the share of questions that wait for one of ``processes``, where ``rate`` come a second and take ``seconds`` each and there is
    room for all (Erlang, 1917), by the recursion of the formula for lost calls.
    """
    load, lost = rate * seconds, 1.0
    for count in range(1, processes + 1):
        lost = load * lost / (count + load * lost)
    return lost / (1 - load / processes * (1 - lost))


def mean_wait(rate: float, seconds: float, processes: int) -> float:
    """Return the mean seconds that a question waits for one of ``processes`` processes, if ``rate`` questions come a second, each takes
    ``seconds``, and all may queue. Infinite if they come faster than they are answered.
    """
    load = rate * seconds
    return math.inf if load >= processes else erlang_c(rate, seconds, processes) * seconds / (processes - load)


def fewest(rate: float, seconds: float, wait: float, most_in_use: float = 0.9) -> int:
    """Return the smallest number of processes with which 95 of 100 questions wait less than ``wait`` seconds, if ``rate`` questions come a
    second, each takes ``seconds``, and all may queue.

    At most the share ``most_in_use`` of the processes is in use. The waits of the questions that wait fall off as an exponential.
    """
    processes = max(math.floor(rate * seconds) + 1, math.ceil(rate * seconds / most_in_use))
    while erlang_c(rate, seconds, processes) * math.exp(-(processes - rate * seconds) * wait / seconds) > 0.05:
        processes += 1
    return processes


def main() -> None:
    """Print a table of processes, room and waits for each rate."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--seconds", type=float, default=0.8, help="that one explanation takes a process")
    parser.add_argument("--rates", type=float, nargs="+", default=[1, 10, 1000], help="explanations a second")
    parser.add_argument("--wait", type=float, default=1.0, help="seconds that 95 of 100 may wait at most")
    parser.add_argument("--room", type=int, help="explanations that may wait, as VITRINE_QUEUE_SIZE; 32, or what comes in two waits")
    args = parser.parse_args()
    print("| explanations a second | processes | in use | room | mean wait, s (formula) | 95 % wait less than, s | refused |")
    print("|---" * 7 + "|")
    for rate in args.rates:
        processes = fewest(rate, args.seconds, args.wait)
        room = args.room or max(32, round(2 * rate * args.wait))
        outcome = simulate(rate, args.seconds, processes, room)
        formula = mean_wait(rate, args.seconds, processes)
        busy = rate * args.seconds / processes
        waits = f"{outcome.mean:.3f} ({formula:.3f}) | {outcome.p95:.2f}"
        print(f"| {rate:g} | {processes} | {busy:.0%} | {room} | {waits} | {outcome.refused:.2%} |")


if __name__ == "__main__":
    main()

"""Seconds and memory of explanations: ``python -m benchmarks.capacity [--models NAME ...] [--runs N] [--out FILE]``.

For each model that ships its memory, and for each of its methods, by the rule of its own, the seconds and the memory of one explanation of
a sample by this method alone, the model's answer included, which is all that ``random`` needs; and the default methods together, as a page
asks them. Methods that are declared slow are measured with ``--slow``. Seconds are those that one thread computed (CPU time, the median of
the runs after a first one), which hardly depend on what else the machine does. Memory is by how much the process grew at most, as Linux
counts it. ``--database URL`` also says how many explanations a second a store of PostgreSQL takes.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import explainers
from explainers.methods import METHODS
from explainers.models.catalogue import embedded_names
from vitrine_server.registries import default_methods
from vitrine_server.samples import read_samples, sample_folders

DEFAULT = "the default methods together"
SLOW_SECONDS = 1.0  # seconds from which on a call is measured only once
PICTURE_BYTES, MAP_BYTES = 500_000, 40_000  # bytes of a picture with its stored companions, and of a map


def _status(name: str) -> int:
    """Return the bytes that Linux counts for this process under this name, such as VmRSS."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def peak_growth(call: Callable[[], Any]) -> int:
    """Return by how many bytes the process grew at most while ``call`` ran."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory is returned first
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # reset the peak
    before = _status("VmRSS")
    call()
    return max(0, _status("VmHWM") - before)


def seconds(call: Callable[[], Any]) -> float:
    """Return the seconds of one core that a call takes."""
    started = time.process_time()
    call()
    return time.process_time() - started


def sample_of(name: str) -> dict[str, Any]:
    """Return the first sample of the model ``name`` as arguments of ``explainers.explain``: source and targets."""
    sample = next(sample for sample in read_samples(sample_folders()).values() if sample.entry["model"] == name)
    text = sample.entry.get("text")
    picture = None if sample.image is None else Image.open(sample.image).convert("RGB")
    source = text if picture is None else picture if text is None else explainers.PicturePrompt(picture, text)
    return {"source": source, "targets": sample.entry.get("prompts")}


def measure(name: str, runs: int, wants: Callable[[str], bool], tell: Callable[[dict[str, Any]], None]) -> None:
    """Measure the model ``name``, each row ``runs`` times, and call ``tell`` with its figures after each row.

    They are ``memory`` in bytes, and ``rows`` by spec with ``seconds`` and ``memory``, for the methods that ``wants`` accepts.
    """
    loaded: list[explainers.Model] = []
    memory = peak_growth(lambda: loaded.append(explainers.load(name, "cpu")))
    model, given = loaded[0], sample_of(name)
    specs = [variant.spec for variant in explainers.variants(model) if variant.reason is None and variant.spec == variant.method_name]
    rows: dict[str, Any] = {}
    for row, methods in ({DEFAULT: default_methods(model)} | {spec: [spec] for spec in specs}).items():
        if not wants(row):
            continue

        def call(methods: list[str] = methods) -> float:
            return seconds(lambda: explainers.explain(model, given["source"], given["targets"], methods))

        took: list[float] = []
        peak = peak_growth(lambda: took.append(call()))  # noqa: B023  (it is called at once)
        if took[0] < SLOW_SECONDS:
            took = [call() for _ in range(runs)]
        rows[row] = {"seconds": statistics.median(took), "memory": peak}
        tell({"memory": memory, "rows": rows})


def stored_a_second(url: str, threads: int, count: int = 200) -> float:
    """Return how many of ``count`` explanations a second are stored whole in the database of PostgreSQL at ``url``, from the question to
    the last of ten maps, by ``threads`` threads.
    """
    from vitrine_server.store.database import PostgresDatabase
    from vitrine_server.store.shared_store import SharedStore

    def one(number: int) -> None:
        name = f"{time.time_ns():x}-{number}"
        document: dict[str, Any] = {"id": name, "state": "queued", "created": "2026-01-01", "maps": []}
        store.add(document, {"original.jpg": bytes(PICTURE_BYTES // 5)}, number.to_bytes(8, "big") * (PICTURE_BYTES // 8), "somebody")
        store.claim(name)
        for place in range(10):
            document["maps"].append({"method": str(place), "scores": [0.123456789] * 196})
            store.save({**document, "state": "running"}, {f"{place}.npy": bytes(MAP_BYTES)})
        store.save({**document, "state": "done"}, {}, name)

    with closing(SharedStore(PostgresDatabase(url, is_shared=True), "capacity", 2**31)) as store, ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(one, range(count)))
        return count / (time.perf_counter() - began)


def table(figures: dict[str, Any]) -> str:
    """Format ``figures``, the measurements by model, as a Markdown table: a row for each method, the slowest first, and for each model its
    seconds and megabytes.
    """
    models = list(figures)
    slowest: dict[str, float] = {}
    for one in figures.values():
        for row, cell in one["rows"].items():
            slowest[row] = max(slowest.get(row, 0.0), cell["seconds"])
    first = [row for row in (DEFAULT,) if row in slowest]
    lines = ["| method | " + " | ".join(f"`{name}`" for name in models) + " |", "|---" * (len(models) + 1) + "|"]
    for row in [*first, *sorted((row for row in slowest if row not in first), key=lambda row: -slowest[row])]:
        cells = []
        for name in models:
            cell = figures[name]["rows"].get(row)
            cells.append("" if cell is None else f"{cell['seconds']:.3g} s, {cell['memory'] / 1e6:.0f} MB")
        lines.append(f"| {row if row in first else f'`{row}`'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure the models that ship, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--models", nargs="+", default=sorted(embedded_names()))
    parser.add_argument("--slow", action="store_true", help="also methods that are declared slow, which ask the model many times")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON, to which those that it has are added")
    parser.add_argument("--database", help="an empty database of PostgreSQL, as VITRINE_DATABASE")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.database:
        for threads in (1, 8):
            print(f"{threads} threads store {stored_a_second(args.database, threads):.0f} explanations a second", flush=True)
        return
    figures: dict[str, Any] = json.loads(args.out.read_text("utf-8")) if args.out is not None and args.out.exists() else {}
    for name in args.models:
        known = figures.get(name, {"rows": {}})["rows"]

        def tell(measured: dict[str, Any], name: str = name, known: dict[str, Any] = known) -> None:
            figures[name] = {"memory": measured["memory"], "rows": known | measured["rows"]}
            if args.out is not None:
                args.out.write_text(json.dumps(figures, indent=1), "utf-8")

        measure(name, args.runs, lambda row, known=known: row not in known and (args.slow or not _is_slow(row)), tell)  # type: ignore[misc]
        print(f"{name}: {figures[name]['memory'] / 1e6:.0f} MB once loaded", flush=True)
    print(table(figures))


def _is_slow(row: str) -> bool:
    return row in METHODS and METHODS[row].slow


if __name__ == "__main__":
    main()

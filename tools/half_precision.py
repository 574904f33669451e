"""The table of half precision in ``docs/results/precision.md``, made by explaining in float32, bfloat16 and float16: ``python -m
tools.half_precision``.

It takes one picture and one text through an embedded model each, on a CPU, half a minute in all.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

import explainers
from benchmarks.gpu import PHOTO, agreement
from explainers.methods import METHODS
from vitrine_server.commands.text_tables import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "precision.md"
HEADINGS = ("method", "bfloat16: difference", "rank", "float16: difference", "rank")
TYPES = (torch.bfloat16, torch.float16)
#: The models that are asked, with the input of each.
INPUTS: dict[str, Path | str] = {"scenes-vit": PHOTO, "reviews-bert": "A brave and moving film, though the second half drags."}
#: The methods that the table leaves out: their maps differ between two runs of one precision, or are read from others that stand in it.
LEFT_OUT = ("random", "refinecam")
_BLOCK = re.compile(r"(<!-- half precision -->\n).*?(<!-- end of half precision -->)", re.DOTALL)

#: Of each method, for each type of weights: the largest difference as a share of the largest score, and the rank correlation.
Agreements = dict[str, tuple[tuple[float, float], ...]]


def quick_specs(model: explainers.Model) -> list[str]:
    """Return the methods with the rules that can explain ``model`` and are quick."""
    return [
        variant.spec
        for variant in explainers.variants(model)
        if variant.reason is None and not METHODS[variant.method_name].slow and variant.method_name not in LEFT_OUT
    ]


def measure() -> Agreements:
    """Return how far the maps of models with weights in half precision are from those in float32, the worse of the models in ``INPUTS``.

    Each map explains the class that is predicted in float32.
    """
    worst: dict[str, list[tuple[float, float]]] = {}
    for name, data in INPUTS.items():
        exact = explainers.load(name, "cpu")
        specs = quick_specs(exact)
        document = explainers.explain(exact, exact.tensors([data]), None, specs)
        label = document.targets[0].label
        for position, dtype in enumerate(TYPES):
            rounded = explainers.load(name, "cpu", dtype=dtype)
            other = explainers.explain(rounded, rounded.tensors([data]), label, specs)
            for one, two in zip(document.maps, other.maps, strict=True):
                found = agreement(one.scores, two.scores)
                row = worst.setdefault(one.method, [(0.0, 1.0)] * len(TYPES))
                row[position] = (max(row[position][0], found["difference"]), min(row[position][1], found["rank correlation"]))
    return {spec: tuple(row) for spec, row in worst.items()}


def read_table(text: str) -> Agreements:
    """Return what the table in ``text``, Markdown, says."""
    block = text.partition("<!-- half precision -->")[2].partition("<!-- end of half precision -->")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): tuple((float(row[at]), float(row[at + 1])) for at in range(1, len(row), 2)) for row in cells}


def write_table(text: str, measured: Agreements) -> str:
    """Return ``text``, Markdown, with the table of what was ``measured`` in place of the one in it."""
    rows = [
        (f"`{spec}`", *(cell for difference, rank in row for cell in (f"{difference:.0e}", f"{rank:.2f}")))
        for spec, row in measured.items()
    ]
    table = markdown_table(HEADINGS, rows).rstrip() + "\n"
    return _BLOCK.sub(lambda found: f"{found[1]}{table}{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(write_table(PAGE.read_text("utf-8"), measure()), "utf-8")

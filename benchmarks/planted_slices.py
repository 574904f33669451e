"""How often ``vitrine slices`` finds a planted mark, and something where there is none: ``python -m benchmarks.planted_slices --data DIR
--out DIR [--round N] [--part I N]``.

``--data`` is a folder with ``tiny_imagenet``, ``sst2.jsonl.xz`` and ``imdb.jsonl.xz``, as :mod:`benchmarks.planted_sets` reads them. Each
set is made, collected (the first default method, without removal) and searched with its model; what is done is kept in ``--out``, so that
a stopped measurement goes on, and several parts can run next to each other. The table is of all sets of the round that are done.

What counts was fixed, in the commit before the first measurement, by somebody who had not read the search:

- A slice names the mark of a picture if its answer is the marked class, or none, and at least half of its patches are patches of the mark.
  A cast of colour lies everywhere; there a slice must have at least half of all patches.
- A slice names the mark of a text if its answer is the marked class, or none, and its word is one of those that were put in; signs, such
  as "#", are no words.
- A set counts as found if any slice names its mark, and as found first if the first slice does. A model that did not learn the mark
  (`planted_sets.MIN_UPTAKE`) counts as well; how many there were is printed.
- A false alarm is a set without a mark with any slice at all. For texts it is counted a second time without the slices whose word tells
  the class in the whole training part of its source, of which the set is a small sample: a binomial test with p below `MAX_TELLING_P`.
- Intervals are Clopper and Pearson's, 95 %.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from scipy.stats import binomtest

import explainers
from benchmarks.planted_sets import GRIDS, MIN_UPTAKE, PLANS, Base, PlantedSet, make, text_source
from explainers.evaluation.statistics import exact_interval

METHOD = "fullgrad_plus:libra"
MIN_PATCHES_ON_MARK = 0.5
MAX_TELLING_P = 1e-4


@dataclass
class Verdict:
    """What the search found in one set. ``names_mark`` and ``is_told`` have an entry for each of its ``slices``: whether it names the mark,
    and whether its word tells the class in the whole source.
    """

    number: int
    base: str
    kind: str
    is_planted: bool
    uptake: float | None
    slices: list[str]
    names_mark: list[bool]
    is_told: list[bool]
    without_effect: int
    seconds: float


def names_mark(each: explainers.Slice, known: PlantedSet) -> bool:
    """Return whether this slice names the mark of the set, as the head of this module says."""
    if each.answer not in (None, known.marked_class):
        return False
    if known.plan.is_text:
        return each.word is not None and each.word.lower() in known.words
    if known.plan.kind == "cast":
        return len(each.patches) >= GRIDS[known.plan.base] ** 2 / 2
    return len(set(each.patches) & set(known.place)) >= MIN_PATCHES_ON_MARK * len(each.patches) > 0


@cache
def _words_of(data: Path, base: Base) -> list[tuple[frozenset[str], str]]:
    """Return the words of each text of the training part of a source, with its class."""
    names, known = text_source(data, base)
    return [(frozenset(re.findall(r"\w+", text.lower())), names[label]) for text, label, split in known if split == "train"]


def tells_class(word: str, answer: str | None, data: Path, base: Base) -> bool:
    """Return whether ``word`` is more frequent with the class ``answer`` than chance explains, in the whole training part of its source."""
    rows = _words_of(data, base)
    labels = [label for words, label in rows if word.lower() in words]
    if answer is None or not labels:
        return False
    share = sum(label == answer for _, label in rows) / len(rows)
    return bool(binomtest(labels.count(answer), len(labels), share, alternative="greater").pvalue < MAX_TELLING_P)


def measure(known: PlantedSet, folder: Path, data: Path) -> Verdict:
    """Collect the rows in ``folder`` and search them."""
    started = time.perf_counter()
    model = explainers.load(str(folder / "model"))
    rows = folder / "rows"
    collection = explainers.collect(
        model, rows / "texts.csv" if known.plan.is_text else rows, folder / "collection", [METHOD], removal=False, batch=32
    )
    assert collection is not None
    found = explainers.slices(collection, model)
    base = known.plan.base
    return Verdict(
        known.plan.number,
        base,
        known.plan.kind,
        known.plan.is_planted,
        known.uptake,
        [each.sentence for each in found.slices],
        [known.plan.is_planted and names_mark(each, known) for each in found.slices],
        [each.word is not None and tells_class(each.word, each.answer, data, base) for each in found.slices],
        found.without_effect,
        time.perf_counter() - started,
    )


def share_of(verdicts: Sequence[Verdict], holds: Callable[[Verdict], bool]) -> str:
    """Return of how many of the sets something holds, with the interval in %."""
    count, of = sum(map(holds, verdicts)), len(verdicts)
    low, high = exact_interval(count, of)
    return f"{count} of {of} ({100 * low:.0f} to {100 * high:.0f} %)"


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the results as Markdown: a row for each kind of mark, and for what was put into inputs of all classes."""
    groups: defaultdict[tuple[bool, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        is_text = verdict.base in ("sentences", "ratings")
        groups[verdict.is_planted, ("texts: " if is_text else "pictures: ") + verdict.kind].append(verdict)
        for group in ("texts: all" if is_text else "pictures: all", "together"):
            groups[verdict.is_planted, group].append(verdict)
    kinds = dict(sorted(groups.items(), key=lambda item: (item[0][1] == "together", item[0][1].split(": ")[0], "all" in item[0][1])))
    lines = ["| planted in one class | found | found first | with other slices |", "| --- | --- | --- | --- |"]
    for (is_planted, kind), those in kinds.items():
        if is_planted:
            found, first = share_of(those, lambda one: any(one.names_mark)), share_of(those, lambda one: one.names_mark[:1] == [True])
            lines.append(f"| {kind} | {found} | {first} | {share_of(those, lambda one: not all(one.names_mark))} |")
    lines += ["", "| in all classes | with a slice | with a slice that does not tell the class |", "| --- | --- | --- |"]
    for (is_planted, kind), those in kinds.items():
        if not is_planted:
            lines.append(
                f"| {kind} | {share_of(those, lambda one: bool(one.slices))} | {share_of(those, lambda one: not all(one.is_told))} |"
            )
    untaken = [one.number for one in verdicts if one.uptake is not None and one.uptake < MIN_UPTAKE]
    return "\n".join([*lines, "", f"Not learned: {untaken or 'none'}."])


def main() -> None:
    """Make and measure the sets of this part that are not done, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--round", type=int, default=1, help="another number is another draw of all sets (default: 1)")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="only every Nth set, from the Ith")
    args = parser.parse_args()
    torch.set_num_threads(1)
    root = args.out / f"round-{args.round}"
    for plan in PLANS[args.part[0] :: args.part[1]]:
        folder = root / f"{plan.number:02}"
        if (folder / "verdict.json").exists():
            continue
        known = make(plan, args.round, args.data, folder)
        verdict = measure(known, folder, args.data)
        (folder / "verdict.json").write_text(json.dumps(asdict(verdict), indent=1), "utf-8")
        print(
            f"{plan.number} {plan.kind}: uptake {known.uptake}, {verdict.slices}, {verdict.names_mark}, {verdict.seconds:.0f} s", flush=True
        )
    print(table([Verdict(**json.loads(file.read_text("utf-8"))) for file in sorted(root.glob("*/verdict.json"))]))


if __name__ == "__main__":
    main()

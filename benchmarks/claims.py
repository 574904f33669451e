"""How often maps earn a claim where the truth is known, and how often its bounds hold: ``python -m benchmarks.claims --out FILE``.

In each world every input is explained, and claims are searched for the maps of methods and for controls: the truth, its inverse, edges (or
the length of words), the distance from the middle, and random numbers. All maps of an input share their random sets. Of the truth's claim
the fall under each drawn filling is then estimated from fresh draws, and whether the 95 % interval from the draws of the claim holds it.
A row of JSON is written for each input; ``--tables FILE ...`` prints the tables of such rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import explainers
from explainers.analysis.claims.claim import Claim, RankedMap, draws_of_result, fall_bounds, find_claim, map_order, ranked_map
from explainers.analysis.claims.draws import Draws
from explainers.datasets import open_dataset
from explainers.evaluation.controls import CONTROLS, control_map, known_input
from explainers.evaluation.marked_parts import explained_mask
from explainers.evaluation.statistics import exact_interval
from explainers.models.inputs.types import ImageInput
from explainers.models.removal.fillings import Filling, InputFillings
from explainers.records.result import Attribution

WORLDS = Path(__file__).parents[1] / "explainers" / "embedded" / "worlds"
METHODS = (
    "random",
    "raw_attention",
    "rollout",
    "generic_attention",
    "generic_attention:libra",
    "transformer_attribution",
    "saliency",
    "input_x_gradient:attnlrp",
    "gradcam_plus",
    "fullgrad_plus:libra",
)
#: Controls that know nothing of the model.
BLIND = ("truth_inverted", "edges", "word_length", "centre")
#: Those that read the input: they may mark what decides, and their claims are true then. So each is asked again with what decides put last.
ON_THE_SURFACE = ("edges", "word_length")
#: Which methods and controls are asked, by what the command line calls them.
MAPS = {"all": (METHODS, ("truth", *BLIND)), "truth": (("random",), ("truth", *BLIND)), "blind": (("random",), BLIND)}
_PATCHES = 64  # of an additive input
FRESH_DRAWS = 500  # from which the true mean fall is estimated
_FRESH_SEED = 1_000_000  # is added to the seed of a claim's draws, the number of its input


@dataclass(frozen=True)
class World:
    """A data set and the model that answers from its marked parts alone."""

    dataset: str
    model: str


WORLD_LIST = (
    World("votes", "votes-vit"),
    World("marked-scenes", "marks-vit"),
    World("subject-verb", "subject-verb-bert"),
)


def measure(world: World, indices: Iterable[int], file: Path, methods: Sequence[str], controls: Sequence[str]) -> None:
    """Search the claims of the maps of ``methods`` and ``controls`` of the inputs number ``indices`` of a world, and append a row for each
    input to ``file``.
    """
    model = explainers.load(str(WORLDS / world.model))
    data = open_dataset(world.dataset)
    for index in indices:
        start = time.perf_counter()
        sample = data[index]
        target = sample.labels[0] if sample.against is None else explainers.Contrast(sample.labels[0], sample.against)
        asked: Any = sample.model_input
        result: explainers.Explanation = explainers.explain(model, asked, target, methods, at=sample.at)
        first, shown = result.maps[0], result.input
        masks = explained_mask(sample, [sample.objects[0]], shown) if isinstance(shown, ImageInput) else None
        known = known_input(sample, first, None if masks is None else masks[0], index)
        assert known is not None
        made = [control_map(name, known, first) for name in controls if data.kind in CONTROLS[name].kinds]
        made += [elsewhere(each, known.truth) for each in made if each is not None and each.method in ON_THE_SURFACE]
        maps = [*result.maps, *(each for each in made if each is not None)]
        draws = draws_of_result(model, result, first.target, seed=index)
        claims = [find_claim(draws, ranked_map(each), shown, looked_at=len(METHODS) - 1) for each in maps]
        row = {
            "world": world.dataset,
            "index": index,
            "parts": len(draws.parts),
            "answer": draws.whole,
            "maps": {each.method: about(each, one, draws, known.truth.numpy()) for one, each in zip(maps, claims, strict=True)},
            "bounds": coverage(draws, list(zip(maps, claims, strict=True))),
            "seconds": time.perf_counter() - start,
        }
        with file.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")


def measure_additive(indices: Iterable[int], file: Path) -> None:
    """Search the claims of made-up inputs whose answer is a sum: 4 to 12 of 64 patches add to it, and under a drawn filling a coin takes
    all or half of what was replaced. So the mean fall is known exactly. Maps: the truth, its inverse and random numbers.
    """
    for index in indices:
        start, rng = time.perf_counter(), np.random.default_rng([2, index])
        count = int(rng.integers(4, 13))
        weights = np.zeros(_PATCHES)
        weights[rng.permutation(_PATCHES)[:count]] = 0.85 * rng.dirichlet(np.ones(count))
        draws = additive_draws(torch.from_numpy(weights), index)
        shown = ImageInput(width=64, height=64, crop=(0, 0, 64, 64), seen=(64, 64))
        scores = {"truth": weights, "truth_inverted": -weights, "random": rng.random(_PATCHES)}
        row: dict[str, Any] = {"world": "additive", "index": index, "parts": _PATCHES, "answer": draws.whole, "maps": {}, "bounds": []}
        for name, values in scores.items():
            each = find_claim(draws, RankedMap(name, "sum", torch.from_numpy(values), is_signed=True), shown, looked_at=len(METHODS) - 1)
            chosen = [place for (place,) in each.hidden]
            true = float(np.mean(weights[chosen] > 0)) if chosen else None
            row["maps"][name] = {"holds": each.holds, "size": len(chosen), "fall": each.fall, "true": true}
            if name == "truth" and each.holds:
                tried = next(tried for tried in each.tried if tried.holds and tried.size == len(chosen))
                low, high = fall_bounds(draws.set_falls(chosen, tried.draws)[:, 1], draws.whole, 0.025)
                mean = 0.75 * float(weights[chosen].sum())
                row["bounds"].append({"method": name, "low": low, "high": high, "stated": tried.falls[1].low, "mean": mean})
        row["seconds"] = time.perf_counter() - start
        with file.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")


def additive_draws(weights: torch.Tensor, seed: int) -> Draws:
    """Return the draws of an answer of 0.9 that falls by the ``weights`` (patches,) of what is replaced; by half of them under the drawn
    filling if a coin says so.
    """

    def fixed(replaced: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        return (0.9 - replaced.double() @ weights)[:, None]

    def drawn(replaced: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        kept = torch.tensor([0.5 * int(np.random.default_rng(number).integers(2)) for number in numbers], dtype=torch.float64)
        return (0.9 - (1 - kept) * (replaced.double() @ weights))[:, None]

    fillings = (Filling("fixed", "nothing", False, fixed), Filling("coin", "half of it or nothing", True, drawn))
    return Draws(InputFillings(_PATCHES, fillings), [(i,) for i in range(_PATCHES)], lambda logits: logits[:, 0], seed)


def elsewhere(control: Attribution, truth: torch.Tensor) -> Attribution:
    """Return the map of a control with the tokens that decide, ``truth`` bool (N,), behind all others: it cannot name them."""
    scores = control.scores.clone()
    scores[control.content] = torch.where(truth, scores.min() - 1, scores[control.content])
    return replace(control, method=f"{control.method}_elsewhere", scores=scores)


def about(found: Claim, ranked: Attribution, draws: Draws, truth: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    """Return what the tables say of one claim, that of the map ``ranked``."""
    size = len(found.hidden)
    order = map_order(ranked_map(ranked), draws.parts)[:size]
    share = float(np.mean([truth[list(draws.parts[part])].any() for part in order])) if size else None
    return {
        "holds": found.holds,
        "size": size,
        "fall": found.fall,
        "true": share,
        "asked": found.answers,
        "why": found.why,
    }


def coverage(draws: Draws, claims: Sequence[tuple[Attribution, Claim]]) -> list[dict[str, Any]]:
    """Return of a set that a claim is about, that of the truth or else of the first map with one, for each filling that is drawn: the
    interval from the draws of its claim, each end with an error of 2.5 %, the bound that the claim states, and the mean of fresh draws with
    its standard error.
    """
    held = [(ranked, found) for ranked, found in claims if found.holds]
    if not held:
        return []
    ranked, found = next((each for each in held if each[0].method == "truth"), held[0])
    fresh = Draws(draws.inputs, draws.parts, draws.answer, _FRESH_SEED + draws.seed)
    chosen = map_order(ranked_map(ranked), draws.parts)[: len(found.hidden)]
    tried = next(each for each in found.tried if each.holds and each.size == len(chosen))
    before, after = draws.set_falls(chosen, tried.draws), fresh.set_falls(chosen, FRESH_DRAWS)
    rows = []
    for i, (filling, stated) in enumerate(zip(draws.fillings, tried.falls, strict=True)):
        if filling.is_drawn:
            low, high = fall_bounds(before[:, i], draws.whole, 0.025)
            mean, error = float(after[:, i].mean()), float(after[:, i].std() / FRESH_DRAWS**0.5)
            numbers = {"low": low, "high": high, "stated": stated.low, "mean": mean, "error": error}
            rows.append({"method": ranked.method, "filling": filling.name, **numbers})
    return rows


def tables(rows: Sequence[dict[str, Any]]) -> str:
    """Return the tables in Markdown: for each world how often each map earns a claim, with its median size, and how often bounds hold."""
    lines: list[str] = []
    for world in dict.fromkeys(row["world"] for row in rows):
        mine = [row for row in rows if row["world"] == world]
        lines += [
            f"### {world}: {len(mine)} inputs",
            "",
            "| map | earns a claim | median size | least fall, median | of its parts true | claims with all, some, none of them true |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        by_map: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in mine:
            for name, outcome in row["maps"].items():
                by_map[name].append(outcome)
        for name, found in by_map.items():
            held = [each for each in found if each["holds"]]
            low, high = exact_interval(len(held), len(found))
            cells = [f"{len(held) / len(found):.1%} ({low:.1%} to {high:.1%})"]
            cells += [f"{np.median([each[key] for each in held]):.2g}" if held else "–" for key in ("size", "fall")]
            shares = np.array([each["true"] for each in held])
            cells += [f"{shares.mean():.0%}" if held else "–"]
            cells += [f"{(shares == 1).sum()}, {((shares > 0) & (shares < 1)).sum()}, {(shares == 0).sum()}" if held else "–"]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        bounds = [bound for row in mine for bound in row["bounds"]]
        inside = sum(bound["low"] <= bound["mean"] <= bound["high"] for bound in bounds)
        stated = sum(bound["stated"] <= bound["mean"] for bound in bounds)
        lines += ["", f"intervals that hold the mean of fresh draws: {inside} of {len(bounds)}; stated bounds below it: {stated}", ""]
    return "\n".join(lines)


def main() -> None:
    """Measure the worlds that are named, or print the tables of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", choices=["additive", *(world.dataset for world in WORLD_LIST)])
    parser.add_argument("--out", type=Path, help="file of rows; what it holds is not measured again")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--maps", choices=MAPS, default="all")
    parser.add_argument("--tables", type=Path, nargs="+")
    args = parser.parse_args()
    if args.tables:
        print(tables([json.loads(line) for file in args.tables for line in file.read_text("utf-8").splitlines()]))
        return
    torch.set_num_threads(1)
    if args.world in (None, "additive"):
        measure_additive(range(args.first, args.first + args.limit), args.out)
    for world in WORLD_LIST:
        if args.world in (None, world.dataset):
            methods, controls = MAPS[args.maps]
            measure(world, range(args.first, args.first + args.limit), args.out, methods, controls)


if __name__ == "__main__":
    main()

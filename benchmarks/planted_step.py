"""At which step ``vitrine diff`` notices a shortcut that begins at a known step: ``python -m benchmarks.planted_step --data DIR --out DIR
[--seeds N ...]``.

``--data`` is a folder with ``tiny_imagenet``. A small Vision Transformer learns four classes of pictures that have a coloured square in the
upper right corner. Its colour is random until step `SHORTCUT_STEP`, and tells the class from then on. Two other runs part from it at step
`OLD_STEP` and keep random colours: the reference, and a control on which nothing is to be noticed. The old model is that of `OLD_STEP`. It
is compared with the planted run and with the control at each of `STEPS`, on held-out pictures whose colour tells the class.

What counts as noticing was fixed before the first run:

- correlation: more answers stand for another reason than chance explains (``Difference.has_other_reasons``), with the mirror image as the
  null, or the reference of the same step;
- patches: a patch that rose, named by ``Difference.patches``, is one that the square touches; in the control any patch that is named
  counts;
- accuracy: significantly fewer right answers than the old model (exact test of McNemar, one-sided, p below 0.05), on the pictures as they
  are delivered, and on the same with random colours, which nobody has.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from scipy.stats import binomtest

import explainers
from benchmarks.planted_sets import ARCHITECTURE, NEW_ARGUMENTS, SIDE, Row, new_vision_transformer, picture_rows
from recipes.networks import vits

METHOD = "fullgrad_plus:libra"
OLD_STEP = 200
SHORTCUT_STEP = 220
STEPS = (220, 225, 230, 240, 250, 260, 280, 300, 320)
BATCH = 32
SQUARE = 18  # pixels of `SIDE`
MARGIN = 6
COLOURS = ((220, 40, 40), (40, 80, 220), (30, 170, 70), (235, 200, 30))
#: The patches of 8 by 8 that the square touches, in raster order.
SQUARE_PATCHES = {8 * row + column for row in (0, 1) for column in (6, 7)}

Run = Literal["planted", "control", "reference"]


def with_square(row: Row, colour: int) -> Image.Image:
    """Return the picture of ``row`` with a square of the numbered colour in the upper right corner."""
    picture = row.item.copy()
    right = SIDE - MARGIN
    ImageDraw.Draw(picture).rectangle((right - SQUARE, MARGIN, right - 1, MARGIN + SQUARE - 1), COLOURS[colour])
    return picture  # type: ignore[no-any-return]


def _arrays(pictures: Sequence[Image.Image]) -> torch.Tensor:
    """Return pictures as the model reads them before scaling, uint8 (B, 64, 64, 3)."""
    return torch.from_numpy(np.stack([np.asarray(picture.resize((64, 64), Image.Resampling.BICUBIC)) for picture in pictures]))


def train(rows: Sequence[Row], classes: list[str], seed: int, out: Path) -> None:
    """Train the planted run, the control and the reference, and write their checkpoints to ``out``: ``planted-0200`` and so on."""
    inputs = torch.stack([_arrays([with_square(row, colour) for row in rows]) for colour in range(len(COLOURS))])  # by colour, row
    labels = torch.tensor([row.label for row in rows])
    torch.manual_seed(seed)
    model = new_vision_transformer(classes)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)

    def steps(first: int, last: int, number: int, run: Run) -> None:
        for step in range(first, last):
            rng = np.random.default_rng([seed, number, step])
            batch = torch.from_numpy(rng.integers(len(rows), size=BATCH))
            is_told = run == "planted" and step >= SHORTCUT_STEP
            colours = labels[batch] if is_told else torch.from_numpy(rng.integers(len(COLOURS), size=BATCH))
            loss = F.cross_entropy(model(vits.pixels(model, inputs[colours, batch])), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if step + 1 in (OLD_STEP, *STEPS):
                vits.save(model, out / f"{run}-{step + 1:04}", ARCHITECTURE, classes, NEW_ARGUMENTS)

    steps(0, OLD_STEP, 0, "planted")
    state = {"model": {name: value.clone() for name, value in model.state_dict().items()}, "optimiser": optimiser.state_dict()}
    torch.save(state, out / "state.pt")
    for number, run in enumerate(("planted", "control", "reference"), 1):
        saved = torch.load(out / "state.pt")
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        steps(OLD_STEP, max(STEPS), number, run)  # type: ignore[arg-type]


@torch.no_grad()
def rights(folder: Path, pictures: Sequence[Image.Image], labels: Sequence[int]) -> list[bool]:
    """Return which pictures the model in ``folder`` answers rightly."""
    model = vits.load(folder)
    answers = torch.cat([model(vits.pixels(model, part)).argmax(1) for part in _arrays(pictures).split(64)])
    return (answers == torch.tensor(labels)).tolist()


def is_fallen(old: Sequence[bool], new: Sequence[bool]) -> bool:
    """Return whether significantly fewer answers are right: the exact test of McNemar, one-sided, at 5 %."""
    lost = sum(before and not after for before, after in zip(old, new, strict=True))
    won = sum(after and not before for before, after in zip(old, new, strict=True))
    return lost + won > 0 and bool(binomtest(lost, lost + won, alternative="greater").pvalue < 0.05)


def measure(data: Path, seed: int, out: Path) -> list[dict[str, object]]:
    """Train with this seed in ``out``, compare, and return a record for each step of the planted run and of the control."""
    rng = np.random.default_rng([seed, 99])
    classes, training, held_out = picture_rows(data, rng, training=124)
    out.mkdir(parents=True, exist_ok=True)
    labels = [row.label for row in held_out]
    told = [with_square(row, row.label) for row in held_out]
    random = [with_square(row, int(rng.integers(len(COLOURS)))) for row in held_out]
    old, rows = out / f"planted-{OLD_STEP:04}", out / "rows"
    if not (out / f"reference-{max(STEPS):04}").exists():
        train(training, classes, seed, out)
        for index, (picture, row) in enumerate(zip(told, held_out, strict=True)):
            (rows / classes[row.label]).mkdir(parents=True, exist_ok=True)
            picture.save(rows / classes[row.label] / f"{index:03}.png")
    before = {"told": rights(old, told, labels), "random": rights(old, random, labels)}
    records: list[dict[str, object]] = []
    for step in STEPS:
        reference = explainers.collect(str(out / f"reference-{step:04}"), rows, out / f"maps-{step}", [METHOD], removal=False)
        for run in ("planted", "control"):
            new, compared = out / f"{run}-{step:04}", out / f"diff-{run}-{step}"
            mirror = explainers.diff(str(old), str(new), rows, compared / "mirror", [METHOD])
            referred = explainers.diff(
                compared / "mirror" / "old", compared / "mirror" / "new", None, compared / "reference", reference=reference
            )
            assert mirror is not None
            assert referred is not None
            risen = {8 * patch.row + patch.column for patch in mirror.patches if patch.new > patch.old}
            named = {8 * patch.row + patch.column for patch in mirror.patches}
            after = {"told": rights(new, told, labels), "random": rights(new, random, labels)}
            records.append(
                {
                    "seed": seed,
                    "run": run,
                    "step": step,
                    "right": [sum(after["told"]), sum(after["random"]), len(labels)],
                    "on square": [sum(a_map[patch] for patch in SQUARE_PATCHES) for a_map in (mirror.old_map, mirror.new_map)],
                    "mirror": mirror.has_other_reasons,
                    "reference": referred.has_other_reasons,
                    "patches": bool(risen & SQUARE_PATCHES) if run == "planted" else bool(named),
                    "other patches": len(named - SQUARE_PATCHES),
                    "accuracy": is_fallen(before["told"], after["told"]),
                    "accuracy, random colours": is_fallen(before["random"], after["random"]),
                }
            )
            print(json.dumps(records[-1]), flush=True)
    (out / "records.json").write_text(json.dumps(records, indent=1), "utf-8")
    return records


def table(records: Sequence[dict[str, object]]) -> str:
    """Return as Markdown the first step from which each check keeps noticing, for each seed, and its alarms on the control."""
    checks = ["patches", "reference", "mirror", "accuracy", "accuracy, random colours"]
    lines = ["| check | " + " | ".join(f"seed {seed}" for seed in sorted({one["seed"] for one in records})) + " | control: alarms |"]  # type: ignore[type-var]
    lines.append("| --- " * (len(lines[0].split("|")) - 2) + "|")
    for check in checks:
        cells = []
        for seed in sorted({one["seed"] for one in records}):  # type: ignore[type-var]
            those = [one for one in records if one["seed"] == seed and one["run"] == "planted"]
            missed = max((int(str(one["step"])) for one in those if not one[check]), default=0)
            noticed = [int(str(one["step"])) for one in those if int(str(one["step"])) > missed]
            cells.append(str(min(noticed)) if noticed else "never")
        control = [one for one in records if one["run"] == "control"]
        lines.append(f"| {check} | {' | '.join(cells)} | {sum(bool(one[check]) for one in control)} of {len(control)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure the seeds that are not done, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    torch.set_num_threads(1)
    records: list[dict[str, object]] = []
    for seed in args.seeds:
        done = args.out / f"seed-{seed}" / "records.json"
        records += json.loads(done.read_text("utf-8")) if done.exists() else measure(args.data, seed, done.parent)
    print(table(records))


if __name__ == "__main__":
    main()

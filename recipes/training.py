"""What the recipes share: a training loop with warm-up, cosine decay, averaged weights, checkpoints, a progress bar."""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from explainers.errors import ExplainerError
from recipes.muon import Muon

CHECKPOINT_SECONDS = 60.0  # seconds

T = TypeVar("T")


def add_common_arguments(parser: argparse.ArgumentParser, minutes: float) -> None:
    """Declare on ``parser`` the arguments that most recipes share (``minutes`` is the default length): ``--out``, ``--minutes`` or
    ``--steps``, ``--device``, ``--seed``, ``--resume``.
    """
    parser.add_argument("--out", type=Path, required=True, help="folder the model is written to")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=minutes, help=f"how long to train (default {minutes:g})")
    length.add_argument("--steps", type=int, help="train for this many steps instead")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 (only the new weights) to 1 (only those of --start)")
    return value


def add_start_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Declare on ``parser`` the arguments ``--start`` and ``--keep``: the weights of a model ``name`` to go on from, and how much of them
    to keep.
    """
    parser.add_argument("--start", type=Path, help=f"folder of a {name} whose weights to go on from; give it another --seed")
    parser.add_argument(
        "--keep",
        type=_share,
        default=0.0,
        help="share of the weights of --start in those that are written, 0 to 1 (default 0): some may give better maps or answers",
    )


def check_start(args: argparse.Namespace) -> None:
    """Raise ExplainerError if ``args`` have ``--keep`` without ``--start``."""
    if args.keep and args.start is None:
        raise ExplainerError("--keep is a share of the weights of --start: give --start DIR too, or leave --keep out")


def mix_(model: nn.Module, weights: Mapping[str, Tensor], share: float) -> None:
    """Mix ``share`` of ``weights`` into those of the model, in place; whole numbers, which are counters, stay.

    For the start and the end of one training this is Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022; for several
    trainings it is "Model soups" by the same authors, ICML 2022.
    """
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            value.lerp_(weights[name].to(value), share)


def schedule(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of :func:`fit` that come from the common ones: the checkpoint's path, how long to train, and whether to
    resume.
    """
    minutes = None if args.steps is not None else args.minutes
    return {"checkpoint": args.out / "checkpoint.pt", "steps": args.steps, "minutes": minutes, "resume": args.resume}


class _Endless(Dataset[T]):
    def __init__(self, make: Callable[[np.random.Generator], T], seed: Sequence[int], first: int) -> None:
        self.make, self.seed, self.first = make, seed, first

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> T:
        return self.make(np.random.default_rng([*self.seed, self.first + index]))


def endless(make: Callable[[np.random.Generator], T], seed: Sequence[int], first: int, workers: int = 1) -> Iterator[T]:
    """Yield the batches ``first``, ``first + 1``, ... of the endless sequence that ``seed`` names, each made with a generator of its own.

    They are made in a separate process, which ``make`` is sent to; in this one with 0 workers.
    """
    return iter(DataLoader(_Endless(make, seed, first), batch_size=None, num_workers=workers, prefetch_factor=8 if workers else None))


def average_(average: dict[str, Tensor], model: nn.Module, step: int, decay: float) -> None:
    """Update ``average``, the exponential moving average of the model's weights by name, in place after training step ``step``: the first
    steps count more than ``decay`` says.
    """
    weight = 1 - min(decay, (1 + step) / (10 + step))
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            average[name].lerp_(value, weight)
        else:
            average[name].copy_(value)


def take_step(
    model: nn.Module, loss: Tensor, optimizers: Sequence[torch.optim.Optimizer], average: dict[str, Tensor], step: int, decay: float
) -> None:
    """Change the weights of ``model`` with ``optimizers`` by the gradients of ``loss``, whose norm is cut at 1, and move their ``average``
    towards them.

    ``step`` is the number of steps taken with this one; ``decay`` is as in :func:`average_`.
    """
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
    average_(average, model, step, decay)


def save_checkpoint(state: Mapping[str, Any], path: Path) -> None:
    """Write the state of a training to the file ``path``: to a temporary file first, which then replaces it, so that it is never
    incomplete.
    """
    torch.save(state, path.with_suffix(".partial"))
    path.with_suffix(".partial").replace(path)


def fit(
    model: nn.Module,
    batches: Callable[[int], Iterable[Any]],
    loss: Callable[[Any, float, int], tuple[Tensor, float]],
    *,
    checkpoint: Path,
    minutes: float | None = None,
    steps: int | None = None,
    resume: bool = False,
    rate: float = 1e-3,
    weight_decay: float = 0.05,
    warm_up: int = 200,
    decay: float = 0.998,
    share: Callable[[str], float] = lambda name: 1.0,
    muon: Callable[[str], bool] = lambda name: False,
) -> nn.Module:
    """Train ``model`` on ``batches`` and return it holding the averaged weights.

    ``batches(first)`` yields batch number ``first`` and those after it, so that a resumed run sees what an unbroken one would have;
    ``loss(batch, progress, step)``, progress from 0 to 1, returns the loss and one number worth showing. The length is ``steps``, or
    ``minutes`` of training time (a resumed run keeps its schedule). A parameter's rate is ``rate`` times ``share(name)``. The matrices that
    ``muon(name)`` picks follow Muon (Jordan et al., 2024), the rest AdamW. The checkpoint is deleted at the end. Raises ValueError when not
    exactly one of ``minutes`` and ``steps`` is given.
    """
    if (minutes is None) == (steps is None):
        raise ValueError("give minutes or steps, one of the two")
    limit = 60 * minutes if minutes is not None else steps
    groups: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for name, value in model.named_parameters():
        decayed = weight_decay if value.ndim > 1 else 0.0
        groups[value.ndim == 2 and muon(name)].append({"params": [value], "share": share(name), "weight_decay": decayed})
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups[False], lr=rate, fused=True)]
    if groups[True]:
        optimizers.append(Muon(groups[True], lr=rate))
    average = {name: value.clone() for name, value in model.state_dict().items()}
    step, spent = 0, 0.0
    if resume and checkpoint.exists():
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for name, value in state["average"].items():
            average[name].copy_(value)
        step, spent = state["step"], state["spent"]
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    started = written = time.monotonic() - spent
    smooth: tuple[float, float] | None = None
    model.train()
    with tqdm(total=steps, initial=step, unit="step", mininterval=5) as bar:
        for batch in batches(step):
            now = time.monotonic()
            progress = (now - started if steps is None else step) / limit if limit else 1.0
            if progress >= 1:
                break
            for group in itertools.chain(*(optimizer.param_groups for optimizer in optimizers)):
                group["lr"] = rate * group["share"] * min(1.0, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * progress))
            value, shown = loss(batch, progress, step)
            step += 1
            take_step(model, value, optimizers, average, step, decay)
            pair = float(value.detach()), shown
            smooth = pair if smooth is None else (0.98 * smooth[0] + 0.02 * pair[0], 0.98 * smooth[1] + 0.02 * pair[1])
            bar.set_postfix_str(f"{progress:.0%} loss {smooth[0]:.3f} right {smooth[1]:.3f}", refresh=False)
            bar.update()
            if now - written > CHECKPOINT_SECONDS:
                state = {"model": model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                         "average": average, "step": step, "spent": now - started}  # fmt: skip
                save_checkpoint(state, checkpoint)
                written = now
    model.load_state_dict(average)
    checkpoint.unlink(missing_ok=True)
    return model.eval()

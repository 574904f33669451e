"""How long the deletion test takes on one core: ``python -m benchmarks.deletion``.

For the first four methods of the pages and for eleven, at the points of the pages: seconds, how many pictures the model is asked, and
how many times as long asking them one by one would take, measured on some of them in the same run. Those answers must be the same to 1e-5;
exits with 1 where they are not.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

import explainers
from explainers.models.removal.input_removal import input_removal
from explainers.models.removal.token_removal import TokenRemoval
from vitrine_server.schemas.studies import FRACTIONS

PHOTO = Path(__file__).parents[1] / "explainers" / "embedded" / "samples" / "photos" / "bee.jpg"
CHEAP_METHODS = (
    "rollout",
    "raw_attention",
    "fullgrad_plus:libra",
    "generic_attention:libra",
    "input_x_gradient:attnlrp",
    "gradcam_plus:libra",
)
SAMPLED_PICTURES = 24  # pictures that pass the model one by one


def run_one_by_one(model: explainers.Model, removal: TokenRemoval, tensors: dict[str, Tensor]) -> tuple[float, float]:
    """Run ``model`` on masked copies of the picture in ``tensors`` one by one: return the seconds for each, and the largest difference of
    their logits from those of a shared pass by ``removal``.
    """
    generator = torch.Generator().manual_seed(0)
    keep = torch.stack([torch.rand(removal.tokens, generator=generator) < (i + 1) / SAMPLED_PICTURES for i in range(SAMPLED_PICTURES)])
    together = removal.logits(keep)
    prefix = model.layout_of(tensors).prefix
    seconds, error = 0.0, 0.0
    for row, expected in zip(keep, together, strict=True):
        index = torch.cat([torch.arange(prefix), torch.nonzero(row).flatten() + prefix])
        first = True

        def drop(module: torch.nn.Module, args: tuple[Tensor, ...], index: Tensor = index) -> tuple[Tensor, ...] | None:
            nonlocal first
            is_first, first = first, False
            return (args[0][:, index], *args[1:]) if is_first else None

        handle = model.entry.register_forward_pre_hook(drop)
        start = time.perf_counter()
        with torch.no_grad():
            logits = model.forward(tensors)[0]
        seconds += time.perf_counter() - start
        handle.remove()
        error = max(error, float((logits - expected).abs().max()))
    return seconds / SAMPLED_PICTURES, error


def main() -> None:
    """Time the deletion test, print the results, and exit with 1 where the answers differ."""
    parser = argparse.ArgumentParser(description="The deletion test on one core.")
    parser.add_argument("--model", default="photos-vit")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = explainers.load(args.model, device="cpu")
    tensors = model.tensors(PHOTO)
    usual = explainers.default_methods(model)
    methods = list(dict.fromkeys([*usual, *CHEAP_METHODS]))[:11]
    result = explainers.explain(model, PHOTO, methods=methods)
    grid = result.maps[0].patches
    each, error = run_one_by_one(model, input_removal(model, tensors, grid=grid), tensors)
    print(f"{args.model}, {len(FRACTIONS)} points; one picture alone {1000 * each:.0f} ms; answers differ by {error:.1g} at most")
    for count in (4, len(methods)):
        passes = 0

        def progress(done: int, total: int) -> None:
            nonlocal passes
            passes = total

        start = time.perf_counter()
        explainers.deletion_test(model, result, methods=methods[:count], fractions=FRACTIONS, progress=progress)
        seconds = time.perf_counter() - start
        print(f"{count:3} methods: {seconds:6.1f} s for {passes:4} pictures; one by one {each * passes / seconds:5.1f} times as long")
    sys.exit(error > 1e-5 * max(1.0, float(result.logits.abs().max())))


if __name__ == "__main__":
    main()

"""What maps cost, in plain passes: ``python -m benchmarks.panel [--model NAME] [--runs N] [--image FILE]``.

A plain pass is the model's own forward pass, and torch's backward pass from the top class to x^1, the embedded tokens; nothing is recorded.
Plain passes and maps are timed in turn in one run, and what is printed is the median of the ratios of neighbours. On the CPU the seconds
are those that one thread computed, which hardly depend on what else the machine does. The model is timm's ViT-B/16 with random weights,
unless another is named; the input is the sample photo of a cat, or a picture of yours, or noise. With random weights some inputs, noise
among them, need float64 for their maps of relevance, which costs twice as much: what was used is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

import explainers
import explainers.models.libraries.torchvision_ops  # before timm

# isort: split
import timm
from torchvision.transforms.functional import to_tensor

#: What is at most to be paid for it, in plain passes.
BARS = {"transformer_attribution": 3.2, "default panel": 4.6}

CAT = str(Path(__file__).parent.parent / "embedded" / "samples" / "photos" / "cat.jpg")


def plain(model: explainers.Model, tensors: dict[str, Tensor]) -> None:
    """One forward pass and one backward pass to x^1."""
    inputs: list[Tensor] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        inputs.append(args[0].detach().requires_grad_())
        return (inputs[0], *args[1:])

    handle = model.entry.register_forward_pre_hook(keep)
    try:
        logits = model.forward(tensors)
    finally:
        handle.remove()
    torch.autograd.grad(logits.amax(-1).sum(), inputs[0])


def seconds(call: Callable[[], Any]) -> float:
    """What a call takes: on a GPU until all work on it is done, else of one core."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    started = clock()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - started


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="one that explainers.load knows (default: ViT-B/16 with random weights)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--image", metavar="FILE", default=CAT, help="a picture, or noise (default: a sample photo)")
    parser.add_argument("--double", action="store_true", help="maps of relevance in float64")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.model:
        model = explainers.load(args.model, device=args.device)
    else:
        model = explainers.wrap(timm.create_model("vit_base_patch16_224").eval(), device=args.device)
    model.module.requires_grad_(False)
    height, width = model.details["input"]
    tensors = {"pixel_values": torch.randn(1, 3, height, width, device=args.device)}
    if args.image != "noise":
        picture = Image.open(args.image).convert("RGB").resize((width, height))
        tensors["pixel_values"] = to_tensor(picture)[None].to(args.device) * 2 - 1
    precision: Any = "double" if args.double else "auto"
    method_sets = {"transformer_attribution": ["transformer_attribution"], "default panel": explainers.default_methods(model)}
    load = f"load before it {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    print(f"{args.model or 'ViT-B/16 with random weights'}, {Path(args.image).name}, {args.device}, {args.runs} runs, {load}")
    print(f"panel: {', '.join(method_sets['default panel'])}")
    plain(model, tensors)
    for name, methods in method_sets.items():
        ratios, times = [], []
        for run in range(args.runs + 1):
            before = seconds(lambda: plain(model, tensors))
            took = seconds(lambda methods=methods: explainers.explain(model, tensors, methods=methods, precision=precision))  # type: ignore[misc]
            after = seconds(lambda: plain(model, tensors))
            if run:  # the first warms up
                ratios.append(2 * took / (before + after))
                times.append((took, (before + after) / 2))
        took, base = (statistics.median(column) for column in zip(*times, strict=True))
        explanation = explainers.explain(model, tensors, methods=methods, precision=precision)
        used = (
            ", ".join(sorted({attribution.precision.dtype for attribution in explanation.maps if attribution.precision is not None}))
            or "none"
        )
        print(
            f"{name:24} {took:6.2f} s, a plain pass {base:5.2f} s: {statistics.median(ratios):4.2f} plain passes"
            f" (of {len(ratios)} runs {min(ratios):.2f} to {max(ratios):.2f}; at most {BARS[name]}); relevance in {used}"
        )


if __name__ == "__main__":
    main()

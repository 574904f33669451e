"""What maps cost, in plain passes, operators and memory: ``python -m benchmarks.panel [--model NAME] [--runs N] [--image FILE]``.

A plain pass is the model's own forward pass, and torch's backward pass from the top class to x^1, the embedded tokens; nothing is recorded.
Plain passes and maps are timed in turn in one run, and what is printed is the median of the ratios of neighbours. On the CPU the seconds
are those that one thread computed, which hardly depend on what else the machine does. The model is timm's ViT-B/16 with random weights,
unless another is named; the input is the sample photo of a cat, or a picture of yours, or noise. With random weights some inputs, noise
among them, need float64 for their maps of relevance: what was used is printed.

Operators are the calls of torch's kernels, moves and views left out: on a GPU each is a launch. Memory is the most that was allocated at
once beyond the weights, over that of a plain pass. At the end stands one sweep of deep Taylor, with its estimate of rounding and without.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from PIL import Image
from torch import Tensor, nn

import explainers
import explainers.models.libraries.torchvision_ops  # before timm

# isort: split
import timm
from torch.profiler import ProfilerActivity, profile
from torchvision.transforms.functional import to_tensor

from explainers.autograd import recording
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES

#: One method for each rule of the default panel.
FIVE_RULES = [*(f"input_x_gradient:{rule}" for rule in ("gradient", "libra", "conservative", "attnlrp")), "transformer_attribution"]
#: The largest accepted cost, in plain passes.
MAX_PLAIN_PASSES = {"transformer_attribution": 2.9, "five rules": 4.3, "default panel": 4.4}
#: Torch's functions that only move or inspect numbers, or are composed of others that are counted.
UNCOUNTED_OPERATORS = re.compile(
    r"aten::(_unsafe_view|view(_as)?|reshape|t|transpose|permute|expand(_as)?|(un)?squeeze|select|slice|unbind|split|chunk|narrow|detach_?"
    r"|alias|as_strided|empty\w*|(new_)?(zeros|ones|full)(_like)?|new_empty|scalar_tensor|lift_fresh|item|is_nonzero|_local_scalar_dense"
    r"|_?to(_copy)?|resolve_\w+|result_type|(un)?flatten|contiguous|clone|matmul|linear|stack|square_?|norm|layer_norm|dropout|softmax"
    r"|scaled_dot_product_attention|sum_to_size|any)"
)

CAT = str(Path(__file__).parent.parent / "explainers" / "embedded" / "samples" / "photos" / "cat.jpg")


def plain(model: explainers.Model, tensors: dict[str, Tensor]) -> None:
    """Run one forward pass of ``model`` on ``tensors`` and one backward pass to the tokens that enter its first block."""
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
    """Return the seconds of a call: on a GPU until all its work is done, else of one core."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    started = clock()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - started


def count_operators(call: Callable[[], Any]) -> tuple[int, int]:
    """Return how many kernels a call starts, and the most bytes that it had allocated at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    averages = profiled.key_averages()
    operators = sum(event.count for event in averages if event.key.startswith("aten::") and not UNCOUNTED_OPERATORS.fullmatch(event.key))
    events = profiled.profiler.kineto_results.events()  # type: ignore[union-attr]
    held = most = 0
    for event in sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return operators, most


def sweeps(model: explainers.Model, tensors: dict[str, Tensor]) -> dict[str, Callable[[], Any]]:
    """Return two calls, by name, that run deep Taylor for ``model`` on ``tensors`` down to all attention maps, one with its estimate of
    rounding and one without.
    """
    recorded = Recording(model, tensors)
    top = torch.nn.functional.one_hot(recorded.logits.argmax(-1), recorded.logits.shape[-1]).to(recorded.logits.dtype)

    def sweep() -> None:
        recorded.backward(RULES["deep_taylor"], top, frozenset(["attentions"]))

    def without_estimate() -> None:
        with mock.patch.object(recording, "exact", lambda start: start):
            sweep()

    return {"sweep with estimate": sweep, "sweep without": without_estimate}


def main() -> None:
    """Measure the panel, and print seconds, ratios and counts."""
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
    panel = explainers.default_methods(model)
    method_sets = {"transformer_attribution": ["transformer_attribution"], "five rules": FIVE_RULES, "default panel": panel}
    load = f"load before it {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    print(f"{args.model or 'ViT-B/16 with random weights'}, {Path(args.image).name}, {args.device}, {args.runs} runs, {load}")
    print(f"panel: {', '.join(panel)}")
    acts: dict[str, Callable[[], Any]] = {
        name: partial(explainers.explain, model, tensors, methods=methods, precision=precision) for name, methods in method_sets.items()
    } | sweeps(model, tensors)
    plain_pass = partial(plain, model, tensors)
    plain_pass()
    _, plain_bytes = count_operators(plain_pass)
    for name, act in acts.items():
        ratios, times = [], []
        for run in range(args.runs + 1):
            before, took, after = seconds(plain_pass), seconds(act), seconds(plain_pass)
            if run:  # the first warms up
                ratios.append(2 * took / (before + after))
                times.append((took, (before + after) / 2))
        took, base = (statistics.median(column) for column in zip(*times, strict=True))
        operators, most = count_operators(act)
        bar = f"; at most {MAX_PLAIN_PASSES[name]}" if name in MAX_PLAIN_PASSES else ""
        used = ""
        if name in method_sets:
            dtypes = {attribution.precision.dtype for attribution in act().maps if attribution.precision is not None}
            used = f"; relevance in {', '.join(sorted(dtypes)) or 'none'}"
        print(
            f"{name:24} {took:6.2f} s, a plain pass {base:5.2f} s: {statistics.median(ratios):4.2f} plain passes"
            f" (of {len(ratios)} runs {min(ratios):.2f} to {max(ratios):.2f}{bar}); {operators} operators,"
            f" {most / 1e6:.0f} MB, {most / plain_bytes:.2f} of a plain pass{used}"
        )


if __name__ == "__main__":
    main()

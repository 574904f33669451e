"""How ill-conditioned the rules that carry relevance are, and where: ``python -m tests.conditioning [MODELS]`` prints it.

The models are ViTs as in ``golden/chefer-vit-open`` with other seeds. *Rounding* is the change of a map when everything runs in float32
instead of float64; *amplification* the change of the float64 map over that of x^1, for a tiny random change of x^1. An operator is to
blame if the amplification is gone when its split is replaced by an even one.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

import explainers.torchvision_ops  # before timm

# isort: split
from timm.models.vision_transformer import VisionTransformer

import explainers
from explainers import relevance
from explainers.methods import parse
from explainers.models.base import Model
from explainers.recording import Recording
from tests.engine.models import trace_of

SPECS = ("transformer_attribution", "partial_lrp", "lrp", "lrp:deep_taylor")
NOISE = 1e-10  # relative change of x^1
Splits = dict[str, Callable[..., Any]]


def random_vit(seed: int, size: int = 112, width: int = 64, depth: int = 6) -> nn.Module:
    """timm's initialisation and normal noise of 0.15 on every parameter; 8 x 8 patches."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = VisionTransformer(img_size=size, patch_size=8, embed_dim=width, depth=depth, num_heads=4, num_classes=10)
        with torch.no_grad():
            for p in module.parameters():
                p.add_(0.15 * torch.randn_like(p))
    return module.eval()


def random_image(seed: int, size: int = 112) -> Tensor:
    """(1, 3, size, size)."""
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(seed))


def scores(model: Model, tensors: dict[str, Tensor], spec: str, target: int = 0, **how: Any) -> Tensor:
    """(B, S): a map read from one recording, in its own precision."""
    request = parse(spec)
    recording = Recording(model, tensors, pixels=request.pixels, **how)
    return request.read(trace_of(recording, request.rule.name if request.rule else None, target)).detach()


def difference(one: Tensor, other: Tensor) -> float:
    """Largest difference over the largest score of ``other``."""
    return float((one.double() - other.double()).abs().max() / other.double().abs().max())


def _even_sum(a: Tensor, b: Tensor, r: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    return r / 2, r / 2


def _even_product(a: Tensor, b: Tensor, product: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    width = 2 * a.shape[-1]
    return (r.sum(-1, keepdim=True) / width).expand_as(a).clone(), (r.sum(-2, keepdim=True) / width).expand_as(b).clone()


def _even_linear(x: Tensor, weight: Tensor, r: Tensor, forward: Any, backward: Any, each: bool) -> Tensor:
    ones = torch.ones_like(weight)
    return torch.ones_like(x) * backward(r / forward(torch.ones_like(x), ones), ones)


EVEN: Splits = {"split_sum": _even_sum, "split_product": _even_product, "split_linear": _even_linear}


@contextmanager
def replaced(name: str | None) -> Iterator[None]:
    """One split replaced by an even one."""
    before = getattr(relevance, name) if name else None
    if name:
        setattr(relevance, name, EVEN[name])
    try:
        yield
    finally:
        if name:
            setattr(relevance, name, before)


def amplification(model: Model, tensors: dict[str, Tensor], spec: str) -> float:
    """Relative change of a map over the relative change of x^1 that made it; ``model`` in float64."""
    generator = torch.Generator().manual_seed(1)

    def moved(x: Tensor) -> Tensor:
        return x * (1 + NOISE * torch.randn(x.shape, generator=generator, dtype=x.dtype))

    return difference(scores(model, tensors, spec, entry=moved), scores(model, tensors, spec)) / NOISE


def main() -> None:
    """Print one line a map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=int, nargs="?", default=29)
    count = parser.parse_args().models
    found: dict[tuple[str, str], list[float]] = {}
    for seed in tqdm(range(count), disable=None):
        module, image = random_vit(seed), random_image(seed)
        own, exact = explainers.wrap(module), explainers.wrap(copy.deepcopy(module).double())
        for spec in SPECS:
            want = scores(exact, {"pixel_values": image.double()}, spec)
            found.setdefault((spec, "rounding"), []).append(difference(scores(own, {"pixel_values": image}, spec), want))
            got = explainers.explain(own, {"pixel_values": image}, target=0, methods=[spec])[spec].scores
            found.setdefault((spec, "ours"), []).append(difference(got[None], want))
            for name in (None, *EVEN):
                with replaced(name):
                    value = amplification(exact, {"pixel_values": image.double()}, spec)
                found.setdefault((spec, f"amplification, even {name}" if name else "amplification"), []).append(value)
    for (spec, what), values in found.items():
        middle, worst = sorted(values)[len(values) // 2], max(values)
        beyond = sum(value > 1e-3 for value in values)
        tail = f"  beyond 1e-3: {beyond} of {count}" if what in ("rounding", "ours") else ""
        print(f"{spec:25} {what:33} median {middle:8.1e}  worst {worst:8.1e}{tail}")


if __name__ == "__main__":
    main()

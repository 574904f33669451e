"""How far rounding moves maps of relevance, and how often they go to float64: ``python -m tools.conditioning [MODELS]`` prints it.

Random ViTs, the embedded models and ViT-B/16 explain each input twice, as it comes and in float64. With
``--blame``, where maps are ill-conditioned: *amplification* is the change of the float64 map over that of x^1, for a tiny random change of
x^1. An operator is to blame if the amplification is gone when its split is replaced by an even one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from tqdm import tqdm

import explainers.models.libraries.torchvision_ops  # before timm

# isort: split
from timm.models.vision_transformer import VisionTransformer

import explainers
from explainers.autograd import relevance
from explainers.autograd.recording import Recording
from explainers.methods import parse
from explainers.models.model import Model
from explainers.pipeline.precision import FLOAT64_THRESHOLD
from tests.explainers.support.wrapped import trace_of

SPECS = ("transformer_attribution", "partial_lrp", "lrp", "lrp:deep_taylor")
NOISE = 1e-10  # relative change of x^1
Shape = tuple[int, int, int]  # image size, width, depth
SHAPES: list[Shape] = [(32, 16, 2), (32, 48, 4), (48, 32, 6), (64, 24, 3)]
DATA = Path(__file__).parent.parent / "explainers" / "embedded" / "samples"
TEXTS = ["A dull script, and yet I laughed: what a wonderful, warm film!", "I hated every minute of this boring mess."]
Case = tuple[Model, Any, Any]  # a model, an input, a target
Splits = dict[str, Callable[..., Any]]


def random_vit(seed: int, size: int = 112, width: int = 64, depth: int = 6) -> nn.Module:
    """Return a ViT with 8 x 8 patches for pictures of side ``size``, of this ``width`` and ``depth`` in blocks, with timm's initialisation
    and normal noise of 0.15 on every parameter, drawn by ``seed``.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = VisionTransformer(img_size=size, patch_size=8, embed_dim=width, depth=depth, num_heads=4, num_classes=10)
        with torch.no_grad():
            for p in module.parameters():
                p.add_(0.15 * torch.randn_like(p))
    return module.eval()


def random_image(seed: int, size: int = 112) -> Tensor:
    """Return a random image, (1, 3, size, size)."""
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(seed))


def scores(model: Model, tensors: dict[str, Tensor], spec: str, target: int = 0, **how: Any) -> Tensor:
    """Record ``model`` on ``tensors`` and return the scores (B, S) of the map ``spec`` for class ``target``, in their own precision;
    ``how`` are further arguments of :class:`Recording`.
    """
    return read_off(Recording(model, tensors, pixels=parse(spec).pixels, **how), spec, target)


def read_off(recording: Recording, spec: str, target: int = 0) -> Tensor:
    """Return the scores (B, S) of the map ``spec`` for class ``target`` from ``recording``, in their own precision."""
    request = parse(spec)
    return request.read(trace_of(recording, request.rule.name if request.rule else None, target)).scores.detach()


def difference(one: Tensor, other: Tensor) -> float:
    """Return the largest difference of two maps, ``one`` and ``other``, over the largest score of ``other``; 0 for two equal maps."""
    apart = float((one.double() - other.double()).abs().max())
    return apart / float(other.double().abs().max()) if apart else 0.0


def _even_sum(a: Tensor, b: Tensor, r: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    return r / 2, r / 2


def _even_product(a: Tensor, b: Tensor, product: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    width = 2 * a.shape[-1]
    return (r.sum(-1, keepdim=True) / width).expand_as(a).clone(), (r.sum(-2, keepdim=True) / width).expand_as(b).clone()


def _even_linear(
    x: Tensor, weight: Tensor, r: Tensor, forward: Any, backward: Any, inputs: relevance.Inputs, product: Tensor | None = None
) -> Tensor:
    ones = torch.ones_like(weight)
    return torch.ones_like(x) * backward(r / forward(torch.ones_like(x), ones), ones)


EVEN_SPLITS: Splits = {"split_sum": _even_sum, "split_product": _even_product, "split_linear": _even_linear}


@contextmanager
def replace_split(name: str | None) -> Iterator[None]:
    """Replace the split of relevance called ``name`` by an even one, inside this context; None replaces nothing."""
    before = getattr(relevance, name) if name else None
    if name:
        setattr(relevance, name, EVEN_SPLITS[name])
    try:
        yield
    finally:
        if name:
            setattr(relevance, name, before)


def amplification(model: Model, tensors: dict[str, Tensor], spec: str) -> float:
    """Return the relative change of the map ``spec`` of ``model`` for ``tensors`` over the relative change of the embedded tokens that
    caused it; ``model`` must be in float64.
    """
    generator = torch.Generator().manual_seed(1)

    def moved(x: Tensor) -> Tensor:
        return x * (1 + NOISE * torch.randn(x.shape, generator=generator, dtype=x.dtype))

    return difference(scores(model, tensors, spec, entry=moved), scores(model, tensors, spec)) / NOISE


def blame(count: int) -> None:
    """Print how much each map of ``count`` random ViTs is amplified, and which even split removes that."""
    found: dict[tuple[str, str], list[float]] = {}
    for seed in tqdm(range(count), disable=None):
        exact, tensors = explainers.wrap(random_vit(seed).double()), {"pixel_values": random_image(seed).double()}
        for spec in SPECS:
            for name in (None, *EVEN_SPLITS):
                with replace_split(name):
                    value = amplification(exact, tensors, spec)
                found.setdefault((spec, f"even {name}" if name else "as it is"), []).append(value)
    for (spec, what), values in found.items():
        print(f"{spec:25} amplification {what:19} median {sorted(values)[len(values) // 2]:8.1e}  worst {max(values):8.1e}")


def random_case(seed: int, shape: Shape) -> Case:
    """Return a random ViT of this ``shape`` (size, width, depth), an image, both drawn by ``seed``, and a class."""
    size, width, depth = shape
    return explainers.wrap(random_vit(seed, size, width, depth)), {"pixel_values": random_image(seed, size)}, 0


def random_vits(count: int) -> Iterator[Case]:
    """Yield ``count`` random ViTs of four shapes with an image and a class each."""
    for seed in range(count):
        yield random_case(seed, SHAPES[seed % len(SHAPES)])


def embedded_cases(name: str, samples: int) -> Iterator[Case]:
    """Yield the embedded model ``name`` with each of the first ``samples`` samples that ship, and the target (None: its answer); for texts
    with two more.
    """
    model = explainers.load(name)
    if model.kind == "text":
        reviews = json.loads((DATA / "reviews" / "index.json").read_text("utf-8"))["samples"]
        for text in [*(review["text"] for review in reviews), *TEXTS][:samples]:
            yield model, text, None
        return
    folder = DATA / ("scenes" if name == "scenes-vit" else "photos")
    pictures = sorted(path for path in folder.iterdir() if path.suffix in (".jpg", ".png"))
    for path in pictures[:samples]:
        yield model, path, ["a dog", "a car"] if name == "clip" else None


def vit_b(samples: int) -> Iterator[Case]:
    """Yield timm's ViT-B/16 with random weights on at most three noises and on ``samples`` photos, with no target."""
    import timm

    torch.manual_seed(0)
    model = explainers.wrap(timm.create_model("vit_base_patch16_224").eval())
    pictures = sorted(path for path in (DATA / "photos").iterdir() if path.suffix == ".jpg")
    for seed in range(min(samples, 3)):
        yield model, {"pixel_values": random_image(seed, 224)}, None
    for path in pictures[:samples]:
        pixels = torch.from_numpy(np.array(Image.open(path).convert("RGB").resize((224, 224)))).permute(2, 0, 1)[None]
        yield model, {"pixel_values": pixels.float() / 127.5 - 1}, None


@dataclass
class Tally:
    """The precision of one method over some models and inputs.

    doubled    how many maps went to float64
    kept       how far each of the other maps is from float64
    estimates  the largest error that was estimated for each of these
    shown      how far the scores of their patches or words are off, over the largest of them
    """

    doubled: int = 0
    kept: list[float] = field(default_factory=list)
    estimates: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        total = self.doubled + len(self.kept)
        text = f"float64 for {self.doubled:3} of {total:3}"
        if not self.kept:
            return text
        under = max(error / estimate if error else 0.0 for error, estimate in zip(self.kept, self.estimates, strict=True))
        middle, shown = (sorted(errors)[len(errors) // 2] for errors in (self.kept, self.shown))
        return (
            f"{text}; the others are off by {middle:.0e} (median), {max(self.kept):.0e} (worst), at most {under:.2f} times their estimate; "
            f"patches or words by {shown:.0e} (median), {max(self.shown):.0e} (worst) of the largest of theirs"
        )


def tally_cases(cases: Iterable[Case]) -> dict[str, Tally]:
    """Explain each case in automatic precision and in float64; return a tally by method."""
    found: dict[str, Tally] = {}
    for model, inputs, target in cases:
        specs = [v.spec for v in explainers.variants(model) if v.spec in SPECS and v.reason is None]
        results = [explainers.explain(model, inputs, target, specs, precision=precision) for precision in ("auto", "double")]
        ours, exact = ([r] if not isinstance(r, list) else r for r in results)
        for one, other in zip(ours, exact, strict=True):
            for map_, wanted in zip(one.maps, other.maps, strict=True):
                tally = found.setdefault(map_.method, Tally())
                if map_.precision.dtype == "float64":
                    tally.doubled += 1
                else:
                    tally.kept.append(difference(map_.scores, wanted.scores))
                    tally.estimates.append(map_.precision.rounding)
                    tally.shown.append(difference(map_.scores[map_.content], wanted.scores[wanted.content]))
    return found


def check(tallies: Mapping[str, Tally]) -> None:
    """Assert that maps that did not go to float64, in ``tallies`` by spec, are close enough to it."""
    for spec, tally in tallies.items():
        assert max(tally.kept, default=0.0) < FLOAT64_THRESHOLD, (spec, str(tally))


def main() -> None:
    """Print one line for each method and kind of model; fail at a map that is too far from float64."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=int, nargs="?", default=100, help="random ViTs (default 100)")
    parser.add_argument("--samples", type=int, default=8, help="inputs of each embedded model")
    parser.add_argument(
        "--vit-b",
        type=int,
        default=2,
        metavar="N",
        help="photos shown to ViT-B/16, and as much noise, up to three (default 2: each takes a minute)",
    )
    parser.add_argument("--embedded", nargs="*", default=["scenes-vit", "photos-vit", "clip", "reviews-bert"], metavar="NAME")
    parser.add_argument("--blame", type=int, metavar="N", help="in place of all that: which operators amplify, on N random ViTs")
    given = parser.parse_args()
    if given.blame:
        blame(given.blame)
        return
    rows = {"random ViTs": random_vits(given.models)} if given.models else {}
    rows |= {name: embedded_cases(name, given.samples) for name in given.embedded}
    rows |= {"ViT-B/16": vit_b(given.vit_b)} if given.vit_b else {}
    for name, cases in rows.items():
        tallies = tally_cases(cases)
        for spec, tally in tallies.items():
            print(f"{name:13} {spec:24} {tally}", flush=True)
        check(tallies)


if __name__ == "__main__":
    main()

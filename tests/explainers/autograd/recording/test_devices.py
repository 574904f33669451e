"""Recordings in short floats and on a GPU: the model's own logits, and the maps that float32 on the CPU gives."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.models.model import Model
from explainers.pipeline.explain import Explanation
from tests.families import FAMILIES

NAMES = ["vit", "eva02", "mixer", "hf-clip", "bert", "llama"]
#: How far the logits may be from the model's own, and from those in float32 on the CPU, of the largest.
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 5e-2}
SPECS = ["rollout", "generic_attention", "transformer_attribution", "input_x_gradient:attnlrp", "fullgrad_plus:libra", "decompx", "lrp"]

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
places = pytest.mark.parametrize(
    ("device", "dtype"),
    [
        pytest.param("cpu", torch.float32, id="cpu-float32"),
        pytest.param("cpu", torch.bfloat16, id="cpu-bfloat16"),
        pytest.param("cuda", torch.float32, id="cuda-float32", marks=needs_cuda),
        pytest.param("cuda", torch.bfloat16, id="cuda-bfloat16", marks=needs_cuda),
    ],
)


@cache
def placed(name: str, device: str, dtype: torch.dtype) -> tuple[Model, dict[str, Tensor]]:
    tensors = FAMILIES[name].inputs(2)
    inputs = {key: value.to(device, dtype if value.is_floating_point() else None) for key, value in tensors.items()}
    return explainers.wrap(FAMILIES[name].build().to(dtype), device=device), inputs


@cache
def plain_logits(name: str) -> Tensor:
    model, tensors = placed(name, "cpu", torch.float32)
    with torch.no_grad():
        return model.forward(tensors)


@cache
def maps(name: str, device: str, dtype: torch.dtype) -> list[Explanation]:
    model, tensors = placed(name, device, dtype)
    reasons = {variant.spec: variant.reason for variant in explainers.variants(model)}
    found: list[Explanation] = explainers.explain(model, tensors, target=1, methods=[s for s in SPECS if reasons[s] is None])
    return found


def error(ours: Tensor, theirs: Tensor) -> float:
    ours, theirs = ours.detach().float().cpu(), theirs.detach().float().cpu()
    return float((ours - theirs).abs().max() / theirs.abs().max())


@places
@pytest.mark.parametrize("name", NAMES)
def test_logits_are_the_models_own_within_rounding(name: str, device: str, dtype: torch.dtype) -> None:
    model, tensors = placed(name, device, dtype)
    with torch.no_grad():
        own = model.forward(tensors)
    recorded = Recording(model, tensors).logits
    assert recorded.dtype == own.dtype == dtype
    assert recorded.device == own.device
    assert error(recorded, own) < BOUNDS[dtype]
    assert error(recorded, plain_logits(name)) < BOUNDS[dtype]


@pytest.mark.slow
@places
@pytest.mark.parametrize("name", [name for name in NAMES if FAMILIES[name].kind != "clip"])
def test_maps_are_those_of_float32_on_the_cpu_within_rounding(name: str, device: str, dtype: torch.dtype) -> None:
    """All are finite, in float32 and on the CPU. The sums of LRP, which are not normalised, lose too many digits in bfloat16 to compare."""
    for here, there in zip(maps(name, device, dtype), maps(name, "cpu", torch.float32), strict=True):
        for one, other in zip(here.maps, there.maps, strict=True):
            assert one.scores.dtype == torch.float32
            assert one.scores.device.type == "cpu"
            assert bool(one.scores.isfinite().all())
            if one.method != "lrp":
                alike = float(torch.cosine_similarity(one.scores.double(), other.scores.double(), dim=0))
                assert alike > (0.999 if dtype == torch.bfloat16 else 0.99999), one.method

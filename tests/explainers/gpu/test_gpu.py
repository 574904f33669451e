"""On a GPU: maps equal those of the CPU, memory that runs out is got along with, and a backward pass waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.errors import MemoryShortageError
from tests.explainers.support.wrapped import one_hot, specs_for
from tests.families import FAMILIES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU of Nvidia here")]


def pair(name: str) -> tuple[explainers.Model, explainers.Model]:
    return tuple(explainers.wrap(FAMILIES[name].build(), device=device) for device in ("cpu", "cuda"))  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["vit", "eva02", "bert", "llama", "hf-clip"])
def test_maps_equal_those_of_the_cpu(name: str) -> None:
    cpu, gpu = pair(name)
    tensors = FAMILIES[name].inputs(2)
    specs = specs_for(cpu)
    theirs = explainers.explain(cpu, tensors, 1, specs)
    ours = explainers.explain(gpu, {key: value.cuda() for key, value in tensors.items()}, 1, specs)
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one.maps, other.maps, strict=True):
            assert float((a.scores - b.scores).abs().max()) <= 1e-4 * float(b.scores.abs().max()), a.method


@pytest.fixture
def little() -> Iterator[None]:
    """The process may take so much of the GPU that a recording of many large pictures does not fit, and a few do."""
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 600_000_000) / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.usefixtures("little")
def test_a_batch_that_does_not_fit_is_explained_and_the_next_request_works(monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    model = explainers.wrap(timm.create_model("vit_small_patch16_224").eval(), device="cuda")
    tensors = {"pixel_values": torch.randn(32, 3, 224, 224, device="cuda")}
    monkeypatch.setattr("explainers.autograd.memory.free_memory", lambda device: None)  # the estimate is wrong
    assert len(explainers.explain(model, tensors, 1, ["input_x_gradient"])) == 32
    large = explainers.wrap(timm.create_model("vit_small_patch16_224", img_size=1120).eval(), device="cuda")
    with pytest.raises(MemoryShortageError, match="GB"):
        explainers.explain(large, {"pixel_values": torch.randn(1, 3, 1120, 1120, device="cuda")}, 1, ["rollout"])
    assert len(explainers.explain(model, {"pixel_values": tensors["pixel_values"][:1]}, 1, ["input_x_gradient"]).maps) == 1


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp", "lrp"])
def test_a_backward_pass_waits_for_nothing(rule: str) -> None:
    _, model = pair("vit")
    recording = Recording(model, {key: value.cuda() for key, value in FAMILIES["vit"].inputs(2).items()})
    start = one_hot(recording)
    recording.backward(RULES[rule], start)  # what is found out once for the model
    torch.cuda.set_sync_debug_mode("error")
    try:
        recording.backward(RULES[rule], start)
    finally:
        torch.cuda.set_sync_debug_mode("default")

"""Activations that are computed again on the way back: the signals of an ordinary recording, in less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers

# isort: split
import timm

from explainers import ExplainerError
from explainers.autograd.recomputation import ReadsInsideError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from tests.explainers.support.wrapped import inputs, one_hot, wrapped

#: Families with attention by one call or written out, norms before and after, gates, rotary positions, and models of images and texts.
NAMES = ["vit", "eva02", "cait", "mixer", "hf-clip", "bert", "llama"]
FIELDS = frozenset(["block_inputs", "block_outputs", "bias"])


def outside(recording: Recording, rule: str) -> list[Tensor]:
    """All signals between the blocks."""
    signals = recording.backward(RULES[rule], one_hot(recording), FIELDS)
    assert signals.bias is not None
    return [*signals.block_inputs, *signals.block_outputs, signals.bias]


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp", "lrp"])
@pytest.mark.parametrize("name", NAMES)
def test_signals_between_blocks_are_those_of_an_ordinary_recording(name: str, rule: str) -> None:
    model, tensors = wrapped(name, torch.float32), inputs(name, dtype=torch.float32)
    kept, recomputed = Recording(model, tensors), Recording(model, tensors, recomputed=True)
    for _ in range(2):  # a second backward pass finds the blocks as the first did
        wanted = outside(kept, rule)  # first: where no trial pass was made, it finds how attention is read
        for ours, theirs in zip(outside(recomputed, rule), wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-8)


def bytes_between(act: Callable[[], Any]) -> int:
    """The most bytes that torch's tensors took at once while ``act`` ran, counted by its profiler from what is allocated and freed."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        act()
    live = most = 0
    for event in sorted((e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


def test_less_memory_is_taken() -> None:
    vit = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=4, embed_dim=24, depth=12, num_heads=2)
    model = explainers.wrap(vit.eval())
    tensors = {"pixel_values": torch.randn(8, 3, 32, 32)}

    def record(recomputed: bool) -> Callable[[], Any]:
        return lambda: outside(Recording(model, tensors, recomputed=recomputed), "gradient")

    record(False)()  # what is found out once for the model
    assert bytes_between(record(True)) < 0.35 * bytes_between(record(False))


@pytest.mark.parametrize("read", ["attentions", "parts", "mid_residuals"])
def test_what_is_inside_the_blocks_says_that_it_is_not_kept(read: str) -> None:
    recording = Recording(wrapped("vit"), inputs("vit"), recomputed=True)
    with pytest.raises(ReadsInsideError, match="computed again on the way back"):
        getattr(recording, read)
    with pytest.raises(ReadsInsideError):
        recording.backward(RULES["gradient"], one_hot(recording), frozenset(["attentions"]))
    signals = recording.backward(RULES["gradient"], one_hot(recording))
    with pytest.raises(ReadsInsideError):
        list(signals.attentions)


class Counting(nn.Module):
    """A block that gives something else each time that it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.runs, self.is_counting = nn.Linear(8, 8), 1, False

    def forward(self, x: Tensor) -> Tensor:
        self.runs += self.is_counting
        return x + self.map(x) * self.runs


class OfCounting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks, self.head = nn.Embedding(20, 8), nn.ModuleList([Counting(), Counting()]), nn.Linear(8, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def test_a_block_that_does_something_else_the_second_time_is_refused() -> None:
    module = OfCounting().eval()
    model = explainers.wrap(module, kind="text", blocks="blocks")
    module.blocks[1].is_counting = True
    recording = Recording(model, {"input_ids": torch.arange(12).view(2, 6)}, recomputed=True)
    with pytest.raises(ExplainerError, match="another output when it runs again"):
        recording.backward(RULES["gradient"], one_hot(recording), FIELDS)


def test_blocks_of_more_than_one_row_are_refused() -> None:
    with pytest.raises(ExplainerError, match="more than one row of tokens"):
        Recording(wrapped("swin"), inputs("swin"), recomputed=True)

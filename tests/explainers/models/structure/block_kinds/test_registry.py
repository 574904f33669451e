"""A kind of block that another package adds, the one of docs/extending.md: two streams of other widths that attend to each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import explainers
from explainers import ExplainerError, Preprocessing
from explainers.autograd.recording import Recording
from explainers.methods.requirements import missing_requirements
from explainers.models.model import Model
from explainers.models.removal.patches import patch_removal
from explainers.models.structure.block_kinds import StreamsInColumns, add_block_kind
from tests.explainers.support.wrapped import trace_of
from tests.support.example_package import installed_example

CELLS, PATCHES, WIDTHS = 3, 12, (8, 6)  # of the memory, and of an image of 32 x 24 pixels; the widths of patches and memory


class Reads(nn.Module):
    """Tokens (B, S, D) read others (B, T, E), and add what they read."""

    def __init__(self, width: int, other: int) -> None:
        super().__init__()
        self.norm, self.of_others = nn.LayerNorm(width), nn.LayerNorm(other)
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(other, 2 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, others: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (self.q(self.norm(x)), *self.kv(self.of_others(others)).chunk(2, -1)))
        out: Tensor = x + self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return out


class Exchange(nn.Module):
    """A block: the memory reads the patches, then the patches the memory; a feed-forward part of the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.patches, wide = Reads(*WIDTHS[::-1]), Reads(*WIDTHS), 2 * WIDTHS[0]
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTHS[0]), nn.Linear(WIDTHS[0], wide), nn.GELU(), nn.Linear(wide, WIDTHS[0]))

    def forward(self, patches: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.memory(memory, patches)
        patches = self.patches(patches, memory)
        return patches + self.mlp(patches), memory


class Remembering(nn.Module):
    """Patches, and a memory that is the same for every image; the head reads its first cell."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.places = nn.Conv2d(3, WIDTHS[0], 8, 8), nn.Parameter(torch.randn(1, PATCHES, WIDTHS[0]))
        self.cells = nn.Parameter(torch.randn(1, CELLS, WIDTHS[1]))
        self.blocks, self.head = nn.ModuleList(Exchange() for _ in range(2)), nn.Linear(WIDTHS[1], 4)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patch(pixels).flatten(2).transpose(1, 2) + self.places
        return self.answer(x, self.cells.expand(len(x), -1, -1))

    def answer(self, x: Tensor, memory: Tensor) -> Tensor:
        for block in self.blocks:
            x, memory = block(x, memory)
        out: Tensor = self.head(memory[:, 0])
        return out


def module() -> Remembering:
    torch.manual_seed(0)
    return Remembering().eval().double()


def wrapped() -> Model:
    return explainers.wrap(module(), kind="image", preprocess=Preprocessing(resize=(32, 24), crop=(32, 24)))


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 24, generator=torch.Generator().manual_seed(1)).double()}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with installed_example(tmp_path_factory.mktemp("example")) as example:
        yield example.Memory


def test_blocks_of_the_kind_are_found(memory: Any) -> None:
    model = wrapped()
    layout = model.layout_of(images())
    assert model.block_kind == memory(CELLS, PATCHES)
    assert [name for name, part in model.module.named_modules() if part in set(model.blocks)] == ["blocks.0", "blocks.1"]
    assert (layout.prefix, layout.class_token, layout.grid, model.details["width"]) == (CELLS, 0, (4, 3), WIDTHS[0])


def test_its_signals_are_those_of_torch(memory: Any) -> None:
    """At both streams; and under Libra what both hold adds up, with the bias terms, to the logit."""
    model, net = wrapped(), module()
    recording = Recording(model, images())
    with torch.no_grad():
        x = [net.patch(images()["pixel_values"]).flatten(2).transpose(1, 2) + net.places, net.cells.expand(2, -1, -1).clone()]
    streams = [stream.requires_grad_() for stream in x]
    gradients = torch.autograd.grad(net.answer(*streams)[:, 1].sum(), streams)
    signal = trace_of(recording, "gradient", 1).signals.block_inputs[0]
    torch.testing.assert_close(signal[:, CELLS:, : WIDTHS[0]], gradients[0])
    torch.testing.assert_close(signal[:, :CELLS, WIDTHS[0] :], gradients[1])
    libra = trace_of(recording, "libra", 1).signals
    assert recording.block_outputs[-1].shape == libra.block_outputs[-1].shape == (2, CELLS + PATCHES, sum(WIDTHS))
    account = (recording.block_inputs[0].detach() * libra.block_inputs[0]).sum((1, 2)) + libra.bias.sum(1) + libra.unplaced
    torch.testing.assert_close(account, recording.logits[:, 1].detach())
    assert bool((libra.bias[:, :CELLS] != 0).any(0).all())  # those of the memory's own layers are the memory's


def test_what_reads_attention_says_why_it_does_not_run(memory: Any) -> None:
    model = wrapped()
    missing = missing_requirements(model)
    reason = "without an attention map over all its tokens: patches attend to the memory, and the memory to patches. What reads none runs"
    assert reason in missing["attention"]
    assert missing["residual"].startswith("The blocks of Remembering have a residual stream of patches and one of a memory")
    reasons = {variant.method_name: variant.reason for variant in explainers.variants(model)}
    assert reasons["rollout"] == missing["attention"]
    assert reasons["fullgrad_plus"] is None


def test_patches_are_removed_from_their_stream(memory: Any) -> None:
    """Patches attend to the memory alone, so that the model takes fewer of them."""
    model, net, keep = wrapped(), module(), torch.arange(PATCHES)[None] % 3 != 0
    removal = patch_removal(model, {"pixel_values": images()["pixel_values"][:1]}, (4, 3))
    with torch.no_grad():
        x = net.patch(images()["pixel_values"][:1]).flatten(2).transpose(1, 2) + net.places
        expected = net.answer(x[:, keep[0]], net.cells)
    assert removal.how == "removed"
    torch.testing.assert_close(removal.logits(keep), expected.float())


def test_a_kind_that_is_none_is_refused(memory: Any) -> None:
    @dataclass(frozen=True)
    class Unfinished(StreamsInColumns):
        name = "unfinished"

    @dataclass(frozen=True)
    class Unnamed(memory):
        name = "a memory"

    with pytest.raises(ExplainerError, match="There is already a kind of block memory"):
        add_block_kind(memory)
    with pytest.raises(ExplainerError, match="Unfinished, a kind of block, lacks find, places: define them"):
        add_block_kind(Unfinished)
    with pytest.raises(ExplainerError, match="cannot be called 'a memory': send lower-case letters"):
        add_block_kind(Unnamed)
    other: Any = Preprocessing
    with pytest.raises(ExplainerError, match="Preprocessing is no kind of block: derive a frozen dataclass from BlockKind"):
        add_block_kind(other)

"""Work that a trial pass leaves out, against passes that do it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import explainers
from explainers.models.structure import layouts
from explainers.models.structure.repeated_work import EqualHalves, RecordedBlocks
from explainers.models.structure.watching import Bypassed, bypass_of
from tests.explainers.support.attention_forms import PREPROCESS, WIDTH, Attention, Block, Vit, built, of_module, plain_blocks


class Rows(TorchFunctionMode):
    """A mode that counts the samples that linear layers and convolutions run on."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (F.linear, F.conv2d, F.scaled_dot_product_attention):
            self.counts.append(len(args[0]))
        return func(*args, **(kwargs or {}))


def test_layers_run_once_on_two_equal_samples_and_give_the_same() -> None:
    torch.manual_seed(0)
    layer, conv, x = nn.Linear(8, 8), nn.Conv2d(3, 4, 2), torch.randn(1, 5, 8)
    pictures, heads = torch.randn(1, 3, 6, 6), torch.randn(2, 2, 5, 4)
    twice, windows = torch.cat([x, x]), torch.cat([heads, heads])
    expected = [layer(twice), conv(pictures.repeat(2, 1, 1, 1)), F.scaled_dot_product_attention(windows, windows, windows, is_causal=True)]
    rows = Rows()
    with rows, EqualHalves():  # the outer mode sees what the inner one runs
        given = [layer(twice), conv(pictures.repeat(2, 1, 1, 1)), F.scaled_dot_product_attention(windows, windows, windows, is_causal=True)]
    assert rows.counts == [1, 1, 2]
    for each, other in zip(given, expected, strict=True):
        torch.testing.assert_close(each, other)


def test_layers_on_samples_that_differ_run_on_all_of_them() -> None:
    torch.manual_seed(0)
    layer, x, q = nn.Linear(8, 8), torch.randn(2, 5, 8), torch.randn(2, 2, 5, 4)
    same, mask = q[:1].repeat(2, 1, 1, 1), torch.randn(2, 1, 5, 5)
    with EqualHalves():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
        masked = F.scaled_dot_product_attention(same, same, same, mask)
        flat = layer(torch.ones(8))  # an axis that is none of samples
    assert not torch.allclose(masked[0], masked[1])
    assert flat.shape == (8,)


class Counting(Block):
    """A block that counts the calls of all of its kind, and may leave its output where the head can read it."""

    calls = 0
    aside: Tensor | None = None
    leaves = False

    def __init__(self) -> None:
        super().__init__(lambda: Attention(of_module))

    def forward(self, x: Tensor) -> Tensor:
        Counting.calls += 1
        out = super().forward(x)
        Counting.aside = out.mean() if Counting.aside is None else Counting.aside + out.mean()
        return out


class WithAside(Vit):
    """A classifier whose head reads the sum of what its blocks left aside, which each pass begins anew."""

    def forward(self, x: Tensor) -> Tensor:
        Counting.aside = None
        logits = super().forward(x)
        assert not Counting.leaves or Counting.aside is not None, "no block ran"
        return logits + Counting.aside if Counting.leaves and Counting.aside is not None else logits


@pytest.mark.parametrize(("leaves", "again"), [(False, 0), (True, 2)])
def test_the_head_is_read_without_the_blocks_unless_they_leave_more_than_their_outputs(
    leaves: bool, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vit = built(lambda: WithAside(lambda: [Counting(), Counting()]))
    monkeypatch.setattr(Counting, "leaves", leaves)
    seen: list[tuple[Bypassed, int]] = []

    def spy(*args: Any) -> Bypassed:
        found = bypass_of(*args)
        seen.append((found, Counting.calls))
        return found

    monkeypatch.setattr(layouts, "bypass_of", spy)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    (bypassed, before), after = seen[0], Counting.calls
    assert (bypassed.blocks is None) is leaves
    assert after - before == again
    assert model.layout_of({"pixel_values": torch.zeros(1, 3, *model.details["input"])}).class_token == 0
    assert all("forward" not in vars(block) for block in vit.blocks)


def test_recorded_blocks_give_copies_in_the_order_of_the_calls() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, WIDTH)
    recorded, x = RecordedBlocks([layer, layer]), torch.randn(2, 3, WIDTH)
    handles = recorded.hooks()
    first = layer(x)
    second = layer(first)
    for handle in handles:
        handle.remove()
    kept = first.clone(), second.clone()
    first.zero_()  # the pass writes over what it was given
    with recorded.replayed():
        assert torch.equal(layer(torch.zeros_like(x)), kept[0])
        assert torch.equal(layer(torch.zeros_like(x)), kept[1])
    assert torch.equal(layer(torch.zeros(WIDTH)), layer.bias)


def test_a_classifier_of_pictures_is_told_by_the_pass_that_finds_its_blocks() -> None:
    vit, batches = built(lambda: Vit(plain_blocks)), []
    vit.blocks[-1].register_forward_hook(lambda module, args, output: batches.append(len(output)))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    assert batches == [2, 2, 2, 2]  # two pictures; one with the tokens of the other; what was recorded, twice
    assert model.task is None


def test_a_model_of_features_is_told_by_one_picture_after_all() -> None:
    import timm

    torch.manual_seed(0)
    module = timm.create_model("vit_tiny_patch16_224", num_classes=0, depth=2)
    model = explainers.wrap(module)
    assert type(model.task).__name__ == "Features"

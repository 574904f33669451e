"""A model whose weights are spread over devices, left on disk or kept in 8 bits is refused in words, before anything is tried with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import ExplainerError
from explainers.models.placement import placed
from tests.families import FAMILIES


def test_a_model_that_is_left_on_disk_until_a_pass_needs_it_is_refused() -> None:
    """As accelerate leaves it where memory is short: its weights have no numbers, and hooks fetch them for a pass."""
    accelerate = pytest.importorskip("accelerate")
    module = FAMILIES["bert"].build().eval()
    accelerate.cpu_offload(module, execution_device=torch.device("cpu"))
    for how in ({}, {"device": "cpu"}):
        with pytest.raises(ExplainerError, match=r"are not in memory .*load it whole on one device, such as device_map="):
            explainers.wrap(module, **how)  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="are not in memory"):
        explainers.open(module)


class Spread(nn.Module):
    """A module whose parameters say that they are on these devices."""

    def __init__(self, *devices: str) -> None:
        super().__init__()
        self.devices = devices

    def to(self, *device: Any, **how: Any) -> Spread:
        return self

    def parameters(self, recurse: bool = True) -> Any:
        return iter([Placed(torch.device(device)) for device in self.devices])


class Placed:
    def __init__(self, device: torch.device) -> None:
        self.device = device


def test_a_model_on_several_devices_is_refused_unless_it_is_moved_to_one() -> None:
    spread = Spread("cuda:0", "cuda:1", "cuda:0")
    with pytest.raises(ExplainerError, match=r"weights of this Spread are spread over cuda:0, cuda:1: load it whole on one device"):
        placed(spread, None)
    assert placed(spread, "cpu") is spread
    spread.hf_device_map = {"a": 0, "b": 1}  # type: ignore[assignment]  # hooks hold its parts there
    with pytest.raises(ExplainerError, match="spread over"):
        placed(spread, "cpu")
    one = Spread("cuda:1", "cuda:1")
    one.hf_device_map = {"": 1}  # type: ignore[assignment]
    assert placed(one, None) is one


class Int8Params(nn.Parameter):
    """Weights of 8 bits, as those of bitsandbytes: whole numbers, whose scale is elsewhere."""

    def __new__(cls, data: Tensor) -> Int8Params:
        return Tensor._make_subclass(cls, data, False)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> Int8Params:
        return Int8Params(self.data.clone())


class Linear8bitLt(nn.Linear):
    """A layer with weights of 8 bits."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features)
        self.weight = Int8Params((layer.weight * 100).to(torch.int8))


def test_weights_of_8_bits_that_are_no_numbers_by_themselves_are_refused() -> None:
    module = FAMILIES["vit"].build().float()
    module.blocks[0].mlp.fc1 = Linear8bitLt(module.blocks[0].mlp.fc1)
    with pytest.raises(
        ExplainerError, match=r"blocks\.0\.mlp\.fc1 is a Linear8bitLt with quantised weights .* open the model as it was before"
    ):
        explainers.open(module)

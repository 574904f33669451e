"""Outlier tokens are looked for by the histogram of norms, and what was found is kept in a file; where there are none, that is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import explainers
from explainers import ExplainerError, find_register_neurons
from explainers.models.companion_files.register_neurons import read_register_neurons
from explainers.models.registers.finding import threshold_of
from tests.explainers.support.wrapped import wrapped
from tests.families import FAMILIES


def pictures(count: int = 3) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [{"pixel_values": torch.randn(1, 3, 32, 24, generator=generator)} for _ in range(count)]


def test_the_threshold_parts_two_groups_of_norms_and_no_single_one() -> None:
    norms = torch.rand(1000, generator=torch.Generator().manual_seed(0)) * 10 + 10
    assert threshold_of(norms) is None
    outliers = torch.tensor([90.0, 110, 100])
    threshold = threshold_of(torch.cat([norms, outliers]))
    assert threshold is not None
    assert 20 < threshold < 90
    assert threshold_of(torch.cat([norms, torch.full((400,), 100.0)])) is None  # so many are no outliers


def test_nothing_to_move_is_said() -> None:
    model = explainers.wrap(FAMILIES["vit"].build(), device="cpu")
    found = find_register_neurons(model, pictures())
    assert (found.threshold, found.neurons, model.register_neurons) == (None, (), found)
    assert "nothing to move" in str(found)
    found = find_register_neurons(model, pictures(), threshold=1e6)
    assert (found.counted, found.neurons) == (0, ())
    with pytest.raises(ExplainerError, match="nothing to move"):
        explainers.without_outlier_tokens(model)


def test_what_was_found_is_kept_and_read(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    found = find_register_neurons(
        explainers.wrap(FAMILIES["vit"].build(), device="cpu"), pictures(), threshold=0.0, count=3, progress=lambda *how: told.append(how)
    )
    assert told == [(0, 3), (1, 3), (2, 3)]
    assert len(found.neurons) == 3
    assert {block for block, _ in found.neurons} == {0}  # the first half of two blocks
    found.save(tmp_path / "register_neurons.json")
    assert read_register_neurons(tmp_path / "register_neurons.json") == found
    (tmp_path / "register_neurons.json").write_text("{}")
    with pytest.raises(ExplainerError, match="must hold what"):
        read_register_neurons(tmp_path / "register_neurons.json")


@pytest.mark.parametrize(("family", "said"), [("bert", "reads words"), ("hf-siglip", "pools all tokens"), ("swin", "one row of tokens")])
def test_models_to_whose_tokens_none_is_added(family: str, said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        find_register_neurons(wrapped(family), pictures())

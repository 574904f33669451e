"""Free memory as the system says it, and the bytes of a forward pass."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from explainers.models import memory
from explainers.models.memory import _Counting, bytes_of_pass, free_memory, total_memory
from explainers.models.wrapping import wrap
from tests.families import FAMILIES

CPU = torch.device("cpu")


def test_bytes_are_counted_as_long_as_something_holds_them() -> None:
    with _Counting() as counting:
        first = torch.zeros(1000)
        view = first.view(10, 100)
        del first
        assert counting.live == 4000
        second = view + 1
        assert counting.live == 8000
        del view, second
        third = torch.ones(500)
        third.add_(1)
    assert counting.peak == 8000
    assert counting.live == 2000


def test_more_inputs_cost_a_pass_more() -> None:
    family = FAMILIES["vit"]
    model = wrap(family.build(), device="cpu")
    one, two, three = (bytes_of_pass(model, family.inputs(batch)) for batch in (1, 2, 3))
    hidden = 4 * max(module.out_features for module in model.module.modules() if isinstance(module, torch.nn.Linear)) * 13
    assert hidden < one < two < three
    assert three < 3 * one
    assert three - two >= hidden


def test_what_is_free_is_what_the_system_and_the_container_leave(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=50000, available=8000))
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_file 0\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    (tmp_path / "memory.max").write_text("9000\n")
    assert (free_memory(CPU), total_memory(CPU)) == (4000, 9000)
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_anon 7\ninactive_file 600\n")  # files that were read, given back when needed
    assert free_memory(CPU) == 4600
    (tmp_path / "memory.max").write_text("99000\n")
    assert (free_memory(CPU), total_memory(CPU)) == (8000, 50000)
    assert free_memory(torch.device("meta")) is total_memory(torch.device("meta")) is None


def test_what_is_free_is_a_part_of_the_machine() -> None:
    free = free_memory(CPU)
    assert free is not None
    assert 2**20 < free <= psutil.virtual_memory().total

"""The bytes of weights as the headers of their files say them, against those of the model that is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import explainers
from explainers.models.catalogue import embedded_path
from explainers.models.memory import bytes_of_weights
from explainers.models.opening.stored_size import bytes_when_loaded
from tests.families import FAMILIES


@pytest.mark.parametrize("name", ["scenes-vit", "reviews-bert"])
def test_the_size_of_a_model_is_known_before_it_is_loaded(name: str) -> None:
    loaded = bytes_of_weights(explainers.load(name, "cpu").module)
    known = bytes_when_loaded(name)
    assert known is not None
    assert abs(known - loaded) < 0.01 * loaded  # but for buffers, such as positions
    assert bytes_when_loaded(name, torch.bfloat16) == pytest.approx(known / 2, rel=1e-3)


def test_a_file_and_the_folder_around_it(tmp_path: Path) -> None:
    tensors = {"a": torch.zeros(10, 3, dtype=torch.float16), "b": torch.zeros(7), "c": torch.zeros(5, dtype=torch.int64)}
    save_file(tensors, tmp_path / "model.safetensors")
    assert bytes_when_loaded(tmp_path / "model.safetensors") == 4 * (30 + 7) + 8 * 5
    assert bytes_when_loaded(str(tmp_path)) == 4 * (30 + 7) + 8 * 5
    assert bytes_when_loaded(tmp_path, torch.float16) == 2 * (30 + 7) + 8 * 5


def test_a_model_in_several_files(tmp_path: Path) -> None:
    FAMILIES["bert"].build().save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = bytes_of_weights(FAMILIES["bert"].build())
    assert bytes_when_loaded(tmp_path) == pytest.approx(loaded, rel=0.02)


def test_a_file_of_torch_has_about_the_size_of_its_weights(tmp_path: Path) -> None:
    module = nn.Linear(100, 100).half()
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "x", "torch_dtype": "float16"}))
    assert bytes_when_loaded(tmp_path) == pytest.approx(4 * 100 * 101, rel=0.1)
    assert bytes_when_loaded(tmp_path, torch.float16) == pytest.approx(2 * 100 * 101, rel=0.1)


@pytest.mark.parametrize("header", [b"", b"\xff" * 8, (4).to_bytes(8, "little") + b"{[}]", (2).to_bytes(8, "little") + b"[]"])
def test_what_is_no_file_of_weights_has_no_size(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(header)
    assert bytes_when_loaded(tmp_path / "model.safetensors") is None


def test_what_is_not_here_has_no_size(tmp_path: Path) -> None:
    assert bytes_when_loaded("hf/nobody/has-this") is None
    assert bytes_when_loaded("no model") is None
    assert bytes_when_loaded(tmp_path) is None


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_folder_and_a_file_are_opened_in_the_type_that_was_asked_for(dtype: torch.dtype | None) -> None:
    folder = embedded_path("scenes-vit")
    of_folder = explainers.open(folder, device="cpu", check="none", dtype=dtype)
    of_file = explainers.open(folder / "model.safetensors", architecture=of_folder.module, device="cpu", check="none", dtype=dtype)
    assert of_folder.dtype == of_file.dtype == (dtype or torch.float32)
    assert bytes_of_weights(of_folder.module) == pytest.approx(bytes_when_loaded(folder, dtype or torch.float32), rel=0.01)


def test_a_module_keeps_its_type_and_other_types_are_refused() -> None:
    with pytest.raises(explainers.ExplainerError, match=r"convert it by module\.to"):
        explainers.open(FAMILIES["bert"].build(), dtype=torch.bfloat16)
    with pytest.raises(explainers.ExplainerError, match=r"choose one of torch\.float32"):
        explainers.open("scenes-vit", dtype=torch.int8)

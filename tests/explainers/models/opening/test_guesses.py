"""Architectures guessed from the names and shapes of weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import timm
import torch

from explainers.models.opening.guesses import suggest_architectures
from tools.timm_shapes import row_of


def shapes(name: str, **how: int) -> Mapping[str, tuple[int, ...]]:
    with torch.device("meta"):
        return {key: tuple(tensor.shape) for key, tensor in timm.create_model(name, **how).state_dict().items()}


@pytest.mark.parametrize("name", ["test_vit", "deit_tiny_patch16_224", "deit3_small_patch16_224", "swin_tiny_patch4_window7_224"])
def test_an_architecture_is_among_those_guessed(name: str) -> None:
    """Whatever its classes and channels are."""
    assert f"timm/{name}" in suggest_architectures(shapes(name, num_classes=7, in_chans=1))


def test_the_table_is_of_this_timm() -> None:
    """``python -m tools.timm_shapes`` writes it again."""
    from explainers.models.opening.guesses import _table

    table = _table()
    for name in ("test_vit3", "vit_small_patch16_224", "beit_base_patch16_224"):
        fingerprint, *facts = row_of(name)
        assert (name, *facts) in table[fingerprint]


def test_a_file_is_looked_at_without_the_libraries_that_would_open_it(tmp_path: Path) -> None:
    """timm imports torchvision, and that the compiler of torch: seconds of one core, in the process that answers everybody."""
    torch.save({"state_dict": timm.create_model("test_vit", num_classes=5).state_dict()}, tmp_path / "best.pth")
    code = f"""
import sys
from pathlib import Path
from explainers.models.opening.look import look_at
before = set(sys.modules)
seen = look_at(Path({str(tmp_path / "best.pth")!r}))
print(seen.architectures[0], *(name for name in ("timm", "transformers", "open_clip") if name in sys.modules))
print(*sorted(name for name in set(sys.modules) - before if name.startswith(("torchvision", "torch._dynamo"))))
"""
    seen = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert seen.stdout.splitlines() == ["timm/test_vit", ""]


def test_what_the_installed_timm_lacks_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    known = suggest_architectures(shapes("vit_tiny_patch16_224"))
    monkeypatch.setattr(timm, "is_model", lambda name: name != known[0].removeprefix("timm/"))
    assert suggest_architectures(shapes("vit_tiny_patch16_224"), installed=True) == known[1:]


def test_the_size_of_pictures_tells_architectures_apart() -> None:
    assert suggest_architectures(shapes("vit_base_patch16_384"))[0] == "timm/vit_base_patch16_384"
    assert "timm/vit_base_patch16_384" not in suggest_architectures(shapes("vit_base_patch16_224"))


def test_nothing_is_guessed_of_what_nobody_knows() -> None:
    assert suggest_architectures({"a.weight": (3, 4), "b.bias": (5,)}) == []


def test_models_of_transformers_are_known_by_their_words() -> None:
    assert suggest_architectures({"bert.embeddings.word_embeddings.weight": (30522, 768)}) == ["hf/google-bert/bert-base-uncased"]
    assert suggest_architectures({"vit.embeddings.patch_embeddings.projection.weight": (768, 3, 16, 16)}) == [
        "hf/google/vit-base-patch16-224"
    ]

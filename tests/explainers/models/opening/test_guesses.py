"""Architectures guessed from the names and shapes of weights."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import timm
import torch

from explainers.models.opening.guesses import suggest_architectures
from tools.timm_shapes import fingerprint_of


def shapes(name: str, **how: int) -> Mapping[str, tuple[int, ...]]:
    with torch.device("meta"):
        return {key: tuple(tensor.shape) for key, tensor in timm.create_model(name, **how).state_dict().items()}


@pytest.mark.parametrize("name", ["test_vit", "deit_tiny_patch16_224", "deit3_small_patch16_224", "swin_tiny_patch4_window7_224"])
def test_an_architecture_is_among_those_guessed(name: str) -> None:
    """Whatever its classes and channels are."""
    assert f"timm/{name}" in suggest_architectures(shapes(name, num_classes=7, in_chans=1))


def test_the_table_is_of_this_timm() -> None:
    """``python -m tools.timm_shapes`` writes it anew."""
    from explainers.models.opening.guesses import _table

    table = _table()
    for name in ("test_vit3", "vit_small_patch16_224", "beit_base_patch16_224"):
        assert name in table[fingerprint_of(name)]


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

"""What is known of a file or a folder before it is opened: the names of its classes, and architectures to choose from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from explainers.models.opening.look import look_at
from tests.support.own_models.case import CLASSES, vit


def folder_with(place: Path, config: dict[str, Any], **files: Any) -> Path:
    """Make a folder of a model without its weights' values, with this ``config.json`` and further JSON files."""
    torch.save({}, place / "pytorch_model.bin")
    for name, content in {"config": config, **files}.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return place


@pytest.mark.parametrize("names", [list(CLASSES), {name: index for index, name in enumerate(CLASSES)}])
def test_names_of_classes_in_a_file_are_read(tmp_path: Path, names: Any) -> None:
    torch.save({"model": vit().state_dict(), "classes": names}, tmp_path / "best.pth")
    seen = look_at(tmp_path / "best.pth")
    assert (seen.classes, seen.labels) == (5, list(CLASSES))


def test_names_of_another_number_of_classes_are_none(tmp_path: Path) -> None:
    torch.save({"model": vit().state_dict(), "classes": ["a", "b"]}, tmp_path / "best.pth")
    assert look_at(tmp_path / "best.pth").labels == []


@pytest.mark.parametrize(
    ("config", "files", "labels"),
    [
        ({"id2label": {"0": "bad", "1": "good"}}, {}, ["bad", "good"]),
        ({"label_names": ["ant", "bee"]}, {}, ["ant", "bee"]),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, {}, []),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, {"labels": [{"label": "ant"}, {"label": "bee"}]}, ["ant", "bee"]),
        ({}, {}, []),
    ],
)
def test_names_of_classes_in_a_folder_are_read(tmp_path: Path, config: dict[str, Any], files: dict[str, Any], labels: list[str]) -> None:
    seen = look_at(folder_with(tmp_path, {"architectures": ["BertForSequenceClassification"], **config}, **files))
    assert (seen.labels, seen.classes) == (labels, len(labels) or None)
    assert seen.suggestions == []  # the folder says its architecture


@pytest.mark.parametrize(
    ("config", "what", "architecture"),
    [
        ({"architecture": "vit_tiny_patch16_224"}, "a folder that timm saved", "vit_tiny_patch16_224 of timm"),
        ({"architectures": ["ViTModel"], "model_type": "vit"}, "a folder that transformers saved", "ViTModel of transformers"),
        ({"model_type": "bert"}, "a folder that transformers saved", "bert of transformers"),
        ({}, "a folder that transformers saved", None),
    ],
)
def test_the_library_and_the_architecture_of_a_folder_are_said(
    tmp_path: Path, config: dict[str, Any], what: str, architecture: str | None
) -> None:
    seen = look_at(folder_with(tmp_path, config))
    assert (seen.what, seen.architecture) == (what, architecture)


def test_the_architecture_of_a_file_is_the_likeliest(tmp_path: Path) -> None:
    torch.save(vit().state_dict(), tmp_path / "known.pth")
    seen = look_at(tmp_path / "known.pth")
    assert seen.architecture == seen.architectures[0]
    torch.save({"a.weight": torch.zeros(3, 4)}, tmp_path / "odd.pth")
    assert look_at(tmp_path / "odd.pth").architecture is None


def test_architectures_are_suggested_for_weights_that_nobody_knows(tmp_path: Path) -> None:
    torch.save({"a.weight": torch.zeros(3, 4), "b.bias": torch.zeros(5)}, tmp_path / "odd.pth")
    seen = look_at(tmp_path / "odd.pth")
    assert seen.needs_architecture
    assert {"timm/vit_base_patch16_224", "hf/google-bert/bert-base-uncased"} <= set(seen.suggestions)
    torch.save(vit().state_dict(), tmp_path / "known.pth")
    known = look_at(tmp_path / "known.pth")
    assert not set(known.architectures) & set(known.suggestions)

"""What a case is: what somebody has, how it is made, and what opening it must find."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import timm
import transformers

from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

ARCHITECTURE = "timm/test_vit"  # the smallest of timm's own: 160 x 160 pixels, 6 blocks
CLASSES = ["ant", "bee", "cat", "dog", "eel"]


@dataclass(frozen=True)
class Given:
    """What is opened, and with which arguments; ``module``: the plain model whose logits it must have, where it can be called so."""

    what: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None


@dataclass(frozen=True)
class Case:
    """One layout.

    name   of the test
    have   what somebody has, in words
    way    how it is opened, in words
    make   writes it into a folder
    kind   what the model reads
    labels the classes that must be found; None: not looked at
    guess  words that must stand in the guesses of the report; empty: not looked at
    needs  a package without which it is skipped
    """

    name: str
    have: str
    way: str
    make: Callable[[Path], Given]
    kind: Literal["image", "text", "clip"] = "image"
    labels: tuple[str, ...] | None = None
    guess: str = ""
    needs: str = ""


@contextmanager
def seeded() -> Iterator[None]:
    """Random numbers that are the same each time, inside this context alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def shaken(module: nn.Module, name: str = "") -> nn.Module:
    """``module`` in eval mode, no weight the zero or one that it began with; the same for the same name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    with torch.no_grad():
        for parameter in module.parameters():
            scale = 0.2 if parameter.dim() <= 1 else 0.05
            parameter.add_((torch.randn(parameter.shape, generator=generator) * scale).to(parameter))
    return module.eval()


def vit(classes: int = len(CLASSES), **other: Any) -> nn.Module:
    """timm's tiny test model."""
    with seeded():
        return shaken(timm.create_model("test_vit", num_classes=classes, **other), "vit")


def text_model(**config: Any) -> nn.Module:
    """A tiny BERT that its tests' tokenizer goes with."""
    module: Any = FAMILIES["bert"].build()
    if not config:
        return module  # type: ignore[no-any-return]
    with seeded():
        return shaken(transformers.BertForSequenceClassification(transformers.BertConfig(**{**module.config.to_dict(), **config})), "bert")


def save_text(folder: Path, module: Any, tokenizer: bool = True) -> None:
    """A folder as transformers writes it."""
    module.save_pretrained(folder)
    if tokenizer:
        wordpiece().save_pretrained(folder)


def save_image(folder: Path, module: Any, size: tuple[int, int]) -> None:
    """A folder of a model of pictures, with its processor."""
    module.save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": size[0], "width": size[1]}).save_pretrained(folder)

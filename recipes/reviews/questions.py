"""What ``reviews-bert`` is asked when it is measured, read from ``questions.toml``; nothing there is trained on."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from explainers.models.inputs.languages import strange_words
from explainers.models.inputs.texts import TextReader


def read_questions() -> dict[str, Any]:
    """Return the probe sentences of ``questions.toml``, by probe."""
    return tomllib.loads(Path(__file__).with_name("questions.toml").read_text("utf-8"))


def strangeness(reader: TextReader, texts: Sequence[str]) -> list[float]:
    """Return for each of ``texts``, tokenized by ``reader``, the score that the threshold of ``unreadable_language`` applies to: how
    strange its words are.
    """
    return [strange_words(reader.read([text], torch.device("cpu")).inputs[0]) for text in texts]

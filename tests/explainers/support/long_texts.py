"""A text longer than its model, and its windows."""

from __future__ import annotations

from typing import Any

import explainers
from explainers.models.inputs.types import Windows
from explainers.models.model import Model
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

TEXT = "not a bad movie, the plot is well-made! i don't like the film. " * 3


def model_of(name: str = "bert", tokenizer: Any = None) -> Model:
    return explainers.wrap(FAMILIES[name].build(), tokenizer=tokenizer or wordpiece(), labels=["against", "for", "unsure"])


def windows(model: Model, text: str = TEXT) -> Windows:
    found = model.windows(text)
    assert found is not None
    return found

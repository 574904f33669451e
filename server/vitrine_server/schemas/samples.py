"""Inputs to try."""

from __future__ import annotations

from explainers.models.inputs.types import ModelKind
from vitrine_server.schemas.base import Schema, absent


class PromptSet(Schema):
    """A named set of prompts to ask together."""

    name: str
    prompts: list[str]


class Sample(Schema):
    """One sample input to try, with a model that suits it."""

    id: str
    kind: ModelKind
    model: str
    title: str
    note: str = absent()
    image: str = absent("The address of a picture.")
    thumbnail: str = absent("The picture, small, as a data URI.")
    text: str = absent()
    text_pair: str = absent()
    pair: str = absent("Of a molecule, the SMILES of one that differs from it in one group.")
    prompts: list[str] = absent()
    sets: list[PromptSet] = absent()
    target: str = absent()
    objects: list[str] = absent("What the picture shows.")
    trap: bool = absent("Whether the model is easily misled by it.")
    expected: str = absent("The class that people give it.")
    model_says: str = absent("The class that the model gives it, where that was noted.")


class Samples(Schema):
    """All sample inputs to try."""

    samples: list[Sample]

"""The form of a question for a model's depth."""

from __future__ import annotations

from typing import Annotated

from fastapi import UploadFile
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from explainers.analysis.depth import MAX_INPUTS, MIN_INPUTS
from vitrine_server.schemas.base import Schema

_Lines = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda sent: sent or ()),
    AfterValidator(lambda texts: tuple(line.strip() for text in texts for line in text.splitlines() if line.strip())),
]


class DepthForm(Schema):
    """The inputs on which to measure how much of a model's work its Transformer does: pictures or texts."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    model: Annotated[str, AfterValidator(str.strip)] = Field(description="A name from /api/models.")
    images: tuple[UploadFile, ...] = Field(
        (), alias="image", description=f"Image files, at least {MIN_INPUTS}; together no larger than one upload may be."
    )
    texts: _Lines = Field((), alias="text", description=f"Texts, one a line, at least {MIN_INPUTS}.")
    prompts: _Lines = Field(
        (), alias="prompt", description="For CLIP models: what the pictures are compared with, at least two, one a line."
    )
    limit: int = Field(MAX_INPUTS, ge=MIN_INPUTS, le=MAX_INPUTS, description="The most inputs to measure, taken evenly from what was sent.")

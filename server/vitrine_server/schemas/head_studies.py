"""What is asked about the inside of models of images, and what is answered: a cosine by head, one head less, outlier tokens."""

from __future__ import annotations

from pydantic import Field

from explainers.analysis.heads import similarity
from explainers.json_records import schema_of
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.records.outliers import OutlierPatches
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.studies import TARGET, Study


class SimilarityRequest(Schema):
    """The target whose cosine with the image to split into the contributions of blocks and heads."""

    target: str | None = TARGET


class WithoutHeadRequest(SimilarityRequest):
    """The attention head to ablate, and the target whose score to compare."""

    block: int = Field(ge=0, description="Counted from 0.")
    head: int = Field(ge=0, description="Counted from 0.")


SimilarityDecomposition = schema_of(similarity.SimilarityDecomposition, base=Study)
WithoutHead = schema_of(similarity.WithoutHead, base=Study)


class RegistersRequest(Schema):
    """Empty: there are no options."""


class Registers(Study):
    """The known outlier tokens of a model, and the register neurons that cause them."""

    known: RegisterNeurons
    says: str = Field(description="What was found, in a sentence.")
    can_move: bool = Field(description="Whether the model can be explained without them: outlier_tokens=move.")
    outliers: OutlierPatches | None = Field(description="Those of this picture; null where no norm stands apart.")

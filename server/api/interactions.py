"""What two inputs have to do with each other: the words of a prompt and the patches of a picture, and two inputs of one model."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from server.http.bodies import JsonRoute
from server.lookup import ExplanationId
from server.services import Use
from server.studies import interactions as studies
from server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=JsonRoute)
_MOST_STEPS = 100


class _How(BaseModel):
    """How interactions are made."""

    model_config = ConfigDict(extra="forbid")
    rule: str = Field("libra", max_length=100, description="A rule of GET /api/rules that carries gradients.")
    steps: int = Field(
        0,
        ge=0,
        le=_MOST_STEPS,
        description="Steps of the path from the baseline over which Jacobians are averaged; 0: at the input itself.",
    )
    baseline: Literal["zero", "empty"] = Field(
        "zero", description="Where the path begins: at zeros, or at the tokens of a picture of zeros and of a text of one padding token."
    )
    block: Literal["first", "last"] = Field("first", description="Of which block the tokens enter.")
    quadrature: Literal["gauss_legendre", "riemann"] = Field("gauss_legendre", description="How the average over the path is taken.")

    def options(self) -> dict[str, Any]:
        """What the engine is asked with."""
        return self.model_dump(include=set(_How.model_fields))


class InteractionAsked(_How):
    """A prompt."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")


class AlikeAsked(_How):
    """Another input."""

    other: str = Field(max_length=100, description="The id of a finished explanation of another input by the same model.")


@router.post("/{id}/interactions")
async def interactions(explanation_id: ExplanationId, body: InteractionAsked, request: Request, services: Use) -> Any:
    """Each word of a prompt with each patch of the picture: what the pair adds to their cosine, or takes from it (exCLIP).

    ``pairs`` has a row for each of ``first.input.words`` and a column for each patch of ``second.grid``, in raster order; ``scores`` of
    a side are what each of its words or patches adds to the cosine with the whole of the other side. ``total`` is the sum of the pairs;
    with ``other_tokens``, the pairs of special tokens, and ``baseline_terms`` it is the cosine.
    """
    how = body.options()
    return await study(
        services,
        explanation_id,
        lambda s: studies.words_and_patches(services.engine, s, body.prompt, **how),
        request,
        kind="interaction",
        is_long=True,
    )


@router.post("/{id}/alike")
async def alike(explanation_id: ExplanationId, body: AlikeAsked, request: Request, services: Use) -> Any:
    """Why the model finds the inputs of two explanations alike: both sides' maps of the cosine of what the model makes of them before its
    last layer (of a CLIP model: its embeddings), and what each pair of patches or words adds to it.
    """
    how = body.options()
    return await study(
        services,
        explanation_id,
        lambda s: studies.alike(services.engine, services, s, body.other, **how),
        request,
        kind="alike",
        is_long=True,
    )

"""Studies of two inputs: each word of a prompt and its patches, and why two inputs of one model are alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

import explainers
from explainers.analysis.interactions import faithful
from explainers.analysis.interactions.faithful import BUDGET, MOST_BUDGET, PARTS
from explainers.analysis.interactions.pairs import Interaction as PairInteraction
from explainers.json_records import schema_of
from explainers.models.inputs.types import TextPair
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import FEW_PASSES
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.studies import Study
from vitrine_server.studies.registry import study
from vitrine_server.studies.subject import PastInput, Subject, subject_of

MOST_STEPS = 100


class InteractionSettings(Schema):
    """The settings by which interactions between pairs of tokens are computed: the backward rule, the steps, baseline and quadrature of the
    path, and the block at which tokens enter.
    """

    rule: str = Field("libra", max_length=100, description="A rule of GET /api/rules that carries gradients.")
    steps: int = Field(
        0,
        ge=0,
        le=MOST_STEPS,
        description="Steps of the path from the baseline over which Jacobians are averaged; 0: at the input itself.",
    )
    baseline: Literal["zero", "empty"] = Field(
        "zero", description="Where the path begins: at zeros, or at the tokens of a picture of zeros and of a text of one padding token."
    )
    block: Literal["first", "last"] = Field("first", description="The block at which the tokens enter.")
    quadrature: Literal["gauss_legendre", "riemann"] = Field("gauss_legendre", description="How the average over the path is taken.")

    def options(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of the library's function."""
        return self.model_dump(include=set(InteractionSettings.model_fields))


class InteractionRequest(InteractionSettings):
    """The prompt whose interactions with the picture are computed, and the settings: rule, path and block."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")


Interaction = schema_of(PairInteraction, base=Study)


@study("/api/explanations/{id}/interactions", form=InteractionRequest, answer=Interaction, cost="interaction", weight=FEW_PASSES)
def interactions(subject: Subject, wanted: InteractionRequest) -> dict[str, Any]:
    """Return what each pair of a prompt's word and a patch of the picture adds to the cosine of the two (exCLIP).

    ``pairs`` has a row for each of ``first.input.words`` and a column for each patch of ``second.grid``, in raster order; ``scores`` of a
    side are what each of its words or patches adds to the cosine with the whole of the other side. ``total`` is the sum of the pairs;
    together with ``other_tokens``, the pairs of special tokens, and ``baseline_terms`` it is the cosine.
    """
    how = wanted.options()
    return _answer(subject, explainers.interaction(subject.loaded, *_both(subject, wanted.prompt), cancelled=subject.cancelled, **how))


class FaithfulInteractionRequest(Schema):
    """The prompt to analyse, and how coalitions of its words and of parts of the picture are drawn and fitted."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")
    variant: Literal["banzhaf", "shapley"] = Field("banzhaf", description="How coalitions weigh in the regression.")
    p: float = Field(0.5, gt=0, lt=1, description="How many of the words and parts are in a coalition, on average.")
    budget: int = Field(BUDGET, ge=16, le=MOST_BUDGET, description="Coalitions that are fitted, at most.")
    parts: int = Field(PARTS, ge=1, le=100_000, description="Parts of the picture that are hidden on their own, at most.")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="Of the draw of coalitions.")


FaithfulInteraction = schema_of(faithful.FaithfulInteraction, base=Study)


@study(
    "/api/explanations/{id}/faithful-interactions",
    form=FaithfulInteractionRequest,
    answer=FaithfulInteraction,
    cost="faithful-interaction",
    weight=FEW_PASSES,
)
def faithful_interactions(subject: Subject, wanted: FaithfulInteractionRequest) -> dict[str, Any]:
    """Return which words of a prompt go with which patches of the picture, fitted to the model's answers with parts left out (FIxLIP).

    The answer is like that of ``/interactions``; ``scores`` of a side are what each of its words or patches adds in total, its own term and
    ``p`` times its pairs. ``faithfulness`` says how well the terms predict held-out coalitions.
    """
    how = wanted.model_dump(exclude={"prompt"})
    both = _both(subject, wanted.prompt)
    outcome = explainers.faithful_interaction(subject.loaded, *both, progress=subject.tell, cancelled=subject.cancelled, **how)
    return _answer(subject, outcome)


def _both(subject: Subject, prompt: str | None) -> tuple[dict[str, Any], str]:
    """Return the picture of an explanation in the form that ``interaction`` takes, and ``prompt``, or if that is None the first explained
    prompt. Raises Problem 422 unless the model is a CLIP model.
    """
    if subject.model.kind != "clip":
        detail = f"{subject.document['model']} compares no picture with words."
        raise Problem(422, "wrong-model", detail, send="Explain a picture and prompts with a CLIP model, and use that explanation.")
    return {"pixel_values": subject.tensors["pixel_values"]}, prompt or subject.labels[0]


class AlikeRequest(InteractionSettings):
    """The id of a second explanation, to whose input this one's is compared, and the settings."""

    other: str = Field(max_length=100, description="The id of a finished explanation of another input by the same model.")


class OfTwo(Study):
    """The answer of a study on two explanations, with the id of the second one."""

    other: str = Field(description="The id of the explanation of the other input.")


Alikeness = schema_of(PairInteraction, name="Alikeness", base=OfTwo)


@study(
    "/api/explanations/{id}/alike",
    form=AlikeRequest,
    answer=Alikeness,
    cost="alike",
    weight=FEW_PASSES,
    others=lambda wanted: (wanted.other,),
)
def alike(subject: Subject, wanted: AlikeRequest, other: PastInput) -> dict[str, Any]:
    """Explain why the model finds the inputs of two explanations, this one and ``other``, similar: each side's map of the cosine of their
    features, and the part of each pair of patches or words.

    The features are the input of the model's last layer; for a CLIP model they are its embeddings.
    """
    second = subject_of(other, subject.loaded, subject.cancelled, subject.tell)
    sides = [_input(side.document, side) for side in (subject, second)]
    outcome = explainers.input_interaction(subject.loaded, *sides, cancelled=subject.cancelled, **wanted.options())
    return {"other": other.document["id"], **_answer(subject, outcome)}


def _input(document: Mapping[str, Any], subject: Subject) -> Any:
    """Return the input of the explanation ``document`` in the form that ``input_interaction`` takes; ``subject`` has its tensors."""
    source = document["input"]
    if source["kind"] == "image":
        return {"pixel_values": subject.tensors["pixel_values"]}
    if "text_pair" in source:
        return TextPair(source["text"], source["text_pair"])
    return source["text"]


def _answer(subject: Subject, outcome: Any) -> dict[str, Any]:
    answer: dict[str, Any] = outcome.to_json()
    subject.notes.extend(answer.pop("notes"))
    return answer

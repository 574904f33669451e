"""Studies that look inside a model: a rule mixed by hand, the maps of its heads, what its blocks add."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

import explainers
from explainers.analysis import inspection, rule_mixer
from explainers.analysis.heads import similarity as similarities
from explainers.analysis.patch_similarity import PatchComparison
from explainers.json_records import schema_of
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.tasks.features import without_reference
from explainers.records.outliers import OutlierPatches, outlier_patches
from explainers.records.targets import target_from_json
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import FEW_PASSES
from vitrine_server.lookup import find_target
from vitrine_server.pictures import read_sources
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.studies import TARGET, Study
from vitrine_server.studies.registry import study
from vitrine_server.studies.subject import Subject

#: The pictures over which unknown outlier tokens are looked for: the embedded photos, and scenes to make up a hundred.
PICTURES_THAT_SHIP, MOST_SCENES = ("sample-photos", "scenes"), 79


def question(subject: Subject, label: str | None) -> dict[str, Any]:
    """Return the stored input of ``subject`` and its target ``label``, as arguments of ``Session``. Raises Problem 404 for a target that
    was not explained, 422 for a text that was read in windows.
    """
    if "windows" in subject.document:
        windows = len(subject.document["windows"])
        detail = f"This text was read in {windows} windows, and the inside of the model is shown for one text at a time."
        raise Problem(422, "read-in-windows", detail, send="Explain a part of the text that fits into the model, and use that explanation.")
    clip = subject.model.kind == "clip"
    inputs = {"pixel_values": subject.tensors["pixel_values"]} if clip else without_reference(subject.tensors)
    return {
        "model": subject.model,
        "inputs": inputs,
        "target": target_from_json(find_target(subject.document, label), None if clip else subject.labels),
        "prompts": subject.labels if clip and subject.model.side == "image" else None,
        "cancelled": subject.cancelled,
    }


class MixRequest(Schema):
    """A method and a rule made of one's own choices, one for each kind of operator."""

    method: str = Field(
        max_length=300,
        description="A method of GET /api/methods that has a rule, with its options but without a rule.",
    )
    rule: dict[str, str | bool] = Field(
        description="Kind of operator -> choice, as GET /api/rules lists them; what is left out is as for the ordinary gradient."
    )
    target: str | None = TARGET


Mix = schema_of(rule_mixer.Mix, base=Study)


@study("/api/explanations/{id}/mix", form=MixRequest, answer=Mix, cost="mix", weight=FEW_PASSES)
def mix(subject: Subject, wanted: MixRequest) -> dict[str, Any]:
    """Explain the input of an explanation by a method under a rule made of your choices, one for each kind of operator.

    ``completeness_error`` is how far FullGrad's terms under that rule are from adding up to the score. To test how well the map finds what
    the model needs, send its scores to ``deletion-test/score``.
    """
    return dict(explainers.mix(**question(subject, wanted.target), method=wanted.method, choices=wanted.rule).to_json())


class HeadsRequest(Schema):
    """The quantity, blocks, heads and token for which to return maps of attention heads."""

    quantity: str = Field("attention", max_length=100, description="One of GET /api/quantities.")
    token: int | None = Field(None, description="Whose row: a patch in raster order or a word piece; none: what the model's head reads.")
    block: int | Annotated[list[int], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="One block or several, counted from 0; none: all. ``heads`` in the answer says how many heads each has."
    )
    head: int | None = Field(None, description="One head, counted from 0; none: all.")
    target: str | None = TARGET


HeadMaps = schema_of(inspection.HeadMaps, base=Study)


@study("/api/explanations/{id}/layers", form=HeadsRequest, answer=HeadMaps, cost="layers")
def layers(subject: Subject, wanted: HeadsRequest) -> dict[str, Any]:
    """Return, for the input of an explanation, a small map for every attention head of every block: attention, its gradient, its relevance,
    or their products.
    """
    session = explainers.Session(**question(subject, wanted.target))
    return dict(explainers.head_maps(session, wanted.quantity, token=wanted.token, block=wanted.block, head=wanted.head).to_json())


class PatchRequest(Schema):
    """The patch to which all others are compared."""

    patch: int = Field(0, ge=0, description="Its number in raster order.")


PatchSimilarity = schema_of(PatchComparison, base=Study)


@study("/api/explanations/{id}/patch-similarity", form=PatchRequest, answer=PatchSimilarity, cost="patch similarity")
def patch_similarity(subject: Subject, wanted: PatchRequest) -> dict[str, Any]:
    """Return how similar the patches of the picture of an explanation are to the model: three principal components of their features as
    colours, and each patch's cosine with the patch that is named.
    """
    similarity = explainers.patch_similarity(subject.model, question(subject, None)["inputs"])
    return similarity.to_json(*divmod(wanted.patch, similarity.grid[1]))


class ContributionsRequest(Schema):
    """The method and target whose map to split into the contributions of blocks."""

    method: str = Field(max_length=300, description="A spec whose method is a sum over blocks (``summed`` in GET /api/methods).")
    target: str | None = TARGET


Contributions = schema_of(inspection.Contributions, base=Study)


@study("/api/explanations/{id}/contributions", form=ContributionsRequest, answer=Contributions, cost="contributions", weight=FEW_PASSES)
def contributions(subject: Subject, wanted: ContributionsRequest) -> dict[str, Any]:
    """Split the map of an explained input, by the method and for the target in ``wanted``, into the parts of the model's blocks.

    Return each block's part, as a total and by patch or word, and what belongs to no block. The method must be a sum over blocks.
    """
    return dict(explainers.contributions(explainers.Session(**question(subject, wanted.target)), wanted.method).to_json())


class SimilarityRequest(Schema):
    """The target whose cosine with the image is split into the contributions of blocks and heads."""

    target: str | None = TARGET


SimilarityDecomposition = schema_of(similarities.SimilarityDecomposition, base=Study)


@study("/api/explanations/{id}/similarity", form=SimilarityRequest, answer=SimilarityDecomposition, cost="similarity")
def similarity(subject: Subject, wanted: SimilarityRequest) -> dict[str, Any]:
    """Return the exact part of each head and patch in the cosine of the image and a prompt of an explanation, and what each head looks for,
    in words.
    """
    session = explainers.Session(**question(subject, wanted.target))
    return _with_notes(subject, explainers.decompose_similarity(session).to_json())


class WithoutHeadRequest(SimilarityRequest):
    """The attention head to ablate, and the target whose score to compare."""

    block: int = Field(ge=0, description="Counted from 0.")
    head: int = Field(ge=0, description="Counted from 0.")


WithoutHead = schema_of(similarities.WithoutHead, base=Study)


@study("/api/explanations/{id}/without-head", form=WithoutHeadRequest, answer=WithoutHead, cost="without-head")
def without_head(subject: Subject, wanted: WithoutHeadRequest) -> dict[str, Any]:
    """Return the cosines of the image of an explanation with its prompts after one attention head (a block and a head, counted from 0) was
    ablated.
    """
    session = explainers.Session(**question(subject, wanted.target))
    return dict(explainers.similarity_without_head(session, wanted.block, wanted.head).to_json())


def _with_notes(subject: Subject, answer: dict[str, Any]) -> dict[str, Any]:
    """Move the field ``notes`` of ``answer`` to the notes of the study, and return the answer without it."""
    subject.notes.extend(answer.pop("notes"))
    return answer


class RegistersRequest(Schema):
    """Empty: there are no options."""


class Registers(Study):
    """The known outlier tokens of a model, and the register neurons that cause them."""

    known: RegisterNeurons
    says: str = Field(description="What was found, in a sentence.")
    can_move: bool = Field(description="Whether the model can be explained without them: outlier_tokens=move.")
    outliers: OutlierPatches | None = Field(description="The outlier tokens of this picture; null where no norm stands apart.")


@study("/api/explanations/{id}/registers", form=RegistersRequest, answer=Registers, cost="registers", weight=FEW_PASSES)
def registers(subject: Subject, wanted: RegistersRequest) -> dict[str, Any]:
    """Return the outlier tokens of a picture, and the register neurons of its model that cause them (test-time registers).

    If they are not known yet, they are searched for now on the pictures that ship, and kept as long as the model is loaded. POST
    /api/explanations with ``outlier_tokens=move`` then explains the model without such tokens.
    """
    model = subject.loaded
    if model.register_neurons is None:
        sources, about = read_sources(PICTURES_THAT_SHIP, MOST_SCENES)
        pictures = [picture for source in sources for picture in source]
        explainers.find_register_neurons(model, pictures, about=about, progress=subject.before_pass)
        subject.model.register_neurons = model.register_neurons
    known = model.register_neurons
    session = explainers.Session(**question(subject, None))
    outliers = outlier_patches(session.recording, 0)
    return {
        "known": known.to_json(),
        "says": known.in_words,
        "can_move": bool(known.neurons),
        "outliers": None if outliers is None else outliers.to_json(),
    }

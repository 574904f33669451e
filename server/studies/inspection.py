"""Studies that look inside a model: a rule mixed by hand, the maps of its heads, what its blocks add."""

from __future__ import annotations

from typing import Any

import explainers
from explainers.models.tasks.features import without_reference
from explainers.records.outliers import outlier_patches
from explainers.records.targets import target_from_json
from server.http.problems import Problem
from server.lookup import find_target
from server.pictures import read_sources
from server.schemas.head_studies import WithoutHeadRequest
from server.schemas.studies import HeadsRequest
from server.studies.study import Subject

#: Over which outlier tokens are looked for where nobody has: photos that ship, and scenes to make up a hundred.
PICTURES_THAT_SHIP, MOST_SCENES = ("sample-photos", "scenes"), 79


def question(subject: Subject, label: str | None) -> dict[str, Any]:
    """The input of a study and one of its targets, as the engine takes them; raises Problem 404 for a target that was not explained."""
    if "windows" in subject.document:
        detail = f"This text was read in {len(subject.document['windows'])} windows, and this looks inside the model at one text at a time."
        raise Problem(422, "read-in-windows", detail, send="Explain a part of the text that the model takes whole, and ask for that.")
    clip = subject.model.kind == "clip"
    inputs = {"pixel_values": subject.tensors["pixel_values"]} if clip else without_reference(subject.tensors)
    return {
        "model": subject.model,
        "inputs": inputs,
        "target": target_from_json(find_target(subject.document, label), None if clip else subject.labels),
        "prompts": subject.labels if clip and subject.model.side == "image" else None,
        "cancelled": subject.cancelled,
    }


def mix(subject: Subject, method: str, rule: dict[str, Any], label: str | None) -> dict[str, Any]:
    """The map of a method under a rule of these choices, and how full its account is."""
    return dict(explainers.mix(**question(subject, label), method=method, choices=rule).to_json())


def heads(subject: Subject, wanted: HeadsRequest) -> dict[str, Any]:
    """The maps of the heads."""
    session = explainers.Session(**question(subject, wanted.target))
    return dict(explainers.head_maps(session, wanted.quantity, token=wanted.token, block=wanted.block, head=wanted.head).to_json())


def patch_similarity(subject: Subject, patch: int) -> dict[str, Any]:
    """The patches of the picture as the model's features have them, and which are like one of them, a number in raster order."""
    similarity = explainers.patch_similarity(subject.model, question(subject, None)["inputs"])
    return similarity.to_json(*divmod(patch, similarity.grid[1]))


def contributions(subject: Subject, spec: str, label: str | None) -> dict[str, Any]:
    """What each block adds to a map."""
    return dict(explainers.contributions(explainers.Session(**question(subject, label)), spec).to_json())


def similarity(subject: Subject, label: str | None) -> dict[str, Any]:
    """The cosine with a prompt by head."""
    session = explainers.Session(**question(subject, label))
    return _with_notes(subject, explainers.decompose_similarity(session).to_json())


def without_head(subject: Subject, wanted: WithoutHeadRequest) -> dict[str, Any]:
    """The model asked again without a head."""
    session = explainers.Session(**question(subject, wanted.target))
    return dict(explainers.similarity_without_head(session, wanted.block, wanted.head).to_json())


def _with_notes(subject: Subject, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer whose notes are those of the study."""
    subject.notes.extend(answer.pop("notes"))
    return answer


def registers(subject: Subject) -> dict[str, Any]:
    """What is known of the model's outlier tokens, which is found now over the pictures that ship where nobody has looked."""
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

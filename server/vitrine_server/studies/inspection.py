"""Studies that look inside a model: a rule mixed by hand, the maps of its heads, what its blocks add."""

from __future__ import annotations

from typing import Any

import explainers
from explainers.models.tasks.features import without_reference
from explainers.records.outliers import outlier_patches
from explainers.records.targets import target_from_json
from vitrine_server.http.problems import Problem
from vitrine_server.lookup import find_target
from vitrine_server.pictures import read_sources
from vitrine_server.schemas.studies import HeadsRequest, WithoutHeadRequest
from vitrine_server.studies.study import Subject

#: The pictures over which unknown outlier tokens are looked for: the embedded photos, and scenes to make up a hundred.
PICTURES_THAT_SHIP, MOST_SCENES = ("sample-photos", "scenes"), 79


def question(subject: Subject, label: str | None) -> dict[str, Any]:
    """Return the stored input of a study and its target ``label``, as arguments of ``Session``. Raises Problem 404 for a target that was
    not explained, 422 for a text that was read in windows.
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


def mix(subject: Subject, method: str, rule: dict[str, Any], label: str | None) -> dict[str, Any]:
    """Compute the map of a method under a rule made of these choices, and how much of the answer it accounts for; return it as JSON."""
    return dict(explainers.mix(**question(subject, label), method=method, choices=rule).to_json())


def heads(subject: Subject, wanted: HeadsRequest) -> dict[str, Any]:
    """Compute the maps of the requested attention heads and return them as JSON."""
    session = explainers.Session(**question(subject, wanted.target))
    return dict(explainers.head_maps(session, wanted.quantity, token=wanted.token, block=wanted.block, head=wanted.head).to_json())


def patch_similarity(subject: Subject, patch: int) -> dict[str, Any]:
    """Compute how similar all patches are to the patch with this number in raster order, by the model's features; return it as JSON."""
    similarity = explainers.patch_similarity(subject.model, question(subject, None)["inputs"])
    return similarity.to_json(*divmod(patch, similarity.grid[1]))


def contributions(subject: Subject, spec: str, label: str | None) -> dict[str, Any]:
    """Compute the part that each block adds to a map and return it as JSON."""
    return dict(explainers.contributions(explainers.Session(**question(subject, label)), spec).to_json())


def similarity(subject: Subject, label: str | None) -> dict[str, Any]:
    """Split the cosine with a prompt into the contributions of heads and return it as JSON."""
    session = explainers.Session(**question(subject, label))
    return _with_notes(subject, explainers.decompose_similarity(session).to_json())


def without_head(subject: Subject, wanted: WithoutHeadRequest) -> dict[str, Any]:
    """Compute the model's answer with one attention head ablated and return it as JSON."""
    session = explainers.Session(**question(subject, wanted.target))
    return dict(explainers.similarity_without_head(session, wanted.block, wanted.head).to_json())


def _with_notes(subject: Subject, answer: dict[str, Any]) -> dict[str, Any]:
    """Move the notes in the JSON of an answer to the notes of the study, and return the answer."""
    subject.notes.extend(answer.pop("notes"))
    return answer


def registers(subject: Subject) -> dict[str, Any]:
    """Return the model's known outlier tokens and register neurons as JSON; if they are not known, find them now on the
    pictures that ship.
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

"""Studies of two inputs: each word of a prompt and its patches, and why two inputs of one model are alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import explainers
from explainers.models.inputs.types import TextPair
from vitrine_server.http.problems import Problem
from vitrine_server.studies.study import PastInput, Subject, subject_of


def words_and_patches(subject: Subject, prompt: str | None, **how: Any) -> dict[str, Any]:
    """Compute the interaction of each word of a prompt (by default the first explained one) with each patch, and return it as JSON."""
    return _answer(subject, explainers.interaction(subject.loaded, *_both(subject, prompt), cancelled=subject.cancelled, **how))


def faithful(subject: Subject, prompt: str | None, **how: Any) -> dict[str, Any]:
    """Compute interactions of words and patches by a fit to the model's answers with parts left out, and return them as JSON."""
    outcome = explainers.faithful_interaction(
        subject.loaded, *_both(subject, prompt), progress=subject.tell, cancelled=subject.cancelled, **how
    )
    return _answer(subject, outcome)


def _both(subject: Subject, prompt: str | None) -> tuple[dict[str, Any], str]:
    """Return the picture of an explanation as ``interaction`` takes it, and the prompt: by default the first explained one. Raises Problem
    422 unless the model is a CLIP model.
    """
    if subject.model.kind != "clip":
        detail = f"{subject.document['model']} compares no picture with words."
        raise Problem(422, "wrong-model", detail, send="Explain a picture and prompts with a CLIP model, and use that explanation.")
    return {"pixel_values": subject.tensors["pixel_values"]}, prompt or subject.labels[0]


def check_two(document: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise Problem 409 if the second of two explanations is not finished, 422 if they are of two models."""
    if other["state"] != "done":
        detail = f"The explanation {other['id']!r} is {other['state']}, not done."
        raise Problem(409, "not-done", detail, send="Ask once it is done.")
    if document["model"] != other["model"]:
        detail = f"The explanations are of two models, {document['model']} and {other['model']}."
        raise Problem(422, "other-model", detail, send="Compare two inputs of one model.")


def alike(subject: Subject, other: PastInput, **how: Any) -> dict[str, Any]:
    """Compute which parts make the inputs of two explanations of one model similar, and return it as JSON."""
    second = subject_of(other, subject.loaded, subject.cancelled, subject.tell)
    sides = [_input(side.document, side) for side in (subject, second)]
    outcome = explainers.input_interaction(subject.loaded, *sides, cancelled=subject.cancelled, **how)
    return {"other": other.document["id"], **_answer(subject, outcome)}


def _input(document: Mapping[str, Any], subject: Subject) -> Any:
    """Return the input of an explanation in the form that ``input_interaction`` takes."""
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

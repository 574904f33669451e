"""Find what is stored of an explanation, finished or on its way; what is not there is a Problem 404 that says what is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Path

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, not_yours
from vitrine_server.jobs.intake import QuestionInput, input_asked
from vitrine_server.run_reports import RunReport, folders_of_runs, read_run_reports
from vitrine_server.schemas.question import Question, QuestionFields, QuestionForm, question_of
from vitrine_server.services import Services
from vitrine_server.store.stored_files import COPY, QUESTION, REFERENCE

#: The path parameter of the calls about one explanation.
ExplanationId = Annotated[str, Path(alias="id", description="The id of an explanation.")]

#: Said where the picture of an explanation is asked about again that was made before uploads were kept.
ONLY_A_COPY = (
    "Explained from the copy that the server kept of the picture (JPEG, at most 1024 pixels a side), as the picture itself was not kept "
    "then: numbers can differ a little."
)


def is_theirs(explanation_id: str, visitor: Visitor, services: Services) -> bool:
    """Return whether the explanation with this id belongs to ``visitor``; others may only read it by its link."""
    if visitor.is_alone:
        return True
    job = services.worker.find(explanation_id)
    return visitor.owns((services.store.owner(explanation_id) if job is None else job.visitor.owner) or "")


def check_theirs(explanation_id: str, visitor: Visitor, services: Services) -> None:
    """Raise Problem 404 if there is no explanation with this id, and 403 if it does not belong to ``visitor``."""
    if not is_theirs(explanation_id, visitor, services):
        find_document(explanation_id, services)
        raise not_yours(explanation_id)


async def read_runs(visitor: Visitor, services: Services) -> tuple[list[RunReport], list[str]]:
    """Return the reports of the runs that the ``visitor`` may see, and problems, as :func:`run_reports` does, read in one of the threads
    that make answers.
    """
    return await services.kept.in_thread(lambda: run_reports(visitor, services))


def run_reports(visitor: Visitor, services: Services) -> tuple[list[RunReport], list[str]]:
    """Return the reports of the runs on the leaderboard of ``visitor``, and the problems of those that cannot be read.

    The runs are those that ship, those in the folders that the operator named, and the visitor's own.
    """
    begun = services.runs.folder
    runs, wrong = read_run_reports(folders_of_runs(services.settings.runs, begun), begun)
    services.kept.keep_versions({run.version for run in runs})
    return [run for run in runs if not run.begun_here or services.runs.is_for(run.folder.name, visitor)], wrong


def find_document(explanation_id: str, services: Services) -> dict[str, Any]:
    """Return the present document (JSON) of the explanation with this id, for anyone who knows its id: nobody can guess that. Raises
    Problem 404 if there is none.
    """
    job = services.worker.find(explanation_id)
    document = job.document() if job is not None else services.store.document(explanation_id)
    if document is None:
        send = "POST /api/explanations makes one; the oldest ones are forgotten in time."
        raise Problem(404, "no-such-explanation", f"There is no explanation {explanation_id!r}.", send=send)
    return document


def stored_file(explanation_id: str, name: str, services: Services) -> bytes | None:
    """Return the bytes of the file ``name`` that is stored with the explanation with this id (``input.png``, ``original.jpg``, the
    tensors), or None.
    """
    job = services.worker.find(explanation_id)
    return (job.images.get(name) if job is not None else None) or services.store.file(explanation_id, name)


def upload_of(explanation_id: str, services: Services) -> bytes | None:
    """Return the file that was uploaded for the explanation with this id, unchanged, or None."""
    job = services.worker.find(explanation_id)
    return (job.question.image if job is not None else None) or services.store.upload(explanation_id)


def input_of(explanation_id: str, visitor: Visitor, services: Services) -> QuestionInput:
    """Return the input of the explanation with this id, to ask about it again.

    Raises Problem 404 if there is none, 403 if it is not the visitor's, 409 if its input was not kept.
    """
    job = services.worker.find(explanation_id)
    document = services.store.document(explanation_id) if job is None else job.document()
    if document is None:
        detail = f"The explanation {explanation_id!r}, whose input is asked about again, was deleted or forgotten."
        raise Problem(404, "no-such-source", detail, send="Send the image or the text itself.")
    check_theirs(explanation_id, visitor, services)
    if job is not None:
        return input_asked(job.question)
    if "input" not in document and (kept := services.store.file(explanation_id, QUESTION)) is not None:  # its model had not answered yet
        return input_asked(_question_of(explanation_id, kept, services))
    source = document.get("input", {})
    text, source = source.get("text") if "picture" in source else None, source.get("picture", source)  # a picture that stands in a text
    if source.get("kind") == "text":
        kept = services.store.file(explanation_id, QUESTION)
        reference_text = None if kept is None else question_of(kept.decode(), None).reference_text
        chat = document.get("chat", False)
        return QuestionInput(text=source["text"], text_pair=source.get("text_pair"), reference_text=reference_text, chat=chat)
    if (upload := services.store.upload(explanation_id)) is not None:
        window = source.get("window", {})
        levels = (window["level"], window["width"]) if window.get("source") == "set" else None
        reference = services.store.file(explanation_id, REFERENCE)
        return QuestionInput(
            upload,
            text,
            crop=tuple(source["frame"]) if "frame" in source else None,
            window=levels,
            reference=reference,
            chat=document.get("chat", False),
            video="frame_numbers" in source,
        )
    if (copy := services.store.file(explanation_id, COPY)) is not None:
        return QuestionInput(copy, text, note=ONLY_A_COPY)
    send = "Send the image or the text itself."
    raise Problem(409, "no-input", f"The explanation {explanation_id!r} is {document['state']}: its input was not kept.", send=send)


def fill_from_unfinished_source(form: QuestionForm, visitor: Visitor, services: Services) -> QuestionForm:
    """Return ``form`` with its missing fields filled from the explanation that its field ``source`` names, if that is the visitor's own,
    failed or was cancelled, and is of the same model; else ``form`` unchanged.
    """
    if form.source is None:
        return form
    try:
        question, document = question_asked(form.source, visitor, services), find_document(form.source, services)
    except Problem:  # what is wrong with it is said where its input is looked for
        return form
    if document["state"] not in ("failed", "cancelled") or question.model != form.model:
        return form
    usual = {name: field.default for name, field in QuestionFields.model_fields.items() if name not in QuestionInput.__dataclass_fields__}
    values = {name: getattr(question, name) for name in usual if name not in form.model_fields_set}
    return form.model_copy(update={name: value for name, value in values.items() if value != usual[name]})


def question_asked(explanation_id: str, visitor: Visitor, services: Services) -> Question:
    """Return the whole question of the explanation with this id.

    Raises Problem 404 if there is none, 403 if it is not the visitor's, and 409 if the question was not kept.
    """
    check_theirs(explanation_id, visitor, services)
    job = services.worker.find(explanation_id)
    if job is not None:
        return job.question
    document = find_document(explanation_id, services)
    kept = services.store.file(explanation_id, QUESTION)
    if kept is None:
        detail = f"The explanation {explanation_id!r} is {document['state']}: its question was not kept."
        raise Problem(409, "no-question", detail, send="Send the question itself.")
    return _question_of(explanation_id, kept, services)


def _question_of(explanation_id: str, kept: bytes, services: Services) -> Question:
    """Return the question of the explanation with this id: ``kept`` is its stored JSON, to which the stored input and reference are
    added.
    """
    store = services.store
    return question_of(kept.decode(), store.upload(explanation_id), store.file(explanation_id, REFERENCE))


def find_map(explanation_id: str, spec: str, target: str | None, services: Services) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the explanation with this id and its map of the method ``spec`` for the label ``target``, by default the first. Raises Problem
    404 if there is none.
    """
    document = find_document(explanation_id, services)
    if target is not None:
        find_target(document, target)
    for entry in document["maps"]:
        if entry["method"] == spec and (target is None or entry["target"] == target):
            return document, entry
    specs = dict.fromkeys(entry["method"] for entry in document["maps"])
    raise Problem(404, "no-such-map", f"The explanation has no map {spec!r}.", send=f"It has: {', '.join(specs) or 'none yet'}.")


def find_target(document: Mapping[str, Any], label: str | None) -> dict[str, Any]:
    """Return the entry of the explained target called ``label``, by default the first, in ``document`` (JSON of an explanation). Raises
    Problem 404 if there is none.
    """
    targets = list(document.get("targets", ()))
    target = next((target for target in targets if label in (None, target["label"])), None)
    if target is None:
        explained = ", ".join(target["label"] for target in targets) or "nothing"
        raise Problem(404, "no-such-target", f"{label!r} was not explained.", send=f"Explained: {explained}.")
    return dict(target)

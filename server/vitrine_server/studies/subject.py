"""The subject of a study: the model of a stored explanation, and exactly the input that it was given then."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from safetensors.torch import load
from torch import Tensor

from explainers import Cancelled
from explainers.models.inputs.types import Prepared, TextPair
from explainers.models.registers.moving import view_of
from explainers.records.input_json import input_from_json
from explainers.records.targets import prompts_of as prompts_named
from explainers.records.targets import target_from_json
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.lookup import stored_file
from vitrine_server.services import Services
from vitrine_server.store.stored_files import COPY, TENSORS_FILE


@dataclass(frozen=True)
class Subject:
    """The model and input of a study, in the process of the model.

    model      the model, on the side that was explained (``model.side``)
    tensors    the model's input, a batch of one on its device: ``model.forward(tensors)`` gives the logits (1, labels) of the document; for
               a CLIP model's text side (labels, 1)
    labels     the names of the logits: the classes, or the prompts of a CLIP model
    document   the explanation as JSON
    cancelled  returns whether to stop; ``explainers.explain`` takes it, and :meth:`check` calls it
    loaded     the model as it was loaded: for a CLIP model its image side
    tell       called between forward passes with the numbers of inputs answered and in total
    notes      remarks for a person, which go into the answer; a study may add its own
    """

    model: Any
    tensors: dict[str, Tensor]
    labels: list[str]
    document: dict[str, Any]
    cancelled: Callable[[], bool]
    tell: Callable[[int, int], None]
    loaded: Any
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise Cancelled if nobody waits for the study any more. Called between forward passes, which also shows the server that it is
        alive.
        """
        if self.cancelled():
            raise Cancelled

    def before_pass(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` passes are done, and raise Cancelled if nobody waits for the study any more."""
        self.tell(done, total)
        self.check()


def prompts_of(document: Mapping[str, Any]) -> list[str]:
    """List the prompts of a CLIP model in the order of its logits, from ``document``, the JSON of an explanation."""
    return prompts_named([target_from_json(info, None) for info in document["targets"]])


@dataclass(frozen=True)
class PastInput:
    """A stored explanation with the input of its model.

    document  the explanation as JSON
    tensors   the input's tensors, as a file; None for older explanations
    picture   for older ones: a smaller copy of the picture, as a file; None otherwise
    """

    document: dict[str, Any]
    tensors: bytes | None
    picture: bytes | None


def answer_to(
    past: PastInput,
    run: Callable[..., dict[str, Any]],
    arguments: Sequence[Any],
    model: Any,
    cancelled: Callable[[], bool],
    tell: TellAnswers,
) -> dict[str, Any]:
    """Run a study of an explanation in the process of ``model``: call ``run`` with the subject of ``past`` and these ``arguments``, until
    ``cancelled()`` is true, and return its answer with the explanation's ``id`` and ``notes``.
    """
    subject = subject_of(past, model, cancelled, tell)
    answer = run(subject, *arguments)
    return {"id": past.document["id"], **answer, "notes": subject.notes}


def past_input(document: dict[str, Any], services: Services) -> PastInput:
    """Return an explanation, given by its ``document``, together with the input of its model from the store of ``services``, for a study of
    it.
    """
    tensors = stored_file(document["id"], TENSORS_FILE, services)
    return PastInput(document, tensors, stored_file(document["id"], COPY, services) if tensors is None else None)


def subject_of(past: PastInput, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> Subject:
    """Make the subject of a study of the explanation ``past``, in the process of ``model``: the model on the side that was explained, and
    its input. ``cancelled`` and ``tell`` are passed on to the study. Raises Problem 409 if the weights have changed.
    """
    document = past.document
    if model.weights_digest != document["weights_digest"]:
        detail = f"The weights of {document['model']} have changed since this explanation was made."
        raise Problem(409, "model-changed", detail, send="Ask for the explanation again.")
    loaded = model
    model = view_of(model, document.get("outlier_tokens", "keep"))
    if model.kind == "clip":
        model = model.seen_from("text" if "prompts" in document else "image")
    labels = prompts_of(document) if model.kind == "clip" else list(model.labels)
    notes: list[str] = []
    if past.tensors is not None:
        tensors = {name: tensor.to(model.device) for name, tensor in load(past.tensors).items()}
    else:
        tensors = _prepared_again(past, model, labels, notes)
    if model.task is not None:
        model = model.at(document["at"], Prepared(tensors, (input_from_json(document["input"]),), ((),)))
        labels = list(model.labels)
    return Subject(model, tensors, labels, document, cancelled, tell, loaded, notes)


def _prepared_again(past: PastInput, model: Any, labels: list[str], notes: list[str]) -> dict[str, Tensor]:
    """Return the input tensors of ``past``, an explanation made before inputs were kept, prepared again for ``model`` from its text or
    picture, and from the prompts ``labels`` if it compares with prompts; a note is added to ``notes`` if the numbers may differ. Raises
    Problem 409 if the picture was not kept.
    """
    input_json = past.document["input"]
    if input_json["kind"] == "text":
        source: Any = TextPair(input_json["text"], input_json["text_pair"]) if "text_pair" in input_json else input_json["text"]
    else:
        if past.picture is None:
            raise Problem(409, "input-lost", "The picture of this explanation was not kept.", send="Ask for the explanation again.")
        source = Image.open(io.BytesIO(past.picture), formats=("JPEG",)).convert("RGB")
        notes.append(
            "This explanation was made before inputs were kept as the model saw them: its picture was prepared again from a smaller copy, "
            "so the numbers may differ a little from those of the maps."
        )
    tensors: dict[str, Tensor] = dict(model.prepare(source).tensors)
    return tensors if model.prompt_inputs is None else {**tensors, **model.prompt_inputs(labels).tensors}

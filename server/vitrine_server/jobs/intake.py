"""Validate requests: from a form to a question, and from a question and a model to the arguments of ``explain``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fastapi import UploadFile
from starlette.concurrency import run_in_threadpool

from explainers import for_probability
from explainers.errors import ExplainerError
from explainers.methods import parse
from explainers.methods.requests import distinct_specs
from explainers.methods.specs import Spec
from explainers.models.inputs.sounds import is_sound_file
from explainers.records.targets import Classes, Target, TargetLike, check_names, parse_target, targets_of_form
from vitrine_server.http.limits import MOST_CHARS_OF_A_NAME, limits
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import SEND_SOUND, is_packed, pack_files
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.engine_digest import engine_digest
from vitrine_server.schemas.base import Box
from vitrine_server.schemas.question import GreyLevels, Question, QuestionFields, QuestionForm
from vitrine_server.settings import Settings


@dataclass(frozen=True)
class QuestionInput:
    """The input of a question: ``image`` (the bytes of a file, or of several files packed as one), ``text``, or both for a model that
    writes about pictures.

    note  a remark on detail that was lost since the input was sent
    crop  the part of the image to show to the model, in pixels of the upright original; None for the model's own choice
    chat  whether the model's chat template is put around the text
    video  whether the image is the frames of one video in a prompt
    reference, reference_text  the image or text to which the input is compared
    window  level and width of the grey values to show as black to white, for pictures of more than 8 bits; None for those of the file
    """

    image: bytes | None = None
    text: str | None = None
    text_pair: str | None = None
    note: str | None = None
    crop: Box | None = None
    window: GreyLevels | None = None
    reference: bytes | None = None
    reference_text: str | None = None
    chat: bool = False
    video: bool = False


def input_asked(question: Question) -> QuestionInput:
    """Return the fields of ``question`` that describe its input, such as the image and the text, without methods and options."""
    return QuestionInput(**{part.name: getattr(question, part.name) for part in fields(QuestionInput)})


@dataclass(frozen=True)
class ExplanationPlan:
    """The arguments of ``explain`` for a question, and notes for the visitor.

    targets  what to explain; None: the top class
    methods  specs of the maps to make
    content  what the answer depends on besides the methods: the values that every question has, and those that few have
    """

    targets: list[TargetLike] | None
    methods: list[str]
    notes: list[str]
    content: tuple[list[Any], list[Any]]

    @property
    def key(self) -> str:
        """The key under which an earlier explanation of the same question is found, a SHA-256 in hexadecimal."""
        return self.key_of(self.methods)

    def key_of(self, methods: list[str]) -> str:
        """Return the key under which the same question with these ``methods`` is found, a SHA-256 in hexadecimal."""
        always, rarely = self.content
        return hashlib.sha256(json.dumps([*always, methods, *rarely]).encode()).hexdigest()


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)


async def read_question(form: QuestionForm, settings: Settings, input_of: Callable[[str], QuestionInput]) -> Question:
    """Make a question of a form. Raises Problem 422 (413 for a text that is too long) for mistakes that do not depend on the model.

    ``input_of`` returns the input of the explanation with the id in the field ``source``, or raises a Problem.
    """
    known = limits(settings)
    for text in (form.text, form.text_pair):
        if text is not None and len(text) > known["text"].most:
            raise known["text"].problem(len(text))
    given = await _read_input(form, settings, input_of)
    for name, texts in (("target", form.targets), ("prompt", form.prompts)):
        if len(texts) > known["targets"].most:
            raise known["targets"].problem(len(texts), name)
        if any(len(text) > known["name"].most for text in texts):
            raise known["name"].problem(what=name)
    if form.against is not None and len(form.against) > MOST_CHARS_OF_A_NAME:
        raise _bad("too-long", "The value of against is too long.", f"Send at most {MOST_CHARS_OF_A_NAME} characters.")
    if form.against is not None and form.read == "probability":
        detail = "A difference of two classes is explained by their logits, not by a probability."
        raise _bad("wrong-target", detail, "Send against or read=probability, not both.")
    if "long_texts" in form.model_fields_set and given.text is None:
        raise _bad("wrong-input", "long_texts is only for texts, and an image was sent.", "Leave long_texts out, or send a text.")
    for specs in (form.methods, form.order):
        read_specs(specs, settings)
    values = {name: getattr(form, name) for name in QuestionFields.model_fields}
    return Question(**{**values, **given.__dict__})


async def _read_input(form: QuestionForm, settings: Settings, input_of: Callable[[str], QuestionInput]) -> QuestionInput:
    """Return the input that ``form`` holds: one or several images, one or two texts, or the input of an earlier explanation, which
    ``input_of`` finds by its id. Raises Problem 422 for none or too many.
    """
    most = "frames" if form.text is None else "frames_of_video" if form.video else "pictures"
    image = await _read_images(form.images, settings, most) if form.images else None
    sent = [name for name, value in (("an image", image), ("a text", form.text), ("a source", form.source)) if value is not None]
    if not sent or (image is not None and form.source is not None):
        which = " and ".join(sent) if sent else "neither an image nor a text"
        send = "Send one of image (a file), text, and source (the id of an explanation of the same input)."
        raise _bad("one-input", f"The form has {which}.", send)
    if form.text_pair is not None and form.text is None:
        raise _bad("one-input", "The form has text_pair without text.", "Send text too: text_pair is the second of two texts.")
    given = QuestionInput(image, form.text, form.text_pair, chat=form.chat, video=form.video)
    if form.source is not None:
        given = await run_in_threadpool(input_of, form.source)
        if form.text is not None and (given.image is None or given.text is None):
            send = "Send text beside the source of a picture that was explained with a text, or leave one of them out."
            raise _bad("one-input", "The form has a text and a source.", send)
        # the same picture with another prompt, or the same of both
        given = replace(given, chat=given.chat or form.chat) if form.text is None else replace(given, text=form.text, chat=form.chat)
    if form.reference is not None or form.reference_text is not None:
        given = replace(given, reference=await form.reference.read() if form.reference else None, reference_text=form.reference_text)
    if (given.reference is not None and given.image is None) or (given.reference_text is not None and given.text is None):
        send = "Send reference, an image file, with an image, and reference_text with a text."
        raise _bad("wrong-reference", "An image is compared with an image, and a text with a text.", send)
    if given.video and (given.image is None or given.text is None):
        detail = "A video is asked about with a text, and one of them is missing."
        raise _bad("wrong-input", detail, "Send image and text, or leave video out.")
    for name, slug, lacks in (("window", "wrong-window", "no greys"), ("crop", "wrong-crop", "no part that could be cropped")):
        if name in form.model_fields_set:
            if given.image is None:
                raise _bad(slug, f"A text has {lacks}.", f"Leave {name} out, or send an image.")
            given = replace(given, **{name: getattr(form, name)})
    return given


async def _read_images(files: Sequence[UploadFile], settings: Settings, most: str) -> bytes:
    """Read the uploaded images and return the bytes of the one, or of several packed as one file. Raises Problem 422 if they are more than
    the limit called ``most``, 413 if they are too large.
    """
    images, known = [await file.read() for file in files], limits(settings)
    if len(images) == 1:
        return images[0]
    if len(images) > known[most].most:
        raise known[most].problem(len(images))
    if sum(map(len, images)) > known["upload"].most:
        raise known["upload"].problem()
    return pack_files(images)


def read_specs(specs: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """Return ``specs`` without white space at their ends, and without repeated and empty ones. Raises Problem 422 if they are too many or
    too long.
    """
    distinct, known = tuple(dict.fromkeys(spec.strip() for spec in specs if spec.strip())), limits(settings)
    if len(distinct) > known["methods"].most:
        raise known["methods"].problem(len(distinct))
    if any(len(spec) > known["name"].most for spec in distinct):
        raise known["name"].problem(what="method")
    return distinct


def plan(question: Question, facts: ModelFacts) -> ExplanationPlan:
    """Return the plan of an explanation, the arguments of ``explain``, for ``question`` to the model with these ``facts``. Raises Problem
    422 for anything that does not fit the model.
    """
    _check_kind(question, facts)
    targets = _targets(question, facts)
    if question.side == "text":
        if facts.text_side is None:
            raise _bad("wrong-side", f"{question.model} has no text side that can be explained.", "Leave side out.")
        if question.against is not None or question.read == "probability":
            detail = "The words of a prompt are explained for its own logit alone."
            raise _bad("wrong-target", detail, "Leave against and read out, or ask for side=image.")
        facts = facts.text_side
    methods = list(question.methods or facts.default_methods)
    notes = [] if question.note is None else [question.note]
    for spec in methods:
        check_method(spec, facts)
    methods = distinct_specs(methods, facts.blocks)
    if question.read == "probability":
        able, note = for_probability(methods)
        if note is not None and question.methods:
            raise _bad("method-cannot-run", note, f"Send read=logit, or of these methods only: {', '.join(able) or 'none'}.")
        methods, notes = able, [*notes, *([] if note is None else [note])]
    prompt = question.text if question.image is not None else None
    payload = question.image if question.image is not None else json.dumps([question.text, question.text_pair]).encode()
    side = "text" if question.side == "text" else "image"
    explained = None if targets is None else [repr(target) for target in targets]
    digest = hashlib.sha256(payload).hexdigest()
    always = [engine_digest(), facts.weights_digest, question.image is None, digest, side, explained]
    reference = None if question.reference is None else hashlib.sha256(question.reference).hexdigest()
    seen = {
        "crop": question.crop,
        "window": question.window,
        "reference": reference,
        "reference_text": question.reference_text,
        "text": prompt,
        "video": question.video or None,
    }
    rarely = [[name, value] for name, value in (seen | question.unusual).items() if value is not None]
    return ExplanationPlan(targets, methods, notes, (always, rarely))


def _targets(question: Question, facts: ModelFacts) -> list[TargetLike] | None:
    """Return the targets of ``question`` to the model with these ``facts`` as ``explain`` takes them; None means the top class. Raises
    Problem 422 for wrong ones.
    """

    def named(text: str) -> int | str | Target:
        return text if facts.kind == "clip" else find_named(text, facts)

    names = list(dict.fromkeys(named(text) for text in question.prompts or question.targets))
    other = None if question.against is None else named(question.against)
    if other is not None and (not names or other in names):
        field = "prompt" if facts.kind == "clip" else "target"
        what = "nothing" if not names else "the same"
        raise _bad("wrong-target", f"There is {what} to set against {question.against!r}.", f"Send {field}: another one than against.")
    try:
        return targets_of_form(names, other, question.read == "probability")
    except ExplainerError as error:
        raise _bad("wrong-target", str(error), "Send read=logit, or a target that has a probability.") from None


def _check_kind(question: Question, facts: ModelFacts) -> None:
    name = question.model
    if facts.kind == "molecule" and question.text is None:
        raise _bad("wrong-input", f"{name} reads molecules, not images.", "Send text: SMILES, or a .mol or .sdf file.")
    if facts.kind == "molecule" and question.text_pair is not None:
        raise _bad("wrong-input", f"{name} reads one molecule.", "Leave text_pair out.")
    if not _check_picture_of_text(question, facts) and facts.kind == "text" and question.text is None:
        raise _bad("wrong-input", f"{name} reads text, not images.", "Send text, or choose an image model.")
    if facts.kind in ("image", "clip") and question.image is None:
        raise _bad("wrong-input", f"{name} looks at images, it does not read text.", "Send image, or choose a text model.")
    if question.image is not None:
        _check_file(question, question.image, facts)
    if facts.kind == "clip":
        if question.targets:
            raise _bad("wrong-target", f"{name} has no classes.", "Send prompt in place of target: what to look for, in words.")
        if not question.prompts:
            detail = f"{name} compares an image with prompts, and there is none."
            raise _bad("no-prompt", detail, "Send prompt, such as 'a photo of a zebra'.")
    elif question.side:
        raise _bad("wrong-side", f"{name} has no sides: it compares nothing with prompts.", "Leave side out, or choose a CLIP model.")
    elif question.prompts:
        raise _bad("wrong-target", f"{name} has classes and takes no prompt.", "Send target: a label or the index of a class.")


def _check_picture_of_text(question: Question, facts: ModelFacts) -> bool:
    """Return whether the model of ``facts`` writes from a picture or a sound alone. Raises Problem 422 if ``question`` lacks the picture or
    the text that such a model, or one that writes about a picture and a prompt, reads, or has one that it does not read.
    """
    name, reads = question.model, facts.details.get("reads", ())
    reads_pictures = facts.details.get("picture_grid") is not None
    writes_from_it = reads_pictures and "text" not in reads
    if writes_from_it and (question.image is None or question.text is not None):
        raise _bad("wrong-input", f"{name} writes from one {reads[0]} alone.", "Send image, and leave text out.")
    if reads_pictures and not writes_from_it and (question.image is None or question.text is None):
        raise _bad("wrong-input", f"{name} writes about a picture and a prompt.", "Send image and text.")
    if not reads_pictures and question.image is not None and question.text is not None:
        raise _bad("one-input", f"{name} reads no picture together with a text.", "Send image or text, or choose a model that does.")
    return writes_from_it


def _check_file(question: Question, image: bytes, facts: ModelFacts) -> None:
    """Raise Problem 422 for ``question`` if its ``image`` is several pictures and the model of ``facts`` takes one, or a sound where it
    takes pictures, or the other way round; and for a crop or grey levels of the frames of a clip or a video, of several pictures in a
    prompt, or of a sound.
    """
    if question.video and facts.details.get("picture_grid") is None:
        detail = f"{question.model} reads no video together with a text."
        raise _bad("wrong-input", detail, "Leave video out, or choose a model that writes about pictures.")
    reads_sounds = facts.details.get("sound_rate") is not None
    if is_sound_file(image[:12]) != reads_sounds:
        detail = f"{question.model} takes sounds, not pictures." if reads_sounds else f"{question.model} looks at pictures, not at sounds."
        raise _bad("wrong-input", detail, SEND_SOUND if reads_sounds else "Send a picture, or choose a model of sounds.")
    what = "A sound has" if reads_sounds else "The frames of a clip have"
    if facts.details.get("frames") is None and not reads_sounds:
        what = "The frames of a video have" if question.video else "Several pictures have"
        if is_packed(image) and facts.details.get("picture_grid") is None:
            detail = f"{question.model} looks at one picture, and several were sent."
            raise _bad("wrong-input", detail, "Send one image, or choose a model of clips.")
        if not is_packed(image) and not question.video:
            return
    for name in ("crop", "window"):
        if getattr(question, name) is not None:
            raise _bad(f"wrong-{name}", f"{what} no {name}.", f"Leave {name} out.")


def find_named(text: str, facts: ModelFacts) -> int | str | Target:
    """Return the target that ``text`` names, for a model with these ``facts``: the index of a class, from its label or index; or a
    :class:`Target` such as ``any:<group>``.

    For a model with a task and no labels, whose places have labels of their own, nothing is looked up: a name or number is returned as
    text. Raises Problem 422 if the model has labels and none of this name.
    """
    labels = facts.labels
    if facts.details.get("task") and not labels:  # each place has numbers of its own, which the model knows
        return parse_target(text, labels)
    try:
        return check_names(parse_target(text, labels), Classes(labels, facts.groups, facts.synonyms))
    except ExplainerError as error:
        groups = ", any: and a group of its classes" if facts.groups else ""
        send = f"Send a label of the model{groups}, or an index from 0 to {len(labels) - 1}."
        raise _bad("unknown-class", str(error), send) from None


def check_method(spec: str, facts: ModelFacts) -> None:
    """Raise Problem 422 unless the model with these ``facts`` can be explained by the method ``spec``."""
    try:
        parts = Spec.parse(parse(spec, blocks=facts.blocks).spec)
    except ExplainerError as error:
        raise _bad("unknown-method", str(error), "Send a method of GET /api/methods.") from None
    refused = (variant for variant in facts.variants if variant["readout"] == parts.method and variant["reason"])
    reason = next((variant["reason"] for variant in refused if not set(variant.get("remedies", ())) & set(parts.settings)), None)
    if reason:
        able = [variant["spec"] for variant in facts.variants if not variant["reason"]]
        raise _bad("method-cannot-run", f"{spec} cannot run here. {reason}", f"These can: {', '.join(able)}.")

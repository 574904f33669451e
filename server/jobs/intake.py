"""From a form to what the engine is asked: everything that can be wrong with a request is found here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import GreyWindow
from explainers.pipeline.long_texts import LONG_TEXTS, LongTexts
from explainers.records.session import Precision
from explainers.records.targets import AnyOf, Contrast, Probability, Target, find_class, find_group, named_target
from server.engine import Engine
from server.http.limits import MOST_CHARS_OF_A_NAME, limits
from server.http.problems import Problem, suggestion
from server.jobs.model_facts import ModelFacts
from server.settings import Settings

FIELDS = (
    "model",
    "image",
    "text",
    "text_pair",
    "source",
    "crop",
    "window",
    "target",
    "prompt",
    "against",
    "read",
    "side",
    "long_texts",
    "methods",
    "order",
)
PARAMETERS = ("wait", "precision")  # of the same call, in its address
ONCE = ("model", "text", "text_pair", "source", "crop", "window", "against", "read", "side", "long_texts")
Box = tuple[int, int, int, int]  # x0, y0, x1, y1
GreyLevels = tuple[float, float]  # level, width
SIDES = ("image", "text")
READS = ("logit", "probability")


@dataclass(frozen=True)
class QuestionInput:
    """What is explained: exactly one of ``image`` (the bytes of a file) and ``text``.

    note  what was lost since it was sent
    crop  the part of the image that the model is shown, in pixels of the upright original; None for what it takes by itself
    window  level and width of the values that are shown as black to white, of greys of more than 8 bits; None for those of the file
    """

    image: bytes | None = None
    text: str | None = None
    text_pair: str | None = None
    note: str | None = None
    crop: Box | None = None
    window: GreyLevels | None = None


@dataclass(frozen=True)
class Question:
    """What a person sent: exactly one of ``image`` (the bytes of a file) and ``text``; ``methods`` None for the default ones.

    text_pair  a second text that is read with the first
    side       of a CLIP model, whose tokens get the scores: "image" or "text"; None where it was not said
    against    the class or prompt that each target is set against
    read       one of ``READS``: the number of a target that is explained
    crop, window  as of :class:`QuestionInput`
    note       what was lost of the input since it was sent, where it is that of an earlier explanation
    long_texts  one of ``LONG_TEXTS``: what is done with a text that is longer than the model takes
    precision   ``double``: all maps of relevance in float64; ``auto``: those that need it
    order       specs whose maps are wanted first, in this order; the others follow as they are listed
    """

    model: str
    image: bytes | None
    text: str | None
    text_pair: str | None
    side: str | None
    targets: tuple[str, ...]
    prompts: tuple[str, ...]
    against: str | None
    read: str
    methods: tuple[str, ...] | None
    note: str | None = None
    crop: Box | None = None
    long_texts: LongTexts = "windows"
    precision: Precision = "auto"
    order: tuple[str, ...] = ()
    window: GreyLevels | None = None

    @property
    def input(self) -> QuestionInput:
        """What is explained."""
        return QuestionInput(self.image, self.text, self.text_pair, self.note, self.crop, self.window)

    def to_json(self) -> str:
        """All but the image, as JSON text."""
        return json.dumps({part.name: getattr(self, part.name) for part in fields(self) if part.name != "image"})


def question_of(text: str, image: bytes | None) -> Question:
    """The question that ``to_json`` wrote, about this image."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
    return Question(image=image, **values)


@dataclass(frozen=True)
class ExplanationPlan:
    """What the engine is asked, and what to tell the person about it.

    content  what the answer depends on besides the methods, those that every question has and those that few have
    """

    targets: list[Target] | None
    methods: list[str]
    notes: list[str]
    content: tuple[list[Any], list[Any]]

    @property
    def key(self) -> str:
        """The key under which the same question is found again."""
        return self.key_of(self.methods)

    def key_of(self, methods: list[str]) -> str:
        """The key of the same question about other methods."""
        always, rarely = self.content
        return hashlib.sha256(json.dumps([*always, methods, *rarely]).encode()).hexdigest()


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)


async def read_question(form: FormData, settings: Settings, input_of: Callable[[str], QuestionInput]) -> Question:
    """Read the form; raises Problem 422 (413 for a text that is too long) for what is wrong whatever the model.

    ``input_of`` gives the input of the explanation that the field source names, or raises the Problem.
    """
    for name in form:
        if name in PARAMETERS:
            send = f"Send it in the address: POST /api/explanations?{name}=..."
            raise _bad("unknown-field", f"{name} is no field of the form but a query parameter.", send)
        if name not in FIELDS:
            raise _bad("unknown-field", f"There is no field {name!r}.", f"{suggestion(name, FIELDS)}Fields: {', '.join(FIELDS)}.")
    values = {name: _texts(form, name) for name in FIELDS if name != "image"}
    for name in ONCE:
        if len(values[name]) > 1:
            raise _bad("repeated-field", f"The field {name} was sent {len(values[name])} times.", f"Send {name} once.")
    if not values["model"]:
        raise _bad("no-model", "The field model is missing.", "Send the name of a model; GET /api/models lists them.")
    model_input = await _read_input(form, values, settings, input_of)
    side = values["side"][0].strip() if values["side"] else None
    if side is not None and side not in SIDES:
        raise _bad("unknown-side", f"There is no side {side!r}.", "Send image, or text for the words of the prompts.")
    targets, prompts = (_unique(values[name]) for name in ("target", "prompt"))
    known = limits(settings)
    for name, texts in (("target", targets), ("prompt", prompts)):
        if len(texts) > known["targets"].most:
            raise known["targets"].problem(len(texts), name)
        if any(len(text) > known["name"].most for text in texts):
            raise known["name"].problem(what=name)
    against, read = _target_form(values["against"], values["read"])
    methods, order = (read_specs(values[name], settings) for name in ("methods", "order"))
    model = values["model"][0].strip()
    return Question(
        model,
        model_input.image,
        model_input.text,
        model_input.text_pair,
        side,
        targets,
        prompts,
        against,
        read,
        methods or None,
        model_input.note,
        model_input.crop,
        _long_texts(values["long_texts"], model_input.text),
        order=order,
        window=model_input.window,
    )


async def _read_input(
    form: FormData, values: dict[str, list[str]], settings: Settings, input_of: Callable[[str], QuestionInput]
) -> QuestionInput:
    """The input: an image, a text or two, or that of an earlier explanation."""
    image, text, text_pair = await _image(form), _text(values["text"], settings), _text(values["text_pair"], settings)
    source = values["source"][0].strip() if values["source"] else None
    sent = [name for name, value in (("an image", image), ("a text", text), ("a source", source)) if value is not None]
    if len(sent) != 1:
        which = " and ".join(sent) if sent else "neither an image nor a text"
        send = "Send one of image (a file), text, and source (the id of an explanation of the same input)."
        raise _bad("one-input", f"The form has {which}.", send)
    if text_pair is not None and text is None:
        raise _bad("one-input", "The form has text_pair without text.", "Send text too: text_pair is the second of two texts.")
    model_input = QuestionInput(image, text, text_pair) if source is None else await run_in_threadpool(input_of, source)
    if values["window"]:
        if model_input.image is None:
            raise _bad("wrong-window", "A text has no greys.", "Leave window out, or send an image.")
        model_input = replace(model_input, window=_window(values["window"][0]))
    if not values["crop"]:
        return model_input
    if model_input.image is None:
        raise _bad("wrong-crop", "A text has no part that could be cropped.", "Leave crop out, or send an image.")
    return replace(model_input, crop=_crop(values["crop"][0]))


def _crop(text: str) -> Box | None:
    """Four numbers; nothing for what the model takes of an image by itself. Whether they lie in the image shows when it is decoded."""
    if not text.strip():
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        send = "Send crop=x0,y0,x1,y1: whole pixels of the upright picture, counted from its top left corner."
        raise _bad("wrong-crop", f"{text[:60]!r} does not name a part of the picture.", send)
    x0, y0, x1, y1 = map(int, parts)
    return x0, y0, x1, y1


def _window(text: str) -> GreyLevels | None:
    """Level and width; nothing for those of the file. Whether the picture has greys shows when it is decoded."""
    if not text.strip():
        return None
    try:
        level, width = map(float, text.split(","))
        GreyWindow(level, width)
    except (ValueError, ExplainerError):
        send = "Send window=level,width in units of the file's values, such as 40,400, with a width above 0."
        raise _bad("wrong-window", f"{text[:60]!r} does not name a window.", send) from None
    return level, width


def _long_texts(sent: Sequence[str], text: str | None) -> LongTexts:
    """What is done with a text that is longer than the model takes."""
    wanted = next(iter(_unique(sent)), None)
    if wanted is not None and text is None:
        raise _bad("wrong-input", "long_texts is only for texts, and an image was sent.", "Leave long_texts out, or send a text.")
    for way in LONG_TEXTS:
        if wanted in (way, None):
            return way
    raise _bad("unknown-way", f"long_texts={wanted!r} is no way to read a long text.", f"Send one of {', '.join(LONG_TEXTS)}.")


def read_specs(specs: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """Specs, each once; raises Problem 422 where they are too many or too long."""
    distinct, known = _unique(specs), limits(settings)
    if len(distinct) > known["methods"].most:
        raise known["methods"].problem(len(distinct))
    if any(len(spec) > known["name"].most for spec in distinct):
        raise known["name"].problem(what="method")
    return distinct


def _target_form(against: Sequence[str], read: Sequence[str]) -> tuple[str | None, str]:
    """What the targets are set against, and which number of them is explained."""
    other, number = next(iter(_unique(against)), None), next(iter(_unique(read)), READS[0])
    if other is not None and len(other) > MOST_CHARS_OF_A_NAME:
        raise _bad("too-long", "The value of against is too long.", f"Send at most {MOST_CHARS_OF_A_NAME} characters.")
    if number not in READS:
        raise _bad("unknown-read", f"read={number!r} names nothing that a model gives.", f"Send one of {', '.join(READS)}.")
    if other is not None and number == "probability":
        detail = "A difference of two classes is explained by their logits, not by a probability."
        raise _bad("wrong-target", detail, "Send against or read=probability, not both.")
    return other, number


def _texts(form: FormData, name: str) -> list[str]:
    values = form.getlist(name)
    if any(isinstance(value, UploadFile) for value in values):
        raise _bad("not-text", f"The field {name} is a file.", f"Send {name} as text.")
    return [str(value) for value in values]


async def _image(form: FormData) -> bytes | None:
    sent = form.getlist("image")
    if not sent:
        return None
    if len(sent) > 1 or not isinstance(sent[0], UploadFile):
        what = "was sent several times" if len(sent) > 1 else "is text"
        raise _bad("not-a-file", f"The field image {what}.", "Send image as one file of the form; addresses are not fetched.")
    return await sent[0].read()


def _text(values: Sequence[str], settings: Settings) -> str | None:
    if not values:
        return None
    text = values[0]
    if not text.strip():
        raise _bad("empty-text", "The text is empty.", "Send at least one word.")
    if len(text) > (limit := limits(settings)["text"]).most:
        raise limit.problem(len(text))
    return text


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value.strip() for value in values if value.strip()))


def plan(question: Question, facts: ModelFacts, engine: Engine, settings: Settings) -> ExplanationPlan:
    """What to ask the engine of this model; raises Problem 422 for what does not fit the model."""
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
        check_method(spec, facts, engine)
    methods = engine.distinct(methods, facts.blocks)
    if question.read == "probability":
        able, note = engine.for_probability(methods)
        if note is not None and question.methods is not None:
            raise _bad("method-cannot-run", note, f"Send read=logit, or of these methods only: {', '.join(able) or 'none'}.")
        methods, notes = able, [*notes, *([] if note is None else [note])]
    payload = question.image if question.image is not None else json.dumps([question.text, question.text_pair]).encode()
    side = "text" if question.side == "text" else "image"
    explained = None if targets is None else [repr(target) for target in targets]
    digest = hashlib.sha256(payload).hexdigest()
    always = [engine.fingerprint, facts.weights_digest, question.image is None, digest, side, explained]
    rarely: list[Any] = [] if question.crop is None else [question.crop]
    rarely += [] if question.window is None else [["window", *question.window]]
    rarely += [] if question.long_texts == "windows" else [question.long_texts]
    rarely += [] if question.precision == "auto" else [question.precision]
    return ExplanationPlan(targets, methods, notes, (always, rarely))


def _targets(question: Question, facts: ModelFacts) -> list[Target] | None:
    """The targets as the engine takes them; None is the top class."""

    def named(text: str) -> int | str | AnyOf:
        return text if facts.kind == "clip" else find_named(text, facts)

    names = list(dict.fromkeys(named(text) for text in question.prompts or question.targets))
    if question.against is not None:
        other = named(question.against)
        if not names or other in names:
            field = "prompt" if facts.kind == "clip" else "target"
            what = "nothing" if not names else "the same"
            raise _bad("wrong-target", f"There is {what} to set against {question.against!r}.", f"Send {field}: another one than against.")
        return [Contrast(name, other) for name in names]
    if question.read == "probability":
        return [Probability(name) for name in names] or [Probability()]
    return list(names) or None


def _check_kind(question: Question, facts: ModelFacts) -> None:
    name = question.model
    if facts.kind == "text" and question.text is None:
        raise _bad("wrong-input", f"{name} reads text, not images.", "Send text, or choose an image model.")
    if facts.kind != "text" and question.image is None:
        raise _bad("wrong-input", f"{name} looks at images, it does not read text.", "Send image, or choose a text model.")
    if facts.kind == "clip":
        if question.targets:
            raise _bad("wrong-target", f"{name} has no classes.", "Send prompt in place of target: what to look for, in words.")
        if not question.prompts:
            raise _bad("no-prompt", f"{name} compares an image with prompts, and there is none.", "Send prompt, such as 'a zebra'.")
    elif question.side:
        raise _bad("wrong-side", f"{name} has no sides: it compares nothing with prompts.", "Leave side out, or choose a CLIP model.")
    elif question.prompts:
        raise _bad("wrong-target", f"{name} has classes and takes no prompt.", "Send target: a label or the index of a class.")


def find_named(text: str, facts: ModelFacts) -> int | AnyOf:
    """The class called ``text``, or of that index, or the group of ``any:<group>``; raises Problem 422."""
    name, labels = named_target(text, facts.labels), facts.labels
    try:
        if isinstance(name, AnyOf):
            find_group(name.group, facts.groups, labels)
            return AnyOf(name.group.casefold())
        return find_class(name, labels, len(labels), facts.synonyms, facts.groups)
    except ExplainerError as error:
        groups = ", any: and a group of its classes" if facts.groups else ""
        send = f"Send a label of the model{groups}, or an index from 0 to {len(labels) - 1}."
        raise _bad("unknown-class", str(error), send) from None


def check_method(spec: str, facts: ModelFacts, engine: Engine) -> None:
    """Raise Problem 422 unless the model can be explained by the method ``spec``."""
    try:
        readout = engine.readout_of(spec, facts.blocks)
    except ExplainerError as error:
        raise _bad("unknown-method", str(error), "Send a method of GET /api/methods.") from None
    options = spec.partition("?")[2].split("&")
    refused = (variant for variant in facts.variants if variant["readout"] == readout and variant["reason"])
    reason = next((variant["reason"] for variant in refused if not set(variant.get("remedies", ())) & set(options)), None)
    if reason:
        able = [variant["spec"] for variant in facts.variants if not variant["reason"]]
        raise _bad("method-cannot-run", f"{spec} cannot run here. {reason}", f"These can: {', '.join(able)}.")

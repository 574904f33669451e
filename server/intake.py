"""From a form to what the engine is asked: everything that can be wrong with a request is found here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import FormData, UploadFile

from explainers.errors import ExplainerError
from explainers.targets import Contrast, Probability, Target, find_class
from server.engine import Engine
from server.problems import Problem, suggestion
from server.registry import Facts
from server.settings import Settings

_MOST_CHARS_OF_A_NAME = 1000  # a target, a prompt, a method
FIELDS = ("model", "image", "text", "text_pair", "target", "prompt", "against", "read", "side", "methods")
ONCE = ("model", "text", "text_pair", "against", "read", "side")
SIDES = ("image", "text")
READS = ("logit", "probability")


@dataclass(frozen=True)
class Asked:
    """What a person sent: exactly one of ``image`` (the bytes of a file) and ``text``; ``methods`` None for the default ones.

    text_pair  a second text that is read with the first
    side       of a CLIP model, whose tokens get the scores: "image" or "text"; None where it was not said
    against    the class or prompt that each target is set against
    read       one of ``READS``: the number of a target that is explained
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


@dataclass(frozen=True)
class Plan:
    """What the engine is asked, what to tell the person about it, and the key under which the same question is found again."""

    targets: list[Target] | None
    methods: list[str]
    notes: list[str]
    key: str


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)


async def read_asked(form: FormData, settings: Settings) -> Asked:
    """Read the form; raises Problem 422 (413 for a text that is too long) for what is wrong whatever the model."""
    for name in form:
        if name not in FIELDS:
            raise _bad("unknown-field", f"There is no field {name!r}.", f"{suggestion(name, FIELDS)}Fields: {', '.join(FIELDS)}.")
    values = {name: _texts(form, name) for name in FIELDS if name != "image"}
    for name in ONCE:
        if len(values[name]) > 1:
            raise _bad("repeated-field", f"The field {name} was sent {len(values[name])} times.", f"Send {name} once.")
    if not values["model"]:
        raise _bad("no-model", "The field model is missing.", "Send the name of a model; GET /api/models lists them.")
    image, text = await _image(form), _text(values["text"], settings)
    if (image is None) == (text is None):
        which = "neither an image nor a text" if image is None else "both an image and a text"
        raise _bad("one-input", f"The form has {which}.", "Send one of image (a file) and text.")
    text_pair = _text(values["text_pair"], settings)
    if text_pair is not None and text is None:
        raise _bad("one-input", "The form has text_pair without text.", "Send text too: text_pair is the second of two texts.")
    side = values["side"][0].strip() if values["side"] else None
    if side is not None and side not in SIDES:
        raise _bad("unknown-side", f"There is no side {side!r}.", "Send image, or text for the words of the prompts.")
    targets, prompts = (_unique(values[name]) for name in ("target", "prompt"))
    for name, some in (("target", targets), ("prompt", prompts)):
        if len(some) > settings.max_targets:
            raise _bad("too-many", f"There are {len(some)} values of {name}.", f"Send at most {settings.max_targets}.")
        if any(len(one) > _MOST_CHARS_OF_A_NAME for one in some):
            raise _bad("too-long", f"A {name} is too long.", f"Send at most {_MOST_CHARS_OF_A_NAME} characters.")
    against, read = _number(values["against"], values["read"])
    methods = _unique(values["methods"])
    if len(methods) > settings.max_methods or any(len(one) > _MOST_CHARS_OF_A_NAME for one in methods):
        raise _bad("too-many", f"There are {len(methods)} methods.", f"Send at most {settings.max_methods}.")
    return Asked(values["model"][0].strip(), image, text, text_pair, side, targets, prompts, against, read, methods or None)


def _number(against: Sequence[str], read: Sequence[str]) -> tuple[str | None, str]:
    """What the targets are set against, and which number of them is explained."""
    other, number = next(iter(_unique(against)), None), next(iter(_unique(read)), READS[0])
    if other is not None and len(other) > _MOST_CHARS_OF_A_NAME:
        raise _bad("too-long", "The value of against is too long.", f"Send at most {_MOST_CHARS_OF_A_NAME} characters.")
    if number not in READS:
        raise _bad("unknown-read", f"read={number!r} is nothing that can be explained.", f"Send one of {', '.join(READS)}.")
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
    if len(text) > settings.max_text_chars:
        limit = f"{settings.max_text_chars} characters"
        raise Problem(413, "text-too-long", f"The text has {len(text)} characters.", send=f"Send at most {limit}.")
    return text


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value.strip() for value in values if value.strip()))


def plan(asked: Asked, facts: Facts, engine: Engine, settings: Settings) -> Plan:
    """What to ask the engine of this model; raises Problem 422 for what does not fit the model."""
    _check_kind(asked, facts)
    targets = _targets(asked, facts)
    if asked.side == "text":
        if facts.text_side is None:
            raise _bad("wrong-side", f"{asked.model} has no text side that can be explained.", "Leave side out.")
        if asked.against is not None or asked.read == "probability":
            detail = "The words of a prompt are explained for its own logit alone."
            raise _bad("wrong-target", detail, "Leave against and read out, or ask for side=image.")
        facts = facts.text_side
    methods, notes = list(asked.methods or facts.default_methods), []
    for spec in methods:
        check_method(spec, facts, engine)
    if asked.read == "probability":
        able, note = engine.for_probability(methods)
        if note is not None and asked.methods is not None:
            raise _bad("method-cannot-run", note, f"Send read=logit, or of these methods only: {', '.join(able) or 'none'}.")
        methods, notes = able, [] if note is None else [note]
    payload = asked.image if asked.image is not None else json.dumps([asked.text, asked.text_pair]).encode()
    side = "text" if asked.side == "text" else "image"
    explained = None if targets is None else [repr(one) for one in targets]
    digest = hashlib.sha256(payload).hexdigest()
    content = [engine.fingerprint, facts.weights_digest, asked.image is None, digest, side, explained, methods]
    return Plan(targets, methods, notes, hashlib.sha256(json.dumps(content).encode()).hexdigest())


def _targets(asked: Asked, facts: Facts) -> list[Target] | None:
    """The targets as the engine takes them; None is the top class."""

    def one(text: str) -> int | str:
        return text if facts.kind == "clip" else class_index(text, facts.labels)

    names = list(dict.fromkeys(one(text) for text in asked.prompts or asked.targets))
    if asked.against is not None:
        other = one(asked.against)
        if not names or other in names:
            field = "prompt" if facts.kind == "clip" else "target"
            what = "nothing" if not names else "the same"
            raise _bad("wrong-target", f"There is {what} to set against {asked.against!r}.", f"Send {field}: another one than against.")
        return [Contrast(name, other) for name in names]
    if asked.read == "probability":
        return [Probability(name) for name in names] or [Probability()]
    return list(names) or None


def _check_kind(asked: Asked, facts: Facts) -> None:
    name = asked.model
    if facts.kind == "text" and asked.text is None:
        raise _bad("wrong-input", f"{name} reads text, not images.", "Send text, or choose an image model.")
    if facts.kind != "text" and asked.image is None:
        raise _bad("wrong-input", f"{name} looks at images, it does not read text.", "Send image, or choose a text model.")
    if facts.kind == "clip":
        if asked.targets:
            raise _bad("wrong-target", f"{name} has no classes.", "Send prompt in place of target: what to look for, in words.")
        if not asked.prompts:
            raise _bad("no-prompt", f"{name} compares an image with prompts, and there is none.", "Send prompt, such as 'a zebra'.")
    elif asked.side:
        raise _bad("wrong-side", f"{name} has no sides: it compares nothing with prompts.", "Leave side out, or choose a CLIP model.")
    elif asked.prompts:
        raise _bad("wrong-target", f"{name} has classes and takes no prompt.", "Send target: a label or the index of a class.")


def class_index(text: str, labels: Sequence[str]) -> int:
    """The class called ``text``, else, where ``text`` is a whole number, the class of that index; raises Problem 422."""
    name = int(text) if text not in labels and text.isascii() and text.isdigit() else text
    try:
        return find_class(name, labels, len(labels))
    except ExplainerError as error:
        send = f"Send a label of the model, or an index from 0 to {len(labels) - 1}."
        raise _bad("unknown-class", str(error), send) from None


def check_method(spec: str, facts: Facts, engine: Engine) -> None:
    """Raise Problem 422 unless the model can be explained by the method ``spec``."""
    try:
        readout = engine.readout_of(spec, facts.blocks)
    except ExplainerError as error:
        raise _bad("unknown-method", str(error), "Send a method of GET /api/methods.") from None
    reason = next((one["reason"] for one in facts.variants if one["readout"] == readout and one["reason"]), None)
    if reason:
        able = [one["spec"] for one in facts.variants if not one["reason"]]
        raise _bad("method-cannot-run", f"{spec} cannot run here. {reason}", f"These can: {', '.join(able)}.")

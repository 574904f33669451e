"""The report of a model: what was found out about it, how its output is read and why, and what was guessed."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from torch import nn

from explainers.models.inputs.molecules import MOST_ATOMS
from explainers.models.inputs.parts import in_words, parts_taken
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.libraries import recognition as lib
from explainers.models.libraries.calls import argument_names
from explainers.models.libraries.sound_models import SoundPictures
from explainers.models.model import Model
from explainers.models.padding import CHANGED_BY_PADDING
from explainers.models.report import Fact, Guess, Report
from explainers.models.tasks import ObjectDetection

_PICTURE_PROMPT = "explainers.PicturePrompt(picture, text), or --text next to a picture file"
_UNNAMED = re.compile(r"(no )?class \d+")
_SHOWN = 5  # names of classes


def describe(model: Model, opened: str, guesses: Sequence[Guess], notes: Sequence[str], said: Collection[str]) -> Report:
    """Return the report on ``model``; ``said`` are the names of the arguments that the caller passed, which were not guessed."""
    reading, guessed = _reading(model, said)
    typed = {"inputs": _PICTURE_PROMPT} if model.reads_pictures else {}
    return Report(
        name=model.name,
        opened=opened,
        facts=tuple(Fact(name, value, typed.get(name, "")) for name, value in _facts(model).items() if value),
        reading=reading,
        guesses=(*guesses, *guessed, *_further_guesses(model, said)),
        notes=tuple(notes),
    )


def _facts(model: Model) -> dict[str, str]:
    details = model.details
    return {
        "family": f"{_class_of(model)}, {details['parameters']:,} parameters",
        "blocks": _blocks(model),
        "tokens": _tokens(model),
        "inputs": _inputs(model) + _unread(model),
        "outputs": _outputs(model),
        "labels": _labels(model.labels),
    }


_LIBRARIES = {"timm": "timm", "transformers": "transformers", "open_clip": "OpenCLIP", "torch": "your own"}


def _class_of(model: Model) -> str:
    if isinstance(model.module, SoundPictures):
        return f"{type(model.module.inner).__name__} of transformers"
    return f"{type(model.module).__name__} of {_LIBRARIES[model.details['library']]}"


def _blocks(model: Model) -> str:
    heads, width = model.details.get("heads"), model.details["width"]
    inside = f", {heads} heads" if heads else ""
    place = _name_of(model.module, model.blocks[0]).rpartition(".")[0]
    return f"{len(model.blocks)}{f' in {place}' if place else ''}, {width} wide{inside}"


def _name_of(module: nn.Module, part: nn.Module) -> str:
    return next((name for name, inner in module.named_modules() if inner is part), "")


def _tokens(model: Model) -> str:
    grid, details = model.details.get("grid"), model.details
    if model.kind == "molecule":
        return f"{'a token of the graph and ' if details.get('class_token') else ''}up to {MOST_ATOMS} atoms"
    if grid is None:
        most = details.get("max_tokens")
        return f"up to {most} word pieces" if most else "word pieces, any number of them"
    prefix = "a class token and " if details.get("class_token") else ""
    return f"{prefix}{grid[0]} x {grid[1]} patches"


def _inputs(model: Model) -> str:
    if model.reads_pictures and "text" not in model.reads:
        return f"{in_words(model.reads)} alone, one at a time: a text is written from each"
    if model.reads_pictures:
        return "pictures with a text"
    if model.kind in ("text", "molecule"):
        alone = ", only those of one length together: padding changes its answers" if model.details.get(CHANGED_BY_PADDING) else ""
        return f"{model.kind}s{alone}"
    height, width = model.details["input"]
    if isinstance(model.module, SoundPictures):
        rate = f"at {model.details['sound_rate']:,} samples a second"
        if height == 1:
            return f"sounds {rate}, as waves"
        bands, frames = model.module.whole or (height, width)
        rest = "" if (bands, frames) == (height, width) else f", of which patches cover {height} x {width}"
        return f"sounds {rate}, as spectrograms of {bands} bands x {frames} frames{rest}"
    pictures = f"pictures of {height} x {width} pixels, {_count_kinds(model.details['channels'], 'channel')}"
    return f"{pictures}, and prompts" if model.kind == "clip" else pictures


def _unread(model: Model) -> str:
    """Return a phrase, after a semicolon, on the parts of an input that the forward of ``model`` takes and that are not read; else ""."""
    module = model.module.inner if isinstance(model.module, SoundPictures) else model.module  # whose forward takes pictures
    takes = argument_names(module)
    read = {*model.reads, *(("picture",) if "video" in model.reads else ()), *(("text",) if lib.is_asked_with_texts(model.module) else ())}
    unread = [name for name in parts_taken(takes) if name not in read]
    return f"; not read: {in_words(unread, takes)}" if unread else ""


def _outputs(model: Model) -> str:
    if model.kind == "clip":
        return "how well each prompt fits"
    if model.task is not None and not model.labels:
        return model.task.outputs
    if model.output == "regression":
        return _count_kinds(len(model.labels), "value")
    return _count_kinds(len(model.labels), "class", "classes")


def _labels(labels: Sequence[str]) -> str:
    return ", ".join(labels[:_SHOWN]) + (", ..." if len(labels) > _SHOWN else "")


def _count_kinds(count: int, singular: str, several: str | None = None) -> str:
    return f"{count} {singular if count == 1 else several or singular + 's'}"


_MEANINGS = {
    "softmax": "one class of several: probabilities are a softmax of the logits",
    "sigmoid": "a label each, yes or no: probabilities are a sigmoid of each logit",
    "regression": "values, which have no probabilities",
}


def _reading(model: Model, said: Collection[str]) -> tuple[str, list[Guess]]:
    """Return a sentence on how the model's output is read and why, and the guesses about it that ``said``, the names of the caller's
    arguments, does not cover.
    """
    meaning = _MEANINGS[model.output]
    if model.kind == "clip":
        return "the scaled cosine of picture and prompt; probabilities are a softmax over the prompts", []
    if model.task is not None and not model.labels:
        return f"{model.task.name}. A place of it is explained: {model.task.places_are}", []
    if isinstance(model.task, ObjectDetection):
        return f"{meaning}; for each box", []
    if "output" in said:
        return f"{meaning}, as you said", []
    if model.head_activation.kind is not None:
        return f"{meaning}; the module's last function is a {model.head_activation.kind}, and the numbers before it are explained", []
    if getattr(getattr(model.module, "config", None), "problem_type", None):
        return f"{meaning}, as its configuration says (problem_type)", []
    count = 1 if model.output == "sigmoid" and len(model.labels) == 2 else len(model.labels)
    why = f"a head of {_count_kinds(count, 'number')} without softmax or sigmoid says no more"
    others = [f'output="{other}"' for other in _MEANINGS if other != model.output]
    return meaning, [Guess(f"the output is read as {model.output}", why, " or ".join(others))]


def _further_guesses(model: Model, said: Collection[str]) -> list[Guess]:
    guesses: list[Guess] = []
    if model.kind in ("image", "clip") and "preprocess" not in said:
        recipe, guess = lib.preprocessing_of(model.module, model.details["library"], model.made_with.get("preprocess"))
        if guess is not None:
            what = "sounds" if isinstance(recipe, SoundPreparation) else "pictures"
            guesses.append(Guess(f"how {what} are prepared", guess, "preprocess="))
        elif recipe is None:
            why = "neither the model nor its files say it; until then only tensors can be sent"
            guesses.append(Guess("how pictures are prepared is not known", why, "preprocess="))
    if model.labels and all(_UNNAMED.fullmatch(label) for label in model.labels) and model.output != "regression":
        guesses.append(Guess("classes have numbers for names", "no file names them", "labels="))
    return guesses

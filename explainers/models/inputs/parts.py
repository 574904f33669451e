"""The parts that an input of a model may have, such as a picture and a text: what each is called, and which argument takes it.

The argument ``kind=`` of :func:`explainers.wrap` is a list of them, :attr:`explainers.Model.reads` too; models are recognised by them, and
refusals name the one that is not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ModelKind

#: A part of an input that can be read here.
PartName = Literal["picture", "video", "sound", "text", "molecule"]
#: What may be passed as ``kind=``: the parts that a model reads, or one of the words for them from before.
KindArgument = ModelKind | Sequence[PartName]


@dataclass(frozen=True)
class InputPart:
    """A part of what a model reads.

    words      what people call it, in the plural
    arguments  the names of arguments of a forward that take it
    kind       the kind of a model that reads nothing else; None if it is not read here
    """

    words: str
    arguments: tuple[str, ...]
    kind: ModelKind | None


#: All parts by name, also those that are not read, in the order in which they are named to people.
PARTS: Mapping[str, InputPart] = {
    "picture": InputPart("pictures", ("pixel_values",), "image"),
    "video": InputPart("videos", ("pixel_values_videos",), "image"),
    "sound": InputPart("sounds", ("input_values", "input_features", "audio_input_features"), "image"),
    "text": InputPart("texts", ("input_ids",), "text"),
    "molecule": InputPart("molecules", (), "molecule"),
    "page": InputPart("places of words on a page", ("bbox",), None),
    "series": InputPart("series of numbers", ("past_values", "past_time_features"), None),
}
#: The parts that are read together with a text: a model compares both ("clip"), or has them in one row of tokens ("text").
_WITH_TEXT = frozenset({"picture", "video", "text"})


def parts_taken(arguments: Collection[str]) -> tuple[str, ...]:
    """Return the names of the :data:`PARTS` that a forward with these ``arguments`` takes; none if it calls them otherwise."""
    return tuple(name for name, part in PARTS.items() if any(argument in arguments for argument in part.arguments))


def in_words(names: Iterable[str], arguments: Collection[str] = ()) -> str:
    """Return the parts called ``names`` in words, such as "pictures and texts"; each with the one of ``arguments`` that takes it."""
    listed = []
    for name in names:
        taken = next((argument for argument in PARTS[name].arguments if argument in arguments), None)
        listed.append(PARTS[name].words + ("" if taken is None else f" ({taken})"))
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def kind_named(kind: KindArgument, compares: bool) -> ModelKind:
    """Return the kind of a model of which a caller said ``kind``, a list of parts or one of the words "image", "text", "clip" and
    "molecule"; ``compares`` says whether it compares pictures with texts.

    Raises ExplainerError for a part that is unknown or not read, and for parts that are not read together.
    """
    if isinstance(kind, str) and kind in get_args(ModelKind):
        return kind
    names = [kind] if isinstance(kind, str) else list(kind)
    choose = f"choose from {', '.join(repr(name) for name in get_args(PartName))}, such as kind=['picture', 'text']"
    if not names or (unknown := [name for name in names if name not in PARTS]):
        raise ExplainerError(f"kind={kind!r} is no list of what a model reads{f': {unknown[0]!r} is unknown' if names else ''}; {choose}")
    if unread := [name for name in names if PARTS[name].kind is None]:
        raise ExplainerError(f"kind={kind!r}: {PARTS[unread[0]].words} are not read here; {choose}")
    if len(set(names)) == 1 and (alone := PARTS[names[0]].kind) is not None:
        return alone
    if single := [name for name in names if name not in _WITH_TEXT]:
        other = next(name for name in names if name != single[0])
        raise ExplainerError(
            f"kind={kind!r}: {PARTS[single[0]].words} are not read together with {PARTS[other].words} here. What is read together is a "
            "picture or a video with a text; each part can be read alone"
        )
    if "text" not in names:
        return "image"
    return "clip" if compares else "text"


def check_reads(kind: KindArgument | None, reads: Sequence[PartName], name: str) -> None:
    """Raise ExplainerError if the model called ``name`` does not read what a caller named in ``kind``, a list of parts (None: nothing): it
    ``reads`` these. A video need not be named where a picture can be sent in its place.
    """
    if kind is None or (isinstance(kind, str) and kind in get_args(ModelKind)):
        return
    named = {kind} if isinstance(kind, str) else set(kind)
    if set(reads) - {"video"} <= named <= set(reads):
        return
    other = sorted(named - set(reads)) or [part for part in reads if part not in named]
    why = f"{in_words(other)} are {'not read' if named - set(reads) else 'read too'}"
    raise ExplainerError(f"kind={kind!r}: {name} reads {in_words(reads)}, so that {why}. Pass kind={list(reads)!r}, or leave kind= out")

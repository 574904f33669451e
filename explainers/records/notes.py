"""A note on a map: a sentence for people, with what kind it is for programs."""

from __future__ import annotations

from typing import Literal

#: ``noise``: more of a map that was drawn at random is noise than is not. ``doubt``: rounding, or a small change of the input, may change
#: the order of a map, or it has none.
NoteKind = Literal["", "noise", "doubt"]


class Note(str):
    """A note with a ``kind``, by which programs recognise it without reading its words. Most notes have no kind and are plain texts."""

    kind: NoteKind

    def __new__(cls, text: str, kind: NoteKind = "") -> Note:
        """Make a note, a text with a ``kind`` for programs ("" if it has none)."""
        note = super().__new__(cls, text)
        note.kind = kind
        return note


def kind_of(note: str) -> NoteKind:
    """Return the kind of ``note``; "" for a plain text."""
    return note.kind if isinstance(note, Note) else ""

"""A note on a map: a sentence for people, with what kind it is for programs."""

from __future__ import annotations

from typing import Literal

#: ``noise``: more of a map that was drawn at random is noise than is not.
NoteKind = Literal["", "noise"]


class Note(str):
    """A text as any other that keeps its ``kind``, so that nothing is learnt from its words. Of most notes programs ask nothing: they are
    plain texts.
    """

    kind: NoteKind

    def __new__(cls, text: str, kind: NoteKind = "") -> Note:
        """A note of this kind."""
        note = super().__new__(cls, text)
        note.kind = kind
        return note


def kind_of(note: str) -> NoteKind:
    """What kind of note it is; "" for one of which programs ask nothing."""
    return note.kind if isinstance(note, Note) else ""

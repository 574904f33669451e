"""Notes are texts that keep their kind."""

from __future__ import annotations

import copy
import json
import pickle

from explainers.records.notes import Note, kind_of


def test_a_note_is_a_text_with_a_kind() -> None:
    note = Note("Mostly noise.", "noise")
    assert note == "Mostly noise."
    assert f"{note}" == json.loads(json.dumps(note)) == "Mostly noise."
    assert [kind_of(text) for text in (note, Note("Plain."), "Plain.")] == ["noise", "", ""]


def test_a_note_keeps_its_kind_where_it_is_kept() -> None:
    note = Note("Mostly noise.", "noise")
    for again in (pickle.loads(pickle.dumps(note)), copy.deepcopy(note)):
        assert (again, kind_of(again)) == (note, "noise")

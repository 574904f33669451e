"""A class for each token of a text: why is *Paris* a place?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from explainers.models.inputs.types import TextInput
from explainers.models.layout import OtherTokens
from explainers.models.libraries.recognition import Library
from explainers.models.tasks.task import (
    MOST_PLACES,
    Place,
    Reading,
    Task,
    TaskInput,
    add_task,
    logits_in,
    top_class,
    transformers_class_ends,
)
from explainers.models.tasks.text_places import SPELLING, place_in_text, spell_tokens

_OUTSIDE = ("o", "outside", "none")  # how data sets call the label of what is nothing


@add_task
class TokenClassification(Task):
    """Task of labelling each token. A word is read at its first piece, where such models learn its label; several words at the mean of
    their first pieces.
    """

    name = "token-classification"
    places_are = f"a word or a part of the text, {SPELLING}"
    control = "words"
    own_axes = ("samples", "tokens", "labels")

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``module`` is a token classifier of transformers (``library``), else None; ``output`` is not read."""
        return cls() if transformers_class_ends(module, library, "ForTokenClassification") else None

    def trial(self, output: Any) -> Tensor:
        """Return the logits (B, C) of the first token, from ``output``, the module's."""
        return logits_in(output)[:, 0]

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the words of an input as places, each with the label that the model gives it."""
        logits, record = logits_in(task_input.output)[0], task_input.record
        assert isinstance(record, TextInput)
        places = []
        for word in record.words[:MOST_PLACES]:
            if word.tokens:
                says, score = top_class(logits[word.tokens[0]], task_input.labels)
                tokens = word.tokens[0], word.tokens[-1]
                places.append(Place(spell_tokens(*tokens), word.text, tokens, says=says, score=score))
        return places

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that is explained if none is named: the word with the most certain label, among the ``places`` that have one."""
        named = [place for place in places if (place.says or "").casefold() not in _OUTSIDE]
        return super().default_place(task_input, named or places)

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names in the text of ``task_input``: a word, a part of the text, or tokens by their numbers. Raises
        ExplainerError if there is none.
        """
        assert isinstance(task_input.record, TextInput)
        place = place_in_text(at, task_input.record)
        if place is None:
            raise self.unknown_place(at, places)
        return next((known for known in places if known.at == place.at), place)

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place`` in the text ``task_input``, which says how to read the explained logits from the model's
        output: those of a word's first piece; for several words their mean.
        """
        assert place.tokens is not None
        assert isinstance(task_input.record, TextInput)
        first, last = place.tokens
        pieces = [word.tokens[0] for word in task_input.record.words if word.tokens and first <= word.tokens[0] <= last]
        pieces = pieces or list(range(first, last + 1))
        notes = (f"The label is for {len(pieces)} words: the mean of their logits is explained.",) if len(pieces) > 1 else ()
        others = OtherTokens(rest="some" if len(pieces) > 1 else "none")
        return Reading(place, lambda output: logits_in(output)[:, pieces].mean(1), token=pieces[0], notes=notes, other_tokens=others)

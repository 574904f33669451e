"""The word at a mask: why *Paris*, and why not *Rome*?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.types import TextInput
from explainers.models.libraries.recognition import Library
from explainers.models.tasks.task import (
    MOST_PLACES,
    Place,
    Reading,
    Task,
    TaskInput,
    add_task,
    top_class,
    transformers_class_ends,
)
from explainers.models.tasks.text_places import number_repeats, spell_tokens
from explainers.models.tasks.vocabulary import VocabularyTask

_NUMBER = re.compile(r"tokens?:\d+")


@add_task
class MaskedWord(VocabularyTask):
    """Task of filling a mask: the logits of the vocabulary at a mask in the text."""

    name = "fill-mask"
    places_are = "mask, mask#2 for the second one, or token:5"
    own_axes = ("samples", "tokens", "words")

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``module`` is a masked language model of transformers (``library``), else None; ``output`` is not read."""
        return cls() if transformers_class_ends(module, library, "ForMaskedLM") else None

    def sample(self, text: str) -> str:
        """Return the sentence ``text`` with its last word replaced by the mask token, with which a model is checked when it is opened."""
        return re.sub(r"\w+(?=\W*$)", lambda _: self._mask(), text)

    def _mask(self) -> str:
        """Return the text by which the tokenizer writes a mask, such as "[MASK]". Raises ExplainerError if it has none."""
        mask = getattr(self.tokenizer, "mask_token", None)
        if mask is None:
            raise ExplainerError("The tokenizer of this model has no mask, or none was given: pass tokenizer= to wrap.")
        return str(mask)

    def trial(self, output: Any) -> Tensor:
        """Return from the module's output the logits (B, V) of one token, which stand for those of a mask."""
        return self.logits(output)[:, 0]

    @property
    def outputs(self) -> str:
        """A phrase that says in a model's report what the model returns: logits of the vocabulary at each token."""
        return "a word of the vocabulary, at each token"

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the masks in ``task_input`` as places, each with its likeliest word."""
        logits, ids = self.logits(task_input.output)[0], task_input.tensors["input_ids"][0]
        mask = self._mask()
        indices = (ids == self.tokenizer.mask_token_id).nonzero().flatten().tolist()
        if not indices:
            raise ExplainerError(f"Put {mask} where the word is asked for: this text has none.")
        places = []
        for at, index in zip(number_repeats(["mask"] * len(indices)), indices[:MOST_PLACES], strict=False):
            says, score = top_class(logits[index], self.labels(logits.shape[-1]))
            places.append(Place(at, at, (index, index), says=says, score=score))
        return places

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names: one of ``places``, by the number of its mask among the masks or of its token among all
        tokens. Raises ExplainerError if no mask is there.
        """
        if _NUMBER.fullmatch(at.strip()):
            first = int(at.partition(":")[2])
            place = next((place for place in places if place.tokens == (first, first)), None)
            if place is None:
                assert isinstance(task_input.record, TextInput)
                masks = ", ".join(spell_tokens(*place.tokens) for place in places if place.tokens)
                raise ExplainerError(f"at={at!r}: this is no {self._mask()}; put one there to ask about it. Masks of this text: {masks}.")
            return place
        return super().find("mask" if at.strip() == "mask#1" else at, task_input, places)

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place``, a mask in the text ``task_input``, which says how to read the logits of the vocabulary at
        the mask from the model's output.
        """
        assert place.tokens is not None
        token = place.tokens[0]
        labels = self.labels(self.logits(task_input.output).shape[-1])
        return Reading(place, lambda output: self.logits(output)[:, token], labels, token=token)

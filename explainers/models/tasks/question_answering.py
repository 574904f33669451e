"""The span of a text that answers a question, and its start and end: why is *in Paris* the answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.types import TextInput, TextPair
from explainers.models.libraries.recognition import Library
from explainers.models.tasks.task import Place, Reading, Task, TaskInput, add_task, tensor_of, top_class
from explainers.models.tasks.text_places import SPELLING, number_repeats, place_in_text, words_of

MOST_TOKENS = 15  # of the answer that is looked for, as data sets of questions have them


@add_task
class QuestionAnswering(Task):
    """Task of finding an answer in a text: two logits for each token, for the start and the end of the answer. The tokens of the context
    are the classes.

    The score of a span is the sum of the two, the number by which such models choose their answer (Devlin et al., 2019, section 4.2).
    """

    name = "question-answering"
    texts = ("question", "text that answers it")
    places_are = f"start, end, answer (the span that the model finds best) or another span of the context, {SPELLING}"

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``module`` is a transformers model (``library``) whose ``output`` holds logits of start and end, else
        None.
        """
        ends = [tensor_of(output, name) for name in ("start_logits", "end_logits")]
        return cls() if library == "transformers" and all(end is not None and end.dim() == 2 for end in ends) else None

    def sample(self, text: str) -> TextPair:
        """Return the pair of the question "What is it?" and the context ``text``, with which a model is checked when it is opened."""
        return TextPair("What is it?", text)

    def trial(self, output: Any) -> Tensor:
        """Return from the module's output the means (B, 2) over tokens of the logits of start and end."""
        return torch.stack(self._ends(output), -1).mean(1)

    def class_count(self, logits: Tensor) -> int:
        """Return 0: the classes are the tokens of a context, which have no fixed names."""
        return 0

    @staticmethod
    def _ends(output: Any) -> tuple[Tensor, Tensor]:
        start, end = tensor_of(output, "start_logits"), tensor_of(output, "end_logits")
        assert start is not None
        assert end is not None
        return start, end

    @staticmethod
    def _context(record: Any) -> range:
        """Return the range of tokens of the context in the record of an input. Raises ExplainerError if only one text was sent."""
        assert isinstance(record, TextInput)
        inside = [i for i, token in enumerate(record.tokens) if token.part == 1 and not token.special]
        if not inside:
            raise ExplainerError("This model answers a question about a text: send both, TextPair(question, context).")
        return range(inside[0], inside[-1] + 1)

    @property
    def outputs(self) -> str:
        """A phrase that says in a model's report what the model returns: two rows of logits over the tokens."""
        return "where an answer starts and ends, at each token"

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the places of an input: the best span as the answer, its start and its end."""
        record, context = task_input.record, self._context(task_input.record)
        assert isinstance(record, TextInput)
        ends = [logits[0, context.start : context.stop] for logits in self._ends(task_input.output)]
        labels = [token.text for token in record.tokens[context.start : context.stop]]
        first, last = best_span(*ends)
        p = [float(logits.double().softmax(-1)[i]) for logits, i in zip(ends, (first, last), strict=True)]
        span = context.start + first, context.start + last
        places = [Place("answer", words_of(record, *span), span, says=words_of(record, *span), score=p[0] * p[1])]
        for name, logits in zip(("start", "end"), ends, strict=True):
            says, score = top_class(logits, labels)
            token = context.start + int(logits.argmax())
            places.append(Place(name, f"{name} of the answer", (token, token), says=says, score=score))
        return places

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place among ``places`` that is explained if none is named: the model's answer."""
        return places[0]

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names: one of the three ``places`` by its name, or a span of the context in ``task_input``. Raises
        ExplainerError if there is none.
        """
        named = next((place for place in places if at.strip().casefold() == place.at), None)
        if named is not None:
            return named
        record, context = task_input.record, self._context(task_input.record)
        assert isinstance(record, TextInput)
        place = place_in_text(at, record, part=1)
        if place is None or place.tokens is None or not set(place.tokens) <= set(context):
            raise self.unknown_place(at, places)
        return place

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place`` in the text ``task_input``, which says how to read the explained numbers from the model's
        output: the logits of the context's tokens, or the sum of the two logits of a span.
        """
        record, context = task_input.record, self._context(task_input.record)
        assert isinstance(record, TextInput)
        start, end = (logits[0] for logits in self._ends(task_input.output))
        if place.at in ("start", "end"):
            labels = number_repeats(token.text for token in record.tokens[context.start : context.stop])
            side = ("start", "end").index(place.at)
            return Reading(place, lambda output: self._ends(output)[side][:, context.start : context.stop], labels)
        assert place.tokens is not None
        first, last = place.tokens
        notes = ["The score of the span is explained: the logit of its start plus that of its end."]
        if place.at == "answer" and not record.tokens[0].part and float(start[0] + end[0]) > float(start[first] + end[last]):
            notes.append("The first token scores above every span: the model may be saying that there is no answer.")

        def read(output: Any) -> Tensor:
            starts, ends = self._ends(output)
            return (starts[:, first] + ends[:, last])[:, None]

        return Reading(place, read, [place.label], "regression", notes=tuple(notes))


def best_span(start: Tensor, end: Tensor) -> tuple[int, int]:
    """Return the first and the last token of the span with the largest sum of its logits (S,) of start and end, of at most
    :data:`MOST_TOKENS`.
    """
    sums = (start[:, None] + end[None, :]).detach()
    allowed = torch.ones_like(sums, dtype=torch.bool).triu().tril(MOST_TOKENS - 1)
    best = int(sums.masked_fill(~allowed, -torch.inf).argmax())
    return divmod(best, len(end))

"""The answer that an encoder-decoder writes from a source text, such as a translation or a summary: which words of the source made it say
*Paris*, and which of those that it had written before?

Source and answer are one row of tokens, see :mod:`explainers.models.structure.two_rows`; the decoder's start stands between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ANSWER, TEMPLATE, Prepared, TextInput, Token, Word
from explainers.models.libraries.recognition import Library, text_config
from explainers.models.libraries.source_writers import source_tensors, start_of_sound, writer_source_of
from explainers.models.structure.two_rows import DECODER_TOKENS
from explainers.models.tasks.generated_answer import MAX_NEW_TOKENS, GeneratedAnswer, written_answer
from explainers.models.tasks.task import Place, Reading, TaskInput, add_task, tensor_of, transformers_class_ends
from explainers.models.tasks.vocabulary import VocabularyTask


@add_task
class SourceAnswer(GeneratedAnswer):
    """Task of explaining an answer's tokens by those of the source and those written before: see :class:`GeneratedAnswer`.

    start  the ids with which the decoder begins, which belong to no word: its start token, and one that the model's settings force to
           follow, such as a language. A model that writes from sounds has further ones for each sound
    """

    name = "text2text-generation"
    scores_are = "Scores are of the source and of what the model wrote before the explained words."

    def __init__(self, start: Sequence[int]) -> None:
        self.start = tuple(start)

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> VocabularyTask | None:
        """Return this task if ``module`` is an encoder-decoder of transformers that writes, judged by ``library`` and ``output``, else
        None.
        """
        config: Any = getattr(module, "config", None)
        writes = transformers_class_ends(module, library, "ForConditionalGeneration", "MTModel") or writer_source_of(module) is not None
        logits = tensor_of(output, "logits")
        if not writes or not getattr(config, "is_encoder_decoder", False) or logits is None or logits.dim() != 3:
            return None
        return cls(_start_of(module))

    def complete(self, prepared: Prepared, module: nn.Module) -> Prepared:
        """Return the source ``prepared`` followed by the decoder's start and the answer that ``module`` writes, always with the likeliest
        token. Raises ExplainerError for several sources, and if the model writes nothing.
        """
        if len(prepared) != 1:
            raise ExplainerError(f"One text is answered at a time, and {len(prepared)} were sent: send them one by one.")
        source = writer_source_of(module)
        start = start_of_sound(module, prepared.tensors) if source is not None and source.is_sound else self.start
        answer, stopped = written_answer(module, source_tensors(module, prepared.tensors), self._most(module, len(start)), start)
        if not answer:
            raise ExplainerError("The model writes nothing from this input: its likeliest token ends the answer. Send another one.")
        notes = () if stopped else (f"The answer was cut after {len(answer)} tokens (max_new_tokens of the model's generation_config).",)
        return replace(self._joined(start, answer, prepared), notes=((*prepared.notes[0], *notes),))

    @staticmethod
    def _most(module: nn.Module, start: int) -> int:
        """Return how many tokens ``module`` may write after ``start`` ones: as its settings say, and as the position embeddings of its
        decoder allow.
        """
        declared = getattr(getattr(module, "generation_config", None), "max_new_tokens", None) or MAX_NEW_TOKENS
        config = text_config(module)
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "max_target_positions", None)
        return min(declared, limit - start) if isinstance(limit, int) and limit > 0 else int(declared)

    def _joined(self, start: Sequence[int], answer: Sequence[int], prepared: Prepared) -> Prepared:
        """Return ``prepared``, a source, with the decoder's ``start`` and the tokens of ``answer`` appended."""
        record, ids = prepared.inputs[0], prepared.tensors["input_ids"]
        assert isinstance(record, TextInput)
        written = torch.tensor([[*start, *answer]], device=ids.device, dtype=ids.dtype)
        mask = prepared.tensors.get("attention_mask", torch.ones_like(ids))
        others = {name: tensor for name, tensor in prepared.tensors.items() if tensor.shape != ids.shape}
        tensors: dict[str, Tensor] = {
            **others,
            "input_ids": torch.cat([ids, written], 1),
            "attention_mask": torch.cat([mask, torch.ones_like(written)], 1),
            DECODER_TOKENS: torch.cat([torch.zeros_like(ids), torch.ones_like(written)], 1),
        }
        text, tokens = self._read(answer)
        pieces = [str(index) for index in start] if self.tokenizer is None else self.tokenizer.convert_ids_to_tokens(list(start))
        between = [Token(piece, 0, 0, True, TEMPLATE) for piece in pieces]
        return replace(prepared, tensors=tensors, inputs=(replace(record, tokens=(*record.tokens, *between, *tokens), answer=text),))

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return how to read the explained numbers at ``place``, as :class:`GeneratedAnswer` does; what was written before the last of them
        counts as words of the input.

        Where several words are explained, each is also read for those after it. Words are then masked and not removed, as the explained
        ones must stay where they are.
        """
        reading = super().reading(place, task_input)
        assert place.tokens is not None
        length, words = self._answer(task_input).stop, self._words(task_input)  # the answer ends the row
        mark = partial(_mark_written, place.tokens[1] - length, [(begin - length, end - length) for begin, end in words])
        moves = place.tokens in words
        ids, first = task_input.tensors["input_ids"][0].tolist(), self._answer(task_input).start
        begins = int((task_input.tensors[DECODER_TOKENS][0] == 0).sum())
        complete = partial(self._joined, ids[begins:first], ids[first:])
        return replace(reading, mark=mark, complete=lambda prepared: mark(complete(prepared)), moves=moves)


def _mark_written(last: int, words: Sequence[tuple[int, int]], prepared: Prepared) -> Prepared:
    """Return ``prepared`` with the written words before the token ``last`` among its words, and their tokens no longer special; ``words``
    holds the first and the last token of each written word. Tokens are counted from the end (-1 is the last one), so that ``prepared`` may
    have another source than the one that was answered, as a made-up text has.
    """
    (record,) = prepared.inputs
    assert isinstance(record, TextInput)
    assert record.answer is not None
    tokens, written = record.tokens, []
    for first, end in words:
        start, stop = tokens[first].start, tokens[end].end
        if end < last and start < stop:
            places = tuple(range(len(tokens) + first, len(tokens) + end + 1))
            written.append(Word(record.answer[start:stop], start, stop, places, ANSWER))
    shown = {i for word in written for i in word.tokens}
    tokens = tuple(replace(token, special=i not in shown) if token.part == ANSWER else token for i, token in enumerate(tokens))
    of_source = tuple(word for word in record.words if word.part != ANSWER)
    return replace(prepared, inputs=(replace(record, tokens=tokens, words=(*of_source, *written)),))


def _start_of(module: Any) -> list[int]:
    """Return the ids with which the decoder of ``module`` begins. Raises ExplainerError if its configuration names none."""
    settings = [each for each in (getattr(module, "generation_config", None), module.config) if each is not None]

    def named(name: str) -> int | None:
        return next((value for each in settings if isinstance(value := getattr(each, name, None), int)), None)

    first = named("decoder_start_token_id")
    first = named("bos_token_id") if first is None else first
    if first is None:
        raise ExplainerError(
            f"the configuration of {type(module).__name__} names no decoder_start_token_id, with which an answer begins: set it"
        )
    forced = named("forced_bos_token_id")
    return [first] if forced is None else [first, forced]

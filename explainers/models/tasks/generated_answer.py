"""The answer that a language model writes to a prompt: which words of the prompt made it say *Paris*?

The answer is written once, greedily; prompt and answer are then read in one forward pass, which gives the logits of all its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import ANSWER, Prepared, TextInput, Token
from explainers.models.libraries.recognition import Library, text_config
from explainers.models.tasks.task import Place, Reading, TaskInput, add_task, tensor_of, top_class, transformers_class_ends
from explainers.models.tasks.text_places import number_repeats, place_in_text, spell_tokens, words_of
from explainers.models.tasks.vocabulary import VocabularyTask

MAX_NEW_TOKENS = 32  # of an answer, where the model's generation_config does not say max_new_tokens
_FORCED_START = 2  # ids of a decoder's start of which the second is forced; all of more are given
WORD = "word:"  # before a word of the answer, as a place


@add_task
class GeneratedAnswer(VocabularyTask):
    """Task of explaining an answer's tokens by the tokens of the prompt; their logits are read at the token before each.

    For one token the classes are the vocabulary; for several, the explained number is the sum of their own logits. Tokens of the answer
    count as input.
    """

    name = "text-generation"
    places_are = "answer (all of it), word:Paris, word:Paris#2 for the second one, tokens:5-7, or words (each word of it a class)"
    control = "words"
    #: The note on which tokens get scores.
    scores_are = "Scores are for the prompt alone. What the model wrote before the explained words counts as input."
    #: Of an answer's tokens, by the name of a tensor: their value where it is not that of the last token of the prompt.
    answer_values: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> VocabularyTask | None:
        """Return this task if ``module`` is a transformers decoder with the head of a language model, judged by ``library`` and ``output``,
        else None.
        """
        writes = transformers_class_ends(module, library, "ForCausalLM", "LMHeadModel") and not type(module).__name__.startswith("XL")
        logits = tensor_of(output, "logits")
        return cls() if writes and logits is not None and logits.dim() == 3 else None

    def trial(self, output: Any) -> Tensor:
        """Return from the module's output the logits (B, V) of the token that would come next."""
        return self.logits(output)[:, -1]

    def sample(self, text: str) -> str:
        """Return the sentence ``text`` without its last word, with which a model is checked when it is opened; after a complete sentence
        some models write nothing.
        """
        return text.rsplit(" ", 1)[0]

    def complete(self, prepared: Prepared, module: nn.Module) -> Prepared:
        """Return the prompt ``prepared`` followed by the answer that the model, ``module``, writes with ``generate`` of transformers,
        always with the likeliest token.

        Raises ExplainerError for several prompts, for a prompt that leaves no room, and if the model writes nothing.
        """
        if len(prepared) != 1:
            raise ExplainerError(f"One prompt is answered at a time, and {len(prepared)} were sent: send them one by one.")
        ids = prepared.tensors["input_ids"]
        if (room := self._room(module, ids.shape[1])) < 1:
            raise ExplainerError(f"The prompt fills all {ids.shape[1]} tokens that the model takes: send a shorter one.")
        given = {name: tensor for name, tensor in prepared.tensors.items() if name != "position_ids"}  # which are counted on
        answer, stopped = written_answer(module, given, room)
        if not answer:
            raise ExplainerError("The model writes nothing after this prompt: its likeliest token ends the text. Send another prompt.")
        notes = () if stopped else (f"The answer was cut after {len(answer)} tokens (max_new_tokens of the model's generation_config).",)
        return replace(self._join(answer, prepared), notes=((*prepared.notes[0], *notes),))

    @staticmethod
    def _room(module: nn.Module, tokens: int) -> int:
        """Return how many tokens ``module`` may still write after a prompt of this number of ``tokens``: at most as its settings say, and
        as its position embeddings allow.
        """
        declared = getattr(getattr(module, "generation_config", None), "max_new_tokens", None) or MAX_NEW_TOKENS
        limit = getattr(text_config(module), "max_position_embeddings", None)
        return min(declared, limit - tokens) if isinstance(limit, int) and limit > 0 else declared

    def _join(self, answer: Sequence[int], prepared: Prepared) -> Prepared:
        """Return ``prepared``, a prompt, with the tokens of ``answer`` appended."""
        record, length = prepared.inputs[0], prepared.tensors["input_ids"].shape[1]
        assert isinstance(record, TextInput)
        tensors = {}
        for name, tensor in prepared.tensors.items():
            behind = tensor[:, -1:].expand(-1, len(answer)) if tensor.shape == (1, length) else tensor
            if name == "input_ids":
                behind = torch.tensor([list(answer)], device=tensor.device, dtype=tensor.dtype)
            elif name in self.answer_values and tensor.shape == (1, length):
                behind = torch.full_like(behind, self.answer_values[name])
            elif name == "position_ids":
                behind = behind + torch.arange(1, len(answer) + 1, device=tensor.device)
            tensors[name] = torch.cat([tensor, behind], 1) if tensor.shape == (1, length) else tensor
        text, tokens = self._read(answer)
        return replace(prepared, tensors=tensors, inputs=(replace(record, tokens=(*record.tokens, *tokens), answer=text),))

    def _read(self, ids: Sequence[int]) -> tuple[str, list[Token]]:
        """Return the text and the tokens of an answer, decoded from its token ids ``ids``. The characters of a token are those by which it
        lengthens the text of the tokens before it.
        """
        if self.tokenizer is None:
            written = [str(index) for index in ids]
        else:
            texts = ["", *(str(self.tokenizer.decode(list(ids[: i + 1]))) for i in range(len(ids)))]
            written = [later[len(earlier) :] for earlier, later in pairwise(texts)]
        pieces = [str(index) for index in ids] if self.tokenizer is None else self.tokenizer.convert_ids_to_tokens(list(ids))
        tokens, text = [], ""
        for part, piece in zip(written, pieces, strict=True):
            text += " " + part if self.tokenizer is None and text else part
            bare = part.strip()
            start = len(text.rstrip()) - len(bare) if bare else len(text)
            tokens.append(Token(bare or piece, start, start + len(bare), True, ANSWER))
        return text, tokens

    @property
    def outputs(self) -> str:
        """A phrase that says in a model's report what a language model returns."""
        return "the next word, at each token; what is explained is its answer"

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the places of an answer that can be asked about: the whole answer, its words, and all words as classes. ``task_input``
        holds prompt and answer, and the model's output for them.
        """
        record, answer = task_input.record, self._answer(task_input)
        assert isinstance(record, TextInput)
        whole = answer[0], answer[-1]
        words = self._words(task_input)
        labels = number_repeats(words_of(record, *word) for word in words)
        places = [Place("answer", words_of(record, *whole), whole, score=self._probability(task_input, *whole))]
        for label, word in zip(labels, words, strict=True):
            first = self.logits(task_input.output)[0, word[0] - 1 - self._answer(task_input).stop]
            says = top_class(first, self.labels(len(first)))[0] if word[0] == word[1] else None
            places.append(Place(f"{WORD}{label}", label, word, says=says, score=self._probability(task_input, *word)))
        return [*places, Place("words", "each word of the answer", whole)]

    @staticmethod
    def _answer(task_input: TaskInput) -> range:
        """Return the range of the tokens of ``task_input`` that belong to the answer."""
        assert isinstance(task_input.record, TextInput)
        inside = [i for i, token in enumerate(task_input.record.tokens) if token.part == ANSWER]
        return range(inside[0], inside[-1] + 1)

    def _words(self, task_input: TaskInput) -> list[tuple[int, int]]:
        """Return the indices of the first and the last token of each word of the answer in ``task_input``. A token after white space begins
        a word; white space that is a token itself belongs to the word after it.
        """
        record = task_input.record
        assert isinstance(record, TextInput)
        words: list[tuple[int, int]] = []
        for index in self._answer(task_input):
            token, blank = record.tokens[index], bool(words) and self._is_blank(record, *words[-1])
            begins = not words or (not blank and not (record.answer or "")[token.start - 1 : token.start].strip())
            words = [*words, (index, index)] if begins else [*words[:-1], (words[-1][0], index)]
        return words

    @staticmethod
    def _is_blank(record: TextInput, first: int, last: int) -> bool:
        """Return whether the tokens from ``first`` to ``last`` of the text ``record`` are white space alone."""
        return all(token.start == token.end for token in record.tokens[first : last + 1])

    def _probability(self, task_input: TaskInput, first: int, last: int) -> float:
        """Return the probability that the model writes the tokens from index ``first`` to ``last`` of the text in ``task_input``, each
        after those before it: the product of theirs.
        """
        logits, ids, stop = self.logits(task_input.output)[0], task_input.tensors["input_ids"][0], self._answer(task_input).stop
        p = logits[first - 1 - stop : last - stop].double().log_softmax(-1).gather(-1, ids[first : last + 1, None])
        return float(p.sum().exp())

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the first of ``places``, the whole answer: the place that is explained if none is named."""
        return places[0]

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names: one of ``places``, or tokens of the answer in ``task_input`` by their numbers or their text.
        Raises ExplainerError if there is none.
        """
        wanted = at.strip()
        named = next((place for place in places if wanted in (place.at, place.at.removeprefix(WORD))), None)
        if named is not None:
            return named
        assert isinstance(task_input.record, TextInput)
        place, answer = place_in_text(wanted.removeprefix(WORD), task_input.record, ANSWER), self._answer(task_input)
        if place is None or place.tokens is None or not set(place.tokens) <= set(answer):
            raise ExplainerError(
                f"at={at!r} is no part of the answer, whose tokens are {spell_tokens(answer[0], answer[-1])}: "
                f"{task_input.record.answer!r}. Send {self.places_are}."
            )
        return next((known for known in places if known.tokens == place.tokens), place)

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading`, how to read from the model's output the explained numbers at ``place`` in the prompt and answer of
        ``task_input``: the logits of the vocabulary before one token; for several tokens the sum of their own logits; for ``words`` that
        sum for each word.
        """
        assert place.tokens is not None
        stop, (first, last) = self._answer(task_input).stop, place.tokens
        ids = task_input.tensors["input_ids"][0]
        keep = partial(self._join, ids[self._answer(task_input).start :].tolist())
        note = self.scores_are
        how: dict[str, Any] = {"moves": True, "complete": keep, "last_rows": stop - first + 1}
        differs = self._differing(task_input)
        if place.at != "words" and first == last:
            labels = self.labels(self.logits(task_input.output).shape[-1])
            before = first - 1 - stop  # from the end, as words of the prompt may be gone
            return Reading(place, lambda output: self.logits(output)[:, before], labels, token=first - 1, notes=(note, *differs), **how)
        record = task_input.record
        assert isinstance(record, TextInput)
        words = self._words(task_input) if place.at == "words" else [(first, last)]
        labels = number_repeats(words_of(record, *word) for word in words)
        summed = "The sum of the logits of the answer's tokens is explained."

        def read(output: Any) -> Tensor:
            logits = self.logits(output)
            sums = [
                sum((logits[:, index - 1 - stop, ids[index]] for index in range(start, end + 1)), logits.new_zeros(len(logits)))
                for start, end in words
            ]
            return torch.stack(sums, -1)

        return Reading(place, read, labels, "regression", notes=(summed, note, *differs), **how)

    def _differing(self, task_input: TaskInput) -> tuple[str, ...]:
        """Return a note if the single pass over prompt and answer in ``task_input`` finds other tokens most likely than those that the
        model wrote one by one, for example because tokens of the prompt attend to later ones.
        """
        answer, ids = self._answer(task_input), task_input.tensors["input_ids"][0]
        likeliest = self.logits(task_input.output)[0, answer.start - 1 - answer.stop : -1].argmax(-1)
        count = int((likeliest != ids[answer.start : answer.stop]).sum())
        if not count:
            return ()
        return (
            f"Over prompt and answer in one pass, {count} of the {len(answer)} tokens of the answer are not the likeliest, as they were "
            "when they were written one by one: the logits that are explained are those of the one pass.",
        )


def written_answer(module: Any, tensors: Mapping[str, Tensor], most: int, start: Sequence[int] = ()) -> tuple[list[int], bool]:
    """Let the model ``module`` write at most ``most`` tokens after the prompt in ``tensors``, always the likeliest; return their ids
    without the one that ends the text, and whether it came. ``start``: the ids with which the decoder of an encoder-decoder begins.
    """
    from transformers import GenerationConfig, GenerationMixin

    config = module.generation_config
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    greedy = GenerationConfig(
        max_new_tokens=most,
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id if config.pad_token_id is not None else ends[0],
        **(_starting(config, start) if start else {}),
    )
    before = len(start) or tensors["input_ids"].shape[1]
    begins = {"decoder_input_ids": torch.tensor([list(start)], device=module.device)} if len(start) > _FORCED_START else {}
    with torch.no_grad(), evaluating(module):
        # Whisper's own function writes long sounds in pieces, with times
        written = GenerationMixin.generate(module, **tensors, **begins, generation_config=greedy)[0, before:].tolist()
    stopped = bool(written) and written[-1] in ends
    return (written[:-1] if stopped else written), stopped


def _starting(config: Any, start: Sequence[int]) -> dict[str, Any]:
    """Return the settings by which a decoder begins with the ids ``start`` and never writes what its own ``config`` forbids, as Marian's
    padding. Nothing is cached, since transformers sizes a cache for as many layers as the encoder has (T5).
    """
    forced = {"forced_bos_token_id": start[1]} if len(start) == _FORCED_START else {}
    names = ("bos_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens")
    written: dict[str, Any] = {**{name: getattr(config, name, None) for name in names}, "use_cache": False}
    return {"decoder_start_token_id": start[0], **written, **forced}

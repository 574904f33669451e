"""A prompt with the chat template of its tokenizer around it: what the template adds is distinguished from the person's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.texts import TextReader, check_words
from explainers.models.inputs.types import TEMPLATE, Prepared, TextInput
from explainers.models.inputs.words import words_of


def has_chat_template(tokenizer: Any) -> bool:
    """Return whether the tokenizer has a chat template, which lays out what a person writes for a model that chats."""
    return bool(getattr(tokenizer, "chat_template", None))


def read_chat(reader: TextReader, text: Any, device: torch.device, further_content: Sequence[dict[str, Any]] = ()) -> Prepared:
    """Tokenize ``text`` by the chat template of the tokenizer of ``reader``, and return its tensors on ``device``: as a person's first turn
    followed by the beginning of the model's turn.

    ``further_content`` is further content of the turn, such as ``{"type": "image"}``. The record holds the person's text; tokens of the
    template are special and have the part :data:`TEMPLATE`. Raises ExplainerError if there is no template, if it changes the text, and for
    a text that is too long.
    """
    if not isinstance(text, str) or not text.strip():
        raise ExplainerError("a chat template is laid around one text: send a text of at least one word")
    if not has_chat_template(reader.tokenizer):
        raise ExplainerError("the tokenizer of this model has no chat template: leave chat= out")
    content: Any = [*further_content, {"type": "text", "text": text}] if further_content else text
    try:
        whole = reader.tokenizer.apply_chat_template([{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True)
    except Exception as problem:  # a template raises errors of its own
        raise ExplainerError(f"the chat template refuses this prompt: {problem}") from problem
    said = text.strip()
    start = str(whole).rfind(said)
    if start < 0:
        raise ExplainerError("the chat template changes the text, so which of its tokens are the person's is not known: leave chat= out")
    encoded = reader.tokenizer(whole, add_special_tokens=False, return_tensors="pt", return_offsets_mapping=True)
    tensors = {name: encoded[name].to(device) for name in encoded if isinstance(encoded[name], Tensor)}
    offsets, ids = tensors.pop("offset_mapping")[0].tolist(), tensors["input_ids"][0].tolist()
    if reader.max_tokens is not None and len(ids) > reader.max_tokens:
        raise ExplainerError(
            f"with its chat template the prompt has {len(ids)} tokens, and the model takes {reader.max_tokens}: send a shorter one"
        )
    shift, stop = start - text.index(said), start + len(said)
    is_said = [first < stop and last > start for first, last in offsets]
    spans = [
        (max(first, start) - shift, min(last, stop) - shift) if mine else (0, 0)
        for (first, last), mine in zip(offsets, is_said, strict=True)
    ]
    read = reader.tokens(text, ids, spans, [not mine for mine in is_said])
    tokens = tuple(token if mine else replace(token, part=TEMPLATE) for token, mine in zip(read, is_said, strict=True))
    check_words(text, tokens)
    return Prepared(tensors, (TextInput(text, tokens, words_of(text, tokens, encoded.word_ids(0))),), ((),))

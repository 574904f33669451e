"""Small tokenizers of the kinds that classifiers use, made here from a few sentences; ids fit ``tests.families.VOCABULARY``."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.families import CLASS, PADDING, SEPARATOR

SENTENCES = ["a good film", "not a bad movie", "the plot is well-made", "i don't like it"]


def wordpiece(max_tokens: int | None = 20) -> Any:
    """BERT's kind: lower case, words and punctuation apart, "##" pieces, [CLS] ... [SEP]."""
    words = ["film", "movie", "good", "bad", "not", "the", "don", "well", "made", "##s", "##ing", "'", "-", ".", ",", "!"]
    letters = [*string.ascii_lowercase, *(f"##{c}" for c in "abdegilmnorsty")]
    tokens = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *words, *letters]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(dict.fromkeys(tokens))}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    tokenizer.decoder = decoders.WordPiece()  # type: ignore[assignment]
    return _wrapped(tokenizer, max_tokens, ("[CLS]", "[SEP]"), unk_token="[UNK]", mask_token="[MASK]")


def bert_pieces(pieces: Sequence[str], special: Sequence[str]) -> Tokenizer:
    """BERT's kind over just these pieces, the special ones among them, as the recipes' encoders have it."""
    numbers = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(special))
    tokenizer.normalizer = normalizers.BertNormalizer()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    tokenizer.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="[CLS] $A [SEP]", special_tokens=[(token, numbers[token]) for token in ("[CLS]", "[SEP]")]
    )
    return tokenizer


def byte_level(max_tokens: int | None = 20) -> Any:
    """RoBERTa's kind: bytes, a space is part of the word that follows, <s> ... </s>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return _wrapped(tokenizer, max_tokens, ("<s>", "</s>"), pad_token="<pad>")


def sentencepiece(max_tokens: int | None = 20) -> Any:
    """ALBERT's and T5's kind: words cut at spaces only, and marked with a bar."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # type: ignore[assignment]
    tokenizer.decoder = decoders.Metaspace()  # type: ignore[assignment]
    special = ["<unk>", "<pad>", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        SENTENCES * 3, trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    return _wrapped(tokenizer, max_tokens, ("[CLS]", "[SEP]"), pad_token="<pad>", unk_token="<unk>")


def whole_text(max_tokens: int | None = 20) -> Any:
    """Llama's kind: byte pairs over the whole text, spaces written as bars and a bar set before it, bytes for what it does not know.

    Its word numbers are all 0.
    """
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.Sequence(  # type: ignore[assignment]
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<pad>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = [word for sentence in SENTENCES for word in sentence.split()]  # apart, so that no piece holds several
    tokenizer.train_from_iterator(words * 3, trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    return _wrapped(tokenizer, max_tokens, ("<s>", "</s>"), pad_token="<pad>", unk_token="<unk>")


def whole_text_unigram(max_tokens: int | None = 20) -> Any:
    """The same with pieces of a unigram model, as converted SentencePiece tokenizers have it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)  # type: ignore[assignment]
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    words = [word for sentence in SENTENCES for word in sentence.split()]
    trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator([*words, "好", "看", "的", "电", "影"] * 3, trainer)
    return _wrapped(tokenizer, max_tokens, ("<s>", "</s>"), pad_token="<pad>", unk_token="<unk>")


def _wrapped(tokenizer: Tokenizer, max_tokens: int | None, ends: tuple[str, str], pad_token: str = "[PAD]", **special: str) -> Any:
    first, last = ends
    assert (tokenizer.token_to_id(first), tokenizer.token_to_id(last), tokenizer.token_to_id(pad_token)) == (CLASS, SEPARATOR, PADDING)
    tokenizer.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single=f"{first} $A {last}", pair=f"{first} $A {last} $B:1 {last}:1", special_tokens=[(first, CLASS), (last, SEPARATOR)]
    )
    limit = {} if max_tokens is None else {"model_max_length": max_tokens}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, cls_token=first, sep_token=last, pad_token=pad_token, **special, **limit)

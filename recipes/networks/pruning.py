"""Make a pretrained BERT smaller before it is fine-tuned: fewer word pieces, fewer layers.

Vocabulary: a general English vocabulary spends most of its rows on pieces that film reviews never use. Rows are dropped
rarest first, and words that lose a piece fall apart into shorter pieces that stay (greedy longest match, as WordPiece splits), so
nothing in the Latin, Greek or Cyrillic script that could be read before becomes unreadable.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"  # a piece that continues a word starts with this
# Letters of other scripts are dropped: an English model knows nothing about them, and [UNK] says so.
SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
# The letters of the longest word that is split at all; BERT's 100 makes [UNK] of "noooo...oooo" although every letter is known. WordPiece
# tries all ends of what is left of a word, so each letter of it costs as the square of this: at 2,000 letters 300 times an ordinary text.
LONGEST_WORD = 200


def isolate_symbols(tokenizer: Tokenizer) -> Tokenizer:
    """Return the same tokenizer with every symbol (currency, arrows, emoji) a word of its own.

    BERT's rules leave an emoji glued to the word before it, and one unknown emoji then makes [UNK] of the word.
    """
    isolated = Tokenizer.from_str(tokenizer.to_str())
    isolated.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(Regex(r"\p{S}"), "isolated")]
    )
    return isolated


def skip_line_breaks(tokenizer: Tokenizer) -> Tokenizer:
    """Return ``tokenizer``, changed to read HTML's ``<br />`` as white space: reviews copied from web pages contain it, and it says
    nothing.
    """
    skipping = Tokenizer.from_str(tokenizer.to_str())
    line_break = normalizers.Replace(Regex(r"(?i)<br\s*/?>"), " ")
    skipping.normalizer = normalizers.Sequence([line_break, skipping.normalizer])  # type: ignore[assignment]
    return skipping


def word_frequencies(texts: Iterable[str], tokenizer: Tokenizer) -> Counter[str]:
    """Return how often each word occurs in ``texts``, words being what the ``tokenizer`` splits into pieces."""
    counts: Counter[str] = Counter()
    for text in texts:
        normalised = tokenizer.normalizer.normalize_str(text)
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised))
    return counts


def alphabet(vocabulary: Iterable[str], tokenizer: Tokenizer) -> list[str]:
    """Return the single characters of the ``vocabulary`` of ``tokenizer`` that must stay, as pieces at a word's start or inside one: all
    characters that a text in a known script can contain.

    Left out are letters of other scripts, characters that the normaliser replaces (an accented letter loses its accent), and continuations
    that cannot occur because the character always is a word of its own (punctuation, symbols).
    """
    letters = []
    for piece in vocabulary:
        character = piece.removeprefix(CONTINUES)
        if len(character) != 1 or tokenizer.normalizer.normalize_str(character) != character:
            continue
        letter = unicodedata.category(character)[0] in "LM"
        if letter and unicodedata.name(character, "").split(" ")[0] not in SCRIPTS:
            continue
        if piece.startswith(CONTINUES) and len(tokenizer.pre_tokenizer.pre_tokenize_str("a" + character)) > 1:
            continue
        letters.append(piece)
    return letters


def split_word(word: str, vocabulary: Mapping[str, object]) -> list[str]:
    """Split ``word`` into pieces of ``vocabulary`` by greedy longest match, and return them; ``["[UNK]"]`` if the word cannot be
    covered.
    """
    pieces, start = [], 0
    while start < len(word):
        prefix = CONTINUES if start else ""
        for end in range(len(word), start, -1):
            piece = prefix + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def prune_vocabulary(
    vocabulary: Sequence[str], frequencies: Mapping[str, float], required: Iterable[str], size: int, rounds: int = 8
) -> list[str]:
    """Choose the ``size`` pieces of ``vocabulary`` to keep, and return them: special tokens, then those in ``required``, then the most used
    by the ``frequencies`` of words, in the old order.

    Dropping a piece makes its parts more frequent, so the rarest are dropped in several ``rounds``, and pieces are counted again before
    each. Raises ValueError if the special and required pieces alone are more than ``size``.
    """
    fixed = dict.fromkeys((*SPECIAL_TOKENS, *required))
    if len(fixed) > size:
        raise ValueError(f"a vocabulary of {size} cannot hold the {len(fixed)} pieces that must stay; ask for at least {len(fixed)}")
    kept = dict.fromkeys((*SPECIAL_TOKENS, *(piece for piece in vocabulary if not piece.startswith("[unused"))))
    shrink = (size / len(kept)) ** (1 / rounds)
    for left in range(rounds - 1, -1, -1):
        used: Counter[str] = Counter()
        for word, count in frequencies.items():
            for piece in split_word(word, kept):
                used[piece] += count  # type: ignore[assignment]  # a Counter holds fractions just as well
        target = size if left == 0 else max(size, int(len(kept) * shrink))
        free = sorted((piece for piece in kept if piece not in fixed), key=lambda piece: -used[piece])
        chosen = set(free[: target - len(fixed)]).union(fixed)
        kept = dict.fromkeys((*SPECIAL_TOKENS, *(piece for piece in kept if piece in chosen)))
    return list(kept)


def with_vocabulary(tokenizer: Tokenizer, vocabulary: Sequence[str]) -> Tokenizer:
    """Return a tokenizer with the same normalising and splitting over another vocabulary, with neither padding nor truncation set."""
    description = json.loads(tokenizer.to_str())
    number = {piece: index for index, piece in enumerate(vocabulary)}
    description["model"].update(vocab=number, max_input_chars_per_word=LONGEST_WORD)
    description.update(truncation=None, padding=None)
    for token in description["added_tokens"]:
        token["id"] = number[token["content"]]
    for token in description["post_processor"]["special_tokens"].values():
        token["ids"] = [number[content] for content in token["tokens"]]
    return Tokenizer.from_str(json.dumps(description))


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write the files of ``tokenizer`` into the folder ``out``, without the settings of its last call, which would be stored as defaults,
    or how it was read itself.
    """
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    for name in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(name, None)
    tokenizer.save_pretrained(out)


def prune_embeddings(model: nn.Module, old: Mapping[str, int], vocabulary: Sequence[str]) -> None:
    """Keep only the rows of the pieces in ``vocabulary`` of the input embedding of ``model``, a transformers model, in place; ``old`` gives
    the row of each piece.
    """
    table: nn.Embedding = model.get_input_embeddings()  # type: ignore[operator]
    rows = table.weight.detach()[[old[piece] for piece in vocabulary]].clone()
    model.set_input_embeddings(nn.Embedding.from_pretrained(rows, freeze=False, padding_idx=0))  # type: ignore[operator]
    model.config.vocab_size = len(vocabulary)  # type: ignore[union-attr]


def drop_layers(model: nn.Module, dropped: Sequence[int]) -> None:
    """Remove the encoder layers numbered ``dropped``, counted from 0, from ``model``, a transformers BERT, with or without a head, in
    place.
    """
    encoder = getattr(model, "bert", model).encoder
    encoder.layer = nn.ModuleList(layer for index, layer in enumerate(encoder.layer) if index not in dropped)
    model.config.num_hidden_layers = len(encoder.layer)  # type: ignore[union-attr]

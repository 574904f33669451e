"""Texts become tokens and the words that a reader sees; what does not fit is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import regex
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from explainers import explain
from explainers.errors import ExplainerError
from explainers.models.inputs.texts import BOTH_ENDS, HEAD_SHARE, TextReader
from explainers.models.inputs.types import TextInput, TextPair
from explainers.models.preparing import Prompts
from explainers.models.wrapping import wrap
from tests.families import CLASS, FAMILIES, PADDING, SEPARATOR
from tests.support.vocabularies import byte_level, sentencepiece, whole_text, whole_text_unigram, wordpiece

CPU = torch.device("cpu")
MAKERS = {"wordpiece": wordpiece, "byte_level": byte_level, "sentencepiece": sentencepiece}
MAKERS |= {"whole_text": whole_text, "whole_text_unigram": whole_text_unigram}
TOKENIZERS: dict[str, Any] = {name: make(None) for name, make in MAKERS.items()}


def read(text: str, name: str = "wordpiece", max_tokens: int | None = None) -> TextInput:
    record = TextReader(TOKENIZERS[name], max_tokens).read([text], CPU).inputs[0]
    assert isinstance(record, TextInput)
    return record


def words(text: str, name: str = "wordpiece") -> list[str]:
    return [word.text for word in read(text, name).words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't like it.", ["I", "don't", "like", "it", "."]),
        ("I don’t like it.", ["I", "don’t", "like", "it", "."]),
        ("A well-made, not-so-bad film!", ["A", "well-made", ",", "not-so-bad", "film", "!"]),
        ("the movie's plot", ["the", "movie's", "plot"]),
        ("'good' films", ["'", "good", "'", "films"]),
        ("good - bad", ["good", "-", "bad"]),
        ("good--bad", ["good", "-", "-", "bad"]),
        ("film.Bad", ["film", ".", "Bad"]),
        ("Trailing space   and\n\nlines ", ["Trailing", "space", "and", "lines"]),
        ("Été à Łódź", ["Été", "à", "Łódź"]),
    ],
)
def test_words_are_those_a_reader_sees(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_byte_level_pieces_join_across_apostrophes_and_lose_their_spaces() -> None:
    assert words("I don't like the well-made film.", "byte_level") == ["I", "don't", "like", "the", "well-made", "film", "."]
    assert words("a good 🎬 film", "byte_level") == ["a", "good", "🎬", "film"]


def test_sentencepiece_words_are_cut_at_spaces() -> None:
    assert words("i don't like it", "sentencepiece") == ["i", "don't", "like", "it"]


@pytest.mark.parametrize("name", ["whole_text", "whole_text_unigram"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a good film, not a bad movie", ["a", "good", "film,", "not", "a", "bad", "movie"]),
        ("  i don't\n\nlike  it ", ["i", "don't", "like", "it"]),
        ("a 好看的 film", ["a", "好", "看", "的", "film"]),
        ("好看的电影", ["好", "看", "的", "电", "影"]),
    ],
)
def test_a_tokenizer_that_calls_the_whole_text_one_word_gets_its_words_from_white_space_and_scripts(
    name: str, text: str, expected: list[str]
) -> None:
    numbers = TOKENIZERS[name](text).word_ids()
    assert {number for number in numbers if number is not None} == {0}
    assert words(text, name) == expected


@pytest.mark.parametrize("name", ["byte_level", "whole_text"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("不好看", ["不", "好", "看"]),  # its first two are three bytes each
        ("映画はいい。", ["映", "画", "は", "い", "い", "。"]),
        ("good电影", ["good", "电", "影"]),
        ("中国-美国", ["中", "国", "-", "美", "国"]),
        ("ที่ดี", ["ที่", "ดี"]),  # each with its vowel sign and tone
        ("bad😀👍🏽", ["bad", "😀", "👍🏽"]),
        ("👨\u200d👩\u200d👧 🇩🇪🇫🇷", ["👨\u200d👩\u200d👧", "🇩🇪", "🇫🇷"]),
        ("영화는 좋다", ["영화는", "좋다"]),  # Korean has spaces
    ],
)
def test_scripts_without_white_space_and_emoji_are_cut_by_characters(name: str, text: str, expected: list[str]) -> None:
    assert words(text, name) == expected


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=80, deadline=None)
@given(text=st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab '-.’ \n")), min_size=1, max_size=40))
def test_every_token_has_one_word_and_words_are_slices_in_order(name: str, text: str) -> None:
    try:
        record = read(text, name)
    except ExplainerError:
        return
    members = [index for word in record.words for index in word.tokens]
    assert sorted(members) == [index for index, token in enumerate(record.tokens) if not token.special]
    assert len(set(members)) == len(members)
    for word in record.words:
        assert text[word.start : word.end] == word.text
    for token in record.tokens:
        assert 0 <= token.start <= token.end <= len(text)
        assert not token.special or token.start == token.end == 0
    starts = [word.start for word in record.words if word.text]
    assert starts == sorted(starts)


def test_tokens_are_slices_of_the_text_and_specials_are_marked() -> None:
    record = read("Good films")
    assert [(t.text, t.start, t.end, t.special) for t in record.tokens] == [
        ("[CLS]", 0, 0, True),
        ("Good", 0, 4, False),
        ("film", 5, 9, False),
        ("s", 9, 10, False),
        ("[SEP]", 0, 0, True),
    ]
    assert record.words[1].tokens == (2, 3)


def test_a_list_of_texts_is_padded_and_padding_is_special() -> None:
    model = wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    prepared = model.prepare(["a good film", "bad"])
    assert prepared.tensors["input_ids"].tolist()[1][2:] == [SEPARATOR, PADDING, PADDING]
    assert prepared.tensors["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    record = prepared.inputs[1]
    assert isinstance(record, TextInput)
    assert [token.special for token in record.tokens] == [True, False, True, True, True]
    assert [word.text for word in record.words] == ["bad"]
    with torch.no_grad():
        together = model.forward(prepared.tensors)
        alone = model.forward(model.tensors("bad"))
    torch.testing.assert_close(together[1:], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("max_tokens", [6, 7, 8, 20])
def test_says_how_many_words_did_not_fit(max_tokens: int) -> None:
    text = "I don't like the film"  # [CLS] i don ' t [UNK] the film [SEP]
    whole = read(text)
    prepared = TextReader(TOKENIZERS["wordpiece"], max_tokens).read([text, "bad"], CPU)
    record = prepared.inputs[0]
    assert isinstance(record, TextInput)
    left = len(whole.words) - len(record.words)
    assert len(record.tokens) == min(max_tokens, len(whole.tokens))
    assert bool(prepared.notes[0]) == (len(whole.tokens) > max_tokens)
    if prepared.notes[0]:
        assert left > 0
        assert prepared.notes[0][0].startswith(f"The model takes {max_tokens} tokens, so the last {left} word")
        assert prepared.notes[0][0].endswith(f"left out of {len(whole.words)}.")
    assert prepared.notes[1] == ()


@given(
    st.lists(st.sampled_from(["good", "don't", "film.", "unbelievable", "Été", "(bad)", "\n\nthe"]), min_size=1, max_size=60),
    st.integers(8, 40),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_model_that_reads_both_ends_gets_them(parts: list[str], most: int) -> None:
    text = " ".join(parts)
    tokenizer = wordpiece(None)
    whole = TextReader(tokenizer, None).read([text], CPU)
    tokenizer.init_kwargs["long_texts"] = BOTH_ENDS
    prepared = TextReader(tokenizer, most).read([text], CPU)
    before, record = whole.inputs[0], prepared.inputs[0]
    assert isinstance(record, TextInput)
    assert isinstance(before, TextInput)
    assert record.text == text
    assert len(record.tokens) <= most
    if len(before.tokens) <= most:
        assert record == before
        assert prepared.notes == ((),)
        return
    places, every = [[(word.start, word.end) for word in one.words] for one in (record, before)]
    head = next((i for i, (one, other) in enumerate(zip(places, every, strict=False)) if one != other), len(places))
    tail = len(places) - head
    if places[-1] != every[-1]:  # a last word too long to be read whole: then the beginning is read
        assert len(whole.inputs[0].words[-1].tokens) > (most - 2) - (most - 2) // HEAD_SHARE
        return
    assert places == every[:head] + every[len(every) - tail :]
    place = "middle" if head else "first"
    assert prepared.notes[0][0].startswith(f"The model takes {most} tokens, so the {place} {len(every) - len(places)} word")


def test_a_tokenizer_that_keeps_the_end_is_believed() -> None:
    tokenizer = wordpiece(None)
    tokenizer.truncation_side = "left"
    prepared = TextReader(tokenizer, 6).read(["good bad good bad the film"], CPU)
    record = prepared.inputs[0]
    assert isinstance(record, TextInput)
    assert [word.text for word in record.words] == ["good", "bad", "the", "film"]
    assert "the first 2 words were left out of 6" in prepared.notes[0][0]


def test_the_models_limit_comes_from_its_positions() -> None:
    model = wrap(FAMILIES["roberta"].build(), tokenizer=wordpiece(None))  # 20 positions, of which padding takes 2
    prepared = model.prepare("bad " * 40)
    assert prepared.tensors["input_ids"].shape == (1, 18)
    assert "the last 24 words were left out of 40" in prepared.notes[0][0]
    with torch.no_grad():
        assert model.forward(prepared.tensors).shape == (1, 3)


@pytest.mark.parametrize("text", ["", "   \n", "\u200b"])
def test_empty_texts_are_refused(text: str) -> None:
    model = wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    with pytest.raises(ExplainerError, match=r"empty|no words"):
        model.prepare(text)


@pytest.mark.parametrize("wrong", [Path("review.txt"), Image.new("RGB", (4, 4)), ["good", 3]])
def test_what_is_no_text_is_refused(wrong: Any) -> None:
    model = wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    with pytest.raises(ExplainerError, match=r"takes the text itself|holds an int"):
        model.prepare(wrong)


@pytest.mark.parametrize("lone", ["\ud800", "a good film \udcff", "\ude00\ud83d bad"])
def test_half_a_character_is_refused(lone: str) -> None:
    reads = wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    for wrong in (lone, [lone, "good"], TextPair("good", lone)):
        with pytest.raises(ExplainerError, match="surrogate without its partner"):
            explain(reads, wrong, methods="random")
    compares = wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(16))
    with pytest.raises(ExplainerError, match="surrogate without its partner"):
        explain(compares, FAMILIES["hf-clip"].inputs(1), prompts=["a film"], target=lone, methods="random")


def test_tensors_give_the_same_tokens_and_words_as_the_text() -> None:
    model = wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    said = model.prepare(["i don't see the well-made films", "bad"])
    again = model.prepare(said.tensors)
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in said.tensors.items())
    for before, after in zip(said.inputs, again.inputs, strict=True):
        assert isinstance(before, TextInput)
        assert isinstance(after, TextInput)
        assert [t.special for t in after.tokens] == [t.special for t in before.tokens]
        assert [w.tokens for w in after.words] == [w.tokens for w in before.words]
        assert after.text is not None
        assert [after.text[w.start : w.end] for w in after.words] == [w.text for w in after.words]
    assert [w.text for w in again.inputs[1].words] == ["bad"]  # type: ignore[union-attr]


def test_tensors_without_a_tokenizer_know_special_ids_and_padding() -> None:
    family = FAMILIES["bert"]
    model = wrap(family.build())
    prepared = model.prepare(family.inputs(batch=2))
    record = prepared.inputs[1]
    assert isinstance(record, TextInput)
    assert record.text is None
    ids = family.inputs(batch=2)["input_ids"][1].tolist()
    assert [token.text for token in record.tokens] == [str(i) for i in ids]
    assert [token.special for token in record.tokens] == [i in (CLASS, SEPARATOR, PADDING) for i in ids]


def test_ids_that_do_not_decode_to_themselves_are_tokens_without_words() -> None:
    model = wrap(FAMILIES["bert"].build(), tokenizer=wordpiece())
    letters = wordpiece().convert_tokens_to_ids(["f", "##i", "##l", "##m"])  # the tokenizer would say "film"
    record = model.prepare({"input_ids": torch.tensor([[CLASS, *letters, SEPARATOR]])}).inputs[0]
    assert isinstance(record, TextInput)
    assert (record.text, record.words) == (None, ())
    assert [token.text for token in record.tokens] == ["[CLS]", "f", "##i", "##l", "##m", "[SEP]"]


def test_what_is_no_tokenizer_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(ExplainerError, match="takes no Slow: pass a tokenizer of transformers"):
        wrap(FAMILIES["bert"].build(), tokenizer=Slow())


def test_prompts_become_tensors_and_logits() -> None:
    family = FAMILIES["hf-clip"]
    model = wrap(family.build(), tokenizer=wordpiece())
    assert model.prompt_inputs is not None
    prompts = model.prompt_inputs(["a good film", "bad"]).tensors
    assert prompts["input_ids"].shape == (2, 5)  # no more padding than the batch needs
    images = {"pixel_values": family.inputs(batch=3)["pixel_values"]}
    with torch.no_grad():
        logits = model.forward(images | prompts)
        alone = model.forward(images | model.prompt_inputs(["bad"]).tensors)
    assert logits.shape == (3, 2)
    torch.testing.assert_close(logits[:, 1:], alone, rtol=1e-4, atol=1e-4)


def test_prompts_are_padded_in_full_where_the_tower_reads_the_last_position() -> None:
    family = FAMILIES["hf-siglip"]
    tokenizer = wordpiece()
    tokenizer.model_input_names = ["input_ids"]  # as SigLIP's: no mask
    model = wrap(family.build(), tokenizer=tokenizer)
    assert isinstance(model.prompt_inputs, Prompts)
    prompts = model.prompt_inputs(["a good film", "bad"]).tensors
    assert prompts["input_ids"].shape == (2, 20)
    images = {"pixel_values": family.inputs(batch=1)["pixel_values"]}
    with torch.no_grad():
        torch.testing.assert_close(
            model.forward(images | prompts)[:, 1:], model.forward(images | model.prompt_inputs(["bad"]).tensors), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("prompts", [[], [""], ["a zebra", "  "]])
def test_empty_prompts_are_refused(prompts: list[str]) -> None:
    model = wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece())
    assert model.prompt_inputs is not None
    with pytest.raises(ExplainerError, match="at least one prompt"):
        model.prompt_inputs(prompts)


def test_prompts_without_a_tokenizer_name_the_argument() -> None:
    model = wrap(FAMILIES["hf-clip"].build())
    assert model.prompt_inputs is not None
    with pytest.raises(ExplainerError, match="tokenizer="):
        model.prompt_inputs(["a zebra"])


@pytest.mark.parametrize("text", ["中国很好", "👩‍👩‍👧 great 🇫🇷", "مرحبا بالعالم", "שלום עולם"])
def test_pieces_that_stand_for_bytes_never_divide_a_character(text: str) -> None:
    """GPT-2's kind cuts these into bytes: each token belongs to one word, and every word is of whole characters of the text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    prepared = TextReader(PreTrainedTokenizerFast(tokenizer_object=tokenizer), None).read([text], torch.device("cpu"))
    record = prepared.inputs[0]
    assert len(record.tokens) == len(text.encode())  # a token a byte
    assert sorted(i for word in record.words for i in word.tokens) == list(range(len(record.tokens)))
    edges = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    assert all({word.start, word.end} <= edges for word in record.words)
    assert "".join(word.text for word in record.words) == text.replace(" ", "")

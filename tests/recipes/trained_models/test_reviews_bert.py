"""The trained reviews-bert: loads offline, reads English as it is written, and is right about plain cases."""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # before transformers

# isort: split
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import explainers
import explainers.embedded
from recipes.evaluation import MODELS
from recipes.evaluation.reviews_probes import opinion_test
from recipes.reviews.calibration import neutral_facts
from recipes.reviews.data import Review, Special, head_and_tail, pieces_of
from recipes.reviews.text_predictions import accuracy, answers, predictions

MODEL = MODELS / "reviews-bert"
LABELS = ("negative", "positive")
SAMPLES = json.loads((Path(explainers.embedded.__file__).parent / "samples" / "reviews" / "index.json").read_text("utf-8"))["samples"]
SENTENCES = [
    ("A wonderful film with superb acting.", 1),
    ("The best film I have seen this year.", 1),
    ("I loved every minute of it.", 1),
    ("Funny, touching and beautifully shot.", 1),
    ("It isn't bad at all; in fact I enjoyed it.", 1),
    ("The plot is thin, but the performances are so good that I didn't mind.", 1),
    ("A masterpiece.", 1),
    ("A terrible waste of time.", 0),
    ("The plot is predictable and the acting is awful.", 0),
    ("I wanted to like it, but it is boring from beginning to end.", 0),
    ("Not a good film.", 0),
    ("The cast is great, but the script is a mess and the film never works.", 0),
    ("Don't waste your money on this.", 0),
    ("Dull, pretentious and far too long.", 0),
]
HELD_BACK = 0.95  # of the facts that drew no line; 97 % were measured
EMPTY = [
    "The film runs for 112 minutes and was released in March.",
    "I bought a table.",
    "It was filmed in Cairo in 1987.",
    "The train leaves at nine.",
]
ODD_TEXTS = [
    "Naïve “café” scenes — €5 well spent… it’s ½ as good as the ﬁrst, I’d say (★★★½)!",
    "WORST!!! MOVIE!!! EVER!!! 0/10 :-( <b>avoid</b> http://example.org/?q=1&r=2#top",
    "Noooooo" + "o" * 150 + " way, supercalifragilisticexpialidocious",
    "Dvořák, Łódź, Kieślowski, Buñuel, Straße, Μπάμπης, Тарковский: x² + y³ ≥ 1°",
    "tabs\tand\nnew lines\r\nand\u00a0hard spaces\u2009and {braces} [brackets] ~tilde~ `tick` ^ | \\ _ £ ¥ © ® ™ § ¶ † • ‰",
    "don't can't won't it's rock'n'roll 'tis",
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL, local_files_only=True)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForSequenceClassification.from_pretrained(MODEL, local_files_only=True).eval()


def test_loads_with_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    assert type(model).__name__ == "BertForSequenceClassification"
    assert model.config.id2label == dict(enumerate(LABELS))
    assert {value.dtype for value in model.state_dict().values() if value.is_floating_point()} == {torch.float32}
    assert tokenizer.is_fast
    assert tokenizer.model_max_length == model.config.max_position_embeddings == 512
    assert len(tokenizer) == model.config.vocab_size


def test_fits_in_25_megabytes() -> None:
    assert sum(file.stat().st_size for file in MODEL.rglob("*") if file.is_file()) <= 25_000_000


def test_vocab_txt_is_the_tokenizers_vocabulary(tokenizer: Any) -> None:
    lines = (MODEL / "vocab.txt").read_text("utf-8").split("\n")[:-1]
    assert lines == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_reads_odd_text(tokenizer: Any, text: str) -> None:
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


def test_an_emoji_costs_no_more_than_itself(tokenizer: Any) -> None:
    tokens = tokenizer.tokenize("Loved it😀, really❤️")
    assert [token for token in tokens if token not in ("[UNK]", "❤")] == ["loved", "it", ",", "really"]


@pytest.mark.parametrize("text", [*ODD_TEXTS, *(sample["text"] for sample in SAMPLES)])
def test_offsets_lead_back_to_the_text(tokenizer: Any, text: str) -> None:
    encoding = tokenizer(text, return_offsets_mapping=True)
    tokens = tokenizer.convert_ids_to_tokens(encoding["input_ids"])
    end = 0
    for token, (start, stop) in zip(tokens[1:-1], encoding["offset_mapping"][1:-1], strict=True):
        assert start >= end
        assert not text[end:start].strip()  # nothing but space between pieces
        piece = token.removeprefix("##")
        assert tokenizer.backend_tokenizer.normalizer.normalize_str(text[start:stop]) == piece
        end = stop
    assert not text[end:].strip()


def test_accents_and_case_do_not_matter(tokenizer: Any) -> None:
    assert tokenizer.tokenize("A NAÏVE Film") == tokenizer.tokenize("a naive film")


def test_is_right_about_plain_sentences(model: Any, tokenizer: Any) -> None:
    answers = predictions(model, tokenizer, [Review(*sentence) for sentence in SENTENCES])
    assert [(text, LABELS[answer]) for (text, _), answer in zip(SENTENCES, answers, strict=True)] == [
        (text, LABELS[label]) for text, label in SENTENCES
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, "no_opinion") for text in EMPTY),
        ("Je me suis ennuyé du début à la fin.", "unreadable_language"),
        ("Прекрасный фильм с отличными актёрами.", "unreadable_language"),
        ("A wonderful film with superb acting.", None),
        ("I have never been so bored.", None),
    ],
)
def test_says_what_it_cannot_judge(text: str, kind: str | None) -> None:
    said = explainers.explain(explainers.load("reviews-bert"), text, None, ["random"]).abstention
    assert (said.kind if said else None) == kind


def test_facts_that_drew_no_line_hold_no_opinion_and_reviews_do(model: Any, tokenizer: Any) -> None:
    said = opinion_test(MODEL, model, tokenizer)
    assert said is not None
    facts, opinions = neutral_facts(held_back=True), [text for text, _ in SENTENCES]
    assert len(facts) == 64
    assert not set(facts) & set(neutral_facts(held_back=False))
    assert float(said(facts, answers(model, tokenizer, facts)).float().mean()) >= HELD_BACK
    assert not said(opinions, answers(model, tokenizer, opinions)).any()


def test_line_breaks_of_html_change_nothing(model: Any, tokenizer: Any) -> None:
    with torch.inference_mode():
        plain, broken = (model(**tokenizer(text, return_tensors="pt")).logits for text in ("Dull. I left.", "Dull.<br /><br />I left."))
    assert torch.equal(plain, broken)


@pytest.mark.parametrize("template", ["a film about a {} family", "{} and I watched it last night."])
def test_the_word_probe_measures_the_logit_of_the_card(model: Any, tokenizer: Any, template: str) -> None:
    """What the card calls the change of the logit is what the probe shows, and it stays within what was set out for these."""
    words = ["American", "Muslim", "blind", "gay"] if "family" in template else ["Emily", "DeShawn", "Fatima", "Wei"]
    ours = explainers.load("reviews-bert")
    texts = [template.replace("{}", word) for word in words]
    logits = answers(model, tokenizer, texts)[:, 1].tolist()
    shown = [explainers.explain(ours, text, "positive", ["random"]).target.logit for text in texts]
    assert shown == pytest.approx(logits, abs=1e-3)
    assert max(logits) - min(logits) <= 1.5


def test_samples_say_what_the_model_answers(model: Any, tokenizer: Any) -> None:
    """``expected`` is what a reader would say; where the model says otherwise, the sample must own up to it."""
    answers = predictions(model, tokenizer, [Review(sample["text"], 0) for sample in SAMPLES])
    said = {sample["id"]: LABELS[answer] for sample, answer in zip(SAMPLES, answers, strict=True)}
    assert said == {sample["id"]: sample.get("model_says", sample["expected"]) for sample in SAMPLES}
    assert sum("model_says" in sample for sample in SAMPLES) <= 1


def test_pieces_are_neither_cut_nor_padded(tokenizer: Any) -> None:
    stored = json.loads((MODEL / "tokenizer.json").read_text("utf-8"))
    assert (stored["truncation"], stored["padding"]) == (None, None)
    tokenizer(["good", "a good film"], padding=True, truncation=True)
    assert [len(pieces) for pieces in pieces_of(tokenizer, ["good", "good " * 600])] == [1, 600]


def test_right_of_each_class() -> None:
    reviews = [Review("a", 0), Review("b", 0), Review("c", 1)]
    assert [accuracy(reviews, [0, 1, 1], label) for label in (0, 1, 2)] == [0.5, 1.0, 0.0]


def test_samples_are_reviews_of_both_kinds() -> None:
    assert len({sample["id"] for sample in SAMPLES}) == len(SAMPLES) >= 6
    assert {sample["expected"] for sample in SAMPLES} == set(LABELS)
    for sample in SAMPLES:
        assert sample["kind"] == "text"
        assert sample["model"] == MODEL.name
        assert sample["title"]
        assert sample["note"]
        assert 40 <= len(sample["text"].split()) <= 120


def test_half_of_the_words_are_enough(model: Any, tokenizer: Any) -> None:
    """Nearly always for the plain reviews, mostly for those that turn on a "not" or a "but"."""
    kept: dict[str, list[bool]] = {}
    for sample in SAMPLES:
        review = Review(sample["text"], LABELS.index(sample.get("model_says", sample["expected"])))
        answers = [predictions(model, tokenizer, [review], masked=0.5, seed=seed)[0] for seed in range(8)]
        kept[sample["id"]] = [answer == review.label for answer in answers]
    assert sum(kept["review-praise"] + kept["review-pan"]) >= 15
    assert sum(sum(right) for right in kept.values()) / (8 * len(SAMPLES)) >= 0.6


def test_a_text_of_masks_only_is_answered_without_conviction(model: Any, tokenizer: Any) -> None:
    with torch.inference_mode():
        probabilities = model(**tokenizer("[MASK] " * 100, return_tensors="pt")).logits.softmax(-1)
    assert probabilities.max() < 0.9


def test_the_ends_of_long_texts_are_read(model: Any, tokenizer: Any) -> None:
    """By the engine as in the recipe; transformers alone would stop at the 512th piece, before the verdict."""
    words = [f"and then scene {number} with the {('old', 'young')[number % 2]} man," for number in range(200)]
    text = " ".join(["I saw this film.", *words, "What a dull, awful, tedious mess. I hated it."])
    ours = explainers.load("reviews-bert").tensors(text)["input_ids"][0]
    special = Special.of(tokenizer)
    recipe = head_and_tail(pieces_of(tokenizer, [text])[0], 510)
    assert 512 - 8 <= len(ours) <= 512  # cut between words
    assert ours[:100].tolist() == [special.cls, *recipe[:99].tolist()]
    assert ours[-300:].tolist() == [*recipe[-299:].tolist(), special.sep]
    with torch.inference_mode():
        assert model(ours[None]).logits.argmax().item() == 0

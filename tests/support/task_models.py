"""Tiny random models with a task: their outputs are more than one row of logits."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import explainers
from explainers.models.inputs.images import Preprocessing
from tests.support.vocabularies import wordpiece

# isort: split
from transformers import BertConfig, BertForTokenClassification, Dinov2Config, Dinov2Model

SIZE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = "the good movie, not a bad film"


@cache
def token_classifier() -> explainers.Model:
    """Calls words O or LOC."""
    torch.manual_seed(0)
    tokenizer = wordpiece(30)
    labels: dict[str, Any] = {"num_labels": 2, "id2label": {0: "O", 1: "LOC"}}
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=32, **labels, **SIZE)
    return explainers.wrap(BertForTokenClassification(config).eval(), name="names", tokenizer=tokenizer, device="cpu")


@cache
def backbone() -> explainers.Model:
    """Features of a picture of 4 x 4 patches."""
    torch.manual_seed(0)
    module = Dinov2Model(Dinov2Config(image_size=56, patch_size=14, mlp_ratio=2, **SIZE)).eval()
    return explainers.wrap(module, name="backbone", preprocess=Preprocessing(resize=(56, 56), fit="squash"), device="cpu")

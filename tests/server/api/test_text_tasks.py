"""Models that say which word comes, over HTTP: no vocabulary is sent, a word is typed, an answer is kept as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

import explainers
from tests.server.conftest import Check, Site, Sites
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.vocabularies import byte_level, wordpiece

# isort: split
from tokenizers import processors
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

PROMPT = "a good film, not a bad movie"


@cache
def masked() -> explainers.Model:
    torch.manual_seed(0)
    tokenizer = wordpiece(30)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32}
    return explainers.wrap(BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **size)).eval(), name="masked", tokenizer=tokenizer)


@cache
def writer() -> explainers.Model:
    torch.manual_seed(0)
    tokenizer = byte_level(40)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    size: Any = {"n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 2, "eos_token_id": 3}
    module: Any = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), initializer_range=0.3, **size)).eval()
    module.generation_config.max_new_tokens = 4
    with torch.no_grad():
        module.lm_head.weight[:270] *= 0.1  # it writes words, as its bytes hardly count
    return explainers.wrap(module, name="writer", tokenizer=tokenizer)


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, "reviews-bert": masked, "timm/other": writer})) as one:
        yield one


def test_a_word_at_a_mask_is_typed_and_no_vocabulary_sent(site: Site, refused: Check) -> None:
    text = "the [MASK] film"
    document = site.ask(wait=True, model="reviews-bert", text=text, methods=["random"], at="mask", target="movie", against="good").json()
    assert document["targets"][0]["label"] == "movie − good"
    assert (document["at"], document["place"]["tokens"]) == ("mask", [2, 2])
    assert site.get("/api/models/reviews-bert")["labels"] == []
    refused(site.ask(wait=True, model="reviews-bert", text="the film"), 422, "cannot-explain")


def test_an_answer_is_kept_and_asked_about_again(site: Site) -> None:
    document = site.ask(wait=True, model="timm/other", text=PROMPT, methods=["attcat:libra", "random"]).json()
    assert (document["task"], document["at"], document["output"]) == ("text-generation", "answer", "regression")
    tokens = document["input"]["tokens"]
    assert [token["part"] for token in tokens] == [0] * (len(tokens) - 4) + [2] * 4
    assert document["place"]["label"] == document["input"]["answer"].strip()
    test = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["how"] == "removed"
    assert test["curves"][0]["value"][0] == pytest.approx(document["targets"][0]["logit"], abs=1e-3)
    word = document["places"][1]
    again = site.ask(wait=True, model="timm/other", source=document["id"], methods=["random"], at=word["at"]).json()
    assert (again["place"], again["input"]["answer"]) == (word, document["input"]["answer"])
    words = site.ask(wait=True, model="timm/other", source=document["id"], methods=["random"], at="words", target=["0", "1"]).json()
    assert [target["label"] for target in words["targets"]] == [place["label"] for place in document["places"][1:3]]

"""What a language model writes: read in one pass, equal to the model's own logits, with a full account over the prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.types import ANSWER
from explainers.models.model import Model
from tests.support.vocabularies import byte_level, whole_text

# isort: split
from tokenizers import processors
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

PROMPT = "a good film, not a bad movie"
WRITTEN = 5


def without_end(tokenizer: Any) -> Any:
    """Prompts have no token behind them."""
    first = tokenizer.cls_token
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A", special_tokens=[(first, tokenizer.cls_token_id)]
    )
    return tokenizer


def of_words(module: Any, tokenizer: Any) -> Model:
    """One that writes words, as its bytes hardly count."""
    with torch.no_grad():
        module.lm_head.weight[:270] *= 0.1
    return explainers.wrap(module.eval(), tokenizer=tokenizer)


def gpt2() -> Model:
    torch.manual_seed(0)
    tokenizer = without_end(byte_level(40))
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=40, n_embd=32, n_layer=2, n_head=2, bos_token_id=2, eos_token_id=3, initializer_range=0.3
    )
    return of_words(GPT2LMHeadModel(config), tokenizer)


def llama() -> Model:
    torch.manual_seed(0)
    tokenizer = without_end(whole_text(40))
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    size |= {"max_position_embeddings": 40, "bos_token_id": 2, "eos_token_id": 3}
    config = LlamaConfig(vocab_size=len(tokenizer), initializer_range=0.3, **size)
    return of_words(LlamaForCausalLM(config), tokenizer)


@pytest.fixture(scope="module", params=[gpt2, llama])
def model(request: Any) -> Model:
    made: Model = request.param()
    module: Any = made.module
    module.generation_config.max_new_tokens = WRITTEN
    return made


def own(model: Model, tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits (S, V) and the ids."""
    with torch.no_grad():
        logits: torch.Tensor = model.module(**tensors).logits[0]
    return logits, tensors["input_ids"][0]


def test_the_answer_is_what_the_model_writes(model: Model) -> None:
    result = explainers.explain(model, PROMPT, methods="fullgrad:libra")
    module: Any = model.module
    prompt = model.tensors(PROMPT)["input_ids"]
    with torch.no_grad():
        ids = prompt
        for _ in range(WRITTEN):
            ids = torch.cat([ids, module(ids).logits[:, -1:].argmax(-1)], 1)
    assert result.tensors["input_ids"].tolist() == ids.tolist()
    start = prompt.shape[1]
    assert [token.part == ANSWER for token in result.input.tokens] == [False] * start + [True] * WRITTEN
    assert result.input.answer == model.task.tokenizer.decode(ids[0, start:])  # type: ignore[union-attr]
    logits, _ = own(model, result.tensors)
    expected = sum(float(logits[i - 1, ids[0, i]]) for i in range(start, start + WRITTEN))
    assert result.target.logit == pytest.approx(expected, rel=1e-5)
    assert (result.place.at, result.place.tokens) == ("answer", (start, start + WRITTEN - 1))
    assert result.completeness("libra") < 1e-4
    assert result["fullgrad:libra"].content.tolist() == [not token.special for token in result.input.tokens]
    assert not result["fullgrad:libra"].content[start:].any()
    assert any("cut after 5 tokens" in note for note in result.notes)


def test_one_token_is_asked_against_the_vocabulary(model: Model) -> None:
    start = model.tensors(PROMPT)["input_ids"].shape[1]
    result = explainers.explain(model, PROMPT, [None, explainers.Contrast(None, "film")], "fullgrad:libra", at=f"token:{start + 2}")
    logits, ids = own(model, result.tensors)
    torch.testing.assert_close(result.logits, logits[start + 1])
    assert result.targets[0].index == int(ids[start + 2])
    assert result.targets[0].probability == pytest.approx(float(logits[start + 1].softmax(-1).max()), abs=1e-5)
    assert result.completeness("libra", 1) < 1e-4
    again = explainers.explain(model, result.tensors, methods="random", at="answer")  # a prompt of its own
    assert len(again.tensors["input_ids"][0]) == len(ids) + WRITTEN


def test_words_of_the_prompt_are_removed_and_the_answer_stays(model: Model) -> None:
    start = model.tensors(PROMPT)["input_ids"].shape[1]
    result = explainers.explain(model, PROMPT, methods=["attcat:libra", "random"], at=f"tokens:{start + 1}-{start + 2}")
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    assert (test.how, test.explains) == ("removed", "value")
    left = result.tensors["input_ids"][:, [0, *range(start, start + WRITTEN)]]
    logits, ids = own(model, {"input_ids": left})
    assert test.curves[0].values["value"][-1] == pytest.approx(float(logits[1, ids[2]] + logits[2, ids[3]]), rel=1e-4)


def test_an_answer_that_the_pass_does_not_find_likeliest_is_said(model: Model) -> None:
    prepared = model.prepare(PROMPT)
    assert not any("not the likeliest" in note for note in model.at(None, prepared).reading.notes)  # type: ignore[union-attr]
    ids = prepared.tensors["input_ids"].clone()
    ids[0, -1] = (ids[0, -1] + 1) % 20 + 4
    other = replace(prepared, tensors={**prepared.tensors, "input_ids": ids})
    assert any("1 of the 5 tokens" in note for note in model.at(None, other).reading.notes)  # type: ignore[union-attr]


def test_places_are_written_as_words(model: Model) -> None:
    places = explainers.explain(model, PROMPT, methods="random").places
    assert (places[0].at, places[-1].at) == ("answer", "words")
    words = places[1:-1]
    assert len(words) > 1
    covered = [token for word in words for token in range(word.tokens[0], word.tokens[1] + 1)]
    assert covered == list(range(places[0].tokens[0], places[0].tokens[1] + 1))
    for word in words:
        assert explainers.explain(model, PROMPT, methods="random", at=word.at).place == word
        assert explainers.explain(model, PROMPT, methods="random", at=word.label).place == word


@pytest.mark.parametrize(("prompt", "at", "message"), [(PROMPT, "token:1", "is no part of the answer"), (PROMPT, "word:London", "tokens:")])
def test_what_is_no_part_of_the_answer(model: Model, prompt: str, at: str, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.explain(model, prompt, methods="random", at=at)


def test_a_prompt_that_leaves_no_room_is_refused(model: Model) -> None:
    ids = torch.full((1, 40), 9)
    with pytest.raises(ExplainerError, match="fills all 40 tokens"):
        explainers.explain(model, {"input_ids": ids}, methods="random")

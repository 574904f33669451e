"""Models of sentence pairs: a bi-encoder marks each text by its similarity to the other, a cross-encoder with one logit marks both."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers import TextPair
from explainers.models.inputs.types import TextInput
from tests.support.vocabularies import wordpiece

# isort: split
import transformers as hf

FIRST, SECOND = "not a good film", "the movie is bad ."


@cache
def cross_encoder() -> Any:
    torch.manual_seed(0)
    size: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = hf.BertConfig(**size, vocab_size=len(wordpiece()), num_labels=1, max_position_embeddings=40)
    module = hf.BertForSequenceClassification(config).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module


def bi_encoder(root: Path) -> Path:
    """A folder as sentence-transformers writes it."""
    torch.manual_seed(0)
    size: Any = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    hf.BertModel(hf.BertConfig(**size, vocab_size=len(wordpiece()), max_position_embeddings=24)).save_pretrained(root)
    wordpiece(24).save_pretrained(root)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"path": place, "type": f"sentence_transformers.models.{kind}"} for place, kind in kinds.items()]
    (root / "modules.json").write_text(json.dumps(modules))
    (root / "1_Pooling").mkdir()
    (root / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}))
    return root


def tokenizer() -> Any:
    made = wordpiece(24)
    made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]  # as BERT's own
    return made


def input_x_gradient(block: Any, run: Any) -> tuple[Tensor, Tensor]:
    """What ``run`` returns, and the gradient times the input of ``block`` for each token, by torch's hooks alone."""
    seen: list[Tensor] = []
    handle = block.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    number = run()
    handle.remove()
    (gradient,) = torch.autograd.grad(number, seen[0])
    return number.detach(), (seen[0] * gradient).sum(-1)[0].detach()


def check_words(record: Any, scores: Tensor, expected: Tensor) -> None:
    assert isinstance(record, TextInput)
    for word in record.words:
        ours, theirs = (float(values[list(word.tokens)].sum()) for values in (scores, expected))
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-5 * float(expected.abs().max()))


def test_a_cross_encoder_marks_both_texts() -> None:
    module = cross_encoder()
    tensors = tokenizer()(FIRST, SECOND, return_tensors="pt")
    logit, expected = input_x_gradient(module.bert.encoder.layer[0], lambda: module(**tensors).logits[0, 0])
    model = explainers.wrap(module, tokenizer=tokenizer())
    result = explainers.explain(model, TextPair(FIRST, SECOND), 0, ["input_x_gradient", "fullgrad:libra"])
    assert float(result.logits[0]) == pytest.approx(float(logit), abs=1e-6)
    assert model.output == "regression"
    assert result.completeness("libra") < 1e-10
    record: Any = result.input
    assert [word.text for word in record.words if word.part == 0] == FIRST.split()
    assert [word.text for word in record.words if word.part == 1] == SECOND.split()
    check_words(record, result.maps[0].scores, expected)
    for part in (0, 1):  # neither is left out
        assert any(float(result.maps[0].scores[list(word.tokens)].abs().sum()) > 0 for word in record.words if word.part == part)


@pytest.mark.parametrize(("text", "other"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_a_bi_encoder_marks_each_text_by_its_similarity_to_the_other(text: str, other: str, tmp_path: Path) -> None:
    root = bi_encoder(tmp_path)
    words = hf.AutoTokenizer.from_pretrained(root)
    model = explainers.wrap(explainers.open(root, check="none").module.double(), tokenizer=words)
    module = hf.AutoModel.from_pretrained(root, dtype=torch.float64).eval()

    def vector(sentence: str) -> Tensor:
        pooled: Tensor = module(**words(sentence, return_tensors="pt")).last_hidden_state[0].mean(0)
        return pooled

    reference = vector(other).detach()
    cosine, expected = input_x_gradient(module.encoder.layer[0], lambda: F.cosine_similarity(vector(text), reference, dim=0))
    result = explainers.explain(model, text, methods=["input_x_gradient", "fullgrad:libra"], at="similar", reference=other)
    assert float(result.logits) == pytest.approx(float(cosine), abs=1e-6)  # the same number both ways round
    both = F.cosine_similarity(vector(FIRST), vector(SECOND), dim=0).detach()
    assert float(cosine) == pytest.approx(float(both), abs=1e-12)
    assert result.completeness("libra") < 1e-10
    check_words(result.input, result.maps[0].scores, expected)
    assert [word.text for word in result.input.words] == text.split()  # type: ignore[union-attr]

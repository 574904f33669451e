"""What is asked of text classifiers alone: the token that the head reads, causal attention, padding on either side."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from tests.explainers.support.formulas import twin_of
from tests.explainers.support.text_twins import TWINS
from tests.explainers.support.wrapped import inputs, specs_for, wrapped
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

TEXTS = [name for name, family in FAMILIES.items() if family.kind == "text"]
CAUSAL = [name for name in TEXTS if FAMILIES[name].class_token == -1]
TARGET = 1


def padded_left(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same texts with their padding in front, and positions that count from the first real token, as generation passes them."""
    mask = tensors["attention_mask"]
    shifts = (mask.shape[1] - mask.sum(1)).tolist()
    moved = {name: torch.stack([row.roll(shift) for row, shift in zip(tensor, shifts, strict=True)]) for name, tensor in tensors.items()}
    return moved | {"position_ids": (moved["attention_mask"].cumsum(1) - 1).clamp(min=0)}


@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_word_is_what_the_head_reads_in_every_sample(name: str) -> None:
    tensors = inputs(name, 3)
    lengths = tensors["attention_mask"].sum(1)
    assert int(lengths[2]) < int(lengths[0])
    right, left = Recording(wrapped(name), tensors), Recording(wrapped(name), padded_left(tensors))
    assert right.class_tokens is not None
    assert left.class_tokens is not None
    assert right.class_tokens.tolist() == (lengths - 1).tolist()
    assert left.class_tokens.tolist() == [tensors["input_ids"].shape[1] - 1] * 3


@pytest.mark.parametrize("name", CAUSAL)
def test_no_word_attends_to_a_later_one(name: str) -> None:
    recording = Recording(wrapped(name), inputs(name, 2))
    for attention in recording.attentions:
        assert attention is not None
        assert not bool(attention.triu(1).any())


@pytest.mark.parametrize("name", CAUSAL)
def test_attention_is_read_at_the_last_word(name: str) -> None:
    """Raw attention and rollout against their formulas, row of the last real token."""
    tensors = inputs(name, 2)
    recording = Recording(wrapped(name), tensors)
    maps = [a.detach().mean(1) for a in recording.attentions if a is not None]
    found = explainers.explain(wrapped(name), tensors, methods=["raw_attention", "rollout"])
    for sample, one in enumerate(found):
        length = int(tensors["attention_mask"][sample].sum())
        first, second = (m[sample, :length, :length] for m in maps)
        eye = torch.eye(length, dtype=first.dtype)
        rolled = ((second + eye) / 2 @ ((first + eye) / 2))[-1]
        torch.testing.assert_close(one["raw_attention"].scores.double(), second[-1], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(one["rollout"].scores.double(), rolled, rtol=1e-5, atol=1e-7)
        assert one["rollout"].scores[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", CAUSAL)
def test_texts_keep_their_scores_on_whichever_side_the_tokenizer_pads(name: str, side: str) -> None:
    """Positions count from the first word, also where the model would count them from the padding."""
    tokenizer = wordpiece()
    tokenizer.padding_side = side
    model = explainers.wrap(FAMILIES[name].build(), tokenizer=tokenizer)
    texts, specs = ["not a good movie .", "a bad film"], ["fullgrad_plus:libra", "rollout"]
    assert model.tensors(texts)["attention_mask"].tolist()[1] == ([1] * 5 + [0] * 2 if side == "right" else [0] * 2 + [1] * 5)
    for text, together in zip(texts, explainers.explain(model, texts, target=1, methods=specs), strict=True):
        alone = explainers.explain(model, text, target=1, methods=specs)
        torch.testing.assert_close(together.logits, alone.logits, rtol=1e-4, atol=1e-5)
        for spec in specs:
            a, b = together[spec], alone[spec]
            torch.testing.assert_close(a.scores, b.scores, rtol=1e-3, atol=1e-4 * float(b.scores.abs().max()))
            assert [word.text for word in a.words()] == text.split()


@pytest.mark.slow
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", TEXTS)
def test_padding_changes_no_score_and_gets_none(name: str, side: str) -> None:
    """Of every method: the scores are those of the real tokens alone. On the left where the head reads the last word."""
    if side == "left" and name not in CAUSAL:
        pytest.skip("the head reads the first token, or positions are counted from it")
    model, tensors = wrapped(name), inputs(name, 2)
    real = tensors["attention_mask"][1].bool()
    without = {key: value[1:, real] for key, value in tensors.items()}
    given = padded_left(tensors) if side == "left" else tensors
    specs = specs_for(model)
    assert len(specs) > 15
    padded = explainers.explain(model, given, target=TARGET, methods=specs)[1]
    alone = explainers.explain(model, without, target=TARGET, methods=specs, seed=1)
    for spec in specs:
        a, b = padded[spec], alone[spec]
        assert len(a.scores) == len(a.tokens) == int(real.sum()), spec
        assert torch.equal(a.content, b.content), spec
        assert float((a.scores - b.scores).abs().max()) <= 1e-5 * float(b.scores.abs().max()) + 1e-12, spec


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_every_rule_is_that_of_the_model_written_out(name: str) -> None:
    """The signal at x^1 under every rule, of one short text, against the model as a plain function in the operators of the rule."""
    model = wrapped(name)
    tensors = {key: value[:1, -4:] for key, value in inputs(name, 1).items()}
    recording = Recording(model, tensors)
    seed = torch.linspace(1, -1, recording.logits.shape[1], dtype=torch.float64)[None]
    module = copy.deepcopy(model.module).requires_grad_(False)
    for rule in RULES.values():
        x = recording.block_inputs[0].detach().clone().requires_grad_()
        logits = TWINS[name](module, twin_of(rule), x)
        torch.testing.assert_close(logits.detach(), recording.logits.detach(), rtol=1e-9, atol=1e-10)
        (expected,) = torch.autograd.grad(logits, x, seed)
        found = recording.cached_backward(rule, seed).block_inputs[0]
        bound = 1e-4 if rule.is_relevance else 1e-9  # relevance up to its stabiliser of 1e-9, which sees scores before or after scaling
        assert float((found - expected).abs().max()) <= bound * float(expected.abs().max()), rule.name

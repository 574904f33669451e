"""The chat template of a tokenizer around a prompt: its tokens are told apart, stay, and are in the numbers."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.types import TEMPLATE
from tests.support.task_models import chatting, masked, picture_writer, writer

WITH_PICTURES = (
    "{% for m in messages %}the {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %} {{ c['text'] }}{% endif %}"
    "{% endfor %} is{% endfor %}{% if add_generation_prompt %} a{% endif %}"
)
PROMPT = "good film"


def test_the_template_is_in_the_numbers_and_stays() -> None:
    model = chatting(writer())
    assert model.details["chat_template"] is True
    result = explainers.explain(model, PROMPT, methods=["fullgrad:libra", "random"], chat=True)
    tokenizer = model.task.tokenizer
    length = len(tokenizer("the good film is a", add_special_tokens=False)["input_ids"])
    assert result.tensors["input_ids"][0, :length].tolist() == tokenizer("the good film is a", add_special_tokens=False)["input_ids"]
    own = [token.text for token in result.input.tokens if not token.special]
    assert "".join(own).replace("Ġ", "") == "goodfilm"
    assert [word.text for word in result.input.words] == ["good", "film"]
    assert [result.input.text[word.start : word.end] for word in result.input.words] == ["good", "film"]
    template = [i for i, token in enumerate(result.input.tokens) if token.part == TEMPLATE]
    assert len(template) >= 3
    assert bool(result["fullgrad:libra"].scores[template].abs().sum() > 0)
    assert not result["fullgrad:libra"].content[template].any()
    assert result.completeness("libra") < 1e-4
    with torch.no_grad():
        logits, ids = model.module(**result.tensors).logits[0], result.tensors["input_ids"][0]
    first, last = result.place.tokens
    assert result.target.logit == pytest.approx(sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1)), rel=1e-4)
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0))
    left = [i for i, token in enumerate(result.input.tokens) if token.special]
    with torch.no_grad():
        logits, ids = model.module(input_ids=ids[left][None]).logits[0], ids[left]
    written = last - first + 1
    expected = sum(float(logits[i - 1, ids[i]]) for i in range(len(left) - written, len(left)))
    assert test.curves[0].values["value"][-1] == pytest.approx(expected, rel=1e-4)
    assert explainers.answer_table(model, PROMPT, chat=True).columns == ("good", "film")


def test_a_template_lays_the_picture_before_the_words() -> None:
    model = chatting(picture_writer(), WITH_PICTURES)
    picture = Image.new("RGB", (40, 40), (200, 30, 30))
    result = explainers.explain(model, explainers.PicturePrompt(picture, PROMPT), methods="random", chat=True)
    image = model.module.config.image_token_id
    ids = result.tensors["input_ids"][0]
    assert (ids == image).nonzero().flatten().tolist() == list(range(result.input.first, result.input.first + 16))
    assert result.input.tokens[0].part == TEMPLATE
    assert [word.text for word in result.input.words] == ["good", "film"]
    assert not any("does not say where" in note for note in result.notes)


def test_what_has_no_template_says_so() -> None:
    for model in (writer(), masked()):
        with pytest.raises(ExplainerError, match="has no chat template"):
            explainers.explain(model, "the [MASK] film", methods="random", chat=True)
    shouting = chatting(writer(), "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}")
    with pytest.raises(ExplainerError, match="changes the text"):
        explainers.explain(shouting, PROMPT, methods="random", chat=True)
    with pytest.raises(ExplainerError, match="the model takes 40"):
        explainers.explain(chatting(writer()), "film " * 50, methods="random", chat=True)

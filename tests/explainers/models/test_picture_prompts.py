"""A picture among the tokens of a text: where it stands, tensors of a processor, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.types import PicturePromptInput
from tests.support.task_models import picture_writer

# isort: split
from transformers import (
    CLIPVisionConfig,
    GemmaConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    SiglipVisionConfig,
)

PICTURE = Image.new("RGB", (40, 40), (200, 30, 30))


def test_a_picture_stands_where_the_text_says_else_before_it() -> None:
    model = picture_writer()
    image = model.module.config.image_token_id  # type: ignore[union-attr]
    for text, first, note in (("a <image> film", 3, False), ("a film", 1, True)):
        prepared = model.prepare_input(explainers.PicturePrompt(PICTURE, text))
        record = prepared.inputs[0]
        assert isinstance(record, PicturePromptInput)
        assert (record.first, record.grid, record.text) == (first, (4, 4), text)
        ids = prepared.tensors["input_ids"][0]
        assert (ids == image).nonzero().flatten().tolist() == list(range(first, first + 16))
        assert [record.tokens[word.tokens[0]].text for word in record.words] == ["a", "film"]
        assert any("Write <image>" in said for said in prepared.notes[0]) == note
        again = model.prepare_input(prepared.tensors).inputs[0]
        assert isinstance(again, PicturePromptInput)
        assert (again.first, len(again.tokens)) == (first, len(record.tokens))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a text alone", "reads a picture and a prompt"),
        (explainers.PicturePrompt(PICTURE, "a <image> and <image>"), "2 places for a picture"),
        ({"input_ids": torch.tensor([[2, 9, 9]]), "pixel_values": torch.zeros(1, 3, 32, 32)}, "hold 0 tokens of a picture"),
        ({"input_ids": torch.tensor([[2, 9, 9]])}, "tensors of a picture and a prompt"),
    ],
)
def test_what_is_no_picture_with_a_prompt(inputs: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        picture_writer().prepare(inputs)


def test_a_model_that_reads_types_of_tokens_says_that_it_got_none() -> None:
    size: Any = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = picture_writer()
    image = model.module.config.image_token_id  # type: ignore[union-attr]
    tokenizer = model.task.tokenizer  # type: ignore[union-attr]
    text = GemmaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, head_dim=16, eos_token_id=3, max_position_embeddings=64, **size)
    vision = SiglipVisionConfig(image_size=32, patch_size=8, **size)
    config = PaliGemmaConfig(vision_config=vision, text_config=text, image_token_id=image, projection_dim=32)
    preprocess = explainers.Preprocessing(resize=(32, 32), fit="squash")
    twin = explainers.wrap(PaliGemmaForConditionalGeneration(config).eval(), tokenizer=tokenizer, preprocess=preprocess)
    asked = explainers.PicturePrompt(PICTURE, "a <image> film")
    assert any("token_type_ids" in note for note in twin.prepare_input(asked).notes[0])
    assert not any("token_type_ids" in note for note in model.prepare_input(asked).notes[0])


def test_tokens_that_fill_no_grid_are_refused() -> None:
    size: Any = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = CLIPVisionConfig(image_size=32, patch_size=8, projection_dim=32, **size)
    config = LlavaConfig(
        vision_config=vision, text_config=LlamaConfig(vocab_size=60, **size), image_token_id=9, vision_feature_select_strategy="full"
    )
    with pytest.raises(ExplainerError, match="17 tokens of a picture, which fill no square"):
        explainers.wrap(LlavaForConditionalGeneration(config).eval())

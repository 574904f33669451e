"""Maps of the words that a vision-language model writes, from logits alone: a tiny LLaVA."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.analysis.token_activation import clean_map, rank_filter, scale_map
from tests.support.task_models import picture_writer, writer

# isort: split
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

IMAGE, GRID = 9, (4, 4)
PROMPT = [2, *[IMAGE] * 16, 11, 12, 13]
WRITTEN = 4


@pytest.fixture(scope="module")
def llava() -> Any:
    torch.manual_seed(0)
    size: Any = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = CLIPVisionConfig(image_size=32, patch_size=8, projection_dim=32, **size)
    text = LlamaConfig(vocab_size=60, num_key_value_heads=2, bos_token_id=2, eos_token_id=3, initializer_range=0.2, **size)
    return LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, image_token_id=IMAGE)).eval()


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    ids = torch.tensor([PROMPT])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels}


def test_maps_are_made_of_the_models_own_logits(llava: Any, tensors: dict[str, Tensor]) -> None:
    found = explainers.token_activation_maps(llava, tensors, tokens=WRITTEN)
    ids = tensors["input_ids"]
    with torch.no_grad():
        for _ in range(WRITTEN):
            logits = llava(input_ids=ids, pixel_values=tensors["pixel_values"]).logits[0]
            ids = torch.cat([ids, logits[-1:].argmax(-1)[None]], 1)
        logits = llava(input_ids=ids, pixel_values=tensors["pixel_values"]).logits[0].clamp(min=0).double()
    written = ids[0, len(PROMPT) :].tolist()
    assert found.tokens == tuple(map(str, written))
    assert found.maps.shape == (WRITTEN, *GRID)
    seen = slice(1, 17)
    for place, token in enumerate(written):
        earlier = list(range(17, len(PROMPT) + place))
        others = [i for i in earlier if int(ids[0, i]) != token]
        behind = torch.stack([logits[seen, ids[0, i]] for i in others])
        cleaned = clean_map(logits[seen, token], behind, logits[others, token])[2]
        expected = rank_filter(scale_map(cleaned, logits[earlier, token]).view(GRID))
        torch.testing.assert_close(found.maps[place], expected.float(), rtol=1e-3, atol=1e-5)
    assert found.notes == (f"The answer was cut after {WRITTEN} tokens.",)
    assert len(found.figure().axes) == WRITTEN
    assert found.to_json()["tokens"] == list(found.tokens)


def test_a_picture_and_a_prompt_give_the_maps_of_their_tensors() -> None:
    model = picture_writer()
    asked = explainers.PicturePrompt(Image.new("RGB", (40, 40), (200, 30, 30)), "a good <image> film")
    found = explainers.token_activation_maps(model, asked)
    tokenizer = model.task.tokenizer  # type: ignore[union-attr]
    alone = explainers.token_activation_maps(model.module, model.tensors(asked), tokenizer=tokenizer, tokens=WRITTEN)
    torch.testing.assert_close(found.maps, alone.maps)
    assert (found.tokens, found.answer.strip()) == (alone.tokens, alone.answer.strip())
    assert explainers.explain(model, asked, methods="random", at=found.places[1]).place.tokens[0] == int(found.places[1].partition(":")[2])
    with pytest.raises(ExplainerError, match="writes nothing about pictures"):
        explainers.token_activation_maps(writer(), "a good film")


@pytest.mark.parametrize(
    ("changes", "how", "message"),
    [
        ({"input_ids": torch.tensor([[2, 11, 12]])}, {}, "has 0 tokens of a picture"),
        ({}, {"grid": (3, 5)}, "fill no grid of 3 x 5"),
        ({"input_ids": torch.tensor([PROMPT, PROMPT])}, {}, "one picture and one prompt"),
    ],
)
def test_what_cannot_be_asked(llava: Any, tensors: dict[str, Tensor], changes: Any, how: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.token_activation_maps(llava, {**tensors, **changes}, **how)

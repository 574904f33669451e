"""Models that read a text and a picture in one row of tokens (ViLT): logits, maps, places of patches, processors and refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers import ExplainerError, PicturePrompt, Preprocessing
from explainers.models.inputs.images import processor_preprocessing
from explainers.models.inputs.types import PicturePromptInput
from tests.support.vocabularies import wordpiece

# isort: split
import transformers as hf
from transformers.models.vilt.image_processing_pil_vilt import ViltImageProcessorPil

NAMES = ["ViltForQuestionAnswering", "ViltForImageAndTextRetrieval"]
ANSWERS = {0: "yes", 1: "no", 2: "red"}
RECIPE = Preprocessing(resize=None, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
TEXT = "is the film good"
#: Rows and columns of patches of 8 pixels of the picture, which is wider than high.
ROWS, COLUMNS = 3, 4


@cache
def vilt(name: str, **further: Any) -> Any:
    torch.manual_seed(0)
    size: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = hf.ViltConfig(**size, vocab_size=len(wordpiece()), image_size=32, patch_size=8, pad_token_id=1, id2label=ANSWERS, **further)
    module = getattr(hf, name)(config).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module


@cache
def model(name: str) -> explainers.Model:
    return explainers.wrap(vilt(name), tokenizer=wordpiece(), preprocess=RECIPE)


@cache
def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (8 * ROWS, 8 * COLUMNS, 3), dtype=np.uint8))


def tensors() -> dict[str, Tensor]:
    """What a processor gives, without our code."""
    pixels = torch.from_numpy(np.asarray(picture()).copy()).permute(2, 0, 1)[None].double() / 127.5 - 1
    return {**wordpiece()(TEXT, return_tensors="pt"), "pixel_values": pixels, "pixel_mask": torch.ones(1, *pixels.shape[-2:]).long()}


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_plain_model(name: str) -> None:
    with torch.no_grad():
        expected = vilt(name)(**tensors()).logits
        ours = model(name)
        for inputs in (PicturePrompt(picture(), TEXT), tensors()):
            logits = ours.forward(ours.prepare(inputs).tensors)
            torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)  # pixels are prepared in float32
    assert tuple(ours.labels) == (("match",) if "Retrieval" in name else ("yes", "no", "red"))
    assert ours.output == ("regression" if "Retrieval" in name else "sigmoid")


def gradient_times_input(name: str, index: int) -> tuple[Tensor, Tensor]:
    """Input x gradient of each word and of the patches as (rows, columns), from the hooks of transformers' own module: which of its tokens
    is which patch, as the order is random, is said by the numbers of the token before its position was added.
    """
    module = vilt(name)
    seen: list[Tensor] = []
    handle = module.vilt.encoder.layer[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    found: list[Any] = []
    embed = module.vilt.embeddings.visual_embed

    def listen(*args: Any, **kwargs: Any) -> Any:
        found.append(embed(*args, **kwargs))
        return found[-1]

    module.vilt.embeddings.visual_embed = listen
    try:
        logits = module(**tensors()).logits
    finally:
        handle.remove()
        del module.vilt.embeddings.visual_embed
    (x,) = seen
    (gradient,) = torch.autograd.grad(logits[0, index], x)
    scores = (x * gradient).sum(-1)[0].detach()
    places = found[0][2][0][0]
    words = len(tensors()["input_ids"][0])
    on_picture = torch.zeros(ROWS, COLUMNS, dtype=torch.float64)
    for (row, column), score in zip(places.tolist(), scores[words + 1 :], strict=True):
        on_picture[row, column] = score
    return scores[:words], on_picture


@pytest.mark.parametrize("name", NAMES)
def test_input_x_gradient_is_that_of_torch_on_words_and_on_patches(name: str) -> None:
    torch.manual_seed(7)  # another order than that of any pass of ours
    words, on_picture = gradient_times_input(name, 0)
    result = explainers.explain(model(name), PicturePrompt(picture(), TEXT), 0, ["input_x_gradient", "fullgrad:libra"])
    record = result.input
    assert isinstance(record, PicturePromptInput)
    assert (record.grid, record.first) == ((ROWS, COLUMNS), len(words) + 1)
    scores = result.maps[0].scores.double()
    found = record.on_picture(scores)
    assert torch.allclose(found, on_picture, rtol=1e-5, atol=1e-5 * float(on_picture.abs().max()))
    for word in record.words:
        expected = float(words[list(word.tokens)].sum())
        assert float(scores[list(word.tokens)].sum()) == pytest.approx(expected, rel=1e-5, abs=1e-5 * float(on_picture.abs().max()))
    assert [word.text for word in record.words] == TEXT.split()


@pytest.mark.parametrize("name", NAMES)
def test_under_libra_the_terms_add_up_to_the_logit(name: str) -> None:
    result = explainers.explain(model(name), PicturePrompt(picture(), TEXT), 0, ["fullgrad:libra"])
    assert result.completeness("libra") < 1e-10


def test_the_patch_that_is_changed_is_the_patch_that_is_drawn() -> None:
    name = NAMES[0]
    ours, first = model(name), vilt(name).vilt.encoder.layer[0]

    def tokens(image: Image.Image) -> Tensor:
        seen: list[Tensor] = []
        handle = first.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
        prepared = ours.prepare(PicturePrompt(image, TEXT))
        ours.forward(prepared.tensors)
        handle.remove()
        record = prepared.inputs[0]
        assert isinstance(record, PicturePromptInput)
        on_grid: Tensor = seen[0][0, record.patches].unflatten(0, record.grid)
        return on_grid

    for row, column in ((0, 0), (1, 3), (2, 1)):
        changed = picture().copy()
        changed.paste((0, 255, 0), (8 * column, 8 * row, 8 * column + 8, 8 * row + 8))
        moved = (tokens(changed) - tokens(picture())).abs().amax(-1) > 0
        assert moved.nonzero().tolist() == [[row, column]]


def test_removed_words_and_patches_are_attended_to_by_nobody() -> None:
    ours, plain = model(NAMES[0]), vilt(NAMES[0])
    prepared = ours.prepare(PicturePrompt(picture(), TEXT))
    mask = torch.ones_like(prepared.tensors["input_ids"])
    words = len(tensors()["input_ids"][0])
    mask[0, 2] = mask[0, words + 1 + 5] = 0  # a word, and the sixth patch
    embeddings, keep = plain.vilt.embeddings, mask[0].bool()
    with torch.no_grad():
        torch.manual_seed(3)
        x = embeddings(**tensors(), token_type_ids=None, inputs_embeds=None, image_embeds=None)[0]
        torch.manual_seed(3)  # the same order once more
        _, _, (places, _) = embeddings.visual_embed(tensors()["pixel_values"], tensors()["pixel_mask"], max_image_length=-1)
        row = (places[0] * torch.tensor([COLUMNS, 1])).sum(-1).argsort() + words + 1
        x = torch.cat([x[:, : words + 1], x[:, row]], 1)[:, keep]
        for layer in plain.vilt.encoder.layer:
            x = layer(x)[0] if isinstance(layer(x), tuple) else layer(x)
        expected = plain.classifier(plain.vilt.pooler(plain.vilt.layernorm(x)))
        found = ours.forward({**prepared.tensors, "attention_mask": mask})
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [(640, 480), (480, 640), (1023, 768), (200, 900), (333, 333), (501, 1000)])
def test_pictures_are_prepared_as_by_the_processor(size: tuple[int, int]) -> None:
    processor = ViltImageProcessorPil(size={"shortest_edge": 96})
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    expected = processor(image, return_tensors="pt")["pixel_values"][0]
    pixels, _ = processor_preprocessing(processor)(image)
    torch.testing.assert_close(pixels, expected, rtol=1e-5, atol=1e-5)


def test_a_folder_opens_and_agrees_with_its_own_processor(tmp_path: Path) -> None:
    plain = vilt(NAMES[0])
    plain.save_pretrained(tmp_path)
    processor = hf.ViltProcessor(ViltImageProcessorPil(size={"shortest_edge": 32}, size_divisor=8), wordpiece())
    processor.save_pretrained(tmp_path)
    image = picture().resize((50, 40))
    opened = explainers.open(tmp_path)
    assert opened.report is not None
    assert opened.reads_pictures
    with torch.no_grad():
        expected = plain.float()(**processor(image, TEXT, return_tensors="pt")).logits
        found = opened.forward(opened.prepare(PicturePrompt(image, TEXT)).tensors)
    plain.double()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    specs = ["input_x_gradient", "fullgrad:libra", "transformer_attribution", "occlusion"]  # in float32
    result = explainers.explain(opened, PicturePrompt(image, TEXT), "red", specs)
    assert [shown.method for shown in result.maps] == specs
    assert all(bool(shown.scores.isfinite().all()) and shown.scores.shape == (7 + 1 + 20,) for shown in result.maps)
    assert result.completeness("libra") < 1e-4


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a text alone", "reads a picture and a prompt"),
        (PicturePrompt([Image.new("RGB", (24, 24)), Image.new("RGB", (24, 24))], TEXT), "one picture with a text, and 2"),
        ({"input_ids": torch.tensor([[2, 9, 3]])}, "tensors of a text and a picture"),
    ],
)
def test_what_is_no_text_with_a_picture(inputs: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        model(NAMES[0]).prepare(inputs)


def test_patches_that_are_drawn_at_random_are_refused() -> None:
    with pytest.raises(ExplainerError, match="4 of 16 patches"):
        explainers.wrap(vilt(NAMES[0], max_image_length=4), tokenizer=wordpiece(), preprocess=RECIPE)

"""Vision-language models of many families: read by their own processors, equal to the plain model, each patch where it lies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.picture_tiles import PictureTile
from explainers.models.inputs.types import ANSWER, PICTURE, TEMPLATE, ImageInput, PicturePromptInput
from explainers.models.picture_layout import pixel_places, why_unverified
from explainers.models.processor_prompts import ProcessorReader
from explainers.records.input_json import input_from_json
from explainers.rendering.overlays import render_overlay
from tests.support.picture_models import FAMILIES, blip2, build, internvl, process, qwen2_5_vl
from tests.support.written_answers import input_x_gradient_of_torch
from vitrine_server.cli import main

METHODS = ("input_x_gradient", "input_x_gradient:libra", "fullgrad:libra")
LAST_OF_ATTENTION = ("self_attn.out_proj", "attn.proj", "attention.projection_layer")
PIXELS = np.random.default_rng(0).integers(0, 256, (64, 100, 3), dtype=np.uint8)


class Family:
    """A family's model in double precision, its processor, and an explanation of what it writes about a picture of 100 x 64 pixels."""

    def __init__(self, name: str) -> None:
        make, self.grid = FAMILIES[name]
        module, self.processor = build(make)
        self.module: Any = module.double()
        self.model = explainers.wrap(self.module, name=name, preprocess=self.processor)
        self.placeholder = self.processor.image_token
        self.prompt = f"a good {self.placeholder} film, not bad"
        self.result: Any = explainers.explain(self.model, explainers.PicturePrompt(Image.fromarray(PIXELS), self.prompt), methods=METHODS)
        assert isinstance(self.result.input, PicturePromptInput)
        self.record: PicturePromptInput = self.result.input


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return Family(request.param)


def own_tensors(family: Family, pixels: Any = PIXELS) -> dict[str, Tensor]:
    """What the processor itself gives the model."""
    given = process(family.processor, family.prompt, Image.fromarray(pixels))
    return {name: t.double() if t.is_floating_point() else t for name, t in given.items()}


def test_answer_and_logits_are_the_plain_models(family: Family) -> None:
    own, found = own_tensors(family), family.result.tensors
    with torch.no_grad():
        written = family.module.generate(**own, max_new_tokens=4, do_sample=False)[0]
        logits = family.module(**found).logits[0]
    length = own["input_ids"].shape[1]
    for name, tensor in own.items():
        assert torch.equal(found[name][:, :length] if tensor.shape == own["input_ids"].shape else found[name], tensor), name
    ids = found["input_ids"][0]
    assert ids.tolist() == written[: len(ids)].tolist()
    first, last = family.result.place.tokens
    expected = sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1))
    assert family.result.target.logit == pytest.approx(expected, rel=1e-6)
    assert not any("not the likeliest" in note for note in family.result.notes)
    assert any("first 2 blocks (deepstack)" in note for note in family.result.notes) == ("Qwen3" in type(family.module).__name__)


def test_input_x_gradient_is_that_of_torch(family: Family) -> None:
    expected = input_x_gradient_of_torch(family.module, family.result)
    found = family.result["input_x_gradient"]
    torch.testing.assert_close(found.scores[found.content].double(), expected[found.content], rtol=1e-5, atol=1e-6)
    patches = family.record.patches
    assert float(family.record.on_picture(found.scores).sum()) == pytest.approx(float(expected[patches].sum()), rel=1e-4, abs=1e-5)


def test_terms_of_libra_add_up(family: Family) -> None:
    assert family.result.completeness("libra") < 1e-5


def test_the_patch_that_changes_is_the_patch_that_is_drawn(family: Family) -> None:
    """Change one cell of the picture: of the tokens that the vision tower makes, those drawn there change most. The last maps of its
    attentions are zero, so that random ones do not carry the change elsewhere.
    """
    twin = copy.deepcopy(family.module)
    of_attention = [name for name, _ in twin.named_parameters() if "vis" in name and any(part in name for part in LAST_OF_ATTENTION)]
    assert len(of_attention) >= 4
    with torch.no_grad():
        for name in of_attention:
            twin.get_parameter(name).zero_()
    takes = ("pixel_values", "image_grid_thw", "image_sizes", "pixel_attention_mask", "batch_num_images")

    def features(pixels: Any) -> Tensor:
        given = {name: t for name, t in own_tensors(family, pixels).items() if name in takes}
        with torch.no_grad():
            made = twin.get_image_features(**given).pooler_output
        return torch.cat([part.reshape(-1, part.shape[-1]) for part in ([made] if isinstance(made, Tensor) else made)])

    before, (rows, columns) = features(PIXELS), family.record.grid
    assert (rows, columns) == family.grid
    token = getattr(family.module.config, "image_token_id", None)
    places = (family.result.tensors["input_ids"][0] == token).nonzero().flatten()
    for row, column in ((0, 0), (rows - 1, 0), (0, columns - 1), (rows // 2, columns // 2)):
        changed = PIXELS.copy()
        down, across = (slice(i * side // count, (i + 1) * side // count) for i, side, count in ((row, 64, rows), (column, 100, columns)))
        changed[down, across] = 255 - changed[down, across]
        moved = torch.zeros(len(family.record.tokens), dtype=torch.float64)
        moved[places] = (features(changed) - before).square().sum(-1)
        drawn = family.record.on_picture(moved)
        assert divmod(int(drawn.argmax()), columns) == (row, column)
        assert float(drawn[max(0, row - 2) : row + 3, max(0, column - 2) : column + 3].sum()) > 0.75 * float(drawn.sum())


def test_the_record_says_which_tokens_are_of_the_picture(family: Family) -> None:
    record, token = family.record, family.module.config.image_token_id
    ids = family.result.tensors["input_ids"][0].tolist()
    assert [word.text for word in record.words] == ["a", "good", "film", ",", "not", "bad"]
    assert [i for i, t in enumerate(record.tokens) if t.part == PICTURE] == [i for i, index in enumerate(ids) if index == token]
    assert {i for i, t in enumerate(record.tokens) if t.part == PICTURE and not t.special} == set(record.patches.tolist())
    for word in record.words:
        said = [token.text for token in map(record.tokens.__getitem__, word.tokens) if token.end > token.start]
        assert "".join(said) == word.text == str(record.text)[word.start : word.end]
    assert all(token.special for token in record.tokens if token.part == ANSWER)
    assert input_from_json(record.to_json()) == record
    assert render_overlay(family.result, family.result.maps[0]).height > 0


def test_hidden_tokens_get_no_attention_and_move_no_others(family: Family) -> None:
    """The model without a patch: its attention mask is 0 there, and all positions are those of the whole prompt."""
    result, patch = family.result, int(family.record.patches[1])
    test = explainers.deletion_test(family.model, result, fractions=(0.0, 1.0))
    content = result.maps[0].content
    assert (test.how, test.tokens) == ("removed", int(content.sum()))
    mask = torch.ones_like(result.tensors["input_ids"])
    mask[0, content] = 0
    given = {**result.tensors, "attention_mask": mask}
    if hasattr(family.module.model, "get_rope_index"):
        names = ("input_ids", "mm_token_type_ids", "image_grid_thw")
        given["position_ids"] = family.module.model.get_rope_index(**{name: given[name] for name in names})[0]
    with torch.no_grad():
        logits = family.module(**given).logits[0]
    ids, (first, last) = given["input_ids"][0], result.place.tokens
    expected = sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1))
    assert test.curves[0].values["value"][-1] == pytest.approx(expected, rel=1e-4)
    assert bool(content[patch])


def test_a_layout_that_is_wrong_is_not_verified(family: Family) -> None:
    """The tokens of a tile in the order of columns, and those of two tiles exchanged."""
    reader: ProcessorReader = family.model.prepare_input.args[0]  # type: ignore[attr-defined]
    tensors, tiles = own_tensors(family), family.record.all_tiles
    token = family.module.config.image_token_id

    def prepare(picture: Image.Image) -> Tensor:
        pixels: Tensor = own_tensors(family, np.array(picture))["pixel_values"]
        return pixels

    places = pixel_places(prepare, (100, 64))
    right = tuple(
        tile.moved(family.record.first) for tile in next(tiles for (*size, _, _), tiles in reader.layouts.items() if size == [100, 64])
    )
    assert [tile.tokens.tolist() for tile in right] == [tile.tokens.tolist() for tile in tiles]
    assert why_unverified(family.module, tensors, token, places, right) is None
    x0, y0, x1, y1 = right[-1].box
    turned = (*right[:-1], replace(right[-1], box=(x1, y0, x0, y1)))  # columns from right to left
    assert "other parts of it than their own" in str(why_unverified(family.module, tensors, token, places, turned))
    assert (x0, y0) < (x1, y1)


@pytest.mark.parametrize("make", [qwen2_5_vl, internvl])
def test_tensors_of_the_processor_are_read(make: Callable[[], Any]) -> None:
    module, processor = build(make)
    model = explainers.wrap(module, preprocess=processor)
    text = f"a good {processor.image_token} film"
    tensors = process(processor, text, Image.fromarray(PIXELS))
    if make is internvl:
        with pytest.raises(ExplainerError, match="do not say how the tiles of the picture lie"):
            model.prepare(tensors)
        return
    record = model.prepare(tensors).inputs[0]
    assert isinstance(record, PicturePromptInput)
    expected = model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS), text)).inputs[0]
    assert isinstance(expected, PicturePromptInput)
    assert (record.grid, record.first, record.patches.tolist()) == (expected.grid, expected.first, expected.patches.tolist())


def test_a_chat_template_of_the_processor_is_laid_around() -> None:
    module, processor = build(qwen2_5_vl)
    processor.chat_template = (
        "{% for m in messages %}user: {% for c in m['content'] %}{% if c['type'] == 'image' %}<|image_pad|>{% else %}{{ c['text'] }}"
        "{% endif %}{% endfor %}{% endfor %} it says:"
    )
    model = explainers.wrap(module, preprocess=processor)
    prepared = model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS), "a good film"), chat=True)
    record = prepared.inputs[0]
    assert isinstance(record, PicturePromptInput)
    assert [word.text for word in record.words] == ["a", "good", "film"]
    behind = [token.part for token in record.tokens[record.words[-1].tokens[-1] + 1 :]]
    assert behind == sorted(behind, reverse=True)
    assert set(behind) == {TEMPLATE, ANSWER}
    ids = prepared.tensors["input_ids"][0][: behind.index(ANSWER) - len(behind)]
    assert processor.tokenizer.decode(ids).endswith("<|image_pad|>a good film it says:")
    said = "without the model's chat template"
    assert not any(said in note for note in prepared.notes[0])
    assert any(said in note for note in model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS), "a good film")).notes[0])
    with pytest.raises(ExplainerError, match="2 places for a picture"):
        model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS), "<|image_pad|> and <|image_pad|>"))


def test_a_part_of_a_picture_is_placed_in_the_whole() -> None:
    module, processor = build(internvl)
    model = explainers.wrap(module, preprocess=processor)
    part = explainers.Crop(Image.fromarray(PIXELS), (20, 10, 90, 60))
    record = model.prepare(explainers.PicturePrompt(part, "a film")).inputs[0]
    alone = model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS[10:60, 20:90]), "a film")).inputs[0]
    assert isinstance(record, PicturePromptInput)
    assert isinstance(alone, PicturePromptInput)
    assert record.picture is not None
    assert (record.picture.crop, record.picture.frame, record.picture.width) == ((20, 10, 90, 60), (20, 10, 90, 60), 100)
    assert record.tiles == alone.tiles


def test_tokens_that_look_at_the_whole_picture_are_refused() -> None:
    module, processor = build(blip2)
    with pytest.raises(ExplainerError, match=r"4 of 4 tokens change with other parts of it than their own. Where every token looks"):
        explainers.wrap(module, preprocess=processor)


def test_a_model_that_is_told_the_size_of_pictures_needs_its_processor() -> None:
    module, processor = build(qwen2_5_vl)
    with pytest.raises(ExplainerError, match=r"is told the size of each picture \(image_grid_thw\)"):
        explainers.wrap(module, tokenizer=processor.tokenizer)


def test_scores_of_tiles_are_joined_without_a_change_of_their_sum() -> None:
    """Four tokens over the whole picture, and two over its lower half, of which the last reaches beyond it."""
    whole, lower = PictureTile(1, 2, 2, 2, (0.0, 0.0, 1.0, 1.0)), PictureTile(5, 2, 1, 2, (0.0, 0.5, 2.0, 1.0))
    scores = torch.tensor([9.0, 1.0, 2.0, 3.0, 4.0, 10.0, 20.0])
    record = PicturePromptInput("", (), (), picture=ImageInput(2, 2, (0, 0, 2, 2), (2, 2)), grid=(2, 2), first=1, tiles=(whole, lower))
    expected = torch.tensor([[1.0, 2.0], [3.0 + 5.0, 4.0 + 5.0 + 20.0]])
    torch.testing.assert_close(record.on_picture(scores), expected)


def test_the_command_explains_a_folder_with_its_processor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, processor = build(qwen2_5_vl)
    folder = tmp_path / "qwen"
    module.save_pretrained(folder)  # type: ignore[operator]
    processor.save_pretrained(folder)
    Image.fromarray(PIXELS).save(tmp_path / "picture.png")
    question = ["explain", str(tmp_path / "picture.png"), "--text", "a good film", "--model", str(folder)]
    capsys.readouterr()
    assert main([*question, "--methods", "input_x_gradient:libra", "--out", str(tmp_path / "out")]) == 0
    assert "of the picture; " in capsys.readouterr().out
    assert (tmp_path / "out" / "input_x_gradient-libra.png").stat().st_size


def test_a_processor_that_was_saved_and_cannot_be_used_is_said(tmp_path: Path) -> None:
    """A tile of InternVL is a square of tokens, as which a picture is read where the processor lacks a token."""
    module, processor = build(internvl)
    module.save_pretrained(tmp_path)  # type: ignore[operator]
    processor.save_pretrained(tmp_path)  # whose tokenizer forgets the names of its tokens
    model = explainers.load(str(tmp_path))
    prepared = model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS), "a good film"))
    assert any("could not be used, so a picture is read as a square: " in note for note in prepared.notes[0])

"""Several pictures in a prompt: the tensors of the processor itself, a grid for each picture, and a map on the picture that changed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.models.inputs.types import PICTURE
from explainers.models.picture_layout import picture_features
from explainers.records.input_json import input_from_json
from explainers.rendering.overlays import render_overlay
from tests.support.picture_models import FAMILIES, build, llava_onevision, qwen2_5_vl
from tests.support.task_models import picture_writer
from tests.support.written_answers import check_logits_and_terms, in_double
from vitrine_server.cli import main

LAST_OF_ATTENTION = ("self_attn.out_proj", "attn.proj", "attention.projection_layer")
RANDOM = np.random.default_rng(0)
PIXELS = [RANDOM.integers(0, 256, (64, 100, 3), dtype=np.uint8), RANDOM.integers(0, 256, (90, 60, 3), dtype=np.uint8)]


class Family:
    """A family's model in double precision, and an explanation of what it writes about two pictures of different sizes."""

    def __init__(self, name: str) -> None:
        made: Any = build(FAMILIES[name][0])
        module, self.processor = made
        self.module: Any = module.double()
        self.model = explainers.wrap(self.module, preprocess=self.processor)
        token = self.processor.image_token
        with torch.no_grad():
            self.module.lm_head.weight[self.module.config.image_token_id] = 0  # it is not written
        self.prompt = f"a good {token} film, {token} not bad"
        prompt = explainers.PicturePrompt(list(map(Image.fromarray, PIXELS)), self.prompt)
        self.result: Any = explainers.explain(self.model, prompt, methods=("input_x_gradient:libra", "fullgrad:libra"))
        self.record: Any = self.result.input

    def own(self, pixels: Any) -> dict[str, Tensor]:
        """What the processor itself gives the model."""
        given = self.processor(text=[self.prompt], images=[list(map(Image.fromarray, pixels))], return_tensors="pt")
        return in_double(given)


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> Family:
    return Family(request.param)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_logits_are_the_plain_models_and_terms_add_up(family: Family) -> None:
    check_logits_and_terms(family.module, family.result, family.own(PIXELS))


def test_each_picture_has_a_grid_of_its_own_tokens(family: Family) -> None:
    record, ids = family.record, family.result.tensors["input_ids"][0].tolist()
    marked = [i for i, token in enumerate(record.tokens) if token.part == PICTURE]
    assert marked == [i for i, index in enumerate(ids) if index == family.module.config.image_token_id]
    assert len(record.pictures) == 2
    assert [(each.width, each.height) for each in record.pictures] == [(100, 64), (60, 90)]
    parts = [set(each.patches.tolist()) for each in record.pictures]
    assert not parts[0] & parts[1]
    assert max(parts[0]) < min(parts[1])
    assert parts[0] | parts[1] == {i for i in marked if not record.tokens[i].special}
    assert [word.text for word in record.words] == ["a", "good", "film", ",", "not", "bad"]
    scores = family.result["input_x_gradient:libra"].scores
    for number in (0, 1):
        assert float(record.on_picture(scores, number).sum()) == pytest.approx(float(scores[sorted(parts[number])].sum()), abs=1e-4)
    assert input_from_json(json.loads(json.dumps(record.to_json()))) == record
    tall = render_overlay(family.result, family.result.maps[0])
    alone = explainers.PicturePrompt(Image.fromarray(PIXELS[0]), "a good film, not bad")
    one: Any = explainers.explain(family.model, alone, methods="input_x_gradient:libra")
    assert tall.height > render_overlay(one, one.maps[0]).height + 440  # the second, taller than wide


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("number", [0, 1])
def test_the_corner_that_changes_is_drawn_on_its_own_picture(family: Family, number: int) -> None:
    """Of the tokens that the vision tower makes of both, those that change most are drawn at the corner that changed. The last maps of its
    attentions are zero, so that random ones do not carry the change elsewhere.
    """
    twin = copy.deepcopy(family.module)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            if "vis" in name and any(part in name for part in LAST_OF_ATTENTION):
                parameter.zero_()
    before = picture_features(twin, family.own(PIXELS))
    for row, column in ((0, 0), (-1, -1)):
        changed = [pixels.copy() for pixels in PIXELS]
        height, width = changed[number].shape[0] // 4, changed[number].shape[1] // 4
        down = slice(0, height) if row == 0 else slice(-height, None)
        across = slice(0, width) if column == 0 else slice(-width, None)
        changed[number][down, across] = 255 - changed[number][down, across]
        moved = torch.zeros(len(family.record.tokens), dtype=torch.float64)
        places = (family.result.tensors["input_ids"][0] == family.module.config.image_token_id).nonzero().flatten()
        moved[places] = (picture_features(twin, family.own(changed)) - before).square().sum(-1)
        drawn = family.record.on_picture(moved, number)
        assert float(family.record.on_picture(moved, 1 - number).abs().sum()) == 0
        rows, columns = drawn.shape
        place = divmod(int(drawn.argmax()), columns)
        assert (place[0] < rows / 2, place[1] < columns / 2) == (row == 0, column == 0)


def test_each_picture_has_a_share(family: Family) -> None:
    prompt = explainers.PicturePrompt(list(map(Image.fromarray, PIXELS)), family.prompt)
    found: Any = explainers.prior_or_pixels(family.model, prompt)
    assert found.parts == ("picture 1", "picture 2", "prompt", "answer so far", "constant")
    torch.testing.assert_close(found.original.shares.sum(1), found.original.logits, rtol=1e-4, atol=1e-4)
    table = explainers.answer_table(family.model, prompt, "input_x_gradient:libra")
    assert table.columns[:3] == ("(picture 1)", "(picture 2)", "a")
    if "Qwen3" not in type(family.module).__name__ and "Llava" not in type(family.module).__name__:  # what enters later, ends of rows
        torch.testing.assert_close(table.scores[:, :2], found.original.shares[:, :2], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("text", ["a good film", "<image> a <image> good film", "a <image><image> film"])
def test_square_pictures_without_a_processor(text: str) -> None:
    model: Any = picture_writer()
    pictures = [Image.fromarray(pixels) for pixels in PIXELS]
    prepared = model.prepare(explainers.PicturePrompt(pictures, text))
    record, ids = prepared.inputs[0], prepared.tensors["input_ids"][0].tolist()
    token = model.module.config.image_token_id
    assert record.patches.tolist() == [i for i, index in enumerate(ids) if index == token]
    assert [picture.map_of(torch.arange(float(len(ids)))).shape for picture in record.pictures] == [(4, 4), (4, 4)]
    alone = [model.tensors(explainers.PicturePrompt(picture, "a film"))["pixel_values"] for picture in pictures]
    assert torch.equal(prepared.tensors["pixel_values"], torch.cat(alone))
    said = [record.tokens[word.tokens[0]].text for word in record.words]
    assert said == [word for word in text.replace("<image>", " ").split() if word]
    with torch.no_grad():
        logits = model.module(**prepared.tensors).logits[0]
    result: Any = explainers.explain(model, explainers.PicturePrompt(pictures, text), methods="fullgrad:libra")
    first, last = result.place.tokens
    assert result.target.logit == pytest.approx(sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1)), rel=1e-5)


def test_as_many_places_as_pictures_are_wanted() -> None:
    pictures = [Image.fromarray(pixels) for pixels in PIXELS]
    with pytest.raises(ExplainerError, match=r"the prompt has 1 place for a picture, and 2 were sent"):
        picture_writer().prepare(explainers.PicturePrompt(pictures, "a <image> film"))
    module, processor = build(qwen2_5_vl)
    model = explainers.wrap(module, preprocess=processor)
    with pytest.raises(ExplainerError, match=r"the prompt has 3 places for a picture, and 2 were sent"):
        model.prepare(explainers.PicturePrompt(pictures, f"a {processor.image_token * 3} film"))
    with pytest.raises(ExplainerError, match="the prompt has no picture"):
        model.prepare(explainers.PicturePrompt([], "a film"))
    with pytest.raises(ExplainerError, match="pictures that touch in a prompt for one"):
        model.prepare(explainers.PicturePrompt(pictures, f"a {processor.image_token * 2} film"))
    prepared = model.prepare(explainers.PicturePrompt(pictures, "a film"))
    assert "the pictures stand" in prepared.notes[0][0]
    with pytest.raises(ExplainerError, match="these tensors hold several pictures"):
        model.prepare({name: tensor for name, tensor in prepared.tensors.items() if name != "attention_mask"})
    with pytest.raises(ExplainerError, match="are of one picture, and 2 were sent"):
        explainers.token_activation_maps(model, prepared)


def test_pictures_that_are_read_together_in_another_way_are_refused() -> None:
    """A processor that reads the last picture first."""

    class LastFirst:
        def __init__(self, own: Any) -> None:
            self.own = own

        def __call__(self, images: Any, **options: Any) -> Any:
            return self.own(images=[each[::-1] if isinstance(each, list) else each for each in images], **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.own, name)

    module, processor = build(qwen2_5_vl)
    processor.image_processor = LastFirst(processor.image_processor)
    model = explainers.wrap(module, preprocess=processor)
    same = [Image.fromarray(PIXELS[0])] * 2
    assert len(model.prepare(explainers.PicturePrompt(same, "a film")).inputs[0].pictures) == 2  # type: ignore[union-attr]
    with pytest.raises(ExplainerError, match="in another way than each alone, and than two copies of each"):
        model.prepare(explainers.PicturePrompt([same[0], Image.fromarray(255 - PIXELS[0])], "a film"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_llava_onevision_pads_several_pictures_to_squares() -> None:
    """Alone a picture is a small copy and tiles; one of several is padded to a square of 4 x 4 tokens, with one more at its end."""
    module, processor = build(llava_onevision)
    model = explainers.wrap(module, preprocess=processor)
    record: Any = model.prepare(explainers.PicturePrompt(list(map(Image.fromarray, PIXELS)), "a film")).inputs[0]
    wide, tall = record.pictures
    assert [(tile.rows, tile.columns, tile.step) for tile in record.all_tiles] == [(4, 4, 4)] * 2
    assert wide.all_tiles[0].box == pytest.approx((0, -0.28, 1, 1.28), abs=0.02)  # 18 of 64 rows are padding above, and below
    assert tall.all_tiles[0].box == pytest.approx((-0.25, 0, 1.25, 1), abs=0.02)  # 15 of 60 columns at the left
    assert tall.first - wide.first > 16
    assert [token.special for token in record.tokens[wide.first : wide.first + 17]] == [False] * 16 + [True]
    alone: Any = model.prepare(explainers.PicturePrompt(Image.fromarray(PIXELS[0]), "a film")).inputs[0]
    assert len(alone.all_tiles) == 2


def test_the_commands_take_several_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, processor = build(qwen2_5_vl)
    folder, files = tmp_path / "qwen", [tmp_path / "one.png", tmp_path / "two.png"]
    module.save_pretrained(folder)  # type: ignore[operator]
    processor.save_pretrained(folder)
    for file, pixels in zip(files, PIXELS, strict=True):
        Image.fromarray(pixels).save(file)
    capsys.readouterr()
    asked = ["explain", str(files[0]), "--further-image", str(files[1]), "--text", "a good film", "--model", str(folder)]
    assert main([*asked, "--methods", "input_x_gradient:libra", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["input"]["further_pictures"]) == 1
    both = ["--image", str(files[0]), "--image", str(files[1]), "--model", str(folder), "--json"]
    assert main(["prior-or-pixels", "a good film", *both]) == 0
    assert json.loads(capsys.readouterr().out)["parts"][:2] == ["picture 1", "picture 2"]
    assert main(["answer-table", "a good film", *both]) == 0
    assert json.loads(capsys.readouterr().out)["columns"][:2] == ["(picture 1)", "(picture 2)"]
    assert main(["explain", "--text", "a film", "--further-image", str(files[1])]) == 2
    assert "--further-image is for a prompt with pictures" in capsys.readouterr().err

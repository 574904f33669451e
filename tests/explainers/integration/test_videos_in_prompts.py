"""Videos in a prompt: the tensors of the processor itself, a map for each time, and the frame that changed is the frame that is drawn."""

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
from explainers.models.libraries.vision_language import pixels_name
from explainers.models.picture_layout import frame_layouts, picture_features, pixel_places, why_unverified
from explainers.records.input_json import input_from_json
from explainers.rendering.overlays import render_overlay
from tests.support.picture_models import VIDEO_FAMILIES, build, gemma3, qwen2_5_vl
from tests.support.task_models import picture_writer
from tests.support.written_answers import check_logits_and_terms, in_double, input_x_gradient_of_torch
from vitrine_server.cli import main

LAST_OF_ATTENTION = ("self_attn.out_proj", "attn.proj", "attention.projection_layer")
FRAMES = np.random.default_rng(0).integers(0, 256, (4, 64, 96, 3), dtype=np.uint8)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


def pictures(pixels: Any = FRAMES) -> list[Image.Image]:
    return [Image.fromarray(frame) for frame in pixels]


class Family:
    """A family's model in double precision, and an explanation of what it writes about a video of four frames."""

    def __init__(self, name: str) -> None:
        make, self.grid, self.together = VIDEO_FAMILIES[name]
        made: Any = build(make)
        module, self.processor = made
        self.module: Any = module.double()
        self.model = explainers.wrap(self.module, preprocess=self.processor)
        config = self.module.config
        with torch.no_grad():  # tokens of pictures and videos are not written
            for index in {getattr(config, name, None) for name in ("image_token_id", "video_token_id")} - {None}:
                self.module.lm_head.weight[index] = 0
        self.prompt = f"a good {self.processor.video_token} film, not bad"
        self.result: Any = explainers.explain(
            self.model,
            explainers.PicturePrompt(explainers.Clip(pictures()), self.prompt),
            methods=("input_x_gradient", "input_x_gradient:libra", "fullgrad:libra"),
        )
        self.record: Any = self.result.input

    def own(self, pixels: Any = FRAMES) -> dict[str, Tensor]:
        """What the processor itself gives the model."""
        given = self.processor(text=[self.prompt], videos=[pictures(pixels)], return_tensors="pt", do_sample_frames=False)
        return in_double(given)


@pytest.fixture(scope="module", params=VIDEO_FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return Family(request.param)


def test_logits_are_the_plain_models_and_terms_add_up(family: Family) -> None:
    check_logits_and_terms(family.module, family.result, family.own())


def test_input_x_gradient_is_that_of_torch(family: Family) -> None:
    expected = input_x_gradient_of_torch(family.module, family.result)
    found = family.result["input_x_gradient"]
    torch.testing.assert_close(found.scores[found.content].double(), expected[found.content], rtol=1e-5, atol=1e-6)


def test_each_time_has_a_map_of_its_own_tokens(family: Family) -> None:
    record, ids = family.record, family.result.tensors["input_ids"][0]
    numbers = [(1, 2), (3, 4)] if family.together == 2 else [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert [picture.frame_numbers for picture in record.pictures] == numbers
    assert record.picture_names == (("frames 1-2", "frames 3-4") if family.together == 2 else tuple(f"frame {n}" for n in range(1, 5)))
    assert {picture.grid for picture in record.pictures} == {family.grid}
    tokens = [token for picture in record.pictures for token in picture.patches.tolist()]
    assert len(set(tokens)) == len(tokens) == len(numbers) * family.grid[0] * family.grid[1]
    assert {record.tokens[token].part for token in tokens} == {PICTURE}
    assert len({int(ids[token]) for token in tokens}) == 1
    assert [word.text for word in record.words] == ["a", "good", "film", ",", "not", "bad"]
    assert input_from_json(json.loads(json.dumps(record.to_json()))) == record
    second = record.pictures[1]  # LLaVA-NeXT-Video cuts off both sides
    assert second.pixels.tobytes() == pictures()[family.together].crop(second.crop).tobytes()
    assert any("2 frames as one" in note for note in family.result.notes) == (family.together == 2)
    assert render_overlay(family.result, family.result.maps[0]).height > 400


@pytest.mark.parametrize("number", [0, 3])
def test_the_corner_of_the_frame_that_changes_is_drawn(family: Family, number: int) -> None:
    """Of the tokens that the vision tower makes, those that change most are drawn at the corner, and in the frame, that changed. The last
    maps of its attentions are zero, so that random ones do not carry the change elsewhere.
    """
    twin = copy.deepcopy(family.module)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            if "vis" in name and any(part in name for part in LAST_OF_ATTENTION):
                parameter.zero_()
    before, ids = picture_features(twin, family.own()), family.result.tensors["input_ids"][0]
    places = (ids == int(ids[family.record.patches[0]])).nonzero().flatten()
    for row, column in ((0, 0), (-1, -1)):
        changed = FRAMES.copy()
        down = slice(0, 16) if row == 0 else slice(-16, None)
        across = slice(0, 24) if column == 0 else slice(-24, None)
        if VIDEO_FAMILIES["LlavaNextVideoForConditionalGeneration"][0] is VIDEO_FAMILIES[type(family.module).__name__][0]:
            across = slice(16, 40) if column == 0 else slice(-40, -16)  # it cuts off both sides
        changed[number, down, across] = 255 - changed[number, down, across]
        moved = torch.zeros(len(ids), dtype=torch.float64)
        moved[places] = (picture_features(twin, family.own(changed)) - before).square().sum(-1)
        maps = [picture.map_of(moved) for picture in family.record.pictures]
        time = number // family.together
        assert all(float(each.abs().sum()) == 0 for other, each in enumerate(maps) if other != time)
        rows, columns = family.grid
        place = divmod(int(maps[time].argmax()), columns)
        assert (place[0] < rows / 2, place[1] < columns / 2) == (row == 0, column == 0)


def test_times_in_another_order_are_not_verified(family: Family) -> None:
    own = family.own()
    token = int(own["input_ids"][0, family.record.patches[0]])

    def prepare(picture: Image.Image) -> Tensor:
        made = family.own([np.asarray(picture)] * 4)
        return made[pixels_name(made)]

    ((places, tiles),) = frame_layouts(own, token, pixel_places(prepare, (96, 64)), 4)
    assert why_unverified(family.module, own, token, places, tiles, in_time=True) is None
    assert why_unverified(family.module, own, token, places, tiles[::-1], in_time=True) is not None


def test_each_time_has_a_share(family: Family) -> None:
    prompt = explainers.PicturePrompt(explainers.Clip(pictures()), family.prompt)
    found: Any = explainers.prior_or_pixels(family.model, prompt)
    assert found.parts == (*family.record.picture_names, "prompt", "answer so far", "constant")
    torch.testing.assert_close(found.original.shares.sum(1), found.original.logits, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        tensors = dict(family.result.tensors)
        name = pixels_name(tensors)
        tensors[name] = family.own(np.full_like(FRAMES, 128))[name]
        logits, ids = family.module(**tensors).logits[0], tensors["input_ids"][0]
    first, last = family.result.place.tokens
    written = sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1))
    assert float(found.grey.logits.sum()) == pytest.approx(written, rel=1e-5)
    table = explainers.answer_table(family.model, prompt, "input_x_gradient:libra")
    assert table.columns[0] == f"({family.record.picture_names[0]})"


def test_frames_left_over_are_said() -> None:
    """Of three frames Qwen reads two as one, and the last twice."""
    module, processor = build(qwen2_5_vl)
    model = explainers.wrap(module, preprocess=processor)
    record: Any = model.prepare(explainers.PicturePrompt(explainers.Clip(pictures(FRAMES[:3])), "a film")).inputs[0]
    assert [picture.frame_numbers for picture in record.pictures] == [(1, 2), (3, 3)]


def test_models_without_videos_say_so() -> None:
    prompt = explainers.PicturePrompt(explainers.Clip(pictures()), "a film")
    module, processor = build(gemma3)
    with pytest.raises(ExplainerError, match="reads no video: send its frames as a list of pictures"):
        explainers.wrap(module, preprocess=processor).prepare(prompt)
    with pytest.raises(ExplainerError, match="send its frames as a list of pictures"):
        picture_writer().prepare(prompt)
    module, processor = build(qwen2_5_vl)
    processor.chat_template = "{% for message in messages %}{{ message.content[-1].text }}{% endfor %}: "
    with pytest.raises(ExplainerError, match="chat template has no place for a video"):
        explainers.wrap(module, preprocess=processor).prepare(prompt, chat=True)
    two = explainers.PicturePrompt(prompt.picture, f"a {processor.video_token} film {processor.video_token}")
    with pytest.raises(ExplainerError, match="2 places for a video, and one was sent"):
        explainers.wrap(module, preprocess=processor).prepare(two)


def test_the_command_takes_a_folder_of_frames_and_an_animation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made: Any = build(qwen2_5_vl)
    module, processor = made
    with torch.no_grad():
        module.lm_head.weight[[module.config.image_token_id, module.config.video_token_id]] = 0
    folder, frames = tmp_path / "qwen", tmp_path / "frames"
    module.save_pretrained(folder)
    processor.save_pretrained(folder)
    frames.mkdir()
    for number, frame in enumerate(pictures()):
        frame.save(frames / f"{number}.png")
    first, *others = pictures()
    first.save(tmp_path / "film.webp", save_all=True, append_images=others, lossless=True)
    capsys.readouterr()
    scores = []
    for source in (frames, tmp_path / "film.webp"):
        asked = ["explain", str(source), "--text", "a good film", "--model", str(folder), "--methods", "input_x_gradient:libra"]
        assert main([*asked, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["input"]["picture"]["frame_numbers"] == [1, 2]
        assert [part["frame_numbers"] for part in document["input"]["further_pictures"]] == [[3, 4]]
        scores.append(document["maps"][0]["scores"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-6)
    assert main([*asked, "--further-image", str(frames / "0.png")]) == 2
    assert "is a video" in capsys.readouterr().err
    assert main(asked) == 0
    assert "frames 1-2" in capsys.readouterr().out

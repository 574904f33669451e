"""The recipe of scenes-llava for two steps, its frozen tower, and its rows of several questions against one question at a time."""

from __future__ import annotations

import explainers

# isort: split
import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from explainers.embedded.synthetic.scene_questions import Thing, ask, split_words, things
from explainers.models.catalogue import embedded_path
from recipes import train_scenes_llava
from recipes.networks import vits
from recipes.networks.llava import PATCHES, TOWER_BLOCKS, WIDTH, new_model, new_processor, token_numbers
from recipes.train_scenes_llava import IGNORED_LABEL, Batch, draw_questions, encode_questions, packed_logits, render_training_scene

SHOWN = [Thing("owl", "brown", (0.2, 0.8)), Thing("apple", "green", (0.8, 0.2))]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return new_model(vits.load(embedded_path("scenes-vit"))).eval()


def test_the_tower_is_the_first_blocks_of_scenes_vit(model: Any) -> None:
    vit = vits.load(embedded_path("scenes-vit"))
    pixels = torch.rand(2, 3, 112, 112, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        x = vit.patch_embed(pixels) + vit.pos_embed[:, 1:]
        x = vit.norm_pre(torch.cat([(vit.cls_token + vit.pos_embed[:, :1]).expand(2, -1, -1), x], 1))
        for block in vit.blocks[:TOWER_BLOCKS]:
            x = block(x)
        torch.testing.assert_close(model.model.vision_tower(pixels).last_hidden_state, x, rtol=1e-4, atol=1e-4)
    assert not any(value.requires_grad for value in model.model.vision_tower.parameters())


def test_questions_in_one_row_are_answered_as_one_at_a_time(model: Any) -> None:
    asked = [ask("what", SHOWN), ask("whether", SHOWN, "zebra"), ask("where", SHOWN, "apple")]
    questions = [question for question in asked if question is not None]
    features = torch.randn(1, PATCHES, WIDTH, generator=torch.Generator().manual_seed(0)) * 2.5
    kept = torch.arange(0, PATCHES, 3)[None]
    batch = Batch(features, torch.zeros(1, PATCHES, dtype=torch.long), *encode_questions([questions]))
    numbers = token_numbers()
    with torch.no_grad():
        together, _ = packed_logits(model, batch, kept)
        alone = []
        for question in questions:
            ids = new_processor().tokenizer(f"{question.text} {question.answer}")["input_ids"]  # with the start
            x = model.get_input_embeddings()(torch.tensor([ids]))
            picture = model.model.multi_modal_projector(features[:, kept[0]])
            places = torch.cat([torch.zeros(1, dtype=torch.long), 1 + kept[0], 1 + PATCHES + torch.arange(len(ids) - 1)])[None]
            inputs = torch.cat([x[:, :1], picture, x[:, 1:]], 1)
            hidden = model.model.language_model(inputs_embeds=inputs, position_ids=places).last_hidden_state
            alone.append(model.lm_head(hidden[0, -len(question.answer.split()) - 1 :]))
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-4)
    words = [*split_words("an owl and an apple"), "</s>", "no", "</s>", "top", "right", "</s>"]
    assert batch.labels[batch.labels != IGNORED_LABEL].tolist() == [numbers[word] for word in words]


def test_questions_are_of_all_kinds_and_have_right_answers() -> None:
    rng = np.random.default_rng(0)
    asked = [question for _ in range(60) for question in draw_questions(SHOWN, rng)]
    assert {question.kind for question in asked} == {"what", "whether", "colour", "where", "count"}
    assert {question.answer for question in asked if question.about == "apple" and question.kind == "colour"} == {"green"}
    assert {question.answer for question in asked if question.kind == "where"} == {"bottom left", "top right", "nowhere"}
    yes = [question.answer == "yes" for question in asked if question.kind == "whether"]
    assert np.mean(yes) == 0.5
    assert {question.answer for question in draw_questions([], rng)} <= {"nothing", "no", "nowhere", "zero"}


def test_scenes_of_the_training_may_be_empty() -> None:
    counts = {len(things(render_training_scene(np.random.default_rng([0, 0, index])))) for index in range(60)}
    assert counts == {0, 1, 2, 3, 4}


def test_the_recipe_writes_a_folder_that_answers_about_pictures(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    train_scenes_llava.add_arguments(parser)
    out = tmp_path / "llava"
    words = ["--out", str(out), "--steps", "2", "--scenes", "20", "--device", "cpu"]
    train_scenes_llava.train(parser.parse_args(words))
    assert sum(file.stat().st_size for file in out.iterdir() if file.is_file()) < 8e6
    assert {value.dtype for value in load_file(out / "model.safetensors").values()} == {torch.float16}
    opened = explainers.load(out, "cpu")
    assert opened.reads_pictures
    scene = render_training_scene(np.random.default_rng([0, 0, 3]))
    record = opened.prepare(explainers.PicturePrompt(scene.image, "Is there a zebra?")).inputs[0]
    assert [word.text for word in record.words] == ["Is", "there", "a", "zebra", "?"]  # type: ignore[union-attr]
    assert record.grid == (14, 14)  # type: ignore[union-attr]

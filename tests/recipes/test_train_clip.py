"""How clip is made: prompts and their truth, where its image side begins, and the whole recipe on made-up photos and a tiny encoder."""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file

import explainers
from explainers.embedded.synthetic.scenes import KINDS, Composition, Placement, draw
from recipes import clip_images, clip_texts, train_clip, train_photos_vit
from recipes.__main__ import main
from recipes.data import clip as data
from recipes.data import prompts
from recipes.data.held_out import HELD_OUT, OF_SCENES, applicable, first_of_ten
from recipes.data.pictures import SIDE
from recipes.data.prompts import classes
from recipes.evaluation import CONTROL, JUDGED_METHOD
from recipes.evaluation import clip as on_clip
from recipes.evaluation.loading import load_cached
from recipes.networks import clip_features, text_tower
from recipes.networks.trunk import normalise, teacher_trunk
from recipes.networks.vits import create, save
from tests.recipes.support.tiny_encoder import VOCABULARY

SHAPE = {"img_size": SIDE, "embed_dim": 16, "depth": 5, "num_heads": 2}
STAGES = 6


@pytest.fixture(scope="module")
def photos_vit(untrained: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A narrow photos-vit of random weights."""
    folder = tmp_path_factory.mktemp("photos-vit")
    names = [row["label"] for row in classes()]
    vit = create(train_photos_vit.ARCHITECTURE, names, {**SHAPE, "trunk_stages": STAGES})
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(STAGES))
    with torch.no_grad():
        vit.head.weight.normal_()
        vit.head.bias.normal_()
    save(vit, folder, train_photos_vit.ARCHITECTURE, names, {**SHAPE, "trunk_stages": STAGES})
    return folder


@pytest.fixture(scope="module")
def narrow(encoder: Path) -> Iterator[None]:
    """A narrow tower, few scenes, and few prompts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("SHAPE", SHAPE), ("FIRST_SCENE_BATCHES", 1), ("CAPACITY", 16)):
            patch.setattr(train_clip, name, value)
        patch.setattr(data, "SCENES", 3)
        for name in ("WORDINGS", "KIND_WORDINGS"):
            patch.setattr(clip_texts, name, 1)
        yield


def train(**options: object) -> None:
    """Run the recipe as ``python -m recipes train clip`` does with such options."""
    parser = argparse.ArgumentParser()
    train_clip.add_arguments(parser)
    train_clip.train(parser.parse_args([str(part) for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]))


@pytest.fixture(scope="module")
def trained(narrow: None, photos_vit: Path, photo_data: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip after two steps of either side."""
    out = tmp_path_factory.mktemp("trained") / "clip"
    common = {"data": photo_data, "start": photos_vit, "out": out, "steps": 2, "batch": 2, "device": "cpu"}
    train(**common, encoder=encoder, word_steps=2, vocabulary=VOCABULARY)
    return out


def test_prompts_are_true_of_what_a_scene_shows() -> None:
    scene = draw(
        Composition("paper", 0, (Placement("apple", "apple-2.png", (0.3, 0.3), 0.4), Placement("dog", "dog.png", (0.7, 0.7), 0.4))), 32
    )[0]
    nouns = prompts.scene_groups()
    targets = prompts.scene_truth(scene)
    parts = targets.split([len(group) for group in nouns])
    true = [{group[i]: float(part[i]) for i in torch.nonzero(part).flatten().tolist()} for group, part in zip(nouns, parts, strict=True)]
    assert true == [{("apple",): 0.5, ("dog",): 0.5}, {("green apple",): 0.5, ("brown dog",): 0.5}, {("dog", "apple"): 1.0}]


def test_classes_go_by_labels_synonyms_and_groups() -> None:
    words = prompts.words()
    assert words.names[:1000] == [row["label"] for row in prompts.classes()]
    seen = [prompts.choose_names(np.random.default_rng(seed)) for seed in range(40)]
    for index in (0, 207, 340):
        row = prompts.classes()[index]
        names = {words.names[chosen[index]] for chosen in seen}
        assert row["label"] in names
        assert names <= {row["label"], *row["synonyms"], *row["groups"]}
    place, members = next((place, members) for place, members in words.groups if words.names[place] == "zebra" or len(members) == 3)
    together = [chosen for chosen in seen if (chosen == place).any()]
    assert together
    assert all(set(np.flatnonzero(chosen == place)) <= set(members) for chosen in together)


def test_what_the_teacher_says_of_classes_is_summed_over_words() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    sums = clip_images.merge_classes(logits, torch.tensor([0, 1, 1])).exp()
    soft = logits.softmax(1)
    torch.testing.assert_close(sums, torch.tensor([[float(soft[0, 0]), float(soft[0, 1] + soft[0, 2])]]))


def test_no_prompt_holds_a_word_that_the_evaluation_asks_about() -> None:
    used = {word for template in (*prompts.TEMPLATES, *prompts.JOINTS) for word in re.findall(r"\w+", template)}
    used |= {word for group in prompts.scene_groups() for nouns in group for noun in nouns for word in noun.lower().split()}
    assert not used & HELD_OUT
    assert not {word.casefold() for word in prompts.words().names} & HELD_OUT
    assert {name for true in OF_SCENES.values() for name in true} <= set(KINDS)
    texts = [prompts.write_prompt(np.random.default_rng(seed), ("orange", "dog")) for seed in range(60)]
    assert len(set(texts)) > 40
    assert all("orange" in text and "dog" in text and "a orange" not in text for text in texts)


def test_the_right_picture_among_ten() -> None:
    shown = [kind for kind in KINDS for _ in range(2)]
    images = torch.eye(len(KINDS)).repeat_interleave(2, 0)
    assert applicable(OF_SCENES, ["dog", "spoon", "fork"]) == ["puppy", "cutlery", "silverware"]
    dog, car = images[2 * KINDS.index("dog")], images[2 * KINDS.index("car")]
    truth = {"right": ("dog",), "worst": ("dog",), "other": ("dog",), "automobile": ("car",)}
    rates = first_of_ten(images, shown, {"right": dog, "worst": -dog, "other": car, "automobile": car}, truth)
    assert rates["right"] == rates["automobile"] == 1
    assert rates["worst"] == 0
    assert rates["other"] < 1  # ties, but for a car among the others


def test_objects_that_are_gone_are_not_asked_for() -> None:
    targets = torch.zeros(2, len(KINDS))
    targets[:, [1, 3]] = 0.5
    patches = torch.full((2, 9), len(KINDS))
    patches[:, :2], patches[:, 5:] = 1, 3
    kept = torch.tensor([[0, 1, 2], [1, 5, 6]])
    found = clip_images.shares_of_kept(targets, patches, kept)
    assert found[0, 1] == 1
    assert found[0, 3] == 0
    torch.testing.assert_close(found[1], targets[1])


def test_a_row_without_a_target_counts_for_nothing() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.eye(5)[:3]
    expected = F.cross_entropy(logits, targets.argmax(1), label_smoothing=clip_images.SMOOTHING)
    torch.testing.assert_close(clip_images.soft_loss(logits, targets), expected)
    more = torch.cat([logits, torch.randn(2, 5)]), torch.cat([targets, torch.zeros(2, 5)])
    torch.testing.assert_close(clip_images.soft_loss(*more), expected)
    assert clip_images.soft_loss(more[0], torch.zeros(5, 5)) == 0


def test_a_picture_begins_where_the_names_that_the_classifier_gives_it_lie(narrow: None, photos_vit: Path) -> None:
    """The difference of two embeddings is the least-squares solution for the difference of the classifier's centred answers."""
    names = torch.nn.functional.normalize(torch.randn(len(classes()), clip_images.SHARED), dim=-1)
    side, stages = train_clip.begin_side(photos_vit, names)
    assert stages == STAGES
    head = load_file(photos_vit / "model.safetensors")["head.weight"].double().numpy()
    tokens = np.random.default_rng(0).normal(size=(2, SHAPE["embed_dim"]))
    answers = (tokens[1] - tokens[0]) @ head.T
    wanted = np.linalg.lstsq(names.double().numpy(), answers - answers.mean(), rcond=None)[0]
    found = (tokens[1] - tokens[0]) @ side.projection.weight.detach().double().numpy().T
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max())
    trained = {name for name, value in side.named_parameters() if value.requires_grad}
    assert {"projection.weight", "scale", "vit.blocks.0.attn.qkv.weight"} <= trained
    assert not [name for name in trained if "backbone" in name]


def test_scenes_come_again_and_now_and_then_a_new_batch(narrow: None, untrained: None) -> None:
    scenes = train_clip.Scenes(train_clip.Teachers(), 0)
    for step in range(2 * train_clip.FRESH_EVERY + 1):
        scenes(step)
    assert len(scenes.batches) == 3
    first, last = scenes.batches[0], scenes.batches[-1]
    assert not torch.equal(first.seen.tokens, last.seen.tokens)
    again = train_clip.Scenes(train_clip.Teachers(), 0)
    assert torch.equal(again(0).seen.tokens, first.seen.tokens)


def test_a_scene_shows_the_kinds_of_its_patches(narrow: None, untrained: None) -> None:
    scenes = data.draw_scenes(train_clip.Teachers().lite0, [1, 2])
    assert scenes.kinds.shape == (3, len(KINDS))
    torch.testing.assert_close(scenes.kinds.sum(1), torch.ones(3))
    for kinds, patches in zip(scenes.kinds, scenes.patches, strict=True):
        assert set(patches.tolist()) - {len(KINDS)} <= set(torch.nonzero(kinds).flatten().tolist())


def test_the_recipe_writes_a_folder_whose_image_side_has_learned(trained: Path, photos_vit: Path) -> None:
    assert not list(trained.glob("checkpoint*"))
    assert "_name_or_path" not in (trained / "config.json").read_text("utf-8")
    before, after = load_file(photos_vit / "model.safetensors"), load_file(trained / "model.safetensors")
    tower = {name.removeprefix("vision_model.timm_model."): value for name, value in after.items() if name.startswith("vision_model.")}
    assert all(torch.equal(value, before[name]) for name, value in tower.items() if "backbone" in name)
    assert not torch.equal(tower["blocks.1.attn.qkv.weight"], before["blocks.1.attn.qkv.weight"])


def test_the_folder_is_explained_from_both_sides(trained: Path) -> None:
    model = load_cached(trained)
    assert (model.kind, model.details["grid"], model.details["blocks"]) == ("clip", (14, 14), 5)
    assert model.seen_from("text").details["blocks"] == 3
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 100, 3), dtype=np.uint8))
    for side, shape in (("image", (197,)), ("text", (7,))):
        found = explainers.explain(model, picture, "a photo of a zebra", ["fullgrad_plus:libra"], side=side)  # type: ignore[arg-type]
        assert all(one.scores.shape == shape and one.scores.isfinite().all() and one.scores.any() for one in found.maps)


def test_a_new_text_side_is_the_encoder_with_a_few_words_more(trained: Path, encoder: Path) -> None:
    tower, _ = text_tower.new_tower(encoder, sorted({*KINDS, *prompts.words().names}), VOCABULARY)
    ours = dict(load_cached(trained).module.text_model.named_parameters())  # type: ignore[union-attr, operator]
    for name, value in tower.named_parameters():
        if not name.startswith("pooler"):  # two steps of learning words move the rest by a hair
            torch.testing.assert_close(ours[name], value, atol=2e-3, rtol=1e-3)


def test_words_and_layers_of_the_text_side_learn_except_the_layer_that_averages(
    trained: Path, photos_vit: Path, photo_data: Path, tmp_path: Path
) -> None:
    train(data=photo_data, start=photos_vit, texts=trained, out=tmp_path / "clip", steps=1, batch=2, device="cpu")
    before, after = (load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "clip"))
    moved = {name for name, value in before.items() if not torch.equal(after[name], value)}
    texts = {name.removeprefix("text_model.") for name in moved if name.startswith("text_")}
    assert {"embeddings.word_embeddings.weight", "encoder.layer.0.output.dense.weight"} <= texts
    assert not [name for name in texts if not name.startswith(("embeddings.word_embeddings.", "encoder.layer.0.", "encoder.layer.1."))]
    assert (tmp_path / "clip" / "tokenizer_config.json").read_text() == (trained / "tokenizer_config.json").read_text()
    assert {"vision_model.timm_model.blocks.1.attn.qkv.weight", "visual_projection.weight"} <= moved


@pytest.fixture
def objective(trained: Path, photos_vit: Path) -> train_clip.Objective:
    """The training loss of a clip that goes on from another."""
    texts = clip_texts.load_texts(trained)
    side, stages = train_clip.begin_side(photos_vit, texts.names()[: len(classes())])
    train_clip.TwoSides(side, texts)
    return train_clip.Objective(side, texts, train_clip.Teachers(), stages, torch.zeros(1), 0)


def test_some_words_are_embedded_anew_and_the_others_lie_where_they_lay(objective: train_clip.Objective) -> None:
    before = objective.bank.clone()
    found, chosen = objective.names(np.random.default_rng(3))
    places = np.unique(prompts.choose_names(np.random.default_rng(3)))
    assert chosen.shape == (len(classes()),)
    anew = found.detach().ne(before[places]).any(1)
    assert anew.sum() == train_clip.LEARNED_NAMES
    torch.testing.assert_close(objective.bank[places], found.detach())
    found[anew, 0].sum().backward()
    assert objective.texts.tower.embeddings.word_embeddings.weight.grad.any()


def test_prompts_that_must_stay_have_moved_by_their_cosine(objective: train_clip.Objective) -> None:
    with torch.no_grad():
        assert float(objective.moved(np.random.default_rng(4))) == pytest.approx(0, abs=0.01)  # rounding of bfloat16
        objective.texts.tower.embeddings.word_embeddings.weight.add_(
            torch.randn_like(objective.texts.tower.embeddings.word_embeddings.weight)
        )
        asked = objective.held(np.random.default_rng(4))
        cosines = F.cosine_similarity(clip_texts.embed_prompts(objective.texts, asked), clip_texts.embed_prompts(objective.before, asked))
        assert float(objective.moved(np.random.default_rng(4))) == pytest.approx(1 - float(cosines.mean()), abs=0.02)
        assert float(cosines.mean()) < 0.9


def test_an_objective_embeds_what_the_finished_model_embeds(trained: Path, photos_vit: Path) -> None:
    """The features of the trunk go through the same Transformer and projection in a step as in the model that is loaded."""
    model = load_cached(trained)
    vit = model.module.vision_model.timm_model  # type: ignore[union-attr, operator]
    side = clip_images.ImageSide(vit)
    side.projection.weight.data.copy_(model.module.visual_projection.weight)  # type: ignore[union-attr, operator]
    images = torch.randint(0, 256, (2, SIDE, SIDE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        features = vit.patch_embed.backbone(normalise(images)).flatten(2).transpose(1, 2)
        torch.testing.assert_close(side(features), clip_features.image_features(model, images), atol=1e-4, rtol=1e-3)


def test_a_trained_clip_has_lines_and_is_measured(
    trained: Path, photo_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_clip, "SCENES_PER_KIND", 1)
    monkeypatch.setattr(on_clip, "KINDS", KINDS[:16])
    monkeypatch.setattr(on_clip, "draw_unlike", lambda *_: [0, 1, 0, 1])  # the made-up photos are of two kinds
    few = dict(list(on_clip.known_classes().items())[::40]) | {name: on_clip.known_classes()[name] for name in ("zebra", "bus")}
    monkeypatch.setattr(on_clip, "known_classes", lambda: few)
    lines = json.loads((trained / "calibration.json").read_text("utf-8"))["lines"]
    assert next(iter(lines)) == "unreadable_words"
    assert {row["prompts"] for kind, rows in lines.items() if kind != "unreadable_words" for row in rows} <= {"thing", "scene", "colour"}
    asked = ["evaluate", "--only", "clip", "--folder", str(trained), "--data", str(photo_data), "--limit", "2", "--json"]
    assert main([*asked, "--methods", JUDGED_METHOD]) == 0
    report = json.loads(capsys.readouterr().out)
    figures = {one["what"]: one for one in report["figures"]}
    assert {what for what, one in figures.items() if one["bar"] is not None} >= set(on_clip.BARS)
    assert figures[on_clip.OWN_OBJECT]["value"] is not None
    tables = [table for title, table in report["tables"].items() if "COCO" in title or "next to another" in title]
    assert [list(table) for table in tables] == [[JUDGED_METHOD, CONTROL]] * 2
    first = tables[0][JUDGED_METHOD][on_clip.PRECISION]
    assert figures[on_clip.PRECISION]["value"] == pytest.approx(first)


def test_another_word_wins_against_the_names_it_does_not_stand_for() -> None:
    truth = torch.tensor([[True, True, False, False], [False, False, False, True]])
    first = torch.tensor([[0.9, 0.8, 0.3, 0.1], [0.1, 0.2, 0.6, 0.4]])
    group = ([0, 1], torch.tensor([0.5, 0.9]))  # of the first photo, where it beats 0.3
    synonym = ([3], torch.tensor([0.9, 0.5]))  # of the second photo, where it loses to 0.6
    one = ([0], torch.tensor([0.9, 0.9]))  # the first photo may be of the second class, so it is not asked
    assert on_clip.renamed_accuracy(first, truth, [group]) == 1
    assert on_clip.renamed_accuracy(first, truth, [synonym]) == 0
    assert on_clip.renamed_accuracy(first, truth, [group, synonym, one]) == 0.5

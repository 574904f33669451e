"""How clip is made: prompts and their truth, and the whole recipe on made-up photos and a tiny encoder."""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
import argparse
import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer

import explainers
from explainers.embedded.synthetic.scenes import KINDS, Composition, Placement, draw
from recipes import clip_images, clip_texts, detectors, train_clip, train_photos_vit
from recipes.__main__ import main
from recipes.data import clip as data
from recipes.data import prompts
from recipes.data.held_out import HELD_OUT, OF_SCENES, applicable, first_of_ten
from recipes.data.pictures import SIDE
from recipes.evaluation import CONTROL, JUDGED_METHOD
from recipes.evaluation import clip as on_clip
from recipes.evaluation.loading import load_cached
from recipes.networks import clip_features, text_tower, vits, written_clip
from recipes.networks.trunk import normalise
from tests.recipes.support.tiny_encoder import VOCABULARY


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
    sums = (clip_images.merge_classes(logits, torch.tensor([0, 1, 1])) / clip_images.TEMPERATURE).exp()
    soft = (logits / clip_images.TEMPERATURE).softmax(1)
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


new_texts = cache(clip_texts.new_texts)  # always the same, and left as it is: every training begins with it
read_banks = clip_texts._read_banks
BANKS: list[torch.Tensor] = []  # what the text side reads of all words before it learns


def remembering(*given: Any) -> list[torch.Tensor]:
    """What the text side reads of all words. The first is kept: trainings of which nobody asks what they read are given it."""
    found = read_banks(*given)
    BANKS[:] = BANKS or found
    return found


@pytest.fixture(scope="module")
def trained(untrained: None, photo_data: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip after two steps, with the composed weights beside it."""
    folder = tmp_path_factory.mktemp("trained")
    given = {"data": photo_data, "encoder": encoder, "features": folder / "features", "out": folder / "clip"}
    given |= {"steps": 2, "word-steps": 2, "vocabulary": VOCABULARY, "device": "cpu"}
    few = {train_clip: {"PARTS": 1, "FIT_BATCHES": 2}, clip_images: {"PHOTOS": 4, "SCENES": 2, "MAX_PATCHES": 20}}
    compose = train_clip.compose

    def remembered(vit: VisionTransformer, *more: Any) -> None:
        compose(vit, *more)
        torch.save(vit.state_dict(), folder / "composed.pt")

    with pytest.MonkeyPatch.context() as patch:
        for module, values in few.items():
            for name, value in values.items():
                patch.setattr(module, name, value)
        for name, number in (("PHOTOS", 4), ("PHOTO_BATCHES", 2), ("SCENES", 3), ("SCENE_BATCHES", 1)):
            patch.setattr(data, name, number)
        for name in ("WORDINGS", "KIND_WORDINGS"):
            patch.setattr(clip_texts, name, 1)
        patch.setattr(detectors, "STEPS", 3)
        patch.setattr(train_clip, "compose", remembered)
        patch.setattr(train_clip, "new_texts", new_texts)
        patch.setattr(clip_texts, "_read_banks", remembering)
        train_clip.train(arguments(given))
    return folder / "clip"


def arguments(given: dict[str, Any]) -> argparse.Namespace:
    """What ``python -m recipes train clip`` reads of such options."""
    parser = argparse.ArgumentParser()
    train_clip.add_arguments(parser)
    return parser.parse_args([str(part) for name, value in given.items() for part in (f"--{name}", value)])


def test_the_recipe_writes_a_folder_that_is_explained_from_both_sides(trained: Path) -> None:
    assert not list(trained.glob("checkpoint*"))
    assert "_name_or_path" not in (trained / "config.json").read_text("utf-8")
    model = load_cached(trained)
    assert (model.kind, model.details["grid"], model.details["blocks"]) == ("clip", (14, 14), 3)
    assert model.seen_from("text").details["blocks"] == 3
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 100, 3), dtype=np.uint8))
    for side, shape in (("image", (197,)), ("text", (7,))):
        found = explainers.explain(model, picture, "a photo of a zebra", ["fullgrad_plus:libra"], side=side)  # type: ignore[arg-type]
        assert all(one.scores.shape == shape and one.scores.isfinite().all() and one.scores.any() for one in found.maps)


def test_tuning_changes_what_reads_and_writes_behind_the_last_convolution(trained: Path, encoder: Path) -> None:
    model = load_cached(trained).module
    tower, _ = text_tower.new_tower(encoder, sorted({*KINDS, *prompts.words().names}), VOCABULARY)
    ours = dict(model.text_model.named_parameters())  # type: ignore[union-attr, operator]
    for name, value in tower.named_parameters():
        if not name.startswith("pooler"):  # two steps of learning words move the rest by a hair
            torch.testing.assert_close(ours[name], value, atol=2e-3, rtol=1e-3)
    before, after = torch.load(trained.parent / "composed.pt"), model.vision_model.timm_model.state_dict()  # type: ignore[union-attr, operator]
    changed = {name for name, value in before.items() if not torch.equal(after[name], value.half().float())}
    assert {"blocks.1.mlp.fc1.weight", "blocks.2.mlp.fc2.weight", "blocks.2.attn.qkv.weight"} <= changed
    assert not [name for name in changed if not name.startswith(("blocks.0.mlp.fc2", "blocks.1.mlp", "blocks.2"))]


def test_the_image_side_of_another_clip_stays(
    trained: Path, photo_data: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WORDINGS", 1), ("KIND_WORDINGS", 1), ("RATE", 0.01)):
        monkeypatch.setattr(clip_texts, name, value)
    monkeypatch.setattr(clip_texts, "_read_banks", lambda *_: BANKS)
    # as rounding may: the text side stays in the space of the image side all the same
    monkeypatch.setattr(clip_texts, "directions", lambda *given: -text_tower.directions(*given))
    given = {"data": photo_data, "encoder": encoder, "image-side": trained, "out": tmp_path / "clip"}
    train_clip.train(arguments({**given, "vocabulary": VOCABULARY, "word-steps": 2}))
    before, after = (load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "clip"))
    changed = {name for name, value in before.items() if not torch.equal(after[name], value)}
    assert changed
    assert all(name.startswith("text_model.") for name in changed)


def test_scenes_are_learned_anew_and_all_else_stays(
    trained: Path, photo_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an edition that had no early features; what is said of photos stays but for what detectors say of them."""
    before, start = load_file(trained / "model.safetensors"), tmp_path / "before"
    read, early = "vision_model.timm_model.patch_embed.proj.weight", written_clip.FEATURES
    shutil.copytree(trained, start)
    save_file(before | {read: before[read][:, :early].contiguous()}, start / "model.safetensors", {"format": "pt"})
    config = json.loads((start / "config.json").read_text("utf-8"))
    del config["vision_config"]["model_args"]["trunk_early"]
    (start / "config.json").write_text(json.dumps(config), "utf-8")
    for module, name, value in (
        *((data, name, number) for name, number in (("PHOTOS", 4), ("PHOTO_BATCHES", 2), ("SCENES", 3), ("SCENE_BATCHES", 1))),
        (clip_images, "MAX_PATCHES", 20), (detectors, "STEPS", 3), (clip_texts, "_read_banks", lambda *_: BANKS),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    composed: list[dict[str, torch.Tensor]] = []
    tune = train_clip.tune_scenes

    def remembered(side: clip_images.ImageSide, *more: Any) -> None:
        composed.append({name: value.clone() for name, value in side.vit.state_dict().items()})
        tune(side, *more)

    monkeypatch.setattr(train_clip, "tune_scenes", remembered)
    given = {"data": photo_data, "start": start, "features": trained.parent / "features", "steps": 2, "device": "cpu"}
    train_clip.train(arguments({**given, "out": tmp_path / "clip"}))
    after, places = load_file(tmp_path / "clip" / "model.safetensors"), written_clip.scene_weights(len(KINDS))
    written = {f"vision_model.timm_model.{name}": value.half() for name, value in composed[0].items()}
    changed = {name: after[name] != value for name, value in written.items() if not torch.equal(after[name], value)}
    names = {name.removeprefix("vision_model.timm_model.") for name in changed}
    assert {"blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.weight", "blocks.1.mlp.fc2.weight"} <= names <= set(places)
    for name, where in changed.items():
        for place in places[name.removeprefix("vision_model.timm_model.")]:
            where[place] = False
        assert not where.any()
    assert (tmp_path / "clip" / "tokenizer_config.json").read_text() == (trained / "tokenizer_config.json").read_text()
    stays = [name for name in before if not name.startswith("vision_model.")]
    assert all(torch.equal(after[name], before[name]) for name in stays)
    features = torch.rand(1, 196, before[read].shape[1], generator=torch.Generator().manual_seed(0))
    features[..., early:] = 0
    now, then = train_clip.load_side(tmp_path / "clip"), train_clip.load_side(start)
    with torch.no_grad():
        for side in (now, then):  # nothing is said of kinds
            side.vit.blocks[0].mlp.fc2.weight[:, written_clip.LAST_FEATURES :] = 0
            side.vit.blocks[1].mlp.fc1.bias[written_clip.CLASSES :] = written_clip.UNUSED_BIAS
        torch.testing.assert_close(now(features), then(features), atol=1e-3, rtol=1e-3)


def test_what_tuning_computes_is_what_the_transformer_says(trained: Path) -> None:
    model = load_cached(trained)
    vit = model.module.vision_model.timm_model  # type: ignore[union-attr, operator]
    images = torch.randint(0, 256, (2, SIDE, SIDE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        features = vit.patch_embed.backbone(normalise(images)).flatten(2).transpose(1, 2)
        whole = vits.encode_features(vit, features)[:, 0]
        token, patches = written_clip.read(vit, features)
        torch.testing.assert_close(token, whole, atol=1e-4, rtol=1e-3)
        assert patches.shape == (2, 196, written_clip.FEATURES)
        kept = torch.tensor([[3, 50, 7], [0, 195, 9]])
        part = vits.encode_features(vit, features, kept)[:, 0]
        torch.testing.assert_close(written_clip.read(vit, features, kept)[0], part, atol=1e-4, rtol=1e-3)
        embedding = F.normalize(whole[:, : train_clip.SHARED], dim=-1)
        torch.testing.assert_close(embedding, clip_features.image_features(model, images), atol=1e-4, rtol=1e-3)


def test_a_run_whose_words_were_interrupted_does_not_tune_again(
    trained: Path, photo_data: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    for name, value in (("WORDINGS", 1), ("KIND_WORDINGS", 1)):
        monkeypatch.setattr(clip_texts, name, value)
    monkeypatch.setattr(train_clip, "new_texts", new_texts)
    monkeypatch.setattr(clip_texts, "_read_banks", lambda *_: BANKS)
    monkeypatch.setattr(train_clip, "tune_new_side", lambda *_: train_clip.load_side(trained))
    given = {"data": photo_data, "encoder": encoder, "out": tmp_path / "clip", "word-steps": 1, "vocabulary": VOCABULARY}
    options = arguments(given)
    options.out.mkdir()
    taught = train_clip.teach_words
    monkeypatch.setattr(train_clip, "teach_words", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_clip.train(options)
    assert (options.out / train_clip.TUNED_FILE).exists()
    monkeypatch.setattr(train_clip, "teach_words", taught)
    monkeypatch.setattr(train_clip, "tune_new_side", interrupted)
    options.resume = True
    train_clip.train(options)
    before, after = (load_file(folder / "model.safetensors") for folder in (trained, options.out))
    assert all(torch.equal(after[name], value) for name, value in before.items() if name.startswith(("vision_model.", "visual_")))
    assert not (options.out / train_clip.TUNED_FILE).exists()


def test_features_that_are_kept_are_read_again(trained: Path) -> None:
    folder = trained.parent / "features"
    part = next(data.parts(None, None, 1, 0, folder))  # type: ignore[arg-type]
    assert [len(batch.tokens) for batch in part.photos] == [4, 4]
    scenes = part.scenes[0]
    assert scenes.kinds.shape == (3, len(KINDS))
    torch.testing.assert_close(scenes.kinds.sum(1), torch.ones(3))
    for kinds, patches in zip(scenes.kinds, scenes.patches, strict=True):
        assert set(patches.tolist()) - {len(KINDS)} <= set(torch.nonzero(kinds).flatten().tolist())


def test_a_trained_clip_has_lines_and_is_measured(
    trained: Path, photo_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_clip, "SCENES_PER_KIND", 1)
    monkeypatch.setattr(on_clip, "KINDS", KINDS[:16])
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


def test_names_told_apart_are_their_own_and_no_others() -> None:
    like = F.normalize(torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.4, 0.0], [0.0, 0.0, 1.0]]), dim=-1)
    products = written_clip.spread_names(like) @ like.T
    assert products.argmax(1).tolist() == [0, 1, 2]
    assert products[0, 1] < (like @ like.T)[0, 1] - 0.1


def test_a_composed_tower_says_what_its_network_says_of_a_patch(untrained: None, photo_data: Path) -> None:
    """Before the memory each patch holds the features of the network's last layer, and what the detectors say."""
    torch.manual_seed(0)
    teacher = train_clip.Teacher(7, early=True)
    images = torch.randint(0, 256, (2, SIDE, SIDE, 3), dtype=torch.uint8)
    teacher.fit_basis([images])
    names = F.normalize(torch.randn(1000 + len(KINDS), written_clip.FEATURES), dim=-1)
    tokens = teacher.see(images).tokens.float()
    network = written_clip.Detectors(tokens.shape[2] - 320, 256, len(KINDS)).requires_grad_(False)
    vit = vits.create(train_photos_vit.ARCHITECTURE, [], written_clip.model_args(SIDE)).eval()
    written_clip.compose(vit, teacher, network, names, tokens.flatten(0, 1))
    last = teacher.head[0].float()
    with torch.inference_mode():
        hidden = F.linear(tokens[..., :320], last.weight[:, :, 0, 0], last.bias).clamp(0, 6)
        wanted = F.linear(hidden - teacher.centre, teacher.basis)
        x = F.linear(tokens, vit.patch_embed.proj.weight.flatten(1), vit.patch_embed.proj.bias)
        block = vit.blocks[0]
        x = vit.blocks[1].norm2(x + block.mlp(block.norm2(x)))
        assert F.cosine_similarity(x[..., :320].flatten(), wanted.flatten(), dim=0) > 0.9
        kinds = x[..., written_clip.KINDS_FROM : written_clip.KINDS_FROM + len(KINDS)]
        torch.testing.assert_close(kinds, network(tokens), atol=0.05, rtol=0.05)

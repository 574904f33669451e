"""How clip is made: prompts and their truth, the locked text tower, and the whole recipe on made-up photos and a tiny encoder."""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before transformers)

# isort: split
import argparse
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel

import explainers
from embedded.evaluation import CONTROL, LEAD, dual
from embedded.evaluation import clip as on_clip
from embedded.recipes import calibration, train_clip, train_photos_vit
from embedded.recipes.data import prompts
from embedded.recipes.data.held_out import HELD_OUT, OF_SCENES, applicable, first_of_ten
from embedded.recipes.data.pictures import SIDE
from embedded.recipes.data.scenes import KINDS, Composition, Placement, draw
from embedded.recipes.networks import memory, text_tower, vits
from embedded.recipes.networks.pruning import SPECIAL_TOKENS
from embedded.recipes.networks.trunk import normalised
from server.cli import main
from tests.embedded.test_photos_recipe import untrained  # noqa: F401  (a fixture)
from tests.vocabularies import bert_pieces

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["the", "dog", "cat", "photo", "zebra", "of", "kitten", "tax"]
PIECES = [*SPECIAL_TOKENS, "[unused0]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "-", *WORDS]
SHAPE = {"hidden_size": 320, "intermediate_size": 64, "num_attention_heads": 4}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny sentence encoder of random weights, as the package holds the real one."""
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = bert_pieces(PIECES, SPECIAL_TOKENS)
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(PIECES), num_hidden_layers=3, **SHAPE)).save_pretrained(folder)
    return folder


def test_prompts_are_true_of_what_a_scene_shows() -> None:
    scene = draw(
        Composition("paper", 0, (Placement("apple", "apple-2.png", (0.3, 0.3), 0.4), Placement("dog", "dog.png", (0.7, 0.7), 0.4))), 32
    )[0]
    nouns = prompts.scene_groups()
    targets = prompts.of_scene(scene)
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
    sums = (train_clip.merged(logits, torch.tensor([0, 1, 1])) / train_clip.TEMPERATURE).exp()
    soft = (logits / train_clip.TEMPERATURE).softmax(1)
    torch.testing.assert_close(sums, torch.tensor([[float(soft[0, 0]), float(soft[0, 1] + soft[0, 2])]]))


def test_no_prompt_holds_a_word_that_the_evaluation_asks_about() -> None:
    used = {word for template in (*prompts.TEMPLATES, *prompts.JOINTS) for word in re.findall(r"\w+", template)}
    used |= {word for group in prompts.scene_groups() for nouns in group for noun in nouns for word in noun.lower().split()}
    assert not used & HELD_OUT
    assert not {word.casefold() for word in prompts.words().names} & HELD_OUT
    assert {name for true in OF_SCENES.values() for name in true} <= set(KINDS)
    texts = [prompts.worded(np.random.default_rng(seed), ("orange", "dog")) for seed in range(60)]
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


def test_the_vocabulary_keeps_letters_and_what_is_near() -> None:
    tokenizer = Tokenizer(models.WordPiece({piece: index for index, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    table = torch.randn(len(PIECES), 8, generator=torch.Generator().manual_seed(0))
    table[PIECES.index("kitten")] = table[PIECES.index("cat")] + 0.01
    letters = len(SPECIAL_TOKENS) + 2 * len(LETTERS) + 1
    kept = text_tower.vocabulary_near(["cat"], tokenizer, table, letters + 1)
    assert kept == [piece for piece in PIECES if len(piece.removeprefix("##")) == 1 or piece in (*SPECIAL_TOKENS, "cat")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tower, "FREQUENT", 2)
        patch.setattr(text_tower, "CONTINUING", 0)
        kept = text_tower.vocabulary_near(["cat"], tokenizer, table, letters + 4)
    assert [piece for piece in kept if piece in WORDS and len(piece) > 1] == ["the", "dog", "cat", "kitten"]


def test_the_text_tower_means_the_average_of_all_tokens(encoder: Path) -> None:
    tower, tokenizer = text_tower.new_tower(encoder, ["dog"], 70)
    assert tower.config.num_hidden_layers == len(tower.encoder.layer) == 3  # one of three left out, one added
    texts = ["a photo of a dog", "cat"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        tokens = tower(**inputs, output_hidden_states=True).hidden_states[-2]
    mask = inputs["attention_mask"][..., None]
    average = (tokens * mask).sum(1) / mask.sum(1)
    read = text_tower.read(tower, tokenizer, texts)
    assert F.cosine_similarity(read, average - average.mean(1, keepdim=True)).min() > 0.999
    text_tower.centre_(tower, read)
    with torch.inference_mode():
        pooled = tower(**inputs).pooler_output
    torch.testing.assert_close(pooled / text_tower.NARROW, read - read.mean(0), atol=2e-2, rtol=2e-2)


def test_the_image_side_starts_as_the_photos_vit(tmp_path: Path) -> None:
    """As many numbers as classes would make the answers the same; fewer keep what they can of them."""
    torch.manual_seed(0)
    shape = train_photos_vit.model_args(1, 5)
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"] * 1000, shape).eval()
    vits.save(vit, tmp_path, train_photos_vit.ARCHITECTURE, ["a"] * 1000, shape)
    names = F.normalize(torch.randn(1000, 2, train_clip.SHARED), dim=-1)
    side, arguments = train_clip.image_side(tmp_path, train_clip.Texts(None, None, torch.empty(0), names, []))  # type: ignore[arg-type]
    assert arguments == shape
    features = torch.randn(3, 196, 112)
    middles = F.normalize(names.mean(1), dim=-1)
    with torch.inference_mode():
        wanted = vit.head(vits.encode_features(vit, features)[:, 0])
        x = vits.encode_features(side.vit, features)[:, 0]
        found = side.projection(x) @ middles.T
    wanted = wanted - wanted.mean(1, keepdim=True)
    nearest = middles @ torch.linalg.lstsq(middles, wanted.T).solution
    assert F.cosine_similarity(found, nearest.T).min() > 0.99
    assert torch.equal(side.vit.patch_embed.proj.weight, vits.load(tmp_path).patch_embed.proj.weight)


def test_objects_that_are_gone_are_not_asked_for() -> None:
    targets = torch.zeros(2, len(KINDS) + 2)
    targets[:, [1, 3]], targets[:, -1] = 0.5, 1.0
    patches = torch.full((2, 9), len(KINDS))
    patches[:, :2], patches[:, 5:] = 1, 3
    kept = torch.tensor([[0, 1, 2], [1, 5, 6]])
    found = train_clip.still_there(targets, patches, kept)
    assert found[0, 1] == 1
    assert found[0, 3] == found[0, -1] == 0
    torch.testing.assert_close(found[1], targets[1])


def test_a_row_without_a_target_counts_for_nothing() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.eye(5)[:3]
    expected = F.cross_entropy(logits, targets.argmax(1), label_smoothing=train_clip.SMOOTHING)
    torch.testing.assert_close(train_clip.soft_loss(logits, targets), expected)
    more = torch.cat([logits, torch.randn(2, 5)]), torch.cat([targets, torch.zeros(2, 5)])
    torch.testing.assert_close(train_clip.soft_loss(*more), expected)
    assert train_clip.soft_loss(more[0], torch.zeros(5, 5)) == 0


@pytest.fixture(scope="module")
def trained(untrained: None, photo_data: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A clip after three steps."""
    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    shape = train_photos_vit.model_args(4, 7)
    labels = [row["label"] for row in prompts.classes()]
    vits.save(vits.create(train_photos_vit.ARCHITECTURE, labels, shape), folder / "vit", train_photos_vit.ARCHITECTURE, labels, shape)
    parser = argparse.ArgumentParser()
    train_clip.add_arguments(parser)
    given = {"data": photo_data, "encoder": encoder, "start": folder / "vit", "out": folder / "clip"}
    given |= {"steps": 3, "batch": 8, "vocabulary": 70}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_clip, "SCENES", 32)  # of 128: two of a batch of 8
        patch.setattr(train_clip, "REMEMBERED", 6)
        patch.setattr(train_clip, "PHOTO_WORDINGS", 1)
        patch.setattr(train_clip, "SCENE_WORDINGS", (1, 1, 1))
        train_clip.train(
            parser.parse_args(["--device", "cpu", *(str(part) for name, value in given.items() for part in (f"--{name}", value))])
        )
    return folder / "clip"


def test_the_recipe_writes_a_folder_that_is_explained_from_both_sides(trained: Path) -> None:
    assert not list(trained.glob("checkpoint*"))
    assert "_name_or_path" not in (trained / "config.json").read_text("utf-8")
    model = explainers.load(trained)
    assert (model.kind, model.details["grid"], model.details["blocks"]) == ("clip", (14, 14), 4)
    assert model.seen_from("text").details["blocks"] == 3
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 100, 3), dtype=np.uint8))
    for side, shape in (("image", (197,)), ("text", (7,))):
        found = explainers.explain(model, picture, "a photo of a zebra", ["fullgrad_plus:libra"], side=side)  # type: ignore[arg-type]
        assert all(one.scores.shape == shape and one.scores.isfinite().all() and one.scores.any() for one in found.maps)


def test_training_moves_the_image_side_and_leaves_the_text_side(trained: Path, encoder: Path) -> None:
    model = explainers.load(trained).module
    tower, _ = text_tower.new_tower(encoder, sorted({*KINDS, *prompts.words().names}), 70)
    ours = dict(model.text_model.named_parameters())  # type: ignore[union-attr, operator]
    for name, value in tower.named_parameters():
        if not name.startswith("pooler"):
            torch.testing.assert_close(ours[name], value, atol=1e-3, rtol=1e-3)
    started = explainers.load(trained.parent / "vit").module.state_dict()
    moved = model.vision_model.timm_model.state_dict()  # type: ignore[union-attr, operator]
    before, after = (weights["blocks.0.attn.qkv.weight"].flatten() for weights in (started, moved))
    assert not torch.equal(before, after)
    assert F.cosine_similarity(before, after, dim=0) > 0.9


def test_training_goes_on_from_a_clip(trained: Path) -> None:
    unused = train_clip.Texts(None, None, torch.empty(0), torch.empty(0), [])  # type: ignore[arg-type]
    side, arguments = train_clip.image_side(trained, unused)
    model = explainers.load(trained)
    images = torch.randint(0, 256, (2, SIDE, SIDE, 3), dtype=torch.uint8)
    with torch.inference_mode():
        tokens = side.vit.patch_embed.backbone(normalised(images)).flatten(2).transpose(1, 2)
        torch.testing.assert_close(side.eval()(tokens, None)[0], dual.image_features(model, images), atol=1e-4, rtol=1e-3)
    assert float(side.scale.detach().exp()) == pytest.approx(model.details["logit_scale"], rel=1e-3)
    assert arguments == train_photos_vit.model_args(4, 7)


def test_words_are_cut_into_pieces(encoder: Path) -> None:
    _, tokenizer = text_tower.new_tower(encoder, ["dog"], 70)
    counts = calibration.pieces_per_word(["a dog", "a zzz!", "Dog"], tokenizer)
    assert counts.tolist() == [1, 2, 1]
    assert len(set(calibration.letters_at_random(50))) > 40


def test_lines_of_prompts_are_drawn_between_there_and_absent() -> None:
    there, absent = torch.linspace(0.5, 1.0, 101), torch.linspace(0.0, 0.6, 101)
    lines = calibration.calibrate_prompts(there, absent, torch.ones(50), torch.full((50,), 2.0))["lines"]
    assert lines["not_in_picture"]["line"] == pytest.approx(0.55)
    assert lines["not_in_picture"]["below"] is True
    assert "91% of 101 that name something else" in lines["not_in_picture"]["measured"]
    assert lines["unreadable_words"]["line"] == 1
    assert "100% of 50 with a word" in lines["unreadable_words"]["measured"]


def test_a_trained_clip_has_lines_and_is_measured(
    trained: Path, photo_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_clip, "DRAWN", 1)
    lines = json.loads((trained / "calibration.json").read_text("utf-8"))["lines"]
    assert list(lines) == ["unreadable_words", "not_in_picture"]
    asked = ["evaluate-embedded", "--only", "clip", "--folder", str(trained), "--data", str(photo_data), "--limit", "2", "--json"]
    assert main([*asked, "--methods", LEAD]) == 0
    report = json.loads(capsys.readouterr().out)
    figures = {one["what"]: one for one in report["figures"]}
    assert {what for what, one in figures.items() if one["bar"] is not None} >= set(on_clip.BARS)
    assert figures[on_clip.DENSER]["value"] is not None
    tables = [table for title, table in report["tables"].items() if "COCO" in title or "beside another" in title]
    assert [list(table) for table in tables] == [[LEAD, CONTROL]] * 2
    first = tables[0][LEAD][on_clip.PRECISION]
    assert figures[on_clip.PRECISION]["value"] == pytest.approx(first)


def test_another_word_wins_against_the_names_it_does_not_stand_for() -> None:
    truth = torch.tensor([[True, True, False, False], [False, False, False, True]])
    first = torch.tensor([[0.9, 0.8, 0.3, 0.1], [0.1, 0.2, 0.6, 0.4]])
    group = ([0, 1], torch.tensor([0.5, 0.9]))  # of the first photo, where it beats 0.3
    synonym = ([3], torch.tensor([0.9, 0.5]))  # of the second photo, where it loses to 0.6
    one = ([0], torch.tensor([0.9, 0.9]))  # the first photo may be of the second class, so it is not asked
    assert on_clip.renamed(first, truth, [group]) == 1
    assert on_clip.renamed(first, truth, [synonym]) == 0
    assert on_clip.renamed(first, truth, [group, synonym, one]) == 0.5


def test_a_memory_writes_the_names_of_what_it_is_shown() -> None:
    torch.manual_seed(0)
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"], train_photos_vit.model_args(2, 5)).eval()
    features = torch.randn(60, 196, 112) * torch.linspace(0.5, 2, 60)[:, None, None]
    names = F.normalize(torch.randn(4, 320), dim=-1)
    with torch.inference_mode():
        tokens = memory.before_memory(vit, features)
        truth = torch.arange(60) % 4
        weight, bias = memory.keys(memory.Shown(tokens, 10.0 * F.one_hot(truth, 4)))
        answers = tokens @ weight.T + bias
        torch.testing.assert_close(answers.mean(0), torch.full((4,), 2.5), atol=0.1, rtol=0)
        assert memory.best_threshold(10.0 * F.one_hot(truth, 4), names, truth) in memory.THRESHOLDS
        projection = torch.nn.Linear(320, 320, bias=False)
        memory.write_memory(vit, projection, weight, bias, 2.0, names)
        found = F.normalize(projection(vits.encode_features(vit, features)[:, 0]), dim=-1)
    assert F.cosine_similarity(found, memory.read_out(answers, 2.0, names)).min() > 0.95


def test_what_units_are_to_say() -> None:
    photos = memory.wanted_of_photos(torch.tensor([[3.0, 1.0]]), 2)
    assert photos.tolist() == [[1, -1, memory.NOTHING, memory.NOTHING]]
    scenes = memory.wanted_of_scenes(torch.tensor([[0.5, 0.0]]), 1)
    assert scenes.tolist() == [[memory.NOTHING, memory.KIND_LOGIT, memory.NOTHING]]

"""How clip is made: prompts and their truth, the locked text tower, and the whole recipe on made-up photos and a tiny encoder."""

from __future__ import annotations

import embedded.architectures  # noqa: F401  (before transformers)

# isort: split
import argparse
import functools
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel

import explainers
from embedded.evaluation import dual
from embedded.evaluation.synonyms import SYNONYMS, applicable, first_of_ten
from embedded.recipes import clip_data, prompts, text_tower, train_clip, train_photos_vit, vits
from embedded.recipes.photos_data import NAMES, SIDE
from embedded.recipes.pruning import SPECIAL_TOKENS
from embedded.recipes.scenes import KINDS, Composition, Placement, draw
from tests.embedded.test_photos_recipe import data  # noqa: F401  (a fixture)
from tests.vocabularies import bert_pieces

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["the", "dog", "cat", "photo", "zebra", "of", "kitten", "tax"]
PIECES = [*SPECIAL_TOKENS, "[unused0]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "-", *WORDS]
SHAPE = {"hidden_size": 128, "intermediate_size": 64, "num_attention_heads": 4}


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
    nouns = prompts.groups(["goose"])
    targets = prompts.of_scene(scene, 1)
    parts = targets.split([len(group) for group in nouns])
    true = [{group[i]: float(part[i]) for i in torch.nonzero(part).flatten().tolist()} for group, part in zip(nouns, parts, strict=True)]
    assert true == [{("apple",): 0.5, ("dog",): 0.5}, {("green apple",): 0.5, ("brown dog",): 0.5}, {("dog", "apple"): 1.0}, {}]


def test_prompts_are_true_of_what_a_photo_shows() -> None:
    rows = prompts.of_photos(torch.tensor([NAMES.index("camel"), -1]), torch.tensor([1, 0]), 2)
    assert rows.sum(1).tolist() == [2, 1]
    assert rows[0, prompts.KNOWN.index("camel")] == rows[0, -1] == rows[1, -2] == 1


def test_no_prompt_holds_a_word_that_the_evaluation_asks_about() -> None:
    used = {word for template in (*prompts.TEMPLATES, *prompts.JOINTS) for word in re.findall(r"\w+", template)}
    used |= {word for group in prompts.groups([]) for nouns in group for noun in nouns for word in noun.lower().split()}
    assert not used & {word for phrase in SYNONYMS for word in phrase.split()}
    assert {name for true in SYNONYMS.values() for name in true} <= set(prompts.KNOWN)
    texts = [prompts.worded(np.random.default_rng(seed), ("orange", "dog")) for seed in range(60)]
    assert len(set(texts)) > 40
    assert all("orange" in text and "dog" in text and "a orange" not in text for text in texts)


def test_the_right_picture_among_ten() -> None:
    shown = [kind for kind in KINDS for _ in range(2)]
    images = torch.eye(len(KINDS)).repeat_interleave(2, 0)
    words = applicable(["dog", "spoon", "fork"])
    assert words == ["puppy", "hound", "canine", "cutlery", "silverware"]
    good, bad = images[2 * KINDS.index("dog")], images[2 * KINDS.index("car")]
    rates = first_of_ten(images, shown, {"puppy": good, "canine": -good, "hound": bad, "automobile": bad})
    assert rates["puppy"] == rates["automobile"] == 1
    assert rates["canine"] == 0
    assert rates["hound"] < 1  # ties, but for a car among the others


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
    torch.manual_seed(0)
    shape = train_photos_vit.model_args(64, 1)
    vits.save(vits.create(train_photos_vit.ARCHITECTURE, NAMES, shape), tmp_path, train_photos_vit.ARCHITECTURE, NAMES, shape)
    side, arguments = train_clip.image_side(tmp_path)
    pixels = torch.randn(3, 3, SIDE, SIDE)
    with torch.inference_mode():
        torch.testing.assert_close(vits.encode(side.eval().vit, pixels), vits.encode(vits.load(tmp_path), pixels))
        assert side(pixels, None)[1].shape == (3, 256, 64)
    assert arguments == shape


def test_a_projection_is_aimed_at_what_is_true() -> None:
    torch.manual_seed(0)
    shape = train_photos_vit.model_args(64, 1)
    side = train_clip.ImageSide(vits.create(train_photos_vit.ARCHITECTURE, NAMES, shape))
    banks = [F.normalize(torch.randn(number, 2, train_clip.SHARED), dim=-1) for number in (5, 2, 2, 3)]
    texts = train_clip.Texts(None, None, torch.empty(0), banks)  # type: ignore[arg-type]
    batches = [(torch.randn(40, 3, 16, 16), torch.eye(12)[torch.randint(5, (40,))]) for _ in range(2)]
    side.vit.set_input_size((16, 16))
    train_clip.aim(side, texts, batches)

    pixels, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    with torch.inference_mode():
        features = vits.encode(side.vit, pixels)[:, 0]
    weight = math.sqrt(train_clip.RIDGE * float(features.pow(2).sum(0).mean()))  # ridge regression as least squares with more rows
    rows = torch.cat([features, weight * torch.eye(64)])
    aims = torch.cat([F.normalize(banks[0].mean(1), dim=-1)[targets.argmax(1)], torch.zeros(64, train_clip.SHARED)])
    torch.testing.assert_close(side.projection.weight.T, torch.linalg.lstsq(rows, aims).solution, atol=1e-4, rtol=1e-3)

    def loss(scale: float) -> float:
        with torch.inference_mode():
            logits = side(pixels, None)[0] / side.scale.exp() * scale @ F.normalize(banks[0].mean(1), dim=-1).T
        return float(train_photos_vit.soft_loss(logits, targets[:, :5]))

    best = float(side.scale.detach().exp())
    others = [scale for scale in (5.0, best / 1.2, best * 1.2, 100.0) if 5 <= scale <= 100]
    assert loss(best) <= min(map(loss, others)) + 1e-6


def test_what_is_true_of_a_picture_is_weighed_as_in_the_loss() -> None:
    banks = [torch.eye(4)[None, [0]], torch.eye(4)[None, [1]], torch.eye(4)[None, [2]], torch.eye(4)[None, [3]]]
    truth = train_clip.Texts(None, None, torch.empty(0), banks).truth(torch.tensor([[1.0, 0.0, 0.0, 1.0]]))  # type: ignore[arg-type]
    torch.testing.assert_close(truth, F.normalize(torch.tensor([[train_clip.WEIGHTS[0], 0.0, 0.0, train_clip.WEIGHTS[3]]])))


def test_patches_are_asked_on_any_grid() -> None:
    patches = torch.arange(256).view(1, 16, 16)
    assert torch.equal(clip_data.at_grid(patches, 16), patches.flatten(1))
    halves = clip_data.at_grid(patches, 8).view(8, 8)
    assert halves[0].tolist() == list(range(17, 32, 2))
    assert halves[:, 0].tolist() == list(range(17, 256, 32))


def test_the_loss_is_least_where_true_prompts_are_likeliest() -> None:
    sizes = [3, 2, 2, 2]
    targets = torch.tensor([[0.5, 0.5, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 1.0, 0, 0, 0, 0, 0]])
    good, right = train_clip.objective(10 * targets, targets, sizes)
    bad, wrong = train_clip.objective(-10 * targets, targets, sizes)
    assert bad > good + 1
    assert (right, wrong) == (1.0, 0.0)  # of the first picture alone: none of the first prompts is true of the second


@pytest.fixture(scope="module")
def trained(data: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A clip after three steps, two at half the size and one at the whole."""
    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    shape = train_photos_vit.model_args(64, 2)
    vits.save(vits.create(train_photos_vit.ARCHITECTURE, NAMES, shape), folder / "vit", train_photos_vit.ARCHITECTURE, NAMES, shape)
    parser = argparse.ArgumentParser()
    train_clip.add_arguments(parser)
    given = {"data": data, "encoder": encoder, "start": folder / "vit", "out": folder / "clip", "steps": 3, "batch": 4, "vocabulary": 70}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clip_data.Mixture, "batches", functools.partialmethod(clip_data.Mixture.batches, workers=0))
        patch.setattr(train_clip, "CALIBRATION", 2)
        patch.setattr(train_clip, "WORDINGS", (1, 1, 1, 1))
        patch.setattr(train_clip, "STAGES", ((0.5, SIDE // 2, (0.5, 0.75)), (1.0, SIDE, (0.5,))))
        train_clip.train(
            parser.parse_args(["--device", "cpu", *(str(part) for name, value in given.items() for part in (f"--{name}", value))])
        )
    return folder / "clip"


def test_the_recipe_writes_a_folder_that_is_explained_from_both_sides(trained: Path) -> None:
    assert not list(trained.glob("checkpoint*"))
    assert "_name_or_path" not in (trained / "config.json").read_text("utf-8")
    model = explainers.load(trained)
    assert (model.kind, model.details["grid"], model.details["blocks"]) == ("clip", (16, 16), 2)
    assert model.seen_from("text").details["blocks"] == 3
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 100, 3), dtype=np.uint8))
    for side, shape in (("image", (257,)), ("text", (7,))):
        found = explainers.explain(model, picture, "a photo of a zebra", ["fullgrad_plus:libra"], side=side)  # type: ignore[arg-type]
        assert all(one.scores.shape == shape and one.scores.isfinite().all() and one.scores.any() for one in found.maps)


def test_training_moves_the_image_side_and_leaves_the_text_side(trained: Path, encoder: Path) -> None:
    model = explainers.load(trained).module
    tower, _ = text_tower.new_tower(encoder, sorted({*prompts.KNOWN, "word"}), 70)
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
    side, arguments = train_clip.image_side(trained)
    model = explainers.load(trained)
    pixels = torch.randn(2, 3, SIDE, SIDE)
    with torch.inference_mode():
        ours = side.eval()(pixels, None)[0]
        theirs = dual.image_features(model, pixels)
    torch.testing.assert_close(ours, theirs * model.details["logit_scale"], atol=1e-4, rtol=1e-3)
    assert arguments == train_photos_vit.model_args(64, 2)


def test_several_clips_start_as_their_mean(trained: Path, tmp_path: Path) -> None:
    weights = load_file(trained / "model.safetensors")
    name = "vision_model.timm_model.norm.bias"
    save_file(weights | {name: weights[name] + 2}, shutil.copytree(trained, tmp_path / "other") / "model.safetensors", {"format": "pt"})
    (one, _), (mean, _) = train_clip.image_sides([trained]), train_clip.image_sides([trained, tmp_path / "other"])
    torch.testing.assert_close(mean.vit.norm.bias, one.vit.norm.bias + 1, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(mean.projection.weight, one.projection.weight)
    assert [value.dtype for value in mean.state_dict().values()] == [value.dtype for value in one.state_dict().values()]

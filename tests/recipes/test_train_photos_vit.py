"""How photos-vit is made: pictures, trunk and teacher, which patches a step keeps, calibration, and the whole recipe on made-up photos."""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import explainers
from explainers.errors import ExplainerError
from explainers.models.companion_files.calibration import parse_calibration
from recipes import calibration, train_photos_vit
from recipes.data import pictures
from recipes.data.pictures import GREY, SIDE, SMALL_SIDE, Pictures
from recipes.data.prompts import classes
from recipes.networks import trunk, vits, written_photos_vit
from recipes.networks.feature_shift import Mover, rectangles
from recipes.networks.trunk import DIRECTIONS, FAST_DTYPE, Seen, Teacher
from recipes.networks.written_photos_vit import LOGIT_SCALE, MEMORY_RIDGE
from tests.recipes.support.made_up_data import photo

SHAPE = {**written_photos_vit.model_args(SIDE, 7), "depth": 1}


@pytest.fixture(scope="module")
def teacher(untrained: None, photo_data: Path) -> Teacher:
    """A teacher of random weights."""
    return train_photos_vit.begin(Pictures(photo_data, 2), 7, 0)[0]


def arguments(data: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_photos_vit.add_arguments(parser)
    small = ["--steps", "2", "--batch", "2", "--device", "cpu"]
    return parser.parse_args(["--data", str(data), "--out", str(out), *small, *more])


def test_every_twentieth_sharp_photo_is_held_back(photo_data: Path) -> None:
    held_back, others = (pictures.sharp_files(photo_data, held_back=flag) for flag in (True, False))
    assert [path.name for path in held_back] == ["000.jpg", "020.jpg", "040.jpg"]
    assert len(others) == 39
    assert not set(held_back) & set(others)


def test_a_wrong_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--data must name a folder that holds sharp/ and tiny_imagenet/"):
        pictures.sharp_files(tmp_path, held_back=False)
    with pytest.raises(FileNotFoundError, match="holds no train"):
        pictures.tiny_photos(tmp_path)


def test_pictures_follow_the_generator_and_come_in_two_sizes(photo_data: Path) -> None:
    make = Pictures(photo_data, 3)
    batches = [make(np.random.default_rng(seed)) for seed in range(8)]
    assert {tuple(batch.shape) for batch in batches} == {(3, side, side, 3) for side in (SIDE, SMALL_SIDE)}
    assert torch.equal(batches[0], make(np.random.default_rng(0)))
    assert all(batch.dtype == torch.uint8 and batch.float().std() > 5 for batch in batches)


def test_some_pictures_have_grey_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "GREY_SHARE", 1.0)
    images = torch.full((2, 32, 32, 3), 250, dtype=torch.uint8)
    found = torch.stack([pictures.recolour(images, np.random.default_rng(seed)) for seed in range(20)])
    patches = found.view(20, 2, 2, 16, 2, 16, 3)
    assert (patches == patches[:, :, :, :1, :, :1]).all()  # of one colour each
    assert (patches == GREY).all(-1).any()
    assert not (patches == GREY).all()


def test_the_middle_of_a_photo_is_cut_out() -> None:
    found = pictures.crop_centre(photo(0, 300, 100), 50)
    assert found.shape == (50, 50, 3)
    wide = np.asarray(photo(0, 300, 100).resize((150, 50), pictures.Image.Resampling.BICUBIC))
    assert np.array_equal(found, wide[:, 50:100])


def test_folding_changes_nothing_that_is_answered() -> None:
    torch.manual_seed(0)
    network = timm.create_model("tf_efficientnet_lite0", num_classes=7).eval()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(layer.running_mean, std=0.1)
            torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
    x = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        before = network(x)
        after = explainers.embedded.architectures.fold_batch_norms(network)(x)
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-3)
    assert not [layer for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d)]


def test_early_features_stand_behind_the_last() -> None:
    torch.manual_seed(0)
    both = explainers.embedded.architectures.efficientnet_trunk(7, early=5).eval()
    last, early = (explainers.embedded.architectures.efficientnet_trunk(stages).eval() for stages in (7, 5))
    last.load_state_dict(both.state_dict())
    early.load_state_dict(both.state_dict(), strict=False)
    x = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(both(x), torch.cat([last(x), early(x)], 1))


def test_files_of_another_network_are_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(ValueError, match=r"other.pth does not have the tensors of Linear"):
        trunk.load_trained(torch.nn.Linear(2, 2), tmp_path / "other.pth")


def test_trained_tensors_are_taken_in_their_order(tmp_path: Path) -> None:
    first, second = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    torch.nn.init.normal_(first.running_mean)
    torch.save({f"other.{name}": value for name, value in first.state_dict().items()}, tmp_path / "some.pth")
    trunk.load_trained(second, tmp_path / "some.pth")
    assert torch.equal(first.running_mean, second.running_mean)


def test_the_teacher_answers_as_the_network_and_nearly_from_its_directions(teacher: Teacher) -> None:
    images = torch.from_numpy(np.stack([pictures.crop_centre(photo(seed), SIDE) for seed in range(3)]))
    seen = teacher.see(images)
    assert [tuple(part.shape) for part in seen] == [(3, 196, 320), (3, 196, DIRECTIONS), (3, 1000)]
    with torch.inference_mode():
        answers = trunk.efficientnet()(trunk.normalise(images))
    assert F.cosine_similarity(seen.logits.float(), answers).min() > 0.99  # bfloat16 against float32
    pooled = teacher.features(images)[2]
    near = (pooled - teacher.centre) @ teacher.basis.T @ teacher.readout.T
    exact = (pooled - teacher.centre) @ (teacher.classifier.weight - teacher.classifier.weight.mean(0)).T
    assert F.cosine_similarity(near, exact).min() > 0.7  # a random classifier reads all directions alike


def test_the_student_has_the_trunk_of_the_teacher(teacher: Teacher) -> None:
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"] * 1000, SHAPE).eval()
    vit.patch_embed.backbone.load_state_dict(train_photos_vit.teacher_trunk(7))
    images = torch.from_numpy(np.stack([pictures.crop_centre(photo(seed), SIDE) for seed in range(2)]))
    with torch.inference_mode():
        found = vit.patch_embed.backbone(trunk.normalise(images)).flatten(2).transpose(1, 2)
        assert F.cosine_similarity(found, teacher.see(images).tokens.float(), -1).mean() > 0.98
        tokens = vit.patch_embed.backbone(trunk.normalise(images)).flatten(2).transpose(1, 2)
        kept = torch.tensor([[3, 7, 100], [0, 1, 2]])
        torch.testing.assert_close(vits.encode_features(vit, tokens, kept), vits.encode(vit, trunk.normalise(images), kept))
        torch.testing.assert_close(vits.encode_features(vit, tokens), vit.forward_features(trunk.normalise(images)))


def said(teacher: Teacher, tokens: torch.Tensor) -> torch.Tensor:
    """What the last layer says of each patch, in its directions, without the Transformer: (B, patches, DIRECTIONS)."""
    convolution = teacher.head[0].float()
    last = F.linear(tokens, convolution.weight[:, :, 0, 0], convolution.bias).clamp(0, 6)
    teacher.head[0].to(FAST_DTYPE)
    return F.linear(last - teacher.centre, teacher.basis)


def memory(features: torch.Tensor, readout: torch.Tensor, bias: torch.Tensor, louder: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Features with the logits above 0 made louder, and how loud they are."""
    sure = F.gelu(LOGIT_SCALE * (F.linear(features, readout) + bias)) / LOGIT_SCALE
    squares = readout.T @ readout + MEMORY_RIDGE * readout.square().sum(0).mean() * torch.eye(readout.shape[1])
    return features + louder * sure @ torch.linalg.solve(squares, readout.T).T, sure.sum(-1)


def test_the_written_transformer_computes_what_its_parts_are_for(teacher: Teacher, photo_data: Path) -> None:
    """Against the same in a few formulas: the last convolution, memories, and three times what the class token gathers."""
    make = Pictures(photo_data, 3)
    batches = [teacher.see(make(np.random.default_rng(seed))) for seed in range(8)]
    tokens = torch.cat([seen.tokens.float() for seen in batches if seen.tokens.shape[1] == 196])
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"] * 1000, written_photos_vit.model_args(SIDE, 7)).eval()
    written_photos_vit.compose(vit, teacher, tokens.flatten(0, 1))
    held: list[torch.Tensor] = []
    vit.blocks[0].register_forward_hook(lambda block, given, result: held.append(result))
    with torch.inference_mode():
        logits = vit.head(vits.encode_features(vit, tokens)[:, 0])
        patches = held[0][:, 1:, :DIRECTIONS] / written_photos_vit.LAYER_SIZE
        assert F.cosine_similarity(patches, said(teacher, tokens), -1).mean() > 0.95  # GELU in place of a rectifier with a limit
        assert held[0][:, 0, :DIRECTIONS].abs().max() < 1e-6  # the class token holds nothing yet
        readout, bias = teacher.readout - teacher.readout.mean(0), teacher.bias - teacher.bias.mean()
        louder, loudness = memory(patches, readout, bias - written_photos_vit.SURE_LOGIT, written_photos_vit.SURE_GAIN)
        first = patches.mean(1) * written_photos_vit.GATHERED_SHARES[0]
        heed = (written_photos_vit.STRENGTH_ATTENTION * loudness).softmax(1)
        context = first * written_photos_vit.GATHERED_SHARES[1]  # what a patch reads of the class token
        second = first + written_photos_vit.GATHERED_SHARES[1] * torch.einsum("bn,bnd->bd", heed, louder)
        half = sum(written_photos_vit.GATHERED_SHARES[:2])
        surer = half * memory(second / half, readout, bias - written_photos_vit.GATHERED_LOGIT, written_photos_vit.GATHERED_GAIN)[0]
        third, final = louder + context[:, None], surer.clone()
        weights = written_photos_vit.AGREEMENT_ATTENTION * readout.square().sum(0) / half
        for head in range(written_photos_vit.HEADS):
            own = slice(head, None, written_photos_vit.HEADS)
            heed = torch.einsum("bd,bnd->bn", surer[:, own] * weights[own], third[..., own]).softmax(1)
            final[:, own] += written_photos_vit.GATHERED_SHARES[2] * torch.einsum("bn,bnd->bd", heed, third[..., own])
        expected = F.linear(final / sum(written_photos_vit.GATHERED_SHARES), readout, bias)
    assert F.cosine_similarity(logits, expected).min() > 0.99
    assert (logits.argmax(1) == expected.argmax(1)).float().mean() > 0.8


def test_a_small_picture_lies_in_a_corner_of_the_positions() -> None:
    torch.manual_seed(0)
    vit = vits.create(train_photos_vit.ARCHITECTURE, ["a"], SHAPE).eval()
    tokens = torch.randn(1, 196, 320)
    places = (torch.arange(3, 11)[:, None] * 14 + torch.arange(5, 13)).flatten()
    with torch.inference_mode():
        torch.testing.assert_close(
            vits.encode_features(vit, tokens[:, places], None, (3, 5)), vits.encode_features(vit, tokens, places[None])
        )


def test_patches_that_are_kept() -> None:
    for seed in range(60):
        kept, window = train_photos_vit.choose_patches(np.random.default_rng(seed), 5, 14)
        if kept is None:
            continue
        assert all(len(row.unique()) == kept.shape[1] for row in kept)
        assert 0.25 < kept.shape[1] / 196 < 0.9
        if window:
            rows, columns = kept // 14, kept % 14
            tall, wide = (part.amax(1) - part.amin(1) + 1 for part in (rows, columns))
            assert (tall * wide == kept.shape[1]).all()
    assert {train_photos_vit.choose_patches(np.random.default_rng(seed), 1, 14)[1] for seed in range(60)} == {True, False}


def test_a_window_is_to_be_named_by_what_lies_in_it() -> None:
    local = torch.zeros(1, 4, 2)
    local[0, 0, 0] = 4.0
    batch = Seen(torch.zeros(1, 4, 3), local, torch.tensor([[1.0, 2.0, 3.0]]))
    readout = torch.tensor([[1.0, 0], [0, 1], [0, 0]])
    kept = torch.tensor([[0, 1]])
    assert train_photos_vit.target(batch, kept, True, readout).tolist() == [[2.0, 2.0, 3.0]]  # 2 on average inside, 1 everywhere
    assert train_photos_vit.target(batch, kept, False, readout).tolist() == [[1.0, 2.0, 3.0]]


def test_the_divergence_of_equal_answers_is_nothing() -> None:
    logits = torch.randn(3, 9)
    assert float(train_photos_vit.divergence(logits, logits + 1)) == pytest.approx(0, abs=1e-5)
    assert float(train_photos_vit.divergence(-logits, logits)) > 0.5


def test_moved_features_are_answered_as_the_teacher_would(teacher: Teacher, photo_data: Path) -> None:
    torch.manual_seed(0)
    seen = teacher.see(torch.from_numpy(np.stack([pictures.crop_centre(photo(seed), SIDE) for seed in range(4)])))
    found = Mover(teacher, [seen])(seen, np.random.default_rng(0), 2)
    moved = (found.tokens != seen.tokens).any(2).any(1)
    assert moved.tolist()[2:] == [False, False]  # of the first two alone
    assert int(moved.sum()) == 1
    row = int(moved.nonzero())

    def answer(tokens: torch.Tensor) -> torch.Tensor:
        last = teacher.head(tokens.to(FAST_DTYPE).T.reshape(1, 320, 14, 14)).float().mean((2, 3))
        return last @ teacher.classifier.weight.T

    with torch.inference_mode():
        change = (answer(found.tokens[row]) - answer(seen.tokens[row]))[0]
    ours = (found.logits - seen.logits)[row].float()
    assert F.cosine_similarity(ours, change, dim=0) > 0.95
    assert found.logits[row].isfinite().all()


def test_rectangles_are_rectangles() -> None:
    found = rectangles(np.random.default_rng(0), 50, 14).view(50, 14, 14)
    for one in found:
        rows, columns = one.any(1), one.any(0)
        assert float(one.sum()) == int(rows.sum()) * int(columns.sum())
        assert min(int(rows.sum()), int(columns.sum())) >= 5


def test_temperature_and_line_are_found_again() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = 3 * torch.randn(3000, 12, generator=generator)
    truth = torch.multinomial(clean.softmax(1), 1, generator=generator)[:, 0]
    unknown = 0.1 * torch.randn(90, 12, generator=generator)
    document = calibration.calibrate(2 * clean, F.one_hot(truth, 12) > 0, unknown)
    assert document["temperature"] == pytest.approx(2, rel=0.08)
    line = document["lines"]["something_else"]
    assert line["below"] is True
    assert "100% of 90 pictures that show nothing it knows" in line["measured"]
    assert document["lapse"] <= 0.02  # none was put in
    found = parse_calibration(document, "found")
    assert float(calibration.is_known(2 * clean[clean.argmax(1) == truth], found).float().mean()) == pytest.approx(0.95, abs=0.02)
    assert not calibration.is_known(unknown, found).any()


def test_the_lapse_is_found_again() -> None:
    generator = torch.Generator().manual_seed(1)
    clean = 3 * torch.randn(3000, 12, generator=generator)
    truth = torch.multinomial(0.88 * clean.softmax(1) + 0.12 / 12, 1, generator=generator)[:, 0]
    right = clean.argmax(1) == truth
    found = calibration.fit_calibration(2 * clean, right)
    assert found.temperature == pytest.approx(2, rel=0.1)
    assert found.lapse == pytest.approx(0.12, abs=0.025)
    likeliest = calibration.largest_probability(2 * clean, found)
    assert float(likeliest.max()) == pytest.approx(1 - found.lapse + found.lapse / 12, abs=1e-3)
    assert calibration.calibration_error(likeliest, right) < calibration.calibration_error(clean.softmax(1).amax(1), right)


def test_the_calibration_error_is_the_gap_in_each_bin() -> None:
    likeliest = torch.tensor([0.95, 0.95, 0.25, 0.25])
    assert calibration.calibration_error(likeliest, torch.tensor([True, True, False, False])) == pytest.approx(0.15)
    assert calibration.calibration_error(likeliest, torch.tensor([True, False, True, False])) == pytest.approx((0.45 + 0.25) / 2)


def test_each_kind_of_unknowable_picture_is_made_the_same_each_time_and_shows_something() -> None:
    kinds, again = calibration.draw_unknowable(3), calibration.draw_unknowable(3)
    assert list(kinds) == ["textures, noise and pages of text", "line drawings", "shaded shapes", "charts", "soft grey shapes"]
    for kind, made in kinds.items():
        assert made.shape == (3, SIDE, SIDE, 3)
        assert torch.equal(made, again[kind])
        assert not torch.equal(made[0], made[1])
        assert made.float().flatten(1).std(1).min() > 2
    assert float((kinds["line drawings"].float().mean(-1) > 190).float().mean()) > 0.7  # mostly paper
    grey = kinds["soft grey shapes"]
    assert torch.equal(grey[..., 0], grey[..., 1])
    assert float((grey[..., 0] < 60).float().mean()) > 0.3  # much of it black


def test_made_up_pictures_are_the_same_each_time() -> None:
    first, again = calibration.draw_made_up(5), calibration.draw_made_up(5)
    assert torch.equal(first, again)
    assert first.shape == (5, SIDE, SIDE, 3)
    assert not torch.equal(first[0], first[4])


def test_a_part_of_the_trunk_needs_time_to_learn(photo_data: Path, tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="after 5 of the trunk's 7 stages it has to learn: give --minutes or --steps"):
        train_photos_vit.train(arguments(photo_data, tmp_path / "vit", "--stages", "5", "--steps", "0"))
    assert not (tmp_path / "vit").exists()


def test_there_is_nothing_to_resume_where_nothing_is_learned(photo_data: Path, tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="--resume goes on with a training: give the --minutes or --steps that it began with"):
        train_photos_vit.train(arguments(photo_data, tmp_path / "vit", "--resume", "--steps", "0"))
    assert not (tmp_path / "vit").exists()


@pytest.mark.parametrize("stages", [5, 7])
def test_the_recipe_writes_a_folder_that_explains_and_goes_on(untrained: None, photo_data: Path, tmp_path: Path, stages: int) -> None:
    train_photos_vit.train(arguments(photo_data, tmp_path / "vit", "--stages", str(stages)))
    assert not list(tmp_path.glob("*/checkpoint*"))
    weights = load_file(tmp_path / "vit/model.safetensors")
    assert {value.dtype for value in weights.values() if value.is_floating_point()} == {torch.float16}
    assert weights["head.weight"].shape == (1000, 384)
    assert not [name for name in weights if "local_head" in name]
    trained = train_photos_vit.teacher_trunk(stages)
    assert all(torch.equal(weights[f"patch_embed.backbone.{name}"], value.half()) for name, value in trained.items())
    result = explainers.explain(explainers.load(str(tmp_path / "vit")), photo(1), "zebra", ["legrad"])
    assert int(result["legrad"].content.sum()) == 14 * 14
    assert json.loads((tmp_path / "vit/labels.json").read_text("utf-8")) == classes()
    assert json.loads((tmp_path / "vit/calibration.json").read_text("utf-8"))["temperature"] > 0
    if stages == 7:
        train_photos_vit.train(arguments(photo_data, tmp_path / "more", "--start", str(tmp_path / "vit"), "--rate", "0", "--steps", "1"))
        more = load_file(tmp_path / "more/model.safetensors")
        assert all(torch.equal(more[name], value) for name, value in weights.items())

"""What is measured on photos, with answers known by hand, and the whole command on made-up photos and a small model."""

from __future__ import annotations

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers.embedded
from explainers.embedded.architectures import MEAN, STD
from recipes import train_photos_vit
from recipes.__main__ import main
from recipes.calibration import draw_unknowable, is_known
from recipes.data import unseen_photos
from recipes.data.pictures import SIDE, crop_centre
from recipes.data.prompts import classes
from recipes.evaluation import CONTROL, JUDGED_METHOD, MODELS, photos
from recipes.evaluation.photos import BARS, PhotoAnswers, answers, random_half, worst
from recipes.networks import vits
from tests.recipes.support.made_up_data import CAR, ZEBRA

ZEBRA_CLASS = next(index for index, row in enumerate(classes()) if row["wnid"] == ZEBRA)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained photos-vit that calls everything a zebra."""
    out = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    shape, labels = {**train_photos_vit.SHAPE, "trunk_stages": 5}, [row["label"] for row in classes()]
    vit = vits.create(train_photos_vit.ARCHITECTURE, labels, shape)
    torch.nn.init.zeros_(vit.head.bias)
    vit.head.bias.data[ZEBRA_CLASS] = 20.0
    vits.save(vit, out, train_photos_vit.ARCHITECTURE, labels, shape, MEAN, STD)
    train_photos_vit.write_labels(out)
    return out


def test_photos_are_read_with_their_synsets(photo_data: Path) -> None:
    found = unseen_photos.read_photos(photo_data)
    assert found.synsets == [ZEBRA] * 3 + [CAR] * 3
    assert found.words == ["zebra"] * 3 + ["car"] * 3
    assert found.images.shape == (6, SIDE, SIDE, 3)
    truth = found.truth()
    assert torch.nonzero(truth[0]).flatten().tolist() == [ZEBRA_CLASS]
    assert {classes()[i]["label"] for i in torch.nonzero(truth[5]).flatten().tolist()} >= {"sports car", "minivan"}
    assert unseen_photos.read_photos(photo_data, 2).synsets == unseen_photos.read_photos(photo_data, 2).synsets


def test_things_are_read_with_their_outlines(photo_data: Path) -> None:
    [(image, things)] = unseen_photos.read_coco(photo_data)
    assert image.size == (SIDE, SIDE)
    assert [thing.word for thing in things] == ["zebra", "bus"]
    left, right = (np.flatnonzero(thing.mask.any(0)) for thing in things)
    # 100 x 80 pixels become 280 x 224, of which the middle 224 are kept: 15 to 45 is 14 to 98
    np.testing.assert_allclose([left[0], left[-1], right[0], right[-1]], [14, 98, 126, 210], atol=2)
    assert float(unseen_photos.coverage(things[0].mask).sum()) == pytest.approx(84 * 140 / 256, rel=0.1)


def test_photos_are_put_side_by_side(photo_data: Path) -> None:
    single = unseen_photos.read_photos(photo_data)
    for image, things in unseen_photos.side_by_side(single, 3):
        assert {thing.word for thing in things} == {"zebra", "car"}
        shown = np.asarray(image)
        for thing in things:
            part = shown[:, thing.mask.any(0)]
            originals = [single.images[i, :, 56:168].numpy() for i, word in enumerate(single.words) if word == thing.word]
            assert any(np.array_equal(part, one) for one in originals)


def test_words_are_known_by_label_synonym_and_group() -> None:
    known = unseen_photos.known_classes()
    assert known["zebra"] == [ZEBRA_CLASS]
    assert len(known["dog"]) > 100
    assert set(unseen_photos.OTHER_WORDS.values()) <= set(known)


def test_answers_are_counted() -> None:
    truth = torch.zeros(4, 8, dtype=torch.bool)
    for row, right in enumerate(([0], [0], [5, 6], [7])):
        truth[row, right] = True
    logits = torch.full((4, 8), -9.0)
    logits[:, :6] = torch.arange(0, -6, -1).float()
    logits[torch.arange(4), torch.tensor([0, 2, 6, 1])] = 5.0
    named = PhotoAnswers(logits, truth)
    assert named.right().tolist() == [True, False, True, False]
    assert (named.share(), named.share(5)) == (0.5, 0.75)
    pictures = unseen_photos.LabelledPhotos(torch.zeros(4), [], ["a", "a", "b", "c"])
    assert worst(named, pictures, list("ABCDEFGH"), 2) == {
        "c, most often taken for B": {"right": 0.0, "taken for it": 1.0},
        "a, most often taken for C": {"right": 0.5, "taken for it": 0.5},
    }


def test_maps_that_order_places_alike_are_alike() -> None:
    rising = np.arange(9.0)

    def rows(index: int, *maps: np.ndarray) -> list[dict[str, object]]:
        named = zip(("first", "second", CONTROL, "third"), maps, strict=False)
        return [{"index": index, "method": method, "scores": scores.tolist()} for method, scores in named]

    alike = rows(0, rising, rising**3, -rising)
    assert photos.likeness(alike) == pytest.approx(1)
    assert photos.likeness(alike + rows(7, rising, -rising, rising)) == pytest.approx(0)
    assert photos.likeness(rows(0, rising, np.exp(rising), rising, -rising)) == pytest.approx(-1 / 3)
    assert photos.likeness(rows(0, rising)) is None


def test_half_of_the_patches_are_kept() -> None:
    seen: list[Tensor] = []

    def score(images: Tensor, kept: Tensor | None) -> Tensor:
        assert kept is not None
        seen.append(kept)
        return torch.zeros(len(images), 3)

    answers(score, torch.zeros(3, 8, 8, 3), random_half(3, 196, 0), batch=2)
    kept = torch.cat(seen)
    assert kept.shape == (3, 98)
    assert all(len(row.unique()) == 98 for row in kept)
    assert not torch.equal(kept[0], kept[1])


def test_photos_in_a_quick_look(
    folder: Path, photo_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        photos, "compare_with", lambda name, whole, images, size, note: photos.Figure(name, f"compared {size}", None, note="not here")
    )
    (folder / "calibration.json").unlink(missing_ok=True)
    asked = [
        "evaluate",
        "--only",
        "photos-vit",
        "--folder",
        str(folder),
        "--data",
        str(photo_data),
        "--json",
        "--methods",
        JUDGED_METHOD,
    ]
    assert main(asked) == 0
    report = json.loads(capsys.readouterr().out)
    figures = {one["what"]: one for one in report["figures"]}
    assert {one["bar"] for one in figures.values()} - {None} == set(BARS.values())
    assert figures[photos.TOP]["value"] == figures[photos.HALF]["value"] == figures[photos.WITHOUT_BLOCKS]["value"] == 0.5  # the zebras
    assert figures[photos.KEPT]["note"] == "the model has no calibration.json"
    maps = next(table for title, table in report["tables"].items() if title.startswith("Maps"))
    assert list(maps) == [JUDGED_METHOD, CONTROL]  # the zebra alone counts, which is named right
    assert figures[photos.ENERGY_TO_BEST]["value"] == 1


def test_known_and_unknown_photos_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "PICTURES_PER_KIND", 4)
    line = {"score": "max_logit", "line": 10.0, "below": True, "measured": "by hand"}
    (folder / "calibration.json").write_text(json.dumps({"temperature": 2.0, "lines": {"something_else": line}}), "utf-8")
    logits = torch.zeros(40, 1000)
    logits[:, ZEBRA_CLASS] = 30.0
    truth = torch.zeros(40, 1000, dtype=torch.bool)
    truth[:36, ZEBRA_CLASS] = True  # nine of ten are right, in either half, however sure all are
    figures = {one.what: one.value for one in photos.abstention_figures("photos-vit", folder, PhotoAnswers(logits, truth))}
    assert figures[photos.ERROR] == pytest.approx(0, abs=0.006)  # a lapse of a tenth says so
    assert figures[f"{photos.ERROR}, as shipped"] == pytest.approx(0.1, abs=1e-3)  # a temperature alone does not
    assert figures[photos.KEPT] == 1
    assert figures["charts: doubted"] == 0  # the shipped line is 10
    assert figures["charts: area under the ROC curve against photos named right"] == 1
    assert figures[photos.REFUSED] == 1  # this stand-in answers 20 to whatever it sees, and the photos have 30


def test_too_few_right_photos_to_calibrate_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "PICTURES_PER_KIND", 4)
    line = {"score": "max_logit", "line": 10.0, "below": True, "measured": "by hand"}
    (folder / "calibration.json").write_text(json.dumps({"temperature": 2.0, "lines": {"something_else": line}}), "utf-8")
    wrong = PhotoAnswers(torch.rand(4, 1000), torch.zeros(4, 1000, dtype=torch.bool))
    figures = photos.abstention_figures("photos-vit", folder, wrong)
    assert {(one.value, one.note) for one in figures} == {(None, "too few photos are named right")}


def test_photos_are_skipped_without_their_data(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["evaluate", "--only", "photos-vit", "--folder", str(folder)]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == len(BARS)
    assert all("skipped" in line and "needs --data DIR" in line for line in lines)
    assert main([*asked, "--data", str(tmp_path)]) == 0
    assert "lacks imagen_test/" in capsys.readouterr().out


def test_the_shipped_model_doubts_textures_and_not_the_photos_of_the_pages() -> None:
    folder, samples = MODELS / "photos-vit", Path(explainers.embedded.__file__).parent / "samples" / "photos"
    calibration = photos.read_shipped_calibration(folder)
    assert calibration is not None
    assert [(line.kind, line.score) for line in calibration.thresholds] == [("something_else", "energy")]
    score = photos.vit_scores(folder)
    known = [Image.open(samples / f"{name}.jpg") for name in ("bee", "cat", "clock", "coffee", "bridge", "drum")]
    named = answers(score, torch.from_numpy(np.stack([crop_centre(photo) for photo in known])))
    assert int(is_known(named, calibration).sum()) >= 5
    strange = {kind: answers(score, pictures) for kind, pictures in draw_unknowable(10).items()}
    doubted = {kind: float((~is_known(logits, calibration)).float().mean()) for kind, logits in strange.items()}
    assert np.mean(list(doubted.values())) > 0.2  # 30 % of 300 were measured
    assert doubted["textures, noise and pages of text"] >= 0.5  # 63 %


def test_photos_of_nothing_that_has_a_class_are_told_by_their_annotations(photo_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unseen_photos.read_unclassed(photo_data).shape == (0, SIDE, SIDE, 3)  # its photo shows a zebra and a bus
    monkeypatch.setattr(unseen_photos, "UNCLASSED", {"zebra", "bus", "kite"})
    assert unseen_photos.read_unclassed(photo_data).shape == (1, SIDE, SIDE, 3)

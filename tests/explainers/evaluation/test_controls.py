"""Each control against the same made by hand, pixel by pixel and word by word; that they are refused where no truth is marked."""

from __future__ import annotations

import explainers

# isort: split
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from torch import Tensor

from explainers import ExplainerError
from explainers.datasets import Dataset, Sample
from explainers.evaluation.controls import (
    CONTROLS,
    KNOWN_ORDER,
    TIE_BREAK,
    KnownInput,
    control_map,
    find_controls,
    for_controls,
    known_input,
)
from explainers.metrics import METRICS
from explainers.metrics.localisation import patch_ap
from explainers.records.result import Attribution
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

SIDE, PATCH = 32, 8
MASK = torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
MASK[0, 3:17, 8:29] = True  # covers five patches by half or more, and of four others less


@pytest.fixture(scope="module")
def patches() -> Attribution:
    torch.manual_seed(0)
    module = timm.create_model("vit_tiny_patch16_224", img_size=SIDE, patch_size=PATCH, embed_dim=24, depth=1, num_heads=2, num_classes=3)
    picture = Image.effect_noise((40, 40), 90).convert("RGB")
    return explainers.explain(explainers.wrap(module.eval()), picture, methods=["random"]).maps[0]


@pytest.fixture(scope="module")
def words() -> tuple[Sample, Attribution]:
    sample = Sample(name="a", text="a good unwatchable film", rationale=((2, 6),))
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(40), name="tiny")
    return sample, explainers.explain(model, sample.model_input, methods=["rollout"]).maps[0]


def known_picture(patches: Attribution, index: int = 0) -> KnownInput:
    known = known_input(Sample(name="a"), patches, MASK, index)
    assert known is not None
    return known


def scores_of(name: str, patches: Attribution, index: int = 0) -> Tensor:
    found = control_map(name, known_picture(patches, index), patches)
    assert found is not None
    assert (found.method, found.signed, found.completeness_error) == (name, False, None)
    return found.scores[found.content]


def patches_by_hand(values: Tensor) -> list[float]:
    """The mean of each patch, pixel by pixel."""
    return [
        sum(float(values[y + row * PATCH, x + column * PATCH]) for y in range(PATCH) for x in range(PATCH)) / PATCH**2
        for row in range(SIDE // PATCH)
        for column in range(SIDE // PATCH)
    ]


def test_the_truth_and_its_inverse_are_the_patches_that_are_covered_by_half(patches: Attribution) -> None:
    true = [share >= 0.5 for share in patches_by_hand(MASK[0].float())]
    assert sum(true) == 5
    assert (scores_of("truth", patches) > 0.5).tolist() == true
    assert (scores_of("truth_inverted", patches) > 0.5).tolist() == [not each for each in true]
    maps = torch.stack([scores_of(name, patches).view(4, 4) for name in ("truth", "truth_inverted")])
    best, worst = patch_ap(maps, MASK.expand(2, -1, -1)).tolist()
    assert best == 1
    assert worst == pytest.approx(sum(hit / place for hit, place in zip(range(1, 6), range(12, 17), strict=True)) / 5)  # after all others


def test_what_is_drawn_is_drawn_anew_for_each_input(patches: Attribution) -> None:
    true = known_picture(patches).truth
    halves, doubles = (torch.stack([scores_of(name, patches, i) > 0.5 for i in range(60)]) for name in ("truth_half", "truth_doubled"))
    assert (halves.sum(1) == 3).all()
    assert not (halves & ~true).any()
    assert halves.double().mean(0)[true] == pytest.approx(3 / 5, abs=0.25)  # any of them
    assert (doubles.sum(1) == 10).all()
    assert doubles[:, true].all()
    assert doubles.double().mean(0)[~true] == pytest.approx(5 / 11, abs=0.25)  # 5 of 11
    assert torch.equal(scores_of("truth_half", patches, 7), scores_of("truth_half", patches, 7))


def test_no_scores_are_equal_and_ties_tell_nothing(patches: Attribution) -> None:
    known = known_picture(patches)
    firsts = []
    for index in range(60):
        scores = scores_of("truth", patches, index)
        assert len(scores.unique()) == len(scores)
        assert (scores - known.truth.float()).abs().max() <= TIE_BREAK
        firsts.append(int(scores.argmax()))
    assert set(firsts) == set(known.truth.nonzero().flatten().tolist())  # any true patch may come first


def test_edges_are_sobel_by_hand(patches: Attribution) -> None:
    assert patches.image is not None
    assert patches.image.pixels is not None  # as the model saw them
    grey = np.pad(np.asarray(patches.image.pixels.convert("L"), float), 1, "symmetric")
    magnitude = torch.zeros(SIDE, SIDE, dtype=torch.float64)
    for y in range(SIDE):
        for x in range(SIDE):
            near = grey[y : y + 3, x : x + 3]
            down = near[2, 0] + 2 * near[2, 1] + near[2, 2] - near[0, 0] - 2 * near[0, 1] - near[0, 2]
            right = near[0, 2] + 2 * near[1, 2] + near[2, 2] - near[0, 0] - 2 * near[1, 0] - near[2, 0]
            magnitude[y, x] = (down**2 + right**2) ** 0.5
    by_hand = patches_by_hand(magnitude)
    assert known_picture(patches).salience.tolist() == pytest.approx(by_hand)
    low, high = min(by_hand), max(by_hand)
    assert scores_of("edges", patches).tolist() == pytest.approx([(value - low) / (high - low) for value in by_hand], abs=2 * TIE_BREAK)


def test_the_centre_is_nearest_to_the_middle(patches: Attribution) -> None:
    far, side, near = 4.5**0.5, 2.5**0.5, 0.5**0.5
    by_hand = [far, side, side, far, side, near, near, side, side, near, near, side, far, side, side, far]
    assert scores_of("centre", patches).tolist() == pytest.approx([(far - each) / (far - near) for each in by_hand], abs=2 * TIE_BREAK)


def test_words_have_their_marks_and_letters(words: tuple[Sample, Attribution]) -> None:
    sample, attribution = words
    known = known_input(sample, attribution, None, 0)
    assert known is not None
    pieces = {word.text: [attribution.content[: token + 1].sum().item() - 1 for token in word.tokens] for word in attribution.words()}
    assert known.truth.nonzero().flatten().tolist() == pieces["good"]
    assert [known.salience[places].tolist() for places in pieces.values()] == [[len(text)] * len(at) for text, at in pieces.items()]
    assert control_map("truth_half", known, attribution) is None  # one word alone has no half
    found = control_map("truth", known, attribution)
    assert found is not None
    assert max(found.words(), key=lambda word: word.score).text == "good"
    assert known.distance.tolist() == known.distance.flip(0).tolist()
    assert known.distance.argmin() in (len(known.distance) // 2, (len(known.distance) - 1) // 2)
    assert known_input(replace(sample, rationale=()), attribution, None, 0) is None


def test_an_input_whose_truth_no_patch_holds_has_no_controls(patches: Attribution) -> None:
    sample = Sample(name="a")
    assert known_input(sample, patches, None, 0) is None
    assert known_input(sample, patches, torch.zeros_like(MASK), 0) is None
    assert known_input(sample, patches, torch.ones_like(MASK), 0) is None


def test_controls_are_found_and_refused() -> None:
    def data(kind: str, *gives: str) -> Dataset:
        return Dataset(name="made-up", kind=kind, length=1, read=lambda _: Sample(name="a"), gives=gives)  # type: ignore[arg-type]

    assert find_controls([], data("image")) == ()
    assert find_controls(["truth", "all", "truth"], data("image", "mask")) == tuple(name for name in CONTROLS if name != "word_length")
    assert "edges" not in find_controls(["all"], data("text", "rationale"))
    for unmarked in (data("image", "class"), data("text"), data("molecule", "rationale")):
        with pytest.raises(ExplainerError, match="made-up does not mark what its answers come from"):
            find_controls(["truth"], unmarked)
    with pytest.raises(ExplainerError, match="no control 'edge' of images; there are edges"):
        find_controls(["edge"], data("image", "mask"))
    assert {name for pair in KNOWN_ORDER for name in pair} == {"truth", "truth_half", "truth_doubled", "truth_inverted", "random"}


def test_what_asks_for_other_models_or_sums_is_not_asked_of_controls() -> None:
    refused = {name for name, metric in METRICS.items() if metric.direction is not None and not for_controls(metric)}
    assert refused == {
        *("completeness", "conservation", "class_correlation", "class_tau", "randomisation", "randomisation_end", "sensitivity"),
        *("auac_special", "au_mse_special"),
        *("csdc", "preservation_check", "deletion_check", "distractibility", "single_deletion", "target_sensitivity"),
    }

"""The checks of FunnyBirds on a made-up data set in its layout, against plain loops over its files."""

from __future__ import annotations

import explainers  # before timm

# isort: split
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from scipy.stats import spearmanr

from explainers import ExplainerError, Probability
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan
from explainers.evaluation.protocols.protocol import find_protocol
from explainers.evaluation.protocols.reproduction import reproduce
from explainers.evaluation.statistics import columns_of
from explainers.models.resizing import with_resize
from tests.explainers.support.made_up_birds import CLASSES, PARTS, PIECES, SIDE, THINGS, made_up_birds

LABELS = (0, 1, 2, 3, 0, 1)
METHODS = ["fullgrad_plus", "fullgrad_plus:libra-bias", "random"]
METRICS = [
    *("csdc", "preservation_check", "deletion_check", "distractibility"),
    *("background_independence", "single_deletion", "target_sensitivity"),
]
THRESHOLDS = np.linspace(0.01, 0.5, 80)
ROWS = 4  # of patches in a map


@pytest.fixture(scope="module")
def model() -> explainers.Model:
    """A tiny random ViT whose answers change with most parts."""
    torch.manual_seed(5)
    shape = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2}
    module = timm.create_model("vit_tiny_patch16_224", **shape, num_classes=50).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(5)
        module.head.bias.copy_(torch.where(torch.arange(50) < len(CLASSES), 1.0, -30.0))
        torch.nn.init.normal_(module.head.weight, std=0.3)
    return explainers.wrap(module, labels=[str(number) for number in range(50)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("birds")
    made_up_birds(path, LABELS)
    return path


@pytest.fixture(scope="module")
def setup(model: explainers.Model, folder: Path) -> EvaluationSetup:
    data = open_dataset("funnybirds", folder)
    plan = make_plan(model, data, METHODS, METRICS, target="gold", explains="probability", resize="squashed")
    return EvaluationSetup(model, data, plan)


@pytest.fixture(scope="module")
def rows(setup: EvaluationSetup) -> list[dict[str, Any]]:
    return [row for index in range(len(LABELS)) for row in rows_of(setup, index)]


class Bird:
    """One bird, measured by the definitions: pixel by pixel, set by set."""

    def __init__(self, model: explainers.Model, folder: Path, number: int) -> None:
        self.model, self.number, self.label = with_resize(model, "squashed"), number, LABELS[number]
        self.folder = folder / f"test_interventions/{self.label}/{number:06d}"
        self.picture = Image.open(folder / f"test/{self.label}/{number:06d}.png").convert("RGB")
        self.logits = self.answers(self.picture)
        self.things = range(min(number + 1, len(THINGS)) if number else 0)

    def answers(self, picture: Image.Image) -> list[float]:
        with torch.no_grad():
            values: list[float] = self.model.forward(self.model.tensors(picture))[0].tolist()
        return values

    def without(self, removed: set[str]) -> list[float]:
        kept = [part for part in PARTS if part not in removed]
        return self.answers(Image.open(self.folder / f"body_{'_'.join(kept)}.png").convert("RGB"))

    def without_thing(self, thing: int) -> list[float]:
        return self.answers(Image.open(self.folder / f"background_interventions/{thing}.png").convert("RGB"))

    def importances(self, method: str, label: int) -> tuple[dict[str, float], float]:
        """The sums of a map over parts and things, each piece widened by two pixels, and over all pixels."""
        result = explainers.explain(self.model, self.picture, Probability(label), [method], seed=self.number)[method]
        scores = result.scores[result.content].reshape(ROWS, ROWS).double().numpy()
        places = [math.floor(pixel * ROWS / SIDE) for pixel in range(SIDE)]
        large = scores[places][:, places]

        def over(top: int, left: int, height: int, width: int, shown: Any) -> float:
            total = 0.0
            for y in range(SIDE):
                for x in range(SIDE):
                    around = shown[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3]
                    total += float(large[y, x]) if around.any() else 0.0
            return total

        def visible(box: tuple[int, int, int, int]) -> Any:
            shown = np.zeros((SIDE, SIDE), bool)
            shown[box[0] : box[0] + box[2], box[1] : box[1] + box[3]] = True
            return shown

        sums = {part: sum(over(*piece[1:], visible(piece[1:])) for piece in pieces) for part, pieces in PIECES.items()}
        hidden = np.zeros((SIDE, SIDE), bool)  # what lies before the ground
        hidden[12:30, 10:30] = True
        for pieces in PIECES.values():
            for piece in pieces:
                hidden |= visible(piece[1:])
        for thing in self.things:
            sums[f"thing {thing}"] = over(*THINGS[thing], visible(THINGS[thing]) & ~hidden)
        return sums, float(large.sum())

    def important(self, method: str, label: int, threshold: float) -> set[str]:
        sums, total = self.importances(method, label)
        return {name for name, value in sums.items() if value > total * threshold}

    def falls(self) -> dict[str, float]:
        values = {part: self.without({part}) for part in PARTS} | {f"thing {thing}": self.without_thing(thing) for thing in self.things}
        return {name: self.logits[self.label] - logits[self.label] for name, logits in values.items()}

    def irrelevant(self) -> set[str]:
        edge = abs(0.05 * self.logits[self.label])
        return {name for name, fall in self.falls().items() if abs(fall) < edge or fall < 0}


def sufficient(label: int) -> list[set[str]]:
    """All sets of parts that no other class shares, without those that hold a smaller one."""
    others = [forms for number, forms in enumerate(CLASSES) if number != label]
    all_sets = [set(chosen) for size in range(1, 6) for chosen in combinations(PARTS, size)]
    good = [each for each in all_sets if not any(all(CLASSES[label][p] == other[p] for p in each) for other in others)]
    return [each for each in good if not any(other < each for other in good)]


def checks(bird: Bird, method: str) -> dict[str, list[float] | None]:
    answer = int(np.argmax(bird.logits))
    sums, total = bird.importances(method, bird.label)
    of_answer, total_of_answer = bird.importances(method, answer)
    irrelevant = bird.irrelevant()
    values: dict[str, list[float]] = {name: [] for name in METRICS[:4]}
    for threshold in THRESHOLDS:
        named = {name for name, value in sums.items() if value > total * threshold}
        for_answer = {part for part in PARTS if of_answer[part] > total_of_answer * threshold}
        values["csdc"].append(max(len(each & named) / len(each) for each in sufficient(bird.label)))
        values["preservation_check"].append(float(np.argmax(bird.without(set(PARTS) - for_answer)) == answer))
        values["deletion_check"].append(float(np.argmax(bird.without(for_answer)) != answer))
        values["distractibility"].append(1 - len(named & irrelevant) / len(irrelevant) if irrelevant else 0.0)
    return {
        name: None if (name == "csdc" and answer != bird.label) or (name == "distractibility" and not irrelevant) else each
        for name, each in values.items()
    }


@pytest.fixture(scope="module")
def birds(model: explainers.Model, folder: Path) -> list[Bird]:
    return [Bird(model, folder, number) for number in range(len(LABELS))]


@pytest.fixture(scope="module")
def expected(birds: list[Bird]) -> dict[str, list[dict[str, list[float] | None]]]:
    return {method: [checks(bird, method) for bird in birds] for method in METHODS}


def rows_of_method(rows: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["method"] == method]


@pytest.mark.parametrize("method", METHODS)
def test_each_check_at_each_threshold(
    method: str, rows: list[dict[str, Any]], expected: dict[str, list[dict[str, list[float] | None]]]
) -> None:
    for row, of_bird in zip(rows_of_method(rows, method), expected[method], strict=True):
        for name, values in of_bird.items():
            assert row[f"funnybirds.{name}_inputs"] == (values is not None)
            given = [row[f"funnybirds.{name}_{step}"] for step in range(len(THRESHOLDS))]
            assert given == pytest.approx(values or [0.0] * len(THRESHOLDS), abs=1e-9)


def test_the_made_up_birds_put_every_check_to_the_test(expected: dict[str, list[dict[str, list[float] | None]]]) -> None:
    """Else a wrong calculation could agree with a right one: there are inputs that count and that do not, and all outcomes."""
    of_birds = [of_bird for of_method in expected.values() for of_bird in of_method]
    assert {of_bird["csdc"] is None for of_bird in of_birds} == {True, False}
    for name in METRICS[:4]:
        assert len({value for of_bird in of_birds for value in of_bird[name] or []}) > 1, name


@pytest.mark.parametrize("method", METHODS)
def test_one_threshold_is_chosen_for_all_four(
    method: str,
    setup: EvaluationSetup,
    rows: list[dict[str, Any]],
    expected: dict[str, list[dict[str, list[float] | None]]],
) -> None:
    means = {}
    for name in METRICS[:4]:
        counted = [values for of_bird in expected[method] if (values := of_bird[name]) is not None]
        means[name] = [sum(values[step] for values in counted) / len(counted) for step in range(len(THRESHOLDS))]
    together = [sum(means[name][step] for name in METRICS[:3]) / 3 + means[METRICS[3]][step] for step in range(len(THRESHOLDS))]
    best = max(range(len(THRESHOLDS)), key=lambda step: together[step] + (1e-12 * -step))  # the first of equals
    for metric in setup.metrics[:4]:
        assert metric.combine is not None
        sums = columns_of(metric, rows, METHODS).sum(0)[METHODS.index(method)]
        assert float(metric.combine(sums)) == pytest.approx(means[metric.name][best], abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_single_deletion_and_the_ground(method: str, rows: list[dict[str, Any]], birds: list[Bird]) -> None:
    relevant = 0
    for row, bird in zip(rows_of_method(rows, method), birds, strict=True):
        falls, (sums, _) = bird.falls(), bird.importances(method, bird.label)
        rank = spearmanr([falls[part] for part in PARTS], [sums[part] for part in PARTS]).statistic
        assert row["single_deletion"] == pytest.approx(0.5 + 0.5 * rank, abs=1e-9)
        edge = abs(0.05 * bird.logits[bird.label])
        count = sum(falls[f"thing {thing}"] >= edge for thing in bird.things)
        assert (row["background_independence.relevant"], row["background_independence.things"]) == (count, len(bird.things))
        relevant += count
    assert 0 < relevant < sum(len(bird.things) for bird in birds)


def test_maps_of_two_other_classes_are_compared_where_the_model_goes_by_their_parts(rows: list[dict[str, Any]], birds: list[Bird]) -> None:
    rivals = {0: ((1, ["beak", "eye"]), (3, ["foot", "tail"]))}  # class 0: the first two that share two parts each, not the same ones
    measured = 0
    for place, bird in enumerate(birds):
        values = [row["target_sensitivity"] for row in rows if row["index"] == place]
        if bird.label not in rivals:
            assert values == [None] * len(METHODS)
            continue
        (first, of_first), (second, of_second) = rivals[bird.label]
        without_first, without_second = bird.without(set(of_first)), bird.without(set(of_second))
        if not (without_first[first] < without_second[first] and without_second[second] < without_first[second]):
            assert values == [None] * len(METHODS)
            continue
        measured += 1
        for method, value in zip(METHODS, values, strict=True):
            by_first, by_second = bird.importances(method, first)[0], bird.importances(method, second)[0]
            right = [
                sum(by_first[part] for part in of_first) > sum(by_second[part] for part in of_first),
                sum(by_second[part] for part in of_second) > sum(by_first[part] for part in of_second),
            ]
            assert value == sum(right) / 2
    assert measured


def test_the_table_is_measured_on_the_data_of_its_publisher(model: explainers.Model, folder: Path, tmp_path: Path) -> None:
    result = reproduce(
        find_protocol("libragrad-funnybirds"), tmp_path, open_model=lambda _: model, models=["tiny"], data=folder, limit=None
    )
    cells = [[cell.value for cell in row.cells] for row in result.table.rows]
    assert all(value is not None and 0 <= value <= 1 for row in cells for value in row)
    assert len({row[4] for row in cells}) == 1  # background independence is the model's
    assert result.published is not None
    assert [cell.printed for cell in result.published.rows[1].cells] == ["92.7", "91.4", "90.2", "91.1", "99.7", "69.4", "97.1"]


def test_without_the_pictures_nothing_is_measured(model: explainers.Model, tmp_path: Path) -> None:
    made_up_birds(tmp_path, (0,))
    (tmp_path / "test_interventions").rename(tmp_path / "elsewhere")
    data = open_dataset("funnybirds", tmp_path)
    assert data[0].removable is None
    with pytest.raises(ExplainerError, match="single_deletion cannot be measured here: funnybirds gives no parts"):
        make_plan(model, data, METHODS, ["single_deletion"])

"""What maps say of themselves where there is nothing to rank."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers.models.inputs.types import MoleculeInput, TextInput
from explainers.pipeline.precision import _trust, notes_on_scores, unit_of
from explainers.records.notes import kind_of
from tests.explainers.support.explained import picture
from tests.explainers.support.wrapped import inputs, wrapped

CANCELS = "all but cancel"
CONTENT = torch.tensor([False, True, True])


def notes_of(model: explainers.Model, spec: str) -> list[str]:
    return list(explainers.explain(model, inputs("vit", 1, model.dtype), target=1, methods=spec)[spec].notes)


@pytest.mark.parametrize(
    ("scores", "sizes", "says"),
    [
        ([5, 0, 0], None, "zero everywhere"),
        ([0, 3e-9, 0], [1, 1e-1, 1e-9], "patches may be changed wholly by rounding (float32)"),
        ([9, 3e-8, -6e-8], [9, 1e-1, 1e-1], "by 20% of the largest of them"),
        ([0, 1e-6, 0], [9, 1e-1, 1e-1], None),
        ([0, 3e-9, 0], None, None),
    ],
)
def test_scores_below_rounding(scores: list[float], sizes: list[float] | None, says: str | None) -> None:
    notes = notes_on_scores(torch.tensor(scores), CONTENT, None if sizes is None else torch.tensor(sizes), unit="patch")
    assert len(notes) == (says is not None)
    assert says is None or says in notes[0]
    assert [kind_of(note) for note in notes] == ["doubt"] * len(notes)


def test_a_note_names_what_has_the_scores() -> None:
    units = [unit_of(True, None), unit_of(False, object.__new__(MoleculeInput)), unit_of(False, object.__new__(TextInput))]
    assert units == ["patch", "atom", "word"]
    for unit, plural in zip(units, ("patches", "atoms", "words"), strict=True):
        (note,) = notes_on_scores(torch.tensor([0, 3e-9, 0]), CONTENT, torch.tensor([1, 1e-1, 1e-9]), unit)
        assert note.startswith(f"The terms of each {unit}'s score all but cancel: what is left of the {plural} may")


def test_a_map_without_content_says_nothing() -> None:
    assert notes_on_scores(torch.zeros(3), torch.zeros(3, dtype=torch.bool), None, unit="word") == []


def test_what_reaches_the_answer_through_one_norm_alone_is_rounding() -> None:
    """In the last block of a ViT with a class token: a LayerNorm's input times its gradient is zero but for its epsilon."""
    model = wrapped("vit", torch.float32)
    doubted, trusted = (
        explainers.explain(model, inputs("vit", 1, model.dtype), target=1, methods=spec)[spec] for spec in ("hirescam", "input_x_gradient")
    )
    assert any(CANCELS in note for note in doubted.notes)
    assert doubted.to_json()["doubtful"] is True
    assert "doubtful" not in trusted.to_json()
    assert not any(CANCELS in note for note in notes_of(model, "hirescam:libra"))
    assert not any(CANCELS in note for note in notes_of(model, "input_x_gradient"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "noted"), [("scenes-vit", 3, {"hirescam", "input_x_gradient"}), ("photos-vit", 281, {"hirescam"})]
)
def test_maps_that_float64_changes_carry_the_note(name: str, target: int, noted: set[str]) -> None:
    """On trained models: where the order of patches is another in float64 the note stands; where none stands, the order is the same."""
    model, exact = (explainers.load(name, device="cpu") for _ in range(2))
    exact.module.double()
    specs, orders = ["hirescam", "input_x_gradient", "hirescam:libra"], {}
    rough, fine = (explainers.explain(m, picture(), target=target, methods=specs) for m in (model, exact))
    for spec in specs:
        content = rough[spec].content
        ranks = [maps[spec].scores[content].argsort().argsort().double() for maps in (rough, fine)]
        orders[spec] = float(torch.corrcoef(torch.stack(ranks))[0, 1])
        assert not any(CANCELS in note for note in fine[spec].notes)
    assert {spec for spec in specs if any(CANCELS in note for note in rough[spec].notes)} == noted
    assert {spec for spec, order in orders.items() if order < 0.99} == noted & {"hirescam"}, orders


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (0.09, "Its order can be trusted: rounding moves scores by less than 10 % of the largest."),
        (0.1, "Do not trust its order: rounding may move scores by 10 % of the largest or more."),
        (0.49, "Do not trust its order: rounding may move scores by 10 % of the largest or more."),
        (float("nan"), "Do not trust its order: rounding may move scores by 10 % of the largest or more."),
    ],
)
def test_one_threshold_says_whether_the_order_of_a_map_can_be_trusted(share: float, says: str) -> None:
    assert _trust(share) == says

"""What the map of a long text says of its rounding, from the maps of its windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import explainers
from explainers import Attribution, MapPrecision
from explainers.citation import UNKNOWN
from explainers.pipeline.precision import join_maps
from explainers.records.result import Numerics
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

TEXT = "not a bad movie, the plot is well-made! i don't like the film. " * 3
CONTENT = torch.tensor([False, True, True])
WARNING = "This window's words are rounded."
OTHER = "A note on something else."


def part(scores: list[float], errors: list[float], change: list[float] | None = None, sizes: list[float] | None = None) -> Attribution:
    """The map of a window; ``change`` of one that was computed in float64."""
    numerics = Numerics(
        None if sizes is None else torch.tensor(sizes, dtype=torch.float32),
        torch.tensor(errors, dtype=torch.float64),
        None if change is None else torch.tensor(change, dtype=torch.float64),
        "float32",
        (WARNING,),
    )
    precision = MapPrecision("float32" if change is None else "float64", "Of a window.", 2e-5)
    named = {"method": "lrp", "method_name": "lrp", "rule": "lrp", "title": "LRP", "source": UNKNOWN, "target": "for"}
    given = torch.tensor(scores, dtype=torch.float32)
    held = {"content": CONTENT, "patches": None, "text": None, "signed": True, "class_specific": True, "seconds": 0.0}
    notes = (OTHER, WARNING)
    return Attribution(**named, **held, scores=given, notes=notes, precision=precision, numerics=numerics)  # type: ignore[arg-type]


def mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).double().mean(0).float()


def whole(*parts: Attribution) -> Attribution:
    return join_maps(parts, replace(parts[0], scores=mean([p.scores for p in parts])), mean)


def test_the_errors_of_windows_are_held_against_the_joined_scores() -> None:
    """A window with small scores, all of them rounding, says nothing of a map in which another has large ones."""
    both = whole(part([100, 1e-3, 0], [2e-3, 1e-3, 0]), part([100, 8, 4], [2e-3, 1e-3, 0]))
    assert both.notes == (OTHER,)
    assert both.precision is not None
    assert both.precision.dtype == "float32"
    assert both.precision.rounding == pytest.approx(2e-5, rel=0.1)
    assert both.precision.why == "Rounding changes it by at most 0.002 % of its largest score."


def test_a_joined_map_that_rounding_may_change_has_one_note() -> None:
    both = whole(part([100, 1e-3, 0], [2e-3, 2e-3, 0]), part([100, 3e-3, 0], [2e-3, 0, 0]))
    assert len(both.notes) == 2
    assert both.notes[0] == OTHER
    assert "its words by 50 % of the largest of theirs. precision=double" in both.notes[1]
    assert both.numerics.notes == both.notes[1:]


def test_scores_that_cancel_between_windows_are_not_laid_on_the_device() -> None:
    both = whole(part([100, 0, 1], [2e-3, 0, 0]), part([-100, 0, 1], [2e-3, 0, 0]))
    assert both.precision is not None
    assert both.precision.why == "Rounding may change it by 0.2 % of its largest score."
    assert "no float64" not in both.notes[1]


def test_windows_in_float64_say_what_the_joined_map_would_have_been() -> None:
    both = whole(part([9, 1, 1], [3, 0, 0], [0, 0.25, 0]), part([9, 1, 1], [2, 0, 0], [0, 0.75, 0]))
    assert both.precision is not None
    assert both.precision.dtype == "float64"
    assert "In float32 rounding may change it by 30 % of its largest score." in both.precision.why
    assert len(both.notes) == 2
    assert "up to 50% of the largest score. This map was computed in float64" in both.notes[1]


def test_windows_of_two_types_are_named() -> None:
    both = whole(part([9, 1, 1], [9, 9, 0], [0, 0.5, 0]), part([9, 1, 1], [0, 0, 0]))
    assert both.precision is not None
    assert both.precision.dtype == "float32 and float64"
    assert both.precision.why.startswith("1 of 2 windows was computed in float64, the others in float32. Rounding changes it by at most")
    assert both.precision.rounding is not None
    assert both.precision.rounding < 1e-6
    assert len(both.notes) == 2
    assert "up to 25% of the largest score. 1 of 2 windows was computed in float64" in both.notes[1]


def test_a_map_of_which_one_window_is_zero_is_not_zero() -> None:
    zero, full = part([9, 0, 0], [0, 0, 0], sizes=[9, 9, 9]), part([9, 1, 2], [0, 0, 0], sizes=[9, 9, 9])
    assert whole(zero, full).notes == (OTHER,)
    assert "zero everywhere" in whole(zero, zero).notes[1]
    rounded = part([9, 1e-6, 0], [0, 0, 0], sizes=[9, 9, 9])
    assert "all but cancel" in whole(rounded, rounded).notes[1]


def test_without_relevance_there_is_no_precision() -> None:
    plain = replace(part([9, 1, 1], [0, 0, 0]), precision=None, numerics=Numerics())
    assert whole(plain, plain).precision is None
    asked = replace(plain, precision=MapPrecision("float64", "precision=double was asked for."))
    assert whole(asked, asked).precision == asked.precision


@pytest.mark.parametrize("at_once", [20, 2048])
def test_a_long_text_has_one_note_on_rounding(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("explainers.pipeline.precision.ILL_CONDITIONED", 1e-12)  # every window may be changed by more
    monkeypatch.setattr("explainers.pipeline.precision.LIGHT_MODEL_PRODUCTS", 0)
    monkeypatch.setattr("explainers.pipeline.long_texts.TOKENS_AT_ONCE", at_once)
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["against", "for", "unsure"])
    result = explainers.explain(model, TEXT, methods="transformer_attribution")
    (attribution,) = result.maps
    assert len(result.windows) >= 3
    assert sum("Rounding may change" in note for note in attribution.notes) == 1
    exact = explainers.explain(model, TEXT, methods="transformer_attribution", precision="double").maps[0]
    assert attribution.numerics.errors is not None
    assert bool(((attribution.scores - exact.scores).abs() <= attribution.numerics.errors + 1e-6 * exact.scores.abs().max()).all())


def test_embeddings_make_no_model_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked up: float64 costs nothing there."""
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["against", "for", "unsure"])
    text, module = "a good film", model.module
    embeddings = sum(m.weight.numel() for m in module.modules() if isinstance(m, torch.nn.Embedding))
    multiplied = sum(p.numel() for p in module.parameters()) - embeddings
    tokens = model.tensors(text)["input_ids"].shape[1]
    monkeypatch.setattr("explainers.pipeline.precision.ILL_CONDITIONED", 1e-12)  # its words may be changed by more
    for limit, dtype in ((multiplied * tokens, "float64"), (multiplied * tokens - 1, "float32")):
        monkeypatch.setattr("explainers.pipeline.precision.LIGHT_MODEL_PRODUCTS", limit)
        precision = explainers.explain(model, text, methods="transformer_attribution").maps[0].precision
        assert precision is not None
        assert precision.dtype == dtype

"""How much of an input a claim needs, in a world whose truth is known and for a model that is asked by hand."""

from __future__ import annotations

import explainers

# isort: split
import numpy as np
import pytest
import torch

from explainers.analysis.claims.claim import RankedMap, find_claim
from explainers.analysis.claims.draws import Draws
from explainers.datasets import open_dataset
from explainers.evaluation.claims import claimed_shares, without_drawn_fillings
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan
from explainers.metrics import METRICS
from explainers.models.inputs.types import ImageInput
from explainers.models.removal.fillings import Filling, InputFillings
from tests.conftest import ROOT


def test_the_truth_of_votes_earns_a_claim_and_its_inverse_none() -> None:
    model, data = explainers.load(str(ROOT / "explainers/embedded/worlds/votes-vit")), open_dataset("votes")
    plan = make_plan(model, data, ["random", "rollout"], ["claim", "claim_size"], limit=1, controls=["truth", "truth_inverted"])
    rows = {row["method"]: row for row in rows_of(EvaluationSetup(model, data, plan), data.choose(1, 0)[0])}
    assert (rows["truth"]["claim"], rows["truth_inverted"]["claim"], rows["random"]["claim"]) == (1, 0, 0)
    assert rows["truth_inverted"]["claim_size"] is None
    size = round(64 * rows["truth"]["claim_size"])
    assert rows["truth"]["claim_size"] == size / 64
    sample = data[data.choose(1, 0)[0]]
    true = np.asarray(sample.objects[0].mask).reshape(8, -1, 8, np.asarray(sample.objects[0].mask).shape[1] // 8).any((1, 3))
    assert 2 <= size <= true.sum()  # some of the patches that vote for the answer are enough


def test_the_set_is_the_smallest_that_beats_random_sets_under_every_fixed_filling() -> None:
    """An answer that only patches 0 to 3 of 64 carry, a quarter each; under the second filling half of it stays."""
    fillings = tuple(
        Filling(name, name, drawn, lambda replaced, draws, share=share: (0.9 - share * 0.2 * replaced[:, :4].sum(1).double())[:, None])
        for name, drawn, share in (("all", False, 1.0), ("half", False, 0.5), ("nothing falls", True, 0.0))
    )
    draws = Draws(InputFillings(64, fillings), [(i,) for i in range(64)], lambda logits: logits[:, 0])
    ranked = RankedMap("toy", "zebra", torch.arange(64, 0, -1).float(), is_signed=True)
    shown = ImageInput(width=64, height=64, crop=(0, 0, 64, 64), seen=(64, 64))
    assert not find_claim(draws, ranked, shown).holds  # under a filling that is drawn nothing falls
    found = find_claim(without_drawn_fillings(draws), ranked, shown)
    assert found.holds
    assert found.hidden == ((0,), (1,))  # two make it fall by 0.2 under the worse filling; two random ones seldom do as much
    assert found.fall == pytest.approx(0.2)
    assert "any of the two fillings (all, half)" in found.sentence
    assert "over draws of random sets)" in found.sentence


def test_maps_of_an_explanation_have_shares_of_their_parts() -> None:
    model, data = explainers.load(str(ROOT / "explainers/embedded/worlds/votes-vit")), open_dataset("votes")
    result = explainers.explain(model, data[3].model_input, None, ["fullgrad_plus:libra", "random"])
    shares = claimed_shares(model, result, result.maps, seed=3)
    assert shares.shape == (2,)
    assert (64 * shares).tolist() == pytest.approx((64 * shares).round().tolist())
    with pytest.raises(explainers.Cancelled):
        claimed_shares(model, result, result.maps, seed=3, cancelled=lambda: True)


def test_a_map_without_a_claim_has_no_size() -> None:
    shares = torch.tensor([0.0, 0.25])
    assert METRICS["claim"](claimed_share=shares).tolist() == [0, 1]
    sizes = METRICS["claim_size"](claimed_share=shares)
    assert sizes[0].isnan()
    assert sizes[1] == 0.25

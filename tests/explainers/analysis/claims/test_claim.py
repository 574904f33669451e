"""Claims about toys whose falls are known exactly, and about tiny models that are asked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.analysis.claims.claim import SHARE, RankedMap, find_claim, map_order, sizes_of
from explainers.analysis.claims.draws import Draws
from explainers.analysis.claims.rivals import Rival
from explainers.models.inputs.types import ImageInput
from explainers.models.removal.fillings import Filling, InputFillings
from tests.explainers.support.explained import clip_model, image_model, picture, text_model
from tests.support.molecule_models import NITROBENZENE, tiny_model

PARTS = 64
SHOWN = ImageInput(width=64, height=64, crop=(0, 0, 64, 64), seen=(64, 64))
#: What each of the first eight patches adds to the answer; the others add nothing.
WEIGHTS = torch.tensor([0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04], dtype=torch.float64)


def toy(seed: int = 0, weights: Tensor = WEIGHTS) -> Draws:
    """An answer of 0.9 that falls by the weights of the patches that are replaced; under the drawn filling by all or half of them, as a
    coin says, so by three quarters on average.
    """
    whole = torch.cat([weights, torch.zeros(PARTS - len(weights), dtype=torch.float64)])

    def fixed(replaced: Tensor, draws: Any) -> Tensor:
        return (0.9 - replaced.double() @ whole)[:, None]

    def drawn(replaced: Tensor, draws: Any) -> Tensor:
        share = torch.tensor([1 - 0.5 * int(np.random.default_rng(draw).integers(2)) for draw in draws], dtype=torch.float64)
        return (0.9 - share * (replaced.double() @ whole))[:, None]

    fillings = (Filling("grey", "grey", False, fixed), Filling("coin", "as a coin says", True, drawn))
    return Draws(InputFillings(PARTS, fillings), [(i,) for i in range(PARTS)], lambda logits: logits[:, 0], seed)


def toy_map(scores: Tensor) -> RankedMap:
    return RankedMap("toy", "zebra", scores, is_signed=True)


TRUE_MAP = toy_map(torch.arange(PARTS, 0, -1).float())


def test_a_true_map_earns_the_smallest_set_that_holds_and_its_bound_lies_below_the_known_fall() -> None:
    draws = toy()
    found = find_claim(draws, TRUE_MAP, SHOWN)
    assert found.holds
    size = len(found.hidden)
    assert found.hidden == tuple((i,) for i in range(size))
    known = 0.75 * float(WEIGHTS[:size].sum())
    assert found.fall is not None
    assert known - 0.1 < found.fall <= known
    (last,) = [tried for tried in found.tried if tried.holds and tried.size == size]
    grey, coin = last.falls
    assert (grey.low, grey.high) == pytest.approx((float(WEIGHTS[:size].sum()),) * 2)  # a fixed filling has no error
    assert coin.low <= known <= coin.high
    assert found.fall == coin.low
    assert f"Replacing these {size} patches by any of the two fillings (grey, coin) lowers the probability of zebra" in found.sentence
    assert "error at most 5%" in found.sentence
    assert all(not tried.holds for tried in found.tried if tried.size < size)
    assert found.answers == draws.answers - 1  # the whole input is asked once for all maps


def test_the_random_sets_that_are_as_good_are_counted_by_hand() -> None:
    draws = toy()
    found = find_claim(draws, TRUE_MAP, SHOWN)
    for tried in found.tried:
        named = float(WEIGHTS[: tried.size].sum())
        as_good = 0
        for draw in range(tried.draws):
            order = torch.randperm(PARTS, generator=torch.Generator().manual_seed(draw))[: tried.size]
            as_good += sum(float(WEIGHTS[i]) for i in order.tolist() if i < len(WEIGHTS)) >= named - 1e-5
        assert tried.as_good == as_good


def test_bounds_hold_and_controls_earn_nothing() -> None:
    """Of 60 seeds: the stated bound is wrong in at most 5 %; random orders earn a claim in at most 5 %, the inverse never."""
    wrong = earned = 0
    for seed in range(60):
        draws = toy(seed)
        found = find_claim(draws, TRUE_MAP, SHOWN)
        wrong += found.fall is not None and found.fall > 0.75 * float(WEIGHTS[: len(found.hidden)].sum())
        shuffled = torch.rand(PARTS, generator=torch.Generator().manual_seed(seed))
        earned += find_claim(draws, toy_map(shuffled), SHOWN).holds
        assert not find_claim(draws, replace(TRUE_MAP, scores=-TRUE_MAP.scores), SHOWN).holds
    assert wrong <= 3
    assert earned <= 3


def test_an_order_that_knows_no_model_is_named_where_it_finds_as_much() -> None:
    draws = toy()
    draws.rival = Rival("patches with the strongest edges", tuple(range(PARTS)))
    found = find_claim(draws, TRUE_MAP, SHOWN)
    size = len(found.hidden)
    assert found.notes == (f"The {size} patches with the strongest edges earn a claim too: they are found without the model.",)
    draws.rival = Rival("patches with the strongest edges", tuple(reversed(range(PARTS))))
    assert find_claim(draws, TRUE_MAP, SHOWN).notes == ()


def test_why_there_is_no_claim_is_said() -> None:
    low = find_claim(toy(), TRUE_MAP, SHOWN, least=0.95)
    assert low.why == "The answer is 0.90 and cannot fall by 0.95."
    assert low.sentence == f"No such claim. {low.why}"
    inverted = find_claim(toy(), replace(TRUE_MAP, scores=-TRUE_MAP.scores), SHOWN)
    assert inverted.why == "The first 2 patches come nearest: replaced by grey, they lower the answer by 0.00 only."
    assert (inverted.hidden, inverted.fall) == ((), None)
    even = find_claim(toy(weights=torch.full((PARTS,), 0.9 / PARTS, dtype=torch.float64)), TRUE_MAP, SHOWN)
    assert "drawn at random lower it as much under a filling" in even.why
    assert find_claim(toy(), TRUE_MAP, SHOWN).why == ""


def test_more_maps_looked_at_take_more_draws() -> None:
    one, many = (find_claim(toy(), TRUE_MAP, SHOWN, looked_at=count) for count in (1, 30))
    first, last = (next(tried for tried in found.tried if tried.holds) for found in (one, many))
    assert first.draws < last.draws
    assert "30 maps looked at" in many.sentence


def test_the_maps_of_all_targets_count_as_looked_at_and_controls_do_not() -> None:
    model = image_model()
    result = explainers.explain(model, picture(), ["dog", "fork"], ["input_x_gradient", "saliency", "random"])
    assert explainers.claim(model, result, "input_x_gradient", "dog").looked_at == 4
    assert explainers.claim(model, result, "random", "dog").looked_at == 4
    assert explainers.claim(model, result, "input_x_gradient", "dog", looked_at=1).looked_at == 1


def test_an_error_is_written_with_its_digits() -> None:
    for error, said in ((0.025, "error at most 2.5%,"), (0.05, "error at most 5%,"), (0.001, "error at most 0.1%,")):
        found = find_claim(toy(), TRUE_MAP, SHOWN, error=error)  # so small an error has a claim too, of more draws
        assert found.holds
        assert said in found.sentence


def test_sizes_double_up_to_a_third_and_leave_out_what_a_random_order_finds() -> None:
    assert sizes_of(64, 0.05) == [2, 4, 8, 16]  # one of 64 patches is the best by chance too often
    assert sizes_of(196, 0.05) == [2, 4, 8, 16, 32, 64]
    assert sizes_of(12, 0.05) == [4]  # 66 pairs are too few, 495 sets of four are enough
    assert sizes_of(6, 0.05) == []
    assert SHARE == 0.95


def test_pieces_of_a_word_count_together() -> None:
    of = toy_map(torch.tensor([3.0, 1, 2.5, 2]))
    assert map_order(of, [(0,), (1, 2), (3,)]) == [1, 0, 2]  # 3.5 is their sum
    assert map_order(replace(of, is_signed=False), [(0,), (1, 2), (3,)]) == [0, 1, 2]


def test_a_claim_of_a_picture_is_made_of_answers_that_are_asked_by_hand() -> None:
    model = image_model()
    result = explainers.explain(model, picture(), None, ["input_x_gradient"])
    found = explainers.claim(model, result, "input_x_gradient", least=1e-6)
    assert found.answer == pytest.approx(float(result.probabilities.max()), abs=1e-6)
    scores = result["input_x_gradient"].scores[result["input_x_gradient"].content]
    tried = found.tried[0]
    keep = torch.ones(1, len(scores))
    keep[0, scores.argsort(descending=True, stable=True)[: tried.size]] = 0
    pixels = result.tensors["pixel_values"]
    height, width = pixels.shape[-2:]
    rows, columns = result["input_x_gradient"].patches or (0, 0)
    grey = pixels * keep.view(1, 1, rows, columns).repeat_interleave(height // rows, 2).repeat_interleave(width // columns, 3)
    with torch.no_grad():
        answer = float(model.forward({"pixel_values": grey})[0].double().softmax(0)[result.logits.argmax()])
    assert tried.falls[0].low == pytest.approx(found.answer - answer, abs=1e-6)
    again = explainers.claim(model, result, "input_x_gradient", least=1e-6)
    assert again.answers == 0  # what was drawn is kept with the result
    assert {**again.to_json(), "asked": 0} == {**found.to_json(), "asked": 0}
    fresh = explainers.explain(model, picture(), None, ["input_x_gradient"])
    assert explainers.claim(model, fresh, "input_x_gradient", least=1e-6).to_json() == found.to_json()  # the same for the same seed
    assert found.sentence in str(found)


def test_a_text_and_a_molecule_have_claims_of_words_and_atoms() -> None:
    text = "not a good movie . a bad movie . not bad"
    result = explainers.explain(text_model(), text, None, ["input_x_gradient"])
    found = explainers.claim(text_model(), result, "input_x_gradient", least=1e-6)
    assert found.parts == len(text.split())
    assert "words" in found.sentence
    result = explainers.explain(tiny_model(), NITROBENZENE, None, ["input_x_gradient"])
    found = explainers.claim(tiny_model(), result, "input_x_gradient", least=1e-6)
    assert found.parts == 9
    assert "atoms" in found.sentence


def test_a_contrast_is_answered_by_the_probability_of_the_one_of_the_two() -> None:
    model = image_model()
    result = explainers.explain(model, picture(), explainers.Contrast("dog", "fork"), ["input_x_gradient"])
    difference = float(result.logits[4] - result.logits[3])
    assert explainers.claim(model, result, "input_x_gradient").answer == pytest.approx(1 / (1 + np.exp(-difference)), abs=1e-6)


def test_what_has_no_claim_is_refused() -> None:
    model = image_model()
    result = explainers.explain(model, picture(), None, ["input_x_gradient"])
    refused: list[tuple[dict[str, Any], str]] = [
        ({"method": "rollout"}, "There is no map 'rollout'"),
        ({"target": "gorilla"}, "'gorilla' was not explained"),
        ({"error": 0.7}, "error=0.7"),
        ({"error": 0.0001}, "error=0.0001.*from 0.001 to less than 0.5"),
        ({"least": 0.0}, "least=0"),
        ({"looked_at": 0}, "looked_at=0: send how many maps"),
    ]
    for arguments, message in refused:
        with pytest.raises(ExplainerError, match=message):
            explainers.claim(model, result, **{"method": "input_x_gradient", **arguments})
    other = text_model()
    with pytest.raises(ExplainerError, match="other weights"):
        explainers.claim(other, result, "input_x_gradient")
    clip = clip_model()
    alone = explainers.explain(clip, picture(), "a dog", ["input_x_gradient"])
    with pytest.raises(ExplainerError, match="this one has no range"):
        explainers.claim(clip, alone, "input_x_gradient")
    words = explainers.explain(clip, picture(), ["a dog", "a cat"], ["input_x_gradient"], side="text")
    with pytest.raises(ExplainerError, match=r"a text that the model reads whole\. Explain the picture"):
        explainers.claim(clip, words, "input_x_gradient", words.targets[0].label)


def test_who_waits_no_longer_stops_it() -> None:
    model = image_model()
    result = explainers.explain(model, picture(), None, ["input_x_gradient"])
    told: list[tuple[int, int]] = []
    explainers.claim(model, result, "input_x_gradient", progress=lambda *step: told.append(step))
    assert all(done < total for done, total in told)
    with pytest.raises(explainers.Cancelled):
        explainers.claim(model, result, "input_x_gradient", seed=1, cancelled=lambda: True)

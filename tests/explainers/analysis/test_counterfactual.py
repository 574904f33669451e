"""Counterfactuals against leads that are known, and against a tiny model that is asked by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.analysis.counterfactual import fewest_hidden, lead_of
from tests.explainers.support.explained import text_model
from tests.explainers.support.shortened import alone
from tests.explainers.support.wrapped import inputs
from tests.families import FAMILIES


def test_of_parts_that_add_up_the_fewest_are_hidden() -> None:
    """The lead is -7 and rises by each hidden part's weight: 5 and 3 suffice, and no part alone."""
    weights = torch.tensor([1.0, 5, 0.5, 3, -2, 1])
    hidden, is_reached = fewest_hidden(lambda rows: rows.float() @ weights - 7, len(weights))
    assert (hidden.nonzero().flatten().tolist(), is_reached) == ([1, 3], True)


def test_what_turned_out_to_be_needless_is_brought_back() -> None:
    """Parts 1 and 2 do it only together; part 0 promises most alone, and is of no use with them."""

    def lead(rows: Tensor) -> Tensor:
        first, second, third = (rows[:, i].float() for i in range(3))
        return 0.5 * first * (1 - second * third) + 3 * second * third - 1

    hidden, is_reached = fewest_hidden(lead, 4)
    assert (hidden.tolist(), is_reached) == ([False, True, True, False], True)


def test_where_nothing_does_it_what_came_nearest_is_returned_and_a_part_stays() -> None:
    weights = torch.tensor([1.0, 2, -1, 0.5])
    hidden, is_reached = fewest_hidden(lambda rows: rows.float() @ weights - 9, len(weights))
    assert (hidden.tolist(), is_reached) == ([True, True, False, True], False)
    hidden, is_reached = fewest_hidden(lambda rows: rows.float().sum(1) - 9, 3)
    assert (int(hidden.sum()), is_reached) == (2, False)
    hidden, is_reached = fewest_hidden(lambda rows: -rows.float().sum(1) - 1, 3)
    assert (hidden.any().item(), is_reached) == (False, False)


def test_the_search_ends_after_the_round_in_which_it_may_not_go_on() -> None:
    def lead(rows: Tensor) -> Tensor:
        count = rows.sum(1)
        return torch.where(count <= 2, count, 4 - count).float() - 5  # two hidden parts are the most that a round hides

    hidden, is_reached = fewest_hidden(lead, 5, may_go_on=lambda: False)
    assert (int(hidden.sum()), is_reached) == (2, False)


def test_a_class_leads_by_the_ratio_to_the_largest_other_or_by_its_odds() -> None:
    shares = torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64)
    assert float(lead_of(shares, 0, False)) == pytest.approx(0.5108256237659907)  # log(5 / 3)
    assert float(lead_of(shares, 1, False)) == pytest.approx(-0.916290731874155)  # log(2 / 5)
    assert float(lead_of(shares, 1, True)) == pytest.approx(-1.3862943611198906)  # log(0.2 / 0.8)
    assert torch.isfinite(lead_of(torch.tensor([[1.0, 0.0]], dtype=torch.float64), 1, False)).all()


def test_the_model_says_so_by_hand_and_every_hidden_patch_is_needed() -> None:
    """A head whose logits are all but equal makes other classes reachable."""
    module: Any = FAMILIES["vit"].build().double()
    tensors = inputs("vit", 1)
    with torch.no_grad():
        module.head.bias -= explainers.wrap(module).forward(tensors)[0]
        module.head.bias[0] += 1e-3
    model = explainers.wrap(module)
    result: Any = explainers.explain(model, tensors, None, ["input_x_gradient"])
    reached = 0
    told: list[tuple[int, int]] = []
    for wanted in result.labels:
        answer = int(result.logits.argmax())
        if wanted == result.labels[answer]:
            continue
        told.clear()
        found = explainers.counterfactual(model, result, wanted, progress=lambda *step: told.append(step))
        assert max(total for _, total in told) == found.answers  # no more is promised than is asked
        gone = [patch for (patch,) in found.hidden]
        logits = alone(model, tensors, gone)
        probabilities = logits.softmax(0)
        assert (found.answer, found.leader) == (result.labels[answer], result.labels[int(logits.argmax())])
        assert found.after == pytest.approx({name: float(probabilities[result.labels.index(name)]) for name in found.after}, abs=1e-5)
        assert found.before[wanted] == pytest.approx(float(result.logits.softmax(0)[result.labels.index(wanted)]), abs=1e-5)
        assert found.is_reached == (found.leader == wanted)
        assert ("comes first, in place of" in str(found)) == found.is_reached
        if found.is_reached:
            reached += 1
            for back in gone:
                without = alone(model, tensors, [patch for patch in gone if patch != back])
                assert result.labels[int(without.argmax())] != wanted
    assert reached
    assert told
    assert all(done <= total for done, total in told)


def test_words_are_hidden_whole() -> None:
    model = text_model()
    result = explainers.explain(model, "not a good movie .", None, ["input_x_gradient"])
    other = next(label for label in result.labels if label != result.top(1)[0].label)
    found = explainers.counterfactual(model, result, other)
    shown: Any = result.input
    words = {word.tokens for word in shown.words}
    assert found.parts == len(words)
    assert set(found.hidden) <= words


def test_what_cannot_become_the_answer_is_refused() -> None:
    model = text_model()
    result = explainers.explain(model, "not a good movie .", None, ["input_x_gradient"])
    with pytest.raises(ExplainerError, match="already: ask for another class"):
        explainers.counterfactual(model, result, result.top(1)[0].label)
    with pytest.raises(ExplainerError, match="'gorilla' is no class of this model"):
        explainers.counterfactual(model, result, "gorilla")

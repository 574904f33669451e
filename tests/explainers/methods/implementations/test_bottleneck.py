"""NIB and M2IB on a tiny model of images and prompts, asked as anybody asks, and on models that compare nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.records.result import Attribution
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

PROMPTS = ["a good film", "not a good film"]
FEW = "m2ib?steps=3&draws=4"


@cache
def model(name: str = "hf-clip") -> explainers.Model:
    return explainers.wrap(FAMILIES[name].build().double(), tokenizer=wordpiece(16))


def maps(specs: list[str], target: Any = PROMPTS[0], **how: Any) -> list[Attribution]:
    pixels = {"pixel_values": inputs("hf-clip", 1)["pixel_values"]}
    found = explainers.explain(how.pop("model", model()), pixels, target=target, methods=specs, **how)
    return (found[0] if isinstance(found, list) else found).maps


@pytest.mark.parametrize("side", ["image", "text"])
def test_nib_is_integrated_gradients_at_the_block_in_units_of_the_cosine(side: Any) -> None:
    nib, path = maps(["nib?block=1&steps=7", "integrated_gradients?at=block:1&quadrature=riemann&steps=7"], side=side)
    scale = model().details["logit_scale"]
    torch.testing.assert_close(nib.scores * scale, path.scores)
    assert float(nib.scores.abs().max()) > 1e-4


def test_nib_of_a_contrast_is_the_difference_and_of_a_probability_is_not_scaled() -> None:
    first, second = (maps(["nib"], prompt, prompts=PROMPTS)[0].scores for prompt in PROMPTS)
    (contrast,) = maps(["nib"], explainers.Contrast(*PROMPTS))
    torch.testing.assert_close(contrast.scores, first - second)
    nib, path = maps(
        ["nib?block=1", "integrated_gradients?at=block:1&quadrature=riemann&steps=10"],
        explainers.Probability(PROMPTS[0]),
        prompts=PROMPTS,
    )
    torch.testing.assert_close(nib.scores, path.scores)


@pytest.mark.parametrize("side", ["image", "text"])
def test_m2ib_draws_by_its_seed_and_says_how_seeds_correlate(side: Any) -> None:
    first, again = (maps([FEW], side=side)[0] for _ in range(2))
    (other,) = maps([FEW], side=side, seed=1)
    assert torch.equal(first.scores, again.scores)
    assert not torch.equal(first.scores, other.scores)
    assert float(first.scores.min()) >= 0  # nats
    content = first.content
    assert first.seed_correlation is not None
    assert first.seed_correlation == pytest.approx(np.corrcoef(first.scores[content], other.scores[content])[0, 1], abs=0.3)


def test_nothing_passes_where_a_nat_costs_more_than_the_cosine_is_worth() -> None:
    """Without a cost what passes grows, since less noise keeps the cosine; a dear nat closes every gate."""
    dear, free = maps(["m2ib?beta=1000&steps=8", "m2ib?beta=0&steps=8"])
    assert bool((dear.scores[dear.content] < free.scores[free.content]).all())


def test_a_padded_prompt_has_the_map_that_it_has_alone() -> None:
    found = explainers.explain(
        model(), {"pixel_values": inputs("hf-clip", 1)["pixel_values"]}, target=PROMPTS, methods=["nib", FEW], side="text"
    )
    together = found[0] if isinstance(found, list) else found
    alone = maps(["nib", FEW], PROMPTS[0], side="text")
    for mine, its in zip([one for one in together.maps if one.target == PROMPTS[0]], alone, strict=True):
        torch.testing.assert_close(mine.scores, its.scores, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("spec", ["nib", "m2ib"])
@pytest.mark.parametrize("name", ["vit", "bert"])
def test_a_model_that_compares_nothing_is_refused_in_words(name: str, spec: str) -> None:
    with pytest.raises(ExplainerError, match="does not compare pictures with prompts by a cosine"):
        explainers.explain(wrapped(name), inputs(name, 1), target=1, methods=[spec])


@pytest.mark.parametrize(("name", "why"), [("m2ib", "it searches"), ("nib", "it is defined by the gradient")])
def test_both_follow_the_gradient_alone(name: str, why: str) -> None:
    with pytest.raises(ExplainerError, match=f"{name} makes no sense with the rule libra: {why}"):
        maps([f"{name}:libra"])


def test_heads_without_a_class_token_too() -> None:
    """SigLIP pools its patches by attention, and adds a number to the scaled cosine."""
    pixels = {"pixel_values": inputs("hf-siglip", 1)["pixel_values"]}
    found = explainers.explain(model("hf-siglip"), pixels, target=PROMPTS[0], methods=["nib", FEW])
    result = found[0] if isinstance(found, list) else found
    assert all(float(one.scores.abs().max()) > 0 for one in result.maps)

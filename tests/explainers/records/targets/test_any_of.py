"""Groups of classes as targets: their log-sum-exp, its gradient, and how classes and groups are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from explainers import AnyOf, Contrast, ExplainerError, Model, Probability, explain
from explainers.autograd.rules import RULES
from explainers.models.companion_files.calibration import Calibration
from explainers.models.labels import ClassEntry
from explainers.records.targets import Classes, find_class, find_group, parse_target, resolve
from tests.explainers.support.explained import LABELS, clip_model, image_model, picture

ENTRIES = (
    ClassEntry("Zebra", "animal", ("animal", "hoofed animal"), ("striped horse",)),
    ClassEntry("elephant", "animal", ("animal",), ("trunk",)),
    ClassEntry("Spoon", "Cutlery", ("Cutlery",), ("ladle", "scoop")),
    ClassEntry("fork", "Cutlery", ("Cutlery",), ("scoop",)),
    ClassEntry("dog", "animal", ("animal",), ("hound", "trunk")),
)
GROUPS = {"animal": (0, 1, 4), "hoofed animal": (0,), "cutlery": (2, 3)}
MEMBERS = [0, 1, 4]
PLAIN, RELEVANCE = "input_x_gradient", "transformer_attribution"


def grouped() -> Model:
    return replace(image_model(), classes=ENTRIES)


def test_the_groups_of_a_model_are_the_places_of_their_classes() -> None:
    model = grouped()
    assert model.groups == GROUPS
    assert model.synonyms["scoop"] == (2, 3)
    assert image_model().groups == {}


def twin(target: Any, logits: torch.Tensor, temperature: float = 1.0, lapse: float = 0.0) -> torch.Tensor:
    """f(x) of one sample, written another way."""
    p = torch.lerp((logits / temperature).softmax(-1), torch.full_like(logits, 1 / len(logits)), lapse)
    if isinstance(target, Probability):
        return p[MEMBERS].sum()
    if isinstance(target, Contrast):
        return logits[MEMBERS].exp().sum().log() - (logits[[2, 3]].exp().sum().log() if target.against == AnyOf("cutlery") else logits[2])
    return logits[MEMBERS].exp().sum().log()


TARGETS = [AnyOf("animal"), Contrast(AnyOf("animal"), AnyOf("cutlery")), Contrast(AnyOf("animal"), "Spoon"), Probability(AnyOf("animal"))]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("temperature", "lapse"), [(1.0, 0.0), (2.5, 0.0), (2.5, 0.2)])
def test_value_and_output_gradient_are_those_of_autograd(target: Any, temperature: float, lapse: float) -> None:
    logits = (3 * torch.randn(4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).requires_grad_()
    chosen = resolve(target, Classes(LABELS, GROUPS, calibration=Calibration(temperature, lapse=lapse)), logits)
    values = torch.stack([twin(target, row, temperature, lapse) for row in logits])
    torch.testing.assert_close(chosen.value(logits), values)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    torch.testing.assert_close(chosen.output_gradient(logits, RULES["gradient"]), gradient)
    later = chosen.repeat(2).only(3)
    torch.testing.assert_close(later.value(logits[1:2]), values[1:2])


def test_a_group_of_one_class_is_that_class() -> None:
    model = grouped()
    one, group = (explain(model, picture(), target=target, methods=[PLAIN, RELEVANCE]) for target in ("Zebra", AnyOf("Hoofed animal")))
    for spec in (PLAIN, RELEVANCE):
        torch.testing.assert_close(group[spec].scores, one[spec].scores)
    assert group.target.logit == pytest.approx(one.target.logit)
    assert group.target.probability == pytest.approx(one.target.probability)


def test_a_group_weighs_the_maps_of_its_classes_by_their_shares() -> None:
    model = grouped()
    every = explain(model, picture(), target=list(range(5)), methods=PLAIN)
    result = explain(model, picture(), target=AnyOf("animal"), methods=PLAIN)
    shares = every.logits[MEMBERS].softmax(0)
    expected = sum(share * every[PLAIN, place].scores for share, place in zip(shares, MEMBERS, strict=True))
    torch.testing.assert_close(result[PLAIN].scores, expected, rtol=1e-3, atol=1e-6)
    target = result.target
    assert (target.label, target.group, target.of, target.index) == ("any animal", "animal", "any:animal", None)
    assert target.logit == pytest.approx(float(every.logits[MEMBERS].logsumexp(0)))
    assert target.probability == pytest.approx(float(every.probabilities[MEMBERS].sum()))
    assert result[PLAIN].target == "any animal"


def test_a_relevance_rule_starts_with_one_divided_among_the_classes() -> None:
    logits = torch.randn(2, 5)
    begun = resolve(AnyOf("animal"), Classes(LABELS, GROUPS), logits).output_gradient(logits, RULES["deep_taylor"])
    torch.testing.assert_close(begun.sum(-1), torch.ones(2))
    assert torch.equal(begun[:, [2, 3]], torch.zeros(2, 2))
    result = explain(grouped(), picture(), target=AnyOf("animal"), methods=[RELEVANCE, "lrp"])
    assert all(bool(one.scores.isfinite().all()) for one in result.maps)


def test_a_full_account_of_a_group_adds_up_to_the_shares_of_its_logits() -> None:
    result = explain(grouped(), picture(), target=[AnyOf("animal"), Contrast(AnyOf("animal"), AnyOf("cutlery"))], methods="fullgrad:libra")
    assert result.completeness("libra") < 1e-4
    assert all(one.completeness_error is not None and one.completeness_error < 1e-4 for one in result.maps)


def test_a_contrast_and_a_probability_of_groups_name_them() -> None:
    found = explain(grouped(), picture(), target=[Contrast(AnyOf("animal"), AnyOf("Cutlery")), Probability(AnyOf("animal"))], methods=PLAIN)
    contrast, probability = found.targets
    assert (contrast.label, contrast.of, contrast.against) == ("any animal − any cutlery", "any:animal", "any:cutlery")
    logits = found.logits
    assert contrast.logit == pytest.approx(float(logits[MEMBERS].logsumexp(0) - logits[[2, 3]].logsumexp(0)), rel=1e-4)
    assert (probability.label, probability.of, probability.explains) == ("p(any animal)", "any:animal", "probability")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (AnyOf("animals"), "There is no group 'animals'; did you mean animal"),
        (AnyOf("furniture of the kitchen"), "the model has animal, cutlery, hoofed animal"),
        (AnyOf("zebra"), "'zebra' is a class, not a group"),
        ("animal", "'animal' is a group of classes, not a class: ask for any:animal"),
        ("scoop", "'scoop' may be Spoon or fork"),
        ("striped horses", "did you mean Zebra"),
        (Contrast(AnyOf("animal"), AnyOf("ANIMAL")), "any:animal' with itself"),
    ],
)
def test_what_is_no_group_or_class_is_refused_with_near_misses(target: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explain(grouped(), picture(), target=target, methods="random")


def test_a_model_without_groups_says_so() -> None:
    with pytest.raises(ExplainerError, match="has no groups of classes"):
        explain(image_model(), picture(), target=AnyOf("animal"), methods="random")
    with pytest.raises(ExplainerError, match="asked with prompts"):
        explain(clip_model(), picture(), target=AnyOf("animal"), methods="random")


def test_synonyms_name_a_class_where_they_name_one_alone() -> None:
    synonyms = grouped().synonyms
    assert find_class("Hound", LABELS, 5, synonyms) == 4
    assert find_class("hound", LABELS, 5, {"hound": (1,)}) == 1
    assert find_class("dog", LABELS, 5, {"dog": (1,)}) == 4  # a label goes before a synonym
    assert explain(grouped(), picture(), target="ladle", methods="random").target.label == "Spoon"


def test_targets_as_text() -> None:
    assert parse_target("any: dog ", LABELS) == AnyOf("dog")
    assert parse_target("any:dog", ["any:dog"]) == "any:dog"
    assert parse_target("3", LABELS) == 3
    assert parse_target("3", ["3"]) == "3"
    assert parse_target("fork", LABELS) == "fork"
    assert str(AnyOf("dog")) == "any:dog"
    assert list(find_group("ANIMAL", GROUPS)) == MEMBERS


def test_a_group_is_found_whatever_its_case_underscores_and_hyphens() -> None:
    groups = {"bird of prey": (0, 1), "sea-bird": (2,), "sea bird": (3,)}
    assert find_group("Bird_of-Prey", groups) == (0, 1)
    assert find_group("sea-bird", groups) == (2,)  # as it is written goes before as it is spelled
    with pytest.raises(ExplainerError):
        find_group("sea_bird", groups)  # it may be either

"""Several heads of a model of one's own: each by its name, with its own classes and meaning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import ExplainerError
from explainers.models.model import Model
from tests.explainers.support.explained import image_model, picture


class Heads(nn.Module):
    """A species, an age, the probabilities of colours, and a loss that is no head."""

    def __init__(self, form: str = "dict") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.form = image_model("vit").module, form
        self.species, self.age, self.colour = nn.Linear(5, 4), nn.Linear(5, 1), nn.Linear(5, 5)

    def forward(self, pixel_values: Tensor) -> Any:
        trunk = self.trunk(pixel_values)
        species, colour = self.species(trunk), self.colour(trunk).softmax(-1)
        heads = {"species": species, "age": self.age(trunk).squeeze(-1), "colour": colour, "loss": trunk.mean()}
        return heads if self.form == "dict" else tuple(heads.values())


def wrapped(form: str = "dict", **more: Any) -> Model:
    return explainers.wrap(Heads(form).eval(), kind="image", preprocess=explainers.Preprocessing(resize=(32, 24), fit="squash"), **more)


@pytest.fixture(scope="module")
def model() -> Model:
    return wrapped(labels={"species": ["cat", "dog", "fox", "owl"]})


@pytest.mark.parametrize(
    ("at", "meaning", "labels"),
    [
        ("species", "softmax", ["cat", "dog", "fox", "owl"]),
        ("age", "regression", ["age"]),
        ("colour", "softmax", [f"class {i}" for i in range(5)]),
    ],
)
def test_each_head_by_its_name(model: Model, at: str, meaning: str, labels: list[str]) -> None:
    result = explainers.explain(model, picture(), methods=["fullgrad:libra", "raw_attention"], at=at)
    with torch.no_grad():
        own = model.module(**result.tensors)[at][0]
    assert (result.output, result.labels, result.task) == (meaning, labels, "several-heads")
    given = result.probabilities if at == "colour" else result.logits  # a final softmax is taken off
    torch.testing.assert_close(given, own.reshape(-1), rtol=1e-5, atol=1e-6)
    assert result.completeness("libra") < 1e-6
    assert bool(result["raw_attention"].scores.any())
    test = explainers.deletion_test(model, result, fractions=(0.0, 0.5))
    assert (test.how, test.explains) == ("removed", "value" if at == "age" else "probability")


class OfPatchesToo(nn.Module):
    """A head of the class token, and one of the mean of the patches."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = image_model("vit").module
        width = self.trunk.embed_dim
        self.species, self.age = nn.Linear(width, 4), nn.Linear(width, 1)

    def forward(self, pixel_values: Tensor) -> Any:
        x = self.trunk.forward_features(pixel_values)
        return {"species": self.species(x[:, 0]), "age": self.age(x[:, 1:].mean(1))}


def test_maps_say_what_the_heads_read_together() -> None:
    preprocess = explainers.Preprocessing(resize=(32, 24), fit="squash")
    model = explainers.wrap(OfPatchesToo().eval(), kind="image", preprocess=preprocess)
    result = explainers.explain(model, picture(), methods="raw_attention", at="species")
    assert "The heads of this model together also read all of the other tokens" in " ".join(result["raw_attention"].notes)


def test_the_first_is_meant_and_a_note_says_so(model: Model) -> None:
    result = explainers.explain(model, picture(), methods="random")
    assert [place.at for place in result.places] == ["species", "age", "colour"]
    assert result.place.at == "species"
    assert result.places[0].says == result.target.label
    assert "The model has several outputs. This is species; the others are age, colour." in result.notes


def test_of_a_tuple_by_its_index_and_head_still_chooses() -> None:
    model, alone = wrapped("tuple"), wrapped("tuple", head=2, labels=list("abcde"))
    assert alone.task is None
    asked = explainers.explain(model, picture(), methods="input_x_gradient:libra", at="2")
    chosen = explainers.explain(alone, picture(), methods="input_x_gradient:libra")
    torch.testing.assert_close(asked.logits, chosen.logits)
    torch.testing.assert_close(asked["input_x_gradient:libra"].scores, chosen["input_x_gradient:libra"].scores)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["cat", "dog"], "a dict of lists by their names, or head= too"),
        ({"mood": ["good"]}, "names the outputs mood; the model gives species, age, colour"),
    ],
)
def test_labels_that_fit_no_head(labels: Any, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        wrapped(labels=labels)


def test_what_is_refused(model: Model) -> None:
    with pytest.raises(ExplainerError, match=r"names no place of this input.* species, age, colour"):
        explainers.explain(model, picture(), methods="random", at="mood")
    with pytest.raises(ExplainerError, match="2 names for the output age, which has 1 classes"):
        explainers.explain(wrapped(labels={"age": ["young", "old"]}), picture(), methods="random")
    with pytest.raises(ExplainerError, match="labels= as a dict is for models with several outputs"):
        explainers.wrap(image_model("vit").module, labels={"a": ["b"]})

"""A module is opened once, and what it became goes with it."""

from __future__ import annotations

import copy
import gc
import io
import weakref

import torch
from transformers import ViTConfig, ViTForImageClassification

import explainers
from explainers.self_check.opening import model_of
from explainers.self_check.sample import picture
from tests.support.own_models.case import vit


def test_a_module_is_opened_once_until_its_weights_change() -> None:
    module = vit()
    first = model_of(module)
    digest = first.weights_digest
    assert model_of(module) is first
    with torch.no_grad():
        next(module.parameters()).mul_(2)
    changed = model_of(module)
    assert changed is not first
    assert changed.weights_digest != digest


def test_what_was_said_at_opening_holds_for_the_module() -> None:
    module = vit()
    explainers.open(module, labels=["a", "b", "c", "d", "e"])
    assert explainers.explain(module, picture(), "c", methods="saliency").target.label == "c"


def test_it_goes_with_its_module() -> None:
    module = vit()
    opened, inside = weakref.ref(model_of(module)), weakref.ref(module)
    del module
    gc.collect()
    assert inside() is None
    assert opened() is None


def test_copies_and_files_of_the_module_are_without_it() -> None:
    module = vit()
    before = set(module.state_dict())
    model_of(module)
    data = io.BytesIO()
    torch.save(module, data)
    data.seek(0)
    for twin in (copy.deepcopy(module), torch.load(data, weights_only=False)):
        assert twin.__dict__["_vitrine_opened"] is None
        assert model_of(twin) is not model_of(module)
    assert set(module.state_dict()) == before


def test_one_line_from_module_and_picture_to_a_figure() -> None:
    assert explainers.explain(vit(), picture(), methods="fullgrad_plus:libra").figure().axes


def test_defaults_that_prepare_pictures_are_named_as_a_guess() -> None:
    """A transformers model whose processor was not saved with it."""
    config = ViTConfig(
        image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
    model = explainers.open(ViTForImageClassification(config), check="none")
    assert model.report is not None
    (guess,) = [guess for guess in model.report.guesses if guess.argument == "preprocess="]
    assert guess.why.startswith("the model does not say how to prepare its images, so the defaults of ViTImageProcessor")
